//! The webhook of the stand-in, called by a real API server.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use pps_e2e::{
    cluster::{Cluster, POLICY_SERVER, StatefulSetSpec},
    kubewarden::stand_in::{HostCalls, KubernetesHost, PolicyModule, Webhook, WebhookOptions, summary},
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
    serde_json::from_value(json!({"metadata": {"name": "x"}, "data": {"keep": "1", "drop": "2"}})).unwrap()
}

async fn create_pod(cluster: &Cluster) -> Result<(), String> {
    let pod =
        json!({"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pod = serde_json::from_value(pod).unwrap();
    let created = cluster.pods_api("default").create(&PostParams::default(), &pod).await;
    created.map(drop).map_err(|error| error.to_string())
}

fn get(masks: &Value) -> Value {
    json!({"api_version": "v1", "kind": "ConfigMap", "name": "x", "namespace": "default", "disable_cache": true,
        "field_masks": masks})
}

#[tokio::test]
async fn policy_reads_the_cluster_with_its_own_permissions() {
    let (payload, answer) = (get(&json!(["data.keep"])), json!({"accepted": true}));
    let ask = Validate::Ask { operation: "get_resource", payload: &payload, answer: &answer };
    let module = Scratch::file("get.wasm", policy(&metadata(), &ask)).unwrap();
    let cluster = Cluster::builder()
        .without_crd()
        .nodes(1, 1)
        .policy_file(module.path(), WebhookOptions::default())
        .start()
        .await
        .unwrap();
    let webhook = cluster.webhook().unwrap();

    // First without the permission, then without the object.
    let error = create_pod(&cluster).await.unwrap_err();
    assert!(
        error.contains("internal server error: Guest call failure: Callback evaluation failure: ApiError: ")
    );
    assert!(error.contains(r#"User "policy-server" cannot get resource "configmaps""#), "{error}");
    let role = Scratch::file("get.yaml", ROLE.replace("VERBS", "get")).unwrap();
    cluster.apply_rbac_from(role.path(), POLICY_SERVER, &[]).await.unwrap();
    wait_for("the permission to take effect", TIMEOUT, async || {
        let error = create_pod(&cluster).await.unwrap_err();
        let missing = r#"Cannot find v1/ConfigMap named 'x' inside of namespace 'Some("default")'"#;
        Ok(Progress::when(error.contains(missing), (), error))
    })
    .await
    .unwrap();

    // With both: the mask applies to everything except metadata.
    let config_maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "default");
    config_maps.create(&PostParams::default(), &config_map()).await.unwrap();
    webhook.forget();
    let spec = StatefulSetSpec::new("default", "web", 2);
    cluster.run_stateful_set(&spec).await.unwrap();
    // The StatefulSet controller may ask for a Pod twice: its cache may not show yet what it has created.
    let served = webhook.served();
    let names: BTreeSet<&str> = served.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["web-0", "web-1"]));
    for one in &served {
        assert_eq!((one.kind.as_str(), one.operation.as_str()), ("Pod", "CREATE"));
        let calls: Vec<&str> = one.evaluation.host_calls.iter().map(|call| call.operation.as_str()).collect();
        assert_eq!(calls, ["get_resource"]);
    }
    let seen = webhook.host_calls()[0].response_json();
    assert_eq!(seen["data"], json!({"keep": "1"}));
    assert_eq!(seen["metadata"]["name"], "x");
    assert!(seen["metadata"]["uid"].is_string(), "{seen}");
    println!("{}", summary(&webhook.evaluation_times()));
    cluster.shutdown().await.unwrap();
}

#[tokio::test]
async fn list_without_permission_blocks_a_worker() {
    let payload = json!({"api_version": "v1", "kind": "ConfigMap", "namespace": "default", "label_selector": null,
        "field_selector": null, "field_masks": ["data.keep"]});
    let answer = json!({"accepted": true});
    let ask = Validate::Ask { operation: "list_resources_by_namespace", payload: &payload, answer: &answer };
    let module = Scratch::file("list.wasm", policy(&metadata(), &ask)).unwrap();
    let role = Scratch::file("list.yaml", ROLE.replace("VERBS", "get, list, watch")).unwrap();
    let options = WebhookOptions { workers: 2, timeout_seconds: 1, ..WebhookOptions::default() };
    let mut cluster = Cluster::builder().without_crd().nodes(1, 1).start().await.unwrap();
    let config_maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "default");
    config_maps.create(&PostParams::default(), &config_map()).await.unwrap();

    // Registering needs a response, so grant the permission first. The list is answered from a watch.
    cluster.apply_rbac_from(role.path(), POLICY_SERVER, &[]).await.unwrap();
    let policy_module = PolicyModule::load_file(module.path()).unwrap();
    cluster.start_webhook(policy_module.clone(), options.clone()).await.unwrap();
    create_pod(&cluster).await.unwrap();
    let webhook = cluster.webhook().unwrap();
    let list = webhook.host_calls()[0].response_json();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    let item = list["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == "x").unwrap();
    assert_eq!(item["data"], json!({"keep": "1"}));
    assert_eq!(item["metadata"]["managedFields"], json!([]));
    assert_eq!(webhook.watches().await, 1);

    // In a new PolicyServer without the permission, the list blocks its worker indefinitely.
    cluster.control_plane.kubectl(&["delete", "clusterrolebinding", "policy-policy-server"]).await.unwrap();
    cluster.webhook().unwrap().unregister(&cluster.client()).await.unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build().unwrap();
    let client = {
        let _context = runtime.enter();
        cluster.control_plane.client_for(POLICY_SERVER).unwrap()
    };
    let fresh = Webhook::start(runtime.handle(), client, policy_module, options).unwrap();
    let configuration = fresh.configuration(cluster.control_plane.version());
    cluster.apply_objects(&[configuration]).await.unwrap();
    wait_for("a worker to hang", TIMEOUT, async || {
        let answer = create_pod(&cluster).await;
        Ok(Progress::when(fresh.idle_workers() < 2, (), format!("{answer:?}")))
    })
    .await
    .unwrap();
    let started = Instant::now();
    let error = create_pod(&cluster).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(error.contains("failed calling webhook"), "{error}");
    assert_eq!(fresh.idle_workers(), 0);

    // Blocked workers do not delay the shutdown.
    let started = Instant::now();
    runtime.shutdown_background();
    drop(fresh);
    cluster.shutdown().await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[tokio::test]
async fn answers_host_calls_like_policy_server() {
    let cluster = Cluster::builder().without_crd().start().await.unwrap();
    let role = Scratch::file(
        "calls.yaml",
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: calls}, rules: [\
         {apiGroups: [''], resources: [configmaps, namespaces], verbs: [get, list, watch]}, \
         {apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}]}",
    )
    .unwrap();
    cluster.apply_rbac_from(role.path(), POLICY_SERVER, &["calls"]).await.unwrap();
    let config_maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "default");
    config_maps.create(&PostParams::default(), &config_map()).await.unwrap();

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

    // The cache keeps whole objects for five seconds and masks them for each caller.
    let cached = with(get(&json!(null)), "disable_cache", json!(false));
    let first = wait_for("the permission to take effect", TIMEOUT, async || {
        Ok(match call("get_resource", cached.clone()).await {
            Ok(answer) => Progress::Done(answer),
            Err(error) => Progress::Waiting(error),
        })
    });
    assert_eq!(first.await.unwrap()["data"], json!({"keep": "1", "drop": "2"}));
    let change = Patch::Merge(json!({"data": {"keep": "changed"}}));
    config_maps.patch("x", &PatchParams::default(), &change).await.unwrap();
    let old = call("get_resource", with(cached.clone(), "field_masks", json!(["data.keep"]))).await.unwrap();
    assert_eq!(old["data"], json!({"keep": "1"}));
    let new = call("get_resource", get(&json!(null))).await.unwrap();
    assert_eq!(new["data"]["keep"], "changed");
    wait_for("the cached answer to expire", Duration::from_secs(8), async || {
        let answer = call("get_resource", cached.clone()).await.unwrap();
        Ok(Progress::when(answer["data"]["keep"] == "changed", (), answer))
    })
    .await
    .unwrap();

    // A list follows changes.
    let list = json!({"api_version": "v1", "kind": "ConfigMap", "label_selector": "app=a", "field_selector": null,
        "field_masks": ["data"]});
    let items =
        async || call("list_resources_all", list.clone()).await.unwrap()["items"].as_array().unwrap().len();
    assert_eq!(items().await, 0);
    let label = Patch::Merge(json!({"metadata": {"labels": {"app": "a"}}}));
    config_maps.patch("x", &PatchParams::default(), &label).await.unwrap();
    wait_for("the list to follow", TIMEOUT, async || {
        let items = items().await;
        Ok(Progress::when(items == 1, (), items))
    })
    .await
    .unwrap();
    assert_eq!(host.watches().await, 1);

    // Errors have PolicyServer's messages.
    let error = async |operation, payload| call(operation, payload).await.unwrap_err();
    let failure = "Callback evaluation failure: ";
    let said = error("get_resource", with(get(&json!(null)), "api_version", json!("no.such/v1"))).await;
    assert!(said.starts_with(&format!("{failure}error finding resource no.such/v1 / ConfigMap: ")), "{said}");
    let said = error("get_resource", with(get(&json!(null)), "kind", json!("NoSuch"))).await;
    assert!(said.starts_with(&format!("{failure}Cannot find resource v1/NoSuch")), "{said}");
    let said = error("get_resource", with(get(&json!(null)), "namespace", json!(null))).await;
    assert!(said.starts_with(&format!("{failure}Resource v1/ConfigMap is namespaced, but no")), "{said}");
    let namespaces = with(with(list.clone(), "kind", json!("Namespace")), "namespace", json!("default"));
    let said = error("list_resources_by_namespace", namespaces).await;
    assert!(said.starts_with(&format!("{failure}resource v1/Namespace is cluster wide.")), "{said}");

    // Permission reviews.
    let may = json!({"subject_access_review": {"user": POLICY_SERVER, "groups": null, "resource_attributes": {
        "verb": "get", "resource": "configmaps", "group": "", "namespace": "default", "name": null,
        "subresource": null, "version": null}}, "disable_cache": true});
    assert_eq!(call("can_i", may.clone()).await.unwrap()["allowed"], true);
    let mut may_not = may;
    may_not["subject_access_review"]["resource_attributes"]["verb"] = json!("delete");
    assert_eq!(call("can_i", may_not).await.unwrap()["allowed"], false);
}
