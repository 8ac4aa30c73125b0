//! Which Pods have to be Ready, and recorded, before a Ready one of their workload is evicted.

use pps_core::demand::{Demand, Naming, Wanted};
use pps_core::workload::ordinal;
use pps_core::{RECORD_ANNOTATION, forbids_recording};

use super::super::governing::{is_exempt_by_template, may_come};
use crate::decide::names::list;
use crate::decide::relocate::Relocation;
use crate::snapshot::{Index, Pod, Snapshot, WorkloadKey};

/// So many Pods of a workload are looked for.
const MOST_REPLICAS: u64 = 10_000;
/// So many Pods are waited for at once. What is decided afterwards knows of the others.
const MOST: usize = 10;

/// The Pods that a Pod waits for before it is evicted, and for what. One that serves nobody waits for none. With `only`, these
/// alone count.
pub fn peers(snapshot: &Snapshot, next: &Relocation, only: Option<&[String]>) -> Option<(Wait, Vec<String>)> {
    if !next.is_serving() {
        return None;
    }
    let counts = |mut names: Vec<String>| {
        names.retain(|name| only.is_none_or(|only| only.contains(name)));
        names.truncate(MOST);
        names
    };
    let all = [
        (Wait::Ready, counts(awaited(snapshot, next))),
        (Wait::Recorded, counts(unrecorded(snapshot, next))),
    ];
    all.into_iter().find(|(_, pods)| !pods.is_empty())
}

/// The other Pods that the workload wants and that are not Ready, in order. One that does not exist is not Ready either: its
/// controller is about to create it, or waits for another one.
fn awaited(snapshot: &Snapshot, next: &Relocation) -> Vec<String> {
    let index = Index::of(snapshot);
    let key = &next.workload;
    let is_up = |pod: &Pod| {
        pod.is_ready() && !pod.is_terminating() && !pod.is_finished() && !snapshot.is_stranded(pod)
    };
    let own = index.pods_of(key).iter();
    let down = own.filter(|pod| !is_up(pod) && may_come(&index, key, pod.name()));
    let mut names: Vec<String> = down.map(|pod| pod.name().to_owned()).collect();
    names.extend(missing(&index, key));
    names.retain(|name| *name != next.pod);
    names.sort_by_key(|name| (ordinal(&key.name, name), name.clone()));
    names
}

/// The other Pods that are Ready, and whose nodes are not recorded: the sidecar is late, or does not run. If it does not run,
/// a workload would lose the place of one Pod after the other. A Pod that somebody wants not to be recorded is none of them.
fn unrecorded(snapshot: &Snapshot, next: &Relocation) -> Vec<String> {
    let index = Index::of(snapshot);
    let Some(pps) = index.governing(&next.workload) else { return Vec::new() };
    let is_late = |pod: &&Pod| {
        let is_exempt = pod.annotation(RECORD_ANNOTATION).is_some_and(forbids_recording)
            || is_exempt_by_template(&index, pod);
        // A state that cannot be read is reported elsewhere.
        let has_none =
            pps.state(pod.name()).is_ok_and(|state| state.is_none_or(|state| state.node_name.is_empty()));
        pod.is_ready() && !pod.is_terminating() && !is_exempt && has_none
    };
    let late = index.pods_of(&next.workload).iter().filter(|pod| is_late(pod));
    let mut names: Vec<String> =
        late.map(|pod| pod.name().to_owned()).filter(|name| *name != next.pod).collect();
    names.sort_by_key(|name| (ordinal(&next.workload.name, name), name.clone()));
    names
}

/// The Pods that a workload wants and that do not exist. Not known of one that was not read.
fn missing(index: &Index<'_>, key: &WorkloadKey) -> Vec<String> {
    let Some(workload) = index.workload(key) else { return Vec::new() };
    let spec = &workload.object()["spec"];
    let demand = Demand::read(spec, &Naming::StatefulSet);
    let replicas = demand.replicas().unwrap_or_default().min(MOST_REPLICAS);
    let start = spec["ordinals"]["start"].as_u64().unwrap_or_default();
    // Some of the numbers may be reserved.
    let names = (start..start.saturating_add(MOST_REPLICAS)).map(|number| format!("{}-{number}", key.name));
    names
        .filter(|name| demand.wants(&key.name, name, 0) == Wanted::Yes)
        .take(usize::try_from(replicas).unwrap_or_default())
        .filter(|name| index.pod(&key.namespace, name).is_none())
        .collect()
}

/// What other Pods have to be before a Ready one is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Ready.
    Ready,
    /// Recorded.
    Recorded,
}

impl Wait {
    /// As a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Recorded => "recorded",
        }
    }
}

/// What the user should know of the Pods that a Pod waits for.
pub fn waits_for(next: &Relocation, wait: Wait, peers: &[String], force: bool) -> String {
    let (pods, are, they) =
        if peers.len() == 1 { ("Pod", "is", "it is") } else { ("Pods", "are", "they are") };
    let then = if force {
        format!("with --force, Pod {} is evicted all the same", next.pod)
    } else {
        format!("Pod {} is evicted only once {they}", next.pod)
    };
    let (kind, wait) = (&next.workload.kind, wait.as_str());
    format!("{pods} {} of the same {kind} {are} not {wait}: {then}", list(peers, "and"))
}

