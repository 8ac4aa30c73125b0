//! What has to be the case before a block of a page is run, and what is checked afterwards.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use anyhow::Result;
use kube::api::{ListParams, Patch, PatchParams};
use pps_e2e::{
    cluster::{Cluster, PodInfo},
    install::{Installation, installed_policies},
    kubewarden::reconciler,
    wait::{Progress, wait_for},
};
use serde_json::json;

use super::{
    page::{Block, Command, Page},
    shell::Shell,
};
use crate::support::MARKER;

/// The ServiceAccount of the PolicyServer that the chart creates.
const ACCOUNT: &str = "policy-server-persistent-pod-state";
const TIMEOUT: Duration = Duration::from_mins(2);
/// Where the workload of the quick start is.
const NAMESPACE: &str = "default";

/// A step to a scene, or back from it.
enum Step {
    /// The workload of the quick start runs, has been recorded, and db-0 has come back once.
    BeRecorded,
    Run(&'static str),
}

/// A scene: its name, the steps that set it, and those that check and clear it.
const SCENES: [(&str, &[Step], &[Step]); 7] = [
    ("recorded", &[Step::BeRecorded], &[]),
    (
        "pending",
        &[
            Step::BeRecorded,
            Step::Run(
                "kubectl cordon \"$(node_of db-0)\"
                kubectl delete pod db-0",
            ),
        ],
        &[
            Step::Run("kubectl uncordon --selector kubernetes.io/hostname"),
            Step::BeRecorded,
        ],
    ),
    (
        "forbidden",
        &[
            Step::BeRecorded,
            Step::Run(
                "kubectl get clusterrolebindings pps-policy-persistent-pod-state --output yaml \
                 >binding.yaml
                kubectl delete clusterrolebindings pps-policy-persistent-pod-state
                account=system:serviceaccount:kubewarden:policy-server-persistent-pod-state
                while kubectl auth can-i get persistentpodstates --as $account --quiet; do sleep \
                 0.2; done
                kubectl delete pod db-0",
            ),
        ],
        &[
            Step::Run(
                "grep -v -e resourceVersion: -e uid: binding.yaml | kubectl create --filename -
                # At once, not when the controller tries again.
                kubectl annotate statefulset db tried=again --overwrite",
            ),
            Step::BeRecorded,
        ],
    ),
    (
        "local volume",
        &[Step::Run("kubectl apply --filename volume.yaml")],
        &[Step::Run("kubectl delete persistentvolumes --all")],
    ),
    ("drain", &[Step::BeRecorded], &[Step::BeRecorded]),
    (
        "other cluster",
        &[Step::Run(
            "kubectl delete statefulset db --ignore-not-found
            until [ -z \"$(kubectl get pods --selector app=db --output name)\" ]; do sleep 0.2; \
             done
            kubectl delete pps --all",
        )],
        &[],
    ),
    (
        "restored",
        &[],
        &[
            Step::BeRecorded,
            Step::Run(
                "for pod in db-0 db-1 db-2; do
                  [ \"$(node_of $pod)\" = \"$(jq --raw-output \
                 .items[0].status.podStates[\\\"$pod\\\"].nodeName states.json)\" ]
                done",
            ),
        ],
    ),
];

/// What scripts of scenes use.
const FUNCTIONS: &str =
    "node_of() { kubectl get pod \"$1\" --output jsonpath='{.spec.nodeName}'; }";

/// The cluster on which the pages are played, and the reader's shell.
pub(crate) struct Stage<'a> {
    pub(crate) cluster: &'a mut Cluster,
    pub(crate) installation: Installation,
    pub(crate) shell: Shell,
}

impl Stage<'_> {
    /// Sets the scene, runs the commands of a block, and clears the scene.
    pub(crate) async fn play(&mut self, block: &Block) -> Result<(), String> {
        let none: &[Step] = &[];
        let (_, before, after) = match &block.scene {
            None => ("", none, none),
            Some(name) => *SCENES
                .iter()
                .find(|(known, ..)| known == name)
                .expect("a known scene"),
        };
        self.take("before it", before).await?;
        let result = self.run_commands(block).await;
        // What comes next needs a clear scene also if this has failed.
        let cleared = self.take("after it", after).await;
        result.and(cleared)
    }

    async fn run_commands(&mut self, block: &Block) -> Result<(), String> {
        for command in &block.commands {
            if command.text().contains("helm install") {
                // Kubewarden, which does not run here, acts while Helm and kubectl wait.
                let (shell, cluster, installation) =
                    (&mut self.shell, &mut *self.cluster, &mut self.installation);
                let mut run = pin!(shell.run(command));
                tokio::select! {
                    ran = &mut run => ran?,
                    () = serve(cluster, installation) => run.await?,
                }
            } else {
                self.shell.run(command).await?;
            }
        }
        Ok(())
    }

    async fn take(&mut self, when: &str, steps: &[Step]) -> Result<(), String> {
        for step in steps {
            let taken = match step {
                Step::BeRecorded => self.be_recorded().await,
                Step::Run(script) => self.run_script(script).await,
            };
            taken.map_err(|problem| format!("{when}: {problem}"))?;
        }
        Ok(())
    }

    async fn run_script(&mut self, script: &str) -> Result<(), String> {
        self.shell
            .run(&Command::Script(format!("{FUNCTIONS}\n{script}")))
            .await
    }

    async fn be_recorded(&mut self) -> Result<(), String> {
        let (sets, objects) = (
            self.cluster.stateful_sets(NAMESPACE),
            self.cluster.pps_api(NAMESPACE),
        );
        let found = tokio::try_join!(sets.get_opt("db"), objects.get_opt("db"));
        if !matches!(found, Ok((Some(_), Some(_)))) {
            self.run_script("bash ./workload.sh").await?;
        }
        self.come_back().await.map_err(|error| format!("{error:#}"))
    }

    async fn come_back(&self) -> Result<()> {
        let (cluster, objects) = (&*self.cluster, self.cluster.pps_api(NAMESPACE));
        let is_injected = |pods: &BTreeMap<String, PodInfo>| {
            pods.get("db-0")
                .is_some_and(|pod| pod.annotations.contains_key(MARKER))
        };
        let pods = cluster.wait_ready(NAMESPACE, "db", 3, TIMEOUT).await?;
        wait_for("all Pods of db to be recorded", TIMEOUT, async || {
            let recorded = objects.get("db").await?.data["status"]["recorded"].take();
            Ok(Progress::when(recorded == 3, (), &recorded))
        })
        .await?;
        if !is_injected(&pods) {
            cluster.delete_pods(NAMESPACE, "db", &["db-0"]).await?;
        }
        cluster
            .wait_for_pods(NAMESPACE, "db", "db-0 to have come back", TIMEOUT, |pods| {
                pods.len() == 3 && pods.values().all(|pod| pod.ready) && is_injected(pods)
            })
            .await?;
        Ok(())
    }
}

/// The script of the quick start that creates the workload.
pub(crate) fn workload() -> String {
    let page = Page::read("docs/quick-start.md");
    let mut commands = page
        .blocks
        .iter()
        .flat_map(|block| &block.commands)
        .map(Command::text);
    commands
        .find(|text| text.contains("kind: StatefulSet"))
        .unwrap()
        .to_owned()
}

/// A volume that pins its Pod, as `docs/local-volumes.md` shows it.
pub(crate) fn volume() -> String {
    let term = json!({"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-2"]}]});
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "local-2"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/data"},
            "claimRef": {"namespace": "default", "name": "data-db-0"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
    });
    volume.to_string()
}

/// Does what Kubewarden's controller and PolicyServer do once the chart's policies are there.
async fn serve(cluster: &mut Cluster, installation: &mut Installation) {
    let policies = reconciler::api(&cluster.client(), "ClusterAdmissionPolicy");
    wait_for("the chart's policies", TIMEOUT, async || {
        let count = installed_policies(cluster).await?.len();
        Ok(Progress::when(count == 2, (), format!("{count} policies")))
    })
    .await
    .unwrap();
    installation
        .serve_policy(cluster, ACCOUNT, false)
        .await
        .unwrap();
    let active = json!({"status": {"policyStatus": "active", "conditions": [{
        "type": "PolicyActive", "status": "True", "reason": "PolicyActive",
        "message": "The policy webhook has been created", "lastTransitionTime": "2026-01-02T03:04:05Z",
    }]}});
    for policy in policies.list(&ListParams::default()).await.unwrap() {
        let name = policy.metadata.name.unwrap_or_default();
        policies
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(&active))
            .await
            .unwrap();
    }
}
