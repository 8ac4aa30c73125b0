//! Which Pods have to be Ready, and recorded, before a Ready one of their workload is evicted.

use pps_core::demand::{Demand, Naming, Wanted};
use pps_core::workload::ordinal;
use pps_core::{MOVE_ANNOTATION, RECORD_ANNOTATION};
use serde_json::{Value, json};

use super::super::governing::may_come;
use crate::decide::names::list;
use crate::decide::relocate::{Relocation, Removal};
use crate::snapshot::{Index, Pod, Snapshot, WorkloadKey};

/// So many Pods of a workload are looked for.
const MOST_REPLICAS: u64 = 10_000;
/// So many Pods are waited for at once. What is decided afterwards knows of the others.
const MOST: usize = 10;

/// The Pods that a Pod waits for before it is evicted, and for what. One that serves nobody waits for none. With `only`, these
/// alone count.
pub fn peers(snapshot: &Snapshot, next: &Relocation, only: Option<&[String]>) -> Option<(Wait, Vec<String>)> {
    let present = next.present.as_ref().filter(|pod| pod.removal == Removal::Evict && !pod.is_stranded)?;
    // It may have become Ready since that was decided.
    let now = snapshot.pod(&next.namespace, &next.pod).filter(|pod| pod.uid() == present.uid);
    if !now.is_some_and(Pod::is_ready) {
        return None;
    }
    let counts = |mut names: Vec<String>| {
        names.retain(|name| only.is_none_or(|only| only.contains(name)));
        names.truncate(MOST);
        names
    };
    let all = [
        (Wait::Ready, counts(awaited(snapshot, next))),
        (Wait::Moved, counts(moved(snapshot, next))),
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

/// The version in which a Pod that its move has marked may be evicted, or why it may not. This is decided from one list of all
/// Pods that was read after the mark: of two moves, one at most sees no mark but its own.
///
/// # Errors
///
/// If it waits for others, is not there any more, or has lost its mark.
pub fn claim(snapshot: &Snapshot, next: &Relocation, only: Option<&[String]>) -> Result<String, String> {
    let is_own = |pod: &&Pod| next.present.as_ref().is_some_and(|present| present.uid == pod.uid());
    let own = snapshot.pod(&next.namespace, &next.pod).filter(is_own);
    let Some(own) = own.filter(|own| own.is_marked() && !own.is_terminating()) else {
        return Err(format!("another client has changed Pod {} meanwhile", next.pod));
    };
    match peers(snapshot, next, only) {
        None => Ok(own.resource_version().to_owned()),
        Some((wait, pods)) => Err(held_up(next, wait, &pods, None)),
    }
}

/// The annotations that mark a Pod, or that take the mark back; none if it is so already. A Pod that was exempt stays exempt.
pub fn mark(pod: &Pod, is_moved: bool) -> Option<Value> {
    const EXEMPT: &str = "exempt";
    let before = if pod.is_exempt() { EXEMPT } else { "recorded" };
    match (is_moved, pod.is_marked()) {
        (true, false) => Some(json!({RECORD_ANNOTATION: "false", MOVE_ANNOTATION: before})),
        (false, true) if pod.annotation(MOVE_ANNOTATION) == Some(EXEMPT) => {
            Some(json!({MOVE_ANNOTATION: null}))
        }
        (false, true) => Some(json!({RECORD_ANNOTATION: null, MOVE_ANNOTATION: null})),
        _ => None,
    }
}

/// The other Pods that a move has marked, of another command or of one that was killed.
fn moved(snapshot: &Snapshot, next: &Relocation) -> Vec<String> {
    let index = Index::of(snapshot);
    let own = index.pods_of(&next.workload).iter();
    let marked = own.filter(|pod| pod.is_marked() && pod.name() != next.pod);
    marked.map(|pod| pod.name().to_owned()).collect()
}

/// The other Pods that are Ready, and whose nodes are not recorded: the sidecar is late, or does not run. If it does not run,
/// a workload would lose the place of one Pod after the other. A Pod that somebody wants not to be recorded is none of them.
fn unrecorded(snapshot: &Snapshot, next: &Relocation) -> Vec<String> {
    let index = Index::of(snapshot);
    let Some(pps) = index.governing(&next.workload) else { return Vec::new() };
    let is_late = |pod: &&Pod| {
        // A state that cannot be read is reported elsewhere.
        let has_none =
            pps.state(pod.name()).is_ok_and(|state| state.is_none_or(|state| state.node_name.is_empty()));
        pod.is_ready() && !pod.is_terminating() && !pod.is_exempt() && has_none
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
    /// Not being moved by another command.
    Moved,
    /// Recorded.
    Recorded,
}

impl Wait {
    /// As a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Moved => "free of another move",
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
    fn a_pod_waits_until_no_other_command_moves_one_of_its_workload() {
        let mut pods = ["db-0", "db-1", "db-2", "db-3"].map(|name| pod(name, Some("node-1"), Some("node-1")));
        pods[1]["metadata"]["annotations"][RECORD_ANNOTATION] = "false".into();
        pods[2] = pods[1].clone();
        pods[2]["metadata"]["name"] = "db-2".into();
        pods[2]["metadata"]["uid"] = "uid-db-2".into();
        pods[1]["metadata"]["annotations"][MOVE_ANNOTATION] = "recorded".into();
        let states = ["db-0", "db-1", "db-2", "db-3"].map(|name| (name, "node-1"));
        let mut world = world(&pods, &states);
        let next = relocation(&world, "db-0");
        let moved = |world: &Snapshot| peers(world, &next, None).map(|(_, pods)| pods);
        assert_eq!(moved(&world), Some(vec!["db-1".to_owned()]), "Ready, recorded, and about to be evicted");
        // A user's own exemption is nobody's move.
        world.pods.retain(|pod| pod.name() != "db-1");
        pods[1]["metadata"]["annotations"].as_object_mut().unwrap().remove(MOVE_ANNOTATION);
        world.pods.extend(Pod::read(pods[1].clone()));
        assert_eq!(moved(&world), None);
    }

    /// The steps of two moves in any order: each marks its Pod, reads all, and evicts its Pod or takes the mark back.
    #[test]
    fn of_two_moves_at_a_time_one_at_most_evicts() {
        let names = ["db-0", "db-1", "db-2", "db-3"];
        let mut evictions = [0; 3];
        for order in 0..1_u32 << 6 {
            let mut pods = names.map(|name| pod(name, Some("node-1"), Some("node-1")));
            let states = names.map(|name| (name, "node-1"));
            let movers = [0, 1].map(|number| relocation(&world(&pods, &states), names[number]));
            let (mut steps, mut claims) = ([0; 2], [None, None]);
            for turn in 0..6 {
                let own = (order >> turn & 1) as usize;
                let number = own as u64;
                match steps[own] {
                    0 => {
                        let mark = mark(&Pod::read(pods[own].clone()).unwrap(), true).unwrap();
                        json_patch::merge(&mut pods[own]["metadata"]["annotations"], &mark);
                        pods[own]["metadata"]["resourceVersion"] = (100 + number).to_string().into();
                    }
                    1 => claims[own] = Some(claim(&world(&pods, &states), &movers[own], None)),
                    2 => match claims[own].take().unwrap() {
                        Ok(version) if pods[own]["metadata"]["resourceVersion"] == *version => {
                            pods[own]["metadata"]["deletionTimestamp"] = "2026-11-23T00:00:00Z".into();
                        }
                        Err(_) => {
                            let mark = mark(&Pod::read(pods[own].clone()).unwrap(), false).unwrap();
                            json_patch::merge(&mut pods[own]["metadata"]["annotations"], &mark);
                        }
                        lost => panic!("{lost:?}"),
                    },
                    _ => {}
                }
                steps[own] += 1;
            }
            let evicted = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_string()).count();
            evictions[evicted] += 1;
        }
        assert!(evictions[1] > 0 && evictions[2] == 0, "{evictions:?}");
    }

    #[test]
    fn a_mark_that_is_taken_back_leaves_a_users_exemption() {
        for exemption in [None, Some("false"), Some("true")] {
            let mut own = pod("db-0", Some("node-1"), Some("node-1"));
            if let Some(value) = exemption {
                own["metadata"]["annotations"][RECORD_ANNOTATION] = value.into();
            }
            let before = Pod::read(own.clone()).unwrap();
            assert!(!before.is_marked() && mark(&before, false).is_none());
            json_patch::merge(&mut own["metadata"]["annotations"], &mark(&before, true).unwrap());
            let marked = Pod::read(own.clone()).unwrap();
            assert!(marked.is_marked() && mark(&marked, true).is_none(), "another command moves it as well");
            json_patch::merge(&mut own["metadata"]["annotations"], &mark(&marked, false).unwrap());
            let after = Pod::read(own).unwrap();
            assert_eq!((after.is_marked(), after.is_exempt()), (false, before.is_exempt()), "{exemption:?}");
        }
    }

    #[test]
    fn a_pod_that_has_lost_its_mark_is_not_evicted() {
        let mut marked = pod("db-0", Some("node-1"), Some("node-1"));
        let next = relocation(&world(std::slice::from_ref(&marked), &[]), "db-0");
        let of = |pod: &serde_json::Value| claim(&world(std::slice::from_ref(pod), &[]), &next, Some(&[]));
        let lost = Err("another client has changed Pod db-0 meanwhile".to_owned());
        assert_eq!(of(&marked), lost);
        marked["metadata"]["annotations"][MOVE_ANNOTATION] = "recorded".into();
        assert_eq!(of(&marked), lost, "a user wants it to be recorded again");
        marked["metadata"]["annotations"][RECORD_ANNOTATION] = "false".into();
        assert_eq!(of(&marked), Ok("5".to_owned()));
        let mut other = marked.clone();
        other["metadata"]["uid"] = "other".into();
        marked["metadata"]["deletionTimestamp"] = "2026-11-23T00:00:00Z".into();
        assert_eq!((of(&marked), of(&other)), (lost.clone(), lost));
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
