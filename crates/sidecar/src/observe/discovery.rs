//! Which workload kinds to watch, in addition to `apps/StatefulSet`.
//!
//! A synchronous state machine without I/O, like the recorder: the ConfigMap with the list of kinds
//! and the cluster's custom resource definitions go in, watches to start and to stop come out.
//! [`pps_recorder::kinds`] has the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;

use pps_core::Reason;
use pps_recorder::kinds::{Definition, Resource, watchable};
use pps_recorder::whitelist::{self, CONFIG_MAP, Entry, Whitelist};

use pps_recorder::facts::store::{Store, Update};
use pps_recorder::facts::{ConfigFact, GroupKind, NamespacedName, Notice, Subject, WatchState};

/// The label that adds the rules of a `ClusterRole` to the sidecar's.
const AGGREGATION_LABEL: &str = "persistent-pod-state/aggregate-to-sidecar";

/// The API server takes no definition under another name than that of its plural and group.
const OWN_DEFINITION: &str = "persistentpodstates.apps.kruise.io";

/// One watch of a workload kind. Updates of an earlier watch of the same kind are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WatchId {
    pub kind: GroupKind,
    pub number: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchAction {
    /// Watch this kind; replaces an earlier watch of it.
    Start(WatchId, Resource),
    Stop(GroupKind),
    Publish(Notice),
    /// List all PPS objects again: their definition has changed, and with it what the API server
    /// stores and shows of them.
    RelistObjects,
}

#[derive(Debug, Default)]
pub struct Discovery {
    config: NamespacedName,
    configs: Store<NamespacedName, ConfigFact>,
    definitions: Store<Arc<str>, Definition>,
    /// The last valid list.
    whitelist: Whitelist,
    malformed: Option<String>,
    watching: BTreeMap<GroupKind, WatchedKind>,
    /// The last generation of the definition of PersistentPodState; `None` while there is no
    /// definition.
    pps_definition: Option<i64>,
    has_seen_pps_definition: bool,
    last_number: u64,
    published: BTreeSet<(Reason, String)>,
    actions: Vec<WatchAction>,
}

#[derive(Debug)]
struct WatchedKind {
    number: u64,
    resource: Resource,
    /// It was listed, or the list failed: readiness does not wait for it any longer.
    settled: bool,
    /// Stays set, so that the Event is published only once even if the permission is granted and
    /// revoked again, or covers only a part of the kind.
    was_forbidden: bool,
}

impl Discovery {
    /// Reads the list of kinds from the ConfigMap in this namespace.
    pub fn new(namespace: &str) -> Self {
        Self {
            config: NamespacedName::new(namespace, CONFIG_MAP),
            ..Self::default()
        }
    }

    pub fn is_known(&self) -> bool {
        self.configs.complete().is_some() && self.definitions.complete().is_some()
    }

    pub fn is_settled(&self) -> bool {
        self.is_known() && self.watching.values().all(|watching| watching.settled)
    }

    pub fn is_current(&self, id: &WatchId) -> bool {
        self.watching
            .get(&id.kind)
            .is_some_and(|watching| watching.number == id.number)
    }

    /// Whether the definition of PersistentPodState itself is being deleted. The API server then
    /// deletes all objects and waits until none is left, but still accepts new ones. Generating
    /// some would block the deletion.
    pub fn is_pps_definition_terminating(&self) -> bool {
        self.own_definition().is_some_and(|own| own.terminating)
    }

    /// Whether the definition of PersistentPodState keeps the compact form of recorded states.
    /// `None` while that is not known, or while there is no definition.
    pub fn keeps_packed(&self) -> Option<bool> {
        self.definitions.complete()?;
        self.own_definition().map(|own| own.keeps_packed)
    }

    fn own_definition(&self) -> Option<&Definition> {
        self.definitions.get(OWN_DEFINITION)
    }

    pub fn take_actions(&mut self) -> Vec<WatchAction> {
        take(&mut self.actions)
    }

    pub fn apply_config(&mut self, update: Update<NamespacedName, ConfigFact>) {
        self.configs.apply(update);
        let text = self
            .configs
            .get(&self.config)
            .and_then(|config| config.whitelist.as_deref());
        match whitelist::parse(text.unwrap_or_default()) {
            Ok(whitelist) => (self.whitelist, self.malformed) = (whitelist, None),
            Err(why) => self.malformed = Some(format!("{why}; the last valid list stays in force")),
        }
        self.refresh();
    }

    pub fn apply_definitions(&mut self, update: Update<Arc<str>, Definition>) {
        self.definitions.apply(update);
        let generation = self.own_definition().map(|own| own.generation);
        if std::mem::replace(&mut self.pps_definition, generation) != generation
            && generation.is_some()
            && std::mem::replace(&mut self.has_seen_pps_definition, true)
        {
            self.actions.push(WatchAction::RelistObjects);
        }
        self.refresh();
    }

    pub fn mark(&mut self, id: &WatchId, state: WatchState) {
        let Some(watching) = self.watching.get_mut(&id.kind) else {
            return;
        };
        watching.settled |= state != WatchState::Up;
        if state == WatchState::Forbidden && !std::mem::replace(&mut watching.was_forbidden, true) {
            self.publish_problems();
        }
    }

    fn refresh(&mut self) {
        if !self.is_known() {
            return;
        }
        let built_in = Entry::openkruise_stateful_set();
        let entries = self.whitelist.entries.iter().chain([&built_in]);
        let wanted = watchable(entries, self.definitions.values()).resources;
        for (kind, _) in self
            .watching
            .extract_if(.., |kind, _| !wanted.contains_key(kind))
        {
            self.actions.push(WatchAction::Stop(kind));
        }
        for (kind, resource) in wanted {
            if self
                .watching
                .get(&kind)
                .is_none_or(|watching| watching.resource != resource)
            {
                self.last_number += 1;
                let number = self.last_number;
                let watched = WatchedKind {
                    number,
                    resource: resource.clone(),
                    settled: false,
                    was_forbidden: false,
                };
                self.watching.insert(kind.clone(), watched);
                self.actions
                    .push(WatchAction::Start(WatchId { kind, number }, resource));
            }
        }
        self.publish_problems();
    }

    /// Publishes what is wrong with the list of kinds, each problem once until it changes.
    fn publish_problems(&mut self) {
        let Some(config) = self.configs.get(&self.config) else {
            self.published.clear();
            return;
        };
        let subject = Subject::new("v1", "ConfigMap", self.config.clone(), &config.uid);
        let problems = self.problems();
        for (reason, message) in problems.difference(&self.published) {
            let notice = Notice {
                subject: subject.clone(),
                reason: *reason,
                message: message.clone(),
            };
            self.actions.push(WatchAction::Publish(notice));
        }
        self.published = problems;
    }

    fn problems(&self) -> BTreeSet<(Reason, String)> {
        let malformed = self
            .malformed
            .iter()
            .map(|message| (Reason::MalformedWhitelist, message.clone()));
        let unwatchable = watchable(&self.whitelist.entries, self.definitions.values()).refusals;
        let refused = self.whitelist.refusals.iter().cloned().chain(unwatchable);
        let forbidden = self
            .watching
            .values()
            .filter(|watching| watching.was_forbidden)
            .map(|watching| {
                let Resource { group, plural, .. } = &watching.resource;
                (
                    Reason::WorkloadKindForbidden,
                    format!(
                        "cannot list and watch {plural}.{group}: create a ClusterRole that grants \
                         list and watch on it, with the label {AGGREGATION_LABEL}: \"true\""
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
