//! The workers of a policy server, which its policies share: nothing that is missing in the cluster
//! holds one of them, and a lookup that takes too long is interrupted.
//!
//! With `POLICY_SERVER=path` the same tests also run with Kubewarden's own PolicyServer.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use futures::future::{Either, join_all, select};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use pps_e2e::{
    cluster::{Cluster, POLICY_SERVER, pps_resource, proxy::Proxy},
    kubewarden::{
        Policy, ReviewClient,
        policy_server::{self, PolicyServer},
        probe::wait_until_called,
        review,
        stand_in::{MAX_REQUEST, PolicyModule},
    },
    manifests, report,
    repository::{policy_path, repository_file},
    scratch::Scratch,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::behaviour::permissions::verbs_of;
use crate::support::{TIMEOUT, note, required};

/// The right that the policy needs, written out.
const ROLE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: policy}
rules: [{apiGroups: [apps.kruise.io], resources: [persistentpodstates], verbs: [get]}]
";
const MAIN: &str = "clusterwide-persistent-pod-state";
const OTHER: &str = "clusterwide-other";
/// More Pods than the server has workers, on most machines.
const PODS: usize = 6;
/// Longer than the API server waits for the policy.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long another policy may take to answer, on a busy machine.
const PROMPT: Duration = Duration::from_secs(5);

/// The policy of `deploy/`, with the built module, under any name.
fn policy(name: &str, change: impl FnOnce(&mut Value)) -> Policy {
    let path = repository_file("deploy/base/cluster-admission-policy.yaml");
    let mut object = manifests::read(&path).unwrap().remove(0);
    object["metadata"]["name"] = name.into();
    object["spec"]["module"] =
        format!("file://{}", policy_path().canonicalize().unwrap().display()).into();
    change(&mut object["spec"]);
    Policy::new(object)
}

/// A cluster whose policy server has two policies and may only get PersistentPodStates.
struct Served {
    cluster: Cluster,
    /// Between the policy server and the API server.
    proxy: Proxy,
    client: ReviewClient,
    server: Option<PolicyServer>,
}

/// A cluster without the definition.
async fn cluster() -> Cluster {
    let cluster = Cluster::builder()
        .without_crd()
        .control_plane(|options| options.audit_log = true);
    let cluster = cluster.start().await.unwrap();
    let role = Scratch::file("get.yaml", ROLE).unwrap();
    cluster
        .apply_rbac_from(role.path(), POLICY_SERVER, &[])
        .await
        .unwrap();
    cluster
}

impl Served {
    /// Starts a server of its own. Without a program, it is the stand-in.
    async fn start(mut cluster: Cluster, program: Option<&Path>, other: Policy) -> Self {
        let proxy = Proxy::start(cluster.control_plane.url()).await.unwrap();
        let kubeconfig = proxy
            .kubeconfig(&cluster.control_plane, POLICY_SERVER)
            .unwrap();
        let main = policy("persistent-pod-state", |_| ());
        let (client, server) = if let Some(program) = program {
            let (control_plane, policies) = (&cluster.control_plane, [main.clone(), other]);
            let server =
                PolicyServer::start(control_plane, program.into(), &policies, &kubeconfig, None)
                    .unwrap();
            server.wait_ready(TIMEOUT).await.unwrap();
            server.register(&main, &cluster.client()).await.unwrap();
            (
                ReviewClient::new(server.url(), server.authority()).unwrap(),
                Some(server),
            )
        } else {
            let module = PolicyModule::load_file(&policy_path()).unwrap();
            let webhook = cluster
                .start_installed_webhook(&module, vec![main.clone()], &kubeconfig)
                .await;
            cluster.webhook = Some(webhook.unwrap());
            let webhook = cluster.webhook().unwrap();
            webhook.serve_other(&other).unwrap();
            (
                ReviewClient::new(webhook.url(), webhook.authority()).unwrap(),
                None,
            )
        };
        wait_until_called(&[main], &cluster.client(), TIMEOUT)
            .await
            .unwrap();
        Self {
            cluster,
            proxy,
            client,
            server,
        }
    }

    /// Stops the server.
    async fn end(mut self) -> Cluster {
        self.cluster.webhook = None;
        if self.server.take().is_some() {
            self.cluster
                .control_plane
                .stop("policy-server")
                .await
                .unwrap();
        }
        self.cluster
    }

