//! Topology spread: what a Pod asks for, else what the scheduler does for the Pods of a controller.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{list, text};
use super::read::{Candidate, Node};
use super::reason::{Exclusion, Skew};
use super::selector::{Labels, PodSelector};
use super::{BEST, node_affinity, taints};

pub const HOSTNAME: &str = "kubernetes.io/hostname";
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
            .map(|constraint| {
                let keys = list(&constraint["matchLabelKeys"]).map(text);
                let labels = &new.pod.labels;
                let also: Labels = keys
                    .filter_map(|key| labels.get(key).map(|value| (key.to_owned(), value.clone())))
                    .collect();
                let min_domains = constraint["minDomains"].as_u64().unwrap_or(1);
                Self {
                    max_skew: constraint["maxSkew"].as_i64().unwrap_or(1),
                    topology_key: text(&constraint["topologyKey"]),
                    min_domains: usize::try_from(min_domains).unwrap_or(usize::MAX),
                    honors_affinity: constraint["nodeAffinityPolicy"] != "Ignore",
                    honors_taints: constraint["nodeTaintsPolicy"] == "Honor",
                    selector: PodSelector::of(&constraint["labelSelector"]).and(also),
                }
            })
            .collect()
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

pub(super) struct Required<'a> {
    constraints: Vec<(Constraint<'a>, BTreeMap<&'a str, i64>, bool)>,
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
        let counted = constraints.into_iter().map(|constraint| {
            let mut domains: BTreeMap<&str, i64> = BTreeMap::new();
            for node in complete.iter().filter(|node| constraint.counts(new, node)) {
                *domains
                    .entry(&node.labels[constraint.topology_key])
                    .or_default() += constraint.selected(new, node);
            }
            let selects_itself = constraint.selector.matches(&new.pod.labels);
            (constraint, domains, selects_itself)
        });
        Self {
            constraints: counted.collect(),
        }
    }

    pub(super) fn exclusions(&self, node: &Node) -> Vec<Exclusion> {
        let mut exclusions = Vec::new();
        for (constraint, domains, selects_itself) in &self.constraints {
            let key = constraint.topology_key;
            let Some(domain) = node.labels.get(key) else {
                exclusions.push(Exclusion::TopologySpread {
                    key: key.to_owned(),
                    skew: None,
                });
                continue;
            };
            let are_few = domains.len() < constraint.min_domains;
            let Some(least) = (if are_few {
                Some(&0)
            } else {
                domains.values().min()
            }) else {
                continue;
            };
            let pods = domains.get(domain.as_str()).copied().unwrap_or_default()
                + i64::from(*selects_itself);
            let max = constraint.max_skew;
            if pods - least > max {
                let skew = Some(Skew {
                    domain: domain.clone(),
                    pods,
                    least: *least,
                    max,
                });
                exclusions.push(Exclusion::TopologySpread {
                    key: key.to_owned(),
                    skew,
                });
            }
        }
        exclusions
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
    let own = list(&new.spec["topologySpreadConstraints"])
        .next()
        .is_some();
    let constraints = if own {
        Constraint::of(new, "ScheduleAnyway")
    } else {
        selector.map(Constraint::defaults).unwrap_or_default()
    };
    if constraints.is_empty() {
        return vec![0; feasible.len()];
    }
    let is_ignored = |node: &Node| own && !has_all_keys(&constraints, node);
    let mut raw = vec![0.0; feasible.len()];
    for constraint in &constraints {
        add_scores(&mut raw, constraint, new, nodes, feasible, &is_ignored);
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the scheduler computes with the same types"
    )]
    let raw = feasible
        .iter()
        .zip(raw)
        .map(|(node, score)| (!is_ignored(node)).then_some(score.round() as i64));
    normalized(&raw.collect::<Vec<_>>())
}

/// A Node without the label is in a domain of its own, which has no Pods.
fn value<'a>(key: &str, node: &'a Node) -> &'a str {
    node.labels.get(key).map(String::as_str).unwrap_or_default()
}

fn add_scores(
    scores: &mut [f64],
    constraint: &Constraint,
    new: &Candidate,
    nodes: &[Node],
    feasible: &[&Node],
    is_ignored: &dyn Fn(&Node) -> bool,
) {
    let key = constraint.topology_key;
    let scored = || feasible.iter().filter(|node| !is_ignored(node));
    let mut domains: BTreeMap<&str, i64> = BTreeMap::new();
    let size = if key == HOSTNAME {
        scored().count()
    } else {
        domains.extend(scored().map(|node| (value(key, node), 0)));
        for node in nodes
            .iter()
            .filter(|node| !is_ignored(node) && constraint.counts(new, node))
        {
            if let Some(count) = domains.get_mut(value(key, node)) {
                *count += constraint.selected(new, node);
            }
        }
        domains.len()
    };
    let weight = ((size + 2) as f64).ln();
    for (score, node) in scores.iter_mut().zip(feasible) {
        if is_ignored(node) || !node.labels.contains_key(key) {
            continue;
        }
        let count = if key == HOSTNAME {
            constraint.selected(new, node)
        } else {
            domains.get(value(key, node)).copied().unwrap_or_default()
        };
        let added = count as f64 * weight + constraint.max_skew.saturating_sub(1) as f64;
        *score += added;
    }
}

/// The fewer Pods, the better. A Node that is ignored gets nothing.
fn normalized(raw: &[Option<i64>]) -> Vec<i64> {
    let (least, most) = (raw.iter().flatten().min(), raw.iter().flatten().max());
    let (Some(&least), Some(&most)) = (least, most) else {
        return vec![0; raw.len()];
    };
    let most = most.max(0);
    let one = |score: &Option<i64>| match score {
        None => 0,
        Some(_) if most == 0 => BEST,
        Some(score) => {
            let share =
                i128::from(BEST) * (i128::from(most) + i128::from(least) - i128::from(*score));
            i64::try_from(share / i128::from(most)).unwrap_or_default()
        }
    };
    raw.iter().map(one).collect()
}
