//! The commands that only read: `check`, `explain`, `simulate` and `status`.

use std::io::{self, IsTerminal};

use pps_check::read::Right;
use pps_check::reader::CHECK_LIMITS;
use pps_check::report::{KIND, WIDTH};
use pps_check::{NAMESPACE, Settings, silent_recorder};
use serde_json::Value;

use super::{commands, namespaces, read_confirmed};
use crate::args::{Check, Connection, Explain, Output, Simulate, Status};
use crate::cluster::read::{Wanted, get, read};
use crate::cluster::{Client, connect};
use crate::decide::explain::Question;
use crate::decide::subject::wanting;
use crate::decide::{explain, forecast, status};
use crate::render::status::Columns;
use crate::render::{self, Style, Terminal, explanation};
use crate::snapshot::Namespaces;
use crate::{CommandResult, Outcome};

pub(super) async fn check(
    args: &Check,
    connection: &Connection,
    terminal: &Terminal,
) -> CommandResult {
    let connected = connect(connection).await?;
    // The namespace of a context has the user's workloads, not the sidecar.
    let namespace = connection.namespace.as_deref().unwrap_or(NAMESPACE);
    // A user at a terminal should know why nothing happens for seconds.
    if io::stderr().is_terminal() {
        terminal.say(
            "Reading the installation, and waiting for 5 seconds to see whether its Lease is \
             renewed …",
        );
    }
    let width = terminal.style().width.unwrap_or(WIDTH);
    let client = &connected.client;
    let settings = Settings {
        namespace: namespace.to_owned(),
        limits: client.limits(CHECK_LIMITS),
        cluster: commands(connection, namespace).cluster(),
        runs_in_cluster: false,
        ..args.settings.clone()
    };
    let report = Box::pin(pps_check::args::run(&client.kube, settings, width)).await;
    let text = render::for_programs(args.output.output, KIND, &report.document);
    terminal.print(&text.unwrap_or(report.text))?;
    Ok(match report.exit_code {
        0 => Outcome::Well,
        1 => Outcome::NotWell,
        _ => Outcome::Incomplete,
    })
}

pub(super) async fn explain(
    args: &Explain,
    connection: &Connection,
    terminal: &Terminal,
) -> CommandResult {
    let connected = connect(connection).await?;
    let namespace = connected.namespace.as_str();
    let namespaces = Namespaces::One(namespace.to_owned());
    let snapshot = read_confirmed(&connected.client, &namespaces, Wanted::SCHEDULING).await?;
    let pod = args.pod.as_str();
    let events = match wanting(&snapshot, namespace, pod) {
        Some(workload) if snapshot.pod(namespace, pod).is_none() => {
            events(&connected.client, namespace, workload.name()).await
        }
        _ => Value::Null,
    };
    let question = Question {
        snapshot: &snapshot,
        namespace,
        pod,
        events: &events,
    };
    let answer = explain::explain(&question)?;
    let document = explanation::Document::of(&answer, &commands(connection, namespace));
    let text = render::for_programs(args.output.output, "Explanation", &document);
    terminal.print(&text.unwrap_or_else(|| document.text(terminal.style())))?;
    Ok(answer.outcome())
}

/// The Events about a StatefulSet, as far as they can be read.
async fn events(client: &Client, namespace: &str, name: &str) -> Value {
    let right = Right::new("list", "", "events").within(namespace);
    let selector = format!("involvedObject.kind%3DStatefulSet%2CinvolvedObject.name%3D{name}");
    let path = format!("/api/v1/namespaces/{namespace}/events?fieldSelector={selector}&limit=500");
    get(client, right, &path)
        .await
        .ok()
        .flatten()
        .unwrap_or_default()
}

pub(super) async fn simulate(
    args: &Simulate,
    connection: &Connection,
    terminal: &Terminal,
) -> CommandResult {
    let connected = connect(connection).await?;
    let namespaces = namespaces(args.all.all_namespaces, &connected.namespace);
    let question = match &args.zone_down {
        Some(zone) => forecast::Question::ZoneDown(zone.clone()),
        None if args.drain.is_empty() => {
            forecast::Question::WithoutNodes(args.without_node.iter().cloned().collect())
        }
        None => forecast::Question::Drain(args.drain.iter().cloned().collect()),
    };
    let wanted = Wanted {
        budgets: !args.drain.is_empty(),
        ..Wanted::SCHEDULING
    };
    let snapshot = Box::pin(read(&connected.client, &namespaces, wanted)).await?;
    let answer = forecast::forecast(&snapshot, &question)?;
    let commands = commands(connection, &connected.namespace);
    let text = render::for_programs(args.output.output, "Forecast", &answer);
    terminal.print(&text.unwrap_or_else(|| {
        render::forecast::forecast(
            &question,
            &answer,
            terminal.style(),
            namespaces == Namespaces::All,
            &commands,
        )
    }))?;
    Ok(answer.outcome())
}

pub(super) async fn status(
    args: &Status,
    connection: &Connection,
    terminal: &Terminal,
) -> CommandResult {
    let connected = connect(connection).await?;
    let client = &connected.client;
    let namespaces = namespaces(args.all.all_namespaces, &connected.namespace);
    let selector = args
        .selector
        .as_deref()
        .filter(|selector| !selector.is_empty());
    let wanted = Wanted {
        pods: true,
        workloads: true,
        selector: selector.unwrap_or_default(),
        ..Wanted::default()
    };
    let snapshot = read_confirmed(client, &namespaces, wanted).await?;
    let commands = commands(connection, &connected.namespace);
    let mut answer = status::status(&snapshot, args.workload.as_deref(), selector, &commands)?;
    if answer.governed > 0 {
        let limits = client.limits(CHECK_LIMITS);
        answer.silence = silent_recorder(&client.kube, namespaces.one(), limits).await;
    }
    if args.problems {
        answer.retain_problems();
    }
    let document = render::status::Document::of(&answer, &namespaces, &commands);
    if let Some(text) = render::for_programs(args.output, "Status", &document) {
        terminal.print(&text)?;
        return Ok(answer.outcome());
    }
    let style = terminal.style();
    let is_all = namespaces == Namespaces::All;
    let columns = match args.output {
        Output::Wide => Columns::Wide,
        _ if is_all && args.workload.is_none() && !args.problems => Columns::Workloads,
        _ => Columns::Pods,
    };
    let width = style.width.filter(|_| columns != Columns::Wide);
    terminal.print(&document.text(Style { width, ..style }, columns, is_all))?;
    for unread in &document.unread {
        terminal.note(unread);
    }
    Ok(answer.outcome())
}
