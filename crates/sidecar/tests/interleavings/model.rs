//! The model: computes from a snapshot, each time from scratch, what a status must say.
//!
//! It is the judge of the recorder, so it shares only data types with it. Each rule is written out
//! here again, as plainly as possible: which names a workload wants, what a running Pod's state is,
//! which states stay.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::pps::{PodState, RetentionPolicy};

use super::cluster::{Name, Pod, SpecOptions, WORKLOADS, Workload};
use super::snapshot::{
    NodeAbsence, Renewed, Snapshot, host_label, ip_annotation, pod_ip, zone_label,
};
use super::states::parse_status;

/// The condition's reasons when nothing keeps Pods from being recorded with all their topology
/// keys.
pub(crate) const HEALTHY: [&str; 3] = ["AllRecorded", "WaitingForPods", "ReplicasUnknown"];

/// What a status must say.
#[derive(Debug)]
pub(crate) struct ExpectedStatus {
    pub(crate) entries: BTreeMap<String, PodState>,
    pub(crate) target_uid: Option<String>,
    /// Whether the status may also go on naming the former workload.
    pub(crate) may_keep_target: bool,
    pub(crate) desired: Option<i32>,
    pub(crate) generation: i64,
    /// The reasons that the condition may give.
    pub(crate) reasons: Vec<&'static str>,
    /// Nodes whose absence the recorder must have confirmed.
    pub(crate) confirmations: Vec<String>,
    /// Which entries belong to the workload that exists now, if that was examined.
    pub(crate) renewed: Option<Renewed>,
    /// Which entries belong to it once they are stored.
    pub(crate) renewing: BTreeMap<String, String>,
}

impl ExpectedStatus {
    /// Whether the condition may be True.
    pub(crate) fn may_be_healthy(&self) -> bool {
        self.reasons.iter().any(|reason| HEALTHY.contains(reason))
    }

    /// The reason when the condition is True.
    fn healthy_reason(&self, is_in_doubt: bool) -> &'static str {
        let recorded = i32::try_from(self.entries.len()).unwrap();
        if is_in_doubt {
            return "ReplicasUnknown";
        }
        match self.desired {
            None => "ReplicasUnknown",
            Some(desired) if recorded < desired => "WaitingForPods",
            Some(_) => "AllRecorded",
        }
    }
}

/// What holds the name of a recorded Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameHolder {
    Nothing,
    /// A Pod of the workload that is being deleted.
    Terminating,
    /// A living Pod of the workload.
    Owned,
    /// A living Pod of the workload that had the name before, for which the states were recorded.
    Former,
    /// A living Pod without a controller.
    Orphan,
    /// A Pod of another owner.
    Foreign,
}

/// The names that a workload lists, if it does; `None` if there is none.
fn listed_names(workload: &Workload) -> Option<BTreeSet<&str>> {
    let pods = workload.spec["pods"].as_array()?;
    let names = pods.iter().map(|pod| pod["metadata"]["name"].as_str());
    names
        .collect::<Option<_>>()
        .filter(|names: &BTreeSet<_>| !names.is_empty())
}

/// The recorded states of a PPS.
type RecordedStates = BTreeMap<String, PodState>;

/// Whether the names that a workload lists do not say which Pods it wants.
fn is_in_doubt(workload: &Workload, living: &BTreeSet<Name>, recorded: &RecordedStates) -> bool {
    let stated = workload.spec["replicas"].as_u64().unwrap_or(0);
    workload.lists_names
        && listed_names(workload).is_none_or(|names| {
            let is_known = |name: &&str| living.contains(name) || recorded.contains_key(*name);
            (names.len() as u64) < stated
                || living.iter().any(|pod| !names.contains(pod))
                || !(recorded.is_empty() || names.iter().any(is_known))
        })
}

/// How many Pods a workload wants; `None` if it does not say.
fn replicas(number: usize, workload: &Workload) -> Option<u64> {
    let stated = workload.spec["replicas"].as_u64();
    if workload.lists_names {
        return stated.or_else(|| Some(listed_names(workload)?.len() as u64));
    }
    // A StatefulSet defaults to one Pod, a custom kind has no default.
    if number == 2 {
        stated
    } else {
        stated.or(Some(1))
    }
}

