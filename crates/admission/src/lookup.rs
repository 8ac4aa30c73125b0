//! Looks up the PersistentPodState of a workload. The only place that makes host calls.
//!
//! It only gets objects by name. A get fails at once without permission; PolicyServer answers a
//! list from a watch, for which it waits forever without permission or if the definition is gone,
//! and meanwhile the list holds one of the workers that all policies share.

mod error;
mod host_error;

use pps_core::governing::{aliased, second_name};
use pps_core::json::{ReadError, read};
use pps_core::names::is_dns_subdomain;
use pps_core::packed::{field_masks, hides_states, recorded_state};
use pps_core::pps::{API_VERSIONS, KIND, Metadata};
use pps_core::{PodState, Spec, TargetReference};
use serde::Serialize;
use serde_json::{Value, json};

use crate::host::Host;
pub use error::{FailedCall, LookupError, UnreadablePps};
use error::{GET, RequestedPps};

/// The objects of one namespace, as a host shows them.
#[derive(Clone, Copy)]
pub struct Namespace<'a> {
    host: &'a dyn Host,
    name: &'a str,
}

/// What a lookup finds for a Pod of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Governing(Box<GoverningPps>),
    /// Only the terminating object of this name targets the workload, and has a state of the Pod.
    Terminating(String),
    Nothing,
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

impl<'a> Namespace<'a> {
    /// The namespace of this name.
    pub fn new(host: &'a dyn Host, name: &'a str) -> Self {
        Self { host, name }
    }

