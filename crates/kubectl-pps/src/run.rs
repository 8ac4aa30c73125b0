//! Runs the commands: one file for each. Each reads, lets [`decide`](crate::decide) decide, shows, asks and
//! writes.

mod answers;
mod export;
mod file;
mod forget;
mod import;
mod move_pod;
mod nodes;
mod rights;
mod simulate;
mod states;

use serde_json::json;

use crate::args::{Cli, Command, Connection, Version, candidates, script};
use crate::decide::command_line::CommandLine;
use crate::render::{Terminal, for_programs};
use crate::snapshot::Scope;
use crate::{Failure, Outcome};

/// Runs a command.
///
/// # Errors
///
/// If it gives no answer, or does not do what it was to do.
pub async fn run(cli: &Cli, terminal: &Terminal) -> Result<Outcome, Failure> {
    Box::pin(command(cli, terminal)).await.map_err(|failure| match failure {
        Failure::NoDefinition => failure.with(&commands(&cli.connection, "").check()),
        failure => failure,
    })
}

async fn command(cli: &Cli, terminal: &Terminal) -> Result<Outcome, Failure> {
    let connection = &cli.connection;
    match &cli.command {
        Command::Check(args) => Box::pin(answers::check(args, connection, terminal)).await,
        Command::Explain(args) => Box::pin(answers::explain(args, connection, terminal)).await,
        Command::Complete(args) => terminal.print(&candidates(&args.words)).map(|()| Outcome::Well),
        Command::Completion(args) => terminal.print(&script(&args.shell)).map(|()| Outcome::Well),
        Command::Export(args) => export::run(args, connection, terminal).await,
        Command::Forget(args) => forget::run(args, connection, terminal).await,
        Command::Import(args) => import::run(args, connection, terminal).await,
        Command::Move(args) => move_pod::run(args, connection, terminal).await,
        Command::Simulate(args) => simulate::run(args, connection, terminal).await,
        Command::Status(args) => Box::pin(answers::status(args, connection, terminal)).await,
        Command::Version(args) => terminal.print(&version(*args)).map(|()| Outcome::Well),
    }
}

/// Which namespaces a command reads.
fn scope(is_all: bool, namespace: &str) -> Scope {
    if is_all { Scope::All } else { Scope::Namespace(namespace.to_owned()) }
}

/// How an answer names commands.
fn commands(connection: &Connection, namespace: &str) -> CommandLine {
    CommandLine {
        own_namespace: connection.namespace.is_none().then(|| namespace.to_owned()),
        context: connection.context.clone(),
        kubeconfig: connection.kubeconfig.as_ref().map(|path| path.display().to_string()),
    }
}

fn version(args: Version) -> String {
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    let answer = json!({"clientVersion": {"gitVersion": version, "platform": platform}});
    let text = for_programs(args.output.output, "Version", &answer);
    text.unwrap_or_else(|| format!("Client Version: {version}\n"))
}
