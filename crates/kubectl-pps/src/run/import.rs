//! `import`: recorded states from a file into the cluster.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use futures::StreamExt;
use pps_check::read::Right;
use pps_core::edit::{EditError, compact_status, has_no_states};
use pps_core::pps::{API_VERSIONS, GROUP, PLURAL};
use pps_manifest::text::decode;
use pps_manifest::yaml::parse_up_to;
use serde_json::{Value, json};

use super::read_confirmed;
use super::states::{Address, TRIES, publish};
use crate::args::{Connection, Import};
use crate::cluster::read::{Wanted, serves};
use crate::cluster::write::{self, Note, Write, WriteError};
use crate::cluster::{Client, connect};
use crate::decide::import::{Action, Entry, Options, Plan, absent_values, next_write, plan, read};
use crate::render::import::{self as show, Imported};
use crate::render::{Answer, Terminal};
use crate::snapshot::{Namespaces, Resource, Snapshot};
use crate::{CommandResult, Failure, Outcome};

const MAX_FILE: usize = 64 << 20;
const WRITERS: usize = 8;

pub(super) async fn run(
    args: &Import,
    connection: &Connection,
    terminal: &Terminal,
) -> CommandResult {
    let objects = read_file(&args.file, MAX_FILE)?;
    let connected = connect(connection).await?;
    let client = &connected.client;
    let options = Options {
        only: connection.namespace.clone(),
        default_namespace: connected.namespace.clone(),
        drop_keys: args.drop_key.clone(),
    };
    let name = file_name(&args.file);
    let entries = read(&objects, &options).map_err(|flawed| show::flaws(&name, &flawed))?;
    let Some(namespaces) = namespaces_of(&entries) else {
        let text = format!("{name}: there is nothing to import");
        return Err(Failure::Refused(text));
    };
    let snapshot = read_cluster(client, &namespaces).await?;
    let api_version = served_version(client).await?;
    let plans = plan(&entries, &snapshot, args.overwrite);
    show_plans(&plans, &snapshot, terminal)?;
    let outcome = if plans.iter().any(leaves_out) {
        Outcome::NotWell
    } else {
        Outcome::Well
    };
    let writes: Vec<&Plan> = plans.iter().filter(|plan| plan.writes()).collect();
    if writes.is_empty() {
        terminal.say("nothing to do");
        return Ok(outcome);
    }
    if let Answer::End(outcome) = terminal.ask(&show::question(&plans), args.consent, outcome)? {
        return Ok(outcome);
    }
    let writer = Writer {
        client,
        terminal,
        api_version,
    };
    let imported = writer.write_all(writes).await;
    terminal.say(&show::done(&imported));
    let has_changed = imported.iter().any(|one| {
        let planned = one.plan.changes.len();
        one.written.as_ref().is_ok_and(|states| *states < planned)
    });
    if has_changed {
        terminal.note("states that have changed meanwhile stay; the same command shows them");
    }
    match show::failure(&imported) {
        Some(failure) => Err(failure),
        None if has_changed => Ok(Outcome::NotWell),
        None => Ok(outcome),
    }
}

/// The namespaces of the objects; none without an object.
fn namespaces_of(entries: &[Entry]) -> Option<Namespaces> {
    let names: BTreeSet<&str> = entries.iter().map(|entry| entry.pps.namespace()).collect();
    let first = names.first()?;
    Some(if names.len() == 1 {
        Namespaces::One((*first).to_owned())
    } else {
        Namespaces::All
    })
}

async fn read_cluster(client: &Client, namespaces: &Namespaces) -> Result<Snapshot, Failure> {
    let wanted = Wanted {
        pods: true,
        workloads: true,
        ..Wanted::default()
    };
    let snapshot = read_confirmed(client, namespaces, wanted).await?;
    snapshot.require(Resource::PersistentPodStates)?;
    // Without the Pods, the state of a Ready Pod could be overwritten.
    snapshot.require(Resource::Pods)?;
    snapshot.require_workloads()?;
    Ok(snapshot)
}

