//! A cluster with Kubewarden's controller as far as checks can see it, and the account of the
//! check.

use std::{collections::BTreeSet, path::PathBuf, sync::Mutex, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use pps_e2e::{
    cluster::Cluster,
    install::Installation,
    kubewarden::{
        NAMESPACE as KUBEWARDEN, install_definitions,
        reconciler::{Reconciler, api},
    },
    manifests,
    registry::{Publisher, Registry, RegistryOptions},
    repository::repository_file,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::run::{CheckReport, run_check};
use crate::behaviour::permissions::{of_role, requests_of};

const CHECK: &str = "pps-check";
const CHECK_NAMESPACE: &str = "persistent-pod-state-check";
/// The PolicyServer that is installed.
pub(super) const SERVER: &str = "persistent-pod-state";

/// A cluster to check.
pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) controller: Reconciler,
    installation: Option<Installation>,
    /// The registry from which nothing is installed.
    pub(super) registry: Registry,
    /// The published module.
    pub(super) module: String,
    kubeconfig: PathBuf,
    /// The codes of all errors and warnings so far.
    found: Mutex<BTreeSet<String>>,
}

impl World {
    /// Installs the product as the README says.
    pub(super) async fn install(&mut self) {
        let installation = Installation::publish(&self.cluster).await.unwrap();
        installation.apply(&self.cluster, "deploy").await.unwrap();
        installation.wait_available(&self.cluster).await.unwrap();
        self.module.clone_from(&installation.published.policy);
        self.installation = Some(installation);
        let host = self.module.split('/').next().unwrap();
        self.policy_server(&json!({"insecureSources": [host]}))
            .await;
        self.controller.run_servers().await.unwrap();
        self.controller.reconcile_policies().await.unwrap();
    }

    pub(super) fn installation(&self) -> &Installation {
        self.installation.as_ref().unwrap()
    }

    /// A cluster with Kubewarden, and a registry that has the module.
    pub(super) async fn without_the_product() -> Self {
        let (cluster, controller, kubeconfig) = start().await;
        let options = RegistryOptions {
            name: "before".into(),
            ..RegistryOptions::default()
        };
        let registry = Registry::start(cluster.control_plane.supervisor(), options)
            .await
            .unwrap();
        let publisher = Publisher::to(&registry);
        let module = publisher.policy(registry.host()).await.unwrap();
        Self {
            cluster,
            controller,
            installation: None,
            registry,
            module,
            kubeconfig,
            found: Mutex::default(),
        }
    }

    /// Runs the check with its own account.
    pub(super) async fn check(&self, args: &[&str]) -> CheckReport {
        let report = run_check(&self.kubeconfig, args).await.unwrap();
        let wrong = ["error", "warning"]
            .into_iter()
            .flat_map(|severity| report.codes(severity));
        self.found.lock().unwrap().extend(wrong.map(str::to_owned));
        report
    }

    /// Whether an error or a warning with this code was found.
    pub(super) fn has_found(&self, code: &str) -> bool {
        self.found.lock().unwrap().contains(code)
    }

    /// The same with arguments that are not borrowed.
    pub(super) async fn check_all(&self, args: &[String]) -> CheckReport {
        self.check(&args.iter().map(String::as_str).collect::<Vec<_>>())
            .await
    }

    /// Runs the check, which must find these errors and no others. The API server may take a moment
    /// to know a new role.
    pub(super) async fn expect_error(&self, args: &[&str], codes: &[&str]) {
        let wanted: BTreeSet<&str> = codes.iter().copied().collect();
        let what = format!("the check to find {codes:?}");
        let report = wait_for(&what, Duration::from_secs(40), async || {
            let report = self.check(args).await;
            let found: BTreeSet<&str> = report.codes("error").into_iter().collect();
            Ok(Progress::when(
                found == wanted,
                report.clone(),
                format!("{report:#?}"),
            ))
        });
        let report = report.await.unwrap();
        assert_eq!(report.exit_code, 1, "{report:#?}");
        for finding in report
            .findings
            .iter()
            .filter(|finding| finding.severity == "error")
        {
            assert!(
                !finding.advice.is_empty() && !finding.subject.is_empty(),
                "{finding:?}"
            );
        }
    }

    /// Runs the check until it finds no error. Sidecars that have just noticed a change may not be
    /// ready for a moment.
    pub(super) async fn expect_no_error(&self) {
        wait_for(
            "the check to find no error",
            Duration::from_mins(1),
            async || {
                let report = self.check(&[]).await;
                Ok(Progress::when(
                    report.exit_code == 0,
                    (),
                    format!("{report:#?}"),
                ))
            },
        )
        .await
        .unwrap();
    }

