//! Where the volumes of a Pod are: the filters `VolumeBinding` and `VolumeZone`, for claims that are bound.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{list, text};
use super::node_affinity::selector_exclusions;
use super::read::Node;
use super::reason::{Caveat, Exclusion, RequiredBy, UnknownVolume};

pub(super) const CLAIM: &str = "persistentVolumeClaim";

/// Labels of volumes that say where they are, as old provisioners set them: the label, and the older name of it.
const PLACES: [(&str, &str); 2] = [
    ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
];
const BETWEEN_ZONES: &str = "__";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volumes {
    /// The volume that a claim is bound to, by namespace and name; none if it is not bound.
    claims: BTreeMap<(String, String), Option<String>>,
    volumes: BTreeMap<String, Volume>,
}

#[derive(Clone, Debug, PartialEq)]
struct Volume {
    required: Value,
    places: Vec<(&'static str, &'static str, Vec<String>)>,
}

impl Volumes {
    pub fn of<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut volumes = Self::default();
        objects.into_iter().for_each(|object| volumes.add(object));
        volumes
    }

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

    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.volumes.is_empty()
    }
}

pub(super) struct PodVolumes<'a> {
    bound: Vec<(&'a str, &'a Volume)>,
    pub(super) caveats: Vec<Caveat>,
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
                None => UnknownVolume::NoClaim,
                Some(None) => UnknownVolume::NotBound,
                Some(Some(name)) => match known.volumes.get(name) {
                    Some(volume) => {
                        volumes.bound.push((claim, volume));
                        continue;
                    }
                    None => UnknownVolume::NoVolume(name.clone()),
                },
            };
            volumes.caveats.push(Caveat::Claim { name: claim.to_owned(), unknown });
        }
        volumes
    }

    pub(super) fn exclusions(&self, node: &Node) -> Vec<Exclusion> {
        let of_one = |(claim, volume): &(&str, &Volume)| {
            let by = RequiredBy::Claim((*claim).to_owned());
            let mut exclusions = selector_exclusions(&volume.required, node, &by);
            exclusions.extend(volume.elsewhere(node, by));
            exclusions
        };
        self.bound.iter().flat_map(of_one).collect()
    }
}

impl Volume {
    /// Why the labels of a volume keep it from a Node. A Node that says of no place where it is can take each.
    fn elsewhere(&self, node: &Node, by: RequiredBy) -> Option<Exclusion> {
        let label = |key: &str, old: &str| node.labels.get(key).or_else(|| node.labels.get(old));
        if !PLACES.iter().any(|(key, old)| label(key, old).is_some()) {
            return None;
        }
        let (key, old, values) = self.places.iter().find(|(key, old, values)| {
            label(key, old).is_none_or(|found| values.iter().all(|value| value != found))
        })?;
        let found = label(key, old).cloned();
        let (key, operator) = ((*key).to_owned(), "In".to_owned());
        Some(Exclusion::Label { by, key, operator, wanted: values.clone(), found })
    }
}
