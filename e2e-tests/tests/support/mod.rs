//! What the scenarios share.

pub(crate) mod cases;
pub(crate) mod causes;
pub(crate) mod installed;
mod pool;
pub(crate) mod random;

use std::{
    collections::BTreeMap,
    env,
    panic::AssertUnwindSafe,
    pin::Pin,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::{
    Api,
    api::{DynamicObject, PostParams},
};
use pps_e2e::{
    cluster::{Cluster, PodInfo, StatefulSetSpec, real_nodes},
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

pub(crate) use pool::Pool;
pub(crate) use pps_e2e::cluster::{
    kubelet::IP_ANNOTATION,
    nodes::{HOSTNAME, ZONE},
};
pub(crate) use pps_e2e::report::note;
pub(crate) use random::Random;

/// For everything that depends on how fast the machine is.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);
/// For what has to happen at once, on a very busy machine: it bounds a wait, and costs nothing if
/// all is well.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// How long to watch for something that must not happen.
pub(crate) const WHILE: Duration = Duration::from_millis(1500);
pub(crate) const MARKER: &str = "kruise.io/injected-persistent-pod-state";

pub(crate) type Scenario<'a> = (&'static str, Pin<Box<dyn Future<Output = ()> + 'a>>);

macro_rules! scenarios {
    ($cluster:expr; $($name:path),* $(,)?) => {
        vec![$((
            stringify!($name),
            Box::pin($name($cluster)) as std::pin::Pin<Box<dyn std::future::Future<Output = ()>>>,
        )),*]
    };
}

/// Fails where jq is missing, which commands of the documents call: a test that is skipped
/// everywhere tests nothing.
pub(crate) fn require_jq() {
    let output = std::process::Command::new("jq").arg("--version").output();
    assert!(
        output.is_ok_and(|output| output.status.success()),
        "jq is missing: `make jq` installs it"
    );
}

/// How many scenarios of one cluster run at the same time. A small machine is busy with as many.
const AT_ONCE: usize = 10;

/// Runs scenarios at the same time. If one fails, the others continue.
pub(crate) async fn run(scenarios: Vec<Scenario<'_>>) -> Result<()> {
    let all = futures::stream::iter(chosen(scenarios).map(attempt));
    failures(all.buffer_unordered(AT_ONCE).collect().await)
}

/// Runs the scenarios one after the other.
pub(crate) async fn run_in_turn(scenarios: Vec<Scenario<'_>>) -> Result<()> {
    let mut failed = Vec::new();
    for scenario in chosen(scenarios) {
        failed.push(attempt(scenario).await);
    }
    failures(failed)
}

fn chosen(scenarios: Vec<Scenario<'_>>) -> impl Iterator<Item = Scenario<'_>> {
    let only = env::var("PPS_E2E_ONLY").unwrap_or_default();
    scenarios
        .into_iter()
        .filter(move |(name, _)| name.contains(&only))
}

async fn attempt((name, scenario): Scenario<'_>) -> Option<&'static str> {
    let started = Instant::now();
    let good = AssertUnwindSafe(scenario).catch_unwind().await.is_ok();
    let took = started.elapsed();
    note(&if good {
        format!("passed {name}, {took:.1?}")
    } else {
        format!("FAILED {name}, {took:.1?}{}", random::how_to_repeat())
    });
    (!good).then_some(name)
}

fn failures(failed: Vec<Option<&str>>) -> Result<()> {
    let failed: Vec<&str> = failed.into_iter().flatten().collect();
    if !failed.is_empty() {
        bail!("these scenarios failed: {}", failed.join(", "));
    }
    Ok(())
}

/// A Pod's node and address.
pub(crate) type Place = (String, String);

/// The place of each Pod.
pub(crate) fn places(pods: &BTreeMap<String, PodInfo>) -> BTreeMap<String, Place> {
    let place = |pod: &PodInfo| (pod.node.clone().unwrap(), pod.ip.clone().unwrap());
    pods.iter()
        .map(|(name, pod)| (name.clone(), place(pod)))
        .collect()
}

/// The node of each Pod.
pub(crate) fn homes(pods: &BTreeMap<String, PodInfo>) -> BTreeMap<String, String> {
    pods.iter()
        .map(|(name, pod)| (name.clone(), pod.node.clone().unwrap()))
        .collect()
}

/// A StatefulSet for real nodes, whose Pods answer HTTP requests with their names.
pub(crate) fn serving(namespace: &str, name: &str, replicas: u32) -> StatefulSetSpec {
    let serve = "mkdir -p /www; hostname >/www/index.html; exec httpd -f -p 8080 -h /www";
    StatefulSetSpec::new(namespace, name, replicas).template(&json!({"spec": {"containers": [
        {"name": "main", "image": real_nodes::IMAGE, "command": ["sh", "-c", serve],
            "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1}}]}}))
}

/// A Pod template patch that spreads the Pods with matching labels over nodes.
pub(crate) fn spread_over_nodes(label_selector: &Value) -> Value {
    json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": label_selector, "topologyKey": HOSTNAME}]}}}})
}

/// Waits until the API server grants a user a permission, or refuses it.
pub(crate) async fn wait_for_permission(
    cluster: &Cluster,
    user: &str,
    group: &str,
    resource: &str,
    verb: &str,
    granted: bool,
) {
    let (name, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes = json!({"group": group, "resource": name, "subresource": subresource, "verb": verb,
        "namespace": "default"});
    wait_for_review(cluster, user, &attributes, granted).await;
}

/// Waits until a `SubjectAccessReview` with these attributes has that result.
pub(crate) async fn wait_for_review(
    cluster: &Cluster,
    user: &str,
    attributes: &Value,
    granted: bool,
) {
    let review = json!({"spec": {"user": user, "resourceAttributes": attributes}});
    let review = serde_json::from_value(review).unwrap();
    let reviews: Api<SubjectAccessReview> = Api::all(cluster.client());
    wait_for(
        &format!("permission {attributes} of {user} to be {granted}"),
        TIMEOUT,
        async || {
            let answer = reviews
                .create(&PostParams::default(), &review)
                .await?
                .status
                .unwrap_or_default();
            Ok(Progress::when(
                answer.allowed == granted,
                (),
                format!("{answer:?}"),
            ))
        },
    )
    .await
    .unwrap();
}

/// A spec that targets the StatefulSet.
pub(crate) fn spec_for(workload: &str, rest: &Value) -> Value {
    let mut spec =
        json!({"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": workload}});
    json_patch::merge(&mut spec, rest);
    spec
}

/// A spec that requires these topology keys.
pub(crate) fn required(workload: &str, keys: &[&str]) -> Value {
    spec_for(
        workload,
        &json!({"requiredPersistentTopology": {"nodeTopologyKeys": keys}}),
    )
}

/// The elements of a list; none if the value is not a list.
pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The condition of type Recording.
pub(crate) fn recording(object: &DynamicObject) -> Value {
    let condition =
        list(&object.data["status"]["conditions"]).find(|one| one["type"] == "Recording");
    condition.cloned().unwrap_or_default()
}
