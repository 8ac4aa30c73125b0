//! The decision about the alias of a PPS, through which the policy finds a PPS of another name than its
//! workload's without a list: see [`pps_core::alias`].

use std::collections::{BTreeMap, HashMap};

use pps_core::pps::{API_VERSION, KIND};
use pps_core::{Reason, alias};

use serde_json::json;

use super::generated_pps::{Decision, GeneratedPps, body, delete};
use crate::facts::{NamespacedName, Owner, PpsFact, WorkloadKey};

/// The aliases that exist, the workloads that need one, and the workloads for which an object is being made.
#[derive(Debug, Default)]
pub(super) struct Aliases {
    pub objects: BTreeMap<NamespacedName, PpsFact>,
    /// Why the API server or a policy has refused these.
    pub refused: BTreeMap<NamespacedName, String>,
    /// By the name of the alias: the workloads that need one, or needed one when they were last examined. They
    /// are examined when the object of this name changes.
    pub waiting: BTreeMap<NamespacedName, WorkloadKey>,
    /// Workloads whose generated PPS or alias is being written, and whether another write was asked for
    /// meanwhile.
    pub in_flight: HashMap<WorkloadKey, bool>,
}

impl Aliases {
    pub(super) fn insert(&mut self, key: &NamespacedName, alias: PpsFact) {
        self.refused.remove(key);
        self.objects.insert(key.clone(), alias);
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
    pub existing: Option<&'a PpsFact>,
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
    let delete = |existing: &PpsFact| {
        let write = existing.generated.then(|| delete(view.name, existing, true));
        Decision { write, warning: None }
    };
    match (view.hidden(), view.existing) {
        (_, Some(existing)) if existing.terminating => Decision::default(),
        (None, Some(existing)) => delete(existing),
        (Some((key, pps)), Some(existing)) => {
            let points_to = alias::aliased(&existing.spec.target_ref) == Some(&key.name);
            if points_to && (!existing.generated || existing.owners.iter().any(|owner| owner.uid == pps.uid))
            {
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
