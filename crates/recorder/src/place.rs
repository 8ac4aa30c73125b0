//! What of a recorded place a Pod keeps, and what it gives up, when it is freed from its node: by a
//! user, with the plugin's `move`, or by the sidecar, when its requirement has ended.
//!
//! The node itself always goes, and its host name with it. Every other required value stays that a
//! node which can take the Pod has, too: of a zone and a node, the zone.

use std::collections::BTreeSet;

use pps_core::edit::without_node;
use pps_core::{PodState, Spec};

/// A node that could take a Pod if nothing was recorded for it.
pub trait OpenNode {
    fn name(&self) -> &str;
    fn label(&self, key: &str) -> Option<&str>;
}

/// A recorded value of a node label that a Pod requires.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordedLabel {
    pub key: String,
    pub value: String,
}

/// What a Pod gives up of its recorded place beside the node itself, and where that leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// The fewest required values without which one of the nodes can take the Pod; empty if it
    /// suffices to give up the node.
    pub labels: BTreeSet<RecordedLabel>,
    /// The nodes that can take the Pod then.
    pub nodes: BTreeSet<String>,
}

impl GivenUp {
    /// For a Pod that only its recorded state keeps from these nodes; none without a node. Of nodes
    /// for which it would give up equally many values, the first decides.
    pub fn fewest<'a, N: OpenNode + 'a>(
        spec: &Spec,
        state: &PodState,
        nodes: impl IntoIterator<Item = &'a N>,
    ) -> Option<Self> {
        let required: BTreeSet<RecordedLabel> = spec
            .required_values(state)
            .into_iter()
            .map(|(key, value)| RecordedLabel {
                key: key.to_owned(),
                value: value.to_owned(),
            })
            .collect();
        let differing: Vec<Differing> = nodes
            .into_iter()
            .map(|node| Differing::of(node, &required))
            .collect();
        let labels = differing
            .iter()
            .map(|node| &node.labels)
            .min_by_key(|labels| labels.len())?
            .clone();
        let nodes = differing
            .iter()
            .filter(|node| node.labels.is_subset(&labels))
            .map(|node| node.name.to_owned())
            .collect();
        Some(Self { labels, nodes })
    }

    /// What stays recorded.
    pub fn kept(&self, state: &PodState) -> PodState {
        let keys: Vec<String> = self.labels.iter().map(|label| label.key.clone()).collect();
        without_node(state, &keys)
    }
}

/// A node, and the required values that it does not have.
struct Differing<'a> {
    name: &'a str,
    labels: BTreeSet<RecordedLabel>,
}

impl<'a> Differing<'a> {
    fn of(node: &'a impl OpenNode, required: &BTreeSet<RecordedLabel>) -> Self {
        let differs = |label: &&RecordedLabel| node.label(&label.key) != Some(label.value.as_str());
        Self {
            name: node.name(),
            labels: required.iter().filter(differs).cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Node(&'static str, [&'static str; 2]);

    impl OpenNode for Node {
        fn name(&self) -> &str {
            self.0
        }

        fn label(&self, key: &str) -> Option<&str> {
            let index = ["zone", "rack"].iter().position(|known| *known == key)?;
            Some(self.1[index])
        }
    }

    #[test]
    fn gives_up_as_few_values_as_possible_and_the_node() {
        let spec: Spec = serde_json::from_value(json!({
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
            "requiredPersistentTopology": {
                "nodeTopologyKeys": ["zone", "rack", "kubernetes.io/hostname"],
            },
        }))
        .unwrap();
        let labels = json!({"zone": "a", "rack": "1", "kubernetes.io/hostname": "n1"});
        let state: PodState =
            serde_json::from_value(json!({"nodeName": "n1", "nodeTopologyLabels": labels}))
                .unwrap();
        let [same, rack, zone] = [
            Node("same", ["a", "1"]),
            Node("rack", ["a", "2"]),
            Node("zone", ["b", "3"]),
        ];
        let found = |nodes: &[&Node]| {
            let given_up = GivenUp::fewest(&spec, &state, nodes.iter().copied()).unwrap();
            let kept = json!(given_up.kept(&state));
            let nodes: Vec<_> = given_up.nodes.into_iter().collect();
            (nodes.join(" "), kept)
        };
        let kept = |labels| json!({"nodeTopologyLabels": labels});
        assert_eq!(
            found(&[&zone, &rack, &same]),
            ("same".into(), kept(json!({"zone": "a", "rack": "1"})))
        );
        assert_eq!(
            found(&[&zone, &rack]),
            ("rack".into(), kept(json!({"zone": "a"})))
        );
        assert_eq!(found(&[&zone]), ("zone".into(), json!({})));
        assert_eq!(
            GivenUp::fewest(&spec, &state, [].into_iter().collect::<Vec<&Node>>()),
            None
        );
    }
}
