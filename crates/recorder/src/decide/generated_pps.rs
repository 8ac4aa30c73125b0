//! The decision about the generated PPS of an annotated workload: whether to create it, change it, delete it
//! or leave it.

use std::collections::BTreeMap;

use crate::generate::{self, FIELD_MANAGER, GENERATED_FIELDS, MANAGED_BY_LABEL, Request};
use pps_core::pps::{API_VERSION, KIND, TargetReference, group_of};
use pps_core::{Reason, Spec};
use serde_json::{Map, Value, json};

use super::alias::Aliases;
use super::tracked_pps::TrackedPps;
use crate::facts::{NamespacedName, Owner, PpsFact, WorkloadFact, WorkloadKey};

/// What has to be done about an object that the sidecar makes for a workload: its generated PPS, or an alias.
#[derive(Clone, Debug, PartialEq)]
pub enum GeneratedPps {
    /// Create the object. If there is one of this name already, the API server refuses, and nothing is taken
    /// over.
    Create { key: NamespacedName, body: Value, is_alias: bool },
    /// Change the fields that come from annotations, and the owner, if the object still has the UID and the
    /// resource version in this merge patch.
    Update { key: NamespacedName, patch: Value },
    /// Delete the object, if it still has this UID and resource version: somebody may just have taken it
    /// over.
    Delete { key: NamespacedName, uid: String, resource_version: String, is_alias: bool },
}

impl GeneratedPps {
    pub fn key(&self) -> &NamespacedName {
        match self {
            Self::Create { key, .. } | Self::Update { key, .. } | Self::Delete { key, .. } => key,
        }
    }

    /// Whether states are lost if the workload is not as the watch has shown it: its PPS is deleted, or gets
    /// an owner that no longer exists, with which the garbage collector deletes it.
    pub fn depends_on_workload(&self) -> bool {
        match self {
            Self::Create { .. } => false,
            Self::Update { patch, .. } => !patch["metadata"]["ownerReferences"].is_null(),
            Self::Delete { is_alias, .. } => !is_alias,
        }
    }

    /// The write apart from the version of the object that it was made from.
    #[must_use]
    pub fn without_version(mut self) -> Self {
        match &mut self {
            Self::Create { .. } => {}
            Self::Update { patch, .. } => drop(patch["metadata"]["resourceVersion"].take()),
            Self::Delete { resource_version, .. } => resource_version.clear(),
        }
        self
    }
}

#[derive(Debug, Default)]
pub(super) struct Decision {
    pub write: Option<GeneratedPps>,
    pub warning: Option<(Reason, String)>,
}

pub(super) struct View<'a> {
    pub key: &'a WorkloadKey,
    pub workload: &'a WorkloadFact,
    pub all: &'a BTreeMap<NamespacedName, TrackedPps>,
    pub targeting: Vec<&'a NamespacedName>,
    pub aliases: &'a Aliases,
}

pub(super) fn target_of(key: &WorkloadKey, fact: &WorkloadFact) -> TargetReference {
    TargetReference {
        api_version: fact.api_version.clone(),
        kind: key.kind.kind.to_string(),
        name: key.object.name.to_string(),
    }
}

pub(super) fn decide(view: &View<'_>) -> Decision {
    let target = target_of(view.key, view.workload);
    let request = match generate::read_request(&target, &view.workload.annotations) {
        Ok(request) => request,
        // What was generated before stays: a mistake is no wish to lose what is recorded.
        Err(refusal) => {
            let message = format!("{refusal}; until then nothing is generated, changed or deleted");
            return Decision { write: None, warning: Some((Reason::InvalidAnnotation, message)) };
        }
    };
    let unusable = request.as_ref().and_then(|request| request.warnings.first());
    let unusable = unusable.map(|warning| (Reason::InvalidAnnotation, warning.clone()));
    let (write, conflict) = match (request, view.generated()) {
        (None, None) => (None, None),
        // Its spec and its owners are unknown. An Event reports that it cannot be read.
        (_, Some((_, pps))) if pps.fact.unreadable.is_some() => (None, None),
        (None, Some((key, pps))) => (Some(delete(key, &pps.fact, false)), None),
        (Some(request), Some((key, pps))) => (view.update(key, pps, &request), None),
        (Some(request), None) => match view.free_name() {
            Ok(key) => (key.map(|key| view.create(key, &request)), None),
            Err(holder) => {
                let advice = format!(
                    "point the targetRef of PersistentPodState {} at this workload, or delete it: it has the name that a generated one needs, and none is generated until then",
                    holder.name
                );
                (None, Some((Reason::NameConflict, advice)))
            }
        },
    };
    Decision { write, warning: conflict.or(unusable) }
}

