//! The objects of a file, and what is wrong with them.

use std::collections::BTreeMap;

use pps_admission::validate::{self, Violation};
use pps_core::edit::{self, EditError};
use pps_core::pps::{API_VERSIONS, KIND};
use pps_core::{AnnotationRules, PodState, is_dns_subdomain};
use pps_recorder::facts::NamespacedName;
use pps_scheduler::HOSTNAME;
use serde_json::Value;

use crate::decide::export::portable;
use crate::snapshot::Pps;

/// The most objects that one file may have.
const MAX_OBJECTS: usize = 20_000;

/// Which objects of a file are imported, and what of them.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only objects of this namespace.
    pub only: Option<String>,
    /// The namespace of objects that name none.
    pub default_namespace: String,
    /// Labels and annotations that are left out.
    pub drop_keys: Vec<String>,
}

/// An object of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The object without its status.
    pub pps: Pps,
    /// Its states without empty ones.
    pub states: BTreeMap<String, PodState>,
    /// Why the policy would not let it be created.
    pub violations: Vec<Violation>,
}

/// What is wrong with an object of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Flaw {
    Empty,
    TooMany { most: usize },
    OtherKind { api_version: String, kind: String },
    Name { field: &'static str, value: String },
    States { name: String, error: EditError },
    Twice { namespace: String, name: String },
}

/// An object of a file that cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub struct FlawedObject {
    pub index: usize,
    pub flaw: Flaw,
}

/// Reads the objects of a file. Aliases are left out: the sidecar makes them again.
pub fn read(objects: &[Value], options: &Options) -> Result<Vec<Entry>, Vec<FlawedObject>> {
    if objects.is_empty() {
        return Err(vec![FlawedObject {
            index: 0,
            flaw: Flaw::Empty,
        }]);
    }
    if objects.len() > MAX_OBJECTS {
        return Err(vec![FlawedObject {
            index: MAX_OBJECTS,
            flaw: Flaw::TooMany { most: MAX_OBJECTS },
        }]);
    }
    let mut entries = BTreeMap::new();
    let mut flawed = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        let entry = match read_one(object, options) {
            Ok(None) => continue,
            Ok(Some(entry)) => entry,
            Err(flaw) => {
                flawed.push(FlawedObject { index, flaw });
                continue;
            }
        };
        let namespace = entry.pps.namespace().to_owned();
        let name = entry.pps.name().to_owned();
        let key = NamespacedName::new(namespace.as_str(), name.as_str());
        if entries.insert(key, entry).is_some() {
            let flaw = Flaw::Twice { namespace, name };
            flawed.push(FlawedObject { index, flaw });
        }
    }
    if flawed.is_empty() {
        Ok(entries.into_values().collect())
    } else {
        Err(flawed)
    }
}

/// None if the object is not wanted.
fn read_one(object: &Value, options: &Options) -> Result<Option<Entry>, Flaw> {
    let api_version = text(&object["apiVersion"]);
    let kind = text(&object["kind"]);
    if kind != KIND || !API_VERSIONS.contains(&api_version.as_str()) {
        return Err(Flaw::OtherKind { api_version, kind });
    }
    let name = text(&object["metadata"]["name"]);
    let mut namespace = text(&object["metadata"]["namespace"]);
    if namespace.is_empty() {
        namespace.clone_from(&options.default_namespace);
    }
    if options.only.as_ref().is_some_and(|only| *only != namespace) {
        return Ok(None);
    }
    for (field, value) in [("metadata.name", &name), ("metadata.namespace", &namespace)] {
        if !is_dns_subdomain(value) {
            return Err(Flaw::Name {
                field,
                value: value.clone(),
            });
        }
    }
    let mut kept = portable(object);
    kept["metadata"]["namespace"] = namespace.into();
    let Some(pps) = Pps::read(kept).filter(|pps| !pps.is_alias()) else {
        return Ok(None);
    };
    let violations = validate::review(object, None, &AnnotationRules::default()).violations;
    let mut states = edit::states(object).map_err(|error| Flaw::States { name, error })?;
    for state in states.values_mut() {
        // The node goes with its host name: a Pod would be away from a node of another cluster
        // forever.
        if options.drop_keys.iter().any(|key| key == HOSTNAME) {
            *state = edit::without_node(state, &[]);
        }
        for key in &options.drop_keys {
            state.node_topology_labels.remove(key);
            state.annotations.remove(key);
        }
    }
    states.retain(|_, state| *state != PodState::default());
    Ok(Some(Entry {
        pps,
        states,
        violations,
    }))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
