//! Affinity and anti-affinity between Pods.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::fields::{list, text};
use super::read::{Node, Pod};
use super::reason::Exclusion;
use super::selector::PodSelector;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
/// How much a Pod that requires to be near the new one attracts it.
const WEIGHT_OF_REQUIRED: i64 = 1;

/// A domain: Nodes with the same value of a label.
type Domain<'a> = (&'a str, &'a str);

/// A term, with the namespace of the Pod that has it.
struct Term<'a> {
    object: &'a Value,
    namespace: &'a str,
    topology_key: &'a str,
    weight: i64,
}

impl<'a> Term<'a> {
    fn all(pod: &'a Pod, kind: &str, strength: &str) -> Vec<Self> {
        let terms = list(&pod.affinity[kind][strength]);
        let one = |item: &'a Value| {
            let (term, weight) = if strength == REQUIRED {
                (item, WEIGHT_OF_REQUIRED)
            } else {
                (
                    &item["podAffinityTerm"],
                    item["weight"].as_i64().unwrap_or_default(),
                )
            };
            Self {
                object: term,
                namespace: &pod.namespace,
                topology_key: text(&term["topologyKey"]),
                weight,
            }
        };
        terms.map(one).collect()
    }

    fn selects(&self, pod: &Pod) -> bool {
        let namespaces = &self.object["namespaces"];
        let selects_all = self.object["namespaceSelector"]
            .as_object()
            .is_some_and(serde_json::Map::is_empty);
        let has_own =
            list(namespaces).next().is_none() && self.object["namespaceSelector"].is_null();
        let in_namespace = selects_all
            || (has_own && self.namespace == pod.namespace)
            || list(namespaces).any(|namespace| *namespace == *pod.namespace);
        in_namespace && self.selects_labels(pod)
    }

    fn selects_labels(&self, pod: &Pod) -> bool {
        PodSelector::of(&self.object["labelSelector"]).matches(&pod.labels)
    }

    fn has_keys(&self) -> bool {
        ["matchLabelKeys", "mismatchLabelKeys"]
            .iter()
            .any(|keys| !self.object[keys].is_null())
    }

    /// Whether it selects namespaces by their labels, which are not known.
    fn is_vague(&self) -> bool {
        self.object["namespaceSelector"]
            .as_object()
            .is_some_and(|selector| !selector.is_empty())
    }

    fn domain(&self, node: &'a Node) -> Option<Domain<'a>> {
        node.labels
            .get(self.topology_key)
            .map(|value| (self.topology_key, value.as_str()))
    }
}

pub(super) struct PodAffinity<'a> {
    required: Vec<Term<'a>>,
    required_apart: Vec<Term<'a>>,
    /// Whether the new Pod is one that its own required terms select.
    selects_itself: bool,
    /// Pods that all required terms select, by domain.
    near: BTreeMap<Domain<'a>, u64>,
    /// Domains with a Pod that a term of the new Pod's anti-affinity selects.
    apart: BTreeSet<Domain<'a>>,
    /// Domains with a Pod whose anti-affinity selects the new one.
    kept_away: BTreeSet<Domain<'a>>,
    scores: BTreeMap<Domain<'a>, i64>,
    /// Whether a field of a term that matters is not simulated.
    pub(super) is_partial: bool,
}