/// The names that follow from the workload's ordinals, counted one by one.
fn ordinal_names(number: usize, workload: &Workload) -> BTreeSet<String> {
    let spec = &workload.spec;
    let mut reserved = BTreeSet::new();
    // A StatefulSet of apps/v1 has no such field.
    let items = spec["reserveOrdinals"].as_array().filter(|_| number != 0);
    for item in items.into_iter().flatten() {
        if let Some(ordinal) = item.as_u64() {
            reserved.insert(ordinal);
        } else {
            assert_eq!(item, "1-2", "the only range that the tests generate");
            reserved.extend([1, 2]);
        }
    }
    let mut names = BTreeSet::new();
    let mut ordinal = spec["ordinals"]["start"].as_u64().unwrap_or(0);
    while (names.len() as u64) < replicas(number, workload).unwrap_or(0) {
        if !reserved.contains(&ordinal) {
            names.insert(format!("{}-{ordinal}", WORKLOADS[number].2));
        }
        ordinal += 1;
    }
    names
}

/// Whether a workload wants a Pod of this name for certain.
pub(crate) fn wants(number: usize, workload: &Workload, pod: &str) -> bool {
    if workload.lists_names {
        return listed_names(workload).is_none_or(|names| names.contains(pod));
    }
    replicas(number, workload).is_none() || ordinal_names(number, workload).contains(pod)
}

/// Whether it may want that Pod, while `living` Pods are its own and not terminating. A custom kind
/// that has fewer Pods than it wants may want any name; if it has more, its number says nothing of
/// them. One that lists their names may want any name while it is in doubt which it wants.
/// `recorded` are the states of its PPS.
pub(crate) fn may_want(
    number: usize,
    workload: &Workload,
    pod: &str,
    living: &BTreeSet<Name>,
    recorded: &RecordedStates,
) -> bool {
    let is_certain = if workload.lists_names {
        !is_in_doubt(workload, living, recorded)
    } else {
        number != 2 || replicas(number, workload) == Some(living.len() as u64)
    };
    wants(number, workload, pod) || !is_certain
}

/// Which PPS governs a workload: the one of the workload's name, else the oldest, else the first by
/// name.
fn governing_pps(snapshot: &Snapshot, target: usize) -> Option<Name> {
    let objects = snapshot.pps.objects.iter();
    objects
        .filter(|(_, object)| object.target == target && !object.terminating)
        .min_by_key(|(name, object)| {
            (
                **name != WORKLOADS[target].2,
                object.created.clone(),
                **name,
            )
        })
        .map(|(name, _)| *name)
}

fn name_holder(
    pod: Option<&Pod>,
    workload: Option<&Workload>,
    former_uid: Option<&String>,
) -> NameHolder {
    let Some(pod) = pod else {
        return NameHolder::Nothing;
    };
    match (&pod.owner, workload) {
        (Some(owner), Some(workload)) if *owner == workload.uid => {
            if pod.terminating {
                NameHolder::Terminating
            } else {
                NameHolder::Owned
            }
        }
        (owner @ Some(_), Some(_)) if owner.as_ref() == former_uid && !pod.terminating => {
            NameHolder::Former
        }
        (Some(_), Some(_)) => NameHolder::Foreign,
        // The workload is deleted; the garbage collector has yet to delete this Pod.
        (Some(_), None) if !pod.terminating => NameHolder::Owned,
        (None, _) if !pod.terminating => NameHolder::Orphan,
        _ => NameHolder::Nothing,
    }
}

/// The state of a running Pod; `None` if it is not Ready on a known Node, or if its annotation
/// forbids to record it.
pub(crate) fn running_state(
    snapshot: &Snapshot,
    options: SpecOptions,
    pod: &Pod,
    before: Option<&PodState>,
) -> Option<PodState> {
    let node_name = pod
        .node
        .filter(|_| pod.ready && !pod.terminating && !pod.exempt)?;
    let node = snapshot.nodes.objects.get(node_name)?;
    let mut state = PodState {
        node_name: node_name.to_owned(),
        ..PodState::default()
    };
    for (key, is_named, value) in [
        ("zone", options.zone, zone_label(node)),
        ("host", options.host, host_label(node_name, node)),
    ] {
        // A label that a new Node of the recorded name does not have yet may still come.
        let awaited = before.filter(|before| {
            snapshot.new_nodes.contains(node_name) && before.node_name == node_name
        });
        let value = value.or_else(|| awaited?.node_topology_labels.get(key).cloned());
        if let Some(value) = value.filter(|_| is_named) {
            state.node_topology_labels.insert(key.to_owned(), value);
        }
    }
    // A blank or missing value keeps what was recorded. No Pod has the annotation `net` itself.
    let ip = ip_annotation(pod).filter(|ip| !ip.is_empty());
    for (key, is_named, value) in [("ip", options.ip, ip), ("net", options.net, pod_ip(pod))] {
        let value = value.or_else(|| before?.annotations.get(key).cloned());
        if let Some(value) = value.filter(|_| is_named) {
            state.annotations.insert(key.to_owned(), value);
        }
    }
    Some(state)
}

