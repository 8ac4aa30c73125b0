//! `simulate`: where Pods would go.

use std::collections::BTreeSet;
use std::path::Path;

use pps_manifest::yaml;
use serde_json::Value;

use super::file;
use super::status::{hand, scope};
use crate::args::{Connection, Output, Simulate};
use crate::cluster::connect;
use crate::cluster::read::{Wanted, read, read_budgets};
use crate::decide::forecast::{Question, forecast};
use crate::decide::workload_name::named;
use crate::print::{self, Terminal};
use crate::snapshot::{Index, Scope};
use crate::{Failure, Outcome};

const WANTED: Wanted = Wanted { pods: true, nodes: true, other_pods: true, workloads: true, volumes: true };

pub(super) async fn run(
    args: &Simulate,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    // A file that cannot be read needs no cluster.
    let objects = args.spec.as_deref().map(read_objects).transpose()?;
    let connected = connect(connection).await?;
    let is_all = args.all.all_namespaces;
    let scope = scope(is_all, &connected.namespace);
    let question = question(args, objects, &scope, &connected.namespace)?;
    let mut snapshot = Box::pin(read(&connected.client, &scope, WANTED)).await?;
    if matches!(question, Question::Drain(_)) {
        Box::pin(read_budgets(&connected.client, &mut snapshot)).await;
    }
    let index = Index::of(&snapshot);
    let only = args.workload.as_deref().map(|text| named(&snapshot, &index, text)).transpose()?;
    let answer = forecast(&snapshot, &question, only.as_deref(), &hand(connection, &connected.namespace))?;
    if let Some(text) = print::for_programs(args.output.output, "Forecast", &answer) {
        terminal.print(&text)?;
        return Ok(answer.outcome());
    }
    let is_wide = args.output.output == Output::Wide;
    let style = print::Style { width: terminal.style().width.filter(|_| !is_wide), ..terminal.style() };
    terminal.print(&print::forecast::forecast(&answer, style, is_wide, is_all))?;
    for unseen in &answer.unseen {
        terminal.say(&terminal.style_of_errors().note(unseen));
    }
    Ok(answer.outcome())
}

/// The objects of a file.
fn read_objects(path: &Path) -> Result<Vec<Value>, Failure> {
    let text = file::read(path)?;
    let documents = yaml::parse(&text).map_err(|error| {
        Failure::Unreadable(format!("{}: line {}: {}", file::name(path), error.place.line, error.message))
    })?;
    let mut objects = Vec::new();
    for document in documents {
        match document.value["items"].as_array() {
            Some(items) => objects.extend(items.iter().cloned()),
            None if document.value.is_null() => {}
            None => objects.push(document.value),
        }
    }
    if objects.is_empty() {
        return Err(Failure::Usage(format!("{} has no object", file::name(path))));
    }
    Ok(objects)
}

fn question(
    args: &Simulate,
    objects: Option<Vec<Value>>,
    scope: &Scope,
    namespace: &str,
) -> Result<Question, Failure> {
    if let Some(objects) = objects {
        let objects = objects.into_iter().map(|object| in_namespace(object, scope, namespace));
        return Ok(Question::Spec(objects.collect::<Result<_, _>>()?));
    }
    if let Some(zone) = &args.zone_down {
        return Ok(Question::ZoneDown(zone.clone()));
    }
    // Once for each node, in the order of the command line.
    let once = |nodes: &[String]| {
        let mut seen = BTreeSet::new();
        nodes.iter().filter(|node| seen.insert((*node).clone())).cloned().collect()
    };
    Ok(if args.drain.is_empty() {
        Question::WithoutNodes(once(&args.without_node))
    } else {
        Question::Drain(once(&args.drain))
    })
}

/// The object with a namespace, as kubectl apply would give it.
fn in_namespace(mut object: Value, scope: &Scope, namespace: &str) -> Result<Value, Failure> {
    let own = object["metadata"]["namespace"].as_str().filter(|own| !own.is_empty()).map(str::to_owned);
    let own = own.unwrap_or_else(|| namespace.to_owned());
    if !scope.contains(&own) {
        return Err(Failure::Usage(format!(
            "the file has an object of namespace {own}, and {namespace} is asked about: use -n {own} or -A"
        )));
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("namespace".into(), own.into());
    }
    Ok(object)
}
