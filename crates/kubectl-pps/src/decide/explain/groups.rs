//! Nodes that cannot take a Pod, by reason: a thousand nodes are a few lines.

use std::collections::BTreeMap;

use pps_simulation::scheduler::{Exclusion, ExclusionKind, Verdict};
use serde::Serialize;

/// Up to so many groups keep their exact texts.
const MAX_EXACT: usize = 8;
/// How many groups are shown.
const MAX_SHOWN: usize = 12;
/// The reason of a cordoned node.
pub(super) const CORDONED: &str = "cordoned";
/// The taint that a cordon sets.
const CORDON_TAINT: &str = "node.kubernetes.io/unschedulable";
/// Stands for the name of the node in a text that is the same for all nodes otherwise.
const OWN_NAME: &str = "\u{0}";

/// Nodes that cannot take the Pod for the same reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// The nodes, by name.
    pub nodes: Vec<String>,
    /// Why.
    pub reasons: Vec<String>,
    /// Whether a value that the policy injected is one of the reasons.
    pub by_recorded_state: bool,
    /// Whether their labels alone exclude them.
    #[serde(skip)]
    is_far: bool,
}

impl Group {
    /// Says of a state that was injected, and is not what is recorded now, that it is a former one.
    pub(super) fn is_of_former_state(&mut self) {
        for reason in &mut self.reasons {
            *reason = reason
                .replace("the Pod's recorded state requires", "the Pod's former recorded state requires");
        }
    }
}

/// Groups the nodes that are excluded: first those whose labels are right, then the largest groups.
pub(super) fn groups(verdicts: &[Verdict]) -> Vec<Group> {
    let exact = collect(verdicts, &|node, exclusion| general(node, &exclusion.text));
    let mut groups = if exact.len() > MAX_EXACT {
        let (far, near): (Vec<Group>, Vec<Group>) =
            collect(verdicts, &|_, exclusion| coarse(exclusion)).into_iter().partition(|group| group.is_far);
        // The nodes that the Pod asks for keep their exact reasons.
        let exact_near: Vec<Group> = exact.into_iter().filter(|group| !group.is_far).collect();
        let near = if exact_near.len() > MAX_EXACT { near } else { exact_near };
        near.into_iter().chain(far).collect()
    } else {
        exact
    };
    groups.sort_by(|one, other| {
        let order = |group: &Group| (group.is_far, usize::MAX - group.nodes.len());
        order(one).cmp(&order(other)).then_with(|| one.nodes.cmp(&other.nodes))
    });
    if groups.len() > MAX_SHOWN {
        let rest = groups.split_off(MAX_SHOWN - 1);
        let by_recorded_state = rest.iter().any(|group| group.by_recorded_state);
        let mut nodes: Vec<String> = rest.into_iter().flat_map(|group| group.nodes).collect();
        nodes.sort();
        groups.push(Group {
            nodes,
            reasons: vec!["various reasons".into()],
            by_recorded_state,
            is_far: true,
        });
    }
    groups
}

