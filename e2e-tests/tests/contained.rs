//! What a wrong installation costs: the product is broken in each way that installations break, and
//! Pods of all kinds are created meanwhile. At most those of StatefulSets are delayed, and only
//! until the cause is repaired.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    time::{Duration, Instant},
};

use kube::ResourceExt;
use pps_e2e::{
    cluster::{PodInfo, StatefulSetSpec},
    http,
    install::installed_policies,
    kubewarden::{self, policy_server},
    manifests::{self, render::render_kustomize},
    programs::kubernetes_version,
    report,
    repository::repository_file,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use crate::support::{
    HOSTNAME, TIMEOUT,
    causes::code_of,
    installed::{ACCOUNT, Home, INJECTION, Installed},
    required, wait_for_permission,
};

/// How long a Pod that is not created has to be missing.
const PATIENCE: Duration = Duration::from_secs(2);

/// The workers of the StatefulSet controller (`--concurrent-statefulset-syncs`).
const WORKERS: usize = 5;
/// What a busy machine takes in addition.
const SLACK: Duration = Duration::from_secs(8);

/// What becomes of a Pod while something is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It is created as if the product did not exist.
    Created,
    /// The same, but its controller waits for the answers about Pods that are sent before.
    Late,
    /// It is created on the node that is recorded.
    Returns,
    /// The API server gets no answer from the PolicyServer, and its controller tries again.
    NoAnswer,
    /// The policy cannot know whether it has a state, refuses it, and its controller tries again.
    CannotKnow,
}

use Outcome::{CannotKnow, Created, Late, NoAnswer, Returns};

/// The kinds of Pods, as the columns of the table have them.
const COLUMNS: [&str; 6] = [
    "Deployment",
    "Job",
    "bare Pod",
    "StatefulSet, `disabled` namespace",
    "StatefulSet without PPS",
    "StatefulSet with state",
];

/// One way in which an installation is wrong.
struct Row {
    way: &'static str,
    outcomes: [Outcome; 6],
    afterwards: &'static str,
}

const BACK: &str = "all are created; the one with a state on its node";

/// In the order of the document.
const ROWS: [Row; 9] = [
    row("wrong ServiceAccount", CannotKnow, CannotKnow, BACK),
    row("missing right", CannotKnow, CannotKnow, BACK),
    row("module that cannot be pulled", NoAnswer, NoAnswer, BACK),
    row(
        "overlay applied later",
        Created,
        Returns,
        "nothing to repair",
    ),
    row("PolicyServer stopped", NoAnswer, NoAnswer, BACK),
    row(
        "PolicyServer stopped, namespace of the StatefulSet without PPS not labelled",
        Created,
        NoAnswer,
        BACK,
    ),
    row(
        "registry that needs us",
        NoAnswer,
        NoAnswer,
        "the label `disabled` on its namespace lets the registry start, then the PolicyServer, \
         then all others",
    ),
    Row {
        way: "PolicyServer hangs",
        outcomes: [Created, Created, Created, Late, NoAnswer, NoAnswer],
        afterwards: BACK,
    },
    row(
        "definition deleted",
        Created,
        Created,
        "what was recorded is lost unless it was saved; Ready Pods are recorded again",
    ),
];

/// The Pods of the first four columns never depend on the product.
const fn row(
    way: &'static str,
    without_pps: Outcome,
    with_state: Outcome,
    afterwards: &'static str,
) -> Row {
    Row {
        way,
        outcomes: [Created, Created, Created, Created, without_pps, with_state],
        afterwards,
    }
}

fn outcomes(way: &str) -> [Outcome; 6] {
    ROWS.iter().find(|row| row.way == way).unwrap().outcomes
}

/// The Pods that are created while something is broken.
struct Attempt<'a> {
    installed: &'a Installed,
    home: &'a Home,
    /// The namespace with the label.
    disabled: String,
    /// The namespace of the StatefulSet without PPS.
    plain: String,
}

impl<'a> Attempt<'a> {
    fn new(installed: &'a Installed, home: &'a Home) -> Self {
        let namespace = home.namespace;
        Self {
            installed,
            home,
            disabled: format!("{namespace}-disabled"),
            plain: namespace.to_owned(),
        }
    }

