//! The program: parses the command line, runs the command, and turns the result into an exit code.

use std::process::ExitCode;

use clap::Parser;
use kubectl_pps::args::Cli;
use kubectl_pps::render::Terminal;
use kubectl_pps::{Failure, run};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let terminal = Terminal::of_process();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| Failure::Unreadable(format!("cannot start: {error}")));
    match runtime.and_then(|runtime| runtime.block_on(run::run(&cli, &terminal))) {
        Ok(outcome) => outcome.exit_code().into(),
        Err(failure) => {
            terminal.error(&failure.to_string());
            failure.exit_code().into()
        }
    }
}
