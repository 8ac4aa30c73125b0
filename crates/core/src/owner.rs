//! Which workload a Pod belongs to, and whether its Pods can have recorded states.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::pick::{pick, pick_within, read_picked};
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
    /// Reads an owner from JSON.
    fn parse(owner: &str) -> Result<Self, serde_json::Error> {
        let paths = ["apiVersion", "kind", "name", "uid", "controller"];
        let [api_version, kind, name, uid, controller] = pick(owner, paths)?;
        Ok(Self {
            api_version: read_picked(api_version)?,
            kind: read_picked(kind)?,
            name: read_picked(name)?,
            uid: read_picked(uid)?,
            controller: controller.map(|controller| controller.get() == "true"),
        })
    }

    /// The owner as the target of a PPS.
    pub fn target(&self) -> TargetReference {
        TargetReference {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
        }
    }
}

/// Kinds whose Pods get a new name each time, so that no state can be found by name. API group and
/// kind, sorted.
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

/// Whether re-created Pods of this kind of workload keep their names. An unknown kind is assumed to
/// have stable names.
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
    /// The node that the Pod is already bound to. Empty before scheduling, and if it was not read
    /// because the Pod has no stateful owner anyway.
    pub node_name: String,
}

impl PodIdentity {
    /// Reads the identity from a Pod in JSON. Stops as soon as the Pod is known to have no
    /// [stateful owner](Self::stateful_owner), so that other Pods cost little; the rest of the text
    /// is then not validated.
    pub fn parse(pod: &str) -> Result<Self, serde_json::Error> {
        let paths = ["metadata.name", "metadata.ownerReferences"];
        let [name, owners] = pick_within(pod, "metadata", paths)?;
        let owners: Vec<&RawValue> = owners.map_or_else(
            || Ok(Vec::new()),
            |owners| serde_json::from_str(owners.get()),
        )?;
        let mut identity = Self {
            name: read_picked(name)?,
            ..Self::default()
        };
        for owner in owners {
            let owner = OwnerReference::parse(owner.get())?;
            if owner.controller == Some(true) && identity.controller.is_none() {
                identity.controller = Some(owner);
            }
        }
        if identity.stateful_owner().is_some() {
            let [node_name] = pick(pod, ["spec.nodeName"])?;
            identity.node_name = read_picked(node_name)?;
        }
        Ok(identity)
    }

    /// The workload whose PPS could hold a state for this Pod. `None` if the Pod has no controller
    /// owner or no name, is already bound to a node, or its controller gives it a new name each
    /// time.
    pub fn stateful_owner(&self) -> Option<&OwnerReference> {
        let unbound_and_named = self.node_name.is_empty() && !self.name.is_empty();
        self.controller
            .as_ref()
            .filter(|owner| unbound_and_named && has_stable_names(&owner.api_version, &owner.kind))
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
            pod(&stateful_set, "", "w-0")
                .stateful_owner()
                .map(|owner| owner.name.as_str()),
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
            assert_eq!(
                pod(&owner(api_version, kind), "", "w-0").stateful_owner(),
                None,
                "{kind}"
            );
        }
        for (api_version, kind) in [
            ("batch.volcano.sh/v1alpha1", "Job"),
            ("apps.kruise.io/v1beta1", "StatefulSet"),
        ] {
            assert!(
                pod(&owner(api_version, kind), "", "w-0")
                    .stateful_owner()
                    .is_some(),
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
            PodIdentity::parse(&format!(
                r#"{{"metadata": {metadata}, "spec": 7, and so on"#
            ))
        };
        assert_eq!(pod("ReplicaSet").unwrap().stateful_owner(), None);
        assert!(pod("StatefulSet").is_err());
    }

    #[test]
    fn accepts_nulls_and_unknown_fields() {
        let identity = PodIdentity::parse(
            r#"{"metadata":{"name":null,"ownerReferences":null},"spec":null,"new":[1]}"#,
        );
        assert_eq!(identity.unwrap(), PodIdentity::default());
        assert!(PodIdentity::parse("[").is_err());
    }
}