    /// Creates one workload of each kind, and deletes the Pod with a state.
    async fn begin(&self) {
        let Self {
            installed,
            home,
            disabled,
            plain,
        } = self;
        let namespace = home.namespace;
        let container = json!([{"name": "main", "image": "example.invalid/main:1"}]);
        let spec = json!({"automountServiceAccountToken": false, "containers": container,
            "nodeSelector": installed.pool(namespace).selector()});
        let template = |name: &str| json!({"metadata": {"labels": {"app": name}}, "spec": spec});
        let metadata =
            |name: &str| json!({"namespace": namespace, "name": name, "labels": {"app": name}});
        let mut once = template("job");
        once["spec"]["restartPolicy"] = "Never".into();
        let objects = [
            json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": disabled, "labels": {INJECTION: "disabled"}}}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("deployment"),
                "spec": {"selector": {"matchLabels": {"app": "deployment"}}, "template": template("deployment")}}),
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata("job"), "spec": {"template": once}}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata("bare"), "spec": spec}),
            StatefulSetSpec::new(disabled, "disabled", 1).object(),
            StatefulSetSpec::new(plain, "plain", 1).object(),
        ];
        installed.cluster.namespace(plain).await.unwrap();
        installed.cluster.apply_objects(&objects).await.unwrap();
        home.delete_pod(installed).await;
    }

    /// The workloads in the order of the columns: namespace and name.
    fn workloads(&self) -> [(&str, &str); 6] {
        let namespace = self.home.namespace;
        let of = |name| (namespace, name);
        let (disabled, plain) = ((&*self.disabled, "disabled"), (&*self.plain, "plain"));
        [
            of("deployment"),
            of("job"),
            of("bare"),
            disabled,
            plain,
            of("db"),
        ]
    }

    /// Which of the workloads have a Pod that is not terminating.
    async fn created(&self) -> [bool; 6] {
        let mut created = [false; 6];
        for (created, (namespace, name)) in created.iter_mut().zip(self.workloads()) {
            let pods = self.installed.cluster.pods(namespace, name).await.unwrap();
            *created = pods.values().any(|pod| !pod.terminating);
        }
        created
    }

    /// Does this while something is broken in that way.
    async fn run(&self, way: &str) {
        self.begin().await;
        self.observe(outcomes(way)).await;
    }

    /// Waits for the Pods that should be created, and watches that no other one is.
    async fn observe(&self, expected: [Outcome; 6]) {
        let wanted = expected.map(|outcome| matches!(outcome, Created | Late | Returns));
        let what = format!("these Pods to be created: {wanted:?} of {COLUMNS:?}");
        wait_for(&what, TIMEOUT, async || {
            let created = self.created().await;
            Ok(Progress::when(
                created == wanted,
                (),
                format!("{created:?}"),
            ))
        })
        .await
        .unwrap();
        tokio::time::sleep(PATIENCE).await;
        assert_eq!(self.created().await, wanted, "{COLUMNS:?}");
        for ((_, name), outcome) in self.workloads().into_iter().zip(expected) {
            let why = match outcome {
                Created | Late | Returns => continue,
                NoAnswer => "failed calling webhook",
                CannotKnow => {
                    "denied the request: cannot look up the PersistentPodState of StatefulSet"
                }
            };
            self.installed.refusal(self.home.namespace, name, why).await;
        }
        if expected[5] == Returns {
            self.home.assert_back(self.installed).await;
        }
    }

    /// Waits until every Pod runs, once the cause is repaired.
    async fn finish(&self) {
        self.installed.retry(&[self.home.namespace]).await;
        for (namespace, name) in self.workloads() {
            self.installed
                .cluster
                .wait_ready(namespace, name, 1, TIMEOUT)
                .await
                .unwrap();
        }
    }
}

