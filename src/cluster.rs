//! Looks up the PersistentPodState of a workload. The only place that makes host calls.

use std::iter;

use pps_core::pps::{API_VERSIONS, KIND, Metadata, PLURAL};
use pps_core::select::{self, Candidate};
use pps_core::{PodState, Spec, TargetReference, to_text};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::host_error;
use crate::lookup_error::{HostCall, LookupError};
use crate::settings::Lookup;

/// What runs the policy and answers its calls.
pub trait Host {
    /// Makes one call in the `kubewarden` binding.
    ///
    /// # Errors
    ///
    /// The host's error text: a policy gets nothing else.
    fn call(&self, namespace: &str, operation: &str, payload: &str) -> Result<String, String>;
}

/// The waPC host of this Wasm module.
#[derive(Clone, Copy, Debug)]
pub struct PolicyServer;

impl Host for PolicyServer {
    fn call(&self, namespace: &str, operation: &str, payload: &str) -> Result<String, String> {
        let answer = wapc_guest::host_call("kubewarden", namespace, operation, payload.as_bytes());
        let answer = answer.map_err(|error| error.to_string())?;
        String::from_utf8(answer).map_err(|error| error.to_string())
    }
}

/// One namespace of the cluster.
#[derive(Clone, Copy)]
pub struct Cluster<'a> {
    host: &'a dyn Host,
    namespace: &'a str,
}

/// The PersistentPodState that governs a workload, with its recorded state of one Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoverningPps {
    /// Its name.
    pub name: String,
    /// Its spec.
    pub spec: Spec,
    /// The recorded state of the Pod.
    pub state: Option<PodState>,
    /// UID of the workload that the states were recorded for, if known.
    pub target_uid: Option<String>,
    /// Names of the other objects that target the same workload.
    pub ignored: Vec<String>,
}

impl<'a> Cluster<'a> {
    /// A namespace, as seen through a host.
    pub fn new(host: &'a dyn Host, namespace: &'a str) -> Self {
        Self { host, namespace }
    }

    /// The name of the namespace.
    pub fn namespace(self) -> &'a str {
        self.namespace
    }

    /// Finds the object that governs a workload, with its state of `pod`: first under the workload's own
    /// name, which generated objects have; then, under [`Lookup::Full`], among all objects of the
    /// namespace. The object that is returned was read during this call; the list may be some milliseconds
    /// old.
    ///
    /// # Errors
    ///
    /// If the cluster does not say whether there is such an object.
    pub fn find(
        self,
        workload: &TargetReference,
        pod: &str,
        lookup: Lookup,
    ) -> Result<Option<GoverningPps>, LookupError> {
        self.in_served_version(|versioned| match versioned.get_governing(&workload.name, workload, pod)? {
            None if lookup == Lookup::Full => versioned.find_in_list(workload, pod),
            found => Ok(found),
        })
    }

    /// Finds the names of the objects that target a workload: the one under the workload's own name, or
    /// else, under [`Lookup::Full`], any others, oldest first. Each was read during this call.
    ///
    /// # Errors
    ///
    /// If the cluster does not say whether there are any.
    pub fn find_names(self, workload: &TargetReference, lookup: Lookup) -> Result<Vec<String>, LookupError> {
        self.in_served_version(|versioned| {
            // The get comes first: without permission it fails at once, whereas a list never returns.
            if versioned.targets(&workload.name, workload)? {
                return Ok(vec![workload.name.clone()]);
            }
            if lookup == Lookup::Full { versioned.list_names(workload) } else { Ok(Vec::new()) }
        })
    }

    /// Writes a warning into the host's log.
    pub fn log_warning(self, message: &str) {
        let entry = json!({"level": "warning", "message": message, "namespace": self.namespace});
        // There is no other place to report a log that fails.
        let _ = self.host.call("tracing", "log", &to_text(&entry));
    }

    /// Looks up in the first version of the kind that the cluster serves.
    fn in_served_version<T>(
        self,
        look_up: impl Fn(VersionedCluster) -> Result<T, LookupError>,
    ) -> Result<T, LookupError> {
        let Self { host, namespace } = self;
        for api_version in API_VERSIONS {
            match look_up(VersionedCluster { host, namespace, api_version }) {
                Err(LookupError::KindNotServed) => {}
                answer => return answer,
            }
        }
        Err(LookupError::KindNotServed)
    }
}

/// One namespace of the cluster, whose objects are read in one API version.
#[derive(Clone, Copy)]
struct VersionedCluster<'a> {
    host: &'a dyn Host,
    namespace: &'a str,
    api_version: &'static str,
}

/// The answer to a list.
#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

/// An object's metadata and target. OpenKruise's CRD allows objects without a target: it is empty then.
struct Summary {
    metadata: Metadata,
    target_ref: TargetReference,
}

impl Summary {
    fn read(object: &Value) -> Self {
        let target_ref = TargetReference::read(&object["spec"]["targetRef"]);
        Self { metadata: Metadata::read(object), target_ref }
    }

