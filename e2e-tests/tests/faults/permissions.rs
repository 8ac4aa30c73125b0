//! Permissions are revoked and granted again.

use pps_e2e::{
    cluster::{Cluster, SIDECAR},
    manifests,
    repository::repository_file,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::fleet::Fleet;
use super::network::Network;
use crate::support::{Random, TIMEOUT, WHILE, list, wait_for_permission};

/// A permission: group, resource, verb.
type Permission = (&'static str, &'static str, &'static str);

const PATCH: Permission = ("apps.kruise.io", "persistentpodstates/status", "patch");
const LIST: Permission = ("", "pods", "list");
const WATCH: Permission = ("", "pods", "watch");
/// Nodes are watched as metadata only, whose refusal has another message.
const WATCH_NODES: Permission = ("", "nodes", "watch");

/// Grants the sidecar all its permissions except these, and waits until the API server applies
/// them.
async fn grant_all_except(cluster: &Cluster, revoked: &[Permission]) {
    let mut objects = manifests::read(&repository_file("deploy/base/rbac.yaml")).unwrap();
    objects.retain(|one| one["kind"] == "ClusterRole" && one["metadata"]["name"] == "pps-sidecar");
    let mut rules = Vec::new();
    for rule in list(&objects[0]["rules"]) {
        for resource in list(&rule["resources"]) {
            let mut rule = rule.clone();
            rule["resources"] = json!([resource]);
            let is_revoked = |verb: &Value| {
                let same = |permission: &&Permission| {
                    list(&rule["apiGroups"]).any(|group| *group == permission.0)
                        && *resource == permission.1
                };
                revoked
                    .iter()
                    .filter(same)
                    .any(|permission| *verb == permission.2)
            };
            let verbs: Vec<Value> = list(&rule["verbs"])
                .filter(|verb| !is_revoked(verb))
                .cloned()
                .collect();
            if !verbs.is_empty() {
                rule["verbs"] = json!(verbs);
                rules.push(rule);
            }
        }
    }
    objects[0]["rules"] = json!(rules);
    cluster.apply_objects(&objects).await.unwrap();
    for permission in [PATCH, LIST, WATCH, WATCH_NODES] {
        let (group, resource, verb) = permission;
        wait_for_permission(
            cluster,
            SIDECAR,
            group,
            resource,
            verb,
            !revoked.contains(&permission),
        )
        .await;
    }
}

pub(crate) async fn writes_states_once_the_permission_returns(network: &Network<'_>) {
    let mut random = Random::of("no permission to write");
    let fleet = Fleet::new(network.cluster, "unwritten", 2, 2).await;
    let sidecar = network.sidecar();
    let before = fleet.states().await;
    let metric = "persistentpodstate_writes_total{resource=\"persistentpodstates/status\",result=\"refused\"}";
    let refused = async || sidecar.metric(metric).await.map(Option::unwrap_or_default);
    let count = refused().await.unwrap();

    grant_all_except(network.cluster, &[PATCH]).await;
    fleet.replace_some(&mut random, 3).await;
    wait_for("some writes to be refused", TIMEOUT, async || {
        let more = refused().await? - count;
        Ok(Progress::when(more >= 3.0, (), format!("{more} refused")))
    })
    .await
    .unwrap();
    assert_eq!(
        fleet.states().await,
        before,
        "no state may have been written"
    );
    assert!(sidecar.log().contains("cannot write a status; retrying"));
    assert_eq!(
        sidecar.get("/readyz").await.unwrap().0,
        200,
        "its knowledge is complete"
    );
    grant_all_except(network.cluster, &[]).await;
    fleet.end_state().await;
}

pub(crate) async fn keeps_states_while_pods_cannot_be_watched(network: &Network<'_>) {
    let mut random = Random::of("no permission to watch");
    let mut fleet = Fleet::new(network.cluster, "unseen", 2, 3).await;
    let sidecar = network.sidecar();
    let errors = async || {
        let metric = sidecar
            .metric("persistentpodstate_watch_errors_total{resource=\"pods\"}")
            .await;
        metric.map(Option::unwrap_or_default)
    };
    let before = errors().await.unwrap();

    grant_all_except(network.cluster, &[LIST, WATCH, WATCH_NODES]).await;
    // Revoking permissions does not end a running watch.
    network.interrupt().await;
    network
        .wait_until_unready("cannot watch: nodes, pods")
        .await;
    fleet.relabel(&mut random).await;
    fleet.replace_some(&mut random, 3).await;
    fleet.scale("web-b", 2).await;
    fleet.ready().await;
    wait_for("the watch to be retried repeatedly", TIMEOUT, async || {
        let more = errors().await? - before;
        let watching = sidecar
            .metric("persistentpodstate_watch_up{resource=\"pods\"}")
            .await?;
        Ok(Progress::when(
            more >= 2.0 && watching == Some(0.0),
            (),
            format!("{more} errors, {watching:?}"),
        ))
    })
    .await
    .unwrap();
    assert!(
        sidecar.log().contains(r#"cannot watch resource \"nodes\""#),
        "the log must name the missing permission"
    );
    assert_eq!(
        sidecar.metric("persistentpodstate_ready").await.unwrap(),
        Some(0.0)
    );
    assert_eq!(sidecar.get("/healthz").await.unwrap().0, 200);

    // A sidecar that starts without the permission drops nothing either.
    let states = fleet.states().await;
    sidecar.terminate(TIMEOUT).await.unwrap();
    sidecar.start_again().unwrap();
    network.wait_until_unready("pods").await;
    sidecar.wait_leading(TIMEOUT).await.unwrap();
    tokio::time::sleep(WHILE).await;
    assert_eq!(
        fleet.states().await,
        states,
        "an unknown Pod is not a deleted one"
    );

    grant_all_except(network.cluster, &[]).await;
    sidecar.wait_ready(TIMEOUT).await.unwrap();
    fleet.end_state().await;
}
