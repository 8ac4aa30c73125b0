//! Requests that the API server passes on to a policy, to find out whether it calls the policy.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use axum::http::Request;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use pps_core::INJECTION_LABEL;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::policy::Policy;
use crate::{
    cluster::pps_resource,
    supervisor::unique,
    wait::{Progress, wait_for},
};

/// How long a probe is sent again.
const PATIENCE: Duration = Duration::from_secs(3);

/// Sends, as a dry run, a request that the API server passes on to this policy once it knows the
/// webhook. Returns what the API server said; `None` if there is no such request.
pub async fn send_probe(policy: &Policy, admin: &Client) -> Result<Option<String>> {
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    if policy.is_asked_about("pods") {
        if !selects_default_namespace(policy, admin).await? {
            return Ok(None);
        }
        let pod: Pod = serde_json::from_value(pod(policy)).context("the probe")?;
        let pods: Api<Pod> = Api::namespaced(admin.clone(), "default");
        // The client repeats a request that is answered with 503, which is the policy's answer if
        // it cannot look up anything.
        let created = timeout(PATIENCE, pods.create(&dry, &pod)).await;
        return Ok(Some(
            created.map_or_else(|_| "refused again and again".to_owned(), describe),
        ));
    }
    if policy.is_asked_about("persistentpodstates") {
        let object = serde_json::from_value(invalid_object())?;
        let objects: Api<DynamicObject> =
            Api::namespaced_with(admin.clone(), "default", &pps_resource());
        return Ok(match objects.create(&dry, &object).await {
            // The cluster does not serve the kind.
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            created => Some(describe(created)),
        });
    }
    Ok(None)
}

/// Waits until the API server calls each of these policies and gets an answer. Its own metrics say
/// whether it did.
pub async fn wait_until_called(
    policies: &[Policy],
    admin: &Client,
    timeout: Duration,
) -> Result<()> {
    for policy in policies {
        wait_for(
            &format!("the API server to call {}", policy.id()),
            timeout,
            async || {
                let before = calls(policy, admin).await?;
                let Some(answer) = send_probe(policy, admin).await? else {
                    return Ok(Progress::Done(()));
                };
                let after = calls(policy, admin).await?;
                let answered = after > before && !answer.contains("failed calling webhook");
                Ok(Progress::when(
                    answered,
                    (),
                    format!("{after} calls; {answer}"),
                ))
            },
        )
        .await?;
    }
    Ok(())
}

/// How often the API server has called the policy's webhook.
async fn calls(policy: &Policy, admin: &Client) -> Result<u64> {
    const METRIC: &str = "apiserver_admission_webhook_admission_duration_seconds_count{";
    let metrics = admin
        .request_text(Request::get("/metrics").body(Vec::new())?)
        .await?;
    let label = format!("name=\"{}\"", policy.webhook_name());
    let mut count = 0;
    for line in metrics
        .lines()
        .filter(|line| line.starts_with(METRIC) && line.contains(&label))
    {
        let Some(value) = line
            .rsplit(' ')
            .next()
            .and_then(|value| value.parse::<u64>().ok())
        else {
            bail!("not a count: {line}");
        };
        count += value;
    }
    Ok(count)
}

/// A Pod that the policy is asked about: with the labels that its selector wants and, if it has a
/// condition on the owner as this product's policies have, with such an owner.
fn pod(policy: &Policy) -> Value {
    let name = unique("webhook-probe");
    let mut pod = json!({"metadata": {"name": name, "labels": policy.spec("objectSelector")["matchLabels"]},
        "spec": {"containers": [{"name": "c", "image": "none"}], "automountServiceAccountToken": false}});
    let selected = policy.spec("objectSelector")["matchExpressions"].as_array();
    for expression in selected.into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        match expression["operator"].as_str() {
            Some("Exists") => pod["metadata"]["labels"][key] = name.as_str().into(),
            Some("In") => pod["metadata"]["labels"][key] = expression["values"][0].clone(),
            _ => {}
        }
    }
    let conditions = policy
        .spec("matchConditions")
        .as_array()
        .into_iter()
        .flatten();
    let owners = conditions.filter_map(|condition| {
        let text = condition["expression"].as_str()?;
        let kind = quoted_after(text, "owner.kind == ")?;
        let group = quoted_after(text, "owner.apiVersion.startsWith(")?.trim_end_matches('/');
        Some(json!({"apiVersion": format!("{group}/v1"), "kind": kind, "name": "probe", "uid": "probe", "controller": true}))
    });
    let mut owners: Vec<Value> = owners.collect();
    // Conditions of former versions exclude kinds instead of naming them.
    if owners.is_empty()
        && policy
            .spec("matchConditions")
            .to_string()
            .contains("ownerReferences")
    {
        owners.push(
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "probe", "uid": "probe",
            "controller": true}),
        );
    }
    if !owners.is_empty() {
        pod["metadata"]["ownerReferences"] = owners.into();
    }
    pod
}

/// The text between the next two quotes after this one.
fn quoted_after<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split('\'').nth(1)
}

/// Whether the namespace `default` can be in the policy's scope; takes it in if a label does that.
async fn selects_default_namespace(policy: &Policy, admin: &Client) -> Result<bool> {
    let expressions = policy.spec("namespaceSelector")["matchExpressions"].as_array();
    let asks = |one: &&Value| {
        ["In", "Exists"]
            .iter()
            .any(|operator| one["operator"] == *operator)
    };
    let mut asked = expressions.into_iter().flatten().filter(asks).peekable();
    if asked.peek().is_none() {
        return Ok(true);
    }
    let labels = json!({"metadata": {"labels": {INJECTION_LABEL: "enabled"}}});
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    namespaces
        .patch("default", &PatchParams::default(), &Patch::Merge(labels))
        .await?;
    Ok(asked.all(|one| one["key"] == INJECTION_LABEL))
}

/// A PersistentPodState that this product's policy refuses and the definition does not.
fn invalid_object() -> Value {
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "metadata": {"name": "probe"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "probe"},
            "persistentPodAnnotations": [{"key": "cni.projectcalico.org/podIP"}]}})
}

fn describe<T>(answer: Result<T, kube::Error>) -> String {
    answer.map_or_else(|error| error.to_string(), |_| "accepted".to_owned())
}