    /// Creates Pods of as many StatefulSets, all at once. Returns the refusals.
    async fn create_pods(&self, namespace: &str) -> Vec<String> {
        let pods = self.cluster.pods_api(namespace);
        let create = |index: usize| {
            let (pods, pod) = (pods.clone(), pod(&format!("web{index}")));
            async move {
                // The client itself repeats a request that is refused with 503.
                let created = timeout(PATIENCE, pods.create(&PostParams::default(), &pod)).await;
                created.map_or_else(
                    |_| Err("refused or not answered".to_owned()),
                    |created| created.map_err(|error| error.to_string()),
                )
            }
        };
        join_all((0..PODS).map(create))
            .await
            .into_iter()
            .filter_map(Result::err)
            .collect()
    }

    /// Asks the other policy again and again, forever. Panics if an answer takes too long.
    async fn ask_other_policy(&self) {
        let bare = request(&json!({"metadata": {"name": "bare"}, "spec": {"containers": []}}));
        loop {
            let answer = timeout(PROMPT, self.client.ask(OTHER, &bare)).await;
            let answer =
                answer.unwrap_or_else(|_| panic!("the other policy gave no answer in {PROMPT:?}"));
            assert_eq!(answer.unwrap()["allowed"], true);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Creates the Pods while the other policy is asked, and asks it for a while afterwards.
    async fn assert_every_request_is_answered(&self, namespace: &str) {
        self.cluster.namespace(namespace).await.unwrap();
        let started = Instant::now();
        let (create, other) = (
            Box::pin(self.create_pods(namespace)),
            Box::pin(self.ask_other_policy()),
        );
        let Either::Left((refusals, other)) = select(create, other).await else {
            panic!("the other policy is asked forever");
        };
        assert_eq!(refusals, Vec::<String>::new(), "{namespace}");
        note(&format!(
            "{PODS} Pods of namespace {namespace} were answered in {:.1?}",
            started.elapsed()
        ));
        let _ = timeout(Duration::from_secs(1), other).await;
    }
}

/// A Pod that a StatefulSet creates.
fn pod(stateful_set: &str) -> Pod {
    let name = format!("{stateful_set}-0");
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"statefulset.kubernetes.io/pod-name": name}, "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "StatefulSet", "name": stateful_set, "uid": "1", "controller": true}]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
    .unwrap()
}

/// The request to create a Pod.
fn request(pod: &Value) -> Value {
    json!({
        "uid": "1", "operation": "CREATE", "userInfo": {}, "namespace": "default", "name": pod["metadata"]["name"],
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": pod,
    })
}

async fn delete_definition(cluster: &Cluster) {
    cluster
        .control_plane
        .kubectl(&["delete", "crd", "persistentpodstates.apps.kruise.io"])
        .await
        .unwrap();
    wait_for("the kind to be gone", TIMEOUT, async || {
        let answer = cluster.pps_api("default").get("web").await;
        let page = "404 page not found";
        let gone =
            matches!(&answer, Err(kube::Error::Api(status)) if status.message.starts_with(page));
        Ok(Progress::when(gone, (), format!("{answer:?}")))
    })
    .await
    .unwrap();
}

/// Namespaces that the server has not seen, and a definition that is deleted after the server has
/// cached the kind.
async fn assert_no_worker_is_held(served: &Served) {
    served.assert_every_request_is_answered("cold").await;
    assert_requests_have_a_limit(served).await;

    let cluster = &served.cluster;
    let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
        "metadata": {"name": "web0", "namespace": "cold"}, "spec": required("web0", &["zone"])});
    cluster.apply_objects(&[object]).await.unwrap();
    delete_definition(cluster).await;
    served.assert_every_request_is_answered("gone").await;

    // The server still asks for v1alpha1 first.
    let path = repository_file("deploy/base/crd.yaml");
    let mut definition = manifests::read(&path).unwrap().remove(0);
    let version = definition["spec"]["versions"][0].take();
    definition["spec"]["versions"] = json!([version]);
    definition["spec"]["versions"][0]["name"] = "v1beta1".into();
    let object = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "PersistentPodState",
        "metadata": {"name": "web", "namespace": "default"}, "spec": required("web", &["zone"])});
    cluster.apply_objects(&[definition]).await.unwrap();
    cluster.apply_objects(&[object]).await.unwrap();
    let kind = ApiResource {
        version: "v1beta1".to_owned(),
        api_version: "apps.kruise.io/v1beta1".to_owned(),
        ..pps_resource()
    };
    let objects: Api<DynamicObject> = Api::namespaced_with(cluster.client(), "default", &kind);
    let status = json!({"status": {"podStates": {"web-0": {"nodeTopologyLabels": {"zone": "a"}}}}});
    objects
        .patch_status("web", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    let pod = serde_json::to_value(pod("web")).unwrap();
    let answer = served.client.ask(MAIN, &request(&pod)).await.unwrap();
    assert_eq!(
        (&answer["allowed"], &answer["patchType"]),
        (&json!(true), &json!("JSONPatch")),
        "{answer}"
    );

    let verbs = verbs_of(cluster, POLICY_SERVER, "persistentpodstates");
    assert_eq!(verbs, ["get".to_owned()].into(), "the policy only gets");
}

