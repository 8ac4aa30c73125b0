//! Where the volumes of a Pod are: the filter `VolumeBinding`, for claims that are bound.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{list, text};
use super::node_affinity::selector_exclusions;
use super::read::Node;
use super::reason::{Caveat, Exclusion, RequiredBy};

pub(super) const CLAIM: &str = "persistentVolumeClaim";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volumes {
    /// The volume that a claim is bound to, by namespace and name; none if it is not bound.
    claims: BTreeMap<(String, String), Option<String>>,
    /// The node selector of each volume, null if any node can have it, and whether a CSI driver may
    /// limit it.
    volumes: BTreeMap<String, (Value, bool)>,
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
                let namespace = metadata["namespace"]
                    .as_str()
                    .unwrap_or("default")
                    .to_owned();
                let phase = text(&object["status"]["phase"]);
                let volume = object["spec"]["volumeName"]
                    .as_str()
                    .filter(|name| !name.is_empty());
                let bound = volume
                    .filter(|_| matches!(phase, "" | "Bound"))
                    .map(str::to_owned);
                self.claims.insert((namespace, name), bound);
            }
            "PersistentVolume" => {
                let required = &object["spec"]["nodeAffinity"]["required"];
                // kube-scheduler keeps Pods in the zone of these labels.
                let is_zonal = |key: &String| key.ends_with("/zone") || key.ends_with("/region");
                let labels = metadata["labels"].as_object();
                if !required.is_null() || !labels.is_some_and(|labels| labels.keys().any(is_zonal))
                {
                    self.volumes
                        .insert(name, (required.clone(), object["spec"]["csi"].is_object()));
                }
            }
            _ => {}
        }
    }

    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.volumes.is_empty()
    }
}

pub(super) struct PodVolumes<'a> {
    bound: Vec<(&'a str, &'a (Value, bool))>,
    pub(super) caveats: Vec<Caveat>,
}

impl<'a> PodVolumes<'a> {
    pub(super) fn of(pod: &'a Value, known: Option<&'a Volumes>) -> Self {
        let mut volumes = Self {
            bound: Vec::new(),
            caveats: Vec::new(),
        };
        let Some(known) = known else { return volumes };
        let namespace = pod["metadata"]["namespace"]
            .as_str()
            .unwrap_or("default")
            .to_owned();
        let claims =
            list(&pod["spec"]["volumes"]).filter_map(|volume| volume[CLAIM]["claimName"].as_str());
        for claim in claims {
            let volume = known.claims.get(&(namespace.clone(), claim.to_owned()));
            match volume.and_then(|volume| known.volumes.get(volume.as_ref()?)) {
                Some(volume) => volumes.bound.push((claim, volume)),
                None => volumes.caveats.push(Caveat::Claim(claim.to_owned())),
            }
        }
        let is_limited = volumes.bound.iter().any(|(_, (_, is_limited))| *is_limited);
        volumes
            .caveats
            .extend(is_limited.then_some(Caveat::VolumeLimits));
        volumes
    }

    pub(super) fn exclusions(&self, node: &Node) -> Vec<Exclusion> {
        let of_one = |(claim, (required, _)): &(&str, &(Value, bool))| {
            selector_exclusions(required, node, &RequiredBy::Claim((*claim).to_owned()))
        };
        self.bound.iter().flat_map(of_one).collect()
    }
}
