//! What a status has to be by what is known: computed anew from all of it, as if nothing had been kept.

use std::collections::BTreeMap;

use pps_core::Spec;
use pps_core::demand::{Demand, Wanted};
use pps_core::pps::{NodeDeletionPolicy, PodState, RetentionPolicy, Status};
use pps_core::record::{Running, record};
use pps_core::workload::Ordinals;
use serde_json::Value;

use super::cluster::{Name, Object, Pod, WORKLOADS, Workload};
use super::view::{Absence, View, address, ip, label, naming};

/// What a status has to say.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) entries: BTreeMap<String, PodState>,
    pub(crate) target_uid: Option<String>,
    pub(crate) desired: Option<i32>,
    pub(crate) generation: i64,
    /// What the condition may give as its reason.
    pub(crate) reasons: Vec<&'static str>,
    /// Nodes of which it has to be asked whether they are gone.
    pub(crate) questions: Vec<String>,
}

/// Whose the Pod of a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PodOwnership {
    Nobodys,
    Going,
    Ours,
    Orphan,
    Strangers,
}

pub(crate) fn demand(number: usize, workload: &Workload) -> Demand {
    if number == 0 {
        let spec = &workload.spec;
        let start = spec["ordinals"]["start"].as_u64().unwrap_or(0);
        return Demand::of_ordinals(Ordinals::new(start, spec["replicas"].as_u64().unwrap_or(1), []));
    }
    Demand::read(&workload.spec, &naming(number))
}

pub(crate) fn spec_of(object: &Object) -> Spec {
    serde_json::from_value(object.spec.clone()).unwrap()
}

pub(crate) fn status_of(status: &Value) -> Status {
    serde_json::from_value(status.clone()).unwrap()
}

/// Which object is in charge of a workload.
fn in_charge(view: &View, target: usize) -> Option<Name> {
    let rivals =
        view.objects.facts.iter().filter(|(_, object)| object.target == target && !object.terminating);
    let workload = WORKLOADS[target].2;
    rivals
        .min_by_key(|(name, object)| (**name != workload, object.created.clone(), **name))
        .map(|(name, _)| *name)
}

fn bearer(pod: Option<&Pod>, workload: Option<&Workload>) -> PodOwnership {
    let Some(pod) = pod else { return PodOwnership::Nobodys };
    match (&pod.owner, workload) {
        (Some(owner), Some(workload)) if *owner == workload.uid => {
            if pod.terminating {
                PodOwnership::Going
            } else {
                PodOwnership::Ours
            }
        }
        (Some(_), Some(_)) => PodOwnership::Strangers,
        (Some(_), None) if !pod.terminating => PodOwnership::Ours,
        (None, _) if !pod.terminating => PodOwnership::Orphan,
        _ => PodOwnership::Nobodys,
    }
}

/// What the state of a running Pod is; nothing if it does not run, or on a node that is not known.
pub(crate) fn running(view: &View, spec: &Spec, pod: &Pod, before: Option<&PodState>) -> Option<PodState> {
    let node_name = pod.node.filter(|_| pod.ready && !pod.terminating)?;
    let node = view.nodes.facts.get(node_name)?;
    let labels = ["zone", "host"].map(|key| (key, label(node_name, node, key)));
    let (ip, addresses) = (ip(pod), Vec::from_iter(address(pod)));
    let running = Running {
        node_name,
        node_label: &|key| labels.iter().find(|(name, _)| *name == key)?.1.as_deref(),
        annotation: &|key| ip.as_deref().filter(|_| key == "ip"),
        pod_ips: &addresses,
    };
    Some(record(spec, &running, before))
}

fn lacks(spec: &Spec, state: &PodState) -> bool {
    spec.topology_keys().any(|key| !state.node_topology_labels.contains_key(key))
}

/// Whether an entry stays that no running Pod makes.
fn stays(retention: RetentionPolicy, gone: bool, replaced: bool, wanted: bool, bearer: PodOwnership) -> bool {
    let lives = matches!(bearer, PodOwnership::Ours | PodOwnership::Orphan);
    match retention {
        RetentionPolicy::Retain => true,
        _ if gone => lives || bearer == PodOwnership::Strangers,
        _ if replaced => lives || bearer == PodOwnership::Going,
        RetentionPolicy::WhenDeleted => true,
        RetentionPolicy::WhenScaled => wanted || bearer != PodOwnership::Nobodys,
    }
}

