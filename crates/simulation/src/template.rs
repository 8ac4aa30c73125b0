//! Objects of files outside of a simulation: what is wrong with them, and the Pods that a StatefulSet would have.

use pps_core::pps::{GROUP, KIND, group_of};
use serde_json::Value;

use crate::cluster::Workload;
use crate::controller::new_pod;
use crate::finding::Finding;
use crate::read::{Scope, parse};

/// What is wrong with a StatefulSet or a PersistentPodState, as far as the API server checks it; nothing for other kinds.
pub fn findings(object: &Value) -> Vec<Finding> {
    let group = group_of(object["apiVersion"].as_str().unwrap_or_default());
    let kind = object["kind"].as_str().unwrap_or_default();
    if !matches!((group, kind), ("apps" | GROUP, "StatefulSet") | (GROUP, KIND)) {
        return Vec::new();
    }
    let namespace =
        object["metadata"]["namespace"].as_str().filter(|one| !one.is_empty()).unwrap_or("default");
    parse(object, &Scope { namespace, is_live: false }).1
}

/// The Pods of these names as the controller of this StatefulSet creates them.
pub fn pods_of<'a>(
    stateful_set: &Value,
    namespace: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Vec<Value> {
    let mut object = stateful_set.clone();
    // The names are given, and a workload lists those that it wants: it may want any number.
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("replicas".into(), 0.into());
    }
    let uid = object["metadata"]["uid"].as_str().unwrap_or("00000000-0000-4000-8000-000000000001").to_owned();
    let mut workload = Workload::new(object);
    workload.uid = uid;
    let revision = workload.update_revision();
    names.into_iter().map(|name| new_pod(&workload, namespace, name, revision)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_are_made_from_the_template() {
        let stateful_set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "uid": "u-1"},
            "spec": {
                "replicas": u64::MAX, "serviceName": "db",
                "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": []}},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
            },
        });
        let pods = pods_of(&stateful_set, "shop", ["db-7"]);
        assert_eq!(pods.len(), 1);
        let (metadata, spec) = (&pods[0]["metadata"], &pods[0]["spec"]);
        assert_eq!((&metadata["name"], &metadata["namespace"]), (&json!("db-7"), &json!("shop")));
        assert_eq!((&metadata["labels"]["app"], &spec["subdomain"]), (&json!("db"), &json!("db")));
        let owner = &metadata["ownerReferences"][0];
        assert_eq!(
            (&owner["name"], &owner["uid"], &owner["controller"]),
            (&json!("db"), &json!("u-1"), &json!(true))
        );
        assert_eq!(pods_of(&json!({"spec": 7}), "shop", ["a-0"]).len(), 1);
        assert_eq!(spec["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-db-7");
    }

    #[test]
    fn only_kinds_that_are_known_have_findings() {
        assert_eq!(findings(&json!({"apiVersion": "apps/v1", "kind": "Deployment"})), []);
        assert_eq!(findings(&json!([])), []);
        let pps = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
            "metadata": {"name": "db", "namespace": "shop"}, "spec": {"requiredPersistentTopologies": {}},
        });
        let findings = findings(&pps);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].message.contains("did you mean requiredPersistentTopology"), "{findings:?}");
    }
}
