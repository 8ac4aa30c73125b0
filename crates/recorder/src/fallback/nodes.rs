//! Which nodes could take a Pod, and which could not, or perhaps not.

use pps_scheduler::fields::list;
use pps_scheduler::{Caveat, ExclusionKind, RequiredBy, Selection, Verdict};
use serde_json::Value;

use super::Refusal;

/// The nodes that could take a Pod, the best first.
pub(super) fn open(selection: &Selection) -> Vec<&str> {
    let mut open: Vec<&Verdict> = selection
        .verdicts
        .iter()
        .filter(|verdict| verdict.exclusions.is_empty())
        .collect();
    open.sort_by_key(|verdict| std::cmp::Reverse(verdict.score));
    open.iter().map(|verdict| verdict.node.as_str()).collect()
}

/// The same, without those from which a running Pod may keep it away.
pub(super) fn clearly_open(selection: &Selection) -> Vec<&str> {
    let mut open = open(selection);
    let unclear = &selection.unclear;
    open.retain(|node| {
        unclear
            .binary_search_by(|known| known.as_str().cmp(node))
            .is_err()
    });
    open
}

/// Why no node is clearly open.
pub(super) fn nowhere(selection: &Selection) -> Refusal {
    if !open(selection).is_empty() {
        return Refusal::NotJudged(Caveat::AntiAffinityOfOthers);
    }
    pinned(selection).unwrap_or(Refusal::NoNodeCouldTake)
}

/// Whether a Pod requires to be near, or far from, Pods of other namespaces.
pub(super) fn asks_about_other_namespaces(pod: &Value) -> bool {
    let own = &pod["metadata"]["namespace"];
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let terms =
            &pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"];
        list(terms).any(|term| {
            let mut namespaces = list(&term["namespaces"]);
            !term["namespaceSelector"].is_null() || namespaces.any(|namespace| namespace != own)
        })
    })
}

/// Whether something may keep a Pod from a node, or lets a node take it, that is not simulated.
pub(super) fn is_unknown(caveat: &Caveat) -> bool {
    // How many volumes a node takes matters only where nodes are full, and preemption is judged.
    // Of which nodes the anti-affinity of others may keep it away is known.
    !matches!(
        caveat,
        Caveat::VolumeLimits | Caveat::Preemption | Caveat::AntiAffinityOfOthers
    )
}

/// The claim whose volume alone keeps the Pod from a node.
fn pinned(selection: &Selection) -> Option<Refusal> {
    let verdict = selection.verdicts.iter().find(|verdict| {
        let mut kinds = verdict
            .exclusions
            .iter()
            .map(pps_scheduler::Exclusion::kind);
        kinds.all(|kind| kind == ExclusionKind::Volume)
    })?;
    let claim = verdict.exclusions.iter().find_map(|exclusion| {
        use pps_scheduler::Exclusion::{Impossible, Label};
        match exclusion {
            Label { by, .. } | Impossible { by } => match by {
                RequiredBy::Claim(claim) => Some(claim.clone()),
                _ => None,
            },
            _ => None,
        }
    })?;
    Some(Refusal::PinnedByVolume { claim })
}