fn lacks_topology_key(options: SpecOptions, state: &PodState) -> bool {
    [("zone", options.zone), ("host", options.host)]
        .iter()
        .any(|(key, is_named)| *is_named && !state.node_topology_labels.contains_key(*key))
}

/// Whether something that is recorded gives way to another value. What the spec no longer names
/// does not count.
pub(crate) fn replaces_values(options: SpecOptions, before: &PodState, after: &PodState) -> bool {
    let is_other = |key: &str, is_named: bool| {
        let value = |state: &PodState| {
            state
                .node_topology_labels
                .get(key)
                .or_else(|| state.annotations.get(key))
                .cloned()
        };
        is_named && value(before).is_some() && value(before) != value(after)
    };
    before.node_name != after.node_name
        || is_other("zone", options.zone)
        || is_other("host", options.host)
        || is_other("ip", options.ip)
        || is_other("net", options.net)
}

/// Whether an entry stays that no running Pod backs.
fn should_keep(
    retention: RetentionPolicy,
    is_workload_gone: bool,
    is_workload_replaced: bool,
    is_wanted: bool,
    holder: NameHolder,
) -> bool {
    let lives = is_living(holder);
    match retention {
        RetentionPolicy::Retain | RetentionPolicy::Unknown => true,
        _ if is_workload_gone => lives || holder == NameHolder::Foreign,
        _ if is_workload_replaced => lives || holder == NameHolder::Terminating,
        RetentionPolicy::WhenDeleted => true,
        RetentionPolicy::WhenScaled => is_wanted || holder != NameHolder::Nothing,
    }
}

/// Whether a Pod runs on another node than its home.
pub(crate) fn is_away(options: SpecOptions, state: Option<&PodState>, pod: &Pod) -> bool {
    let home = state
        .map(|state| state.node_name.as_str())
        .filter(|home| !home.is_empty());
    options.home && home.is_some_and(|home| pod.node.is_some_and(|node| node != home))
}

fn is_living(holder: NameHolder) -> bool {
    matches!(
        holder,
        NameHolder::Owned | NameHolder::Former | NameHolder::Orphan
    )
}

/// What the status of this PPS must say; `None` if the snapshot does not suffice to decide it.
/// `held` are entries whose drop the cluster has not confirmed, and that stay for now.
pub(crate) fn expected_status(
    snapshot: &Snapshot,
    name: Name,
    held: &BTreeSet<String>,
) -> Option<ExpectedStatus> {
    expected_status_with(snapshot, name, held, |_| true)
}