pub(super) fn delete(key: &NamespacedName, fact: &PpsFact, is_alias: bool) -> GeneratedPps {
    let (uid, resource_version) = (fact.uid.clone(), fact.resource_version.clone());
    GeneratedPps::Delete { key: key.clone(), uid, resource_version, is_alias }
}

impl<'a> View<'a> {
    fn generated(&self) -> Option<(&'a NamespacedName, &'a TrackedPps)> {
        self.targeting
            .iter()
            .filter_map(|key| Some((*key, self.all.get(*key)?)))
            .find(|(_, pps)| pps.fact.generated && !pps.fact.terminating)
    }

    fn update(&self, key: &NamespacedName, pps: &TrackedPps, request: &Request) -> Option<GeneratedPps> {
        let fact = &pps.fact;
        let mut patch = json!({"metadata": {"uid": fact.uid, "resourceVersion": fact.resource_version}});
        let spec = spec_patch(&request.spec, pps);
        let has_owner = fact.owners.iter().any(|owner| *owner.uid == *self.workload.uid);
        if has_owner && spec.is_empty() {
            return None;
        }
        if !has_owner {
            patch["metadata"]["ownerReferences"] = json!(self.owners(&request.spec.target_ref, &fact.owners));
        }
        if !spec.is_empty() {
            patch["spec"] = spec.into();
        }
        Some(GeneratedPps::Update { key: key.clone(), patch })
    }

    /// The owners that an object should have: those of other users, and the workload in place of its
    /// predecessor.
    fn owners(&self, target: &TargetReference, before: &[Owner]) -> Vec<Owner> {
        let is_predecessor = |owner: &Owner| {
            owner.kind == target.kind
                && owner.name == target.name
                && group_of(&owner.api_version) == target.group()
        };
        let mut owners: Vec<Owner> = before.iter().filter(|owner| !is_predecessor(owner)).cloned().collect();
        let has_controller = owners.iter().any(|owner| owner.controller == Some(true));
        owners.push(Owner {
            api_version: target.api_version.clone(),
            kind: target.kind.clone(),
            name: target.name.clone(),
            uid: self.workload.uid.to_string(),
            controller: (!has_controller).then_some(true),
            block_owner_deletion: None,
        });
        owners
    }

    /// A name for the generated PPS. None if another PPS serves the workload already, or the name is becoming
    /// free; an error, with the object that has the name, if no name is free.
    fn free_name(&self) -> Result<Option<NamespacedName>, NamespacedName> {
        if !self.targeting.is_empty() {
            return Ok(None);
        }
        let first = &self.key.object;
        let is_free = match self.all.get(first) {
            None => !self.aliases.objects.contains_key(first),
            Some(holder) if holder.fact.terminating => return Ok(None),
            Some(holder) if !holder.fact.generated || holder.fact.unreadable.is_some() => {
                return Err(first.clone());
            }
            // It was generated for a workload of another kind with the same name.
            Some(_) => false,
        };
        if is_free {
            return Ok(Some(first.clone()));
        }
        let second = self.key.second_name();
        match self.aliases.objects.get(&second) {
            // No PPS targets the workload, so its alias is about to be deleted.
            Some(alias) if alias.generated => Ok(None),
            None if !self.all.contains_key(&second) => Ok(Some(second)),
            _ => Err(second),
        }
    }

    fn create(&self, key: NamespacedName, request: &Request) -> GeneratedPps {
        let owners = self.owners(&request.spec.target_ref, &[]);
        let body = body(&key, &json!(owners), &json!(request.spec));
        GeneratedPps::Create { key, body, is_alias: false }
    }
}

/// What has to change in a spec: the fields that annotations name, and those that they named before. A field
/// that no annotation names and that somebody else set stays.
fn spec_patch(asked: &Spec, pps: &TrackedPps) -> Map<String, Value> {
    let (asked, actual) = (json!(asked), json!(pps.fact.spec));
    let mut patch = Map::new();
    for field in ["targetRef"].into_iter().chain(GENERATED_FIELDS) {
        match (asked.get(field), actual.get(field)) {
            (Some(asked), actual) if actual != Some(asked) => {
                patch.insert(field.into(), asked.clone());
            }
            (None, Some(_)) if pps.fact.owned.contains(&field) => {
                patch.insert(field.into(), Value::Null);
            }
            _ => {}
        }
    }
    patch
}

pub(super) fn body(key: &NamespacedName, owners: &Value, spec: &Value) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": &*key.name,
            "namespace": &*key.namespace,
            "labels": {MANAGED_BY_LABEL: FIELD_MANAGER},
            "ownerReferences": owners,
        },
        "spec": spec,
    })
}
