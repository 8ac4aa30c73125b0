//! Nodes that cannot take a Pod, by reason: a thousand nodes are a few lines.

use std::collections::BTreeMap;

use pps_scheduler::{Exclusion, ExclusionKind, Verdict};

/// Up to so many groups keep their exact reasons.
const MAX_EXACT: usize = 8;
/// How many groups are shown.
const MAX_SHOWN: usize = 12;
/// The taint that a cordon sets.
const CORDON_TAINT: &str = "node.kubernetes.io/unschedulable";

/// Nodes that cannot take the Pod for the same reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The nodes, by name.
    pub nodes: Vec<String>,
    /// Why; empty if the reasons are too many to name.
    pub reasons: Vec<Reason>,
    /// Whether a value that the policy injected is one of the reasons.
    pub by_recorded_state: bool,
    /// Whether their labels alone exclude them.
    is_far: bool,
}

/// Why a node cannot take the Pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// As the scheduler finds it on the node.
    Exact(Exclusion),
    /// Without what differs from node to node.
    General(Exclusion),
}

impl Reason {
    /// A node's own name would make a group of each node.
    fn exact(node: &str, exclusion: &Exclusion) -> Self {
        match exclusion {
            Exclusion::Label { found: Some(found), .. } if found == node => Self::general(node, exclusion),
            _ => Self::Exact(exclusion.clone()),
        }
    }

    fn general(_: &str, exclusion: &Exclusion) -> Self {
        let mut general = exclusion.clone();
        match &mut general {
            Exclusion::Label { found, .. } => *found = None,
            Exclusion::Insufficient { free, limit, .. } => (*free, *limit) = (0, 0),
            Exclusion::TooManyPods { running, limit } => (*running, *limit) = (0, 0),
            Exclusion::PodAffinity { domain, .. } => *domain = None,
            Exclusion::PodAntiAffinity { domain, .. } => domain.clear(),
            Exclusion::TopologySpread { skew, .. } => *skew = None,
            _ => {}
        }
        Self::General(general)
    }
}

/// The reasons of one node.
pub(super) fn reasons_of(verdict: &Verdict) -> Vec<Reason> {
    groups(std::slice::from_ref(verdict)).pop().map(|group| group.reasons).unwrap_or_default()
}

/// Groups the nodes that are excluded: first those whose labels are right, then the largest groups.
pub(super) fn groups(verdicts: &[Verdict]) -> Vec<Group> {
    let mut groups = collect(verdicts, &Reason::exact);
    if groups.len() > MAX_EXACT {
        let (far, near): (Vec<Group>, Vec<Group>) =
            collect(verdicts, &Reason::general).into_iter().partition(|group| group.is_far);
        // The nodes that the Pod asks for keep their exact reasons.
        groups.retain(|group| !group.is_far);
        groups = if groups.len() > MAX_EXACT { near } else { groups };
        groups.extend(far);
    }
    groups.sort_by(|one, other| {
        let order = |group: &Group| (group.is_far, usize::MAX - group.nodes.len());
        order(one).cmp(&order(other)).then_with(|| one.nodes.cmp(&other.nodes))
    });
    if groups.len() > MAX_SHOWN {
        let rest = groups.split_off(MAX_SHOWN - 1);
        let by_recorded_state = rest.iter().any(|group| group.by_recorded_state);
        let mut nodes: Vec<String> = rest.into_iter().flat_map(|group| group.nodes).collect();
        nodes.sort();
        groups.push(Group { nodes, reasons: Vec::new(), by_recorded_state, is_far: true });
    }
    groups
}

fn collect(verdicts: &[Verdict], reason: &dyn Fn(&str, &Exclusion) -> Reason) -> Vec<Group> {
    let mut groups: BTreeMap<(bool, bool, Vec<Reason>), Vec<String>> = BTreeMap::new();
    for verdict in verdicts.iter().filter(|verdict| !verdict.exclusions.is_empty()) {
        let is_cordoned = verdict.exclusions.contains(&Exclusion::Cordon);
        let mut reasons: Vec<Reason> = Vec::new();
        for exclusion in &verdict.exclusions {
            let reason = reason(&verdict.node, exclusion);
            let is_cordons = matches!(exclusion, Exclusion::Taint { key, .. } if key == CORDON_TAINT);
            if !(is_cordoned && is_cordons || reasons.contains(&reason)) {
                reasons.push(reason);
            }
        }
        let is_recorded = verdict.exclusions.iter().any(Exclusion::from_pps);
        let is_far = verdict.exclusions.iter().any(is_about_labels);
        groups.entry((is_recorded, is_far, reasons)).or_default().push(verdict.node.clone());
    }
    let group =
        |((by_recorded_state, is_far, reasons), nodes)| Group { nodes, reasons, by_recorded_state, is_far };
    groups.into_iter().map(group).collect()
}

pub(super) fn is_about_labels(exclusion: &Exclusion) -> bool {
    matches!(exclusion.kind(), ExclusionKind::RequiredAffinity | ExclusionKind::NodeSelector)
}
