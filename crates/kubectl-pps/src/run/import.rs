//! `import`: recorded states from a file into the cluster.

use std::collections::BTreeSet;

use futures::StreamExt;
use kube::Client;
use pps_check::read::Right;
use pps_core::edit::{self, EditError};
use pps_core::pps::{GROUP, PLURAL};
use serde_json::{Value, json};

use super::states::{Address, TRIES, publish};
use super::{file, rights};
use crate::args::{Connection, Import};
use crate::cluster::read::{Wanted, nodes, read_lists};
use crate::cluster::write::{self, Note, Write, WriteError};
use crate::cluster::{Connected, connect};
use crate::decide::import::{
    Action, Blocked, Entry, Known, Options, Plan, absent_values, compact_status, next_write, plan, read,
};
use crate::render::Terminal;
use crate::render::import as show;
use crate::snapshot::{Resource, Scope};
use crate::{Failure, Outcome};

/// The largest file that is read, in bytes.
const MAX_FILE: usize = 64 << 20;
/// With more namespaces than this, all are read at once.
const MAX_READS: usize = 20;
/// How many objects are written at a time.
const WRITERS: usize = 8;

pub(super) async fn run(
    args: &Import,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    let objects = file::objects(&args.file, MAX_FILE)?;
    let connected = connect(connection).await?;
    let options = Options {
        from_namespace: args.from_namespace.clone(),
        namespace: connection.namespace.clone(),
        default_namespace: connected.namespace.clone(),
        drop_keys: args.drop_key.clone(),
    };
    let name = file::name(&args.file);
    let entries = read(&objects, &options).map_err(|flaws| show::flaws(&name, &flaws))?;
    drop(objects);
    if entries.is_empty() {
        return Err(Failure::Refused(format!("{name}: there is nothing to import")));
    }
    let known = Box::pin(read_cluster(&connected, &entries, args.overwrite, terminal)).await?;
    let plans = plan(&entries, &known, args.overwrite);
    terminal.print(&show::plans(terminal.style(), &plans))?;
    let mut notes: Vec<String> = plans.iter().flat_map(show::notes).collect();
    // The right to list nodes is needed for nothing else.
    if plans.iter().any(|plan| !plan.changes.is_empty())
        && let Some(nodes) = nodes(&connected.client).await
    {
        notes.extend(show::absent_values(&absent_values(&plans, &entries, &known, &nodes)));
    }
    for note in notes {
        terminal.say(&terminal.style_of_errors().note(&note));
    }
    let is_refused =
        plans.iter().any(|plan| matches!(plan.action, Action::Refuse(_)) || !plan.unwanted.is_empty());
    let outcome = if is_refused { Outcome::NotWell } else { Outcome::Well };
    if !plans.iter().any(Plan::writes) {
        terminal.say("nothing to do");
        return Ok(outcome);
    }
    rights::require(&connected.client, &needed(&plans)).await?;
    if args.consent.dry_run {
        terminal.say("dry run: nothing was changed");
        return Ok(outcome);
    }
    if !terminal.ask(&show::question(&plans), args.consent)? {
        terminal.say("nothing was changed");
        return Ok(Outcome::NotWell);
    }
    let writer = Writer { client: &connected.client, terminal, overwrite: args.overwrite };
    let done: Vec<(&Plan, Result<usize, Failure>)> =
        futures::stream::iter(plans.iter().filter(|plan| plan.writes()))
            .map(async |plan| (plan, writer.write(plan).await))
            .buffer_unordered(WRITERS)
            .collect()
            .await;
    let (states, failure) = show::done(&done);
    terminal.say(&states);
    failure.map_or(Ok(outcome), Err)
}

/// The rights to write, of some namespaces: with very many, the writes themselves tell.
fn needed(plans: &[Plan]) -> Vec<(Right, &'static str)> {
    let namespaces = |is_meant: &dyn Fn(&&Plan) -> bool| -> BTreeSet<&str> {
        plans.iter().filter(is_meant).map(|plan| plan.namespace.as_str()).take(MAX_READS).collect()
    };
    let creates = namespaces(&|plan| matches!(plan.action, Action::Create(_)));
    let writes = namespaces(&|plan| !plan.changes.is_empty());
    let right = |verb, resource: &str, namespace: &str| Right::new(verb, GROUP, resource).within(namespace);
    let create = |namespace| (right("create", PLURAL, namespace), "create PersistentPodStates");
    let get = |namespace| (right("get", PLURAL, namespace), "read an object again before it is written");
    let patch = |namespace| (right("patch", &format!("{PLURAL}/status"), namespace), "write recorded states");
    let writes = writes.into_iter().flat_map(|namespace| [get(namespace), patch(namespace)]);
    creates.into_iter().map(create).chain(writes).collect()
}

