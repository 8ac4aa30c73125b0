//! The program: parses the command line, runs the sidecar, and turns the result into an exit code.

use std::process::ExitCode;

use clap::Parser;
use pps_sidecar::args::{Args, Command};
use pps_sidecar::run;

/// The exit code of a check that could not be made.
const NOT_CHECKED: u8 = 2;

fn main() -> ExitCode {
    let args = Args::parse();
    let (program, code, result) = match &args.command {
        Some(Command::Check(check)) => ("pps-sidecar check", NOT_CHECKED, run::check(check)),
        None => ("pps-sidecar", 1, run::run_to_completion(&args).map(|()| 0)),
    };
    let code = result.unwrap_or_else(|error| {
        eprintln!("{program}: {error:#}");
        code
    });
    code.into()
}
