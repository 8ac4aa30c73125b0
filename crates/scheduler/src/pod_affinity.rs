//! Affinity and anti-affinity between Pods.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::fields::{list, text};
use super::read::{Node, Pod};
use super::reason::Exclusion;
use super::selector::PodSelector;

const AFFINITY: &str = "podAffinity";
const ANTI_AFFINITY: &str = "podAntiAffinity";
/// How much a Pod that requires to be near the new one attracts it.
const WEIGHT_OF_REQUIRED: i64 = 1;
const ATTRACTS: i64 = 1;
const REPELS: i64 = -1;

/// Nodes with the same value of a label.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Domain<'a> {
    key: &'a str,
    value: &'a str,
}

impl Domain<'_> {
    fn has(self, node: &Node) -> bool {
        let value = node.labels.get(self.key);
        value.is_some_and(|value| value == self.value)
    }

    fn anti_affinity(self, of_running: bool) -> Exclusion {
        Exclusion::PodAntiAffinity {
            key: self.key.to_owned(),
            domain: self.value.to_owned(),
            of_running,
        }
    }
}

/// A term, with the namespace of the Pod that has it.
struct Term<'a> {
    object: &'a Value,
    namespace: &'a str,
    topology_key: &'a str,
    weight: i64,
}

impl<'a> Term<'a> {
    fn required(pod: &'a Pod, kind: &str) -> Vec<Self> {
        list(&pod.affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"])
            .map(|term| Self::of(pod, term, WEIGHT_OF_REQUIRED))
            .collect()
    }

    fn preferred(pod: &'a Pod, kind: &str) -> Vec<Self> {
        list(&pod.affinity[kind]["preferredDuringSchedulingIgnoredDuringExecution"])
            .map(|item| {
                let weight = item["weight"].as_i64().unwrap_or_default();
                Self::of(pod, &item["podAffinityTerm"], weight)
            })
            .collect()
    }

    fn of(pod: &'a Pod, term: &'a Value, weight: i64) -> Self {
        Self {
            object: term,
            namespace: &pod.namespace,
            topology_key: text(&term["topologyKey"]),
            weight,
        }
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
        Some(Domain {
            key: self.topology_key,
            value: node.labels.get(self.topology_key)?,
        })
    }
}

/// The terms of the new Pod.
struct OwnTerms<'a> {
    required: Vec<Term<'a>>,
    required_apart: Vec<Term<'a>>,
    preferred: Vec<Term<'a>>,
    preferred_apart: Vec<Term<'a>>,
}

impl<'a> OwnTerms<'a> {
    fn of(pod: &'a Pod) -> Self {
        Self {
            required: Term::required(pod, AFFINITY),
            required_apart: Term::required(pod, ANTI_AFFINITY),
            preferred: Term::preferred(pod, AFFINITY),
            preferred_apart: Term::preferred(pod, ANTI_AFFINITY),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Term<'a>> {
        self.required
            .iter()
            .chain(&self.required_apart)
            .chain(&self.preferred)
            .chain(&self.preferred_apart)
    }
}

/// What Pod affinity says about domains.
#[derive(Default)]
struct Domains<'a> {
    /// Pods that all required terms select.
    near: BTreeMap<Domain<'a>, u64>,
    /// Those with a Pod that a term of the new Pod's anti-affinity selects.
    apart: BTreeSet<Domain<'a>>,
    /// Those with a Pod whose anti-affinity selects the new one.
    kept_away: BTreeSet<Domain<'a>>,
    scores: BTreeMap<Domain<'a>, i64>,
}

impl<'a> Domains<'a> {
    /// Counts what the new Pod asks for of another Pod.
    fn apply_own_terms(&mut self, own: &OwnTerms<'a>, other: &Pod, node: &'a Node) {
        if !own.required.is_empty() && own.required.iter().all(|term| term.selects(other)) {
            for domain in own.required.iter().filter_map(|term| term.domain(node)) {
                *self.near.entry(domain).or_default() += 1;
            }
        }
        let selecting = own.required_apart.iter().filter(|term| term.selects(other));
        self.apart
            .extend(selecting.filter_map(|term| term.domain(node)));
        self.add_scores(&own.preferred, other, node, ATTRACTS);
        self.add_scores(&own.preferred_apart, other, node, REPELS);
    }

