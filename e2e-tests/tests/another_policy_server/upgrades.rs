//! What an upgrade leaves to the policies that it deletes.

use pps_e2e::{cluster::Cluster, kubewarden::NAMESPACE};
use serde_json::json;

use super::{assert_in_force, may_look_up, policies};
use crate::chart::release::Release;

/// Kubewarden's controller deletes a policy only after its webhook: a policy that refuses every Pod
/// that it looks up, if its role is gone by then.
pub(super) async fn policies_keep_their_role_and_their_server_until_they_are_gone(
    cluster: &Cluster,
) {
    let release = Release::new(cluster);
    the_mode_cannot_become_monitor(cluster, &release).await;

    let finalizers = async |list: &str| {
        let patch = format!(r#"{{"metadata":{{"finalizers":{list}}}}}"#);
        for policy in policies(cluster).await.keys() {
            let patch = [
                "patch",
                "clusteradmissionpolicy",
                policy,
                "--type=merge",
                "--patch",
                &patch,
            ];
            cluster.control_plane.kubectl(&patch).await.unwrap();
        }
    };
    finalizers(r#"["kubewarden.io/finalizer"]"#).await;
    let off = json!({"policy": {"enabled": false}});
    let said = release.run("upgrade", off);
    assert_in_force(cluster, "without policies").await;
    assert!(said.contains("policyServer.create=false"), "{said}");
    finalizers("[]").await;
    release.run(
        "upgrade",
        json!({"policy": {"enabled": false}, "policyServer": {"create": false}}),
    );
    assert!(!may_look_up(cluster, NAMESPACE, "policy-server-persistent-pod-state").await);
    let servers = cluster
        .control_plane
        .kubectl(&["get", "policyservers", "--output=name"])
        .await
        .unwrap();
    assert_eq!(servers.lines().count(), 1, "{servers}");
    release.run("uninstall", json!({}));
}

/// Installs a release. An upgrade that Kubewarden refuses leaves the policies in force.
async fn the_mode_cannot_become_monitor(cluster: &Cluster, release: &Release<'_>) {
    let mode = |mode: &str| json!({"policy": {"mode": mode}});
    release.run("install", mode("monitor"));
    release.run("upgrade", mode("protect"));
    let error = format!(
        "{:#}",
        release.try_run("upgrade", mode("monitor")).unwrap_err()
    );
    assert!(
        error.contains("cannot transition from protect to monitor"),
        "{error}"
    );
    assert_in_force(cluster, "after the refused upgrade").await;
}
