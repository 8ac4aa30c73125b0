//! Which requests a real API server sends to the policies, and that it creates all other Pods while nobody
//! answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use axum::http::{Request, request::Builder};
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use pps_corpus::scope::{ObjectCase, Table, table};
use pps_e2e::{
    cluster::{Cluster, POLICY_SERVER, StatefulSetSpec},
    control_plane::Version,
    install::Installation,
    kubewarden::{self, Policy, stand_in::PolicyModule},
    manifests::{self, render::files_below},
    report,
    repository::{policy_path, repository_file},
    scratch::Scratch,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use crate::scenarios::custom_kinds;
use crate::support::{TIMEOUT, installed::ACCOUNT};

const PODS: &str = "clusterwide-persistent-pod-state";
const CUSTOM: &str = "clusterwide-persistent-pod-state-custom-workloads";
const VALIDATION: &str = "clusterwide-persistent-pod-state-validation";
const LABEL: &str = "persistent-pod-state/injection";
/// How long a Pod may take that nobody holds up, on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(20);

const BASE: [&str; 2] = ["base/cluster-admission-policy", "base/cluster-admission-policy-validation"];
const FOR_CUSTOM_KINDS: &str = "components/custom-workloads/cluster-admission-policy-custom-workloads";

/// Serves these policies of `deploy/`.
async fn cluster(files: &[&str]) -> Cluster {
    let mut cluster = Cluster::builder().nodes(2, 1).deployed_rights().start().await.unwrap();
    let policies = files.iter().map(|file| {
        let file = repository_file(&format!("deploy/{file}.yaml"));
        Policy::new(manifests::read(&file).unwrap().remove(0))
    });
    let policies = policies.collect();
    let module = PolicyModule::load_file(&policy_path()).unwrap();
    let kubeconfig = cluster.control_plane.kubeconfig_for(POLICY_SERVER).unwrap();
    cluster.start_installed_webhook(&module, policies, &kubeconfig).await.unwrap();
    cluster
}

/// Makes a namespace with these labels, in which Pods can be created.
async fn namespace(cluster: &Cluster, name: &str, labels: &BTreeMap<String, String>) {
    cluster.namespace(name).await.unwrap();
    let mut labels = labels.clone();
    // From Kubernetes 1.21 on, the API server itself sets it.
    labels.insert("kubernetes.io/metadata.name".into(), name.into());
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    namespaces.patch(name, &PatchParams::default(), &patch).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), name);
    wait_for("the namespace's ServiceAccount", TIMEOUT, async || {
        Ok(Progress::when(accounts.get_opt("default").await?.is_some(), (), "there is none"))
    })
    .await
    .unwrap();
}

/// The policies that were asked since the last call.
fn asked(cluster: &Cluster) -> Vec<String> {
    let webhook = cluster.webhook().unwrap();
    let mut policies: Vec<String> = webhook.served().into_iter().map(|served| served.policy).collect();
    webhook.forget();
    policies.sort();
    policies
}

/// Says what an old API server cannot show. Returns whether this one has match conditions.
fn has_match_conditions(cluster: &Cluster) -> bool {
    let has = cluster.control_plane.version() >= Version::minor(28);
    if !has {
        report::skipped(
            "the match conditions on a real API server",
            "needs Kubernetes 1.28, see KUBEBUILDER_ASSETS",
        );
    }
    has
}

#[tokio::test]
async fn the_api_server_sends_what_the_table_says() {
    let files = [BASE[0], BASE[1], FOR_CUSTOM_KINDS];
    let (cluster, table) = (cluster(&files).await, table().unwrap());
    let has_conditions = has_match_conditions(&cluster);
    for (name, labels) in &table.namespaces {
        namespace(&cluster, name, labels).await;
    }
    let mut wrong = check_pods(&cluster, &table, has_conditions).await;
    wrong.extend(check_objects(&cluster, &table, has_conditions).await);
    assert_eq!(wrong, Vec::<String>::new());
}

