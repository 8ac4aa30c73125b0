//! Runs the commands: one file for each. Each reads, lets [`decide`](crate::decide) decide, shows, asks and writes.

mod attempt;
mod check;
mod completion;
mod explain;
mod export;
pub mod file;
mod forget;
mod import;
mod move_pod;
mod nodes;
mod pin;
mod replace_file;
mod rights;
mod simulate;
mod states;
mod status;
mod subject;
mod unpin;
mod version;
mod workload;

use crate::args::{Cli, Command};
use crate::print::Terminal;
use crate::{Failure, Outcome};

/// Runs a command.
///
/// # Errors
///
/// If it gives no answer, or does not do what it was to do.
pub async fn run(cli: &Cli, terminal: &Terminal) -> Result<Outcome, Failure> {
    let hand = status::hand(&cli.connection, "");
    Box::pin(command(cli, terminal)).await.map_err(|failure| failure.or_check(&hand))
}

async fn command(cli: &Cli, terminal: &Terminal) -> Result<Outcome, Failure> {
    let connection = &cli.connection;
    match &cli.command {
        Command::Try(args) => attempt::run(args, connection, terminal),
        Command::Check(args) => check::run(args, connection, terminal).await,
        Command::Explain(args) => Box::pin(explain::run(args, connection, terminal)).await,
        Command::Complete(args) => completion::complete(args, terminal),
        Command::Completion(args) => completion::run(args, terminal),
        Command::Export(args) => export::run(args, connection, terminal).await,
        Command::Forget(args) => forget::run(args, connection, terminal).await,
        Command::Import(args) => import::run(args, connection, terminal).await,
        Command::Move(args) => move_pod::run(args, connection, terminal).await,
        Command::Pin(args) => pin::run(args, connection, terminal).await,
        Command::Simulate(args) => simulate::run(args, connection, terminal).await,
        Command::Status(args) => Box::pin(status::run(args, connection, terminal)).await,
        Command::Unpin(args) => unpin::run(args, connection, terminal).await,
        Command::Version(args) => version::run(*args, terminal),
    }
}
