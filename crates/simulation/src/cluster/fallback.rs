//! Pods that have waited for a place which they require until an end: the sidecar's own judgement,
//! of the simulated objects.

use std::collections::BTreeSet;

use pps_core::edit::set_state;
use pps_core::pps::{KIND, short};
use pps_core::succession::name_order;
use pps_recorder::FallbackCandidate;
use pps_recorder::fallback::{Case, Judgement, Refusal};
use serde_json::Value;

use crate::cluster::{Cluster, recorder};
use crate::result::EventKind;
use crate::settle::{Scheduling, settle};

/// All Pods that wait for a place with an end have waited long enough: one after the other gives up
/// as much of its place as no node can serve.
pub(crate) fn end_period(cluster: &mut Cluster) {
    settle(cluster, Scheduling::AllPending);
    let mut judged = BTreeSet::new();
    while let Some(candidate) = next(cluster, &judged) {
        judged.insert(candidate.uid.clone());
        fall_back(cluster, &candidate);
        settle(cluster, Scheduling::AllPending);
    }
}

/// The first Pod by ordinal that was not judged.
fn next(cluster: &Cluster, judged: &BTreeSet<String>) -> Option<FallbackCandidate> {
    let waiting = recorder::fallback_candidates(cluster).into_iter();
    waiting
        .filter(|candidate| !judged.contains(&candidate.uid))
        .min_by(|one, other| name_order(&one.pod.name).cmp(&name_order(&other.pod.name)))
}

fn fall_back(cluster: &mut Cluster, candidate: &FallbackCandidate) {
    let name = &*candidate.pod.name;
    let object = format!("Pod/{name}");
    if !cluster.evict_pending_pods {
        let text = "keeps its place: start the sidecar with --evict-pending-pods (FallbackBlocked)";
        return cluster.tell(EventKind::Warning, object, text);
    }
    let Some(case) = case(cluster, candidate) else {
        return;
    };
    match case.judge() {
        Judgement::GiveUp { given_up, kept, .. } => {
            let pps = &candidate.pps.name;
            let labels = given_up.labels.iter();
            let labels = labels.map(|label| format!("{}={}", short(&label.key), label.value));
            let node = Some(&candidate.state.node_name).filter(|node| !node.is_empty());
            let given_up: Vec<String> = labels.chain(node.cloned()).collect();
            let stored = cluster
                .pps
                .get(&**pps)
                .map_or(&Value::Null, |pps| &pps.object);
            let Ok(Some(edit)) = set_state(stored, name, Some(&kept)) else {
                return;
            };
            recorder::patch_status(cluster, pps, &edit.status);
            let text = format!(
                "no longer requires {} of {name}: no node there can take it",
                given_up.join(" and ")
            );
            cluster.tell(EventKind::Changed, format!("{KIND}/{pps}"), text);
            evict(cluster, name, "fallbackAfterSeconds is over (FellBack)");
        }
        Judgement::CreateAgain => evict(cluster, name, "its place was given up"),
        Judgement::Refused(refusal) => {
            if let Some(why) = why_kept(&refusal) {
                let text = format!("keeps its place although fallbackAfterSeconds is over: {why}");
                cluster.tell(EventKind::Warning, object, text);
            }
        }
        Judgement::Read(_) => {}
    }
}

fn evict(cluster: &mut Cluster, pod: &str, why: &str) {
    cluster.remove_pod(pod);
    cluster.mark_all();
    let text = format!("is evicted: {why}");
    cluster.tell(EventKind::Evicted, format!("Pod/{pod}"), text);
}

/// Everything that the judgement rests on.
fn case(cluster: &Cluster, candidate: &FallbackCandidate) -> Option<Case> {
    let name = &*candidate.pod.name;
    let pod = (*cluster.pods.get(name)?.object).clone();
    let pps = cluster.pps.get(&*candidate.pps.name)?;
    let spec = serde_json::from_value(pps.object["spec"].clone()).ok()?;
    let state = candidate.state.clone();
    let mut case = Case::new(candidate.question, &candidate.pps.name, spec, state, pod);
    let workload = cluster.workloads.get(&*candidate.workload.object.name)?;
    case.workload = Some(workload.object.clone());
    case.volumes = cluster.volumes.clone();
    for (node, object) in cluster.existing_nodes() {
        case.add_node(&object.object);
        let own = cluster.pods.on(node).map(|(_, pod)| &*pod.object);
        let others = cluster.others.on(node).iter().map(AsRef::as_ref);
        case.set_pods(node, own.chain(others));
    }
    Some(case)
}

fn why_kept(refusal: &Refusal) -> Option<String> {
    Some(match refusal {
        Refusal::HomeTakesIt { .. } | Refusal::Unchanged => return None,
        Refusal::NoNodeCouldTake => "no other node could take it, either".to_owned(),
        Refusal::PinnedByVolume { claim } => format!("the volume of claim {claim} pins it"),
        Refusal::NotJudged(caveat) => format!("it is not known: {caveat}"),
        Refusal::TemplateUnknown => "its template is not known".to_owned(),
        Refusal::TooManyNodes => "too many nodes are in question".to_owned(),
    })
}
