//! `export`: recorded states into a file.

use std::path::Path;

use futures::{StreamExt, TryStreamExt};
use kube::Client;
use pps_core::edit;
use serde_json::{Map, Value};

use super::replace_file::{check_absent, write_file};
use super::states::Address;
use crate::args::{Connection, Export};
use crate::cluster::connect;
use crate::cluster::read::{Wanted, read};
use crate::decide::export::export;
use crate::print::Terminal;
use crate::snapshot::Scope;
use crate::{Failure, Outcome};

/// How many objects are read at a time.
const READERS: usize = 8;

pub(super) async fn run(
    args: &Export,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    if let Some(file) = args.file.as_deref().filter(|_| !args.overwrite) {
        check_absent(file)?;
    }
    let connected = connect(connection).await?;
    let scope =
        if args.all.all_namespaces { Scope::All } else { Scope::Namespace(connected.namespace.clone()) };
    let snapshot = Box::pin(read(&connected.client, &scope, Wanted::default())).await?;
    if let Some(unseen) = snapshot.unseen.first() {
        // A file that lacks something without saying so is no backup.
        return Err(Failure::Unreadable(unseen.to_string()));
    }
    let mut exported = export(&snapshot.pps, &args.names, args.form);
    if !exported.missing.is_empty() {
        return Err(Failure::Refused(format!(
            "there is no PersistentPodState {}{}; nothing was written",
            exported.missing.join(", "),
            match &scope {
                Scope::All => String::new(),
                Scope::Namespace(namespace) => format!(" in namespace {namespace}"),
            }
        )));
    }
    exported.unreadable.extend(hidden(&connected.client, &exported.list).await?);
    match &args.file {
        Some(file) => write_file(file, &text(&exported.list, is_json(file)), args.overwrite)?,
        None => terminal.print(&text(&exported.list, false))?,
    }
    let style = terminal.style_of_errors();
    for problem in &exported.unreadable {
        terminal.say(&style.error(&format!("not exported: {problem}")));
    }
    let (objects, states) = (exported.objects, exported.states);
    terminal.say(&format!(
        "exported {objects} PersistentPodState{} with {states} state{}{}",
        if objects == 1 { "" } else { "s" },
        if states == 1 { "" } else { "s" },
        args.file.as_ref().map(|file| format!(" to {}", file.display())).unwrap_or_default(),
    ));
    Ok(if exported.unreadable.is_empty() { Outcome::Well } else { Outcome::NotWell })
}

/// Objects that seem to have no states, because a definition without `status.packed` hides them: only their managed fields,
/// which lists are read without, say so.
async fn hidden(client: &Client, list: &Value) -> Result<Vec<String>, Failure> {
    let items = list["items"].as_array().into_iter().flatten();
    let is_empty = |item: &&Value| {
        let status = item["status"].as_object();
        status.is_none_or(|fields| fields.values().all(|field| field.as_object().is_none_or(Map::is_empty)))
    };
    futures::stream::iter(items.filter(is_empty))
        .map(async |item| {
            let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default();
            let (namespace, name) = (text("namespace"), text("name"));
            let address = Address::new(namespace, name, item["apiVersion"].as_str().unwrap_or_default());
            let object = address.read(client).await?;
            Ok(edit::states(&object).err().map(|error| format!("{namespace}/{name}: {error}")))
        })
        .buffered(READERS)
        .filter_map(async |found| found.transpose())
        .try_collect()
        .await
}

fn is_json(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"))
}

fn text(list: &Value, as_json: bool) -> String {
    if as_json {
        serde_json::to_string_pretty(list).unwrap_or_default() + "\n"
    } else {
        pps_manifest::to_yaml(list)
    }
}
