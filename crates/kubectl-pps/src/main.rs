//! The program: parses the command line, runs the command, and turns the result into an exit code.

use std::process::ExitCode;

use clap::Parser;
use kubectl_pps::args::Cli;
use kubectl_pps::render::Terminal;
use kubectl_pps::{Failure, run};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let terminal = Terminal::of_process();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&terminal, &Failure::Unreadable(format!("cannot start: {error}"))),
    };
    match runtime.block_on(run::run(&cli, &terminal)) {
        Ok(outcome) => outcome.exit_code().into(),
        Err(failure) => report(&terminal, &failure),
    }
}

fn report(terminal: &Terminal, failure: &Failure) -> ExitCode {
    terminal.error(&failure.to_string());
    failure.exit_code().into()
}
