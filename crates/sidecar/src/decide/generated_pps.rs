//! The decision about the generated PPS of an annotated workload: whether to apply it, delete it or leave it.

use std::collections::BTreeMap;
use std::sync::Arc;

use pps_core::generate::{self, FIELD_MANAGER, MANAGED_BY_LABEL, Request};
use pps_core::pps::{API_VERSION, KIND, TargetReference};
use pps_core::{Reason, Spec};
use serde_json::{Value, json};

use super::inventory::TrackedPps;
use crate::facts::{NamespacedName, WorkloadFact, WorkloadKey};

/// What has to be done about the generated PPS of a workload.
#[derive(Clone, Debug, PartialEq)]
pub enum GeneratedPps {
    /// Apply this configuration, server-side.
    Apply {
        /// The object.
        key: NamespacedName,
        /// The fields that the sidecar owns.
        body: Value,
        /// Whether the object does not exist yet, so that nothing may be taken over by force.
        new: bool,
    },
    /// Delete the object, if it still has this UID and resource version: somebody may just have taken it over.
    Delete {
        /// The object.
        key: NamespacedName,
        /// Its UID.
        uid: String,
        /// Its resource version.
        resource_version: String,
    },
}

/// A decision, and what the user of the workload has to know.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    pub(crate) write: Option<GeneratedPps>,
    pub(crate) warning: Option<(Reason, String)>,
}

/// A workload, and the PPS objects that matter to its generated one.
pub(crate) struct View<'a> {
    pub(crate) key: &'a WorkloadKey,
    pub(crate) workload: &'a WorkloadFact,
    /// All PPS objects.
    pub(crate) all: &'a BTreeMap<NamespacedName, TrackedPps>,
    /// Those that name this workload.
    pub(crate) targeting: Vec<&'a NamespacedName>,
}

/// A workload as the target of a PPS.
pub(crate) fn target_of(key: &WorkloadKey, fact: &WorkloadFact) -> TargetReference {
    TargetReference {
        api_version: fact.api_version.clone(),
        kind: key.kind.kind.to_string(),
        name: key.object.name.to_string(),
    }
}

/// Decides what to do now.
pub(crate) fn decide(view: &View<'_>) -> Decision {
    let target = target_of(view.key, view.workload);
    let request = generate::read_request(&target, &view.workload.annotations);
    let unusable = request.as_ref().and_then(|request| request.warnings.first());
    let unusable = unusable.map(|warning| (Reason::InvalidAnnotation, warning.clone()));
    let (write, conflict) = match (request, view.generated()) {
        (None, None) => (None, None),
        (None, Some((key, pps))) => (Some(delete(key, pps)), None),
        (Some(request), Some((key, pps))) => (view.update(key, pps, &request), None),
        (Some(request), None) => match view.free_name(&target) {
            Ok(key) => (key.map(|key| view.create(key, &request)), None),
            Err(holder) => (None, Some((Reason::NameConflict, name_conflict(&holder)))),
        },
    };
    Decision { write, warning: conflict.or(unusable) }
}

fn delete(key: &NamespacedName, pps: &TrackedPps) -> GeneratedPps {
    GeneratedPps::Delete {
        key: key.clone(),
        uid: pps.fact.uid.clone(),
        resource_version: pps.fact.resource_version.clone(),
    }
}

fn name_conflict(holder: &NamespacedName) -> String {
    format!(
        "point the targetRef of PersistentPodState {} at this workload, or delete it: it has the name that a generated one needs, and none is generated until then",
        holder.name
    )
}

impl<'a> View<'a> {
    /// The object that was generated for the workload, if it exists.
    fn generated(&self) -> Option<(&'a NamespacedName, &'a TrackedPps)> {
        self.targeting
            .iter()
            .filter_map(|key| Some((*key, self.all.get(*key)?)))
            .find(|(_, pps)| pps.fact.generated && !pps.fact.terminating)
    }

    fn update(&self, key: &NamespacedName, pps: &TrackedPps, request: &Request) -> Option<GeneratedPps> {
        let has_owner = pps.fact.owners.iter().any(|owner| *owner.uid == *self.workload.uid);
        if has_owner && generate::is_satisfied_by(&request.spec, &pps.fact.spec) {
            return None;
        }
        let body = self.body(key, &request.spec, Some(&pps.fact.uid));
        Some(GeneratedPps::Apply { key: key.clone(), body, new: false })
    }

    fn create(&self, key: NamespacedName, request: &Request) -> GeneratedPps {
        let body = self.body(&key, &request.spec, None);
        GeneratedPps::Apply { key, body, new: true }
    }

    /// A name for the generated PPS. None if another PPS serves the workload already, or one of that name is
    /// terminating; an error, with the object that has the name, if no name is free.
    fn free_name(&self, target: &TargetReference) -> Result<Option<NamespacedName>, NamespacedName> {
        if !self.targeting.is_empty() {
            return Ok(None);
        }
        let first = &self.key.object;
        let Some(holder) = self.all.get(first) else { return Ok(Some(first.clone())) };
        if holder.fact.terminating {
            return Ok(None);
        }
        if !holder.fact.generated || holder.fact.unreadable.is_some() {
            return Err(first.clone());
        }
        // It was generated for a workload of another kind with the same name.
        let namespace: &Arc<str> = &first.namespace;
        let second = NamespacedName::new(namespace.clone(), generate::second_name(target));
        if self.all.contains_key(&second) { Err(second) } else { Ok(Some(second)) }
    }

    /// The fields that the sidecar owns in a generated PPS. With a UID, it applies only to that object.
    fn body(&self, key: &NamespacedName, spec: &Spec, uid: Option<&str>) -> Value {
        let target = &spec.target_ref;
        let mut body = json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": &*key.name,
                "namespace": &*key.namespace,
                "labels": {MANAGED_BY_LABEL: FIELD_MANAGER},
                "ownerReferences": [{
                    "apiVersion": target.api_version,
                    "kind": target.kind,
                    "name": target.name,
                    "uid": &*self.workload.uid,
                    "controller": true,
                }],
            },
            "spec": spec,
        });
        if let Some(uid) = uid {
            body["metadata"]["uid"] = uid.into();
        }
        body
    }
}
