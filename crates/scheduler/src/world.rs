//! The cluster as one Pod meets it: which nodes can take the Pod, and which the scheduler prefers.

use std::collections::BTreeSet;

use super::pod_affinity::PodAffinity;
use super::read::{Candidate, Node};
use super::reason::{Caveat, Exclusion, ExclusionKind};
use super::spread::Required;
use super::volumes::PodVolumes;
use super::{Placement, Selection, Verdict, caveats, node_affinity, resources, scores, taints};

/// With fewer nodes than these the scheduler looks at all of them.
const LOOKS_AT_ALL: usize = 100;

pub(super) struct World<'a> {
    placement: Placement<'a>,
    new: &'a Candidate<'a>,
    nodes: &'a [Node],
    affinity: PodAffinity<'a>,
    spread: Required<'a>,
    volumes: PodVolumes<'a>,
}

impl<'a> World<'a> {
    pub(super) fn of(placement: &Placement<'a>, new: &'a Candidate<'a>, nodes: &'a [Node]) -> Self {
        Self {
            placement: *placement,
            new,
            nodes,
            affinity: PodAffinity::of(&new.pod, nodes),
            spread: Required::of(new, nodes),
            volumes: PodVolumes::of(placement.pod, placement.volumes),
        }
    }

    pub(super) fn select(&self) -> Selection {
        let mut caveats = self.caveats();
        let mut verdicts: Vec<Verdict> = self.nodes.iter().map(|node| self.verdict(node)).collect();
        let feasible: Vec<usize> = (0..verdicts.len())
            .filter(|index| verdicts[*index].exclusions.is_empty())
            .collect();
        let mut may_land_on = BTreeSet::new();
        if !caveats.is_empty() || samples(self.nodes.len(), feasible.len()) {
            may_land_on.extend(feasible.iter().copied());
        }
        if feasible.is_empty() {
            may_land_on.extend(self.preemptible(&verdicts));
            caveats.extend((!may_land_on.is_empty()).then_some(Caveat::Preemption));
        }
        let mut chosen = None;
        let fits: Vec<&Node> = feasible.iter().map(|index| &self.nodes[*index]).collect();
        let variants =
            scores::variants(&self.placement, self.new, self.nodes, &fits, &self.affinity);
        for (variant, scores) in variants.iter().enumerate() {
            let best = indices_of_best(&feasible, scores);
            may_land_on.extend(best.iter().copied());
            if variant == 0 {
                chosen = self.names(best).into_iter().next();
                for (index, score) in feasible.iter().zip(scores) {
                    verdicts[*index].score = *score;
                }
            }
        }
        Selection {
            verdicts,
            chosen,
            may_land_on: self.names(may_land_on),
            caveats,
            unclear: self.names(
                (0..self.nodes.len()).filter(|index| self.affinity.is_unclear(&self.nodes[*index])),
            ),
        }
    }

    /// The names of nodes, in order.
    fn names(&self, indices: impl IntoIterator<Item = usize>) -> Vec<String> {
        let names = indices.into_iter().map(|index| &self.nodes[index].name);
        let mut names: Vec<String> = names.cloned().collect();
        names.sort();
        names
    }

    fn caveats(&self) -> Vec<Caveat> {
        let mut caveats = caveats::of(self.new.spec, self.placement.volumes.is_some());
        if self.affinity.is_partial {
            caveats.push(Caveat::PodAffinityFields);
        }
        if !self.affinity.unclear.is_empty() {
            caveats.push(Caveat::AntiAffinityOfOthers);
        }
        caveats.extend(self.volumes.caveats.iter().cloned());
        caveats
    }

    /// The nodes that can take the Pod once Pods of lower priority are evicted.
    fn preemptible(&self, verdicts: &[Verdict]) -> Vec<usize> {
        let Some(priority) = self.new.pod.priority else {
            return Vec::new();
        };
        if self.new.spec["preemptionPolicy"] == "Never" {
            return Vec::new();
        }
        (0..verdicts.len())
            .filter(|index| {
                lacks_only_resources(&verdicts[*index])
                    && resources::may_preempt(&self.new.pod, priority, &self.nodes[*index])
            })
            .collect()
    }

    fn verdict(&self, node: &Node) -> Verdict {
        let spec = self.new.spec;
        // Nothing schedules a Pod that names its node.
        if let Some(wanted) = spec["nodeName"]
            .as_str()
            .filter(|wanted| !wanted.is_empty())
        {
            let other = (wanted != node.name).then(|| Exclusion::NodeName {
                wanted: wanted.to_owned(),
            });
            return Verdict {
                node: node.name.clone(),
                exclusions: other.into_iter().collect(),
                score: 0,
            };
        }
        let mut exclusions = taints::exclusions(spec, node);
        let before = self.placement.before.map(|before| &before["spec"]);
        exclusions.extend(node_affinity::mismatches(spec, before, node));
        exclusions.extend(self.volumes.exclusions(node));
        exclusions.extend(resources::exclusions(&self.new.pod, node));
        exclusions.extend(self.affinity.exclusions(node));
        exclusions.extend(self.spread.exclusions(node));
        Verdict {
            node: node.name.clone(),
            exclusions,
            score: 0,
        }
    }
}

/// Whether the scheduler stops looking before it has seen all nodes that can take the Pod.
fn samples(nodes: usize, feasible: usize) -> bool {
    let percentage = 50_usize.saturating_sub(nodes / 125).max(5);
    nodes >= LOOKS_AT_ALL && feasible > (nodes.saturating_mul(percentage) / 100).max(LOOKS_AT_ALL)
}

fn lacks_only_resources(verdict: &Verdict) -> bool {
    let mut kinds = verdict.exclusions.iter().map(Exclusion::kind);
    kinds.all(|kind| kind == ExclusionKind::Resources)
}

/// The indices with the highest score. Each index has a score.
fn indices_of_best(indices: &[usize], scores: &[i64]) -> Vec<usize> {
    let most = scores.iter().max();
    indices
        .iter()
        .zip(scores)
        .filter(|(_, score)| Some(*score) == most)
        .map(|(index, _)| *index)
        .collect()
}
