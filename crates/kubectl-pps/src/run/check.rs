//! `check`: what is wrong with the installation.

use pps_check::args::NAMESPACE;

use crate::args::{Check, Connection};
use crate::cluster::connect;
use crate::print::Terminal;
use crate::{Failure, Outcome};

pub(super) async fn run(
    args: &Check,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    let connected = connect(connection).await?;
    // The namespace of a context is that of the user's workloads.
    let namespace = connection.namespace.as_deref().unwrap_or(NAMESPACE);
    let report = args.options.run(&connected.client, namespace, false, args.output).await;
    terminal.print(&report.text)?;
    Ok(match report.exit_code {
        0 => Outcome::Well,
        1 => Outcome::NotWell,
        _ => Outcome::Incomplete,
    })
}
