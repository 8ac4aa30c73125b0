//! Which requests a real API server sends to the policies, and that it creates all other Pods while
//! nobody answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use axum::http::{Request, request::Builder};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use pps_core::{DEFAULT_NAMESPACE_SELECTOR, INJECTION_LABEL as LABEL};
use pps_corpus::scope::{ObjectCase, Table, table};
use pps_e2e::{
    cluster::{Cluster, POLICY_SERVER, StatefulSetSpec},
    install::Installation,
    kubewarden::{self, Policy, stand_in::PolicyModule},
    manifests::{self, render::files_below},
    repository::{policy_path, repository_file},
    scratch::Scratch,
    sidecar::SidecarOptions,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use crate::behaviour::custom_kinds;
use crate::support::{self, HOSTNAME, MARKER, Pool, SOON, WHILE, installed::ACCOUNT, required};

const PODS: &str = "clusterwide-persistent-pod-state";
const CUSTOM: &str = "clusterwide-persistent-pod-state-custom-workloads";
const VALIDATION: &str = "clusterwide-persistent-pod-state-validation";
/// How long a Pod may take that nobody holds up, on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(20);

const BASE: [&str; 2] = [
    "base/cluster-admission-policy",
    "base/cluster-admission-policy-validation",
];
const FOR_CUSTOM_KINDS: &str =
    "components/custom-workloads/cluster-admission-policy-custom-workloads";

/// Serves these policies of `deploy/` in place of others.
async fn serve(cluster: &mut Cluster, files: &[&str]) {
    let policies = files.iter().map(|file| {
        let file = repository_file(&format!("deploy/{file}.yaml"));
        Policy::new(manifests::read(&file).unwrap().remove(0))
    });
    let policies = policies.collect();
    let module = PolicyModule::load_file(&policy_path()).unwrap();
    let kubeconfig = cluster.control_plane.kubeconfig_for(POLICY_SERVER).unwrap();
    let webhook = cluster
        .start_installed_webhook(&module, policies, &kubeconfig)
        .await;
    cluster.webhook = Some(webhook.unwrap());
}

/// Makes a namespace with these labels.
async fn namespace(cluster: &Cluster, name: &str, labels: &BTreeMap<String, String>) {
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let object = json!({"metadata": {"name": name, "labels": labels}});
    let object: Namespace = serde_json::from_value(object).unwrap();
    // Labels that come later may reach the API server's cache after the first Pod.
    if namespaces
        .create(&PostParams::default(), &object)
        .await
        .is_err()
    {
        let mut labels = json!(labels);
        labels
            .as_object_mut()
            .unwrap()
            .entry(LABEL)
            .or_insert(Value::Null);
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        namespaces
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
}

/// The policies that were asked since the last call.
fn asked(cluster: &Cluster) -> Vec<String> {
    let webhook = cluster.webhook().unwrap();
    let mut policies: Vec<String> = webhook
        .served()
        .into_iter()
        .map(|served| served.policy)
        .collect();
    webhook.forget();
    policies.sort();
    policies
}

#[tokio::test]
async fn pods_are_sent_and_recorded_as_their_namespaces_say() {
    let args = vec![format!("--namespace-selector={DEFAULT_NAMESPACE_SELECTOR}")];
    let sidecar = SidecarOptions {
        args,
        ..SidecarOptions::default()
    };
    let cluster = Cluster::builder()
        .nodes(2, 1)
        .deployed_rights()
        .sidecar(sidecar);
    let mut cluster = cluster.start().await.unwrap();
    serve(&mut cluster, &BASE).await;
    support::run_in_turn(
        scenarios![&cluster; one_label_takes_a_namespace_into_scope_and_out_of_it],
    )
    .await
    .unwrap();
    // The webhooks stay registered.
    drop(cluster.webhook.take());
    let without =
        scenarios![&cluster; pods_that_have_no_state_are_created_while_the_policy_server_is_down];
    support::run_in_turn(without).await.unwrap();
    serve(&mut cluster, &[BASE[0], BASE[1], FOR_CUSTOM_KINDS]).await;
    support::run_in_turn(scenarios![&cluster; the_api_server_sends_what_the_table_says])
        .await
        .unwrap();
}

async fn the_api_server_sends_what_the_table_says(cluster: &Cluster) {
    let table = table().unwrap();
    for (name, labels) in &table.namespaces {
        namespace(cluster, name, labels).await;
    }
    let mut wrong = check_pods(cluster, &table).await;
    wrong.extend(check_objects(cluster, &table).await);
    assert_eq!(wrong, Vec::<String>::new());
}

async fn check_pods(cluster: &Cluster, table: &Table) -> Vec<String> {
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let mut wrong = Vec::new();
    for (index, case) in table.pods.iter().enumerate() {
        asked(cluster);
        let pod: Pod = serde_json::from_value(case.pod(&format!("case-{index}"))).unwrap();
        let answer = cluster.pods_api(&case.namespace).create(&dry, &pod).await;
        let expected = [(PODS, case.sent), (CUSTOM, case.custom)];
        let expected = expected
            .into_iter()
            .filter(|(_, sent)| *sent)
            .map(|(policy, _)| policy);
        let (expected, asked) = (expected.collect::<Vec<_>>(), asked(cluster));
        if asked != expected || answer.is_err() {
            wrong.push(format!(
                "Pod of {}: {asked:?} instead of {expected:?}; {:?}",
                case.of,
                answer.err()
            ));
        }
    }
    wrong
}

async fn check_objects(cluster: &Cluster, table: &Table) -> Vec<String> {
    let mut wrong = Vec::new();
    for (index, case) in table.objects.iter().enumerate() {
        let name = format!("case-{index}");
        if case.operation != "CREATE" {
            prepare(cluster, case, &name).await;
        }
        asked(cluster);
        let answer = send(cluster.client(), case, &name).await;
        let expected = if case.sent { vec![VALIDATION] } else { vec![] };
        let asked = asked(cluster);
        // Only protected objects are refused.
        let refused = answer
            .as_ref()
            .is_err_and(|error| !error.to_string().contains("delete-protection"));
        if asked != expected || refused {
            wrong.push(format!(
                "{}: {asked:?} instead of {expected:?}; {:?}",
                case.request,
                answer.err()
            ));
        }
    }
    wrong
}

/// Creates the object to which a request refers.
async fn prepare(cluster: &Cluster, case: &ObjectCase, name: &str) {
    let objects = cluster.pps_api(&case.namespace);
    let object: DynamicObject = serde_json::from_value(case.before(name)).unwrap();
    objects
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
    if case.terminating {
        objects
            .delete(name, &kube::api::DeleteParams::default())
            .await
            .unwrap();
    }
}

/// Sends the request as a dry run.
async fn send(admin: Client, case: &ObjectCase, name: &str) -> Result<String, kube::Error> {
    let collection = format!(
        "/apis/apps.kruise.io/v1alpha1/namespaces/{}/persistentpodstates",
        case.namespace
    );
    let object = match case.subresource.as_str() {
        "" => format!("{collection}/{name}"),
        subresource => format!("{collection}/{name}/{subresource}"),
    };
    let request = |method: &str, path: &str, content: &str| -> Builder {
        let request = Request::builder()
            .method(method)
            .uri(format!("{path}?dryRun=All"));
        let request = request.header("Content-Type", content);
        match case.user.as_str() {
            "" => request,
            user => request
                .header("Impersonate-User", user)
                .header("Impersonate-Group", "system:masters"),
        }
    };
    let body = |value: &Value| value.to_string().into_bytes();
    let request = match case.operation.as_str() {
        "CREATE" => request("POST", &collection, "application/json").body(body(&case.before(name))),
        "UPDATE" => {
            request("PATCH", &object, "application/merge-patch+json").body(body(&case.patch()))
        }
        _ => request("DELETE", &object, "application/json").body(Vec::new()),
    };
    admin.request_text(request.unwrap()).await
}

async fn pods_that_have_no_state_are_created_while_the_policy_server_is_down(cluster: &Cluster) {
    let label = |value: &str| BTreeMap::from([(LABEL.to_owned(), value.to_owned())]);
    // Not the table's namespaces: it needs theirs new, with labels that never changed.
    namespace(cluster, "down-paused", &label("disabled")).await;
    namespace(cluster, "down-plain", &BTreeMap::new()).await;
    namespace(cluster, "down-shop", &label("enabled")).await;

    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"restartPolicy": "Always",
        "containers": [{"name": "c", "image": "none"}], "automountServiceAccountToken": false}});
    let mut job = template.clone();
    job["spec"]["restartPolicy"] = "Never".into();
    let selector = json!({"matchLabels": {"app": "x"}});
    let object = |kind: &str, name: &str, spec: Value| {
        let api_version = if kind == "Job" { "batch/v1" } else { "apps/v1" };
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "down-shop"}, "spec": spec})
    };
    let mut bare = template.clone();
    bare["apiVersion"] = "v1".into();
    bare["kind"] = "Pod".into();
    bare["metadata"] = json!({"name": "bare", "namespace": "down-shop"});
    let spec = json!({"replicas": 1, "selector": selector, "template": template});
    let daemons = json!({"selector": selector, "template": template});
    let objects = [
        bare,
        object("Deployment", "deployment", spec),
        object("DaemonSet", "daemons", daemons),
        object("Job", "job", json!({"template": job})),
        StatefulSetSpec::new("down-paused", "web", 1).object(),
        StatefulSetSpec::new("down-plain", "web", 1).object(),
        StatefulSetSpec::new("down-shop", "web", 1).object(),
    ];
    cluster.apply_objects(&objects).await.unwrap();
    wait_for_pods(
        cluster,
        "down-shop",
        &["bare", "deployment-", "daemons-", "job-"],
    )
    .await;
    wait_for_pods(cluster, "down-paused", &["web-0"]).await;
    wait_for_pods(cluster, "down-plain", &["web-0"]).await;
    let names = pod_names(cluster, "down-shop").await;
    assert!(
        !names.contains(&"web-0".to_owned()),
        "its state may be recorded: {names:?}"
    );

    // Without the label, the rest starts.
    namespace(cluster, "down-shop", &BTreeMap::new()).await;
    wait_for_pods(cluster, "down-shop", &["web-0"]).await;
}

