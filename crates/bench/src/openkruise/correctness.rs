//! Cases in which the two record differently. Each is played on the API server, and what is recorded afterwards is read.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use pps_e2e::manifests::ensure_namespace;
use pps_e2e::wait::{Progress, wait_for};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::bed::{self, Bed, CANARY};
use super::recorder::Product;
use super::records::Records;
use crate::fixture::{ZONE, spec};
use crate::report::table;

/// How long a recorder has to react. It usually takes less than a second.
const REACTION: Duration = Duration::from_secs(10);
const ADDRESS: &str = "ovn.kubernetes.io/ip_address";

/// The name of each case, and what should be recorded at its end.
const CASES: [(&str, &str); 4] = [
    ("`ordinals.start: 5`; a recorded Pod is deleted, to be created again", "its state is kept"),
    ("a Node gets another zone label while a recorded Pod runs on it", "the new zone is recorded"),
    ("a recorded annotation changes after the Pod is Ready", "the new value is recorded"),
    ("a StatefulSet without Pods is deleted and created again (`WhenDeleted`)", "the old state is dropped"),
];

/// Plays all cases with each of the two.
pub(super) async fn compare(bed: &mut Bed) -> Result<String> {
    let products = [Product::OpenKruise, Product::Ours];
    let mut verdicts = Vec::new();
    for product in products {
        eprintln!("  correctness: {}", product.title());
        verdicts.push(play_all(bed, product).await?);
    }
    let rows = CASES.iter().enumerate().map(|(case, (name, expected))| {
        let cells = verdicts.iter().map(|verdicts| if verdicts[case] { "yes" } else { "no" }.to_owned());
        [(*name).to_owned(), (*expected).to_owned()].into_iter().chain(cells).collect()
    });
    let header = ["case", "expected", products[0].title(), products[1].title()];
    Ok(table(&header, rows))
}

async fn play_all(bed: &mut Bed, product: Product) -> Result<[bool; 4]> {
    let records = bed.prepare(product, &[]).await?;
    let mut recorder = bed.start_recorder(product).await?;
    recorder.wait_until_ready().await?;
    let canary = records.wait(CANARY.namespace, 1, Duration::from_mins(1)).await?;
    ensure!(canary.is_some(), "nothing is recorded; the recorder's last lines:\n{}", recorder.log_tail());
    let scene = |namespace| Scene { client: bed.client(), records: &records, product, namespace };
    let verdicts = [
        keeps_high_ordinals(&scene("ordinals")).await.context("ordinals.start")?,
        follows_node_labels(&scene("relabelled")).await.context("relabelled Node")?,
        follows_annotations(&scene("annotated")).await.context("annotation after Ready")?,
        forgets_deleted_workloads(&scene("recreated")).await.context("StatefulSet created again")?,
    ];
    recorder.check()?;
    recorder.stop().await?;
    Ok(verdicts)
}

async fn keeps_high_ordinals(scene: &Scene<'_>) -> Result<bool> {
    scene.create_workload(&json!({"replicas": 2, "ordinals": {"start": 5}}), "WhenScaled").await?;
    for ordinal in [5, 6] {
        scene.run_pod(ordinal).await?;
    }
    scene.wait_until_recorded(2).await?;
    scene.delete_pod(5).await?;
    Ok(!scene.becomes(5, Value::is_null).await?)
}

async fn follows_node_labels(scene: &Scene<'_>) -> Result<bool> {
    scene.create_workload(&json!({"replicas": 1}), "WhenScaled").await?;
    scene.run_pod(0).await?;
    scene.wait_until_recorded(1).await?;
    scene.label_node(0, "zone-moved").await?;
    let follows = scene.becomes(0, |state| state["nodeTopologyLabels"][ZONE] == "zone-moved").await?;
    scene.label_node(0, "zone-0").await?;
    Ok(follows)
}

async fn follows_annotations(scene: &Scene<'_>) -> Result<bool> {
    scene.create_workload(&json!({"replicas": 1}), "WhenScaled").await?;
    scene.run_pod(0).await?;
    scene.wait_until_recorded(1).await?;
    let patch = json!({"metadata": {"annotations": {ADDRESS: "10.99.0.2"}}});
    scene.pods().patch("db-0", &PatchParams::default(), &Patch::Merge(patch)).await?;
    scene.becomes(0, |state| state["annotations"][ADDRESS] == "10.99.0.2").await
}

