//! Looks up the PersistentPodState of a workload. The only place that makes host calls.
//!
//! It only gets objects by name. A get fails at once without permission; PolicyServer answers a
//! list from a watch, for which it waits forever without permission or if the definition is gone,
//! and meanwhile the list holds one of the workers that all policies share.

mod error;
mod host_error;

use pps_core::governing::{aliased, may_govern, second_name};
use pps_core::json::read;
use pps_core::names::is_dns_subdomain;
use pps_core::packed::{field_masks, hides_states, recorded_state};
use pps_core::pps::{API_VERSIONS, KIND, Metadata};
use pps_core::{PodState, Spec, TargetReference};
use serde::Serialize;
use serde_json::{Value, json};

use crate::host::Host;
pub use error::{FailedCall, LookupError};
use error::{GET, HostCall};

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

    /// Finds the object that governs a workload, with its state of `pod`.
    pub fn find(
        self,
        workload: &TargetReference,
        pod: &str,
    ) -> Result<Option<GoverningPps>, LookupError> {
        let [plain, version, bucket] = field_masks(pod);
        let field_masks = ["spec", &plain, &version, &bucket, "status.targetUID"];
        self.in_served_version(|versioned| {
            let found = versioned.find(workload, &field_masks)?;
            found
                .map(|found| versioned.read_governing(found, pod))
                .transpose()
        })
    }

    /// Finds the name of the object that governs a workload.
    pub fn find_name(self, workload: &TargetReference) -> Result<Option<String>, LookupError> {
        self.in_served_version(|versioned| {
            let found = versioned.find(workload, &["spec.targetRef"])?;
            Ok(found.map(|found| found.metadata.name))
        })
    }

    /// Writes a warning into the host's log.
    pub fn log_warning(self, message: &str) {
        let entry = json!({"level": "warning", "message": message, "namespace": self.namespace});
        // There is no other place to report a log that fails.
        let _ = self.host.call("tracing", "log", &entry.to_string());
    }

    /// Looks up in the first version of the kind that the cluster serves.
    fn in_served_version<T>(
        self,
        look_up: impl Fn(VersionedCluster) -> Result<T, LookupError>,
    ) -> Result<T, LookupError> {
        let Self { host, namespace } = self;
        for api_version in API_VERSIONS {
            match look_up(VersionedCluster {
                host,
                namespace,
                api_version,
            }) {
                Err(LookupError::KindNotServed) => {}
                answer => return answer,
            }
        }
        Err(LookupError::KindNotServed)
    }
}

/// The host's call for one object. A field that is not in the masks need not be in the answer.
#[derive(Serialize)]
struct GetResource<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    namespace: &'a str,
    disable_cache: bool,
    field_masks: &'a [&'a str],
}

/// The answer: an object, as far as the masks ask for it.
struct FoundPps {
    metadata: Metadata,
    object: Value,
}

impl FoundPps {
    /// The target. OpenKruise's CRD allows objects without one: it is empty then.
    fn target(&self) -> TargetReference {
        TargetReference::read(&self.object["spec"]["targetRef"])
    }

    /// Whether it can govern a workload: it targets it, and is not terminating.
    fn governs(&self, workload: &TargetReference) -> bool {
        let is_terminating = self.metadata.deletion_timestamp.is_some();
        may_govern(workload, &self.target(), is_terminating)
    }
}

/// One namespace of the cluster, whose objects are read in one API version.
#[derive(Clone, Copy)]
struct VersionedCluster<'a> {
    host: &'a dyn Host,
    namespace: &'a str,
    api_version: &'static str,
}

impl VersionedCluster<'_> {
    /// Finds the object that governs a workload: first under the workload's own name, then under
    /// its second name, where a generated object is if the own name belongs to a workload of
    /// another kind. An alias there names the object. Whatever is under a name counts only if it
    /// targets the workload.
    fn find(
        self,
        workload: &TargetReference,
        field_masks: &[&str],
    ) -> Result<Option<FoundPps>, LookupError> {
        // Anyone who may create a Pod can name any owner, of any length. No workload has such a
        // name.
        if !is_dns_subdomain(&workload.name) {
            return Ok(None);
        }
        let own = self.get(&workload.name, field_masks)?;
        if let Some(own) = own.filter(|found| found.governs(workload)) {
            return Ok(Some(own));
        }
        let mut found = self.get(&second_name(workload), field_masks)?;
        let target = found.as_ref().map(FoundPps::target);
        if let Some(pps) = target.as_ref().and_then(aliased) {
            found = self.get(pps, field_masks)?;
        }
        Ok(found.filter(|found| found.governs(workload)))
    }

    /// Reads what a Pod needs of the object that governs its workload.
    fn read_governing(self, found: FoundPps, pod: &str) -> Result<GoverningPps, LookupError> {
        let FoundPps { metadata, object } = found;
        let call = self.get_call(&metadata.name);
        let status = &object["status"];
        let state = recorded_state(status, pod).map_err(|error| call.malformed(&error))?;
        if state.is_none() && self.hides_states(&metadata.name, &object)? {
            return Err(LookupError::HiddenStates(metadata.name));
        }
        Ok(GoverningPps {
            spec: read("spec", &object["spec"]).map_err(|error| call.malformed(&error))?,
            state,
            target_uid: status["targetUID"].as_str().map(str::to_owned),
            name: metadata.name.clone(),
        })
    }

    /// Whether the cluster's definition hides states of an object, of which `masked` is a part. If
    /// so much is possible, the whole status decides: the definition may be this product's again,
    /// and all states recorded again.
    fn hides_states(self, name: &str, masked: &Value) -> Result<bool, LookupError> {
        if !hides_states(masked) {
            return Ok(false);
        }
        let whole = self.get(name, &["status"])?;
        Ok(whole.is_some_and(|whole| hides_states(&whole.object)))
    }

    fn get_call(self, name: &str) -> HostCall<'_> {
        HostCall {
            api_version: self.api_version,
            name,
        }
    }

    /// Reads one object, uncached; `None` if it does not exist.
    fn get(self, name: &str, field_masks: &[&str]) -> Result<Option<FoundPps>, LookupError> {
        // The host puts the name into the path of a URL. No object has a name that could change the
        // request. An alias can point to any text.
        if !is_dns_subdomain(name) {
            return Ok(None);
        }
        let call = self.get_call(name);
        let request = json!(GetResource {
            api_version: self.api_version,
            kind: KIND,
            name,
            namespace: self.namespace,
            disable_cache: true,
            field_masks,
        });
        match self.host.call("kubernetes", GET, &request.to_string()) {
            Ok(answer) => {
                let object: Value = serde_json::from_slice(answer.as_bytes())
                    .map_err(|error| call.malformed(&error))?;
                let metadata: Metadata = read("metadata", &object["metadata"])
                    .map_err(|error| call.malformed(&error))?;
                // Anything else, such as a list, must not pass for an object without a target.
                if metadata.name != name {
                    return Err(call.malformed(&"it is not the object of this name"));
                }
                Ok(Some(FoundPps { metadata, object }))
            }
            Err(text) if host_error::is_not_found(&text, self.api_version, name) => Ok(None),
            Err(text) => Err(call.failed(&text)),
        }
    }
}
