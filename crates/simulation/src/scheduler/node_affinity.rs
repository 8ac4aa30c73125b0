//! What a Pod requires and prefers of Nodes: `spec.nodeName`, `spec.nodeSelector` and the node affinity.

use serde_json::Value;

use super::exclusion::{Exclusion, ExclusionKind};
use super::fields::{list, text};
use super::read::Node;
use super::selector::{meets, quoted_if_empty, required_words};

/// The only field of a Node that `matchFields` may name.
const NAME_FIELD: &str = "metadata.name";

/// Why a Node is not the one that `spec.nodeName` names.
pub(super) fn other_node(spec: &Value, node: &Node) -> Option<Exclusion> {
    let name = text(&spec["nodeName"]);
    (!name.is_empty() && name != node.name).then(|| Exclusion {
        what: ExclusionKind::NodeName,
        text: format!("{}: the Pod's spec.nodeName is {name}", node.name),
        from_pps: false,
    })
}

/// Whether a Node has what `nodeSelector` and the required node affinity ask for.
pub(super) fn matches(spec: &Value, node: &Node) -> bool {
    selector_mismatches(spec, node).next().is_none() && matches_affinity(spec, node)
}

/// Why a Node does not match. `before` is the Pod's spec before the policy injected something.
pub(super) fn mismatches(spec: &Value, before: Option<&Value>, node: &Node) -> Vec<Exclusion> {
    let mut mismatches: Vec<Exclusion> = selector_mismatches(spec, node)
        .map(|(key, value)| Exclusion {
            what: ExclusionKind::NodeSelector,
            text: sentence(node, key, quoted_if_empty(value), "the Pod's nodeSelector requires"),
            from_pps: false,
        })
        .collect();
    if !matches_affinity(spec, node) {
        mismatches.extend(affinity_mismatches(spec, before, node));
    }
    mismatches
}

fn selector_mismatches<'a>(spec: &'a Value, node: &Node) -> impl Iterator<Item = (&'a str, &'a str)> {
    let wanted = spec["nodeSelector"].as_object().into_iter().flatten();
    wanted
        .map(|(key, value)| (key.as_str(), text(value)))
        .filter(|(key, value)| node.labels.get(*key).is_none_or(|found| found != value))
}

/// The terms of the required node affinity; nothing if there is none.
fn terms(spec: &Value) -> Option<Vec<&Value>> {
    terms_of(&spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"])
}

/// The terms of a node selector; nothing if it is none.
fn terms_of(required: &Value) -> Option<Vec<&Value>> {
    required.is_object().then(|| list(&required["nodeSelectorTerms"]).collect())
}

/// Why a Node does not match the node selector of something else than the Pod: `the volume of data-db-0 requires`.
pub(super) fn selector_excludes(required: &Value, node: &Node, who: &str) -> Vec<String> {
    let Some(terms) = terms_of(required) else { return Vec::new() };
    if terms.iter().any(|term| matches_term(term, node)) {
        return Vec::new();
    }
    let mut texts = Vec::new();
    for requirement in terms.iter().flat_map(|term| requirements(term)).filter(|one| !one.is_met_by(node)) {
        let text = requirement.sentence(node, who);
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    if texts.is_empty() {
        texts.push(format!("{}: {who} a node that cannot exist", node.name));
    }
    texts
}

/// A term is one that must hold; several are alternatives. None matches nothing.
fn matches_affinity(spec: &Value, node: &Node) -> bool {
    terms(spec).is_none_or(|terms| terms.into_iter().any(|term| matches_term(term, node)))
}

/// An empty term matches nothing.
fn matches_term(term: &Value, node: &Node) -> bool {
    requirements(term).next().is_some() && requirements(term).all(|requirement| requirement.is_met_by(node))
}

/// A part of a term.
#[derive(Clone, Copy, PartialEq)]
enum Requirement<'a> {
    Label(&'a Value),
    Field(&'a Value),
}

fn requirements(term: &Value) -> impl Iterator<Item = Requirement<'_>> {
    let labels = list(&term["matchExpressions"]).map(Requirement::Label);
    labels.chain(list(&term["matchFields"]).map(Requirement::Field))
}

impl<'a> Requirement<'a> {
    fn is_met_by(self, node: &Node) -> bool {
        match self {
            Self::Label(requirement) => meets(requirement, &node.labels),
            Self::Field(requirement) => {
                let mut values = list(&requirement["values"]).map(text);
                let (Some(value), None) = (values.next(), values.next()) else { return false };
                let is_name = requirement["key"] == NAME_FIELD && value == node.name;
                match text(&requirement["operator"]) {
                    "In" => is_name,
                    "NotIn" => requirement["key"] == NAME_FIELD && !is_name,
                    _ => false,
                }
            }
        }
    }

    fn value(self) -> &'a Value {
        match self {
            Self::Label(requirement) | Self::Field(requirement) => requirement,
        }
    }

    /// Why it is not met.
    fn exclusion(self, node: &Node, injected: bool) -> Exclusion {
        let who = if injected { "the Pod's recorded state requires" } else { "the Pod requires" };
        Exclusion {
            what: ExclusionKind::RequiredAffinity,
            text: self.sentence(node, who),
            from_pps: injected,
        }
    }

    fn sentence(self, node: &Node, who: &str) -> String {
        let requirement = self.value();
        let required = required_words(requirement);
        match self {
            Self::Label(_) => sentence(node, text(&requirement["key"]), &required, who),
            Self::Field(_) => format!("{}: {who} {required} as the node's name", node.name),
        }
    }
}

/// `node-2: topology.kubernetes.io/zone is b, the Pod requires a`
pub(super) fn sentence(node: &Node, key: &str, required: &str, who: &str) -> String {
    match node.labels.get(key) {
        Some(found) => format!("{}: {key} is {}, {who} {required}", node.name, quoted_if_empty(found)),
        None => format!("{}: the label {key} is missing, {who} {required}", node.name),
    }
}

fn affinity_mismatches(spec: &Value, before: Option<&Value>, node: &Node) -> Vec<Exclusion> {
    let own: Vec<&Value> = before.and_then(terms).unwrap_or_default();
    let has_before = before.is_some();
    let terms = terms(spec).unwrap_or_default();
    // The policy adds to each term, or makes one if there is none.
    let is_injected = |index: usize, requirement: Requirement| {
        has_before && own.get(index).is_none_or(|own| requirements(own).all(|one| one != requirement))
    };
    let matched_before = before.is_some_and(|before| matches_affinity(before, node));
    let mut mismatches: Vec<Exclusion> = Vec::new();
    for (index, term) in terms.iter().enumerate() {
        if matched_before && own.get(index).is_some_and(|own| !matches_term(own, node)) {
            // This alternative did not lead here before, either.
            continue;
        }
        for requirement in requirements(term).filter(|requirement| !requirement.is_met_by(node)) {
            let exclusion = requirement.exclusion(node, is_injected(index, requirement));
            if !mismatches.contains(&exclusion) {
                mismatches.push(exclusion);
            }
        }
    }
    if mismatches.is_empty() {
        let text = format!("{}: no term of the Pod's required node affinity can match", node.name);
        mismatches.push(Exclusion { what: ExclusionKind::RequiredAffinity, text, from_pps: false });
    }
    mismatches
}

/// The sum of the weights of the preferred terms that match a Node.
pub(super) fn preference(spec: &Value, node: &Node) -> i64 {
    let preferred = &spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    list(preferred)
        .filter(|term| matches_term(&term["preference"], node))
        .filter_map(|term| term["weight"].as_i64())
        .fold(0, i64::saturating_add)
}
