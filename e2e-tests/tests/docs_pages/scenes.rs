//! What has to be the case before a block of a page is run, and what is checked afterwards.

use std::{pin::pin, time::Duration};

use kube::api::{ListParams, Patch, PatchParams};
use pps_e2e::{
    cluster::Cluster,
    install::{Installation, installed_policies},
    kubewarden::reconciler,
    wait::{Progress, wait_for},
};
use serde_json::json;

use super::{
    page::{Block, Command, Page},
    shell::Shell,
};

/// The ServiceAccount of the PolicyServer that the chart creates.
const ACCOUNT: &str = "policy-server-persistent-pod-state";
const TIMEOUT: Duration = Duration::from_mins(2);

/// A scene: its name, the script that sets it, and the one that checks and clears it.
const SCENES: [(&str, &str, &str); 7] = [
    ("recorded", "be_recorded", ""),
    (
        "pending",
        "be_recorded
        kubectl cordon \"$(node_of db-0)\"
        kubectl delete pod db-0",
        "kubectl uncordon --selector kubernetes.io/hostname
        be_recorded",
    ),
    (
        "forbidden",
        "be_recorded
        kubectl get clusterrolebindings pps-policy-persistent-pod-state --output yaml >binding.yaml
        kubectl delete clusterrolebindings pps-policy-persistent-pod-state
        account=system:serviceaccount:kubewarden:policy-server-persistent-pod-state
        while kubectl auth can-i get persistentpodstates --as $account --quiet; do sleep 0.2; done
        kubectl delete pod db-0",
        "grep -v -e resourceVersion: -e uid: binding.yaml | kubectl create --filename -
        # At once, not when the controller tries again.
        kubectl annotate statefulset db tried=again --overwrite
        be_recorded",
    ),
    (
        "local volume",
        "kubectl apply --filename volume.yaml",
        "kubectl delete persistentvolumes --all",
    ),
    ("drain", "be_recorded", "be_recorded"),
    (
        "other cluster",
        "kubectl delete statefulset db --ignore-not-found
        until [ -z \"$(kubectl get pods --selector app=db --output name)\" ]; do sleep 0.2; done
        kubectl delete pps --all",
        "",
    ),
    (
        "restored",
        "",
        "be_recorded
        for pod in db-0 db-1 db-2; do
          [ \"$(node_of $pod)\" = \"$(jq --raw-output .items[0].status.podStates[\\\"$pod\\\"].nodeName states.json)\" ]
        done",
    ),
];

/// What scenes use: the workload of the quick start runs, has been recorded, and db-0 has come back once.
const FUNCTIONS: &str = r#"
node_of() { kubectl get pod "$1" --output jsonpath='{.spec.nodeName}'; }
are_ready() {
  [ "$(kubectl get pods --selector app=db --output jsonpath='{.items[*].status.conditions[?(@.type=="Ready")].status}')" = "True True True" ]
}
be_recorded() {
  kubectl get statefulset/db pps/db >/dev/null || bash ./workload.sh
  until are_ready && [ "$(kubectl get pps db --output jsonpath='{.status.recorded}')" = 3 ]; do sleep 0.2; done
  kubectl get pod db-0 --output yaml | grep --quiet injected-persistent-pod-state || kubectl delete pod db-0
  until are_ready && kubectl get pod db-0 --output yaml | grep --quiet injected-persistent-pod-state; do sleep 0.2; done
}
"#;

/// The cluster on which the pages are played, and the reader's shell.
pub(crate) struct Stage<'a> {
    pub(crate) cluster: &'a mut Cluster,
    pub(crate) installation: Installation,
    pub(crate) shell: Shell,
}

impl Stage<'_> {
    /// Sets the scene, runs the commands of a block, and clears the scene.
    pub(crate) async fn play(&mut self, block: &Block) -> Result<(), String> {
        let (_, before, after) = match &block.scene {
            None => ("", "", ""),
            Some(name) => *SCENES.iter().find(|(known, ..)| known == name).expect("a known scene"),
        };
        self.run_script("before it", before).await?;
        let result = self.run_commands(block).await;
        // What comes next needs a clear scene also if this has failed.
        let cleared = self.run_script("after it", after).await;
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

    async fn run_script(&mut self, when: &str, script: &str) -> Result<(), String> {
        if script.is_empty() {
            return Ok(());
        }
        let script = Command::Script(format!("{FUNCTIONS}\n{script}"));
        self.shell.run(&script).await.map_err(|problem| format!("{when}: {problem}"))
    }
}

/// The script of the quick start that creates the workload.
pub(crate) fn workload() -> String {
    let page = Page::read("docs/quick-start.md");
    let mut commands = page.blocks.iter().flat_map(|block| &block.commands).map(Command::text);
    commands.find(|text| text.contains("kind: StatefulSet")).unwrap().to_owned()
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
    installation.serve_policy(cluster, ACCOUNT, false).await.unwrap();
    let active = json!({"status": {"policyStatus": "active", "conditions": [{
        "type": "PolicyActive", "status": "True", "reason": "PolicyActive",
        "message": "The policy webhook has been created", "lastTransitionTime": "2026-01-02T03:04:05Z",
    }]}});
    for policy in policies.list(&ListParams::default()).await.unwrap() {
        let name = policy.metadata.name.unwrap_or_default();
        policies.patch_status(&name, &PatchParams::default(), &Patch::Merge(&active)).await.unwrap();
    }
}
