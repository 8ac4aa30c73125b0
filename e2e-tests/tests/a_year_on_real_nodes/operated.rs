//! Pods of an operator. Whatever ends them, the operator creates them again: a drain, a preemption
//! or a refusal of the kubelet is no loop of the operator.

use std::fs;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams, WatchEvent, WatchParams},
};
use pps_e2e::{
    cluster::{PodInfo, real_nodes},
    install::installed_policies,
    kubewarden::stand_in::Webhook,
    manifests,
    repository::repository_file,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::{RECOVERY, Stage};
use crate::{
    behaviour::custom_kinds::{self, GROUP, database},
    install,
    support::{HOSTNAME, MARKER, Pool, recording},
};

/// The policy for Pods of custom kinds.
const POLICY: &str =
    "deploy/components/custom-workloads/cluster-admission-policy-custom-workloads.yaml";
/// As many Pods in a row would be a loop.
const LIVES: usize = 3;
/// A resource that each node has once: two Pods that request it do not fit on one node.
const SLOT: &str = "e2e.pps.kubewarden.io/slot";
/// The `PriorityClass` of the Pods for which others are preempted.
const URGENT: &str = "urgent";
/// An annotation that is recorded.
const NOTE: &str = "e2e.pps.kubewarden.io/note";

/// Each of three workloads loses as many Pods in a row as a loop takes, for a reason of its own,
/// and no loop is reported. Then the operator deletes the Pods itself, and all three have a loop.
pub(super) async fn only_an_operator_that_deletes_its_pods_loops(stage: &Stage<'_>) {
    let pool = Pool::on_real_nodes(stage.cluster, "operated").await;
    let _webhook = install_for_databases(stage).await;
    prepare_slots(stage).await;
    let _operator = custom_kinds::operator(stage.cluster);
    let nodes: Vec<&str> = stage.nodes().names().collect();
    let drained = Operated::new(pool, "drained", nodes[0]);
    let preempted = Operated::new(pool, "preempted", nodes[1]);
    let refused = Operated::new(pool, "refused", nodes[2]);
    tokio::join!(
        withstands_drains(&drained),
        withstands_preemptions(&preempted),
        withstands_refusals(&refused, drained.node)
    );
    tokio::join!(
        drained.loops(),
        preempted.loops(),
        refused.loops_while_it_is_bound()
    );
}

/// `kubectl drain` evicts each Pod.
async fn withstands_drains(workload: &Operated<'_>) {
    let spec = json!({"nodeSelector": {HOSTNAME: workload.node}, "containers": [container(0)]});
    workload.create(&spec).await;
    workload.replace_first().await;
    let selector = format!("--pod-selector=app={}", workload.name);
    let cluster = workload.pool.cluster;
    for _ in 0..LIVES {
        let pod = workload.runs().await;
        let drain = ["drain", workload.node, &selector];
        cluster.control_plane.kubectl(&drain).await.unwrap();
        workload.ended(&pod, "EvictionByEvictionAPI").await;
        cluster.nodes.uncordon(workload.node).await.unwrap();
    }
    workload.has_no_loop().await;
}

/// The scheduler deletes each Pod in favour of an urgent one.
async fn withstands_preemptions(workload: &Operated<'_>) {
    let spec = json!({"nodeSelector": {HOSTNAME: workload.node}, "containers": [container(1)]});
    workload.create(&spec).await;
    workload.replace_first().await;
    for _ in 0..LIVES {
        let pod = workload.runs().await;
        workload.take_slot().await;
        workload.ended(&pod, "PreemptionByScheduler").await;
        workload.free_slot().await;
    }
    workload.has_no_loop().await;
}

/// The kubelet refuses each Pod: on the recorded node, whose slot is taken, or on another node,
/// which the Pod's affinity forbids. The scheduler binds no such Pod, but one that knows less does.
async fn withstands_refusals(workload: &Operated<'_>, other: &str) {
    let spec = json!({"schedulerName": "e2e", "containers": [container(1)]});
    workload.create(&spec).await;
    workload.exists("wait", |pod| pod.node.is_none()).await;
    workload.bind(workload.node).await;
    workload.replace_first().await;
    workload.waits().await;
    workload.take_slot().await;
    workload.pool.ready(&workload.rival(), 1).await;
    for life in 0..LIVES {
        let pod = workload.waits().await;
        if life % 2 == 0 {
            workload.bind(workload.node).await;
            workload.ended(&pod, &format!("OutOf{SLOT}")).await;
        } else {
            workload.bind(other).await;
            workload.ended(&pod, "NodeAffinity").await;
        }
    }
    workload.free_slot().await;
    workload.waits().await;
    workload.bind(workload.node).await;
    workload.has_no_loop().await;
}

/// What the component for custom kinds installs, but with the ConfigMap in the namespace where the
/// running sidecars look for it: a rollout of the sidecars would take seconds.
async fn install_for_databases(stage: &Stage<'_>) -> Webhook {
    let cluster = stage.cluster;
    custom_kinds::define(cluster, &database()).await;
    custom_kinds::grant(cluster, &install::user(), "databases").await;
    let whitelist = custom_kinds::whitelist(&[&database()]);
    custom_kinds::write_whitelist(cluster, &whitelist).await;
    let text = fs::read_to_string(repository_file(POLICY)).unwrap();
    let mut policies = manifests::parse(&text.replace("example.io", GROUP)).unwrap();
    let installed = installed_policies(cluster).await.unwrap();
    policies[0]["spec"]["module"] = installed[0].module().unwrap().into();
    cluster.apply_objects(&policies).await.unwrap();
    let webhook = stage.installation.start_webhook(cluster, install::ACCOUNT);
    webhook.await.unwrap()
}

async fn prepare_slots(stage: &Stage<'_>) {
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": URGENT}, "value": 1000});
    stage.cluster.apply_objects(&[class]).await.unwrap();
    for node in stage.nodes().names() {
        let added = stage.cluster.nodes.add_resource(node, SLOT, 1);
        added.await.unwrap();
    }
}

/// A container that ends as soon as it is asked to, and requests so many slots.
fn container(slots: u8) -> Value {
    json!({"name": "main", "image": real_nodes::IMAGE,
        "resources": {"limits": {SLOT: slots.to_string()}},
        "command": ["sh", "-c", "trap exit TERM; sleep 10000 & wait"]})
}

/// A workload of a custom kind with one Pod, which runs on this node.
struct Operated<'a> {
    pool: Pool<'a>,
    name: &'static str,
    node: &'a str,
}

