//! `check`: what is wrong with the installation.

use std::io::{self, IsTerminal};

use pps_check::report::WIDTH;
use pps_check::{NAMESPACE, Settings};

use crate::args::{Check, Connection};
use crate::cluster::connect;
use crate::render::Terminal;
use crate::{Failure, Outcome};

pub(super) async fn run(
    args: &Check,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    let connected = connect(connection).await?;
    // The namespace of a context is that of the user's workloads.
    let namespace = connection.namespace.as_deref().unwrap_or(NAMESPACE);
    // Whoever looks at a terminal for seconds wants to know why.
    if io::stderr().is_terminal() {
        terminal
            .say("Reading the installation, and waiting for 5 seconds to see whether its Lease is renewed …");
    }
    let width = terminal.style().width.unwrap_or(WIDTH);
    let settings =
        Settings { namespace: namespace.to_owned(), runs_in_cluster: false, ..args.settings.clone() };
    let report = Box::pin(pps_check::args::run(&connected.client, settings, args.output, width)).await;
    terminal.print(&report.text)?;
    Ok(match report.exit_code {
        0 => Outcome::Well,
        1 => Outcome::NotWell,
        _ => Outcome::Incomplete,
    })
}
