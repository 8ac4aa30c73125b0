//! Topology spread: what a Pod asks for, else what the scheduler does for the Pods of a controller.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{list, text};
use super::read::{Candidate, HOSTNAME, Node};
use super::reason::{Exclusion, Skew};
use super::selector::{Labels, PodSelector};
use super::{BEST, node_affinity, taints};

const ZONE: &str = "topology.kubernetes.io/zone";

struct Constraint<'a> {
    max_skew: i64,
    topology_key: &'a str,
    min_domains: usize,
    honors_affinity: bool,
    honors_taints: bool,
    selector: PodSelector<'a>,
}

impl<'a> Constraint<'a> {
    fn of(new: &'a Candidate<'a>, when_unsatisfiable: &str) -> Vec<Self> {
        list(&new.spec["topologySpreadConstraints"])
            .filter(|constraint| text(&constraint["whenUnsatisfiable"]) == when_unsatisfiable)
            .map(|constraint| Self::read(constraint, &new.pod.labels))
            .collect()
    }

    fn read(constraint: &'a Value, labels: &Labels) -> Self {
        let keys = list(&constraint["matchLabelKeys"]).map(text);
        let also = keys.filter_map(|key| Some((key.to_owned(), labels.get(key)?.clone())));
        let min_domains = constraint["minDomains"].as_u64().unwrap_or(1);
        Self {
            max_skew: constraint["maxSkew"].as_i64().unwrap_or(1),
            topology_key: text(&constraint["topologyKey"]),
            min_domains: usize::try_from(min_domains).unwrap_or(usize::MAX),
            honors_affinity: constraint["nodeAffinityPolicy"] != "Ignore",
            honors_taints: constraint["nodeTaintsPolicy"] == "Honor",
            selector: PodSelector::of(&constraint["labelSelector"]).and(also.collect()),
        }
    }

    /// What the scheduler does for Pods of a controller without constraints of their own.
    fn defaults(selector: &'a Value) -> Vec<Self> {
        let selector = PodSelector::of(selector);
        if selector.is_nothing() || selector.is_everything() {
            return Vec::new();
        }
        [(HOSTNAME, 3), (ZONE, 5)]
            .map(|(topology_key, max_skew)| Self {
                max_skew,
                topology_key,
                min_domains: 1,
                honors_affinity: true,
                honors_taints: false,
                selector: selector.clone(),
            })
            .into()
    }

    fn counts(&self, new: &Candidate, node: &Node) -> bool {
        (!self.honors_affinity || node_affinity::matches(new.spec, node))
            && (!self.honors_taints || taints::tolerates_all(new.spec, node))
    }

    fn selected(&self, new: &Candidate, node: &Node) -> i64 {
        if self.selector.is_everything() {
            return 0;
        }
        let selected = node.pods.iter().filter(|other| {
            !other.terminating
                && other.namespace == new.pod.namespace
                && self.selector.matches(&other.labels)
        });
        i64::try_from(selected.count()).unwrap_or(i64::MAX)
    }
}

fn has_all_keys(constraints: &[Constraint], node: &Node) -> bool {
    constraints
        .iter()
        .all(|constraint| node.labels.contains_key(constraint.topology_key))
}

/// The constraints that exclude nodes.
pub(super) struct Required<'a> {
    constraints: Vec<CountedConstraint<'a>>,
}

impl<'a> Required<'a> {
    pub(super) fn of(new: &'a Candidate<'a>, nodes: &'a [Node]) -> Self {
        let constraints = Constraint::of(new, "DoNotSchedule");
        if constraints.is_empty() {
            return Self {
                constraints: Vec::new(),
            };
        }
        let complete: Vec<&Node> = nodes
            .iter()
            .filter(|node| has_all_keys(&constraints, node))
            .collect();
        let counted = constraints
            .into_iter()
            .map(|constraint| CountedConstraint::of(constraint, new, &complete));
        Self {
            constraints: counted.collect(),
        }
    }

    pub(super) fn exclusions(&self, node: &Node) -> Vec<Exclusion> {
        let constraints = self.constraints.iter();
        constraints
            .filter_map(|counted| counted.exclusion(node))
            .collect()
    }
}

/// A constraint, with the number of selected Pods in each domain.
struct CountedConstraint<'a> {
    constraint: Constraint<'a>,
    pods_by_domain: BTreeMap<&'a str, i64>,
    selects_itself: bool,
}

impl<'a> CountedConstraint<'a> {
    fn of(constraint: Constraint<'a>, new: &Candidate, nodes: &[&'a Node]) -> Self {
        let mut pods_by_domain: BTreeMap<&str, i64> = BTreeMap::new();
        for node in nodes.iter().filter(|node| constraint.counts(new, node)) {
            let domain = &node.labels[constraint.topology_key];
            *pods_by_domain.entry(domain).or_default() += constraint.selected(new, node);
        }
        Self {
            selects_itself: constraint.selector.matches(&new.pod.labels),
            constraint,
            pods_by_domain,
        }
    }

    fn exclusion(&self, node: &Node) -> Option<Exclusion> {
        let key = self.constraint.topology_key.to_owned();
        let Some(domain) = node.labels.get(&key) else {
            return Some(Exclusion::TopologySpread { key, skew: None });
        };
        let least = self.least()?;
        let here = self.pods_by_domain.get(domain.as_str()).copied();
        let pods = here.unwrap_or_default() + i64::from(self.selects_itself);
        let max = self.constraint.max_skew;
        (pods - least > max).then(|| Exclusion::TopologySpread {
            key,
            skew: Some(Skew {
                domain: domain.clone(),
                pods,
                least,
                max,
            }),
        })
    }

    /// The number of Pods in the domain with the fewest. None without domains.
    fn least(&self) -> Option<i64> {
        if self.pods_by_domain.len() < self.constraint.min_domains {
            return Some(0);
        }
        self.pods_by_domain.values().min().copied()
    }
}

