//! What users notice of Kubewarden's controller, which is a container image that cannot run here:
//! the objects by which Helm finds its namespace, and the changes of policies that its webhook
//! refuses.

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::Arc,
    time::Duration,
};

use anyhow::Result;
use axum::{Json, Router, routing::post};
use axum_server::tls_rustls::RustlsConfig;
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use super::{
    definitions::{NAMESPACE, SERVICE_ACCOUNT, install_definitions},
    stand_in::tls,
};
use crate::{
    cluster::Cluster,
    control_plane::ServerCertificate,
    manifests,
    wait::{Progress, wait_for},
};

/// The image of the PolicyServer `default`.
pub const IMAGE: &str = "ghcr.io/kubewarden/adm-controller/policy-server:v1.36.0";

/// Kubewarden as its charts install it: its definitions, the webhook of its controller, and the
/// PolicyServer `default`.
pub struct Controller {
    /// Its own, since Helm blocks the runtime of the test.
    runtime: Option<Runtime>,
}

impl Controller {
    /// Installs Kubewarden as its charts do without values.
    pub async fn install(cluster: &Cluster) -> Result<Self> {
        Self::install_in(cluster, NAMESPACE, SERVICE_ACCOUNT).await
    }

    /// Installs Kubewarden in a namespace, with a ServiceAccount of the PolicyServer `default`, and
    /// waits until its webhook is called.
    pub async fn install_in(cluster: &Cluster, namespace: &str, account: &str) -> Result<Self> {
        manifests::ensure_namespace(&cluster.client(), namespace).await?;
        install_definitions(&cluster.client()).await?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let controller = Self {
            runtime: Some(runtime),
        };
        let certificate = ServerCertificate::generate("kubewarden-controller")?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let url = format!(
            "https://127.0.0.1:{}/validate",
            listener.local_addr()?.port()
        );
        let server = {
            let _context = handle.enter();
            let tls = RustlsConfig::from_config(Arc::new(tls(&certificate)?));
            axum_server::from_tcp_rustls(listener, tls)?
        };
        let router = Router::new().route(
            "/validate",
            post(async |Json(review)| Json(answer(&review))),
        );
        handle.spawn(async move {
            if let Err(error) = server.serve(router.into_make_service()).await {
                tracing::error!("controller: {error}");
            }
        });
        let server = json!({"apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyServer",
            "metadata": {"name": "default"},
            "spec": {"image": IMAGE, "replicas": 1, "serviceAccountName": account}});
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": namespace}});
        let configuration = configuration(&url, &certificate.authority, namespace);
        manifests::apply(&cluster.client(), &[account, server, configuration]).await?;
        wait_until_called(cluster).await?;
        Ok(controller)
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// As Kubewarden's chart names it. The webhook is called by its address here; the second entry,
/// which concerns no object, names the Service.
fn configuration(url: &str, authority: &str, namespace: &str) -> Value {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    let authority = BASE64_STANDARD.encode(authority);
    let service = json!({"name": "kubewarden-controller-webhook-service", "namespace": namespace});
    let common =
        json!({"sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail"});
    let webhook = |specific: Value| {
        let mut webhook = common.clone();
        if let (Some(webhook), Value::Object(specific)) = (webhook.as_object_mut(), specific) {
            webhook.extend(specific);
        }
        webhook
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "kubewarden-controller-validating-webhook-configuration",
            "labels": {"app.kubernetes.io/version": IMAGE.rsplit(':').next()}},
        "webhooks": [
            webhook(json!({
                "name": "vclusteradmissionpolicy.kb.io",
                "clientConfig": {"url": url, "caBundle": authority},
                "rules": [{"apiGroups": ["policies.kubewarden.io"], "apiVersions": ["v1"],
                    "operations": ["UPDATE"], "resources": ["clusteradmissionpolicies"]}],
            })),
            webhook(json!({
                "name": "vpolicyserver.kb.io",
                "clientConfig": {"service": service, "caBundle": authority},
                "rules": [],
            })),
        ],
    })
}

/// The answer to an update of a policy.
fn answer(review: &Value) -> Value {
    let request = &review["request"];
    let field = |object: &str, field: &str, default: &str| {
        request[object]["spec"][field]
            .as_str()
            .unwrap_or(default)
            .to_owned()
    };
    let (old, new) = ("oldObject", "object");
    let refusal = if field(old, "policyServer", "default") != field(new, "policyServer", "default")
    {
        Some(("spec.policyServer", "Forbidden: the field is immutable"))
    } else if field(old, "mode", "protect") == "protect"
        && field(new, "mode", "protect") == "monitor"
    {
        let reason =
            "Forbidden: field cannot transition from protect to monitor. Recreate instead.";
        Some(("spec.mode", reason))
    } else {
        None
    };
    let mut response = json!({"uid": request["uid"], "allowed": refusal.is_none()});
    if let Some((field, message)) = refusal {
        let name = &request["name"];
        let cause = json!({"reason": "FieldValueForbidden", "message": message, "field": field});
        response["status"] = json!({"code": 422, "reason": "Invalid",
            "message": format!("ClusterAdmissionPolicy.policies.kubewarden.io {name} is invalid: {field}: {message}"),
            "details": {"group": "policies.kubewarden.io", "kind": "ClusterAdmissionPolicy", "name": name,
                "causes": [cause]}});
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

/// The API server calls a webhook a moment after its registration.
async fn wait_until_called(cluster: &Cluster) -> Result<()> {
    let policy = json!({"apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy",
        "metadata": {"name": "probe"},
        "spec": {"module": "registry://registry.example/probe:v1", "mutating": false, "policyServer": "default",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}]}});
    cluster.apply_objects(&[policy]).await?;
    let kind = ApiResource {
        group: "policies.kubewarden.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "policies.kubewarden.io/v1".to_owned(),
        kind: "ClusterAdmissionPolicy".to_owned(),
        plural: "clusteradmissionpolicies".to_owned(),
    };
    let policies: Api<DynamicObject> = Api::all_with(cluster.client(), &kind);
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let moved = Patch::Merge(json!({"spec": {"policyServer": "other"}}));
    wait_for(
        "the API server to call Kubewarden's webhook",
        Duration::from_mins(2),
        async || {
            let answer = policies.patch("probe", &dry, &moved).await;
            let answer = answer.map_or_else(|error| error.to_string(), |_| "accepted".to_owned());
            Ok(Progress::when(
                answer.contains("the field is immutable"),
                (),
                answer,
            ))
        },
    )
    .await?;
    policies.delete("probe", &DeleteParams::default()).await?;
    Ok(())
}