/// Why a Pod was left alone, after so many seconds if it was waited for.
pub fn held_up(next: &Relocation, wait: Wait, awaited: &[String], seconds: Option<u64>) -> String {
    let (pods, are) = if awaited.len() == 1 { ("Pod", "is") } else { ("Pods", "are") };
    let they = if awaited.len() == 1 { "it is" } else { "they are" };
    let after = seconds.map(|seconds| format!(" after {seconds} s")).unwrap_or_default();
    format!(
        "{pods} {} {are} not {}{after}, and Pod {} of the same {} was left alone until {they}",
        list(awaited, "and"),
        wait.as_str(),
        next.pod,
        next.workload.kind
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::pod;
    use super::super::tests::{not_ready, relocation, world};
    use super::*;
    use crate::snapshot::Workload;

    #[test]
    fn a_ready_pod_waits_for_all_others_that_its_workload_wants() {
        let ready = |name: &str| pod(name, Some("node-1"), None);
        let mut ended = ready("db-2");
        ended["metadata"]["deletionTimestamp"] = "2026-11-23T00:00:00Z".into();
        let down =
            |pods: &[serde_json::Value]| awaited(&world(pods, &[]), &relocation(&world(pods, &[]), "db-0"));
        assert_eq!(down(&[ready("db-0"), ready("db-1"), ready("db-2"), ready("db-3")]), [""; 0]);
        // One is not Ready, one ends, and one does not exist. It does not matter who has caused that. No db-7 is wanted.
        assert_eq!(
            down(&[not_ready(ready("db-7")), ended, not_ready(ready("db-1")), ready("db-0")]),
            ["db-1", "db-2", "db-3"]
        );
        // It says that it is Ready, and its node is gone.
        let stranded = pod("db-3", Some("node-9"), None);
        assert_eq!(down(&[ready("db-0"), ready("db-1"), ready("db-2"), stranded]), ["db-3"]);
    }

    #[test]
    fn a_workload_with_other_numbers_wants_these() {
        let mut world = world(&[pod("db-0", Some("node-1"), None)], &[]);
        let next = relocation(&world, "db-0");
        let mut of = |spec: serde_json::Value| {
            let mut set = world.workloads[0].object().clone();
            for (field, value) in spec.as_object().unwrap() {
                set["spec"][field] = value.clone();
            }
            world.workloads = Workload::read(set, "apps/v1").into_iter().collect();
            awaited(&world, &next)
        };
        assert_eq!(of(json!({"replicas": 2, "ordinals": {"start": 5}})), ["db-5", "db-6"]);
        assert_eq!(
            of(json!({"replicas": 2, "ordinals": {"start": 0}, "reserveOrdinals": ["1-3"]})),
            ["db-4"]
        );
        assert!(of(json!({"replicas": 4_000_000_000_u64})).len() > MOST);
        assert_eq!(peers(&world, &next, None).unwrap().1.len(), MOST, "not all at once");
        world.workloads.clear();
        assert_eq!(awaited(&world, &next), [""; 0], "it was not read");
    }

    #[test]
    fn a_ready_pod_waits_until_what_was_moved_before_is_recorded_again() {
        let pods = ["db-0", "db-1", "db-2"].map(|name| pod(name, Some("node-1"), None));
        let late = |pods: &[serde_json::Value], states: &[(&str, &str)]| {
            unrecorded(&world(pods, states), &relocation(&world(pods, states), "db-0"))
        };
        assert_eq!(
            late(&pods, &[("db-1", "node-1"), ("db-2", "node-1")]),
            [""; 0],
            "its own state goes anyway"
        );
        assert_eq!(late(&pods, &[("db-0", "node-1"), ("db-2", "node-1")]), ["db-1"]);
        // It is waited for until it is Ready, and nobody wants that one recorded.
        let mut exempt = pods.clone();
        exempt[1] = not_ready(exempt[1].clone());
        exempt[2]["metadata"]["annotations"][RECORD_ANNOTATION] = "false".into();
        assert_eq!(late(&exempt, &[]), [""; 0]);
    }

    #[test]
    fn by_force_a_pod_waits_only_for_those_that_the_same_command_has_moved() {
        let all = ["db-0", "db-1", "db-2", "db-3"].map(|name| pod(name, Some("node-1"), None));
        let [zero, one, two, three] = all;
        let down = world(&[zero, not_ready(one), not_ready(two), three.clone()], &[("db-0", "node-1")]);
        let next = relocation(&down, "db-0");
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(peers(&down, &next, None), Some((Wait::Ready, names(&["db-1", "db-2"]))));
        assert_eq!(peers(&down, &next, Some(&[])), None);
        assert_eq!(peers(&down, &next, Some(&names(&["db-2"]))), Some((Wait::Ready, names(&["db-2"]))));
        assert_eq!(
            peers(&down, &next, Some(&names(&["db-3"]))),
            Some((Wait::Recorded, names(&["db-3"]))),
            "it is Ready, and not recorded again"
        );
        // One that serves nobody waits for none.
        assert_eq!(peers(&down, &relocation(&down, "db-1"), None), None);
        let (wait, pods) = peers(&down, &next, None).unwrap();
        assert_eq!(
            waits_for(&next, wait, &pods, false),
            "Pods db-1 and db-2 of the same StatefulSet are not Ready: Pod db-0 is evicted only once they are"
        );
        assert_eq!(
            waits_for(&next, Wait::Recorded, &names(&["db-3"]), true),
            "Pod db-3 of the same StatefulSet is not recorded: with --force, Pod db-0 is evicted all the same"
        );
    }

    #[test]
    fn who_is_left_alone_is_told_for_whom() {
        let next = relocation(&world(&[pod("db-0", Some("node-1"), None)], &[]), "db-0");
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            held_up(&next, Wait::Ready, &names(&["db-1"]), Some(4)),
            "Pod db-1 is not Ready after 4 s, and Pod db-0 of the same StatefulSet was left alone until it is"
        );
        assert_eq!(
            held_up(&next, Wait::Ready, &names(&["db-1", "db-2"]), None),
            "Pods db-1 and db-2 are not Ready, and Pod db-0 of the same StatefulSet was left alone until they are"
        );
    }
}
