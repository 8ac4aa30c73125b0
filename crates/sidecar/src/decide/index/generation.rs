//! Which PPS objects this program makes for annotated workloads, and which it deletes.

use std::sync::Arc;

use pps_core::pps::{API_VERSION, KIND, TargetReference};
use pps_core::{Reason, Spec, generate};
use serde_json::{Value, json};

use super::Index;
use super::object::Object;
use crate::facts::{NamespacedName, Notice, Subject, WorkloadFact, WorkloadKey};

/// What has to be done about the generated PPS of a workload.
#[derive(Clone, Debug, PartialEq)]
pub enum GeneratedPps {
    /// Apply this configuration, server-side. `new` says that there is no such object yet, so that
    /// nothing may be taken over by force.
    Apply {
        /// The object.
        key: NamespacedName,
        /// The fields that this program owns.
        body: Value,
        /// Whether there is none yet.
        new: bool,
    },
    /// Delete the object, if it still is this one.
    Delete {
        /// The object.
        key: NamespacedName,
        /// Its UID.
        uid: String,
        /// Its resource version: somebody may just be making it their own.
        resource_version: String,
    },
}

/// A workload as the target of a PPS.
pub(super) fn target_of(key: &WorkloadKey, fact: &WorkloadFact) -> TargetReference {
    TargetReference {
        api_version: fact.api_version.clone(),
        kind: key.kind.kind.to_string(),
        name: key.object.name.to_string(),
    }
}

impl Index {
    /// What has to be done now about the generated PPS of a workload; nothing if all is well, if
    /// something is on its way, or if it cannot be decided yet.
    pub fn generated_pps(&mut self, workload: &WorkloadKey) -> Option<GeneratedPps> {
        if !self.is_complete() {
            return None;
        }
        if let Some(asked_again) = self.generating.get_mut(workload) {
            *asked_again = true;
            return None;
        }
        let fact = &self.workloads.get(workload).filter(|fact| !fact.terminating)?.clone();
        let target = target_of(workload, fact);
        let request = generate::request(&target, &fact.annotations);
        if let Some(warning) = request.as_ref().and_then(|request| request.warnings.first()) {
            self.tell(workload, Reason::InvalidAnnotation, warning.clone());
        }
        let ours = self.generated_for(workload);
        let todo = match (request, ours) {
            (None, None) => Ok(None),
            (None, Some((key, object))) => Ok(Some(GeneratedPps::Delete {
                key: key.clone(),
                uid: object.fact.uid.clone(),
                resource_version: object.fact.resource_version.clone(),
            })),
            (Some(request), Some((key, object))) => {
                let satisfied = generate::is_satisfied_by(&request.spec, &object.fact.spec)
                    && object.fact.owners.iter().any(|owner| *owner.uid == *fact.uid);
                Ok((!satisfied).then(|| GeneratedPps::Apply {
                    key: key.clone(),
                    body: body(key, fact, &request.spec, Some(&object.fact.uid)),
                    new: false,
                }))
            }
            (Some(request), None) => self.free_name(workload, &target).map(|name| {
                name.map(|key| {
                    let body = body(&key, fact, &request.spec, None);
                    GeneratedPps::Apply { key, body, new: true }
                })
            }),
        };
        match todo {
            Ok(Some(todo)) => {
                self.generating.insert(workload.clone(), false);
                Some(todo)
            }
            Ok(None) => None,
            Err(taken) => {
                let message = format!(
                    "PersistentPodState {} exists and was not generated, so it is left alone and none is generated for this workload; \
                     let it name this workload, or delete it",
                    taken.name
                );
                self.tell(workload, Reason::NameConflict, message);
                None
            }
        }
    }

    /// The generated PPS of this workload was written or deleted, or could not be.
    pub fn on_generated_pps_written(&mut self, workload: &WorkloadKey, ok: bool) {
        let asked_again = self.generating.remove(workload).unwrap_or(false);
        if asked_again || !ok {
            self.work.generated.insert(workload.clone());
        }
    }

    /// Has users told, once, until something else is to be told about the workload.
    pub fn tell(&mut self, workload: &WorkloadKey, reason: Reason, message: String) {
        let Some(fact) = self.workloads.get(workload) else { return };
        let subject = Subject {
            api_version: fact.api_version.clone(),
            kind: workload.kind.kind.to_string(),
            object: workload.object.clone(),
            uid: fact.uid.to_string(),
        };
        let notice = Notice { subject, reason, message: message.clone() };
        if self.told.insert(workload.clone(), (reason, message.clone())) != Some((reason, message)) {
            self.work.notices.push(notice);
        }
    }

    /// The object that was generated for this workload, if it is there.
    fn generated_for(&self, workload: &WorkloadKey) -> Option<(&NamespacedName, &Object)> {
        let claims = self.claims.get(workload)?;
        claims
            .iter()
            .filter_map(|key| Some((key, self.objects.get(key)?)))
            .find(|(_, object)| object.fact.generated && !object.fact.terminating)
    }

    /// The name for the PPS of a workload that has none: nothing if a foreign one serves it already,
    /// or one is being deleted; an error, with the object in the way, if no name is free.
    fn free_name(
        &self,
        workload: &WorkloadKey,
        target: &TargetReference,
    ) -> Result<Option<NamespacedName>, NamespacedName> {
        if self.claims.contains_key(workload) {
            return Ok(None);
        }
        let namespace: &Arc<str> = &workload.object.namespace;
        let Some(holder) = self.objects.get(&workload.object) else {
            return Ok(Some(workload.object.clone()));
        };
        if holder.fact.terminating {
            return Ok(None);
        }
        if !holder.fact.generated {
            return Err(workload.object.clone());
        }
        // It was generated for a workload of another kind with the same name.
        let second = NamespacedName::new(namespace.clone(), generate::second_name(target));
        if self.objects.contains_key(&second) { Err(second) } else { Ok(Some(second)) }
    }
}

/// The fields that this program owns in a generated PPS. With a UID it applies only to that object.
fn body(key: &NamespacedName, workload: &WorkloadFact, spec: &Spec, uid: Option<&str>) -> Value {
    let target = &spec.target_ref;
    let mut body = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": &*key.name,
            "namespace": &*key.namespace,
            "labels": {generate::MANAGED_BY_LABEL: generate::FIELD_MANAGER},
            "ownerReferences": [{
                "apiVersion": target.api_version,
                "kind": target.kind,
                "name": target.name,
                "uid": &*workload.uid,
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