/// The server's own limit is 2 s; the policy in `deploy/` has a longer one.
async fn assert_slow_lookups_are_interrupted(served: &Served) {
    let request = request(&serde_json::to_value(pod("web")).unwrap());
    served.proxy.slow_down(Duration::from_millis(1100));

    // One get takes 1.1 s, but the policy makes two.
    let asked = Instant::now();
    let answer = served.client.ask(OTHER, &request).await.unwrap();
    assert_eq!(
        (&answer["allowed"], &answer["status"]["code"]),
        (&json!(false), &json!(500)),
        "{answer}"
    );
    let message = answer["status"]["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("interrupted"),
        "onLookupFailure: accept says nothing about slow lookups: {answer}"
    );
    note(&format!(
        "a slow lookup was interrupted after {:.1?}: {message}",
        asked.elapsed()
    ));

    // The limits are counted by a clock that ticks each second, so two seconds may be little more
    // than one.
    served.proxy.slow_down(Duration::from_millis(850));
    let asked = Instant::now();
    let answer = served.client.ask(MAIN, &request).await.unwrap();
    assert_eq!(answer["allowed"], true, "{answer}");
    note(&format!(
        "with timeoutEvalSeconds it was answered after {:.1?}",
        asked.elapsed()
    ));
}

/// An UPDATE carries the object twice, so neither copy can be larger than half of this.
async fn assert_requests_have_a_limit(served: &Served) {
    let of_length = |length: usize| {
        let pod = |filler: usize| json!({"metadata": {"name": "x".repeat(filler)}, "spec": {}});
        let empty = review(&request(&pod(0))).len();
        // The name is in it twice.
        let review = review(&request(&pod((length - empty) / 2)));
        assert!(review.len() <= length && review.len() + 2 > length);
        review
    };
    let answer = served
        .client
        .send(OTHER, of_length(MAX_REQUEST))
        .await
        .unwrap();
    assert_eq!(answer["allowed"], true, "{answer}");
    let error = served
        .client
        .send(OTHER, of_length(MAX_REQUEST + 2))
        .await
        .unwrap_err();
    let Some(kube::Error::Api(status)) = error.downcast_ref() else {
        panic!("{error:#}")
    };
    assert_eq!(status.code, 413, "{status:?}");
}

/// One server after the other: they keep what they have once seen.
async fn assert_no_state_of_the_cluster_holds_a_worker(program: Option<&Path>) {
    let served = Served::start(cluster().await, program, policy("other", |_| ())).await;
    let request = request(&serde_json::to_value(pod("web")).unwrap());
    let answer = served.client.ask(MAIN, &request).await.unwrap();
    assert_eq!(answer["allowed"], true, "without the definition: {answer}");

    let cluster = served.end().await;
    manifests::apply_file(&cluster.client(), &repository_file("deploy/base/crd.yaml"))
        .await
        .unwrap();
    let impatient = |spec: &mut Value| {
        spec["timeoutEvalSeconds"].take();
        spec["settings"]["onLookupFailure"] = "accept".into();
    };
    let served = Served::start(cluster, program, policy("other", impatient)).await;
    assert_slow_lookups_are_interrupted(&served).await;

    let served = Served::start(served.end().await, program, policy("other", |_| ())).await;
    assert_no_worker_is_held(&served).await;
}

#[tokio::test]
async fn no_lookup_holds_a_worker() {
    assert_no_state_of_the_cluster_holds_a_worker(None).await;
}

#[tokio::test]
async fn no_lookup_holds_a_worker_of_the_real_policy_server() {
    let test = "no_lookup_holds_a_worker_of_the_real_policy_server";
    match policy_server::executable() {
        Some(program) => assert_no_state_of_the_cluster_holds_a_worker(Some(&program)).await,
        None => report::skipped(
            test,
            "set POLICY_SERVER=… (Kubewarden's executable) to run it",
        ),
    }
}
