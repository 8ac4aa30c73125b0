//! The program: parses the command line, runs the sidecar, and turns the result into an exit code.

use std::process::ExitCode;

use clap::Parser;
use pps_sidecar::args::Args;
use pps_sidecar::run;

fn main() -> ExitCode {
    let args = Args::parse();
    match run::run_to_completion(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pps-sidecar: {}", format_error(&error));
            ExitCode::FAILURE
        }
    }
}

/// Joins an error and its causes, and omits a cause that the text before it already contains.
fn format_error(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        known if known.contains(&cause) => text,
        known => format!("{known}: {cause}"),
    })
}
