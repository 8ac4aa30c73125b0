//! What `export` has done.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::text::count;
use crate::Failure;
use crate::decide::export::{Exported, LeftOut};
use crate::snapshot::Namespaces;

/// Objects that do not exist were named.
pub fn missing(names: &BTreeSet<String>, namespaces: &Namespaces) -> Failure {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let within = match namespaces {
        Namespaces::One(namespace) => format!(" in namespace {namespace}"),
        Namespaces::All => String::new(),
    };
    Failure::Refused(format!(
        "there is no PersistentPodState {}{within}; nothing was written",
        names.join(", ")
    ))
}

pub fn unwritten(file: &Path, error: &io::Error) -> Failure {
    let file = file.display();
    match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::Refused(format!(
            "{file} exists: name another file; nothing was written"
        )),
        _ => Failure::Unreadable(format!("cannot write {file}: {error}")),
    }
}

pub fn left_out(left_out: &LeftOut) -> String {
    format!("not exported: {}: {}", left_out.object, left_out.error)
}

pub fn exported(exported: &Exported, file: Option<&Path>) -> String {
    let to = file.map(|file| format!(" to {}", file.display()));
    format!(
        "exported {} with {}{}",
        count(exported.objects.len(), "PersistentPodState"),
        count(exported.states, "state"),
        to.unwrap_or_default()
    )
}
