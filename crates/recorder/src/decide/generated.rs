//! The objects that the sidecar makes for a workload: whether to create, change, delete or leave
//! the generated PPS of an annotated one, and the alias through which the policy finds a PPS of
//! another name than its workload's without a list (see [`pps_core::governing`]).

use pps_core::pps::{API_VERSION, KIND, TargetReference, group_of};
use pps_core::{Reason, Spec, governing};
use serde_json::{Map, Value, json};

use crate::cluster::Cluster;
use crate::facts::{NamespacedName, Owner, PpsFact, WorkloadFact, WorkloadKey};
use crate::generate::{self, FIELD_MANAGER, GENERATED_FIELDS, MANAGED_BY_LABEL, Request};
use crate::ledger::{Aliases, Ledger, Objects, TrackedPps};

const REQUIRED: &str = "requiredPersistentTopology";
/// The field of the required topology that says when it ends.
const FALLBACK: &str = "fallbackAfterSeconds";

/// What has to be done about a generated PPS, or an alias.
#[derive(Clone, Debug, PartialEq)]
pub enum GeneratedPps {
    /// Create the object. If there is one of this name already, the API server refuses: nothing is
    /// taken over.
    Create {
        key: NamespacedName,
        body: Value,
        is_alias: bool,
    },
    /// Change the fields that come from annotations, and the owner, if the object still has the UID
    /// and the resource version in this merge patch.
    Update { key: NamespacedName, patch: Value },
    /// Delete the object, if it still has this UID and resource version: a user may just have taken
    /// it over.
    Delete {
        key: NamespacedName,
        uid: String,
        resource_version: String,
        is_alias: bool,
    },
}

impl GeneratedPps {
    pub fn key(&self) -> &NamespacedName {
        match self {
            Self::Create { key, .. } | Self::Update { key, .. } | Self::Delete { key, .. } => key,
        }
    }

    /// Whether the workload has to be as the watch has shown it: the write deletes its PPS, or
    /// names it as an owner, and the garbage collector deletes what has an owner that no longer
    /// exists.
    pub fn depends_on_workload(&self) -> bool {
        match self {
            Self::Update { patch, .. } => !patch["metadata"]["ownerReferences"].is_null(),
            Self::Create { is_alias, .. } | Self::Delete { is_alias, .. } => !is_alias,
        }
    }

    /// The write apart from the version of the object that it was made from.
    #[must_use]
    pub fn without_version(mut self) -> Self {
        match &mut self {
            Self::Create { .. } => {}
            Self::Update { patch, .. } => drop(patch["metadata"]["resourceVersion"].take()),
            Self::Delete {
                resource_version, ..
            } => resource_version.clear(),
        }
        self
    }
}

#[derive(Debug, Default)]
pub(crate) struct GeneratedDecision {
    pub(crate) write: Option<GeneratedPps>,
    pub(crate) warning: Option<Warning>,
}

/// What the user has to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Warning {
    pub(crate) reason: Reason,
    pub(crate) message: String,
}

impl GeneratedDecision {
    fn write(write: GeneratedPps) -> Self {
        Self {
            write: Some(write),
            warning: None,
        }
    }

    fn warn(reason: Reason, message: String) -> Self {
        Self {
            write: None,
            warning: Some(Warning { reason, message }),
        }
    }
}

pub(crate) struct WorkloadView<'a> {
    pub key: &'a WorkloadKey,
    /// The [second name](pps_core::governing::second_name) of the workload.
    pub second_name: &'a NamespacedName,
    /// The workload, unless it is terminating.
    pub workload: Option<&'a WorkloadFact>,
    pub objects: &'a Objects,
    pub aliases: &'a Aliases,
}

fn target_of(key: &WorkloadKey, fact: &WorkloadFact) -> TargetReference {
    TargetReference {
        api_version: fact.api_version.clone(),
        kind: key.kind.kind.to_string(),
        name: key.object.name.to_string(),
    }
}

impl<'a> WorkloadView<'a> {
    pub(crate) fn of(
        key: &'a WorkloadKey,
        second_name: &'a NamespacedName,
        cluster: &'a Cluster,
        ledger: &'a Ledger,
    ) -> Self {
        let workload = cluster.workloads.get(key);
        Self {
            key,
            second_name,
            workload: workload.filter(|workload| !workload.terminating),
            objects: &ledger.objects,
            aliases: &ledger.aliases,
        }
    }
}

