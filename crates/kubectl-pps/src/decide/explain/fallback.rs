//! Whether a Pending Pod gives up its place once its requirement ends: what the sidecar would judge
//! now.

use pps_core::required_affinity::RequiredAffinity;
use pps_recorder::fallback::{Case, Judgement, Question, Refusal, question};
use pps_recorder::place::RecordedLabel;
use pps_scheduler::Volumes;
use serde::Deserialize;

use crate::decide::subject::Subject;
use crate::snapshot::Pod;

/// What becomes of a Pod whose requirement has an end.
#[derive(Clone, Debug, PartialEq)]
pub struct Fallback {
    /// How long the Pod waits, in seconds.
    pub after: u32,
    /// Before when it does not fall back, in Unix seconds; none if that is not known. It may be
    /// later: only the time counts in which the sidecar saw the Pod.
    pub not_before: Option<i64>,
    pub prospect: Prospect,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Prospect {
    /// It gives these values up, and its recorded node if there is one.
    GivesUp {
        labels: Vec<RecordedLabel>,
        node: Option<String>,
    },
    /// It is created again soon: its place was given up already.
    CreatedAgain,
    /// It keeps its place, as long as everything stays as it is.
    Kept(Refusal),
}

/// None for a Pod that waits forever, or for something else, or if that is not known.
pub(super) fn fallback(subject: &Subject, pod: &Pod) -> Option<Fallback> {
    let spec = subject.spec.as_ref()?;
    let after = spec.fallback_after_seconds()?;
    let pps = subject.pps.known().filter(|pps| pps.is_enabled())?;
    let state = subject.state.as_ref().ok()?.as_ref()?;
    let nodes = subject.snapshot.nodes.as_ref()?;
    pod.unschedulable()?;
    let affinity = RequiredAffinity::deserialize(&pod.object()["spec"]["affinity"]).ok()?;
    let asked = question(spec, state, &affinity)?;
    let mut case = Case::new(
        asked,
        pps.name(),
        spec.clone(),
        state.clone(),
        pod.object().clone(),
    );
    case.workload = subject.workload.map(|workload| workload.object().clone());
    let snapshot = subject.snapshot;
    case.volumes = Volumes::of(snapshot.claims.iter().chain(&snapshot.volumes));
    for (name, node) in nodes {
        case.add_node(node.object());
        let on = snapshot.pods.iter().filter(|pod| pod.node() == Some(name));
        case.set_pods(name, on.map(Pod::object));
    }
    let node = Some(state.node_name.clone()).filter(|node| !node.is_empty());
    let prospect = match case.judge() {
        Judgement::GiveUp { given_up, .. } => Prospect::GivesUp {
            labels: given_up.labels.into_iter().collect(),
            node,
        },
        Judgement::CreateAgain => Prospect::CreatedAgain,
        Judgement::Refused(refusal) => Prospect::Kept(refusal),
        Judgement::Read(_) => return None,
    };
    let since = pod
        .unschedulable_since()
        .filter(|_| asked == Question::GiveUp);
    Some(Fallback {
        after,
        not_before: since.map(|since| since.saturating_add(i64::from(after))),
        prospect,
    })
}
