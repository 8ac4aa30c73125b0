//! Which workload a Pod belongs to, and whether its Pods can have recorded states.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::pps::{TargetReference, group_of};

/// The owner of an object, as in `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// API group and version of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner, which is in the namespace of the owned object.
    pub name: String,
    /// UID of the owner.
    pub uid: String,
    /// Whether this is the controller owner.
    pub controller: Option<bool>,
}

impl OwnerReference {
    /// The owner as the target of a PPS.
    pub fn target(&self) -> TargetReference {
        TargetReference {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
        }
    }
}

/// Kinds whose Pods get a new name each time, so that no state can be found by name. API group and kind,
/// sorted.
pub const KINDS_WITHOUT_STABLE_NAMES: &[(&str, &str)] = &[
    ("", "Node"),
    ("", "ReplicationController"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps.kruise.io", "AdvancedCronJob"),
    ("apps.kruise.io", "BroadcastJob"),
    ("apps.kruise.io", "CloneSet"),
    ("apps.kruise.io", "DaemonSet"),
    ("batch", "CronJob"),
    ("batch", "Job"),
    ("extensions", "DaemonSet"),
    ("extensions", "Deployment"),
    ("extensions", "ReplicaSet"),
];

/// Whether re-created Pods of this kind of workload keep their names. An unknown kind is assumed to have
/// stable names.
pub fn has_stable_names(api_version: &str, kind: &str) -> bool {
    !KINDS_WITHOUT_STABLE_NAMES.contains(&(group_of(api_version), kind))
}

/// What identifies a Pod at admission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodIdentity {
    /// Name of the Pod; empty if the API server generates it after admission (`generateName`).
    pub name: String,
    /// The controller owner, if there is one.
    pub controller: Option<OwnerReference>,
    /// The node that the Pod is already bound to. Empty before scheduling, and if it was not read because
    /// the Pod has no stateful owner anyway.
    pub node_name: String,
}

impl PodIdentity {
    /// Reads the identity from a Pod in JSON. Stops as soon as the Pod is known to have no
    /// [stateful owner](Self::stateful_owner), so that other Pods cost little; the rest of the text is then
    /// not validated.
    ///
    /// # Errors
    ///
    /// When the text is not a JSON object, or a field is of the wrong type.
    pub fn parse(pod: &str) -> Result<Self, serde_json::Error> {
        let mut reader = IdentityReader::default();
        let mut json = serde_json::Deserializer::from_str(pod);
        match json.deserialize_map(&mut reader).and_then(|()| json.end()) {
            Err(error) if !reader.stopped_early => Err(error),
            _ => Ok(reader.identity),
        }
    }

    /// The workload whose PPS could hold a state for this Pod. `None` if the Pod has no controller owner or
    /// no name, is already bound to a node, or its controller gives it a new name each time.
    pub fn stateful_owner(&self) -> Option<&OwnerReference> {
        let unbound_and_named = self.node_name.is_empty() && !self.name.is_empty();
        self.controller
            .as_ref()
            .filter(|owner| unbound_and_named && has_stable_names(&owner.api_version, &owner.kind))
    }
}

#[derive(Default)]
struct IdentityReader {
    identity: PodIdentity,
    /// The rest of the Pod was not read; the parser reports that as an error.
    stopped_early: bool,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    Metadata,
    Spec,
    #[serde(other)]
    Other,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMetadata {
    name: Option<String>,
    owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    node_name: Option<String>,
}

impl<'de> Visitor<'de> for &mut IdentityReader {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Pod")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pod: A) -> Result<(), A::Error> {
        while let Some(field) = pod.next_key()? {
            match field {
                Field::Metadata => {
                    let metadata = pod.next_value::<Option<PodMetadata>>()?.unwrap_or_default();
                    let mut owners = metadata.owner_references.into_iter().flatten();
                    self.identity.name = metadata.name.unwrap_or_default();
                    self.identity.controller = owners.find(|owner| owner.controller == Some(true));
                    if self.identity.stateful_owner().is_none() {
                        self.stopped_early = true;
                        return Ok(());
                    }
                }
                Field::Spec => {
                    let spec = pod.next_value::<Option<PodSpec>>()?.unwrap_or_default();
                    self.identity.node_name = spec.node_name.unwrap_or_default();
                }
                Field::Other => drop(pod.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(owner: &serde_json::Value, node_name: &str, name: &str) -> PodIdentity {
        let pod = json!({
            "metadata": {"name": name, "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "not-the-controller", "uid": "0"},
                owner,
            ]},
            "spec": {"nodeName": node_name, "containers": [{"name": "a"}]},
        });
        PodIdentity::parse(&pod.to_string()).unwrap()
    }

    fn owner(api_version: &str, kind: &str) -> serde_json::Value {
        json!({"apiVersion": api_version, "kind": kind, "name": "w", "uid": "1", "controller": true})
    }

    #[test]
    fn only_a_controller_owner_counts() {
        let stateful_set = owner("apps/v1", "StatefulSet");
        assert_eq!(
            pod(&stateful_set, "", "w-0").stateful_owner().map(|owner| owner.name.as_str()),
            Some("w")
        );
        let mut owner = stateful_set;
        owner["controller"] = json!(false);
        assert_eq!(pod(&owner, "", "w-0").stateful_owner(), None);
    }

    #[test]
    fn ignores_kinds_without_stable_names() {
        for (api_version, kind) in [
            ("apps/v1", "ReplicaSet"),
            ("v1", "ReplicationController"),
            ("apps/v1", "DaemonSet"),
            ("batch/v1", "Job"),
            ("v1", "Node"),
            ("apps.kruise.io/v1alpha1", "CloneSet"),
        ] {
            assert_eq!(pod(&owner(api_version, kind), "", "w-0").stateful_owner(), None, "{kind}");
        }
        for (api_version, kind) in
            [("batch.volcano.sh/v1alpha1", "Job"), ("apps.kruise.io/v1beta1", "StatefulSet")]
        {
            assert!(
                pod(&owner(api_version, kind), "", "w-0").stateful_owner().is_some(),
                "{api_version} {kind}"
            );
        }
    }

    #[test]
    fn ignores_pods_that_are_bound_or_have_no_name() {
        let owner = owner("apps/v1", "StatefulSet");
        assert_eq!(pod(&owner, "node-1", "w-0").stateful_owner(), None);
        assert_eq!(pod(&owner, "", "").stateful_owner(), None);
    }

    #[test]
    fn stops_reading_after_the_metadata_of_a_pod_without_stateful_owner() {
        let pod = |kind: &str| {
            let metadata = json!({"name": "w-0", "ownerReferences": [owner("apps/v1", kind)]});
            PodIdentity::parse(&format!(r#"{{"metadata": {metadata}, "spec": 7, and so on"#))
        };
        assert_eq!(pod("ReplicaSet").unwrap().stateful_owner(), None);
        assert!(pod("StatefulSet").is_err());
    }

    #[test]
    fn accepts_nulls_and_unknown_fields() {
        let identity =
            PodIdentity::parse(r#"{"metadata":{"name":null,"ownerReferences":null},"spec":null,"new":[1]}"#);
        assert_eq!(identity.unwrap(), PodIdentity::default());
        assert!(PodIdentity::parse("[").is_err());
    }
}
