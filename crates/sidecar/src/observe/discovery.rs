//! Which kinds of workloads are watched now, beside the StatefulSets of Kubernetes itself.
//!
//! A synchronous state machine, like the index: the ConfigMap with the list of kinds and the cluster's
//! definitions of kinds go in, watches to start and to stop come out. Which kinds these are is decided
//! in [`pps_core::kinds`].

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;

use pps_core::Reason;
use pps_core::kinds::{Definition, Resource, watchable};
use pps_core::pps::{GROUP, KIND};
use pps_core::whitelist::{self, CONFIG_MAP, Entry, Whitelist};

use crate::facts::store::{Store, Update};
use crate::facts::{ConfigFact, GroupKind, NamespacedName, Notice, Subject};

/// The label of a `ClusterRole` whose rules are added to the sidecar's.
const AGGREGATION_LABEL: &str = "persistent-pod-state.kubewarden.io/aggregate-to-sidecar";

/// A watch of one kind of workloads: what an earlier one of the same kind still tells does not count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WatchId {
    /// The kind.
    pub kind: GroupKind,
    /// Tells one watch from the next.
    pub number: u64,
}

/// What has to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchAction {
    /// Watch this kind, in place of an earlier watch of it if there is one.
    Start(WatchId, Resource),
    /// Do not watch this kind any longer.
    Stop(GroupKind),
    /// This kind may not be listed, or may be after all.
    Forbid(GroupKind, bool),
    /// Tell users.
    Tell(Notice),
}

/// The state machine.
#[derive(Debug)]
pub struct Discovery {
    config: NamespacedName,
    configs: Store<NamespacedName, ConfigFact>,
    definitions: Store<Arc<str>, Definition>,
    /// The last list that could be read.
    whitelist: Whitelist,
    malformed: Option<String>,
    watching: BTreeMap<GroupKind, Watching>,
    is_own_terminating: bool,
    last_number: u64,
    told: BTreeSet<(Reason, String)>,
    steps: Vec<WatchAction>,
}

/// A kind that is watched.
#[derive(Debug)]
struct Watching {
    number: u64,
    resource: Resource,
    /// It was listed, or could not be: nobody needs to wait for it.
    settled: bool,
    forbidden: bool,
    /// It was forbidden once. Users are told of that once: it may be in part, or come and go.
    was_forbidden: bool,
}

impl Discovery {
    /// With the ConfigMap in this namespace. Nothing is known yet.
    pub fn new(namespace: &str) -> Self {
        Self {
            config: NamespacedName::new(namespace, CONFIG_MAP),
            configs: Store::default(),
            definitions: Store::default(),
            whitelist: Whitelist::default(),
            malformed: None,
            watching: BTreeMap::new(),
            is_own_terminating: false,
            last_number: 0,
            told: BTreeSet::new(),
            steps: Vec::new(),
        }
    }

    /// Whether it is known which kinds there are to watch.
    pub fn is_known(&self) -> bool {
        self.configs.complete().is_some() && self.definitions.complete().is_some()
    }

    /// Whether each kind was listed, or found to be out of reach.
    pub fn is_settled(&self) -> bool {
        self.is_known() && self.watching.values().all(|watching| watching.settled)
    }

    /// Whether this is the present watch of its kind.
    pub fn is_current(&self, id: &WatchId) -> bool {
        self.watching.get(&id.kind).is_some_and(|watching| watching.number == id.number)
    }

    /// Whether the definition of PersistentPodState itself is being deleted. The API server deletes all
    /// objects then, and waits until there are none; it would not keep one from being made anew.
    pub fn is_own_terminating(&self) -> bool {
        self.is_own_terminating
    }

    /// Hands over what has to be done since the last call, in this order.
    pub fn take_actions(&mut self) -> Vec<WatchAction> {
        take(&mut self.steps)
    }

    /// Takes what the watch of the ConfigMap tells.
    pub fn config(&mut self, update: Update<NamespacedName, ConfigFact>) {
        self.configs.take(update);
        let text = self.configs.get(&self.config).and_then(|config| config.whitelist.as_deref());
        match whitelist::parse(text.unwrap_or_default()) {
            Ok(whitelist) => {
                self.whitelist = whitelist;
                self.malformed = None;
            }
            Err(malformed) => {
                self.malformed = Some(format!("{malformed}; the last good list stays in force"));
            }
        }
        self.refresh();
    }