impl<'a> PodAffinity<'a> {
    pub(super) fn of(pod: &'a Pod, nodes: &'a [Node]) -> Self {
        let required = Term::all(pod, "podAffinity", REQUIRED);
        let required_apart = Term::all(pod, "podAntiAffinity", REQUIRED);
        let preferred = Term::all(pod, "podAffinity", PREFERRED);
        let preferred_apart = Term::all(pod, "podAntiAffinity", PREFERRED);
        let attracts = [&required, &required_apart, &preferred, &preferred_apart];
        let is_plain = attracts.iter().all(|terms| terms.is_empty());
        let mut is_partial = attracts
            .into_iter()
            .flatten()
            .any(|term| term.is_vague() || term.has_keys());
        // Such a term may select any Pod, so it and those beside it exclude nothing.
        let required = if required.iter().any(Term::is_vague) {
            Vec::new()
        } else {
            required
        };
        let mut near: BTreeMap<Domain, u64> = BTreeMap::new();
        let (mut apart, mut kept_away) = (BTreeSet::new(), BTreeSet::new());
        let mut scores: BTreeMap<Domain, i64> = BTreeMap::new();
        let others = nodes
            .iter()
            .flat_map(|node| node.pods.iter().map(move |other| (node, other)));
        for (node, other) in others.filter(|(_, other)| !is_plain || other.affinity.is_object()) {
            if !required.is_empty() && required.iter().all(|term| term.selects(other)) {
                for domain in required.iter().filter_map(|term| term.domain(node)) {
                    *near.entry(domain).or_default() += 1;
                }
            }
            let selecting = required_apart.iter().filter(|term| term.selects(other));
            apart.extend(selecting.filter_map(|term| term.domain(node)));

            let mut score = |terms: &[Term<'a>], selected: &Pod, sign: i64| {
                for term in terms.iter().filter(|term| term.selects(selected)) {
                    if let Some(domain) = term.domain(node) {
                        let sum = scores.entry(domain).or_default();
                        *sum = sum.saturating_add(sign.saturating_mul(term.weight));
                    }
                }
            };
            score(&preferred, other, 1);
            score(&preferred_apart, other, -1);
            if other.affinity.is_object() {
                score(&Term::all(other, "podAffinity", REQUIRED), pod, 1);
                score(&Term::all(other, "podAffinity", PREFERRED), pod, 1);
                score(&Term::all(other, "podAntiAffinity", PREFERRED), pod, -1);
                let apart = Term::all(other, "podAntiAffinity", REQUIRED);
                let selecting = apart.iter().filter(|term| term.selects(pod));
                kept_away.extend(selecting.filter_map(|term| term.domain(node)));
                is_partial |= apart
                    .iter()
                    .any(|term| term.is_vague() && term.selects_labels(pod));
            }
        }
        let selects_itself = required.iter().all(|term| term.selects(pod));
        Self {
            required,
            required_apart,
            selects_itself,
            near,
            apart,
            kept_away,
            scores,
            is_partial,
        }
    }

    pub(super) fn exclusions(&self, node: &'a Node) -> Vec<Exclusion> {
        // The first of several Pods that want to be near each other may run anywhere.
        let is_first = self.near.is_empty() && self.selects_itself;
        let is_near = |domain| is_first || self.near.contains_key(&domain);
        let required = self
            .required
            .iter()
            .filter(|term| !term.domain(node).is_some_and(is_near));
        let affinity = required.map(|term| {
            let domain = term.domain(node).map(|(_, value)| value.to_owned());
            Exclusion::PodAffinity {
                key: term.topology_key.to_owned(),
                domain,
            }
        });
        let apart = |(key, value): (&str, &str), of_running| Exclusion::PodAntiAffinity {
            key: key.to_owned(),
            domain: value.to_owned(),
            of_running,
        };
        let own = self
            .required_apart
            .iter()
            .filter_map(|term| term.domain(node));
        let own = own
            .filter(|domain| self.apart.contains(domain))
            .map(|domain| apart(domain, false));
        let is_here =
            |(key, value): &&Domain| node.labels.get(*key).is_some_and(|found| found == value);
        let of_running = self
            .kept_away
            .iter()
            .find(is_here)
            .map(|domain| apart(*domain, true));
        affinity.chain(own).chain(of_running).collect()
    }

    pub(super) fn score(&self, node: &Node) -> i64 {
        let here = self
            .scores
            .iter()
            .filter(|((key, value), _)| node.labels.get(*key).is_some_and(|found| found == value));
        here.fold(0, |sum: i64, (_, score)| sum.saturating_add(*score))
    }
}