/// The table for the documents.
fn table() -> String {
    let mut text = format!(
        "| what is wrong | {} | the check names it | once it is repaired |\n|{}\n",
        COLUMNS.join(" | "),
        "---|".repeat(9)
    );
    for row in ROWS {
        let outcomes = row.outcomes.map(|outcome| match outcome {
            Created => "created",
            Late => "created, but late",
            Returns => "created, on its node",
            NoAnswer => "delayed: no answer",
            CannotKnow => "delayed: refused",
        });
        let code = code_of(row.way);
        let _ = writeln!(
            text,
            "| {} | {} | `{code}` | {} |",
            row.way,
            outcomes.join(" | "),
            row.afterwards
        );
    }
    text
}

#[tokio::test]
async fn a_broken_installation_delays_at_most_stateful_pods() {
    let mut installed = Installed::start().await;

    // The account of the PolicyServer `default`, which `deploy` does not bind.
    let home = installed.run_recorded("wrong-account").await;
    installed.serve(kubewarden::SERVICE_ACCOUNT).await.unwrap();
    Attempt::new(&installed, &home)
        .run("wrong ServiceAccount")
        .await;
    installed.serve(ACCOUNT).await.unwrap();
    finish(&installed, &home).await;

    let home = installed.run_recorded("missing-right").await;
    grant(&installed, false).await;
    Attempt::new(&installed, &home).run("missing right").await;
    grant(&installed, true).await;
    finish(&installed, &home).await;

    // Kubewarden refuses to move the policies, so they stay. The bindings of both servers exist
    // side by side.
    let home = installed.run_recorded("overlay").await;
    apply_without_policies(&installed, "deploy/overlays/shared-policy-server").await;
    Attempt::new(&installed, &home)
        .run("overlay applied later")
        .await;

    // The registry from which the module is pulled runs in a StatefulSet.
    let stopped = installed.run_recorded("stopped").await;
    let needed = installed.run_recorded("registry").await;
    let unpulled = installed.run_recorded("no-module").await;
    let registry = StatefulSetSpec::new("registry-itself", "registry", 1);
    installed.cluster.run_stateful_set(&registry).await.unwrap();
    installed.stop_policy_server().await;
    installed
        .cluster
        .delete_pods("registry-itself", "registry", &["registry-0"])
        .await
        .unwrap();
    let (one, other) = (
        Attempt::new(&installed, &stopped),
        Attempt::new(&installed, &needed),
    );
    tokio::join!(
        one.run("PolicyServer stopped"),
        other.run("registry that needs us")
    );
    installed
        .refusal("registry-itself", "registry", "failed calling webhook")
        .await;
    // The PolicyServer is started again while its module is missing.
    let published = installed.installation.published.policy.clone();
    let (repository, _) = published.split_once('@').unwrap();
    let module = set_module(&installed, &format!("registry://{repository}:missing")).await;
    let error = format!("{:#}", installed.serve(ACCOUNT).await.unwrap_err());
    report::note(&format!(
        "the PolicyServer does not start: {}",
        first_line(&error)
    ));
    Attempt::new(&installed, &unpulled)
        .run("module that cannot be pulled")
        .await;
    set_module(&installed, &module).await;
    installed.label("registry-itself", "disabled").await;
    installed.retry(&["registry-itself"]).await;
    installed
        .cluster
        .wait_ready("registry-itself", "registry", 1, TIMEOUT)
        .await
        .unwrap();
    installed.serve(ACCOUNT).await.unwrap();
    tokio::join!(
        finish(&installed, &stopped),
        finish(&installed, &needed),
        finish(&installed, &unpulled)
    );

    // The API server can be told which namespaces use states: only those are sent.
    let home = installed.run_recorded("opted-in").await;
    installed.label(home.namespace, "enabled").await;
    let all = installed.opt_in().await;
    installed.serve(ACCOUNT).await.unwrap();
    installed.stop_policy_server().await;
    let plain = "not-opted-in".to_owned();
    installed.cluster.namespace(&plain).await.unwrap();
    installed.label(&plain, "not-enabled").await;
    let attempt = Attempt {
        plain,
        ..Attempt::new(&installed, &home)
    };
    attempt
        .run("PolicyServer stopped, namespace of the StatefulSet without PPS not labelled")
        .await;
    installed.serve(ACCOUNT).await.unwrap();
    installed.retry(&[home.namespace]).await;
    home.assert_back(&installed).await;
    installed.set_selector(&all).await;
    installed.serve(ACCOUNT).await.unwrap();

    // Each Pod that is sent holds one of the StatefulSet controller's workers until the API
    // server's time is up.
    let home = installed.run_recorded("hanging").await;
    installed.freeze_policy_server();
    let crowd = stateful_sets("crowd");
    installed.cluster.namespace("crowd").await.unwrap();
    installed.cluster.apply_objects(&crowd).await.unwrap();
    let attempt = Attempt::new(&installed, &home);
    let (started, limit) = (
        Instant::now(),
        longest_wait(&installed, crowd.len() + 2).await,
    );
    attempt.begin().await;
    wait_for("the Pod that is not sent", limit + SLACK, async || {
        let [.., late, _, _] = attempt.created().await;
        Ok(Progress::when(late, (), "it is not created".to_owned()))
    })
    .await
    .unwrap();
    report::note(&format!(
        "a Pod that is not sent was created after {:.1?}, at most {limit:?}",
        started.elapsed()
    ));
    attempt.observe(outcomes("PolicyServer hangs")).await;
    installed.serve(ACCOUNT).await.unwrap();
    let delete = [
        "delete",
        "statefulset",
        "--all",
        "--namespace",
        "crowd",
        "--wait=false",
    ];
    installed
        .cluster
        .control_plane
        .kubectl(&delete)
        .await
        .unwrap();
    finish(&installed, &home).await;

    // Last: all recorded states are gone with it.
    let home = installed.run_recorded("no-definition").await;
    let crd = "persistentpodstates.apps.kruise.io";
    let processes = processes_of_sidecars(&installed).await;
    installed
        .cluster
        .control_plane
        .kubectl(&["delete", "crd", crd])
        .await
        .unwrap();
    wait_for("no sidecar to be ready", TIMEOUT, async || {
        let sidecars = installed.installation.sidecars(&installed.cluster).await?;
        let none = !sidecars.iter().any(|pod| PodInfo::from(pod).ready);
        Ok(Progress::when(none, (), "one is ready"))
    })
    .await
    .unwrap();
    Attempt::new(&installed, &home)
        .run("definition deleted")
        .await;
    assert_sidecars_name_the_definition(&installed).await;
    Attempt::new(&installed, &home).finish().await;
    let away = home.assert_away(&installed).await;
    recreate_definition(&installed, &home).await;
    assert_eq!(home.recorded(&installed).await, Some(json!(away)));
    installed
        .installation
        .wait_available(&installed.cluster)
        .await
        .unwrap();
    assert_eq!(
        processes_of_sidecars(&installed).await,
        processes,
        "they recover without a restart"
    );

    let server = if policy_server::executable().is_some() {
        "Kubewarden's PolicyServer"
    } else {
        "the stand-in"
    };
    let text = table();
    report::note(&format!(
        "Kubernetes {}, {server}\n\n{text}",
        kubernetes_version().unwrap()
    ));
    let document = fs::read_to_string(repository_file("docs/reference/faults.md")).unwrap();
    assert!(
        document.contains(&text),
        "docs/reference/faults.md has another table"
    );
}

