//! What an upgrade leaves to the policies that are installed, and to the Kubewarden that is.

use std::{collections::BTreeMap, time::Duration};

use pps_e2e::{
    cluster::Cluster,
    kubewarden::{Controller, NAMESPACE},
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::{DEDICATED, assert_in_force, may_look_up, policies};
use crate::chart::release::Release;

/// Kubewarden's controller deletes a policy only after its webhook: a policy that refuses every Pod that it
/// looks up, if its role is gone by then.
pub(super) async fn policies_keep_their_role_and_their_server_until_they_are_gone(cluster: &Cluster) {
    let release = Release::new(cluster);
    release.run("install", json!({}));
    let said = release.run("upgrade", json!({"rbac": {"create": false}}));
    assert_in_force(cluster, "after rbac.create=false").await;
    assert!(said.contains("kubectl delete clusterrole,clusterrolebinding -l"), "{said}");

    let finalizers = async |list: &str| {
        let patch = format!(r#"{{"metadata":{{"finalizers":{list}}}}}"#);
        for policy in policies(cluster).await.keys() {
            let patch = ["patch", "clusteradmissionpolicy", policy, "--type=merge", "--patch", &patch];
            cluster.control_plane.kubectl(&patch).await.unwrap();
        }
    };
    finalizers(r#"["kubewarden.io/finalizer"]"#).await;
    let off = json!({"policy": {"enabled": false}});
    for upgrade in ["the first upgrade", "another one"] {
        let said = release.run("upgrade", off.clone());
        assert_in_force(cluster, upgrade).await;
        assert!(said.contains("run the same `helm upgrade` again"), "{said}");
    }
    finalizers("[]").await;
    release.run("upgrade", off);
    assert!(!may_look_up(cluster, NAMESPACE, "policy-server-persistent-pod-state").await);
    let servers = cluster.control_plane.kubectl(&["get", "policyservers", "--output=name"]).await.unwrap();
    assert_eq!(servers.lines().count(), 1, "{servers}");
    release.run("uninstall", json!({}));
}

#[tokio::test]
async fn a_field_that_kubewarden_does_not_have_is_left_out_or_refused() {
    let cluster = Cluster::builder().without_crd().start().await.unwrap();
    let _kubewarden = Controller::install(&cluster).await.unwrap();
    let define = async |newer: &[&str]| {
        let fields =
            ["image", "replicas", "maxUnavailable", "serviceAccountName", "env", "requests", "affinity"];
        let fields = fields.iter().chain(&["securityContexts"]).chain(newer);
        let any = json!({"x-kubernetes-preserve-unknown-fields": true});
        let fields: BTreeMap<&str, Value> = fields.map(|field| (*field, any.clone())).collect();
        let spec = json!({"type": "object", "properties": fields});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        let patch =
            json!([{"op": "replace", "path": "/spec/versions/0/schema", "value": schema}]).to_string();
        let name = "policyservers.policies.kubewarden.io";
        let patch = ["patch", "customresourcedefinition", name, "--type=json", "--patch", &patch];
        cluster.control_plane.kubectl(&patch).await.unwrap();
    };
    let labels = async || {
        let labels = ["get", "policyserver", DEDICATED, "-o=jsonpath={.spec.labels}"];
        cluster.control_plane.kubectl(&labels).await.unwrap()
    };
    define(&[]).await;
    let release = Release::new(&cluster);
    let common = json!({"commonLabels": {"team": "storage"}});
    release.run("install", common.clone());
    assert_eq!(labels().await, "");
    for (field, value) in [("labels", json!({"a": "b"})), ("webhookPort", json!(9443))] {
        let error = release.try_run("upgrade", json!({"policyServer": {field: value}})).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains(&format!("policyServer.{field} is set")) && error.contains("1.36"), "{error}");
    }
    define(&["labels"]).await;
    // The API server publishes the new schema, by which Helm checks its objects, a moment later.
    wait_for("the API server to publish the field", Duration::from_mins(1), async || {
        Ok(Progress::Done(release.try_run("upgrade", common.clone())?))
    })
    .await
    .unwrap();
    assert!(labels().await.contains("storage"), "{}", labels().await);
}