impl<'a> Operated<'a> {
    fn new(pool: Pool<'a>, name: &'static str, node: &'a str) -> Self {
        Self { pool, name, node }
    }

    fn pods(&self) -> Api<Pod> {
        self.pool.cluster.pods_api(self.pool.namespace)
    }

    fn pod_name(&self) -> String {
        format!("{}-0", self.name)
    }

    /// The name of the Pod that takes the slot of the workload's node.
    fn rival(&self) -> String {
        format!("before-{}", self.name)
    }

    /// Makes the workload with its PersistentPodState.
    async fn create(&self, pod_spec: &Value) {
        let kind = database().resource;
        let target = json!({"apiVersion": kind.api_version, "kind": kind.kind, "name": self.name});
        let spec = json!({"targetRef": target,
            "requiredPersistentTopology": {"nodeTopologyKeys": [HOSTNAME]},
            "persistentPodAnnotations": [{"key": NOTE}]});
        self.pool.object(self.name, &spec).await;
        let workload = json!({"apiVersion": kind.api_version, "kind": kind.kind,
            "metadata": {"namespace": self.pool.namespace, "name": self.name},
            "spec": {"shape": {"size": 1}, "template": {"spec": pod_spec}}});
        let cluster = self.pool.cluster;
        cluster.apply_objects(&[workload]).await.unwrap();
    }

    /// Deletes the first Pod once it is recorded: the policy changes only those after it.
    async fn replace_first(&self) {
        self.pool.recorded(self.name, self.name).await;
        self.delete(&self.pod_name()).await;
    }

    async fn delete(&self, pod: &str) {
        let pods = self.pods();
        pods.delete(pod, &DeleteParams::default()).await.unwrap();
    }

