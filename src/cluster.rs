//! Looks up the PersistentPodState of a workload. The only place that makes host calls.
//!
//! It only gets objects by name. A get fails at once without permission; PolicyServer answers a
//! list from a watch, for which it waits forever without permission or if the definition is gone,
//! and meanwhile the list holds one of the workers that all policies share.

use std::fmt;

use pps_core::governing::{aliased, may_govern, second_name};
use pps_core::packed::{Bucket, recorded_state};
use pps_core::pps::{API_VERSIONS, KIND};
use pps_core::{PodState, Spec, TargetReference, is_dns_subdomain, object, to_text};
use serde_json::Value;

use crate::host_error;
use crate::lookup_error::{GET, HostCall, LookupError};

/// What runs the policy and answers its calls.
pub trait Host {
    /// Makes one call in the `kubewarden` binding.
    fn call(&self, namespace: &str, operation: &str, payload: &str) -> Result<String, String>;
}

/// The waPC host of this Wasm module.
#[cfg(feature = "module")]
#[derive(Clone, Copy, Debug)]
pub struct PolicyServer;

#[cfg(feature = "module")]
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
    /// Its spec, as far as an injection needs it.
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
        // A mask cannot name a field that has a dot in it.
        let plain = if pod.contains('.') {
            "status.podStates".into()
        } else {
            format!("status.podStates.{pod}")
        };
        let bucket = format!("status.packed.buckets.{}", Bucket::of(pod));
        let field_masks = [
            "spec",
            &plain,
            "status.packed.version",
            &bucket,
            "status.targetUID",
        ];
        self.in_served_version(|versioned| {
            let found = versioned.find(workload, &field_masks)?;
            found
                .map(|(name, object)| versioned.read_governing(&name, &object, pod))
                .transpose()
        })
    }

    /// Finds the name of the object that governs a workload.
    pub fn find_name(self, workload: &TargetReference) -> Result<Option<String>, LookupError> {
        self.in_served_version(|versioned| {
            Ok(versioned
                .find(workload, &["spec.targetRef"])?
                .map(|(name, _)| name))
        })
    }

    /// Writes a warning into the host's log.
    pub fn log_warning(self, message: &str) {
        let entry = [
            ("level", "warning"),
            ("message", message),
            ("namespace", self.namespace),
        ];
        let entry = object(entry.map(|(field, value)| (field, value.into())).into()).into();
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

/// One namespace of the cluster, whose objects are read in one API version.
#[derive(Clone, Copy)]
struct VersionedCluster<'a> {
    host: &'a dyn Host,
    namespace: &'a str,
    api_version: &'static str,
}

impl VersionedCluster<'_> {
    /// Finds the object that governs a workload, and its name: first under the workload's own name,
    /// then under its second name, where a generated object is if the own name belongs to a
    /// workload of another kind. An alias there names the object. Whatever is under a name counts
    /// only if it targets the workload.
    fn find(
        self,
        workload: &TargetReference,
        field_masks: &[&str],
    ) -> Result<Option<(String, Value)>, LookupError> {
        // Anyone who may create a Pod can name any owner, of any length. No workload has such a
        // name.
        if !is_dns_subdomain(&workload.name) {
            return Ok(None);
        }
        let mut name = workload.name.clone();
        let mut object = self
            .get(&name, field_masks)?
            .filter(|object| governs(object, workload));
        if object.is_none() {
            name = second_name(workload);
            object = self.get(&name, field_masks)?;
            let target_ref = object.as_ref().map(target_of);
            if let Some(pps) = target_ref.as_ref().and_then(aliased) {
                name = pps.into();
                object = self.get(&name, field_masks)?;
            }
        }
        Ok(object
            .filter(|object| governs(object, workload))
            .map(|object| (name, object)))
    }

    /// Reads what a Pod needs of the object that governs its workload.
    fn read_governing(
        self,
        name: &str,
        object: &Value,
        pod: &str,
    ) -> Result<GoverningPps, LookupError> {
        let malformed = |error: &dyn fmt::Display| self.get_call(name).malformed(error);
        let status = &object["status"];
        Ok(GoverningPps {
            name: name.into(),
            spec: Spec::read_for_injection(&object["spec"]).map_err(|error| malformed(&error))?,
            state: recorded_state(status, pod).map_err(|error| malformed(&error))?,
            target_uid: status["targetUID"].as_str().map(str::to_owned),
        })
    }

    fn get_call(self, name: &str) -> HostCall<'_> {
        HostCall {
            api_version: self.api_version,
            name,
        }
    }

    /// Reads one object, uncached; `None` if it does not exist.
    fn get(self, name: &str, field_masks: &[&str]) -> Result<Option<Value>, LookupError> {
        // The host puts the name into the path of a URL. No object has a name that could change the
        // request. An alias can point to any text.
        if !is_dns_subdomain(name) {
            return Ok(None);
        }
        let call = self.get_call(name);
        let request = object(vec![
            ("api_version", self.api_version.into()),
            ("kind", KIND.into()),
            ("name", name.into()),
            ("namespace", self.namespace.into()),
            ("disable_cache", true.into()),
            ("field_masks", field_masks.into()),
        ]);
        let request = request.into();
        match self.host.call("kubernetes", GET, &to_text(&request)) {
            Ok(answer) => {
                let object: Value =
                    serde_json::from_str(&answer).map_err(|error| call.malformed(&error))?;
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
}

/// Whether an object can govern a workload: it targets it, and is not terminating.
fn governs(object: &Value, workload: &TargetReference) -> bool {
    let is_terminating = !object["metadata"]["deletionTimestamp"].is_null();
    may_govern(workload, &target_of(object), is_terminating)
}

/// The target of an object. OpenKruise's CRD allows objects without one: it is empty then.
fn target_of(object: &Value) -> TargetReference {
    TargetReference::read(&object["spec"]["targetRef"])
}
