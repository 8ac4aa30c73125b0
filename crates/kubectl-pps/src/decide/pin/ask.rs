//! What the command line asks for.

use pps_core::generate::pod_annotation;
use pps_core::pps::{
    NodeDeletionPolicy, NodeTopologyTerm, PodAnnotation, PreferredTopologyTerm, RetentionPolicy,
};
use serde_json::{Map, Value, json};

use crate::args::{OnNodeDeletion, Pin, Retention};

/// The weight of a preference that an annotation asks for.
pub(super) const ANNOTATED_WEIGHT: i32 = 100;

/// Short names of labels that every cluster has.
const SHORT: [(&str, &str); 3] = [
    ("zone", "topology.kubernetes.io/zone"),
    ("region", "topology.kubernetes.io/region"),
    ("hostname", "kubernetes.io/hostname"),
];

/// What the command line asks for. What it does not name stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Labels to whose values Pods must return; empty if they are not named.
    pub required: Vec<String>,
    /// Topologies that Pods prefer.
    pub preferred: Vec<PreferredTopologyTerm>,
    /// Annotations that Pods get back.
    pub annotations: Vec<PodAnnotation>,
    /// How long states are kept.
    pub retention: Option<RetentionPolicy>,
    /// What happens to states of deleted nodes.
    pub on_node_deletion: Option<NodeDeletionPolicy>,
    /// Whether to write an object.
    pub as_object: bool,
}

impl Ask {
    /// Reads the command line.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn read(args: &Pin) -> Result<Self, String> {
        let mut required = Vec::new();
        for key in args.required.iter().flat_map(|keys| keys.split(',')) {
            add_key(&mut required, key, "--required")?;
        }
        let preferred = args.preferred.iter().map(|text| preference(text)).collect::<Result<_, _>>()?;
        let mut annotations: Vec<PodAnnotation> = Vec::new();
        for text in args.annotation.iter().flat_map(|keys| keys.split(',')) {
            let annotation = pod_annotation(text.trim()).map_err(|source| {
                format!("--annotation {text}: {source} is no source: use PodIPsJSON or PodIPsCSV")
            })?;
            if annotation.key.is_empty() {
                return Err(format!("--annotation {text}: name an annotation"));
            }
            if annotations.iter().all(|other| other.key != annotation.key) {
                annotations.push(annotation);
            }
        }
        Ok(Self {
            required,
            preferred,
            annotations,
            retention: args.retention.map(|retention| match retention {
                Retention::WhenScaled => RetentionPolicy::WhenScaled,
                Retention::WhenDeleted => RetentionPolicy::WhenDeleted,
                Retention::Retain => RetentionPolicy::Retain,
            }),
            on_node_deletion: args.on_node_deletion.map(|policy| match policy {
                OnNodeDeletion::Keep => NodeDeletionPolicy::Keep,
                OnNodeDeletion::Forget => NodeDeletionPolicy::Forget,
            }),
            as_object: args.object,
        })
    }

    /// The fields of a spec that annotations can ask for.
    pub(super) fn topology_fields(&self, spelling: &str) -> Map<String, Value> {
        let term = |keys: &[String]| json!({spelling: keys});
        let mut fields = Map::new();
        if !self.required.is_empty() {
            fields.insert("requiredPersistentTopology".into(), term(&self.required));
        }
        if !self.preferred.is_empty() {
            let terms = self.preferred.iter().map(
                |one| json!({"weight": one.weight, "preference": term(&one.preference.node_topology_keys)}),
            );
            fields.insert("preferredPersistentTopology".into(), terms.collect());
        }
        if !self.annotations.is_empty() {
            fields.insert("persistentPodAnnotations".into(), json!(self.annotations));
        }
        fields
    }

    /// The other fields, which no annotation asks for.
    pub(super) fn policy_fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        if let Some(retention) = self.retention {
            fields.insert("persistentPodStateRetentionPolicy".into(), json!(retention));
        }
        if let Some(policy) = self.on_node_deletion {
            fields.insert("nodeDeletionPolicy".into(), json!(policy));
        }
        fields
    }

    /// All labels of nodes that are named.
    pub fn label_keys(&self) -> impl Iterator<Item = &str> {
        let preferred = self.preferred.iter().flat_map(|term| &term.preference.node_topology_keys);
        self.required.iter().chain(preferred).map(String::as_str)
    }
}

/// `hostname`, `hostname=50`, or `zone,hostname`: a node is preferred if it has the recorded values of all of them.
fn preference(text: &str) -> Result<PreferredTopologyTerm, String> {
    let (keys, weight) = match text.rsplit_once('=') {
        Some((keys, weight)) => {
            let weight = weight.trim().parse().ok().filter(|weight| (1..=100).contains(weight));
            (keys, weight.ok_or_else(|| format!("--preferred {text}: the weight is a number from 1 to 100"))?)
        }
        None => (text, ANNOTATED_WEIGHT),
    };
    let mut node_topology_keys = Vec::new();
    for key in keys.split(',') {
        add_key(&mut node_topology_keys, key, "--preferred")?;
    }
    Ok(PreferredTopologyTerm { weight, preference: NodeTopologyTerm { node_topology_keys } })
}

fn add_key(keys: &mut Vec<String>, key: &str, flag: &str) -> Result<(), String> {
    let key = key.trim();
    let key = SHORT.iter().find(|(short, _)| *short == key).map_or(key, |(_, long)| long);
    if key.is_empty() {
        return Err(format!("{flag} has an empty key: name a label of nodes, such as zone"));
    }
    if !keys.iter().any(|other| other == key) {
        keys.push(key.to_owned());
    }
    Ok(())
}