async fn check_pods(cluster: &Cluster, table: &Table, has_conditions: bool) -> Vec<String> {
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let mut wrong = Vec::new();
    for (index, case) in table.pods.iter().enumerate() {
        asked(cluster);
        let pod: Pod = serde_json::from_value(case.pod(&format!("case-{index}"))).unwrap();
        let answer = cluster.pods_api(&case.namespace).create(&dry, &pod).await;
        let expected = [(PODS, case.sent), (CUSTOM, case.custom)];
        let expected =
            expected.into_iter().filter(|(_, sent)| sent.by(has_conditions)).map(|(policy, _)| policy);
        let (expected, asked) = (expected.collect::<Vec<_>>(), asked(cluster));
        if asked != expected || answer.is_err() {
            wrong.push(format!("Pod of {}: {asked:?} instead of {expected:?}; {:?}", case.of, answer.err()));
        }
    }
    wrong
}

async fn check_objects(cluster: &Cluster, table: &Table, has_conditions: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for (index, case) in table.objects.iter().enumerate() {
        let name = format!("case-{index}");
        if case.operation != "CREATE" {
            prepare(cluster, case, &name).await;
        }
        asked(cluster);
        let answer = send(cluster.client(), case, &name).await;
        let expected = if case.sent.by(has_conditions) { vec![VALIDATION] } else { vec![] };
        let asked = asked(cluster);
        // Only protected objects are refused.
        let refused = answer.as_ref().is_err_and(|error| !error.to_string().contains("delete-protection"));
        if asked != expected || refused {
            wrong.push(format!("{}: {asked:?} instead of {expected:?}; {:?}", case.request, answer.err()));
        }
    }
    wrong
}

/// Creates the object to which a request refers.
async fn prepare(cluster: &Cluster, case: &ObjectCase, name: &str) {
    let objects = cluster.pps_api(&case.namespace);
    let object: DynamicObject = serde_json::from_value(case.before(name)).unwrap();
    objects.create(&PostParams::default(), &object).await.unwrap();
    if case.terminating {
        objects.delete(name, &kube::api::DeleteParams::default()).await.unwrap();
    }
}

/// Sends the request as a dry run.
async fn send(admin: Client, case: &ObjectCase, name: &str) -> Result<String, kube::Error> {
    let collection =
        format!("/apis/apps.kruise.io/v1alpha1/namespaces/{}/persistentpodstates", case.namespace);
    let object = match case.subresource.as_str() {
        "" => format!("{collection}/{name}"),
        subresource => format!("{collection}/{name}/{subresource}"),
    };
    let request = |method: &str, path: &str, content: &str| -> Builder {
        let request = Request::builder().method(method).uri(format!("{path}?dryRun=All"));
        let request = request.header("Content-Type", content);
        match case.user.as_str() {
            "" => request,
            user => request.header("Impersonate-User", user).header("Impersonate-Group", "system:masters"),
        }
    };
    let body = |value: &Value| value.to_string().into_bytes();
    let request = match case.operation.as_str() {
        "CREATE" => request("POST", &collection, "application/json").body(body(&case.before(name))),
        "UPDATE" => request("PATCH", &object, "application/merge-patch+json").body(body(&case.patch())),
        _ => request("DELETE", &object, "application/json").body(Vec::new()),
    };
    admin.request_text(request.unwrap()).await
}

