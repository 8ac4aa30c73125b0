//! `simulate`: where Pods would go.

use super::{commands, scope};
use crate::args::{Connection, Simulate};
use crate::cluster::connect;
use crate::cluster::read::{Wanted, read};
use crate::decide::forecast::{Question, forecast};
use crate::render::{self, Terminal};
use crate::{Failure, Outcome};

pub(super) async fn run(
    args: &Simulate,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    let connected = connect(connection).await?;
    let is_all = args.all.all_namespaces;
    let scope = scope(is_all, &connected.namespace);
    let question = match &args.zone_down {
        Some(zone) => Question::ZoneDown(zone.clone()),
        None if args.drain.is_empty() => Question::WithoutNodes(args.without_node.iter().cloned().collect()),
        None => Question::Drain(args.drain.iter().cloned().collect()),
    };
    let budgets = !args.drain.is_empty();
    let wanted =
        Wanted { pods: true, nodes: true, other_pods: true, workloads: true, volumes: true, budgets };
    let snapshot = Box::pin(read(&connected.client, &scope, wanted)).await?;
    let answer = forecast(&snapshot, &question)?;
    let text = render::for_programs(args.output.output, "Forecast", &answer);
    let commands = commands(connection, &connected.namespace);
    terminal.print(
        &text.unwrap_or_else(|| render::forecast::forecast(&answer, terminal.style(), is_all, &commands)),
    )?;
    for unread in &answer.unread {
        terminal.note(&render::forecast::unread(unread));
    }
    Ok(answer.outcome())
}
