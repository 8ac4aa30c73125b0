//! Whether a PersistentPodState may be deleted.
//!
//! Who deletes a PPS loses the recorded states. The label [`PROTECTION_LABEL`] prevents that, with
//! the values that OpenKruise gives it: `Always`, and `Cascading`, which protects the object while
//! it holds states of existing Pods.

use std::fmt;

use pps_core::governing::aliased;
use pps_core::packed::hides_states;
use pps_core::pps::{KIND, Metadata};
use pps_core::{TargetReference, shorten};
use serde_json::Value;

/// The label that protects an object.
pub const PROTECTION_LABEL: &str = "policy.kruise.io/delete-protection";

/// The users that delete what belongs to something deleted: the garbage collector, and the
/// controller that empties a namespace. They have the last name where the controller manager has
/// one identity for all its controllers.
pub const CLUSTER_CONTROLLERS: [&str; 3] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:kube-controller-manager",
];

/// Why an object may not be deleted. Displays what to do before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protected {
    /// The name of the object.
    pub name: String,
    /// The value of its label.
    pub by: Protection,
}

/// What an object's label says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protection {
    Always,
    /// It holds states of existing Pods of this workload.
    Cascading(TargetReference),
}

impl fmt::Display for Protected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{KIND} {} is protected by its label {PROTECTION_LABEL}=",
            self.name
        )?;
        match &self.by {
            Protection::Always => f.write_str("Always: remove the label before you delete it"),
            Protection::Cascading(TargetReference { kind, name, .. }) => write!(
                f,
                "Cascading: it holds the states of existing Pods; scale {} {} to 0 and wait until \
                 its Pods are gone, or remove the label",
                shorten(kind),
                shorten(name)
            ),
        }
    }
}

/// Why this user may not delete an object; `None` if nothing protects it.
pub(crate) fn protection_from(username: &str, object: &Value) -> Option<Protected> {
    // For the cluster's own controllers no object is protected.
    protection(object).filter(|_| !CLUSTER_CONTROLLERS.contains(&username))
}

/// Why a user may not delete an object; `None` if nothing protects it. Looks at nothing but the
/// object.
///
/// ```
/// use pps_admission::deletion::protection;
/// use serde_json::json;
///
/// let object = json!({
///     "metadata": {"name": "web", "labels": {"policy.kruise.io/delete-protection": "Cascading"}},
///     "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}},
///     "status": {"podStates": {"web-0": {"nodeName": "node-1"}}, "desired": 3},
/// });
///
/// let protected = protection(&object).unwrap();
/// assert!(protected.to_string().contains("scale StatefulSet web to 0"));
/// ```
pub fn protection(object: &Value) -> Option<Protected> {
    if is_alias(object) {
        return None;
    }
    let by = match object["metadata"]["labels"][PROTECTION_LABEL].as_str()? {
        "Always" => Protection::Always,
        "Cascading" if has_states_of_existing_pods(object) => {
            Protection::Cascading(TargetReference::read(&object["spec"]["targetRef"]))
        }
        _ => return None,
    };
    Some(Protected {
        name: Metadata::read(object).name,
        by,
    })
}

/// A warning if the label has a value that protects nothing.
pub fn warn_of_label(object: &Value) -> Option<String> {
    let value = &object["metadata"]["labels"][PROTECTION_LABEL];
    let is_known = matches!(value.as_str(), Some("Always" | "Cascading"));
    let remedy = if is_alias(object) {
        "label the object that it points to"
    } else {
        "use Always or Cascading"
    };
    (!value.is_null() && (!is_known || is_alias(object))).then(|| {
        format!(
            "metadata.labels[{PROTECTION_LABEL}] is {}, which protects nothing: {remedy}",
            shorten(&value.to_string())
        )
    })
}

/// Whether an object is an alias. It has no states to protect, and the sidecar has
/// to delete one that points elsewhere.
fn is_alias(object: &Value) -> bool {
    aliased(&TargetReference::read(&object["spec"]["targetRef"])).is_some()
}