/// The label is the whole switch: for injecting and for recording.
async fn one_label_takes_a_namespace_into_scope_and_out_of_it(cluster: &Cluster) {
    let enabled = BTreeMap::from([(LABEL.to_owned(), "enabled".to_owned())]);
    namespace(cluster, "switch", &BTreeMap::new()).await;
    let pool = Pool::new(cluster, "switch", 3, 3).await;
    pool.object("db", &required("db", &[HOSTNAME])).await;
    cluster
        .run_stateful_set(&pool.stateful_set("db", 1))
        .await
        .unwrap();
    let is_out = |pps: &DynamicObject| {
        let condition = &pps.data["status"]["conditions"][0];
        let message = condition["message"].as_str().unwrap_or_default();
        condition["reason"] == "NamespaceNotEnabled"
            && message.starts_with(
                "kubectl label namespace switch persistent-pod-state/injection=enabled",
            )
    };
    let out = async || {
        pool.wait_for_object("db", "the namespace to be out of scope", SOON, is_out)
            .await
    };
    assert_eq!(
        out().await.data["status"]["podStates"],
        Value::Null,
        "nothing is recorded"
    );

    namespace(cluster, "switch", &enabled).await;
    let home = pool.recorded("db", "db").await["db-0"]["nodeName"].clone();
    pool.load(home.as_str().unwrap()).await;
    let back = &pool.recreate("db", &["db-0"]).await["db-0"];
    assert_eq!(
        (json!(back.node), back.annotations.contains_key(MARKER)),
        (home.clone(), true)
    );

    namespace(cluster, "switch", &BTreeMap::new()).await;
    out().await;
    let away = pool.recreate("db", &["db-0"]).await["db-0"].clone();
    assert_ne!(json!(away.node), home, "nothing brings it back");
    assert!(!away.annotations.contains_key(MARKER), "{away:?}");
    tokio::time::sleep(WHILE).await;
    assert_eq!(
        pool.states("db").await["db-0"]["nodeName"],
        home,
        "the state outlives this"
    );

    namespace(cluster, "switch", &enabled).await;
    let now = pool.recorded("db", "db").await["db-0"]["nodeName"].clone();
    assert_eq!(now, json!(away.node));
    pool.load(now.as_str().unwrap()).await;
    let back = &pool.recreate("db", &["db-0"]).await["db-0"];
    assert_eq!(
        (json!(back.node), back.annotations.contains_key(MARKER)),
        (now, true)
    );
}

