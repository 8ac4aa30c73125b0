//! The policy cannot look up what was recorded.

use kube::api::ListParams;
use pps_e2e::{
    cluster::{Cluster, POLICY_SERVER, pps_resource, repository_file},
    wait::{Progress, wait_for},
};
use serde_json::json;

use super::recording::warnings;
use crate::support::{HOSTNAME, MARKER, Pool, TIMEOUT, WHILE, homes};

/// Takes the policy's rights, or gives them back, and waits until that is so.
async fn rights(cluster: &Cluster, given: bool) {
    if given {
        cluster
            .apply_rbac_from(&repository_file("deploy/base/rbac.yaml"), POLICY_SERVER, &["pps-policy"])
            .await
            .unwrap();
    } else {
        let binding = format!("pps-policy-{POLICY_SERVER}");
        cluster.control_plane.kubectl(&["delete", "clusterrolebinding", &binding]).await.unwrap();
    }
    let client = cluster.control_plane.client_for(POLICY_SERVER).unwrap();
    let api: kube::Api<kube::api::DynamicObject> = kube::Api::all_with(client, &pps_resource());
    wait_for("the rights to take effect", TIMEOUT, async || {
        let answer = api.list(&ListParams::default()).await;
        let seen = format!("{:?}", answer.as_ref().err());
        Ok(Progress::when(answer.is_ok() == given, (), seen))
    })
    .await
    .unwrap();
}

pub(crate) async fn a_failed_lookup_is_told_and_mends_itself(cluster: &Cluster) {
    let pool = Pool::new(cluster, "refused", 3, 1).await;
    let before =
        cluster.run_stateful_set(&pool.stateful_set("web", 1).persistent("", HOSTNAME, "")).await.unwrap();
    pool.recorded("web", "web").await;
    pool.load(&homes(&before)["web-0"]).await;
    rights(cluster, false).await;

    cluster.delete_pods("refused", "web", &["web-0"]).await.unwrap();
    let message = pool.event("web", "FailedCreate").await;
    for word in [
        "StatefulSet web",
        "in namespace refused",
        "get_resource web",
        "forbidden",
        "persistentpodstates",
        "Grant the PolicyServer's ServiceAccount the verb get on persistentpodstates.apps.kruise.io",
        "onLookupFailure",
    ] {
        assert!(message.contains(word), "{word:?} in {message:?}");
    }
    tokio::time::sleep(WHILE).await;
    assert!(cluster.pods("refused", "web").await.unwrap().is_empty(), "no Pod may come without its state");

    rights(cluster, true).await;
    assert_eq!(homes(&pool.ready("web", 1).await), homes(&before));
}

pub(crate) async fn a_failed_lookup_may_be_accepted(cluster: &Cluster) {
    let pool = Pool::new(cluster, "accepted", 3, 1).await;
    let before =
        cluster.run_stateful_set(&pool.stateful_set("web", 1).persistent("", HOSTNAME, "")).await.unwrap();
    pool.recorded("web", "web").await;
    pool.load(&homes(&before)["web-0"]).await;
    let webhook = cluster.webhook().unwrap();
    webhook.set_settings(json!({"onLookupFailure": "accept"})).unwrap();
    rights(cluster, false).await;

    let after = pool.recreate("web", &["web-0"]).await;
    assert!(!after["web-0"].annotations.contains_key(MARKER));
    assert_ne!(homes(&after), homes(&before), "the node is a bad choice for a Pod without a state");
    let warning = warnings(cluster, "accepted", "web-0");
    for word in
        ["StatefulSet web", "namespace accepted", "get_resource web", "forbidden", "without its state"]
    {
        assert!(warning.contains(word), "{word:?} in {warning:?}");
    }
    rights(cluster, true).await;
    webhook.set_settings(json!({})).unwrap();
}