    /// Changes the spec of the PolicyServer, which is made unless it exists.
    pub(super) async fn policy_server(&self, spec: &Value) {
        let servers = api(&self.cluster.client(), "PolicyServer");
        if servers.get_opt(SERVER).await.unwrap().is_none() {
            let object = json!({"apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyServer",
                "metadata": {"name": SERVER},
                "spec": {"image": "policy-server:v1.36.0", "replicas": 1}});
            self.cluster.apply_objects(&[object]).await.unwrap();
        }
        let patch = Patch::Merge(json!({"spec": spec}));
        servers
            .patch(SERVER, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(super) async fn delete_policy_server(&self) {
        api(&self.cluster.client(), "PolicyServer")
            .delete(SERVER, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// Changes all policies.
    pub(super) async fn policies(&self, patch: &Value) {
        let policies = api(&self.cluster.client(), "ClusterAdmissionPolicy");
        for policy in policies.list(&ListParams::default()).await.unwrap() {
            policies
                .patch(
                    &policy.name_any(),
                    &PatchParams::default(),
                    &Patch::Merge(patch),
                )
                .await
                .unwrap();
        }
    }

    /// Runs kubectl as the administrator.
    pub(super) async fn kubectl(&self, args: &[&str]) -> String {
        self.cluster.control_plane.kubectl(args).await.unwrap()
    }

    /// The Pods of the PolicyServer.
    async fn server_pods(&self) -> Vec<String> {
        let labels = ListParams::default().labels(&format!("kubewarden/policy-server={SERVER}"));
        let pods = self
            .cluster
            .pods_api(KUBEWARDEN)
            .list(&labels)
            .await
            .unwrap();
        pods.iter().map(ResourceExt::name_any).collect()
    }

    /// Lets the PolicyServer's Pods fail as those do that cannot pull a module: the program ends
    /// with an error.
    pub(super) async fn fail_server(&self) {
        let failed = json!({"status": {
            "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}],
            "containerStatuses": [{"name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 4,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting"}},
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}],
        }});
        let pods: Api<Pod> = self.cluster.pods_api(KUBEWARDEN);
        for pod in self.server_pods().await {
            pods.patch_status(&pod, &PatchParams::default(), &Patch::Strategic(&failed))
                .await
                .unwrap();
        }
        self.controller.reconcile_policies().await.unwrap();
    }

    /// Replaces the PolicyServer's Pods by new ones, which become ready.
    pub(super) async fn restart_server(&self) {
        let pods: Api<Pod> = self.cluster.pods_api(KUBEWARDEN);
        let former = self.server_pods().await;
        for pod in &former {
            pods.delete(pod, &DeleteParams::default().grace_period(0))
                .await
                .unwrap();
        }
        wait_for(
            "the PolicyServer's former Pods to be gone",
            Duration::from_mins(1),
            async || {
                let now = self.server_pods().await;
                Ok(Progress::when(
                    !now.is_empty() && former.iter().all(|pod| !now.contains(pod)),
                    (),
                    format!("{now:?}"),
                ))
            },
        )
        .await
        .unwrap();
        self.controller.run_servers().await.unwrap();
        self.controller.reconcile_policies().await.unwrap();
    }

    /// Runs the check with an account that has only these rules.
    pub(super) async fn check_with_rules(&self, name: &str, rules: &[Value]) -> CheckReport {
        let kubeconfig = account(&self.cluster, name, rules).await;
        run_check(&kubeconfig, &[]).await.unwrap()
    }

    /// Asserts that the check used each right that `deploy/check.yaml` grants, and no other one.
    pub(super) fn assert_rights_used_as_granted(&self) {
        let user = format!("system:serviceaccount:{CHECK_NAMESPACE}:{CHECK}");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let requests = requests_of(&self.cluster, &user).into_iter();
        let used: BTreeSet<_> = requests
            .filter(|event| !event["objectRef"].is_null())
            .map(|event| {
                let object = &event["objectRef"];
                (
                    text(&object["apiGroup"]),
                    text(&object["resource"]),
                    text(&event["verb"]),
                )
            })
            .collect();
        let granted: BTreeSet<_> = of_role(&role())
            .into_iter()
            .map(|(permission, _)| permission)
            .collect();
        assert_eq!(
            used.difference(&granted).collect::<Vec<_>>(),
            Vec::<&_>::new(),
            "used, but not granted"
        );
        let idle: Vec<_> = granted.difference(&used).collect();
        assert_eq!(idle, Vec::<&_>::new(), "granted, but not used");
    }
}

async fn start() -> (Cluster, Reconciler, PathBuf) {
    let cluster = Cluster::builder()
        .without_crd()
        .nodes(3, 3)
        .control_plane(|options| options.audit_log = true);
    let cluster = cluster.start().await.unwrap();
    install_definitions(&cluster.client()).await.unwrap();
    // Each kubelet sets this label.
    cluster
        .control_plane
        .kubectl(&[
            "label",
            "nodes",
            "--all",
            "kubernetes.io/os=linux",
            "--overwrite",
        ])
        .await
        .unwrap();
    cluster.namespace(KUBEWARDEN).await.unwrap();
    let controller = Reconciler::install(cluster.client()).await.unwrap();
    let rules = role()["rules"].as_array().unwrap().clone();
    let kubeconfig = account(&cluster, CHECK, &rules).await;
    (cluster, controller, kubeconfig)
}

/// The check's role.
pub(super) fn role() -> Value {
    let objects = manifests::read(&repository_file("deploy/check.yaml")).unwrap();
    objects
        .into_iter()
        .find(|object| object["kind"] == "ClusterRole")
        .unwrap()
}

/// Makes an account with these rules, and a kubeconfig file for it.
async fn account(cluster: &Cluster, name: &str, rules: &[Value]) -> PathBuf {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name}, "rules": rules});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": CHECK_NAMESPACE, "name": name}]});
    cluster.namespace(CHECK_NAMESPACE).await.unwrap();
    cluster.apply_objects(&[role, binding]).await.unwrap();
    let control_plane = &cluster.control_plane;
    let token = control_plane
        .service_account_token(CHECK_NAMESPACE, name)
        .await
        .unwrap();
    control_plane.kubeconfig_with_token(name, &token).unwrap()
}