/// Whether states are recorded of Pods that may exist. Under `WhenScaled`, the default, any state
/// is: the others have been dropped. Under the other policies states outlive the Pods, so the
/// number of wanted Pods decides. States that the definition hides count, and so does whatever has
/// another type than that of the schema.
fn has_states_of_existing_pods(object: &Value) -> bool {
    let status = &object["status"];
    let may_have_items = |value: &Value| match value {
        Value::Null => false,
        Value::Object(items) => !items.is_empty(),
        _ => true,
    };
    let packed = &status["packed"];
    let is_readable = [status, packed]
        .iter()
        .all(|value| value.is_null() || value.is_object());
    let has_states = !is_readable
        || may_have_items(&status["podStates"])
        || may_have_items(&packed["buckets"])
        || hides_states(object);
    let retention = object["spec"]["persistentPodStateRetentionPolicy"].as_str();
    let outlives_pods = matches!(retention, Some("WhenDeleted" | "Retain"));
    let wants_none = status["desired"].as_i64() == Some(0);
    has_states && !(outlives_pods && wants_none)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(label: &str, retention: &str, status: &Value) -> Value {
        json!({
            "metadata": {"name": "web", "labels": {PROTECTION_LABEL: label}},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
                "persistentPodStateRetentionPolicy": retention,
            },
            "status": status,
        })
    }

    fn recorded(desired: Option<i64>) -> Value {
        json!({"podStates": {"web-0": {"nodeName": "n"}}, "desired": desired})
    }

    #[test]
    fn cascading_protects_the_states_of_existing_pods() {
        for (retention, status, protects) in [
            ("WhenScaled", recorded(Some(3)), true),
            ("WhenScaled", recorded(None), true),
            ("WhenScaled", recorded(Some(0)), true),
            (
                "WhenScaled",
                json!({"packed": {"version": 1, "buckets": {"ordinals-0": "1 web-0 n\n% %\n"}}}),
                true,
            ),
            (
                "WhenScaled",
                json!({"packed": {"version": 1, "buckets": {}}, "podStates": {}, "desired": 3}),
                false,
            ),
            ("WhenScaled", json!({"podStates": {}, "desired": 3}), false),
            ("WhenScaled", json!(null), false),
            ("WhenScaled", json!("x"), true),
            ("WhenScaled", json!({"podStates": ["x"]}), true),
            (
                "WhenScaled",
                json!({"podStates": null, "packed": null}),
                false,
            ),
            ("WhenScaled", json!({"packed": "x"}), true),
            ("WhenScaled", json!({"packed": {"buckets": "x"}}), true),
            ("WhenDeleted", recorded(Some(1)), true),
            ("WhenDeleted", recorded(None), true),
            ("WhenDeleted", recorded(Some(0)), false),
            ("Retain", recorded(Some(0)), false),
            ("Retain", recorded(Some(2)), true),
        ] {
            let refusal = protection(&object("Cascading", retention, &status));
            assert_eq!(
                refusal.is_some(),
                protects,
                "{retention} {status}: {refusal:?}"
            );
        }
        let mut hiding = object("Cascading", "WhenScaled", &json!({"podStates": {}}));
        assert_eq!(protection(&hiding), None);
        hiding["metadata"]["managedFields"] = json!([{"fieldsV1": {"f:status": {"f:packed": {}}}}]);
        assert!(protection(&hiding).is_some(), "the definition hides states");
        let refusal = protection(&object("Cascading", "WhenScaled", &recorded(Some(3)))).unwrap();
        let refusal = refusal.to_string();
        assert!(refusal.contains("scale StatefulSet web to 0"), "{refusal}");
    }

    #[test]
    fn protects_nothing_from_the_clusters_own_controllers() {
        let object = object("Always", "WhenScaled", &recorded(Some(3)));
        let is_refused = |user: &str| protection_from(user, &object).is_some();
        assert!(!CLUSTER_CONTROLLERS.into_iter().any(is_refused));
        for user in [
            "",
            "system:admin",
            "system:serviceaccount:shop:generic-garbage-collector",
        ] {
            assert!(is_refused(user), "{user}");
        }
    }
}
