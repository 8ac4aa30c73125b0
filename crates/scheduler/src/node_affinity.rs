//! What a Pod requires and prefers of Nodes: `spec.nodeName`, `spec.nodeSelector` and the node
//! affinity.

use std::collections::BTreeMap;

use serde_json::Value;

use super::NodeView;
use super::fields::{list, text};
use super::read::{HOSTNAME, Node};
use super::reason::{Exclusion, RequiredBy};
use super::selector::meets;

/// The only field of a Node that `matchFields` may name.
const NAME_FIELD: &str = "metadata.name";

/// Whether a Node has what `nodeSelector` and the required node affinity ask for.
pub(super) fn matches(spec: &Value, node: &Node) -> bool {
    selector_mismatches(spec, node).next().is_none() && matches_affinity(spec, node)
}

/// Why a Node does not match. `before` is the Pod's spec before the policy injected something.
pub(super) fn mismatches(spec: &Value, before: Option<&Value>, node: &Node) -> Vec<Exclusion> {
    let mut mismatches: Vec<Exclusion> = selector_mismatches(spec, node)
        .map(|(key, value)| Exclusion::Label {
            by: RequiredBy::NodeSelector,
            key: key.to_owned(),
            operator: "In".to_owned(),
            wanted: vec![value.to_owned()],
            found: node.labels.get(key).cloned(),
        })
        .collect();
    if !matches_affinity(spec, node) {
        mismatches.extend(affinity_mismatches(spec, before, node));
    }
    mismatches
}

fn selector_mismatches<'a>(
    spec: &'a Value,
    node: &Node,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let wanted = spec["nodeSelector"].as_object().into_iter().flatten();
    wanted
        .map(|(key, value)| (key.as_str(), text(value)))
        .filter(|(key, value)| node.labels.get(*key).is_none_or(|found| found != value))
}