    /// Counts what another Pod asks for of the new one.
    fn apply_terms_of(&mut self, other: &'a Pod, pod: &Pod, node: &'a Node) {
        self.add_scores(&Term::required(other, AFFINITY), pod, node, ATTRACTS);
        self.add_scores(&Term::preferred(other, AFFINITY), pod, node, ATTRACTS);
        self.add_scores(&Term::preferred(other, ANTI_AFFINITY), pod, node, REPELS);
        for term in Term::required(other, ANTI_AFFINITY) {
            if term.selects(pod) {
                self.kept_away.extend(term.domain(node));
            }
        }
    }

    fn add_scores(&mut self, terms: &[Term<'a>], selected: &Pod, node: &'a Node, sign: i64) {
        for term in terms.iter().filter(|term| term.selects(selected)) {
            if let Some(domain) = term.domain(node) {
                let sum = self.scores.entry(domain).or_default();
                *sum = sum.saturating_add(sign.saturating_mul(term.weight));
            }
        }
    }
}

pub(super) struct PodAffinity<'a> {
    own: OwnTerms<'a>,
    /// Whether the new Pod is one that its own required terms select.
    selects_itself: bool,
    domains: Domains<'a>,
    /// Whether a field of an own term that matters is not simulated.
    pub(super) is_partial: bool,
    /// Where a running Pod may not want the new one, depending on the labels of its namespace.
    pub(super) unclear: BTreeSet<Domain<'a>>,
}

impl<'a> PodAffinity<'a> {
    pub(super) fn of(pod: &'a Pod, nodes: &'a [Node]) -> Self {
        let mut own = OwnTerms::of(pod);
        let has_own = own.all().next().is_some();
        let is_partial = own.all().any(|term| term.is_vague() || term.has_keys());
        // Such a term may select any Pod, so it and those beside it exclude nothing.
        if own.required.iter().any(Term::is_vague) {
            own.required.clear();
        }
        let mut domains = Domains::default();
        let mut unclear = BTreeSet::new();
        for node in nodes {
            for other in &node.pods {
                if has_own {
                    domains.apply_own_terms(&own, other, node);
                }
                if other.affinity.is_object() {
                    domains.apply_terms_of(other, pod, node);
                    let vague = vague_terms(other, pod);
                    unclear.extend(vague.iter().filter_map(|term| term.domain(node)));
                }
            }
        }
        Self {
            selects_itself: own.required.iter().all(|term| term.selects(pod)),
            own,
            domains,
            is_partial,
            unclear,
        }
    }

    pub(super) fn is_unclear(&self, node: &Node) -> bool {
        self.unclear.iter().any(|domain| domain.has(node))
    }

    pub(super) fn exclusions(&self, node: &'a Node) -> Vec<Exclusion> {
        let affinity = self
            .own
            .required
            .iter()
            .filter(|term| !self.is_near(term, node))
            .map(|term| Exclusion::PodAffinity {
                key: term.topology_key.to_owned(),
                domain: term.domain(node).map(|domain| domain.value.to_owned()),
            });
        let apart = self
            .own
            .required_apart
            .iter()
            .filter_map(|term| term.domain(node))
            .filter(|domain| self.domains.apart.contains(domain))
            .map(|domain| domain.anti_affinity(false));
        let mut kept_away = self.domains.kept_away.iter();
        let of_running = kept_away
            .find(|domain| domain.has(node))
            .map(|domain| domain.anti_affinity(true));
        affinity.chain(apart).chain(of_running).collect()
    }

    /// Whether a Node is in a domain that a required term allows.
    fn is_near(&self, term: &Term<'a>, node: &'a Node) -> bool {
        // The first of several Pods that want to be near each other may run anywhere.
        let is_first = self.domains.near.is_empty() && self.selects_itself;
        let domain = term.domain(node);
        domain.is_some_and(|domain| is_first || self.domains.near.contains_key(&domain))
    }

    pub(super) fn score(&self, node: &Node) -> i64 {
        let scores = self.domains.scores.iter();
        scores
            .filter(|(domain, _)| domain.has(node))
            .fold(0, |sum: i64, (_, score)| sum.saturating_add(*score))
    }
}

/// The terms of another Pod's required anti-affinity that may select the new one, by labels of
/// namespaces that are not known.
fn vague_terms<'a>(other: &'a Pod, pod: &Pod) -> Vec<Term<'a>> {
    let mut terms = Term::required(other, ANTI_AFFINITY);
    terms.retain(|term| term.is_vague() && term.selects_labels(pod));
    terms
}