/// The scores for what `ScheduleAnyway` asks for, one for each of these Nodes. `selector` is the
/// controller's.
pub(super) fn scores(
    new: &Candidate,
    selector: Option<&Value>,
    nodes: &[Node],
    feasible: &[&Node],
) -> Vec<i64> {
    let has_own = list(&new.spec["topologySpreadConstraints"])
        .next()
        .is_some();
    let constraints = if has_own {
        Constraint::of(new, "ScheduleAnyway")
    } else {
        selector.map(Constraint::defaults).unwrap_or_default()
    };
    if constraints.is_empty() {
        return vec![0; feasible.len()];
    }
    let preferred = Preferred {
        new,
        constraints,
        needs_all_keys: has_own,
    };
    preferred.scores(nodes, feasible)
}

/// The constraints that only prefer nodes.
struct Preferred<'a> {
    new: &'a Candidate<'a>,
    constraints: Vec<Constraint<'a>>,
    /// Whether Nodes without the label of a constraint are ignored.
    needs_all_keys: bool,
}

impl Preferred<'_> {
    fn is_ignored(&self, node: &Node) -> bool {
        self.needs_all_keys && !has_all_keys(&self.constraints, node)
    }

    fn scores(&self, nodes: &[Node], feasible: &[&Node]) -> Vec<i64> {
        let mut raw = vec![0.0; feasible.len()];
        for constraint in &self.constraints {
            self.add_scores(&mut raw, constraint, nodes, feasible);
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the scheduler computes with the same types"
        )]
        let rounded = feasible
            .iter()
            .zip(raw)
            .map(|(node, score)| (!self.is_ignored(node)).then_some(score.round() as i64));
        normalized(&rounded.collect::<Vec<_>>())
    }

    fn add_scores(
        &self,
        scores: &mut [f64],
        constraint: &Constraint,
        nodes: &[Node],
        feasible: &[&Node],
    ) {
        let key = constraint.topology_key;
        let pods_by_domain = self.count_pods(constraint, nodes, feasible);
        let domains = if key == HOSTNAME {
            let scored = feasible.iter().filter(|node| !self.is_ignored(node));
            scored.count()
        } else {
            pods_by_domain.len()
        };
        let weight = ((domains + 2) as f64).ln();
        for (score, node) in scores.iter_mut().zip(feasible) {
            if self.is_ignored(node) || !node.labels.contains_key(key) {
                continue;
            }
            let pods = if key == HOSTNAME {
                constraint.selected(self.new, node)
            } else {
                let pods = pods_by_domain.get(domain_of(node, key));
                pods.copied().unwrap_or_default()
            };
            *score += pods as f64 * weight + constraint.max_skew.saturating_sub(1) as f64;
        }
    }

    /// The number of selected Pods in each domain that has a feasible Node. Nothing for host names,
    /// since each Node is a domain.
    fn count_pods<'n>(
        &self,
        constraint: &Constraint,
        nodes: &[Node],
        feasible: &[&'n Node],
    ) -> BTreeMap<&'n str, i64> {
        let key = constraint.topology_key;
        if key == HOSTNAME {
            return BTreeMap::new();
        }
        let scored = feasible.iter().filter(|node| !self.is_ignored(node));
        let mut pods_by_domain: BTreeMap<&str, i64> =
            scored.map(|node| (domain_of(node, key), 0)).collect();
        for node in nodes {
            if self.is_ignored(node) || !constraint.counts(self.new, node) {
                continue;
            }
            if let Some(count) = pods_by_domain.get_mut(domain_of(node, key)) {
                *count += constraint.selected(self.new, node);
            }
        }
        pods_by_domain
    }
}

/// A Node without the label is in a domain of its own, which has no Pods.
fn domain_of<'a>(node: &'a Node, key: &str) -> &'a str {
    node.labels.get(key).map(String::as_str).unwrap_or_default()
}

/// The fewer Pods, the better. A Node that is ignored gets nothing.
fn normalized(raw: &[Option<i64>]) -> Vec<i64> {
    let known: Vec<i64> = raw.iter().flatten().copied().collect();
    let Some(least) = known.iter().copied().min() else {
        return vec![0; raw.len()];
    };
    let most = known.into_iter().max().unwrap_or_default().max(0);
    raw.iter()
        .map(|score| score.map_or(0, |score| share_of_best(score, least, most)))
        .collect()
}

/// The best score for the fewest Pods, and less for each more.
fn share_of_best(score: i64, least: i64, most: i64) -> i64 {
    if most == 0 {
        return BEST;
    }
    let share = i128::from(BEST) * (i128::from(most) + i128::from(least) - i128::from(score));
    i64::try_from(share / i128::from(most)).unwrap_or_default()
}