async fn pod_names(cluster: &Cluster, namespace: &str) -> Vec<String> {
    let pods = cluster
        .pods_api(namespace)
        .list(&ListParams::default())
        .await
        .unwrap();
    pods.into_iter()
        .filter_map(|pod| pod.metadata.name)
        .collect()
}

async fn wait_for_pods(cluster: &Cluster, namespace: &str, prefixes: &[&str]) {
    wait_for(
        &format!("the Pods {prefixes:?} of {namespace}"),
        AT_ONCE,
        async || {
            let names = pod_names(cluster, namespace).await;
            let all = prefixes
                .iter()
                .all(|prefix| names.iter().any(|name| name.starts_with(prefix)));
            Ok(Progress::when(all, (), format!("{names:?}")))
        },
    )
    .await
    .unwrap();
}

/// The product with the scenarios' Database as a custom kind, as deploy/README.md says: a copy of
/// the component with the kind named in `workload.yaml`.
fn kustomization_for_databases() -> Scratch {
    let deploy = repository_file("deploy");
    let copy = Scratch::path_for("databases");
    for file in files_below(&deploy).unwrap() {
        let target = copy.path().join(file.strip_prefix(&deploy).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        let mut text = fs::read_to_string(&file).unwrap();
        if file.ends_with("custom-workloads/workload.yaml") {
            text = text.replace("group: example.io", "group: e2e.pps.kubewarden.io");
        }
        fs::write(target, text).unwrap();
    }
    let kustomization = json!({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": ["base"], "components": ["components/custom-workloads"]});
    fs::write(
        copy.path().join("kustomization.yaml"),
        kustomization.to_string(),
    )
    .unwrap();
    copy
}

#[tokio::test]
async fn a_custom_kind_that_is_named_once_is_recorded_and_returns() {
    let mut cluster = Cluster::builder()
        .without_crd()
        .nodes(1, 1)
        .start()
        .await
        .unwrap();
    kubewarden::install_definitions(&cluster.client())
        .await
        .unwrap();
    for kind in [custom_kinds::openkruise(), custom_kinds::database()] {
        custom_kinds::define(&cluster, &kind).await;
    }
    let mut installation = Installation::publish(&cluster).await.unwrap();
    let kustomization = kustomization_for_databases();
    installation
        .apply(&cluster, kustomization.path().to_str().unwrap())
        .await
        .unwrap();
    installation.wait_available(&cluster).await.unwrap();
    installation
        .serve_policy(&mut cluster, ACCOUNT, false)
        .await
        .unwrap();
    cluster.webhook().unwrap().forget();

    let _operator = custom_kinds::operator(&cluster);
    custom_kinds::returns_pods_of_an_installed_custom_kind(&cluster).await;
    assert_eq!(installation.problems(), Vec::<String>::new());
    let asked: BTreeSet<(String, String)> = cluster
        .webhook()
        .unwrap()
        .served()
        .into_iter()
        .filter(|served| served.kind == "Pod")
        .map(|served| {
            (
                served.policy,
                served.name.split('-').next().unwrap_or_default().to_owned(),
            )
        })
        .collect();
    let expected = [(PODS, "web"), (CUSTOM, "db")];
    assert_eq!(
        asked,
        expected
            .map(|(policy, workload)| (policy.to_owned(), workload.to_owned()))
            .into()
    );
}