#[tokio::test]
async fn pods_that_have_no_state_are_created_while_the_policy_server_is_down() {
    let mut cluster = cluster(&BASE).await;
    let paused = BTreeMap::from([(LABEL.to_owned(), "disabled".to_owned())]);
    namespace(&cluster, "paused", &paused).await;
    namespace(&cluster, "shop", &BTreeMap::new()).await;
    // The webhooks stay registered.
    drop(cluster.webhook.take());

    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"restartPolicy": "Always",
        "containers": [{"name": "c", "image": "none"}], "automountServiceAccountToken": false}});
    let mut job = template.clone();
    job["spec"]["restartPolicy"] = "Never".into();
    let selector = json!({"matchLabels": {"app": "x"}});
    let object = |kind: &str, name: &str, spec: Value| {
        let api_version = if kind == "Job" { "batch/v1" } else { "apps/v1" };
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": spec})
    };
    let mut bare = template.clone();
    bare["apiVersion"] = "v1".into();
    bare["kind"] = "Pod".into();
    bare["metadata"] = json!({"name": "bare", "namespace": "shop"});
    let spec = json!({"replicas": 1, "selector": selector, "template": template});
    let daemons = json!({"selector": selector, "template": template});
    let objects = [
        bare,
        object("Deployment", "deployment", spec),
        object("DaemonSet", "daemons", daemons),
        object("Job", "job", json!({"template": job})),
        StatefulSetSpec::new("paused", "web", 1).object(),
        StatefulSetSpec::new("shop", "web", 1).object(),
    ];
    cluster.apply_objects(&objects).await.unwrap();
    wait_for_pods(&cluster, "shop", &["bare", "deployment-", "daemons-", "job-"]).await;
    wait_for_pods(&cluster, "paused", &["web-0"]).await;
    let names = pod_names(&cluster, "shop").await;
    assert!(!names.contains(&"web-0".to_owned()), "its state may be recorded: {names:?}");

    // The label alone lets the rest start.
    namespace(&cluster, "shop", &paused).await;
    wait_for_pods(&cluster, "shop", &["web-0"]).await;
}

async fn pod_names(cluster: &Cluster, namespace: &str) -> Vec<String> {
    let pods = cluster.pods_api(namespace).list(&ListParams::default()).await.unwrap();
    pods.into_iter().filter_map(|pod| pod.metadata.name).collect()
}

async fn wait_for_pods(cluster: &Cluster, namespace: &str, prefixes: &[&str]) {
    wait_for(&format!("the Pods {prefixes:?} of {namespace}"), AT_ONCE, async || {
        let names = pod_names(cluster, namespace).await;
        let all = prefixes.iter().all(|prefix| names.iter().any(|name| name.starts_with(prefix)));
        Ok(Progress::when(all, (), format!("{names:?}")))
    })
    .await
    .unwrap();
}

/// The product with the scenarios' Database as a custom kind, as deploy/README.md says: a copy of the
/// component with the kind named in `workload.yaml`.
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
    fs::write(copy.path().join("kustomization.yaml"), kustomization.to_string()).unwrap();
    copy
}

#[tokio::test]
async fn a_custom_kind_that_is_named_once_is_recorded_and_returns() {
    let mut cluster = Cluster::builder().without_crd().nodes(1, 1).start().await.unwrap();
    kubewarden::install_definitions(&cluster.client(), cluster.control_plane.version()).await.unwrap();
    for kind in [custom_kinds::openkruise(), custom_kinds::database()] {
        custom_kinds::define(&cluster, &kind).await;
    }
    let mut installation = Installation::publish(&cluster).await.unwrap();
    let kustomization = kustomization_for_databases();
    installation.apply(&cluster, kustomization.path().to_str().unwrap()).await.unwrap();
    installation.wait_available(&cluster).await.unwrap();
    installation.serve_policy(&mut cluster, ACCOUNT, false).await.unwrap();
    cluster.webhook().unwrap().forget();

    let _operator = custom_kinds::operator(&cluster);
    custom_kinds::returns_pods_of_an_installed_custom_kind(&cluster).await;
    assert_eq!(installation.problems(), Vec::<String>::new());
    if has_match_conditions(&cluster) {
        let asked: BTreeSet<(String, String)> = cluster
            .webhook()
            .unwrap()
            .served()
            .into_iter()
            .filter(|served| served.kind == "Pod")
            .map(|served| (served.policy, served.name.split('-').next().unwrap_or_default().to_owned()))
            .collect();
        let expected = [(PODS, "web"), (CUSTOM, "db")];
        assert_eq!(asked, expected.map(|(policy, workload)| (policy.to_owned(), workload.to_owned())).into());
    }
}
