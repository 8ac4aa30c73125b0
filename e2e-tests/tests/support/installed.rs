//! The product as `deploy/` installs it, with a PolicyServer that can be stopped and started again.

use std::collections::BTreeMap;

use anyhow::Result;
use pps_e2e::{
    cluster::{Cluster, PodInfo},
    install::{Installation, installed_policies},
    kubewarden::{self, policy_server, probe::send_probe},
    scratch::Scratch,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::{HOSTNAME, MARKER, Pool, TIMEOUT, homes, required};

/// The ServiceAccount of the PolicyServer that is installed.
pub(crate) const ACCOUNT: &str = "policy-server-persistent-pod-state";
/// The label of a namespace that decides whether its Pods are sent to the policy.
pub(crate) const INJECTION: &str = "persistent-pod-state/injection";
/// The program, where Kubewarden's own runs.
const POLICY_SERVER: &str = "policy-server";

pub(crate) struct Installed {
    pub(crate) cluster: Cluster,
    pub(crate) installation: Installation,
}

impl Installed {
    /// Installs `deploy/` and waits until everything works. Kubewarden's own PolicyServer runs if
    /// `POLICY_SERVER` names it, else the stand-in.
    pub(crate) async fn start() -> Self {
        let cluster = Cluster::builder()
            .without_crd()
            .nodes(3, 3)
            .start()
            .await
            .unwrap();
        kubewarden::install_definitions(&cluster.client())
            .await
            .unwrap();
        let installation = Installation::publish(&cluster).await.unwrap();
        installation.apply(&cluster, "deploy").await.unwrap();
        installation.wait_available(&cluster).await.unwrap();
        let mut installed = Self {
            cluster,
            installation,
        };
        installed.serve(ACCOUNT).await.unwrap();
        installed
    }

    /// Starts the PolicyServer as that account, in place of one that runs, as it is after its
    /// Deployment was rolled out.
    pub(crate) async fn serve(&mut self, account: &str) -> Result<()> {
        self.end_policy_server().await;
        let real = policy_server::executable().is_some();
        self.installation
            .serve_policy(&mut self.cluster, account, real)
            .await
    }

    /// Stops the PolicyServer and waits until the API server has noticed.
    pub(crate) async fn stop_policy_server(&mut self) {
        self.end_policy_server().await;
        for policy in installed_policies(&self.cluster).await.unwrap() {
            wait_for(
                "the API server to miss the PolicyServer",
                TIMEOUT,
                async || {
                    // A policy that is not asked about the namespace of the probe cannot be probed.
                    let Some(answer) = send_probe(&policy, &self.cluster.client()).await? else {
                        return Ok(Progress::Done(()));
                    };
                    Ok(Progress::when(
                        answer.contains("failed calling webhook"),
                        (),
                        answer,
                    ))
                },
            )
            .await
            .unwrap();
        }
    }

    /// Freezes the PolicyServer: it accepts connections, and answers nothing.
    pub(crate) fn freeze_policy_server(&self) {
        match self.cluster.webhook() {
            Ok(webhook) => webhook.hang(),
            Err(_) => self.cluster.control_plane.pause(POLICY_SERVER).unwrap(),
        }
    }

    async fn end_policy_server(&mut self) {
        self.cluster.webhook = None;
        self.installation.policy_server = None;
        let supervisor = self.cluster.control_plane.supervisor();
        if supervisor
            .status(POLICY_SERVER)
            .is_ok_and(|status| status.running)
        {
            supervisor.kill(POLICY_SERVER).await.unwrap();
        }
    }

    pub(crate) fn pool(&self, namespace: &'static str) -> Pool<'_> {
        Pool {
            cluster: &self.cluster,
            namespace,
        }
    }

    /// A StatefulSet `db` with one Pod in a namespace of its own, whose state is recorded. Its node
    /// is loaded, so that the Pod starts on another one if nothing brings it back.
    pub(crate) async fn run_recorded(&self, namespace: &'static str) -> Home {
        let pool = Pool::new(&self.cluster, namespace, 3, 3).await;
        pool.object("db", &required("db", &[HOSTNAME])).await;
        let pods = self
            .cluster
            .run_stateful_set(&pool.stateful_set("db", 1))
            .await
            .unwrap();
        pool.recorded("db", "db").await;
        let node = homes(&pods)["db-0"].clone();
        pool.load(&node).await;
        Home { namespace, node }
    }

    /// Gives a namespace the label that decides whether its Pods are sent to the policy.
    pub(crate) async fn label(&self, namespace: &str, value: &str) {
        let label = format!("{INJECTION}={value}");
        let label = ["label", "namespace", namespace, &label, "--overwrite"];
        self.cluster.control_plane.kubectl(&label).await.unwrap();
    }

    /// Gives the policy for Pods the namespace selector of the chart's `scope: OptIn`. Returns the
    /// former one.
    pub(crate) async fn opt_in(&self) -> Value {
        let policies = installed_policies(&self.cluster).await.unwrap();
        let mutating = policies.iter().find(|policy| policy.is_mutating()).unwrap();
        let before = mutating.spec("namespaceSelector").clone();
        let mut selector = before.clone();
        let is_label = |one: &&mut Value| one["key"] == INJECTION;
        let one = selector["matchExpressions"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .find(is_label)
            .unwrap();
        *one = json!({"key": INJECTION, "operator": "In", "values": ["enabled"]});
        self.set_selector(&selector).await;
        before
    }

    pub(crate) async fn set_selector(&self, selector: &Value) {
        let patch = json!({"spec": {"namespaceSelector": selector}}).to_string();
        let patch = [
            "patch",
            "clusteradmissionpolicy",
            "persistent-pod-state",
            "--type=merge",
            "--patch",
            &patch,
        ];
        self.cluster.control_plane.kubectl(&patch).await.unwrap();
    }

    /// Has StatefulSets of these namespaces tried again at once: their controller waits longer
    /// after each refusal.
    pub(crate) async fn retry(&self, namespaces: &[&str]) {
        for namespace in namespaces {
            let all = [
                "annotate",
                "statefulset",
                "--all",
                "--overwrite",
                "--namespace",
                *namespace,
            ];
            let now = format!("retried-at={:?}", std::time::Instant::now());
            self.cluster
                .control_plane
                .kubectl(&[&all[..], &[&now]].concat())
                .await
                .unwrap();
        }
    }

    /// Waits until the API server has answered this to a controller that tried to create a Pod of
    /// this StatefulSet. Returns the whole message. The controller manager drops Events of an
    /// object that has had many: then the same Pod is sent as a dry run.
    pub(crate) async fn refusal(
        &self,
        namespace: &'static str,
        stateful_set: &str,
        part: &str,
    ) -> String {
        let pool = self.pool(namespace);
        wait_for(
            &format!("the Pod of {stateful_set} to be refused: {part}"),
            TIMEOUT,
            async || {
                let mut messages = pool.events(stateful_set, "FailedCreate").await?;
                if !messages.iter().any(|message| message.contains(part)) {
                    messages.extend(self.send_pod_of(namespace, stateful_set).await?);
                }
                let found = messages
                    .iter()
                    .find(|message| message.contains(part))
                    .cloned();
                Ok(Progress::when(
                    found.is_some(),
                    found.unwrap_or_default(),
                    format!("{messages:?}"),
                ))
            },
        )
        .await
        .unwrap()
    }

    /// Sends the first Pod of a StatefulSet as a dry run. Returns the refusal in the words of the
    /// controller, if any.
    async fn send_pod_of(&self, namespace: &str, stateful_set: &str) -> Result<Option<String>> {
        let control_plane = &self.cluster.control_plane;
        let get = [
            "get",
            "statefulset",
            "--namespace",
            namespace,
            stateful_set,
            "--output=json",
        ];
        let owner: Value = serde_json::from_str(&control_plane.kubectl(&get).await?)?;
        let name = format!("{stateful_set}-0");
        let mut pod = owner["spec"]["template"].clone();
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = name.as_str().into();
        pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = name.as_str().into();
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet",
            "name": stateful_set, "uid": owner["metadata"]["uid"], "controller": true}]);
        let file = Scratch::file("pod.json", pod.to_string())?;
        let path = file.argument();
        let create = [
            "create",
            "--namespace",
            namespace,
            "--dry-run=server",
            "--filename",
            &path,
        ];
        let Err(error) = control_plane.kubectl(&create).await else {
            return Ok(None);
        };
        let error = format!("{error:#}");
        // kubectl says: Error from server (REASON): error when creating "FILE": MESSAGE
        let (_, answer) = error
            .split_once(&format!("error when creating {path:?}: "))
            .unwrap_or(("", &error));
        Ok(Some(format!(
            "create Pod {name} in StatefulSet {stateful_set} failed error: {answer}"
        )))
    }
}

