//! `status`: where each Pod is, and where it is recorded.

use pps_check::silent_recorder;

use crate::args::{Connection, Output, Status};
use crate::cluster::connect;
use crate::cluster::read::{Wanted, namespaces_with_pps, read};
use crate::decide::command_line::CommandLine;
use crate::decide::status::{AdviceKind, status};
use crate::render::status::Document;
use crate::render::{self, Terminal};
use crate::snapshot::{Pod, Scope};
use crate::{Failure, Outcome};

const WANTED: Wanted =
    Wanted { pods: true, nodes: true, workloads: true, other_pods: false, volumes: false, budgets: false };

pub(super) async fn run(
    args: &Status,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    let connected = connect(connection).await?;
    let scope = scope(args.all.all_namespaces, &connected.namespace);
    let snapshot = Box::pin(read(&connected.client, &scope, WANTED)).await?;
    let commands = commands(connection, &connected.namespace);
    let explain = |pod: &Pod| commands.pps(&format!("explain {}", pod.name()), pod.namespace());
    let mut answer = status(&snapshot, args.workload.as_deref(), explain)?;
    if answer.governed > 0
        && let Some(finding) = silent_recorder(&connected.client).await
    {
        answer.add(AdviceKind::NobodyRecords(finding));
    }
    if answer.is_empty() && scope != Scope::All {
        let namespaces = Box::pin(namespaces_with_pps(&connected.client)).await;
        if !namespaces.is_empty() {
            answer.add(AdviceKind::Elsewhere(namespaces));
        }
    }
    let document = Document::of(&answer, &scope, &commands);
    if let Some(text) = render::for_programs(args.output.output, "Status", &document) {
        terminal.print(&text)?;
        return Ok(answer.outcome());
    }
    let is_wide = args.output.output == Output::Wide;
    let style = render::Style { width: terminal.style().width.filter(|_| !is_wide), ..terminal.style() };
    terminal.print(&document.text(style, is_wide, scope == Scope::All))?;
    for unread in &document.unread {
        terminal.say(&terminal.style_of_errors().note(unread));
    }
    Ok(answer.outcome())
}

/// Which namespaces a command reads.
pub(super) fn scope(is_all: bool, namespace: &str) -> Scope {
    if is_all { Scope::All } else { Scope::Namespace(namespace.to_owned()) }
}

/// How the answer names commands.
pub(super) fn commands(connection: &Connection, namespace: &str) -> CommandLine {
    CommandLine {
        own_namespace: connection.namespace.is_none().then(|| namespace.to_owned()),
        context: connection.context.clone(),
        kubeconfig: connection.kubeconfig.as_ref().map(|path| path.display().to_string()),
    }
}
