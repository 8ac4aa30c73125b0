//! `simulate`: where Pods would go.

use std::collections::BTreeSet;

use pps_manifest::text::MAX_BYTES;
use serde_json::Value;

use super::file;
use super::{commands, scope};
use crate::args::{Connection, Output, Simulate};
use crate::cluster::connect;
use crate::cluster::read::{Wanted, read};
use crate::decide::forecast::{Question, forecast};
use crate::decide::workload_name::named;
use crate::render::{self, Terminal};
use crate::snapshot::{Index, Scope};
use crate::{Failure, Outcome};

const WANTED: Wanted =
    Wanted { pods: true, nodes: true, other_pods: true, workloads: true, volumes: true, budgets: false };

pub(super) async fn run(
    args: &Simulate,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    // A file that cannot be read needs no cluster.
    let objects = args.spec.as_deref().map(|path| file::objects(path, MAX_BYTES)).transpose()?;
    let connected = connect(connection).await?;
    let is_all = args.all.all_namespaces;
    let scope = scope(is_all, &connected.namespace);
    let question = question(args, objects, &scope, &connected.namespace)?;
    let wanted = Wanted { budgets: matches!(question, Question::Drain(_)), ..WANTED };
    let snapshot = Box::pin(read(&connected.client, &scope, wanted)).await?;
    let index = Index::of(&snapshot);
    let only = args.workload.as_deref().map(|text| named(&snapshot, &index, text)).transpose()?;
    let commands = commands(connection, &connected.namespace);
    let answer = forecast(&snapshot, &question, only.as_deref(), &commands)?;
    if let Some(text) = render::for_programs(args.output.output, "Forecast", &answer) {
        terminal.print(&text)?;
        return Ok(answer.outcome());
    }
    let is_wide = args.output.output == Output::Wide;
    let style = render::Style { width: terminal.style().width.filter(|_| !is_wide), ..terminal.style() };
    terminal.print(&render::forecast::forecast(&answer, style, is_wide, is_all, &commands))?;
    for unread in &answer.unread {
        terminal.say(&terminal.style_of_errors().note(&render::forecast::unread(unread)));
    }
    Ok(answer.outcome())
}

fn question(
    args: &Simulate,
    objects: Option<Vec<Value>>,
    scope: &Scope,
    namespace: &str,
) -> Result<Question, Failure> {
    if let Some(objects) = objects {
        if objects.is_empty() {
            return Err(Failure::Usage("the file has no object".into()));
        }
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
