//! The decision about the alias of a PPS, through which the policy finds a PPS of another name than its
//! workload's without a list: see [`pps_core::alias`].

use std::collections::{BTreeMap, HashMap};

use pps_core::pps::{API_VERSION, KIND};
use pps_core::{Reason, alias};

use serde_json::json;

use super::generated_pps::{Decision, GeneratedPps, body};
use crate::facts::{NamespacedName, Owner, PpsFact, WorkloadKey};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Alias {
    pps: String,
    uid: String,
    resource_version: String,
    terminating: bool,
    pub generated: bool,
    owner_uids: Vec<String>,
}

impl Alias {
    pub(super) fn of(fact: &PpsFact) -> Option<Self> {
        Some(Self {
            pps: alias::aliased(&fact.spec.target_ref)?.to_owned(),
            uid: fact.uid.clone(),
            resource_version: fact.resource_version.clone(),
            terminating: fact.terminating,
            generated: fact.generated,
            owner_uids: fact.owners.iter().map(|owner| owner.uid.clone()).collect(),
        })
    }
}

/// The aliases that exist, the workloads that need one, and the workloads for which an object is being made.
#[derive(Debug, Default)]
pub(super) struct Aliases {
    objects: BTreeMap<NamespacedName, Alias>,
    /// Why the API server or a policy has refused these.
    refused: BTreeMap<NamespacedName, String>,
    /// By the name of the alias: the workloads that need one, or needed one when they were last examined.
    waiting: BTreeMap<NamespacedName, WorkloadKey>,
    /// Workloads whose generated PPS or alias is being written, and whether another write was asked for
    /// meanwhile.
    in_flight: HashMap<WorkloadKey, bool>,
}

impl Aliases {
    pub(super) fn insert(&mut self, key: &NamespacedName, alias: Alias) {
        self.refused.remove(key);
        self.objects.insert(key.clone(), alias);
    }

    /// Returns whether there was one of this name.
    pub(super) fn remove(&mut self, key: &NamespacedName) -> bool {
        self.objects.remove(key).is_some()
    }

    pub(super) fn get(&self, key: &NamespacedName) -> Option<&Alias> {
        self.objects.get(key)
    }

    pub(super) fn note_refusal(&mut self, key: &NamespacedName, refusal: String) {
        self.refused.insert(key.clone(), refusal);
    }

    pub(super) fn refusal(&self, key: &NamespacedName) -> Option<&String> {
        self.refused.get(key)
    }

    /// The workload to examine when the object of this name changes.
    pub(super) fn waiting_for(&self, key: &NamespacedName) -> Option<&WorkloadKey> {
        self.waiting.get(key)
    }

    pub(super) fn workloads(&self) -> impl Iterator<Item = &WorkloadKey> {
        self.waiting.values()
    }

    /// Notes whether a workload has to be examined when the object of its second name changes.
    pub(super) fn follow(&mut self, name: NamespacedName, workload: &WorkloadKey, needed: bool) {
        if !needed {
            self.refused.remove(&name);
        }
        if needed || self.objects.contains_key(&name) {
            self.waiting.insert(name, workload.clone());
        } else {
            self.waiting.remove(&name);
        }
    }

    pub(super) fn begin_write(&mut self, workload: &WorkloadKey) {
        self.in_flight.insert(workload.clone(), false);
    }

    /// Whether an object of this workload is being written. If so, another write is asked for after it.
    pub(super) fn is_write_in_flight(&mut self, workload: &WorkloadKey) -> bool {
        self.in_flight.get_mut(workload).map(|asked_again| *asked_again = true).is_some()
    }

    /// Returns whether another write was asked for meanwhile.
    pub(super) fn end_write(&mut self, workload: &WorkloadKey) -> bool {
        self.in_flight.remove(workload).unwrap_or(false)
    }
}

pub(super) struct View<'a> {
    pub name: &'a NamespacedName,
    pub workload: &'a WorkloadKey,
    pub governing: Option<(&'a NamespacedName, &'a PpsFact)>,
    pub existing: Option<&'a Alias>,
    /// Whether a PPS, which is no alias, has the name of the alias.
    pub is_taken: bool,
}

impl View<'_> {
    /// The governing PPS, if the policy finds it only through an alias.
    pub(super) fn hidden(&self) -> Option<(&NamespacedName, &PpsFact)> {
        self.governing.filter(|(key, _)| key.name != self.workload.object.name && key.name != self.name.name)
    }
}

pub(super) fn decide(view: &View<'_>) -> Decision {
    let delete = |existing: &Alias| {
        let write = existing.generated.then(|| GeneratedPps::Delete {
            key: view.name.clone(),
            uid: existing.uid.clone(),
            resource_version: existing.resource_version.clone(),
            is_alias: true,
        });
        Decision { write, warning: None }
    };
    match (view.hidden(), view.existing) {
        (_, Some(existing)) if existing.terminating => Decision::default(),
        (None, Some(existing)) => delete(existing),
        (Some((key, pps)), Some(existing)) => {
            let points_to = existing.pps == *key.name;
            if points_to && (!existing.generated || existing.owner_uids.contains(&pps.uid)) {
                Decision::default()
            } else if existing.generated {
                delete(existing)
            } else {
                conflict(view, key)
            }
        }
        (Some((key, _)), None) if view.is_taken => conflict(view, key),
        (Some((key, pps)), None) => create(view, key, pps),
        (None, None) => Decision::default(),
    }
}

fn create(view: &View<'_>, key: &NamespacedName, pps: &PpsFact) -> Decision {
    let owner = Owner {
        api_version: API_VERSION.into(),
        kind: KIND.into(),
        name: key.name.to_string(),
        uid: pps.uid.clone(),
        ..Owner::default()
    };
    let spec = json!({"targetRef": alias::target_of_alias(&key.name)});
    let body = body(view.name, &json!([owner]), &spec);
    let write = GeneratedPps::Create { key: view.name.clone(), body, is_alias: true };
    Decision { write: Some(write), warning: None }
}

/// The policy cannot find the PPS: somebody else's object has the name of the alias.
fn conflict(view: &View<'_>, key: &NamespacedName) -> Decision {
    let advice = format!(
        "create PersistentPodState {} under the name {}, or delete {}: that object has the name through which the policy would find it, so nothing is injected",
        key.name, view.workload.object.name, view.name.name
    );
    Decision { write: None, warning: Some((Reason::NameConflict, advice)) }
}