    fn to_candidate(&self) -> Candidate<'_> {
        Candidate { metadata: &self.metadata, target_ref: &self.target_ref }
    }

    fn governs(&self, workload: &TargetReference) -> bool {
        select::governs(&self.metadata, &self.target_ref, workload)
    }
}

impl VersionedCluster<'_> {
    /// Chooses the object that governs a workload among all of the namespace, and reads it.
    fn find_in_list(
        self,
        workload: &TargetReference,
        pod: &str,
    ) -> Result<Option<GoverningPps>, LookupError> {
        let summaries = self.list(&workload.name)?;
        let Some(choice) = select::choose(summaries.iter().map(Summary::to_candidate), workload) else {
            return Ok(None);
        };
        let ignored = choice.ignored.iter().map(|&name| name.to_owned()).collect();
        let governing = self.get_governing(choice.name, workload, pod)?;
        Ok(governing.map(|governing| GoverningPps { ignored, ..governing }))
    }

    /// The names of all objects of the namespace that target a workload, oldest first.
    fn list_names(self, workload: &TargetReference) -> Result<Vec<String>, LookupError> {
        let summaries = self.list(&workload.name)?;
        let choice = select::choose(summaries.iter().map(Summary::to_candidate), workload);
        let mut names = Vec::new();
        for name in choice.into_iter().flat_map(|choice| iter::once(choice.name).chain(choice.ignored)) {
            // The list can be out of date.
            if self.targets(name, workload)? {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Whether an object of this name exists and targets a workload.
    fn targets(self, name: &str, workload: &TargetReference) -> Result<bool, LookupError> {
        let object = self.get(&self.get_call(name), &["spec.targetRef"])?;
        Ok(object.is_some_and(|object| Summary::read(&object).governs(workload)))
    }

    /// Reads the object of this name; `None` if it does not govern the workload.
    fn get_governing(
        self,
        name: &str,
        workload: &TargetReference,
        pod: &str,
    ) -> Result<Option<GoverningPps>, LookupError> {
        // A mask cannot name a field that has a dot in it.
        let state =
            if pod.contains('.') { "status.podStates".into() } else { format!("status.podStates.{pod}") };
        let call = self.get_call(name);
        let object = self.get(&call, &["spec", &state, "status.targetUID"])?;
        let Some(object) = object.filter(|object| Summary::read(object).governs(workload)) else {
            return Ok(None);
        };
        let malformed = |error: serde_json::Error| call.malformed(&error);
        let status = &object["status"];
        Ok(Some(GoverningPps {
            name: name.into(),
            spec: Spec::deserialize(&object["spec"]).map_err(malformed)?,
            state: Option::deserialize(&status["podStates"][pod]).map_err(malformed)?,
            target_uid: status["targetUID"].as_str().map(str::to_owned),
            ignored: Vec::new(),
        }))
    }

    fn get_call(self, name: &str) -> HostCall<'_> {
        HostCall { api_version: self.api_version, operation: "get_resource", target: name, verbs: "get" }
    }

    /// Reads one object, uncached; `None` if it does not exist.
    fn get(self, call: &HostCall, field_masks: &[&str]) -> Result<Option<Value>, LookupError> {
        let name = call.target;
        let request = json!({
            "api_version": self.api_version,
            "kind": KIND,
            "name": name,
            "namespace": self.namespace,
            "disable_cache": true,
            "field_masks": field_masks,
        });
        match self.call(call, &request) {
            Ok(answer) => {
                let object: Value = serde_json::from_str(&answer).map_err(|error| call.malformed(&error))?;
                // Anything else, such as a list, must not pass for an object without a target.
                if object["metadata"]["name"] != name {
                    return Err(call.malformed(&"it is not the object of this name"));
                }
                Ok(Some(object))
            }
            Err(text) if host_error::is_not_found(&text, self.api_version, name) => Ok(None),
            Err(text) => Err(call.failed(&text)),
        }
    }

    /// Lists the objects of the namespace that may target a workload of this name.
    fn list(self, workload: &str) -> Result<Vec<Summary>, LookupError> {
        // PolicyServer keeps a watch for each distinct query until it ends: the query must not depend on the
        // Pod.
        let request = json!({
            "api_version": self.api_version,
            "kind": KIND,
            "namespace": self.namespace,
            "label_selector": null,
            "field_selector": null,
            "field_masks": ["spec.targetRef"],
        });
        let call = HostCall {
            api_version: self.api_version,
            operation: "list_resources_by_namespace",
            target: PLURAL,
            verbs: "get, list and watch",
        };
        let answer = self.call(&call, &request).map_err(|text| call.failed(&text))?;
        let List { items } = serde_json::from_str(&answer).map_err(|error| call.malformed(&error))?;
        // Most objects target other workloads and need not be parsed. One that is malformed is skipped.
        let named = items.iter().map(|item| item.get()).filter(|item| item.contains(workload));
        let summaries = named.map(|item| Summary::read(&serde_json::from_str(item).unwrap_or_default()));
        Ok(summaries.filter(|summary| !summary.metadata.name.is_empty()).collect())
    }

    fn call(self, call: &HostCall, request: &Value) -> Result<String, String> {
        self.host.call("kubernetes", call.operation, &to_text(request))
    }
}