fn show_plans(plans: &[Plan], snapshot: &Snapshot, terminal: &Terminal) -> Result<(), Failure> {
    terminal.print(&show::plans(terminal.style(), plans))?;
    for note in plans.iter().flat_map(show::notes) {
        terminal.note(&note);
    }
    // The right to list nodes is needed for nothing else.
    if let Some(nodes) = &snapshot.nodes
        && snapshot.unread(Resource::Nodes).is_none()
    {
        for note in show::absent_values(&absent_values(plans, nodes)) {
            terminal.note(&note);
        }
    }
    Ok(())
}

/// Whether the object, or a state of it, is not imported.
fn leaves_out(plan: &Plan) -> bool {
    matches!(plan.action, Action::Refuse(_)) || !plan.unwanted.is_empty()
}

/// The objects of a file, and of the lists in it; `-` is standard input.
fn read_file(path: &Path, max_bytes: usize) -> Result<Vec<Value>, Failure> {
    let name = file_name(path);
    let failure = |why: String| Failure::Unreadable(format!("{name}: {why}"));
    let mut bytes = Vec::new();
    let limit = (max_bytes as u64).saturating_add(1);
    let read = if path == Path::new("-") {
        io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    read.map_err(|error| failure(error.to_string()))?;
    if bytes.len() > max_bytes {
        return Err(failure(format!(
            "it has more than {max_bytes} bytes: split it into several files"
        )));
    }
    // JSON is YAML too. Unlike a JSON reader, the YAML reader refuses duplicate keys.
    let text = decode(&bytes).map_err(failure)?;
    let documents = parse_up_to(&text, max_bytes).map_err(|error| {
        Failure::Usage(format!(
            "{name}:{}:{}: {}",
            error.place.line, error.place.column, error.message
        ))
    })?;
    let mut objects = Vec::new();
    for mut document in documents.into_iter().map(|document| document.value) {
        match document.get_mut("items") {
            Some(Value::Array(items)) => objects.append(items),
            _ => objects.push(document),
        }
    }
    Ok(objects)
}

fn file_name(path: &Path) -> String {
    if path == Path::new("-") {
        "standard input".into()
    } else {
        path.display().to_string()
    }
}

/// The version in which the cluster serves the objects.
async fn served_version(client: &Client) -> Result<&'static str, Failure> {
    for api_version in API_VERSIONS {
        if serves(client, api_version, PLURAL).await? {
            return Ok(api_version);
        }
    }
    Err(Failure::NoDefinition)
}

/// Writes the objects of a confirmed plan.
struct Writer<'a> {
    client: &'a Client,
    terminal: &'a Terminal,
    api_version: &'static str,
}