/// What the status of this object has to be; nothing if that cannot be told yet.
pub(crate) fn wanted(view: &View, name: Name) -> Option<Expected> {
    let object = view.objects.facts.get(name).filter(|object| !object.terminating)?;
    let (spec, base) = (spec_of(object), status_of(&object.status));
    let all = |entries, reason, desired| Expected {
        entries,
        target_uid: base.target_uid.clone(),
        desired,
        generation: object.generation,
        reasons: vec![reason],
        questions: Vec::new(),
    };
    let workload = view.workload(object.target);
    let Some(kind) = view.kinds.get(&object.target) else {
        let nothing = all(base.pod_states.clone(), "WorkloadKindNotWatched", base.desired);
        return view.kinds_known.then_some(nothing);
    };
    if kind.listed.is_none() {
        let nothing = all(base.pod_states.clone(), "WorkloadKindForbidden", base.desired);
        return view.forbidden.contains(&object.target).then_some(nothing);
    }
    let demand = workload.map(|workload| demand(object.target, workload));
    let desired =
        demand.as_ref().map_or(Some(0), Demand::replicas).map(|number| i32::try_from(number).unwrap());
    if in_charge(view, object.target) != Some(name) {
        return Some(all(base.pod_states.clone(), "Superseded", desired));
    }

    let present = workload.filter(|workload| !workload.terminating);
    let replaced =
        present.is_some_and(|present| base.target_uid.as_ref().is_some_and(|uid| *uid != present.uid));
    let is_ours = |pod: &Pod| workload.is_some_and(|workload| pod.owner.as_ref() == Some(&workload.uid));
    let living = view.pods.facts.values().filter(|pod| is_ours(pod) && !pod.terminating).count();
    let mut wanted = all(BTreeMap::new(), "Recording", desired);
    let (mut must_lack, mut may_lack) = (false, false);
    let owned = view.pods.facts.iter().filter(|(_, pod)| is_ours(pod)).map(|(name, _)| (*name).to_owned());
    let names: std::collections::BTreeSet<String> = base.pod_states.keys().cloned().chain(owned).collect();
    for pod_name in names {
        let before = base.pod_states.get(&pod_name);
        let pod = view.pods.facts.get(pod_name.as_str());
        let bearer = bearer(pod, workload);
        let runs = pod.filter(|pod| present.is_some() && bearer == PodOwnership::Ours && pod.ready);
        if let Some(pod) = runs.filter(|pod| pod.node.is_some()) {
            // The labels of a node that is not known are not known either.
            let state = running(view, &spec, pod, before).or_else(|| before.cloned());
            must_lack |= running(view, &spec, pod, before).is_some_and(|state| lacks(&spec, &state));
            may_lack |= state.as_ref().is_some_and(|state| lacks(&spec, state));
            wanted.entries.extend(state.map(|state| (pod_name, state)));
            continue;
        }
        let Some(before) = before else { continue };
        let absence =
            view.absences.iter().find(|(node, _)| **node == before.node_name).map(|(_, absence)| *absence);
        let lives = matches!(bearer, PodOwnership::Ours | PodOwnership::Orphan);
        let elsewhere = pod.and_then(|pod| pod.node).is_some_and(|node| node != before.node_name);
        let backed = lives && (pod.is_some_and(|pod| pod.ready) || elsewhere);
        let absence = absence.filter(|_| spec.node_deletion() == NodeDeletionPolicy::Forget && !backed);
        if absence == Some(Absence::Confirmed) {
            continue;
        }
        let want = present
            .and(demand.as_ref())
            .map_or(Wanted::No, |demand| demand.wants(WORKLOADS[object.target].2, &pod_name, living));
        if stays(spec.retention(), present.is_none(), replaced, want != Wanted::No, bearer) {
            if absence == Some(Absence::Overdue) {
                wanted.questions.push(before.node_name.clone());
            }
            may_lack |= lacks(&spec, before);
            wanted.entries.insert(pod_name, before.clone());
        }
    }
    if let Some(present) = present {
        wanted.target_uid = Some(present.uid.clone());
    } else {
        wanted.reasons = vec!["WorkloadNotFound"];
        return Some(wanted);
    }
    wanted.reasons = match (must_lack, may_lack) {
        (true, _) => vec!["TopologyKeyMissing"],
        // What was said of a Pod may stay as long as its entry does.
        (false, true) => vec!["Recording", "TopologyKeyMissing"],
        (false, false) => vec!["Recording"],
    };
    Some(wanted)
}