/// Decides about the generated PPS of a workload.
pub(crate) fn decide_generated(view: &WorkloadView<'_>) -> GeneratedDecision {
    let Some(workload) = view.workload else {
        return GeneratedDecision::default();
    };
    let target = target_of(view.key, workload);
    let request = match generate::read_request(&target, &workload.annotations) {
        Ok(request) => request,
        // What was generated before stays: a mistake is no wish to lose recorded states.
        Err(refusal) => {
            let message = format!("{refusal}; until then nothing is generated, changed or deleted");
            return GeneratedDecision::warn(Reason::InvalidAnnotation, message);
        }
    };
    let unusable = request
        .as_ref()
        .and_then(|request| request.warnings.first())
        .map(|warning| Warning {
            reason: Reason::InvalidAnnotation,
            message: warning.clone(),
        });
    let decision = match (request, view.generated()) {
        (None, None) => GeneratedDecision::default(),
        // Its spec and its owners are unknown. An Event reports that it cannot be read.
        (_, Some((_, pps))) if pps.observed.unreadable.is_some() => GeneratedDecision::default(),
        (None, Some((key, pps))) => GeneratedDecision::write(delete(key, &pps.observed, false)),
        (Some(request), Some((key, pps))) => GeneratedDecision {
            write: update(key, pps, workload, &request),
            warning: None,
        },
        (Some(request), None) => match view.free_name() {
            FreeName::Free(key) => GeneratedDecision::write(create(key, workload, &request)),
            FreeName::NotNeeded => GeneratedDecision::default(),
            FreeName::HeldBy(holder) => {
                let advice = format!(
                    "point the targetRef of PersistentPodState {} at this workload, or delete it: \
                     it has the name that a generated one needs, and none is generated until then",
                    holder.name
                );
                GeneratedDecision::warn(Reason::NameConflict, advice)
            }
        },
    };
    GeneratedDecision {
        warning: decision.warning.or(unusable),
        ..decision
    }
}

/// A name for a generated PPS.
enum FreeName {
    Free(NamespacedName),
    /// Another PPS serves the workload already, or the name is becoming free.
    NotNeeded,
    /// Neither name is free.
    HeldBy(NamespacedName),
}

fn delete(key: &NamespacedName, fact: &PpsFact, is_alias: bool) -> GeneratedPps {
    let uid = fact.uid.clone();
    let resource_version = fact.resource_version.clone();
    GeneratedPps::Delete {
        key: key.clone(),
        uid,
        resource_version,
        is_alias,
    }
}

impl<'a> WorkloadView<'a> {
    fn generated(&self) -> Option<(&'a NamespacedName, &'a TrackedPps)> {
        let mut claims = self
            .objects
            .claims(self.key)
            .filter_map(|key| Some((key, self.objects.get(key)?)));
        claims.find(|(_, pps)| pps.observed.generated && !pps.observed.terminating)
    }

    fn free_name(&self) -> FreeName {
        if self.objects.claims(self.key).next().is_some() {
            return FreeName::NotNeeded;
        }
        let first = &self.key.object;
        let second = self.second_name;
        match self.objects.get(first) {
            None if !self.aliases.objects.contains_key(first) => {
                return FreeName::Free(first.clone());
            }
            Some(holder) if holder.observed.terminating => return FreeName::NotNeeded,
            Some(holder) if !holder.observed.generated || holder.observed.unreadable.is_some() => {
                return FreeName::HeldBy(first.clone());
            }
            // An alias, or it was generated for a workload of another kind with the same name.
            _ => {}
        }
        match self.aliases.objects.get(second) {
            // No PPS targets the workload, so its alias is about to be deleted.
            Some(alias) if alias.generated => FreeName::NotNeeded,
            None if self.objects.get(second).is_none() => FreeName::Free(second.clone()),
            _ => FreeName::HeldBy(second.clone()),
        }
    }

    /// The governing PPS, if the policy finds it only through an alias.
    pub(crate) fn behind_alias(&self) -> Option<(&'a NamespacedName, &'a TrackedPps)> {
        let first = &self.key.object.name;
        let second = &self.second_name.name;
        self.objects
            .governing(self.key)
            .filter(|(key, _)| key.name != *first && key.name != *second)
    }
}

fn update(
    key: &NamespacedName,
    pps: &TrackedPps,
    workload: &WorkloadFact,
    request: &Request,
) -> Option<GeneratedPps> {
    let fact = &pps.observed;
    let mut patch =
        json!({"metadata": {"uid": fact.uid, "resourceVersion": fact.resource_version}});
    let spec = spec_patch(&request.spec, pps);
    let has_owner = fact.owners.iter().any(|owner| *owner.uid == *workload.uid);
    if has_owner && spec.is_empty() {
        return None;
    }
    if !has_owner {
        let owners = owners(workload, &request.spec.target_ref, &fact.owners);
        patch["metadata"]["ownerReferences"] = json!(owners);
    }
    if !spec.is_empty() {
        patch["spec"] = spec.into();
    }
    Some(GeneratedPps::Update {
        key: key.clone(),
        patch,
    })
}