/// The same. The entry of a name that a custom kind does not want for certain stays for a while:
/// until it `is_tried`.
pub(crate) fn expected_status_with(
    snapshot: &Snapshot,
    name: Name,
    held: &BTreeSet<String>,
    is_tried: impl Fn(&String) -> bool,
) -> Option<ExpectedStatus> {
    let object = snapshot
        .pps
        .objects
        .get(name)
        .filter(|object| !object.terminating)?;
    let (options, base) = (object.options, parse_status(&object.status));
    let expect = |entries, reason, desired| ExpectedStatus {
        entries,
        target_uid: base.target_uid.clone(),
        may_keep_target: false,
        desired,
        generation: object.generation,
        reasons: vec![reason],
        confirmations: Vec::new(),
        renewed: None,
        renewing: BTreeMap::new(),
    };
    let is_enabled = snapshot.namespaces.objects.contains_key("n");
    let unchanged = |reason, desired| {
        let reason = if is_enabled {
            reason
        } else {
            "NamespaceNotEnabled"
        };
        expect(base.pod_states.clone(), reason, desired)
    };
    let workload = snapshot.workload(object.target);
    let Some(kind) = snapshot.kinds.get(&object.target) else {
        return snapshot
            .kinds_known
            .then(|| unchanged("WorkloadKindNotWatched", base.desired));
    };
    if snapshot.forbidden.contains(&object.target) {
        return Some(unchanged("WorkloadKindForbidden", base.desired));
    }
    if kind.listed.is_none() {
        let is_failing = snapshot.failing.contains(&object.target);
        return is_failing.then(|| unchanged("WorkloadKindUnavailable", base.desired));
    }
    let desired = workload
        .map_or(Some(0), |workload| replicas(object.target, workload))
        .map(|replicas| i32::try_from(replicas).unwrap());
    if !is_enabled || governing_pps(snapshot, object.target) != Some(name) {
        return Some(unchanged("Superseded", desired));
    }

    let present = workload.filter(|workload| !workload.terminating);
    let is_replaced = present.is_some_and(|present| {
        base.target_uid
            .as_ref()
            .is_some_and(|uid| *uid != present.uid)
    });
    let is_owned =
        |pod: &Pod| workload.is_some_and(|workload| pod.owner.as_ref() == Some(&workload.uid));
    let living = snapshot
        .pods
        .objects
        .iter()
        .filter(|(_, pod)| is_owned(pod) && !pod.terminating)
        .map(|(name, _)| *name)
        .collect();
    let mut expected = expect(BTreeMap::new(), "WorkloadNotFound", desired);
    let (mut must_report_keys, mut may_report_keys) = (false, false);
    let mut waits_for_former = false;
    let owned = snapshot
        .pods
        .objects
        .iter()
        .filter(|(_, pod)| is_owned(pod));
    let owned = owned.map(|(name, _)| (*name).to_owned());
    let names: BTreeSet<String> = base.pod_states.keys().cloned().chain(owned).collect();
    let mut renewed = snapshot
        .renewed
        .get(&object.uid)
        .cloned()
        .unwrap_or_default();
    if let Some(present) = present.filter(|_| !is_replaced) {
        renewed.is_complete = true;
        renewed.pods.retain(|_, uid| *uid != present.uid);
    }
    let renewed_before = renewed.pods.clone();
    let is_renewed =
        |pod: &String| present.is_some_and(|present| renewed_before.get(pod) == Some(&present.uid));
    // The Pods of a workload that exists belong to nothing but that workload.
    let exists_elsewhere = |uid: &String| {
        let others = snapshot
            .kinds
            .keys()
            .filter(|number| **number != object.target);
        others
            .filter_map(|number| snapshot.workload(*number))
            .any(|other| other.uid == *uid)
    };
    let former_uid = base
        .target_uid
        .as_ref()
        .filter(|uid| !exists_elsewhere(uid));
    let has_former = base.pod_states.keys().any(|name| {
        let pod = snapshot.pods.objects.get(name.as_str());
        name_holder(pod, workload, former_uid) == NameHolder::Former
    });
    for pod_name in names {
        let before = base.pod_states.get(&pod_name);
        let pod = snapshot.pods.objects.get(pod_name.as_str());
        let holder = name_holder(pod, workload, former_uid);
        let is_held = held.contains(&pod_name);
        // The home of a former workload's Pod is not that of its namesake.
        let may_be_former =
            is_replaced && !is_renewed(&pod_name) && (renewed.is_complete || !has_former);
        let is_away = |pod: &Pod| is_away(options, before, pod);
        let keeps_home = |pod: &Pod| {
            is_away(pod) && (options.retention == RetentionPolicy::Retain || !may_be_former)
        };
        let runs = pod.filter(|pod| {
            present.is_some()
                && holder == NameHolder::Owned
                && pod.ready
                && !pod.exempt
                && !keeps_home(pod)
        });
        if let Some(pod) = runs.filter(|pod| pod.node.is_some()) {
            let current = running_state(snapshot, options, pod, before);
            // The first record of a home is checked as well.
            let replaces = |state: &PodState| {
                before.map_or(options.home, |before| {
                    replaces_values(options, before, state)
                })
            };
            let is_held_change = is_held && current.as_ref().is_some_and(replaces);
            let current = current.filter(|_| !is_held_change);
            // A home that stays is that of the workload which the status names.
            let is_former_home =
                is_replaced && options.home && before.is_some() && current.is_none();
            waits_for_former |= is_former_home && options.retention != RetentionPolicy::Retain;
            if let Some(present) = present.filter(|_| is_replaced && current.is_some()) {
                let is_right = current.as_ref() == before;
                let pods = if is_right {
                    &mut renewed.pods
                } else {
                    &mut expected.renewing
                };
                pods.insert(pod_name.clone(), present.uid.clone());
            }
            must_report_keys |= current
                .as_ref()
                .is_some_and(|state| lacks_topology_key(options, state));
            // The labels of an unknown Node are unknown too, so the entry stays.
            let state = current.or_else(|| before.cloned());
            may_report_keys |= state
                .as_ref()
                .is_some_and(|state| lacks_topology_key(options, state));
            expected
                .entries
                .extend(state.map(|state| (pod_name, state)));
            continue;
        }
        let Some(before) = before else { continue };
        let absence = snapshot
            .absences
            .iter()
            .find(|(node, _)| **node == before.node_name);
        let lives = is_living(holder);
        let runs_elsewhere = pod
            .and_then(|pod| pod.node)
            .is_some_and(|node| node != before.node_name);
        let is_backed = lives
            && (pod.is_some_and(|pod| pod.ready) || runs_elsewhere)
            && !pod.is_some_and(is_away);
        let absence = absence
            .map(|(_, absence)| *absence)
            .filter(|_| options.forget && !is_backed);
        if absence == Some(NodeAbsence::ConfirmedGone) && !is_held {
            continue;
        }
        let is_wanted = present.is_some_and(|workload| {
            let recorded = &base.pod_states;
            may_want(object.target, workload, &pod_name, &living, recorded)
        });
        let is_awaited = workload.is_none() && base.target_uid.is_none();
        // A process that has not seen all that was recorded keeps what may be the living
        // workload's.
        let may_be_renewed = !renewed.is_complete && has_former;
        let is_former = is_replaced && !is_renewed(&pod_name) && !(may_be_renewed && is_wanted);
        // A Pod of a re-created workload backs the state of another Pod only where that is
        // recorded.
        let is_there = before.node_name.is_empty()
            || pod.is_some_and(|pod| pod.exempt || pod.node == Some(before.node_name.as_str()));
        let is_own = matches!(holder, NameHolder::Owned | NameHolder::Terminating);
        let holder = if is_former && is_own && !is_there {
            NameHolder::Nothing
        } else {
            holder
        };
        let stays = is_awaited
            || should_keep(
                options.retention,
                present.is_none(),
                is_former,
                is_wanted,
                holder,
            );
        let is_counted = object.target == 2 && present.is_some() && (!is_former || may_be_renewed);
        let is_surplus = is_counted && !is_tried(&pod_name);
        let may_wait = is_replaced && options.retention != RetentionPolicy::Retain;
        let is_held_drop = is_held && (!stays || absence == Some(NodeAbsence::ConfirmedGone));
        waits_for_former |=
            may_wait && (holder == NameHolder::Former || (is_held_drop && !is_surplus));
        // One that is surplus may be dropped now, or wait for the end of a round.
        expected.may_keep_target |= may_wait && is_held_drop && is_surplus;
        if stays || is_held || is_surplus {
            if absence == Some(NodeAbsence::Overdue) {
                expected.confirmations.push(before.node_name.clone());
            }
            may_report_keys |= lacks_topology_key(options, before);
            expected.entries.insert(pod_name, before.clone());
        }
    }
    let Some(present) = present else {
        return Some(expected);
    };
    expected.renewed = Some(renewed);
    if !waits_for_former {
        expected.target_uid = Some(present.uid.clone());
    }
    let is_in_doubt = is_in_doubt(present, &living, &base.pod_states);
    let healthy_reason = expected.healthy_reason(is_in_doubt);
    expected.reasons = match (must_report_keys, may_report_keys) {
        (true, _) => vec!["TopologyKeyMissing"],
        // What was reported of a Pod may stay as long as its entry does.
        (false, true) => vec![healthy_reason, "TopologyKeyMissing"],
        (false, false) => vec![healthy_reason],
    };
    Some(expected)
}