/// StatefulSets in scope, more than the controller has workers.
fn stateful_sets(namespace: &str) -> Vec<Value> {
    (0..8)
        .map(|at| StatefulSetSpec::new(namespace, &format!("one-{at}"), 1).object())
        .collect()
}

/// How long a Pod that is not sent waits at most while so many others get no answer: the formula of
/// docs/break-glass.md.
async fn longest_wait(installed: &Installed, others: usize) -> Duration {
    let policies = installed_policies(&installed.cluster).await.unwrap();
    let policy = policies.iter().find(|policy| policy.is_mutating()).unwrap();
    let timeout = policy.spec("timeoutSeconds").as_u64().unwrap();
    let rounds = others.div_ceil(WORKERS);
    Duration::from_secs(timeout * u64::try_from(rounds).unwrap())
}

/// Once the cause is repaired, everything runs, and the Pod with a state on its node.
async fn finish(installed: &Installed, home: &Home) {
    Attempt::new(installed, home).finish().await;
    home.assert_back(installed).await;
}

/// Creates the definition and the object again, and waits until the running Pod is recorded.
async fn recreate_definition(installed: &Installed, home: &Home) {
    let definition = manifests::read(&repository_file("deploy/base/crd.yaml")).unwrap();
    installed.cluster.apply_objects(&definition).await.unwrap();
    let pool = installed.pool(home.namespace);
    wait_for("the object to be accepted", TIMEOUT, async || {
        let object = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
            "metadata": {"namespace": home.namespace, "name": "db"}, "spec": required("db", &[HOSTNAME])});
        Ok(Progress::Done(installed.cluster.apply_objects(&[object]).await?))
    })
    .await
    .unwrap();
    pool.recorded("db", "db").await;
}

