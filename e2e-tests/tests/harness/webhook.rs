//! The webhook of the stand-in, called by a real API server.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use pps_e2e::{
    cluster::{Cluster, POLICY_SERVER, StatefulSetSpec},
    kubewarden::stand_in::{HostCalls, KubernetesHost, PolicyModule, WebhookOptions},
    scratch::Scratch,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::guest::{Validate, metadata, policy};

const TIMEOUT: Duration = Duration::from_mins(2);
const ROLE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: policy}
rules: [{apiGroups: [''], resources: [configmaps], verbs: [VERBS]}]
";

fn config_map() -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": "x"}, "data": {"keep": "1", "drop": "2"}}))
        .unwrap()
}

async fn create_pod(cluster: &Cluster) -> Result<(), String> {
    let pod = json!({"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pod = serde_json::from_value(pod).unwrap();
    let created = cluster
        .pods_api("default")
        .create(&PostParams::default(), &pod)
        .await;
    created.map(drop).map_err(|error| error.to_string())
}

fn get(masks: &Value) -> Value {
    json!({"api_version": "v1", "kind": "ConfigMap", "name": "x", "namespace": "default", "disable_cache": true,
        "field_masks": masks})
}

pub(super) async fn policy_reads_the_cluster_with_its_own_permissions(cluster: &mut Cluster) {
    let (payload, answer) = (get(&json!(["data.keep"])), json!({"accepted": true}));
    let ask = Validate::Ask {
        operation: "get_resource",
        payload: &payload,
        answer: &answer,
    };
    let module = Scratch::file("get.wasm", policy(&metadata(), &ask)).unwrap();
    let module = PolicyModule::load_file(module.path()).unwrap();
    cluster
        .start_webhook(module, WebhookOptions::default())
        .await
        .unwrap();
    let webhook = cluster.webhook().unwrap();

    // First without the permission, then without the object.
    let error = create_pod(cluster).await.unwrap_err();
    assert!(error.contains(
        "internal server error: Guest call failure: Callback evaluation failure: ApiError: "
    ));
    assert!(
        error.contains(r#"User "policy-server" cannot get resource "configmaps""#),
        "{error}"
    );
    let role = Scratch::file("get.yaml", ROLE.replace("VERBS", "get")).unwrap();
    cluster
        .apply_rbac_from(role.path(), POLICY_SERVER, &[])
        .await
        .unwrap();
    wait_for("the permission to take effect", TIMEOUT, async || {
        let error = create_pod(cluster).await.unwrap_err();
        let missing = r#"Cannot find v1/ConfigMap named 'x' inside of namespace 'Some("default")'"#;
        Ok(Progress::when(error.contains(missing), (), error))
    })
    .await
    .unwrap();

    // With both: the mask applies to everything except metadata.
    let config_maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "default");
    config_maps
        .create(&PostParams::default(), &config_map())
        .await
        .unwrap();
    webhook.forget();
    let spec = StatefulSetSpec::new("default", "asking", 2);
    cluster.run_stateful_set(&spec).await.unwrap();
    // The StatefulSet controller may ask for a Pod twice: its cache may not show yet what it has
    // created.
    let served = webhook.served();
    let names: BTreeSet<&str> = served.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["asking-0", "asking-1"]));
    for one in &served {
        assert_eq!(
            (one.kind.as_str(), one.operation.as_str()),
            ("Pod", "CREATE")
        );
        let calls: Vec<&str> = one
            .evaluation
            .host_calls
            .iter()
            .map(|call| call.operation.as_str())
            .collect();
        assert_eq!(calls, ["get_resource"]);
    }
    let seen = webhook.host_calls()[0].response_json();
    assert_eq!(seen["data"], json!({"keep": "1"}));
    assert_eq!(seen["metadata"]["name"], "x");
    assert!(seen["metadata"]["uid"].is_string(), "{seen}");
    answers_host_calls_like_policy_server(cluster).await;
}

async fn answers_host_calls_like_policy_server(cluster: &Cluster) {
    let client = cluster.control_plane.client_for(POLICY_SERVER).unwrap();
    let host = KubernetesHost::new(tokio::runtime::Handle::current(), client);
    let call = async |operation: &'static str, payload: Value| {
        let host = host.clone();
        let answer = move || host.call("kubernetes", operation, payload.to_string().as_bytes());
        let answer = tokio::task::spawn_blocking(answer).await.unwrap();
        answer.map(|bytes| serde_json::from_slice::<Value>(&bytes).unwrap())
    };
    let with = |mut payload: Value, key: &str, value: Value| {
        payload[key] = value;
        payload
    };

    let masked = call("get_resource", get(&json!(["data.keep"])))
        .await
        .unwrap();
    assert_eq!(masked["data"], json!({"keep": "1"}));

    // Errors have PolicyServer's messages.
    let error = async |operation, payload| call(operation, payload).await.unwrap_err();
    let failure = "Callback evaluation failure: ";
    let said = error(
        "get_resource",
        with(get(&json!(null)), "api_version", json!("no.such/v1")),
    )
    .await;
    assert!(
        said.starts_with(&format!(
            "{failure}error finding resource no.such/v1 / ConfigMap: "
        )),
        "{said}"
    );
    let said = error(
        "get_resource",
        with(get(&json!(null)), "kind", json!("NoSuch")),
    )
    .await;
    assert!(
        said.starts_with(&format!("{failure}Cannot find resource v1/NoSuch")),
        "{said}"
    );
    let said = error(
        "get_resource",
        with(get(&json!(null)), "namespace", json!(null)),
    )
    .await;
    assert!(
        said.starts_with(&format!(
            "{failure}Resource v1/ConfigMap is namespaced, but no"
        )),
        "{said}"
    );
}