fn terms(spec: &Value) -> Option<Vec<&Value>> {
    terms_of(&spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"])
}

fn terms_of(required: &Value) -> Option<Vec<&Value>> {
    required
        .is_object()
        .then(|| list(&required["nodeSelectorTerms"]).collect())
}

/// Why a Node does not match a node selector: that of a volume.
pub(super) fn selector_exclusions(
    required: &Value,
    node: &Node,
    by: &RequiredBy,
) -> Vec<Exclusion> {
    let Some(terms) = terms_of(required) else {
        return Vec::new();
    };
    if terms.iter().any(|term| matches_term(term, node)) {
        return Vec::new();
    }
    unmet(terms.into_iter().enumerate(), node, by, |_, _| by.clone())
}

/// The key of a label with which a Node cannot match a node selector, whatever else the Node has;
/// none if it may match. `nodes` tell which labels a Node has whose host name the selector names.
pub(super) fn contradicted_key(
    required: &Value,
    labels: &BTreeMap<String, String>,
    nodes: &[NodeView<'_>],
) -> Option<String> {
    let keys: Option<Vec<String>> = terms_of(required)?
        .into_iter()
        .map(|term| key_against(term, labels, nodes))
        .collect();
    keys?.into_iter().next()
}

/// The same of one term.
fn key_against(
    term: &Value,
    labels: &BTreeMap<String, String>,
    nodes: &[NodeView<'_>],
) -> Option<String> {
    let requirements = list(&term["matchExpressions"]);
    let against = requirements.clone().find_map(|one| {
        let key = text(&one["key"]);
        (labels.contains_key(key) && !meets(one, labels)).then(|| key.to_owned())
    });
    against.or_else(|| {
        let mut requirements = requirements;
        let hosts = requirements.find(|one| one["key"] == HOSTNAME && one["operator"] == "In")?;
        let keys: Option<Vec<String>> = list(&hosts["values"])
            .map(|host| differing_key(text(host), labels, nodes))
            .collect();
        keys?.into_iter().next()
    })
}

/// The first of these labels that the Node with this host name does not have; none if there is no
/// such Node.
fn differing_key(
    host: &str,
    labels: &BTreeMap<String, String>,
    nodes: &[NodeView<'_>],
) -> Option<String> {
    let label = |view: &NodeView<'_>, key: &str| view.node["metadata"]["labels"][key].clone();
    let node = nodes.iter().find(|view| label(view, HOSTNAME) == host)?;
    let mut labels = labels.iter();
    labels
        .find(|(key, value)| label(node, key) != value.as_str())
        .map(|(key, _)| key.clone())
}

/// What a Node lacks of each term. A term comes with its index, and `by` says who requires it.
/// Terms without any match no node.
fn unmet<'a>(
    terms: impl Iterator<Item = (usize, &'a Value)>,
    node: &Node,
    by_all: &RequiredBy,
    by: impl Fn(usize, Requirement) -> RequiredBy,
) -> Vec<Exclusion> {
    let mut unmet = Vec::new();
    for (index, term) in terms {
        for requirement in requirements(term).filter(|requirement| !requirement.is_met_by(node)) {
            let exclusion = requirement.exclusion(node, by(index, requirement));
            if !unmet.contains(&exclusion) {
                unmet.push(exclusion);
            }
        }
    }
    if unmet.is_empty() {
        unmet.push(Exclusion::Impossible { by: by_all.clone() });
    }
    unmet
}

/// A term is one that must hold; several are alternatives. None matches nothing.
fn matches_affinity(spec: &Value, node: &Node) -> bool {
    terms(spec).is_none_or(|terms| terms.into_iter().any(|term| matches_term(term, node)))
}

/// An empty term matches nothing.
fn matches_term(term: &Value, node: &Node) -> bool {
    requirements(term).next().is_some()
        && requirements(term).all(|requirement| requirement.is_met_by(node))
}

#[derive(Clone, Copy, PartialEq)]
enum Requirement<'a> {
    Label(&'a Value),
    Field(&'a Value),
}

fn requirements(term: &Value) -> impl Iterator<Item = Requirement<'_>> {
    let labels = list(&term["matchExpressions"]).map(Requirement::Label);
    labels.chain(list(&term["matchFields"]).map(Requirement::Field))
}

impl Requirement<'_> {
    fn is_met_by(self, node: &Node) -> bool {
        match self {
            Self::Label(requirement) => meets(requirement, &node.labels),
            Self::Field(requirement) => {
                let mut values = list(&requirement["values"]).map(text);
                let (Some(value), None) = (values.next(), values.next()) else {
                    return false;
                };
                let is_name = requirement["key"] == NAME_FIELD && value == node.name;
                match text(&requirement["operator"]) {
                    "In" => is_name,
                    "NotIn" => requirement["key"] == NAME_FIELD && !is_name,
                    _ => false,
                }
            }
        }
    }

    fn exclusion(self, node: &Node, by: RequiredBy) -> Exclusion {
        let (Self::Label(requirement) | Self::Field(requirement)) = self;
        let key = text(&requirement["key"]);
        Exclusion::Label {
            by,
            key: key.to_owned(),
            operator: text(&requirement["operator"]).to_owned(),
            wanted: list(&requirement["values"])
                .map(|value| text(value).to_owned())
                .collect(),
            found: match self {
                Self::Label(_) => node.labels.get(key).cloned(),
                Self::Field(_) => Some(node.name.clone()),
            },
        }
    }
}

fn affinity_mismatches(spec: &Value, before: Option<&Value>, node: &Node) -> Vec<Exclusion> {
    let own = before.map(|spec| OwnTerms::of(spec, node));
    let counted = terms(spec)
        .unwrap_or_default()
        .into_iter()
        .enumerate()
        .filter(|(index, _)| own.as_ref().is_none_or(|own| own.counts(*index, node)));
    unmet(
        counted,
        node,
        &RequiredBy::Affinity,
        |index, requirement| match &own {
            Some(own) if !own.has(index, requirement) => RequiredBy::RecordedState,
            _ => RequiredBy::Affinity,
        },
    )
}

/// The terms of a Pod before the policy injected something. The policy adds to each term, or makes
/// one if there is none.
struct OwnTerms<'a> {
    terms: Vec<&'a Value>,
    matched: bool,
}

impl<'a> OwnTerms<'a> {
    fn of(spec: &'a Value, node: &Node) -> Self {
        Self {
            terms: terms(spec).unwrap_or_default(),
            matched: matches_affinity(spec, node),
        }
    }

    /// Whether the term has a requirement of the Pod's own.
    fn has(&self, index: usize, requirement: Requirement) -> bool {
        let own = self.terms.get(index);
        own.is_some_and(|own| requirements(own).any(|one| one == requirement))
    }

    /// An alternative that did not lead to the node before, either, does not count.
    fn counts(&self, index: usize, node: &Node) -> bool {
        let own = self.terms.get(index);
        !self.matched || own.is_none_or(|own| matches_term(own, node))
    }
}

pub(super) fn preference(spec: &Value, node: &Node) -> i64 {
    let preferred =
        &spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    list(preferred)
        .filter(|term| matches_term(&term["preference"], node))
        .filter_map(|term| term["weight"].as_i64())
        .fold(0, i64::saturating_add)
}