    /// Takes what the watch of definitions tells.
    pub fn definitions(&mut self, update: Update<Arc<str>, Definition>) {
        self.definitions.take(update);
        let is_own = |one: &&Definition| (one.group.as_str(), one.kind.as_str()) == (GROUP, KIND);
        self.is_own_terminating = self.definitions.values().filter(is_own).any(|own| own.terminating);
        self.refresh();
    }

    /// A watch has told something: all workloads of its kind, if it says so.
    pub fn heard(&mut self, id: &WatchId, listed: bool) {
        let Some(watching) = self.watching.get_mut(&id.kind) else { return };
        watching.settled |= listed;
        if take(&mut watching.forbidden) {
            self.steps.push(WatchAction::Forbid(id.kind.clone(), false));
        }
    }

    /// A watch has failed.
    pub fn lost(&mut self, id: &WatchId, forbidden: bool) {
        let Some(watching) = self.watching.get_mut(&id.kind) else { return };
        watching.settled = true;
        if watching.forbidden != forbidden {
            watching.forbidden = forbidden;
            watching.was_forbidden |= forbidden;
            self.steps.push(WatchAction::Forbid(id.kind.clone(), forbidden));
            self.tell();
        }
    }

    fn refresh(&mut self) {
        if !self.is_known() {
            return;
        }
        let built_in = Entry::openkruise_stateful_set();
        let entries = self.whitelist.entries.iter().chain([&built_in]);
        let now: BTreeMap<GroupKind, Resource> = watchable(entries, self.definitions.values())
            .resources
            .into_iter()
            .map(|((group, kind), resource)| (GroupKind { group: group.into(), kind: kind.into() }, resource))
            .collect();
        let gone: Vec<GroupKind> =
            self.watching.keys().filter(|kind| !now.contains_key(*kind)).cloned().collect();
        for kind in gone {
            self.watching.remove(&kind);
            self.steps.push(WatchAction::Stop(kind));
        }
        for (kind, resource) in now {
            if self.watching.get(&kind).is_none_or(|watching| watching.resource != resource) {
                self.last_number += 1;
                let number = self.last_number;
                let watching = Watching {
                    number,
                    resource: resource.clone(),
                    settled: false,
                    forbidden: false,
                    was_forbidden: false,
                };
                self.watching.insert(kind.clone(), watching);
                self.steps.push(WatchAction::Forbid(kind.clone(), false));
                self.steps.push(WatchAction::Start(WatchId { kind, number }, resource));
            }
        }
        self.tell();
    }

    /// Has users told what is wrong with the list, each thing once until it changes.
    fn tell(&mut self) {
        let Some(config) = self.configs.get(&self.config) else {
            self.told.clear();
            return;
        };
        let subject = Subject {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            object: self.config.clone(),
            uid: config.uid.clone(),
        };
        let problems = self.problems();
        for (reason, message) in problems.difference(&self.told) {
            let notice = Notice { subject: subject.clone(), reason: *reason, message: message.clone() };
            self.steps.push(WatchAction::Tell(notice));
        }
        self.told = problems;
    }

    fn problems(&self) -> BTreeSet<(Reason, String)> {
        let malformed = self.malformed.iter().map(|message| (Reason::MalformedWhitelist, message.clone()));
        let out_of_reach = watchable(&self.whitelist.entries, self.definitions.values()).refusals;
        let refused = self.whitelist.refusals.iter().cloned().chain(out_of_reach);
        let forbidden = self.watching.values().filter(|watching| watching.was_forbidden).map(|watching| {
            let Resource { group, plural, .. } = &watching.resource;
            (
                Reason::WorkloadKindForbidden,
                format!(
                    "{plural}.{group} may not be listed and watched; make a ClusterRole with these verbs on them and the label {AGGREGATION_LABEL}: \"true\""
                ),
            )
        });
        malformed
            .chain(refused.map(|message| (Reason::WorkloadKindUnsupported, message)))
            .chain(forbidden)
            .collect()
    }
}

#[cfg(test)]
mod tests;