impl Writer<'_> {
    async fn write_all<'a>(&self, plans: Vec<&'a Plan>) -> Vec<Imported<'a>> {
        futures::stream::iter(plans)
            .map(async |plan| Imported {
                plan,
                written: self.write(plan).await,
            })
            .buffer_unordered(WRITERS)
            .collect()
            .await
    }

    async fn write(&self, plan: &Plan) -> Result<usize, Failure> {
        let address = Address::new(&plan.namespace, &plan.name, self.api_version);
        let mut object = match &plan.action {
            Action::Create(object) => self.create(&plan.namespace, object.clone()).await?,
            _ => address.read_to_write(self.client).await?,
        };
        for _ in 0..TRIES {
            let written = match next_write(&object, plan) {
                Ok(None) => return Ok(0),
                Ok(Some(edit)) => match write::send(self.client, address.patch(&edit.body)).await {
                    Ok(stored) => {
                        let states = edit.changes.len();
                        let message = format!("imported {states} recorded states from a file");
                        let note = Note {
                            about: &stored,
                            reason: "StatesImported",
                            action: "Import",
                            message,
                        };
                        publish(self.client, self.terminal, &note).await;
                        return Ok(states);
                    }
                    Err(error) => Err(error),
                },
                Err(EditError::TooLarge { .. }) if has_no_states(&object) => {
                    self.make_compact(&address, &object).await
                }
                Err(error) => return Err(address.refused(&error)),
            };
            object = match written {
                Ok(stored) => stored,
                Err(WriteError::Conflict(_)) => address.read_to_write(self.client).await?,
                Err(error) => return Err(error.into()),
            };
        }
        Err(address.busy())
    }

    async fn create(&self, namespace: &str, mut object: Value) -> Result<Value, Failure> {
        object["apiVersion"] = self.api_version.into();
        let path = format!("/apis/{}/namespaces/{namespace}/{PLURAL}", self.api_version);
        let right = Right::new("create", GROUP, PLURAL).within(namespace);
        write::send(
            self.client,
            Write::new(right, pps_api::Write::create(path, &object)),
        )
        .await
        .map_err(|error| match error {
            WriteError::NotFound => Failure::Refused(format!(
                "there is no namespace {namespace}: create it first"
            )),
            WriteError::Conflict(_) => {
                Failure::Refused("it exists by now: run the command again".into())
            }
            error => error.into(),
        })
    }

    /// Gives an object without states the compact form, for states that are too large for
    /// `podStates`. A definition without `status.packed` drops the field silently.
    async fn make_compact(&self, address: &Address, object: &Value) -> Result<Value, WriteError> {
        let metadata = &object["metadata"];
        let guards =
            json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]});
        let body = json!({"metadata": guards, "status": compact_status()});
        let stored = write::send(self.client, address.patch(&body)).await?;
        if stored["status"]["packed"].is_object() {
            return Ok(stored);
        }
        Err(WriteError::Refused(
            "its states are too large for status.podStates, and the definition of \
             PersistentPodState in this cluster has no status.packed: apply this product's \
             definition first, and run the command again"
                .into(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn objects_of_lists_and_documents_are_read() {
        let folder =
            std::env::temp_dir().join(format!("kubectl-pps-import-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("objects.yaml");
        let objects = |text: &str, max_bytes: usize| {
            fs::write(&file, text).unwrap();
            read_file(&file, max_bytes)
        };
        for text in [
            "{\"items\": [{\"a\": 1}, {\"a\": 2}]}",
            "a: 1\n---\n---\nitems:\n- a: 2\n",
        ] {
            assert_eq!(objects(text, 100).unwrap().len(), 2, "{text}");
        }
        let text = "{\n\t\"items\": {\"a\": 1}, \"u\": \"\\ud83d\\ude00\\/\"\n}";
        let whole = json!({"items": {"a": 1}, "u": "\u{1f600}/"});
        assert_eq!(
            objects(text, 100).unwrap(),
            [whole],
            "JSON with tabs, and items that are no list"
        );
        for text in ["text", "7", "- 1", "a: 1"] {
            let objects = objects(text, 100).unwrap();
            assert!(
                objects.len() == 1 && objects[0].get("items").is_none(),
                "{text}"
            );
        }
        assert!(
            objects("{\"a\": 1, \"a\": 2}", 100).is_err(),
            "a key that is there twice"
        );
        assert!(
            objects("a: 1\nb: 2\n", 9)
                .unwrap_err()
                .to_string()
                .contains("more than 9 bytes")
        );
        assert!(
            objects("a: 1\na: 2\n", 100)
                .unwrap_err()
                .to_string()
                .contains("objects.yaml:2:1: ")
        );
        assert!(read_file(&folder, 100).is_err() && read_file(&folder.join("none"), 100).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn objects_are_written_in_a_version_that_the_cluster_serves() {
        let served = |versions: &'static [&'static str]| {
            crate::cluster::tests::serve(move |request| {
                let version = request.rsplit('/').next().unwrap_or_default();
                let resources = json!({"resources": [{"name": "statefulsets"}, {"name": PLURAL}]});
                if versions.contains(&version) {
                    (200, resources)
                } else {
                    (404, json!({}))
                }
            })
        };
        let version = async |versions| served_version(&served(versions)).await;
        assert_eq!(
            version(&["v1alpha1", "v1beta1"]).await,
            Ok("apps.kruise.io/v1alpha1")
        );
        assert_eq!(version(&["v1beta1"]).await, Ok("apps.kruise.io/v1beta1"));
        assert_eq!(version(&[]).await, Err(Failure::NoDefinition));
    }
}
