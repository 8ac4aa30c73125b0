//! A StatefulSet.

use pps_core::TargetReference;
use pps_core::succession::{Revision, UpdateStrategy, ordinal};
use pps_recorder::demand::{Demand, Naming, Wanted};
use pps_scheduler::fields::text;
use serde_json::Value;

use crate::limits::{Limits, MAX_RESERVED};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    #[default]
    Declared,
    Exists,
    Deleted,
}

/// A template, and the name of its revision.
#[derive(Debug)]
pub(crate) struct TemplateRevision {
    pub(crate) name: String,
    pub(crate) template: Value,
}

#[derive(Debug, Default)]
pub(crate) struct Workload {
    pub(crate) object: Value,
    pub(crate) target: TargetReference,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) uid: String,
    /// All revisions of its template; the last one is that of the object.
    revisions: Vec<TemplateRevision>,
    pub(crate) current: usize,
    pub(crate) demand: Demand,
    pub(crate) wanted: Vec<String>,
}

impl Workload {
    /// A workload that nobody has created yet. `object` has been validated.
    pub(crate) fn new(object: Value) -> Self {
        let target = TargetReference {
            api_version: text(&object["apiVersion"]).to_owned(),
            kind: text(&object["kind"]).to_owned(),
            name: text(&object["metadata"]["name"]).to_owned(),
        };
        let mut workload = Self {
            target,
            ..Self::default()
        };
        workload.set_object(object);
        workload
    }

    pub(crate) fn begin(&mut self, uid: String) {
        self.lifecycle = Lifecycle::Exists;
        self.uid = uid;
        self.current = self.update_revision();
    }

    pub(crate) fn set_object(&mut self, object: Value) {
        self.object = object;
        let spec = &self.object["spec"];
        self.demand = Demand::read(spec, &Naming::StatefulSet);
        self.wanted = wanted(spec, &self.target.name).collect();
        let template = spec["template"].clone();
        let last = self.revisions.last();
        if last.is_none_or(|last| last.template != template) {
            let name = self.next_revision_name();
            self.revisions.push(TemplateRevision { name, template });
        }
    }

    fn next_revision_name(&self) -> String {
        // The Pods of a running cluster have the name of their revision as a label.
        let known = self.object["status"]["updateRevision"].as_str();
        match known.filter(|_| self.revisions.is_empty()) {
            Some(known) => known.to_owned(),
            None => format!("{}-{}", self.target.name, self.revisions.len()),
        }
    }

    pub(crate) fn revision(&self, revision: usize) -> Option<&TemplateRevision> {
        self.revisions.get(revision)
    }

    /// How it is called in texts: `StatefulSet/db`.
    pub(crate) fn reference(&self) -> String {
        format!("{}/{}", self.target.kind, self.target.name)
    }

    pub(crate) fn exists(&self) -> bool {
        self.lifecycle == Lifecycle::Exists
    }

    pub(crate) fn is_parallel(&self) -> bool {
        self.object["spec"]["podManagementPolicy"] == "Parallel"
    }

    /// The index of the template of new Pods.
    pub(crate) fn update_revision(&self) -> usize {
        self.revisions.len().saturating_sub(1)
    }

    pub(crate) fn strategy(&self) -> UpdateStrategy {
        UpdateStrategy::read(&self.object["spec"])
    }

    pub(crate) fn revision_of_next(&self, pod: &str) -> usize {
        match ordinal(&self.target.name, pod).map(|ordinal| self.strategy().successor(ordinal)) {
            Some(Revision::Current) => self.current,
            _ => self.update_revision(),
        }
    }

    pub(crate) fn is_replaced(&self, pod: &str) -> bool {
        ordinal(&self.target.name, pod).is_some_and(|ordinal| self.strategy().replaces(ordinal))
    }

    pub(crate) fn wants(&self, pod: &str) -> bool {
        self.demand.wants(&self.target.name, pod, 0) == Wanted::Yes
    }

    pub(crate) fn replicas(&self) -> u64 {
        self.demand.replicas().unwrap_or(0)
    }
}

pub(crate) fn replicas(spec: &Value) -> u64 {
    Demand::read(spec, &Naming::StatefulSet)
        .replicas()
        .unwrap_or(0)
}

/// The names of the Pods that a StatefulSet wants, as far as the limits of replicas and reserved
/// ordinals go.
pub fn wanted(spec: &Value, workload: &str) -> impl Iterator<Item = String> {
    let demand = Demand::read(spec, &Naming::StatefulSet);
    let start = spec["ordinals"]["start"].as_u64().unwrap_or(0);
    let replicas = demand.replicas().unwrap_or(0).min(Limits::CLUSTER.replicas);
    let names = (start..start.saturating_add(replicas + MAX_RESERVED))
        .map(move |at| format!("{workload}-{at}"));
    let wanted = names.filter(move |pod| demand.wants(workload, pod, 0) == Wanted::Yes);
    wanted.take(usize::try_from(replicas).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted_of(spec: &Value) -> Vec<String> {
        Workload::new(json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec,
        }))
        .wanted
    }

    #[test]
    fn wants_pods_from_the_start_and_without_the_reserved_ordinals() {
        assert_eq!(wanted_of(&json!({})), ["db-0"]);
        assert_eq!(wanted_of(&json!({"replicas": 0})), [""; 0]);
        let spec = json!({"replicas": 3, "ordinals": {"start": 4}, "reserveOrdinals": [5, "7-8"]});
        assert_eq!(wanted_of(&spec), ["db-4", "db-6", "db-9"]);
    }

    #[test]
    fn the_first_revision_of_a_running_workload_has_the_name_that_its_pods_have_as_a_label() {
        let object = json!({"metadata": {"name": "db"}, "spec": {"template": {}}, "status": {"updateRevision": "db-7c"}});
        let mut workload = Workload::new(object.clone());
        let mut changed = object;
        changed["spec"]["template"]["spec"] = json!({"hostNetwork": true});
        workload.set_object(changed);
        let names = [0, 1].map(|revision| workload.revision(revision).unwrap().name.as_str());
        assert_eq!(names, ["db-7c", "db-1"]);
    }

    #[test]
    fn a_huge_reserved_range_ends() {
        let spec = json!({"replicas": 3, "reserveOrdinals": ["0-18446744073709551615"]});
        assert_eq!(wanted_of(&spec), [""; 0]);
        assert_eq!(
            wanted_of(&json!({"replicas": 2, "ordinals": {"start": u64::MAX}})),
            [""; 0]
        );
        let all = json!({"replicas": u64::MAX, "reserveOrdinals": ["0-18446744073709551615"]});
        assert_eq!(wanted_of(&all), [""; 0]);
    }
}
