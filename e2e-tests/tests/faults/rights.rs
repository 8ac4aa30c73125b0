//! Rights are taken away and given back.

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::{Api, api::PostParams};
use pps_e2e::{
    cluster::{Cluster, SIDECAR, repository_file},
    manifests,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::fleet::Fleet;
use super::road::Road;
use crate::support::{Random, TIMEOUT, WHILE, list};

/// A right: group, resource, verb.
type Right = (&'static str, &'static str, &'static str);

const PATCH: Right = ("apps.kruise.io", "persistentpodstates/status", "patch");
const LIST: Right = ("", "pods", "list");
const WATCH: Right = ("", "pods", "watch");
/// Only their metadata is watched, which is refused in other words.
const WATCH_NODES: Right = ("", "nodes", "watch");

/// Gives the sidecar all its rights but these, and waits until the API server knows.
async fn rights_without(cluster: &Cluster, rights: &[Right]) {
    let mut objects = manifests::read(&repository_file("deploy/base/rbac.yaml")).unwrap();
    objects.retain(|one| one["kind"] == "ClusterRole" && one["metadata"]["name"] == "pps-sidecar");
    let mut rules = Vec::new();
    for rule in list(&objects[0]["rules"]) {
        for resource in list(&rule["resources"]) {
            let mut rule = rule.clone();
            rule["resources"] = json!([resource]);
            let taken = |verb: &Value| {
                let same = |right: &&Right| {
                    list(&rule["apiGroups"]).any(|group| *group == right.0) && *resource == right.1
                };
                rights.iter().filter(same).any(|right| *verb == right.2)
            };
            let verbs: Vec<Value> = list(&rule["verbs"]).filter(|verb| !taken(verb)).cloned().collect();
            if !verbs.is_empty() {
                rule["verbs"] = json!(verbs);
                rules.push(rule);
            }
        }
    }
    objects[0]["rules"] = json!(rules);
    cluster.apply_objects(&objects).await.unwrap();
    for right in [PATCH, LIST, WATCH, WATCH_NODES] {
        known(cluster, right, !rights.contains(&right)).await;
    }
}

async fn known(cluster: &Cluster, (group, resource, verb): Right, allowed: bool) {
    let reviews: Api<SubjectAccessReview> = Api::all(cluster.client());
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes = json!({"group": group, "resource": resource, "subresource": subresource, "verb": verb,
        "namespace": "default"});
    let review = json!({"spec": {"user": SIDECAR, "resourceAttributes": attributes}});
    let review = serde_json::from_value(review).unwrap();
    wait_for(&format!("the right to {verb} {resource} to be {allowed}"), TIMEOUT, async || {
        let answer = reviews.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
        Ok(Progress::when(answer.allowed == allowed, (), format!("{answer:?}")))
    })
    .await
    .unwrap();
}

pub(crate) async fn what_may_not_be_written_is_written_later(road: &Road) {
    let mut random = Random::of("no right to write");
    let fleet = Fleet::new(&road.cluster, "unwritten", 3, 3).await;
    let sidecar = road.sidecar();
    let before = fleet.states().await;
    let metric = "persistentpodstate_writes_total{what=\"status\",outcome=\"refused\"}";
    let refused = async || sidecar.metric(metric).await.map(Option::unwrap_or_default);
    let count = refused().await.unwrap();

    rights_without(&road.cluster, &[PATCH]).await;
    fleet.replace_some(&mut random, 5).await;
    wait_for("some writes to be refused", TIMEOUT, async || {
        let more = refused().await? - count;
        Ok(Progress::when(more >= 3.0, (), format!("{more} refused")))
    })
    .await
    .unwrap();
    assert_eq!(fleet.states().await, before, "nothing can have been written");
    assert!(sidecar.log().contains("a status could not be written and is tried again"));
    assert_eq!(sidecar.get("/readyz").await.unwrap().0, 200, "it knows all that it should");
    rights_without(&road.cluster, &[]).await;
    fleet.end_state().await;
}

pub(crate) async fn what_may_not_be_seen_is_not_taken_for_gone(road: &Road) {
    let mut random = Random::of("no right to watch");
    let mut fleet = Fleet::new(&road.cluster, "unseen", 3, 3).await;
    let sidecar = road.sidecar();
    let errors = async || {
        let metric = sidecar.metric("persistentpodstate_watch_errors_total{kind=\"pods\"}").await;
        metric.map(Option::unwrap_or_default)
    };
    let before = errors().await.unwrap();

    rights_without(&road.cluster, &[LIST, WATCH, WATCH_NODES]).await;
    // A watch that goes on is not ended by that.
    road.interrupt().await;
    road.unready("cannot watch: nodes, pods").await;
    fleet.relabel(&mut random).await;
    fleet.replace_some(&mut random, 5).await;
    fleet.scale("web-b", 2).await;
    fleet.ready().await;
    wait_for("the watch to be tried again and again", TIMEOUT, async || {
        let more = errors().await? - before;
        let watching = sidecar.metric("persistentpodstate_watch_up{kind=\"pods\"}").await?;
        Ok(Progress::when(more >= 3.0 && watching == Some(0.0), (), format!("{more} errors, {watching:?}")))
    })
    .await
    .unwrap();
    assert!(sidecar.log().contains(r#"cannot watch resource \"nodes\""#), "who has to mend it is told how");
    assert_eq!(sidecar.metric("persistentpodstate_ready").await.unwrap(), Some(0.0));
    assert_eq!(sidecar.get("/healthz").await.unwrap().0, 200);

    // Nor does one that starts without the right know better.
    let states = fleet.states().await;
    sidecar.kill().await.unwrap();
    sidecar.start_again().unwrap();
    road.unready("pods").await;
    sidecar.wait_leading(TIMEOUT).await.unwrap();
    tokio::time::sleep(WHILE).await;
    assert_eq!(fleet.states().await, states, "no Pod is known, and none is gone");

    rights_without(&road.cluster, &[]).await;
    sidecar.wait_ready(TIMEOUT).await.unwrap();
    fleet.end_state().await;
}
