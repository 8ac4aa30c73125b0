//! The program: the command line to a run, and the outcome to an exit code.

use std::process::ExitCode;

use clap::Parser;
use pps_sidecar::args::Args;
use pps_sidecar::run;

fn main() -> ExitCode {
    let args = Args::parse();
    match run::run_to_completion(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pps-sidecar: {}", sentence(&error));
            ExitCode::FAILURE
        }
    }
}

/// An error with its causes; one that the text before it tells already is left out.
fn sentence(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        known if known.contains(&cause) => text,
        known => format!("{known}: {cause}"),
    })
}
