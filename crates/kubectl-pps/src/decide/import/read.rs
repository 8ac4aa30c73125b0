//! Reads the PersistentPodStates of a file.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::edit;
use pps_core::pps::{API_VERSIONS, KIND, RetentionPolicy};
use pps_core::{AnnotationRules, PodState, Spec, TargetReference, is_dns_subdomain};
use pps_manifest::Flaw;
use pps_manifest::yaml::{Document, Positions, parse_up_to};
use serde_json::{Map, Value, json};

/// The largest file that is read.
pub const MAX_FILE: usize = 64 << 20;
/// The most objects that one file may have.
const MAX_OBJECTS: usize = 20_000;

/// What is taken of a file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only objects of this namespace.
    pub from_namespace: Option<String>,
    /// The namespace into which all of them go.
    pub namespace: Option<String>,
    /// The namespace of objects that name none.
    pub default_namespace: String,
    /// Labels and annotations that are left out.
    pub drop_keys: Vec<String>,
}

/// An object of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The namespace into which it goes.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its workload.
    pub target: TargetReference,
    /// Its states, without those that say nothing.
    pub states: BTreeMap<String, PodState>,
    labels: Value,
    annotations: Value,
    pub(super) spec: Spec,
}

impl Entry {
    /// How long its states would be kept.
    pub(super) fn retention(&self) -> RetentionPolicy {
        self.spec.retention()
    }

    /// The object that is created, in the spelling of this version of the API.
    pub fn object(&self, api_version: &str) -> Value {
        let mut metadata = json!({"name": self.name, "namespace": self.namespace});
        for (field, values) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            if values.as_object().is_some_and(|values| !values.is_empty()) {
                metadata[field] = values.clone();
            }
        }
        let mut spec = json!(self.spec);
        if api_version != API_VERSIONS[0] {
            rename_keys(&mut spec["requiredPersistentTopology"]);
            for term in spec["preferredPersistentTopology"].as_array_mut().into_iter().flatten() {
                rename_keys(&mut term["preference"]);
            }
        }
        if let Some(spec) = spec.as_object_mut() {
            // Indexing has created it.
            spec.retain(|_, value| !value.is_null());
        }
        json!({"apiVersion": api_version, "kind": KIND, "metadata": metadata, "spec": spec})
    }
}

/// The newer version of the API, of OpenKruise, calls them `keys`.
fn rename_keys(term: &mut Value) {
    if let Some(term) = term.as_object_mut()
        && let Some(keys) = term.remove("nodeTopologyKeys")
    {
        term.insert("keys".into(), keys);
    }
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// Its objects.
    pub entries: Vec<Entry>,
    /// How many aliases were left out: the sidecar makes them again.
    pub aliases: usize,
    /// How many objects of other namespaces were left out.
    pub others: usize,
}

/// Reads the objects of a file: lists and single ones.
///
/// # Errors
///
/// Everything that is wrong with it, each with its place. None of it is used then.
pub fn read(text: &str, options: &Options) -> Result<File, Vec<Flaw>> {
    let documents = documents(text).map_err(|flaw| vec![flaw])?;
    let mut reading = Reading { options, file: File::default(), names: BTreeSet::new(), flaws: Vec::new() };
    for Document { value, positions } in &documents {
        let kind = value["kind"].as_str().unwrap_or_default();
        match value["items"].as_array() {
            Some(items) if kind == "List" || kind.ends_with("List") => {
                for (index, item) in items.iter().enumerate() {
                    reading.object(item, &format!("items[{index}]"), positions);
                }
            }
            _ => reading.object(value, "", positions),
        }
    }
    if documents.is_empty() {
        reading.flaw(&Positions::default(), "", "there is no object in the file");
    }
    if reading.file.entries.len() > MAX_OBJECTS {
        let why = format!("the file has more than {MAX_OBJECTS} objects: split it");
        reading.flaw(&Positions::default(), "", &why);
    }
    if reading.flaws.is_empty() { Ok(reading.file) } else { Err(reading.flaws) }
}