async fn forgets_deleted_workloads(scene: &Scene<'_>) -> Result<bool> {
    scene.create_workload(&json!({"replicas": 1}), "WhenDeleted").await?;
    scene.run_pod(0).await?;
    scene.wait_until_recorded(1).await?;
    let scaled = json!({"spec": {"replicas": 0}});
    scene.workloads().patch("db", &PatchParams::default(), &Patch::Merge(scaled)).await?;
    scene.delete_pod(0).await?;
    sleep(Duration::from_secs(2)).await;
    ensure!(!scene.state(0).await?.is_null(), "the state was dropped before the StatefulSet was deleted");
    scene.workloads().delete("db", &DeleteParams::background()).await?;
    sleep(Duration::from_secs(2)).await;
    let again = scene.stateful_set(&json!({"replicas": 1}));
    scene.workloads().create(&PostParams::default(), &serde_json::from_value(again)?).await?;
    scene.becomes(0, Value::is_null).await
}

/// A StatefulSet `db` in a namespace of its own.
struct Scene<'a> {
    client: Client,
    records: &'a Records,
    product: Product,
    namespace: &'static str,
}

impl Scene<'_> {
    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    fn workloads(&self) -> Api<StatefulSet> {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    fn objects(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), self.namespace, &bed::resource(self.product))
    }

    fn stateful_set(&self, fields: &Value) -> Value {
        let labels = json!({"app": "db"});
        let mut value = json!({"metadata": {"name": "db", "namespace": self.namespace},
            "spec": {"serviceName": "db", "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": "example.invalid/db:1"}]}}}});
        for (name, field) in fields.as_object().into_iter().flatten() {
            value["spec"][name] = field.clone();
        }
        value
    }

    async fn create_workload(&self, fields: &Value, retention: &str) -> Result<()> {
        ensure_namespace(&self.client, self.namespace).await?;
        let workload = serde_json::from_value(self.stateful_set(fields))?;
        self.workloads().create(&PostParams::default(), &workload).await?;
        let mut object = json!({"apiVersion": "", "kind": "PersistentPodState",
            "metadata": {"name": "db", "namespace": self.namespace}, "spec": spec("db")});
        object["spec"]["persistentPodStateRetentionPolicy"] = retention.into();
        let object = serde_json::from_value(bed::in_its_form(self.product, object))?;
        self.objects().create(&PostParams::default(), &object).await?;
        // The recorder sees the StatefulSet before its first Pod, as in a real cluster.
        sleep(Duration::from_secs(1)).await;
        Ok(())
    }

    /// Creates a Pod on `worker-0` and makes it Ready.
    async fn run_pod(&self, ordinal: usize) -> Result<()> {
        let workload = self.workloads().get("db").await?;
        let name = format!("db-{ordinal}");
        let pod = json!({"metadata": {"name": name, "labels": {"app": "db"}, "annotations": {ADDRESS: "10.99.0.1"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db",
                    "uid": workload.metadata.uid, "controller": true, "blockOwnerDeletion": true}]},
            "spec": {"nodeName": "worker-0", "containers": [{"name": "main", "image": "example.invalid/db:1"}]}});
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True",
            "lastTransitionTime": "2026-01-07T09:11:00Z"}]}});
        self.pods().patch_status(&name, &PatchParams::default(), &Patch::Merge(ready)).await?;
        Ok(())
    }

    async fn delete_pod(&self, ordinal: usize) -> Result<()> {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.pods().delete(&format!("db-{ordinal}"), &now).await?;
        Ok(())
    }

    async fn label_node(&self, index: usize, zone: &str) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patch = json!({"metadata": {"labels": {ZONE: zone}}});
        nodes.patch(&format!("worker-{index}"), &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    async fn wait_until_recorded(&self, pods: usize) -> Result<()> {
        let recorded = self.records.wait(&format!("{}/", self.namespace), pods, REACTION).await?;
        ensure!(
            recorded.is_some(),
            "{} has not recorded {pods} Pods after {REACTION:?}",
            self.product.title()
        );
        // So that nothing of the first recording is still under way.
        sleep(Duration::from_secs(1)).await;
        Ok(())
    }

    /// The recorded state of a Pod, or null.
    async fn state(&self, ordinal: usize) -> Result<Value> {
        let mut object = self.objects().get("db").await?;
        Ok(object.data["status"]["podStates"][format!("db-{ordinal}")].take())
    }

    /// Whether the state of a Pod fulfils the condition within the time that a recorder has to react.
    async fn becomes(&self, ordinal: usize, condition: impl Fn(&Value) -> bool) -> Result<bool> {
        let condition = &condition;
        let became = wait_for("the state", REACTION, async || {
            let state = self.state(ordinal).await?;
            Ok(Progress::when(condition(&state), (), state))
        });
        Ok(became.await.is_ok())
    }
}