    /// Its name.
    pub fn name(self) -> &'a str {
        self.name
    }

    /// Finds the object that governs a workload, with its state of `pod`.
    pub fn find(self, workload: &TargetReference, pod: &str) -> Result<Found, LookupError> {
        let [plain, version, bucket] = field_masks(pod);
        let field_masks = ["spec", &plain, &version, &bucket, "status.targetUID"];
        self.in_served_version(|versioned| {
            let Some(found) = versioned.find(workload, &field_masks)? else {
                return Ok(Found::Nothing);
            };
            if !found.is_terminating() {
                let governing = versioned.read_governing(found, pod)?;
                return Ok(Found::Governing(governing.into()));
            }
            Ok(match recorded_state(&found.object["status"], pod) {
                Ok(None) => Found::Nothing,
                Ok(Some(_)) | Err(_) => Found::Terminating(found.metadata.name),
            })
        })
    }

    /// Finds the name of the object that governs a workload.
    pub fn find_name(self, workload: &TargetReference) -> Result<Option<String>, LookupError> {
        self.in_served_version(|versioned| {
            let found = versioned.find(workload, &["spec.targetRef"])?;
            let governing = found.filter(|found| !found.is_terminating());
            Ok(governing.map(|governing| governing.metadata.name))
        })
    }

    /// Writes a warning into the host's log.
    pub fn log_warning(self, message: &str) {
        let entry = json!({"level": "warning", "message": message, "namespace": self.name});
        // There is no other place to report a log that fails.
        let _ = self.host.call("tracing", "log", &entry.to_string());
    }

    /// Looks up in the first version of the kind that the cluster serves.
    fn in_served_version<T>(
        self,
        look_up: impl Fn(VersionedNamespace) -> Result<T, LookupError>,
    ) -> Result<T, LookupError> {
        for api_version in API_VERSIONS {
            match look_up(VersionedNamespace {
                host: self.host,
                name: self.name,
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
    fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// The target; `None` if there is none, as OpenKruise's CRD allows. A target that cannot be
    /// read may be the workload whose state is looked up.
    fn target(&self) -> Result<Option<TargetReference>, LookupError> {
        let spec = &self.object["spec"];
        let target = &spec["targetRef"];
        let is_map_or_missing = |value: &Value| value.is_null() || value.is_object();
        if !is_map_or_missing(spec) || !is_map_or_missing(target) {
            let path = "spec.targetRef".into();
            let reason = "it is no object".into();
            return Err(self.unreadable(&ReadError { path, reason }));
        }
        let target: Result<Option<TargetReference>, _> = read("spec.targetRef", target);
        target.map_err(|error| self.unreadable(&error))
    }

    fn targets(&self, workload: &TargetReference) -> Result<bool, LookupError> {
        let target = self.target()?;
        Ok(target.is_some_and(|target| target.is_same_workload(workload)))
    }

    fn unreadable(&self, error: &ReadError) -> LookupError {
        LookupError::unreadable(&self.metadata.name, error.to_string())
    }
}

/// The objects of one namespace, read in one API version.
#[derive(Clone, Copy)]
struct VersionedNamespace<'a> {
    host: &'a dyn Host,
    name: &'a str,
    api_version: &'static str,
}

impl VersionedNamespace<'_> {
    /// Finds the object that governs a workload: first under the workload's own name, then under
    /// its second name, where a generated object is if the own name belongs to a workload of
    /// another kind. An alias there names the object. Whatever is under a name counts only if it
    /// targets the workload. If all that do are terminating, it is one of these, which governs
    /// nothing.
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
        let mut terminating = None;
        if let Some(own) = self.get(&workload.name, field_masks)?
            && own.targets(workload)?
        {
            if !own.is_terminating() {
                return Ok(Some(own));
            }
            terminating = Some(own);
        }
        let mut second = self.get(&second_name(workload), field_masks)?;
        let target = second.as_ref().map(FoundPps::target).transpose()?.flatten();
        if let Some(pps) = target.as_ref().and_then(aliased) {
            second = self.get(pps, field_masks)?;
        }
        match second {
            Some(second) if second.targets(workload)? => {
                let is_terminating = second.is_terminating();
                Ok(terminating.filter(|_| is_terminating).or(Some(second)))
            }
            _ => Ok(terminating),
        }
    }

    /// Reads what a Pod needs of the object that governs its workload.
    fn read_governing(self, found: FoundPps, pod: &str) -> Result<GoverningPps, LookupError> {
        let spec = read("spec", &found.object["spec"]).map_err(|error| found.unreadable(&error))?;
        let FoundPps { metadata, object } = found;
        let name = metadata.name;
        let status = &object["status"];
        let state = recorded_state(status, pod).map_err(|why| LookupError::damaged(&name, &why))?;
        if state.is_none() && self.hides_states(&name, &object)? {
            return Err(LookupError::HiddenStates(name));
        }
        Ok(GoverningPps {
            target_uid: status["targetUID"].as_str().map(str::to_owned),
            name,
            spec,
            state,
        })
    }

    /// Whether the cluster's definition hides states of an object. `masked` is a part of the object.
    /// If that is possible, the whole status decides: the definition may be this product's again,
    /// and all states recorded again.
    fn hides_states(self, name: &str, masked: &Value) -> Result<bool, LookupError> {
        if !hides_states(masked) {
            return Ok(false);
        }
        let whole = self.get(name, &["status"])?;
        Ok(whole.is_some_and(|whole| hides_states(&whole.object)))
    }

    /// Reads one object, uncached; `None` if it does not exist.
    fn get(self, name: &str, field_masks: &[&str]) -> Result<Option<FoundPps>, LookupError> {
        // The host puts the name into the path of a URL. No object has a name that could change the
        // request. An alias can point to any text.
        if !is_dns_subdomain(name) {
            return Ok(None);
        }
        let requested = RequestedPps {
            api_version: self.api_version,
            name,
        };
        let request = json!(GetResource {
            api_version: self.api_version,
            kind: KIND,
            name,
            namespace: self.name,
            disable_cache: true,
            field_masks,
        });
        match self.host.call("kubernetes", GET, &request.to_string()) {
            Ok(answer) => {
                let object: Value = serde_json::from_slice(answer.as_bytes())
                    .map_err(|error| requested.wrong_answer(&error))?;
                let metadata: Metadata = read("metadata", &object["metadata"])
                    .map_err(|error| requested.wrong_answer(&error))?;
                // Anything else, such as a list, must not pass for an object without a target.
                if metadata.name != name {
                    return Err(requested.wrong_answer(&"it has another name, or none"));
                }
                Ok(Some(FoundPps { metadata, object }))
            }
            Err(text) if host_error::is_not_found(&text, self.api_version, name) => Ok(None),
            Err(text) => Err(requested.failed(&text)),
        }
    }
}
