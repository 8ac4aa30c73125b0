//! `status`: where each Pod is, and where it is recorded.

use pps_check::gather::gather_recorder;
use pps_check::rules::silent_recorder;

use crate::args::{Connection, Output, Status};
use crate::cluster::connect;
use crate::cluster::read::{Wanted, namespaces_with_pps, read};
use crate::decide::hand::Hand;
use crate::decide::status::status;
use crate::print::{self, Terminal};
use crate::snapshot::Scope;
use crate::{Failure, Outcome};

const WANTED: Wanted = Wanted { pods: true, nodes: true, other_pods: false, workloads: true, volumes: false };

pub(super) async fn run(
    args: &Status,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    let connected = connect(connection).await?;
    let scope = scope(args.all.all_namespaces, &connected.namespace);
    let snapshot = Box::pin(read(&connected.client, &scope, WANTED)).await?;
    let hand = hand(connection, &connected.namespace);
    let mut answer = status(&snapshot, args.workload.as_deref(), &hand)?;
    if answer.governed > 0
        && let Some(finding) = silent_recorder(&gather_recorder(&connected.client).await)
    {
        answer.is_not_recorded(&finding, &hand);
    }
    if answer.is_empty() && scope != Scope::All {
        answer.point_to(&Box::pin(namespaces_with_pps(&connected.client)).await, &hand);
    }
    if let Some(text) = print::for_programs(args.output.output, "Status", &answer) {
        terminal.print(&text)?;
        return Ok(answer.outcome());
    }
    let is_wide = args.output.output == Output::Wide;
    let style = print::Style { width: terminal.style().width.filter(|_| !is_wide), ..terminal.style() };
    terminal.print(&print::status::status(&answer, style, is_wide, scope == Scope::All))?;
    for unseen in &answer.unseen {
        terminal.say(&terminal.style_of_errors().note(unseen));
    }
    Ok(answer.outcome())
}

/// Which namespaces a command reads.
pub(super) fn scope(is_all: bool, namespace: &str) -> Scope {
    if is_all { Scope::All } else { Scope::Namespace(namespace.to_owned()) }
}

/// How the answer names commands.
pub(super) fn hand(connection: &Connection, namespace: &str) -> Hand {
    Hand {
        own_namespace: connection.namespace.is_none().then(|| namespace.to_owned()),
        context: connection.context.clone(),
        kubeconfig: connection.kubeconfig.as_ref().map(|path| path.display().to_string()),
    }
}
