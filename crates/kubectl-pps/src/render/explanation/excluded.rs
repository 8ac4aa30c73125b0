//! The nodes that cannot take a Pod, grouped by their reasons.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use pps_scheduler::{Exclusion, ExclusionKind, UNSCHEDULABLE, Verdict as NodeVerdict};
use serde::Serialize;

/// Up to this number, all nodes are named with their exact reasons.
pub(super) const MAX_EXACT_NODES: usize = 6;
const MAX_GROUPS: usize = 12;

/// Nodes that cannot take the Pod for the same reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Excluded {
    pub nodes: Vec<String>,
    pub reasons: Vec<String>,
    pub by_recorded_state: bool,
}

/// What the nodes of a group have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    lacks_labels: bool,
    by_recorded_state: bool,
    reasons: Vec<String>,
}

/// Groups nodes by their reasons, so that a thousand nodes are a few lines: nodes with the right
/// labels first, then the largest groups.
pub(crate) fn groups(verdicts: &[NodeVerdict]) -> Vec<Excluded> {
    let with_labels = verdicts.iter().filter(|verdict| !lacks_labels(verdict));
    let is_exact = with_labels.count() <= MAX_EXACT_NODES;
    let mut groups: BTreeMap<GroupKey, Vec<String>> = BTreeMap::new();
    for verdict in verdicts {
        let lacks_labels = lacks_labels(verdict);
        let key = GroupKey {
            lacks_labels,
            by_recorded_state: verdict.exclusions.iter().any(Exclusion::from_pps),
            reasons: reasons(&verdict.exclusions, is_exact && !lacks_labels),
        };
        groups.entry(key).or_default().push(verdict.node.clone());
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(key, nodes)| (key.lacks_labels, Reverse(nodes.len())));
    let mut groups: Vec<Excluded> = groups
        .into_iter()
        .map(|(key, nodes)| Excluded {
            nodes,
            reasons: key.reasons,
            by_recorded_state: key.by_recorded_state,
        })
        .collect();
    if groups.len() > MAX_GROUPS {
        let rest = groups.split_off(MAX_GROUPS - 1);
        groups.push(merged(rest));
    }
    groups
}

fn merged(groups: Vec<Excluded>) -> Excluded {
    Excluded {
        by_recorded_state: groups.iter().any(|group| group.by_recorded_state),
        nodes: groups.into_iter().flat_map(|group| group.nodes).collect(),
        reasons: vec!["various reasons".to_owned()],
    }
}

fn lacks_labels(verdict: &NodeVerdict) -> bool {
    verdict.exclusions.iter().any(is_about_labels)
}

fn is_about_labels(exclusion: &Exclusion) -> bool {
    matches!(
        exclusion.kind(),
        ExclusionKind::RequiredAffinity | ExclusionKind::NodeSelector
    )
}

/// Why a node cannot take a Pod, each reason once.
pub(super) fn reasons(exclusions: &[Exclusion], is_exact: bool) -> Vec<String> {
    let is_cordoned = exclusions.contains(&Exclusion::Cordon);
    let mut reasons: Vec<String> = Vec::new();
    for exclusion in exclusions {
        // The taint of a cordon says no more than the cordon.
        if is_cordoned && is_taint_of_cordon(exclusion) {
            continue;
        }
        let reason = if is_exact {
            exclusion.to_string()
        } else {
            exclusion.in_general()
        };
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}

fn is_taint_of_cordon(exclusion: &Exclusion) -> bool {
    matches!(exclusion, Exclusion::Taint(taint) if taint.key == UNSCHEDULABLE)
}