/// The owners that an object should have: those of other users, and the workload in place of its
/// predecessor.
fn owners(workload: &WorkloadFact, target: &TargetReference, before: &[Owner]) -> Vec<Owner> {
    let is_predecessor = |owner: &Owner| {
        owner.kind == target.kind
            && owner.name == target.name
            && group_of(&owner.api_version) == target.group()
    };
    let mut owners: Vec<Owner> = before
        .iter()
        .filter(|owner| !is_predecessor(owner))
        .cloned()
        .collect();
    let has_controller = owners.iter().any(|owner| owner.controller == Some(true));
    owners.push(Owner {
        api_version: target.api_version.clone(),
        kind: target.kind.clone(),
        name: target.name.clone(),
        uid: workload.uid.to_string(),
        controller: (!has_controller).then_some(true),
        block_owner_deletion: None,
    });
    owners
}

fn create(key: NamespacedName, workload: &WorkloadFact, request: &Request) -> GeneratedPps {
    let owners = owners(workload, &request.spec.target_ref, &[]);
    let body = body(&key, &owners, &json!(request.spec));
    GeneratedPps::Create {
        key,
        body,
        is_alias: false,
    }
}

/// The required topology that an object should have. What a user bounds it with stays, unless an
/// annotation says otherwise, or has said so before.
fn required(asked: Option<&Value>, actual: Option<&Value>, pps: &TrackedPps) -> Option<Value> {
    let mut asked = asked?.clone();
    let seconds = actual.map_or(&Value::Null, |actual| &actual[FALLBACK]);
    if asked[FALLBACK].is_null() && !seconds.is_null() && !pps.observed.owns_fallback {
        asked[FALLBACK] = seconds.clone();
    }
    if asked[FALLBACK].is_null()
        && let Some(fields) = asked.as_object_mut()
    {
        fields.remove(FALLBACK);
    }
    Some(asked)
}

/// What has to change in a spec: the fields that annotations name, and those that they named
/// before. A field that no annotation names and that somebody else set stays.
fn spec_patch(asked: &Spec, pps: &TrackedPps) -> Map<String, Value> {
    let mut asked = json!(asked);
    let actual = json!(pps.observed.spec);
    if let Some(required) = required(asked.get(REQUIRED), actual.get(REQUIRED), pps) {
        asked[REQUIRED] = required;
    }
    let mut patch = Map::new();
    for field in ["targetRef"].into_iter().chain(GENERATED_FIELDS) {
        match (asked.get(field), actual.get(field)) {
            (Some(asked), actual) if actual != Some(asked) => {
                patch.insert(field.into(), asked.clone());
            }
            (None, Some(_)) if pps.observed.owned.contains(&field) => {
                patch.insert(field.into(), Value::Null);
            }
            _ => {}
        }
    }
    // A merge patch would keep the other spelling, and both together are refused.
    if let Some(Value::Object(topology)) = patch.get_mut(REQUIRED) {
        topology.insert("keys".into(), Value::Null);
        // And what an annotation no longer says.
        if !actual[REQUIRED][FALLBACK].is_null() {
            topology.entry(FALLBACK).or_insert(Value::Null);
        }
    }
    patch
}

fn body(key: &NamespacedName, owners: &[Owner], spec: &Value) -> Value {
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

/// Decides about the alias of the PPS that governs a workload.
pub(crate) fn decide_alias(view: &WorkloadView<'_>) -> GeneratedDecision {
    let name = view.second_name;
    match (view.behind_alias(), view.aliases.objects.get(name)) {
        (_, Some(existing)) if existing.terminating => GeneratedDecision::default(),
        (Some((key, pps)), Some(existing)) if is_alias_of(existing, key, &pps.observed) => {
            GeneratedDecision::default()
        }
        (_, Some(existing)) if existing.generated => {
            GeneratedDecision::write(delete(name, existing, true))
        }
        (None, _) => GeneratedDecision::default(),
        (Some((key, pps)), None) if view.objects.get(name).is_none() => {
            GeneratedDecision::write(create_alias(name, key, &pps.observed))
        }
        // The policy cannot find the PPS: somebody else's object has the name of the alias.
        (Some((key, _)), _) => {
            let advice = format!(
                "create PersistentPodState {} under the name {}, or delete {}: that object has \
                 the name through which the policy would find it, so nothing is injected",
                key.name, view.key.object.name, name.name
            );
            GeneratedDecision::warn(Reason::NameConflict, advice)
        }
    }
}

fn create_alias(name: &NamespacedName, key: &NamespacedName, pps: &PpsFact) -> GeneratedPps {
    let owner = Owner {
        api_version: API_VERSION.into(),
        kind: KIND.into(),
        name: key.name.to_string(),
        uid: pps.uid.clone(),
        ..Owner::default()
    };
    let spec = json!({"targetRef": governing::target_of_alias(&key.name)});
    GeneratedPps::Create {
        key: name.clone(),
        body: body(name, &[owner], &spec),
        is_alias: true,
    }
}

/// Whether an alias leads to this PPS, and ends with it if the sidecar made the alias.
fn is_alias_of(existing: &PpsFact, key: &NamespacedName, pps: &PpsFact) -> bool {
    governing::aliased(&existing.spec.target_ref) == Some(&key.name)
        && (!existing.generated || existing.owners.iter().any(|owner| owner.uid == pps.uid))
}
