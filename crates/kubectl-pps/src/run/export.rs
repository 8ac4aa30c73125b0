//! `export`: recorded states into a file.

use futures::{StreamExt, TryStreamExt};
use kube::Client;
use pps_core::edit;
use pps_manifest::yaml;
use serde_json::{Value, json};

use super::file;
use super::states::Address;
use crate::args::{Connection, Export};
use crate::cluster::connect;
use crate::cluster::read::{Wanted, read};
use crate::decide::export::{Unreadable, export};
use crate::render::{Terminal, json_as_yaml, yaml as to_yaml};
use crate::snapshot::Scope;
use crate::{Failure, Outcome};

/// How many objects are read at a time.
const READERS: usize = 8;

pub(super) async fn run(
    args: &Export,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    if let Some(file) = &args.file {
        file::target(file, args.overwrite)?;
    }
    let connected = connect(connection).await?;
    let scope =
        if args.all.all_namespaces { Scope::All } else { Scope::Namespace(connected.namespace.clone()) };
    let snapshot = Box::pin(read(&connected.client, &scope, Wanted::default())).await?;
    if let Some(unread) = snapshot.unread.first() {
        // A file that lacks something without saying so is no backup.
        return Err(unread.into());
    }
    let mut exported = export(&snapshot.pps, &args.names);
    if !exported.missing.is_empty() {
        let within = scope.namespace().map(|namespace| format!(" in namespace {namespace}"));
        return Err(Failure::Refused(format!(
            "there is no PersistentPodState {}{}; nothing was written",
            exported.missing.join(", "),
            within.unwrap_or_default(),
        )));
    }
    exported.unreadable.extend(hidden(&connected.client, &exported.objects).await?);
    let count = exported.objects.len();
    let text = text(&json!({"apiVersion": "v1", "kind": "List", "items": exported.objects}));
    match &args.file {
        Some(file) => file::write(file, &text, args.overwrite)?,
        None => terminal.print(&text)?,
    }
    let style = terminal.style_of_errors();
    for Unreadable { namespace, name, error } in &exported.unreadable {
        terminal.say(&style.error(&format!("not exported: {namespace}/{name}: {error}")));
    }
    terminal.say(&format!(
        "exported {count} PersistentPodState{} with {} state{}{}",
        if count == 1 { "" } else { "s" },
        exported.states,
        if exported.states == 1 { "" } else { "s" },
        args.file.as_ref().map(|file| format!(" to {}", file.display())).unwrap_or_default(),
    ));
    Ok(if exported.unreadable.is_empty() { Outcome::Well } else { Outcome::NotWell })
}

/// Objects whose states a definition without `status.packed` hides. Only managed fields, which lists are read
/// without, say so.
async fn hidden(client: &Client, objects: &[Value]) -> Result<Vec<Unreadable>, Failure> {
    let is_empty =
        |object: &&Value| object["status"]["podStates"].as_object().is_none_or(serde_json::Map::is_empty);
    futures::stream::iter(objects.iter().filter(is_empty))
        .map(async |object| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (namespace, name) =
                (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
            let address = Address::new(&namespace, &name, &text(&object["apiVersion"]));
            let error = edit::states(&address.read(client).await?).err();
            Ok(error.map(|error| Unreadable { namespace, name, error }))
        })
        .buffered(READERS)
        .filter_map(async |found| found.transpose())
        .try_collect()
        .await
}

/// YAML that is read as the same objects. Kubernetes reads YAML 1.1, in which `1_000` is a number: such a
/// value needs the quotes of JSON, which is YAML too.
fn text(list: &Value) -> String {
    let text = to_yaml(list);
    let is_same = |documents: Vec<yaml::Document>| documents.len() == 1 && documents[0].value == *list;
    if yaml::parse_up_to(&text, usize::MAX).is_ok_and(is_same) { text } else { json_as_yaml(list) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_file_is_read_as_what_was_written(
            values in prop::collection::btree_map("[ -~äö]{0,12}", "[ -~äö\\n\u{9b}]{0,12}|[0-9_:.exyno]{1,6}", 0..4)
        ) {
            let list = json!(BTreeMap::from([("items", values)]));
            let read = yaml::parse_up_to(&text(&list), usize::MAX).unwrap();
            prop_assert_eq!(&read[0].value, &list);
        }
    }
}
