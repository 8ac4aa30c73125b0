//! Requests that the API server passes on to a policy, to find out whether it calls the policy.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use axum::http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
};
use serde_json::{Value, json};

use super::policy::Policy;
use crate::{
    cluster::pps_resource,
    supervisor::unique,
    wait::{Progress, wait_for},
};

/// Sends, as a dry run, a request that the API server passes on to this policy once it knows the webhook. Returns what
/// the API server said; `None` if there is no such request.
pub async fn send_probe(policy: &Policy, admin: &Client) -> Result<Option<String>> {
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    if policy.is_asked_about("pods") {
        let pod: Pod = serde_json::from_value(pod(policy)).context("the probe")?;
        let created = Api::<Pod>::namespaced(admin.clone(), "default").create(&dry, &pod).await;
        return Ok(Some(describe(created)));
    }
    if policy.is_asked_about("persistentpodstates") {
        let object = serde_json::from_value(invalid_object())?;
        let objects: Api<DynamicObject> = Api::namespaced_with(admin.clone(), "default", &pps_resource());
        return Ok(match objects.create(&dry, &object).await {
            // The cluster does not serve the kind.
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            created => Some(describe(created)),
        });
    }
    Ok(None)
}

/// Waits until the API server calls each of these policies and gets an answer. Its own metrics say whether it did.
pub async fn wait_until_called(policies: &[Policy], admin: &Client, timeout: Duration) -> Result<()> {
    for policy in policies {
        wait_for(&format!("the API server to call {}", policy.id()), timeout, async || {
            let before = calls(policy, admin).await?;
            let Some(answer) = send_probe(policy, admin).await? else { return Ok(Progress::Done(())) };
            let after = calls(policy, admin).await?;
            let answered = after > before && !answer.contains("failed calling webhook");
            Ok(Progress::when(answered, (), format!("{after} calls; {answer}")))
        })
        .await?;
    }
    Ok(())
}

/// How often the API server has called the policy's webhook.
async fn calls(policy: &Policy, admin: &Client) -> Result<u64> {
    const METRIC: &str = "apiserver_admission_webhook_admission_duration_seconds_count{";
    let metrics = admin.request_text(Request::get("/metrics").body(Vec::new())?).await?;
    let label = format!("name=\"{}\"", policy.webhook_name());
    let mut count = 0;
    for line in metrics.lines().filter(|line| line.starts_with(METRIC) && line.contains(&label)) {
        let Some(value) = line.rsplit(' ').next().and_then(|value| value.parse::<u64>().ok()) else {
            bail!("not a count: {line}");
        };
        count += value;
    }
    Ok(count)
}

/// The Pod of a StatefulSet if the policy is asked only about some Pods, else a bare one.
fn pod(policy: &Policy) -> Value {
    let name = unique("webhook-probe");
    let mut pod = json!({"metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "none"}], "automountServiceAccountToken": false}});
    if !policy.spec("objectSelector").is_null() || !policy.spec("matchConditions").is_null() {
        pod["metadata"]["labels"] = json!({"statefulset.kubernetes.io/pod-name": name});
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet",
            "name": "probe", "uid": "probe", "controller": true}]);
    }
    pod
}

/// A PersistentPodState that this product's policy refuses and the schema does not.
fn invalid_object() -> Value {
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "metadata": {"name": "probe"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "probe"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["a"]}}})
}

fn describe<T>(answer: Result<T, kube::Error>) -> String {
    answer.map_or_else(|error| error.to_string(), |_| "accepted".to_owned())
}
