//! The program: parses the command line, runs the sidecar, and turns the result into an exit code.

use std::process::ExitCode;

use clap::Parser;
use pps_sidecar::args::{Args, Command};
use pps_sidecar::run;

/// The exit code of a check that could not be made.
const NOT_CHECKED: u8 = 2;

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(Command::Check(check)) = &args.command {
        return match run::check(check) {
            Ok(exit_code) => exit_code.into(),
            Err(error) => {
                eprintln!("pps-sidecar check: {}", format_error(&error));
                NOT_CHECKED.into()
            }
        };
    }
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
