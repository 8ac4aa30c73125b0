//! Where the volumes of a Pod are: the filter `VolumeBinding`, for claims that are bound.

use std::collections::BTreeMap;

use serde_json::Value;

use super::NodeView;
use super::fields::{list, text};
use super::node_affinity::{contradicted_key, selector_exclusions};
use super::read::Node;
use super::reason::{Caveat, Exclusion, RequiredBy};

pub(super) const CLAIM: &str = "persistentVolumeClaim";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volumes {
    /// The volume that a claim is bound to; none if it is not bound.
    claims: BTreeMap<ClaimName, Option<String>>,
    volumes: BTreeMap<String, Volume>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClaimName {
    namespace: String,
    name: String,
}

/// A bound volume that can be on no node with a label. The node affinity of a volume does not
/// change, so a Pod that requires the label and has the volume can never start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    pub claim: String,
    pub volume: String,
    /// Of the label.
    pub key: String,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq)]
struct Volume {
    /// Null if any node can have the volume.
    node_selector: Value,
    /// Whether a CSI driver may limit how many volumes a node takes.
    is_limited: bool,
}

impl Volumes {
    pub fn of<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut volumes = Self::default();
        objects.into_iter().for_each(|object| volumes.add(object));
        volumes
    }

    pub fn add(&mut self, object: &Value) {
        match text(&object["kind"]) {
            "PersistentVolumeClaim" => self.add_claim(object),
            "PersistentVolume" => self.add_volume(object),
            _ => {}
        }
    }

    fn add_claim(&mut self, claim: &Value) {
        let name = ClaimName {
            namespace: namespace_of(claim),
            name: text(&claim["metadata"]["name"]).to_owned(),
        };
        let is_bound = matches!(text(&claim["status"]["phase"]), "" | "Bound");
        let volume = claim["spec"]["volumeName"]
            .as_str()
            .filter(|volume| is_bound && !volume.is_empty());
        self.claims.insert(name, volume.map(str::to_owned));
    }

    fn add_volume(&mut self, volume: &Value) {
        let node_selector = &volume["spec"]["nodeAffinity"]["required"];
        // kube-scheduler keeps Pods in the zone of these labels, which is not simulated.
        if node_selector.is_null() && has_zone_label(volume) {
            return;
        }
        self.volumes.insert(
            text(&volume["metadata"]["name"]).to_owned(),
            Volume {
                node_selector: node_selector.clone(),
                is_limited: volume["spec"]["csi"].is_object(),
            },
        );
    }

    /// The volume that a claim is bound to; none if the claim is not bound or the volume unknown.
    fn volume_of(&self, namespace: &str, claim: &str) -> Option<&Volume> {
        let claim = ClaimName {
            namespace: namespace.to_owned(),
            name: claim.to_owned(),
        };
        self.volumes.get(self.claims.get(&claim)?.as_ref()?)
    }

    /// The first bound volume of a Pod that no node with these labels can have.
    pub fn contradiction(
        &self,
        pod: &Value,
        labels: &BTreeMap<String, String>,
        nodes: &[NodeView<'_>],
    ) -> Option<Contradiction> {
        let namespace = namespace_of(pod);
        let claims = list(&pod["spec"]["volumes"]).filter_map(claim_of);
        let mut contradictions = claims.filter_map(|name| {
            let claim = ClaimName {
                namespace: namespace.clone(),
                name: name.to_owned(),
            };
            let volume = self.claims.get(&claim)?.as_ref()?;
            let selector = &self.volumes.get(volume)?.node_selector;
            let key = contradicted_key(selector, labels, nodes)?;
            let value = labels.get(&key)?.clone();
            Some(Contradiction {
                claim: claim.name,
                volume: volume.clone(),
                key,
                value,
            })
        });
        contradictions.next()
    }

    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.volumes.is_empty()
    }
}

/// The claim that a volume of a Pod names.
fn claim_of(volume: &Value) -> Option<&str> {
    volume[CLAIM]["claimName"].as_str()
}

fn namespace_of(object: &Value) -> String {
    let namespace = object["metadata"]["namespace"].as_str();
    namespace.unwrap_or("default").to_owned()
}

fn has_zone_label(volume: &Value) -> bool {
    let labels = volume["metadata"]["labels"].as_object();
    labels
        .into_iter()
        .flat_map(|labels| labels.keys())
        .any(|key| key.ends_with("/zone") || key.ends_with("/region"))
}

/// The volumes of a Pod.
pub(super) struct PodVolumes<'a> {
    bound: Vec<BoundClaim<'a>>,
    pub(super) caveats: Vec<Caveat>,
}

/// A claim of a Pod, with the volume that it is bound to.
struct BoundClaim<'a> {
    name: &'a str,
    volume: &'a Volume,
}

impl<'a> PodVolumes<'a> {
    pub(super) fn of(pod: &'a Value, known: Option<&'a Volumes>) -> Self {
        let mut volumes = Self {
            bound: Vec::new(),
            caveats: Vec::new(),
        };
        let Some(known) = known else { return volumes };
        let namespace = namespace_of(pod);
        let claims = list(&pod["spec"]["volumes"]).filter_map(claim_of);
        for name in claims {
            match known.volume_of(&namespace, name) {
                Some(volume) => volumes.bound.push(BoundClaim { name, volume }),
                None => volumes.caveats.push(Caveat::Claim(name.to_owned())),
            }
        }
        if volumes.bound.iter().any(|claim| claim.volume.is_limited) {
            volumes.caveats.push(Caveat::VolumeLimits);
        }
        volumes
    }

    pub(super) fn exclusions(&self, node: &Node) -> Vec<Exclusion> {
        let bound = self.bound.iter();
        bound.flat_map(|claim| claim.exclusions(node)).collect()
    }
}

impl BoundClaim<'_> {
    fn exclusions(&self, node: &Node) -> Vec<Exclusion> {
        let by = RequiredBy::Claim(self.name.to_owned());
        selector_exclusions(&self.volume.node_selector, node, &by)
    }
}