/// Where `db-0` belongs.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) namespace: &'static str,
    pub(crate) node: String,
}

impl Home {
    pub(crate) async fn pod(&self, installed: &Installed) -> Option<PodInfo> {
        installed
            .cluster
            .pods(self.namespace, "db")
            .await
            .unwrap()
            .remove("db-0")
    }

    pub(crate) async fn delete_pod(&self, installed: &Installed) {
        installed
            .cluster
            .delete_pods(self.namespace, "db", &["db-0"])
            .await
            .unwrap();
    }

    /// Waits until the Pod is Ready.
    pub(crate) async fn ready(&self, installed: &Installed) -> PodInfo {
        installed
            .pool(self.namespace)
            .ready("db", 1)
            .await
            .remove("db-0")
            .unwrap()
    }

    /// Waits until the Pod is Ready, on its node and because the policy brought it there.
    pub(crate) async fn assert_back(&self, installed: &Installed) {
        let pod = self.ready(installed).await;
        assert_eq!(pod.node.as_ref(), Some(&self.node), "{pod:?}");
        assert_eq!(
            pod.annotations.get(MARKER).map(String::as_str),
            Some("db"),
            "{pod:?}"
        );
    }

    /// Waits until the Pod is Ready on another node, to which the policy did not bring it.
    pub(crate) async fn assert_away(&self, installed: &Installed) -> String {
        let pod = self.ready(installed).await;
        assert_eq!(pod.annotations.get(MARKER), None, "{pod:?}");
        let node = pod.node.unwrap();
        assert_ne!(
            node, self.node,
            "the scheduler prefers the nodes that are not loaded"
        );
        node
    }

    /// The node that is recorded.
    pub(crate) async fn recorded(&self, installed: &Installed) -> Option<Value> {
        let states: BTreeMap<String, Value> = installed
            .cluster
            .pod_states(self.namespace, "db")
            .await
            .unwrap();
        states.get("db-0").map(|state| state["nodeName"].clone())
    }

    pub(crate) async fn assert_recorded(&self, installed: &Installed) {
        assert_eq!(self.recorded(installed).await, Some(json!(self.node)));
    }
}