/// Each sidecar says what it cannot watch, and that a restart would not help.
async fn assert_sidecars_name_the_definition(installed: &Installed) {
    let processes = processes_of_sidecars(installed).await;
    assert_eq!(processes.len(), 2, "{processes:?}");
    for (name, process) in processes {
        // The process listens at an address of its own.
        let arguments = fs::read_to_string(format!("/proc/{}/cmdline", process.unwrap())).unwrap();
        let address = arguments
            .split('\0')
            .find_map(|word| word.strip_prefix("--admin-address="))
            .unwrap();
        let (code, body) = http::get(address, "/readyz").await.unwrap();
        assert!(
            code == 503 && body.contains("persistentpodstates"),
            "{name}: {code} {body}"
        );
        assert_eq!(
            http::get(address, "/healthz").await.unwrap().0,
            200,
            "{name}"
        );
    }
}

/// The process of each sidecar.
async fn processes_of_sidecars(installed: &Installed) -> BTreeMap<String, Option<u32>> {
    let sidecars = installed
        .installation
        .sidecars(&installed.cluster)
        .await
        .unwrap();
    let supervisor = installed.cluster.control_plane.supervisor();
    let sidecars = sidecars.iter().map(ResourceExt::name_any);
    sidecars
        .map(|name| (name.clone(), supervisor.status(&name).unwrap().pid))
        .collect()
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Grants the policies' role its right, or takes it away.
async fn grant(installed: &Installed, granted: bool) {
    let rules = json!([{"apiGroups": ["apps.kruise.io"], "resources": ["persistentpodstates"], "verbs": ["get"]}]);
    let rules = if granted { rules } else { json!([]) };
    let patch = json!({"rules": rules}).to_string();
    let patch = [
        "patch",
        "clusterrole",
        "pps-policy",
        "--type=merge",
        "--patch",
        &patch,
    ];
    installed
        .cluster
        .control_plane
        .kubectl(&patch)
        .await
        .unwrap();
    let user = format!("system:serviceaccount:{}:{ACCOUNT}", kubewarden::NAMESPACE);
    wait_for_permission(
        &installed.cluster,
        &user,
        "apps.kruise.io",
        "persistentpodstates",
        "get",
        granted,
    )
    .await;
}

/// Lets the policies name that module. Returns the one that they have named.
async fn set_module(installed: &Installed, module: &str) -> String {
    let before = installed_policies(&installed.cluster).await.unwrap()[0]
        .module()
        .unwrap()
        .to_owned();
    let patch = json!({"spec": {"module": module}}).to_string();
    for policy in ["persistent-pod-state", "persistent-pod-state-validation"] {
        let patch = [
            "patch",
            "clusteradmissionpolicy",
            policy,
            "--type=merge",
            "--patch",
            &patch,
        ];
        installed
            .cluster
            .control_plane
            .kubectl(&patch)
            .await
            .unwrap();
    }
    before
}

/// Applies a kustomization as `kubectl` does it where Kubewarden refuses to change the policies:
/// all other objects.
async fn apply_without_policies(installed: &Installed, folder: &str) {
    let objects = render_kustomize(folder).unwrap();
    let is_other = |object: &Value| {
        let kind = object["kind"].as_str().unwrap_or_default();
        // The sidecar's image is not the one that was pushed.
        !["ClusterAdmissionPolicy", "Deployment"].contains(&kind)
    };
    let objects: Vec<Value> = objects.into_iter().filter(is_other).collect();
    installed.cluster.apply_objects(&objects).await.unwrap();
}
