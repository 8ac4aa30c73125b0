//! Who a Pod belongs to, as far as a state can be kept for it.

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
    /// Name of the owner; it lives in the namespace of the owned object.
    pub name: String,
    /// UID of the owner.
    pub uid: String,
    /// Whether this owner is the managing controller.
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

/// Kinds whose Pods get a new name each time they are created, so that nothing can be remembered of
/// them by name; by API group and kind, sorted.
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

/// Whether Pods of this kind of workload can have the same name again after they were re-created.
/// A kind that is not known to be without stable names is believed to have them.
pub fn has_stable_names(api_version: &str, kind: &str) -> bool {
    !KINDS_WITHOUT_STABLE_NAMES.contains(&(group_of(api_version), kind))
}

/// What identifies a Pod at admission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodIdentity {
    /// Name of the Pod; empty when the API server has still to make one of `generateName`.
    pub name: String,
    /// The managing controller, if there is one.
    pub controller: Option<OwnerReference>,
    /// The node that the Pod is bound to already; empty before scheduling, and where that cannot matter.
    pub node_name: String,
}

impl PodIdentity {
    /// Reads the identity from a Pod in JSON. It stops as soon as it is clear that there is no
    /// [stateful owner](Self::stateful_owner), and does not look at what comes after.
    ///
    /// # Errors
    ///
    /// When the text is no JSON object, or one of the fields has a type that no Pod has.
    pub fn parse(pod: &str) -> Result<Self, serde_json::Error> {
        let mut reading = Reading::default();
        let mut json = serde_json::Deserializer::from_str(pod);
        match json.deserialize_map(&mut reading).and_then(|()| json.end()) {
            Err(error) if !reading.stopped => Err(error),
            _ => Ok(reading.identity),
        }
    }

    /// The workload whose PPS could hold a state for this Pod; none if no state can matter: there is
    /// no controller, the Pod is bound to a node already, it has no name yet, or its controller gives
    /// new names each time.
    pub fn stateful_owner(&self) -> Option<&OwnerReference> {
        let unbound_and_named = self.node_name.is_empty() && !self.name.is_empty();
        self.controller
            .as_ref()
            .filter(|owner| unbound_and_named && has_stable_names(&owner.api_version, &owner.kind))
    }
}

/// A Pod that is being read.
#[derive(Default)]
struct Reading {
    identity: PodIdentity,
    /// The rest was left unread, which the parser takes for an error.
    stopped: bool,
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
struct Metadata {
    name: Option<String>,
    owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

impl<'de> Visitor<'de> for &mut Reading {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Pod")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pod: A) -> Result<(), A::Error> {
        while let Some(field) = pod.next_key()? {
            match field {
                Field::Metadata => {
                    let metadata = pod.next_value::<Option<Metadata>>()?.unwrap_or_default();
                    let mut owners = metadata.owner_references.into_iter().flatten();
                    self.identity.name = metadata.name.unwrap_or_default();
                    self.identity.controller = owners.find(|owner| owner.controller == Some(true));
                    if self.identity.stateful_owner().is_none() {
                        self.stopped = true;
                        return Ok(());
                    }
                }
                Field::Spec => {
                    let spec = pod.next_value::<Option<Spec>>()?.unwrap_or_default();
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
    fn only_the_controller_counts() {
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
    fn kinds_without_stable_names_have_no_state() {
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
    fn a_pod_that_is_bound_or_nameless_has_no_state() {
        let owner = owner("apps/v1", "StatefulSet");
        assert_eq!(pod(&owner, "node-1", "w-0").stateful_owner(), None);
        assert_eq!(pod(&owner, "", "").stateful_owner(), None);
    }

    #[test]
    fn what_comes_after_the_metadata_of_a_stranger_is_not_looked_at() {
        let pod = |kind: &str| {
            let metadata = json!({"name": "w-0", "ownerReferences": [owner("apps/v1", kind)]});
            PodIdentity::parse(&format!(r#"{{"metadata": {metadata}, "spec": 7, and so on"#))
        };
        assert_eq!(pod("ReplicaSet").unwrap().stateful_owner(), None);
        assert!(pod("StatefulSet").is_err());
    }

    #[test]
    fn nulls_and_strangers_are_no_error() {
        let identity =
            PodIdentity::parse(r#"{"metadata":{"name":null,"ownerReferences":null},"spec":null,"new":[1]}"#);
        assert_eq!(identity.unwrap(), PodIdentity::default());
        assert!(PodIdentity::parse("[").is_err());
    }
}
