//! The decision about the alias of a PPS, through which the policy finds a PPS of another name than its workload's
//! without a list: see [`pps_core::alias`].

use std::collections::BTreeMap;

use pps_core::pps::{API_VERSION, KIND, TargetReference};
use pps_core::{Reason, alias, generate};
use serde_json::json;

use super::generated_pps::{Decision, GeneratedPps, body};
use crate::facts::{NamespacedName, Owner, PpsFact, WorkloadKey};

/// An alias as the API server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alias {
    /// The name of the PPS that it points to.
    pps: String,
    uid: String,
    resource_version: String,
    terminating: bool,
    /// Whether the sidecar made it.
    generated: bool,
    owner_uids: Vec<String>,
}

impl Alias {
    /// An object as an alias, if it is one.
    pub(crate) fn of(fact: &PpsFact) -> Option<Self> {
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

/// The aliases that exist, and the workloads that need one, or needed one when they were last examined.
#[derive(Debug, Default)]
pub(crate) struct Aliases {
    objects: BTreeMap<NamespacedName, Alias>,
    /// Why the API server or a policy has refused these.
    refused: BTreeMap<NamespacedName, String>,
    waiting: BTreeMap<NamespacedName, WorkloadKey>,
}

impl Aliases {
    /// Stores an alias.
    pub(crate) fn insert(&mut self, key: &NamespacedName, alias: Alias) {
        self.refused.remove(key);
        self.objects.insert(key.clone(), alias);
    }

    /// Notes that an alias could not be made.
    pub(crate) fn note_refusal(&mut self, key: &NamespacedName, refusal: String) {
        self.refused.insert(key.clone(), refusal);
    }

    /// Why an alias could not be made, if it could not.
    pub(crate) fn refusal(&self, key: &NamespacedName) -> Option<&String> {
        self.refused.get(key)
    }

    /// Forgets an alias. Returns whether there was one.
    pub(crate) fn remove(&mut self, key: &NamespacedName) -> bool {
        self.objects.remove(key).is_some()
    }

    pub(crate) fn get(&self, key: &NamespacedName) -> Option<&Alias> {
        self.objects.get(key)
    }

    /// Whether an alias has this name, and whether the sidecar made it.
    pub(crate) fn is_generated(&self, key: &NamespacedName) -> Option<bool> {
        self.objects.get(key).map(|alias| alias.generated)
    }

    /// The workload to examine when the object of this name changes.
    pub(crate) fn waiting_for(&self, key: &NamespacedName) -> Option<&WorkloadKey> {
        self.waiting.get(key)
    }

    /// All workloads to which an alias matters.
    pub(crate) fn workloads(&self) -> impl Iterator<Item = &WorkloadKey> {
        self.waiting.values()
    }

    /// Notes whether a workload has to be examined when the object of its second name changes.
    pub(crate) fn follow(&mut self, name: NamespacedName, workload: &WorkloadKey, needed: bool) {
        if !needed {
            self.refused.remove(&name);
        }
        if needed || self.objects.contains_key(&name) {
            self.waiting.insert(name, workload.clone());
        } else {
            self.waiting.remove(&name);
        }
    }
}

/// A workload, the PPS that governs it, and the object that has the name of the alias.
pub(crate) struct View<'a> {
    pub(crate) name: &'a NamespacedName,
    pub(crate) workload: &'a WorkloadKey,
    pub(crate) governing: Option<(&'a NamespacedName, &'a PpsFact)>,
    pub(crate) existing: Option<&'a Alias>,
    /// Whether a PPS, which is no alias, has the name of the alias.
    pub(crate) is_taken: bool,
}

impl View<'_> {
    /// The governing PPS, if the policy finds it only through an alias.
    pub(crate) fn hidden(&self) -> Option<(&NamespacedName, &PpsFact)> {
        self.governing.filter(|(key, _)| key.name != self.workload.object.name && key.name != self.name.name)
    }
}

/// The name of a workload's alias.
pub(crate) fn name_for(workload: &WorkloadKey) -> NamespacedName {
    let api_version = match &*workload.kind.group {
        "" => "v1".to_owned(),
        // The name does not depend on the version.
        group => format!("{group}/v1"),
    };
    let target = TargetReference {
        api_version,
        kind: workload.kind.kind.to_string(),
        name: workload.object.name.to_string(),
    };
    NamespacedName::new(workload.object.namespace.clone(), generate::second_name(&target))
}

/// Decides what to do now.
pub(crate) fn decide(view: &View<'_>) -> Decision {
    match (view.hidden(), view.existing) {
        (_, Some(existing)) if existing.terminating => Decision::default(),
        (None, Some(existing)) => write(delete(view, existing)),
        (Some((key, pps)), Some(existing)) => {
            let points_to = existing.pps == *key.name;
            if points_to && (!existing.generated || existing.owner_uids.contains(&pps.uid)) {
                Decision::default()
            } else if existing.generated {
                write(delete(view, existing))
            } else {
                conflict(view, key)
            }
        }
        (Some((key, _)), None) if view.is_taken => conflict(view, key),
        (Some((key, pps)), None) => write(Some(create(view, key, pps))),
        (None, None) => Decision::default(),
    }
}

fn write(write: Option<GeneratedPps>) -> Decision {
    Decision { write, warning: None }
}

fn delete(view: &View<'_>, existing: &Alias) -> Option<GeneratedPps> {
    existing.generated.then(|| GeneratedPps::Delete {
        key: view.name.clone(),
        uid: existing.uid.clone(),
        resource_version: existing.resource_version.clone(),
        is_alias: true,
    })
}

fn create(view: &View<'_>, key: &NamespacedName, pps: &PpsFact) -> GeneratedPps {
    let owner = Owner {
        api_version: API_VERSION.into(),
        kind: KIND.into(),
        name: key.name.to_string(),
        uid: pps.uid.clone(),
        ..Owner::default()
    };
    let spec = json!({"targetRef": alias::target_of_alias(&key.name)});
    GeneratedPps::Create {
        key: view.name.clone(),
        body: body(view.name, &json!([owner]), &spec),
        is_alias: true,
    }
}

/// The policy cannot find the PPS: somebody else's object has the name of the alias.
fn conflict(view: &View<'_>, key: &NamespacedName) -> Decision {
    Decision { write: None, warning: Some((Reason::NameConflict, advice(view, key))) }
}

/// What to do if the policy cannot find a PPS.
fn advice(view: &View<'_>, key: &NamespacedName) -> String {
    format!(
        "create PersistentPodState {} under the name {}, or delete {}: that object has the name through which the policy would find it, so nothing is injected",
        key.name, view.workload.object.name, view.name.name
    )
}