fn collect(verdicts: &[Verdict], reason: &dyn Fn(&str, &Exclusion) -> String) -> Vec<Group> {
    let mut groups: BTreeMap<(bool, bool, Vec<String>), Vec<String>> = BTreeMap::new();
    for verdict in verdicts.iter().filter(|verdict| !verdict.exclusions.is_empty()) {
        let mut reasons: Vec<String> = Vec::new();
        let is_cordoned = verdict.exclusions.iter().any(|one| one.what == ExclusionKind::Cordon);
        for exclusion in &verdict.exclusions {
            // A cordon sets this taint itself.
            if is_cordoned && exclusion.text.contains(CORDON_TAINT) {
                continue;
            }
            let reason = reason(&verdict.node, exclusion);
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        let is_recorded = verdict.exclusions.iter().any(|exclusion| exclusion.from_pps);
        let is_label = |one: &Exclusion| {
            matches!(one.what, ExclusionKind::RequiredAffinity | ExclusionKind::NodeSelector)
        };
        let is_far = verdict.exclusions.iter().any(is_label);
        groups.entry((is_recorded, is_far, reasons)).or_default().push(verdict.node.clone());
    }
    groups
        .into_iter()
        .map(|((by_recorded_state, is_far, reasons), nodes)| {
            let named = |reason: &String| match nodes.as_slice() {
                [node] => reason.replace(OWN_NAME, node),
                _ => of_several(reason),
            };
            let reasons = reasons.iter().map(named).collect();
            Group { nodes, reasons, by_recorded_state, is_far }
        })
        .collect()
}

/// A reason without the name of the node.
fn general(node: &str, text: &str) -> String {
    if text.strip_prefix(node) == Some(" is cordoned") {
        return CORDONED.to_owned();
    }
    let rest = match text.strip_prefix(node) {
        Some(rest) => rest.strip_prefix(": ").or_else(|| rest.strip_prefix(' ')).unwrap_or(text),
        None => text,
    };
    let is_word = |word: &str| word.trim_end_matches([',', ';']) == node;
    let replace = |word: &str| if is_word(word) { word.replacen(node, OWN_NAME, 1) } else { word.to_owned() };
    // What the Pod requires may be a node's name, too, and stays.
    let (found, required) = rest.split_once(" requires ").unwrap_or((rest, ""));
    let found = found.split(' ').map(replace).collect::<Vec<_>>().join(" ");
    if required.is_empty() { found } else { format!("{found} requires {required}") }
}

/// A reason that several nodes share, in which the name of each stood: `KEY is not VALUE, which WHO requires`.
fn of_several(reason: &str) -> String {
    let parts = reason.split_once(&format!(" is {OWN_NAME}, "));
    match parts.and_then(|(key, rest)| Some((key, rest.split_once(" requires ")?))) {
        Some((key, (who, value))) => format!("{key} is not {value}, which {who} requires"),
        None => reason.replace(OWN_NAME, "its own name"),
    }
}

/// A reason without values that differ from node to node.
fn coarse(exclusion: &Exclusion) -> String {
    let requires = || exclusion.text.split_once(", the ").map(|(_, words)| words.to_owned());
    match exclusion.what {
        ExclusionKind::RequiredAffinity | ExclusionKind::NodeSelector => match requires() {
            Some(words) => format!("a label differs: the {words}"),
            None => "the Pod's required node affinity".to_owned(),
        },
        ExclusionKind::Taint => "a taint that the Pod does not tolerate".to_owned(),
        ExclusionKind::Cordon => CORDONED.to_owned(),
        ExclusionKind::Room => "too little room".to_owned(),
        ExclusionKind::PodAffinity | ExclusionKind::PodAntiAffinity => "other Pods, near or not".to_owned(),
        ExclusionKind::TopologySpread => "a topology spread constraint".to_owned(),
        ExclusionKind::NodeName => "the Pod names another node".to_owned(),
        ExclusionKind::Volume => "a volume of the Pod is elsewhere".to_owned(),
        _ => "something else".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excluded(node: &str, texts: &[&str]) -> Verdict {
        let exclusion = |text: &&str| Exclusion {
            what: if text.ends_with("is cordoned") {
                ExclusionKind::Cordon
            } else {
                ExclusionKind::RequiredAffinity
            },
            text: (*text).to_owned(),
            from_pps: text.contains("recorded"),
        };
        Verdict { node: node.into(), exclusions: texts.iter().map(exclusion).collect(), score: 0 }
    }

    #[test]
    fn a_thousand_nodes_with_other_names_are_one_group() {
        let names: Vec<String> = (0..1000).map(|number| format!("n-{number}")).collect();
        let mut verdicts: Vec<Verdict> = names
            .iter()
            .map(|name| {
                let text = format!(
                    "{name}: kubernetes.io/hostname is {name}, the Pod's recorded state requires n-x"
                );
                excluded(name, &[text.as_str()])
            })
            .collect();
        verdicts.push(excluded("n-x", &["n-x is cordoned"]));
        verdicts.push(excluded("free", &[]));
        let groups = groups(&verdicts);
        assert_eq!(groups.len(), 2, "{groups:?}");
        assert_eq!(
            (groups[0].nodes.as_slice(), groups[0].reasons[0].as_str()),
            (&["n-x".to_owned()][..], "cordoned")
        );
        assert_eq!(groups[1].nodes.len(), 1000);
        assert_eq!(
            groups[1].reasons,
            ["kubernetes.io/hostname is not n-x, which the Pod's recorded state requires"]
        );
    }

    #[test]
    fn many_different_values_are_one_group() {
        let verdicts: Vec<Verdict> = (0..100)
            .map(|number| {
                let text = format!("n-{number}: rack is r{number}, the Pod requires r-x");
                excluded(&format!("n-{number}"), &[text.as_str()])
            })
            .collect();
        let groups = groups(&verdicts);
        assert_eq!(groups.len(), 1, "{groups:?}");
        assert_eq!(groups[0].reasons, ["a label differs: the Pod requires r-x"]);
    }
}
