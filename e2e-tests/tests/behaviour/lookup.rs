//! The policy cannot read the recorded states.

use kube::{Api, api::DynamicObject};
use pps_e2e::{
    cluster::{Cluster, POLICY_SERVER, pps_resource},
    repository::repository_file,
    wait::{Progress, wait_for},
};
use serde_json::json;

use super::recording::warnings;
use crate::support::{HOSTNAME, MARKER, Pool, TIMEOUT, WHILE, homes};

/// Grants or revokes the policy's permissions, and waits until the API server applies them.
async fn set_permissions(cluster: &Cluster, granted: bool) {
    if granted {
        cluster
            .apply_rbac_from(
                &repository_file("deploy/base/rbac.yaml"),
                POLICY_SERVER,
                &["pps-policy"],
            )
            .await
            .unwrap();
    } else {
        let binding = format!("pps-policy-{POLICY_SERVER}");
        cluster
            .control_plane
            .kubectl(&["delete", "clusterrolebinding", &binding])
            .await
            .unwrap();
    }
    let client = cluster.control_plane.client_for(POLICY_SERVER).unwrap();
    let api: Api<DynamicObject> = Api::namespaced_with(client, "default", &pps_resource());
    wait_for("the permissions to take effect", TIMEOUT, async || {
        let answer = api.get_opt("any").await;
        let seen = format!("{:?}", answer.as_ref().err());
        Ok(Progress::when(answer.is_ok() == granted, (), seen))
    })
    .await
    .unwrap();
}

pub(crate) async fn refuses_pods_when_the_lookup_fails_and_recovers(cluster: &Cluster) {
    let pool = Pool::new(cluster, "refused", 3, 1).await;
    let before = cluster
        .run_stateful_set(&pool.stateful_set("web", 1).persistent("", HOSTNAME, ""))
        .await
        .unwrap();
    pool.recorded("web", "web").await;
    pool.load(&homes(&before)["web-0"]).await;
    set_permissions(cluster, false).await;

    cluster
        .delete_pods("refused", "web", &["web-0"])
        .await
        .unwrap();
    // Its controller may have tried to create a Pod that it had just created, which also fails.
    let message = pool
        .event_with("web", "FailedCreate", "denied the request")
        .await;
    for word in [
        "StatefulSet web",
        "in namespace refused",
        "get_resource web",
        "forbidden",
        "persistentpodstates",
        "grant the PolicyServer's ServiceAccount the verb get on \
         persistentpodstates.apps.kruise.io",
        "onLookupFailure",
    ] {
        assert!(message.contains(word), "{word:?} in {message:?}");
    }
    tokio::time::sleep(WHILE).await;
    assert!(
        cluster.pods("refused", "web").await.unwrap().is_empty(),
        "no Pod may start without its state"
    );

    set_permissions(cluster, true).await;
    assert_eq!(homes(&pool.ready("web", 1).await), homes(&before));
}

pub(crate) async fn accepts_pods_when_the_lookup_fails_if_configured(cluster: &Cluster) {
    let pool = Pool::new(cluster, "accepted", 3, 1).await;
    let before = cluster
        .run_stateful_set(&pool.stateful_set("web", 1).persistent("", HOSTNAME, ""))
        .await
        .unwrap();
    pool.recorded("web", "web").await;
    pool.load(&homes(&before)["web-0"]).await;
    let webhook = cluster.webhook().unwrap();
    webhook
        .set_settings(json!({"onLookupFailure": "accept"}))
        .unwrap();
    set_permissions(cluster, false).await;

    let after = pool.recreate("web", &["web-0"]).await;
    assert!(!after["web-0"].annotations.contains_key(MARKER));
    assert_ne!(
        homes(&after),
        homes(&before),
        "a Pod without a state should avoid the loaded node"
    );
    let warning = warnings(cluster, "accepted", "web-0");
    for word in [
        "StatefulSet web",
        "namespace accepted",
        "get_resource web",
        "forbidden",
        "without its recorded state",
    ] {
        assert!(warning.contains(word), "{word:?} in {warning:?}");
    }
    set_permissions(cluster, true).await;
    webhook.set_settings(json!({})).unwrap();
}
