//! The workers of a policy server, which its policies share: nothing that is missing in the cluster holds one of them.
//!
//! With `POLICY_SERVER=path` one more test does the same with Kubewarden's own PolicyServer.

use std::time::{Duration, Instant};

use futures::future::{join_all, select};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use pps_e2e::{
    cluster::Cluster,
    install::wait_until_policy_is_called,
    kubewarden::{
        self, Policy, ReviewClient,
        policy_server::{self, PolicyServer},
        stand_in::PolicyModule,
    },
    manifests, report,
    repository::{policy_path, repository_file},
    scratch::Scratch,
    wait::{Progress, wait_for},
};
use serde_json::json;

use crate::scenarios::permissions::verbs_of;
use crate::support::{TIMEOUT, note, required};

const ACCOUNT: &str = "system:serviceaccount:kubewarden:policy-server";
/// The right that the documents ask for, written out.
const ROLE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: policy}
rules: [{apiGroups: [apps.kruise.io], resources: [persistentpodstates], verbs: [get]}]
";
const OTHER: &str = "clusterwide-other";
/// More Pods than the server has workers, on most machines.
const PODS: usize = 6;
/// How long another policy may take to answer, on a busy machine.
const PROMPT: Duration = Duration::from_secs(5);

/// The policy of `deploy/`, with the built module, under any name.
fn policy(name: &str) -> Policy {
    let path = repository_file("deploy/base/cluster-admission-policy.yaml");
    let mut object = manifests::read(&path).unwrap().remove(0);
    object["metadata"]["name"] = name.into();
    object["spec"]["module"] = format!("file://{}", policy_path().canonicalize().unwrap().display()).into();
    Policy::new(object)
}

/// A cluster whose policy server has two policies and may only get PersistentPodStates.
struct Served {
    cluster: Cluster,
    client: ReviewClient,
    /// Ends with the test.
    _server: Option<PolicyServer>,
}

impl Served {
    async fn start(program: Option<std::path::PathBuf>) -> Self {
        let cluster = Cluster::builder().control_plane(|options| options.audit_log = true);
        let mut cluster = cluster.start().await.unwrap();
        cluster.namespace(kubewarden::NAMESPACE).await.unwrap();
        let role = Scratch::file("get.yaml", ROLE).unwrap();
        cluster.apply_rbac_from(role.path(), ACCOUNT, &[]).await.unwrap();
        let account = kubewarden::SERVICE_ACCOUNT;
        let token = cluster.control_plane.service_account_token(kubewarden::NAMESPACE, account).await.unwrap();
        let (main, other) = (policy("persistent-pod-state"), policy("other"));
        let (client, server) = if let Some(program) = program {
            let policies = [main.clone(), other];
            let server =
                PolicyServer::start(&cluster.control_plane, program, &policies, &token, None).unwrap();
            server.wait_ready(TIMEOUT).await.unwrap();
            server.register(&main, &cluster.client(), cluster.control_plane.version()).await.unwrap();
            (ReviewClient::new(server.url(), server.authority()).unwrap(), Some(server))
        } else {
            let module = PolicyModule::load_file(&policy_path()).unwrap();
            cluster.start_installed_webhook(&module, main, &token).await.unwrap();
            let webhook = cluster.webhook().unwrap();
            webhook.serve_other(&other).unwrap();
            (ReviewClient::new(webhook.url(), webhook.authority()).unwrap(), None)
        };
        wait_until_policy_is_called(&cluster).await.unwrap();
        Self { cluster, client, _server: server }
    }

    /// Creates Pods of as many StatefulSets, all at once. Returns the refusals.
    async fn create_pods(&self, namespace: &str) -> Vec<String> {
        let pods = self.cluster.pods_api(namespace);
        let create = |index: usize| {
            let (pods, pod) = (pods.clone(), pod(&format!("web{index}")));
            async move { pods.create(&PostParams::default(), &pod).await }
        };
        let answers = join_all((0..PODS).map(create)).await;
        answers.into_iter().filter_map(Result::err).map(|error| error.to_string()).collect()
    }

    /// Asks the other policy again and again, forever. Panics if an answer takes too long.
    async fn ask_other_policy(&self) {
        let request = json!({
            "uid": "1", "operation": "CREATE", "userInfo": {}, "namespace": "default", "name": "bare",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "object": {"metadata": {"name": "bare"}, "spec": {"containers": []}},
        });
        let mut longest = Duration::ZERO;
        for number in 1.. {
            let asked = Instant::now();
            let answer = tokio::time::timeout(PROMPT, self.client.ask(OTHER, &request)).await;
            let answer = answer.unwrap_or_else(|_| panic!("the other policy gave no answer in {PROMPT:?}"));
            assert_eq!(answer.unwrap()["allowed"], true);
            longest = longest.max(asked.elapsed());
            if number % 20 == 0 {
                note(&format!("the other policy gave {number} answers, in {longest:.1?} at most"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Creates the Pods while the other policy is asked, and once more after it.
    async fn assert_every_request_is_answered(&self, namespace: &str) {
        self.cluster.namespace(namespace).await.unwrap();
        let started = Instant::now();
        let (create, other) = (Box::pin(self.create_pods(namespace)), Box::pin(self.ask_other_policy()));
        let futures::future::Either::Left((refusals, other)) = select(create, other).await else {
            panic!("the other policy is asked forever");
        };
        assert_eq!(refusals, Vec::<String>::new(), "{namespace}");
        note(&format!("{PODS} Pods of {namespace} were answered in {:.1?}", started.elapsed()));
        let _ = tokio::time::timeout(Duration::from_secs(1), other).await;
    }
}

/// A Pod that a StatefulSet creates.
fn pod(stateful_set: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": format!("{stateful_set}-0"), "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "StatefulSet", "name": stateful_set, "uid": "1", "controller": true}]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
    .unwrap()
}

/// Cold namespaces, a namespace with an object, and at last a definition that is deleted after the server cached it.
async fn assert_no_worker_is_held(program: Option<std::path::PathBuf>) {
    let served = Served::start(program).await;
    served.assert_every_request_is_answered("cold").await;

    // The server knows the kind from the Pods before.
    let cluster = &served.cluster;
    cluster
        .apply_objects(&[json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
            "metadata": {"name": "web0", "namespace": "cold"}, "spec": required("web0", &["zone"])})])
        .await
        .unwrap();
    let name = "persistentpodstates.apps.kruise.io";
    cluster.control_plane.kubectl(&["delete", "crd", name]).await.unwrap();
    wait_for("the kind to be gone", TIMEOUT, async || {
        let answer = cluster.pps_api("cold").get_opt("web0").await;
        Ok(Progress::when(matches!(answer, Ok(None)), (), format!("{answer:?}")))
    })
    .await
    .unwrap();
    served.assert_every_request_is_answered("gone").await;

    let verbs = verbs_of(cluster, ACCOUNT, "persistentpodstates");
    assert_eq!(verbs, ["get".to_owned()].into(), "the policy only gets");
}

#[tokio::test]
async fn no_lookup_holds_a_worker() {
    assert_no_worker_is_held(None).await;
}

#[tokio::test]
async fn no_lookup_holds_a_worker_of_the_real_policy_server() {
    let Some(program) = policy_server::executable() else {
        return report::skipped(
            "no_lookup_holds_a_worker_of_the_real_policy_server",
            "set POLICY_SERVER=… (Kubewarden's executable) to run it",
        );
    };
    assert_no_worker_is_held(Some(program)).await;
}
