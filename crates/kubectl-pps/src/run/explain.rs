//! `explain`: why a Pod is where it is.

use kube::Client;
use pps_check::read::Right;
use serde_json::Value;

use super::status::commands;
use crate::args::{Connection, Explain};
use crate::cluster::connect;
use crate::cluster::read::{Wanted, get, read};
use crate::decide::explain::{Question, explain, wanting};
use crate::render::explanation::Document;
use crate::render::{self, Terminal};
use crate::snapshot::Scope;
use crate::{Failure, Outcome};

const WANTED: Wanted =
    Wanted { pods: true, nodes: true, other_pods: true, workloads: true, volumes: true, budgets: false };

pub(super) async fn run(
    args: &Explain,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    let connected = connect(connection).await?;
    let namespace = connected.namespace.as_str();
    let scope = Scope::Namespace(namespace.to_owned());
    let snapshot = Box::pin(read(&connected.client, &scope, WANTED)).await?;
    let pod = args.pod.as_str();
    let refusals = match wanting(&snapshot, namespace, pod) {
        Some(workload) if snapshot.pod(namespace, pod).is_none() => {
            refusals(&connected.client, namespace, workload.name()).await
        }
        _ => None,
    };
    let question = Question { snapshot: &snapshot, namespace, pod, refusals: refusals.as_deref() };
    let answer = explain(&question)?;
    let document = Document::of(&answer, &commands(connection, namespace));
    let text = render::for_programs(args.output.output, "Explanation", &document);
    terminal.print(&text.unwrap_or_else(|| document.text(terminal.style())))?;
    Ok(answer.outcome())
}

/// Why a workload could not create Pods, the newest first; none if Events cannot be read.
async fn refusals(client: &Client, namespace: &str, workload: &str) -> Option<Vec<String>> {
    let right = Right::new("list", "", "events").within(namespace);
    let selector = format!("involvedObject.name%3D{workload}%2Creason%3DFailedCreate");
    let path = format!("/api/v1/namespaces/{namespace}/events?fieldSelector={selector}&limit=500");
    let events = get(client, right, &path).await.ok()??;
    let when = |event: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let series = text(&event["series"]["lastObservedTime"]);
        series.max(text(&event["lastTimestamp"])).max(text(&event["eventTime"]))
    };
    let mut found: Vec<(String, String)> = events["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|event| Some((when(event), event["message"].as_str()?.to_owned())))
        .collect();
    found.sort();
    Some(found.into_iter().rev().map(|(_, message)| message).collect())
}