/// Reads the namespaces of these entries. Without the right to list Pods or workloads, says what it means.
async fn read_cluster(
    connected: &Connected,
    entries: &[Entry],
    overwrite: bool,
    terminal: &Terminal,
) -> Result<Known, Failure> {
    let namespaces: BTreeSet<&String> = entries.iter().map(|entry| &entry.namespace).collect();
    let scopes: Vec<Scope> = if namespaces.len() > MAX_READS {
        vec![Scope::All]
    } else {
        namespaces.into_iter().cloned().map(Scope::Namespace).collect()
    };
    let mut known = Known { pods: Some(Vec::new()), ..Known::default() };
    let wanted = Wanted { pods: true, workloads: true, ..Wanted::default() };
    for scope in &scopes {
        let snapshot = Box::pin(read_lists(&connected.client, scope, wanted)).await?;
        for unread in snapshot.relevant_unread() {
            let effect = match unread.resource {
                Resource::Pods if !overwrite => {
                    known.pods = None;
                    "a Pod that is Ready is not recognized"
                }
                Resource::StatefulSets | Resource::KruiseStatefulSets => {
                    "a state whose Pod is not wanted is not recognized"
                }
                // Without the Pods, the state of a Ready one could be overwritten.
                _ => return Err(Failure::Unreadable(format!("{unread}; nothing was changed"))),
            };
            terminal.say(&terminal.style_of_errors().note(&format!("{unread}: {effect}")));
        }
        known.pps.extend(snapshot.pps);
        known.workloads.extend(snapshot.workloads);
        known.pods = known.pods.map(|pods| [pods, snapshot.pods].concat());
    }
    Ok(known)
}

/// Carries out what the user has agreed to, one object at a time.
struct Writer<'a> {
    client: &'a Client,
    terminal: &'a Terminal,
    overwrite: bool,
}

impl Writer<'_> {
    /// Returns how many states were written.
    async fn write(&self, plan: &Plan) -> Result<usize, Failure> {
        let (namespace, name) = (plan.namespace.as_str(), plan.name.as_str());
        let (address, created) = match &plan.action {
            Action::Create(object) => {
                let api_version = object["apiVersion"].as_str().unwrap_or_default();
                let created = self.create(namespace, api_version, object).await?;
                (Address::new(namespace, name, api_version), Some(created))
            }
            _ => (Address::new(namespace, name, ""), None),
        };
        if plan.changes.is_empty() {
            return Ok(0);
        }
        let mut object = match created {
            Some(created) => created,
            None => address.read_to_write(self.client).await?,
        };
        for _ in 0..TRIES {
            let written = match next_write(&object, plan, self.overwrite) {
                Ok(None) => return Ok(0),
                Ok(Some(edit)) => match address.write(self.client, &edit).await {
                    Ok(stored) => {
                        self.publish(&stored, edit.changes.len()).await;
                        return Ok(edit.changes.len());
                    }
                    Err(error) => Err(error),
                },
                Err(Blocked::Edit(EditError::TooLarge { .. })) if has_no_states(&object) => {
                    self.make_compact(&address, &object).await
                }
                Err(blocked) => return Err(show::blocked(&blocked)),
            };
            object = match written {
                Ok(stored) => stored,
                Err(WriteError::Conflict(_)) => address.read_to_write(self.client).await?,
                Err(error) => return Err(error.into()),
            };
        }
        Err(address.busy())
    }

    async fn create(&self, namespace: &str, api_version: &str, object: &Value) -> Result<Value, Failure> {
        let path = format!("/apis/{api_version}/namespaces/{namespace}/{PLURAL}");
        let right = Right::new("create", GROUP, PLURAL).within(namespace);
        write::send(self.client, Write::create(right, path, object.clone())).await.map_err(
            |error| match error {
                WriteError::NotFound => {
                    Failure::Refused(format!("there is no namespace {namespace}: create it first"))
                }
                WriteError::Conflict(_) => Failure::Refused("it exists by now: run the command again".into()),
                error => error.into(),
            },
        )
    }

    /// Gives an object without states the compact form, for states that are too large for `podStates`. A
    /// definition without that form drops it silently.
    async fn make_compact(&self, address: &Address, object: &Value) -> Result<Value, WriteError> {
        let metadata = &object["metadata"];
        let guards = json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]});
        let body = json!({"metadata": guards, "status": compact_status()});
        let stored = write::send(self.client, address.patch(body)).await?;
        if stored["status"]["packed"].is_object() {
            return Ok(stored);
        }
        Err(WriteError::Refused(
            "its states are too large for status.podStates, and the definition of PersistentPodState in this cluster \
             has no status.packed: apply this product's definition first, and run the command again"
                .into(),
        ))
    }

    async fn publish(&self, stored: &Value, states: usize) {
        let message = format!("imported {states} recorded states from a file");
        let note = Note { about: stored, reason: "StatesImported", action: "Import", message };
        publish(self.client, self.terminal, &note).await;
    }
}

fn has_no_states(object: &Value) -> bool {
    object["status"]["packed"].is_null() && edit::states(object).is_ok_and(|states| states.is_empty())
}