/// JSON is also YAML, but is read faster as what it is.
fn documents(text: &str) -> Result<Vec<Document>, Flaw> {
    if text.trim_start().starts_with('{')
        && text.len() <= MAX_FILE
        && let Ok(value) = serde_json::from_str(text)
    {
        return Ok(vec![Document { value, positions: Positions::default() }]);
    }
    parse_up_to(text, MAX_FILE).map_err(Flaw::from)
}

struct Reading<'a> {
    options: &'a Options,
    file: File,
    names: BTreeSet<(String, String)>,
    flaws: Vec<Flaw>,
}

impl Reading<'_> {
    fn flaw(&mut self, positions: &Positions, field: &str, message: &str) {
        self.flaws.push(Flaw::of(positions, field, message));
    }

    fn object(&mut self, object: &Value, at: &str, positions: &Positions) {
        let path = |field: &str| if at.is_empty() { field.to_owned() } else { format!("{at}.{field}") };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        if kind != KIND || !API_VERSIONS.contains(&api_version.as_str()) {
            let found = if object.is_object() { format!("{api_version} {kind}") } else { "no object".into() };
            let why = format!(
                "this is {}: import reads PersistentPodStates of {}",
                found.trim(),
                API_VERSIONS.join(" and ")
            );
            return self.flaw(positions, &path("kind"), &why);
        }
        let metadata = &object["metadata"];
        let own_namespace = text(&metadata["namespace"]);
        if self.options.from_namespace.as_ref().is_some_and(|only| *only != own_namespace) {
            self.file.others += 1;
            return;
        }
        let name = text(&metadata["name"]);
        if !is_dns_subdomain(&name) {
            return self.flaw(
                positions,
                &path("metadata.name"),
                "metadata.name is missing or no name of an object",
            );
        }
        if !own_namespace.is_empty() && !is_dns_subdomain(&own_namespace) {
            return self.flaw(
                positions,
                &path("metadata.namespace"),
                "metadata.namespace is no name of a namespace",
            );
        }
        let review = pps_core::validate::review(object, None, &AnnotationRules::default());
        if !review.violations.is_empty() {
            for violation in &review.violations {
                self.flaw(positions, &path(&violation.path), &format!("{name}: {violation}"));
            }
            return;
        }
        // Only an alias has none.
        let Some(target) = review.workload else {
            self.file.aliases += 1;
            return;
        };
        let spec: Spec = match serde_json::from_value(object["spec"].clone()) {
            Ok(spec) => spec,
            Err(error) => return self.flaw(positions, &path("spec"), &format!("{name}: {error}")),
        };
        let mut states = match edit::states(object) {
            Ok(states) => states,
            Err(error) => return self.flaw(positions, &path("status"), &format!("{name}: {error}")),
        };
        for state in states.values_mut() {
            for key in &self.options.drop_keys {
                state.node_topology_labels.remove(key);
                state.annotations.remove(key);
            }
        }
        states.retain(|_, state| *state != PodState::default());
        let first = |one: &Option<String>, other: &str| one.clone().unwrap_or_else(|| other.to_owned());
        let own = if own_namespace.is_empty() { &self.options.default_namespace } else { &own_namespace };
        let namespace = first(&self.options.namespace, own);
        if !self.names.insert((namespace.clone(), name.clone())) {
            let why = format!(
                "{namespace}/{name} is there twice: use --from-namespace to choose a namespace of the file"
            );
            return self.flaw(positions, &path("metadata.name"), &why);
        }
        let (labels, annotations) = (strings(&metadata["labels"]), strings(&metadata["annotations"]));
        self.file.entries.push(Entry { namespace, name, target, states, labels, annotations, spec });
    }
}

/// What belongs to another cluster or to its tools is left out.
fn strings(values: &Value) -> Value {
    let is_foreign = |key: &str, value: &str| {
        key == "kubectl.kubernetes.io/last-applied-configuration"
            || (key == pps_core::generate::MANAGED_BY_LABEL && value == pps_core::generate::FIELD_MANAGER)
    };
    let values = values.as_object().into_iter().flatten();
    let values = values.filter(|(key, value)| value.as_str().is_some_and(|value| !is_foreign(key, value)));
    values.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>().into()
}
