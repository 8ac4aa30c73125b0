//! Where the volumes of a Pod are: the filters `VolumeBinding` and `VolumeZone`, for claims that are bound.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::exclusion::{Exclusion, ExclusionKind};
use super::fields::{list, text};
use super::node_affinity::{selector_excludes, sentence};
use super::read::Node;

/// The field of a volume that names a claim.
pub(super) const CLAIM: &str = "persistentVolumeClaim";

/// Labels of volumes that say where they are, as old provisioners set them: the label, and the older name of it.
const PLACES: [(&str, &str); 2] = [
    ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
];
/// Between the zones of a volume that is in several.
const BETWEEN_ZONES: &str = "__";

/// The claims and volumes of a cluster, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volumes {
    /// The volume that a claim is bound to, by namespace and name; none if it is not bound.
    claims: BTreeMap<(String, String), Option<String>>,
    volumes: BTreeMap<String, Volume>,
}

/// Where a volume is.
#[derive(Clone, Debug, PartialEq)]
struct Volume {
    /// The node selector `spec.nodeAffinity.required`.
    required: Value,
    /// The values of [`PLACES`] that it has, each with the values that a node may have.
    places: Vec<(&'static str, &'static str, Vec<String>)>,
}

impl Volumes {
    /// Reads the `PersistentVolumeClaim` and `PersistentVolume` objects among these; others are ignored.
    pub fn of<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut volumes = Self::default();
        objects.into_iter().for_each(|object| volumes.add(object));
        volumes
    }

    /// Adds an object, if it is one of these kinds.
    pub fn add(&mut self, object: &Value) {
        let metadata = &object["metadata"];
        let name = text(&metadata["name"]).to_owned();
        match text(&object["kind"]) {
            "PersistentVolumeClaim" => {
                let namespace = metadata["namespace"].as_str().unwrap_or("default").to_owned();
                let phase = text(&object["status"]["phase"]);
                let volume = object["spec"]["volumeName"].as_str().filter(|name| !name.is_empty());
                let bound = volume.filter(|_| matches!(phase, "" | "Bound")).map(str::to_owned);
                self.claims.insert((namespace, name), bound);
            }
            "PersistentVolume" => {
                let labels = &metadata["labels"];
                let places = PLACES.iter().filter_map(|(key, old)| {
                    let value = labels[*key].as_str().or_else(|| labels[*old].as_str())?;
                    let values = value.split(BETWEEN_ZONES).map(str::to_owned);
                    Some((*key, *old, values.collect()))
                });
                let required = object["spec"]["nodeAffinity"]["required"].clone();
                self.volumes.insert(name, Volume { required, places: places.collect() });
            }
            _ => {}
        }
    }

    /// Whether nothing is known of claims and volumes.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.volumes.is_empty()
    }
}

/// The volumes of one Pod.
pub(super) struct PodVolumes<'a> {
    /// With the name of each claim.
    bound: Vec<(&'a str, &'a Volume)>,
    /// What is not known of the others, in words that follow the Pod's name.
    pub(super) caveats: Vec<String>,
}

impl<'a> PodVolumes<'a> {
    pub(super) fn of(pod: &'a Value, known: Option<&'a Volumes>) -> Self {
        let mut volumes = Self { bound: Vec::new(), caveats: Vec::new() };
        let Some(known) = known else { return volumes };
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
        let claims = list(&pod["spec"]["volumes"]).filter_map(|volume| volume[CLAIM]["claimName"].as_str());
        for claim in claims {
            let volume = known.claims.get(&(namespace.clone(), claim.to_owned()));
            let unknown = match volume {
                None => "no such claim is known".to_owned(),
                Some(None) => "it is not bound yet".to_owned(),
                Some(Some(name)) => match known.volumes.get(name) {
                    Some(volume) => {
                        volumes.bound.push((claim, volume));
                        continue;
                    }
                    None => format!("its volume {name} is not known"),
                },
            };
            let caveat = format!("where the volume of its claim {claim} is or will be is not simulated");
            volumes.caveats.push(format!("{caveat}: {unknown}"));
        }
        volumes
    }

    /// Why the Pod cannot run on a Node.
    pub(super) fn exclusions(&self, node: &Node) -> Vec<Exclusion> {
        let mut texts = Vec::new();
        for (claim, volume) in &self.bound {
            let who = format!("the volume of the Pod's claim {claim} requires");
            texts.extend(selector_excludes(&volume.required, node, &who));
            texts.extend(volume.elsewhere(node, &who));
        }
        let exclusion = |text| Exclusion { what: ExclusionKind::Volume, text, from_pps: false };
        texts.into_iter().map(exclusion).collect()
    }
}

impl Volume {
    /// Why the labels of a volume keep it from a Node. A Node that says of no place where it is can take each.
    fn elsewhere(&self, node: &Node, who: &str) -> Option<String> {
        let label = |key: &str, old: &str| node.labels.get(key).or_else(|| node.labels.get(old));
        if !PLACES.iter().any(|(key, old)| label(key, old).is_some()) {
            return None;
        }
        let (key, _, values) = self.places.iter().find(|(key, old, values)| {
            label(key, old).is_none_or(|found| values.iter().all(|value| value != found))
        })?;
        let required = super::selector::required_words(&json!({"operator": "In", "values": values}));
        Some(sentence(node, key, &required, who))
    }
}