    /// An urgent Pod takes the slot of the workload's node.
    async fn take_slot(&self) {
        let name = self.rival();
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": self.pool.namespace, "name": name, "labels": {"app": name}},
            "spec": {"priorityClassName": URGENT, "nodeSelector": {HOSTNAME: self.node},
                "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
                "containers": [container(1)]}});
        self.pool.cluster.apply_objects(&[pod]).await.unwrap();
    }

    async fn free_slot(&self) {
        self.delete(&self.rival()).await;
    }

    /// Waits for a Pod that is Ready and that the policy has changed.
    async fn runs(&self) -> Pod {
        let done = |pod: &PodInfo| pod.ready && pod.annotations.contains_key(MARKER);
        self.exists("run with the marker", done).await
    }

    /// Waits for a Pod that has no node and that the policy has changed.
    async fn waits(&self) -> Pod {
        let done = |pod: &PodInfo| pod.node.is_none() && pod.annotations.contains_key(MARKER);
        self.exists("wait with the marker", done).await
    }

    async fn exists(&self, what: &str, done: impl Fn(&PodInfo) -> bool) -> Pod {
        let (pods, name) = (self.pods(), self.pod_name());
        wait_for(&format!("{name} to {what}"), RECOVERY, async || {
            let pod = pods.get(&name).await?;
            let info = PodInfo::from(&pod);
            Ok(Progress::when(done(&info), pod, format!("{info:?}")))
        })
        .await
        .unwrap()
    }

    /// Binds the Pod to a node, as a scheduler does.
    async fn bind(&self, node: &str) {
        let (pods, name) = (self.pods(), self.pod_name());
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
        let params = PostParams::default();
        let bound = pods.create_subresource::<Value, Value>("binding", &name, &params, &binding);
        bound.await.unwrap();
    }

    /// Waits until this Pod is gone, and asserts why: the reason of its disruption, or of the
    /// kubelet.
    async fn ended(&self, pod: &Pod, reason: &str) {
        let params = WatchParams::default().fields(&format!("metadata.name={}", pod.name_any()));
        let version = pod.resource_version().unwrap();
        let mut events = self.pods().watch(&params, &version).await.unwrap().boxed();
        let last = loop {
            let event = events.try_next().await.unwrap();
            match event.expect("the watch goes on") {
                WatchEvent::Deleted(last) => break last,
                WatchEvent::Error(error) => panic!("{error:?}"),
                _ => {}
            }
        };
        assert_eq!(last.uid(), pod.uid());
        let status = last.status.unwrap();
        let mut conditions = status.conditions.iter().flatten();
        let disruption = conditions.find(|condition| condition.type_ == "DisruptionTarget");
        let disruption = disruption.map(|condition| &condition.reason);
        let seen = disruption.unwrap_or(&status.reason).as_deref();
        assert_eq!(seen, Some(reason), "{status:?}");
    }

    /// Waits until the sidecar has recorded a change of the Pod that runs now: it has then seen the
    /// ends of all Pods before.
    async fn has_no_loop(&self) {
        let pod = self.runs().await.name_any();
        let note = json!({NOTE: "seen"});
        self.pool.annotate_pod(&pod, &note).await;
        self.pool.recorded(self.name, self.name).await;
        let pps = self.pool.pps(self.name).await.unwrap();
        assert_eq!(recording(&pps)["reason"], "AllRecorded", "{}", self.name);
        let events = self.pool.events(self.name, "RecreationLoop").await.unwrap();
        assert_eq!(events, Vec::<String>::new());
    }

    /// The operator begins to compare the affinity of its Pods, and deletes each that runs.
    async fn loops(&self) {
        custom_kinds::compare_affinity(&self.pool, &database(), self.name).await;
        let pps = custom_kinds::wait_for_reason(&self.pool, self.name, "RecreationLoop").await;
        let message = recording(&pps)["message"].to_string();
        assert!(message.contains(&self.pod_name()), "{message}");
    }

    /// Like [`loops`](Self::loops), and binds each Pod, since no scheduler does.
    async fn loops_while_it_is_bound(&self) {
        let bind_all = async {
            loop {
                self.waits().await;
                self.bind(self.node).await;
            }
        };
        tokio::select! {
            () = bind_all => {}
            () = self.loops() => {}
        }
    }
}
