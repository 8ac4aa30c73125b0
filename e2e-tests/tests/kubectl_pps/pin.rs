//! `pin` and `unpin`: what they write, what they do not, and what the product makes of it.

use kube::api::PostParams;
use pps_core::generate::{FIELD_MANAGER, MANAGED_BY_LABEL};
use pps_e2e::{
    cluster::{Cluster, StatefulSetSpec},
    control_plane::User,
    kubewarden::stand_in::WebhookOptions,
    plugin::{Answer, Plugin},
    sidecar::SidecarOptions,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use crate::scenarios::custom_kinds;
use crate::support::{
    self, HOSTNAME, IP_ANNOTATION, MARKER, Pool, SOON, TIMEOUT, ZONE, homes, required, wait_for_review,
};

const AUTO: &str = "kruise.io/auto-generate-persistent-pod-state";
const REQUIRED: &str = "kruise.io/required-persistent-topology";
const DEVELOPER: &str = "developer";

#[tokio::test]
async fn workloads_are_pinned_and_unpinned() {
    let settings = json!({"annotations": {"deny": ["denied.example.io/*"]}});
    let cluster = Cluster::builder()
        .user(User::new(DEVELOPER))
        .deployed_rights()
        .policy(WebhookOptions { settings, ..WebhookOptions::default() })
        .sidecar(SidecarOptions::default());
    let cluster = cluster.start().await.unwrap();
    support::run(scenarios![&cluster;
        pins_by_annotations_and_unpins,
        writes_and_changes_an_object,
        names_pods_whose_places_another_label_loses,
        changes_nothing_unless_it_is_told_to,
        does_not_overwrite_what_others_write,
        needs_the_rights_that_it_names_and_no_others,
        refuses_what_the_policy_refuses,
        finds_workloads_of_any_kind,
    ])
    .await
    .unwrap();
}

fn plugin(cluster: &Cluster, user: &str) -> Plugin {
    Plugin::new(cluster.control_plane.kubeconfig_for(user).unwrap())
}

/// Runs a command in the namespace of a scenario, as the administrator.
async fn run(pool: &Pool<'_>, args: &[&str]) -> Answer {
    let args = [args, &["-n", pool.namespace]].concat();
    plugin(pool.cluster, "admin").run(&args).await.unwrap()
}

fn assert_exit(answer: &Answer, code: i32) {
    assert_eq!(answer.exit_code, code, "{}\n{}", answer.stdout, answer.stderr);
}

/// Whether an error has a text, wherever its lines end.
fn assert_says(answer: &Answer, text: &str) {
    let said = answer.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(text), "{said}");
}

async fn workload(pool: &Pool<'_>, name: &str) -> Value {
    serde_json::to_value(pool.cluster.stateful_sets(pool.namespace).get(name).await.unwrap()).unwrap()
}

async fn pins_by_annotations_and_unpins(cluster: &Cluster) {
    let pool = Pool::new(cluster, "pin-annotations", 2, 2).await;
    let web: StatefulSetSpec = pool.stateful_set("web", 2).annotation("team", "data");
    let before = cluster.run_stateful_set(&web).await.unwrap();
    let args = [
        "pin",
        "web",
        "--required",
        "zone",
        "--preferred",
        "hostname",
        "--annotation",
        IP_ANNOTATION,
        "--retention",
        "Retain",
        "--on-node-deletion",
        "Forget",
        "--yes",
    ];
    let answer = run(&pool, &args).await;
    assert_exit(&answer, 0);
    assert!(answer.stdout.contains(&format!("+    {REQUIRED}: {ZONE}\n")), "{}", answer.stdout);
    assert!(answer.stdout.contains("     team: data\n"), "{}", answer.stdout);
    assert!(answer.stdout.ends_with("StatefulSet web is pinned\n"), "{}", answer.stdout);
    let pps = pool.wait_for_object("web", "the object", SOON, |_| true).await;
    assert_eq!(
        pps.data["spec"],
        json!({
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
            "requiredPersistentTopology": {"nodeTopologyKeys": [ZONE]},
            "preferredPersistentTopology": [{"weight": 100, "preference": {"nodeTopologyKeys": [HOSTNAME]}}],
            "persistentPodAnnotations": [{"key": IP_ANNOTATION}],
            "persistentPodStateRetentionPolicy": "Retain",
            "nodeDeletionPolicy": "Forget",
        })
    );
    assert!(pool.event("web", "Pinned").await.contains("StatefulSet web"));
    pool.recorded("web", "web").await;
    let after = pool.recreate("web", &["web-0"]).await;
    assert_eq!(homes(&after), homes(&before));
    assert_eq!(after["web-0"].annotations[MARKER], "web");

    let answer = run(&pool, &args).await;
    assert_exit(&answer, 0);
    assert_eq!(answer.stdout, "StatefulSet web is pinned like this already, by its annotations\n");
    let answer = run(&pool, &[&args[..], &["--object"]].concat()).await;
    assert_exit(&answer, 1);
    assert_says(&answer, "pinned by its annotations, from which PersistentPodState web is generated");
    assert_says(&answer, "kubectl pps unpin web -n pin-annotations");
    // What is not named stays.
    assert_exit(&run(&pool, &["pin", "sts/web", "--required", "zone,hostname", "-y"]).await, 0);
    let pps = pool
        .wait_for_object("web", "the second key", SOON, |pps| {
            pps.data["spec"]["requiredPersistentTopology"]["nodeTopologyKeys"] == json!([ZONE, HOSTNAME])
        })
        .await;
    assert_eq!(pps.data["spec"]["persistentPodStateRetentionPolicy"], "Retain");
    assert_eq!(pps.data["spec"]["persistentPodAnnotations"], json!([{"key": IP_ANNOTATION}]));

    let answer = run(&pool, &["unpin", "web", "--yes"]).await;
    assert_exit(&answer, 0);
    assert!(answer.stdout.contains("the recorded states of 2 Pods"), "{}", answer.stdout);
    pool.wait_until_no_object("web").await;
    assert!(pool.event("web", "Unpinned").await.contains("no longer pinned"));
    let annotations = &workload(&pool, "web").await["metadata"]["annotations"];
    assert_eq!(annotations["team"], "data");
    assert!(
        annotations.as_object().unwrap().keys().all(|key| !key.starts_with("kruise.io/")),
        "{annotations}"
    );
    assert_eq!(pool.ready("web", 2).await["web-1"].uid, after["web-1"].uid);
    let answer = run(&pool, &["unpin", "web", "--yes"]).await;
    assert_exit(&answer, 0);
    assert_eq!(answer.stdout, "nothing pins the Pods of StatefulSet web\n");
}

/// Without a sidecar nobody generates the object that annotations ask for, and nobody deletes it: the Pods are pinned too late,
/// and too long.
pub(super) async fn an_object_that_nobody_generates_or_deletes_is_named(cluster: &Cluster) {
    let pool = Pool::new(cluster, "no-sidecar", 1, 1).await;
    cluster.create_stateful_set(&pool.stateful_set("web", 0)).await.unwrap();
    let pin = ["pin", "web", "--required", "zone", "--yes"];
    let answer = run(&pool, &pin).await;
    assert_exit(&answer, 1);
    assert!(answer.stdout.ends_with("StatefulSet web is annotated\n"), "{}", answer.stdout);
    assert_says(&answer, "there is no PersistentPodState after 30 s");
    assert_says(&answer, "kubectl pps check");
    assert_eq!(workload(&pool, "web").await["metadata"]["annotations"][REQUIRED], ZONE);
    let generated = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
        "metadata": {"name": "web", "labels": {MANAGED_BY_LABEL: FIELD_MANAGER}}, "spec": required("web", &[ZONE])});
    let manager = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let object = serde_json::from_value(generated).unwrap();
    cluster.pps_api(pool.namespace).create(&manager, &object).await.unwrap();
    let answer = run(&pool, &pin).await;
    assert_exit(&answer, 0);
    assert_eq!(answer.stdout, "StatefulSet web is pinned like this already, by its annotations\n");
    // The second time, the annotations are gone already.
    for _ in 0..2 {
        let answer = run(&pool, &["unpin", "web", "--yes"]).await;
        assert_exit(&answer, 1);
        assert!(!answer.stdout.contains("no longer pinned"), "{}", answer.stdout);
        assert_says(&answer, "PersistentPodState web is still there after 15 s");
        assert_says(&answer, "kubectl pps check");
    }
}

async fn writes_and_changes_an_object(cluster: &Cluster) {
    let pool = Pool::new(cluster, "pin-object", 1, 1).await;
    cluster.run_stateful_set(&pool.stateful_set("web", 1)).await.unwrap();
    let answer =
        run(&pool, &["pin", "web", "--object", "--required", "zone", "--preferred", "hostname=50", "--yes"])
            .await;
    assert_exit(&answer, 0);
    assert!(answer.stdout.contains("+kind: PersistentPodState\n"), "{}", answer.stdout);
    let states = pool.recorded("web", "web").await;
    assert!(workload(&pool, "web").await["metadata"]["annotations"][AUTO].is_null());
    // A user's object is changed, without --object as well, and keeps what it has recorded.
    let answer =
        run(&pool, &["pin", "web", "--annotation", IP_ANNOTATION, "--retention", "WhenDeleted", "-y"]).await;
    assert_exit(&answer, 0);
    let spec = pool.pps("web").await.unwrap().data["spec"].clone();
    assert_eq!(spec["persistentPodStateRetentionPolicy"], "WhenDeleted");
    assert_eq!(spec["preferredPersistentTopology"][0]["weight"], 50);
    assert_eq!(spec["persistentPodAnnotations"], json!([{"key": IP_ANNOTATION}]));
    assert!(pool.states("web").await.keys().eq(states.keys()));

    // The deletion is rehearsed before.
    assert_exit(&run(&pool, &["unpin", "web", "--dry-run"]).await, 0);
    assert_exit(&run(&pool, &["unpin", "web"]).await, 2);
    assert!(pool.states("web").await.keys().eq(states.keys()));
    let answer = run(&pool, &["unpin", "web", "--yes"]).await;
    assert_exit(&answer, 0);
    assert_eq!(answer.stderr, "");
    assert!(answer.stdout.contains("-kind: PersistentPodState\n"), "{}", answer.stdout);
    assert!(answer.stdout.contains("the recorded states of 1 Pod;"), "{}", answer.stdout);
    pool.wait_until_no_object("web").await;
    // An object that a label protects stays.
    pool.object("web", &required("web", &[ZONE])).await;
    let label = json!({"metadata": {"labels": {"policy.kruise.io/delete-protection": "Always"}}});
    let patch = kube::api::Patch::Merge(label);
    cluster.pps_api(pool.namespace).patch("web", &kube::api::PatchParams::default(), &patch).await.unwrap();
    let answer = run(&pool, &["unpin", "web", "--yes"]).await;
    assert_exit(&answer, 1);
    assert!(answer.stderr.contains("is protected by its label"), "{}", answer.stderr);
    pool.pps("web").await.unwrap();
}

async fn names_pods_whose_places_another_label_loses(cluster: &Cluster) {
    let pool = Pool::new(cluster, "pin-other-label", 2, 1).await;
    let mut spec = required("web", &[HOSTNAME]);
    spec["persistentPodStateRetentionPolicy"] = "Retain".into();
    pool.object("web", &spec).await;
    cluster.run_stateful_set(&pool.stateful_set("web", 1)).await.unwrap();
    let node = pool.recorded("web", "web").await["web-0"]["nodeName"].as_str().unwrap().to_owned();
    let pin = |more: &'static str| ["pin", "web", "--required", "zone", more];
    let lost =
        "web-0 does not run, and no topology.kubernetes.io/zone is recorded of it: it starts anywhere.";
    let answer = run(&pool, &pin("--dry-run")).await;
    assert!(!answer.stdout.contains("does not run"), "it runs: {}", answer.stdout);
    pool.scale("web", 0).await;
    pool.ready("web", 0).await;
    let answer = run(&pool, &pin("--dry-run")).await;
    assert_exit(&answer, 0);
    assert!(answer.stdout.contains(lost), "{}", answer.stdout);
    let export = "kubectl pps export web -f FILE -n pin-other-label";
    assert!(answer.stdout.contains(export), "{}", answer.stdout);
    let explained = run(&pool, &["explain", "web-0"]).await;
    let back = format!("created later requires {HOSTNAME}={node}.");
    let words = |answer: &Answer| answer.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&explained).contains(&back), "{explained:?}");

    assert_exit(&run(&pool, &pin("--yes")).await, 0);
    let explained = words(&run(&pool, &["explain", "web-0"]).await);
    assert!(explained.contains("Nothing of that is injected"), "{explained}");
    let answer = run(&pool, &["status", "web"]).await;
    assert_exit(&answer, 0);
    let advice = "web-0 is recorded without the labels that are required now: it would start anywhere";
    assert!(words(&answer).contains(advice), "{}", answer.stdout);
}

async fn changes_nothing_unless_it_is_told_to(cluster: &Cluster) {
    let pool = Pool::new(cluster, "pin-asks", 1, 1).await;
    cluster.create_stateful_set(&pool.stateful_set("web", 0)).await.unwrap();
    let metadata = async || {
        let mut metadata = workload(&pool, "web").await["metadata"].clone();
        for field in ["managedFields", "resourceVersion", "generation"] {
            metadata[field] = Value::Null;
        }
        metadata
    };
    let before = metadata().await;
    for more in [&["--dry-run"][..], &["--object", "--dry-run"], &["--object", "--dry-run", "--yes"]] {
        let answer = run(&pool, &[&["pin", "web", "--required", "zone"], more].concat()).await;
        assert_exit(&answer, 0);
        assert!(answer.stdout.contains("+++ "), "{}", answer.stdout);
        assert!(answer.stderr.contains("dry run"), "{}", answer.stderr);
    }
    let answer = run(&pool, &["pin", "web", "--required", "zone"]).await;
    assert_exit(&answer, 2);
    assert!(answer.stderr.contains("add --yes"), "{}", answer.stderr);
    let args = ["pin", "web", "--required", "zone", "-n", pool.namespace];
    let admin = plugin(cluster, "admin");
    let answer = admin.run_on_terminal(&args, 80, "n\n").await.unwrap();
    assert_exit(&answer, 1);
    // A terminal gets colours.
    assert!(answer.stdout.contains("\u{1b}[32m+    kruise.io/"), "{:?}", answer.stdout);
    assert_eq!(metadata().await, before);
    assert!(pool.pps("web").await.is_err());
    let answer = admin.run_on_terminal(&args, 80, "y\n").await.unwrap();
    assert_exit(&answer, 0);
    assert_eq!(workload(&pool, "web").await["metadata"]["annotations"][AUTO], "true");
}

async fn does_not_overwrite_what_others_write(cluster: &Cluster) {
    let pool = Pool::new(cluster, "pin-conflict", 1, 1).await;
    cluster.create_stateful_set(&pool.stateful_set("web", 0)).await.unwrap();
    let admin = plugin(cluster, "admin");
    let args = ["pin", "web", "--required", "zone", "-n", pool.namespace];
    let other = json!({REQUIRED: "another"});
    let answer = admin.run_while(&args, pool.annotate("web", &other)).await.unwrap();
    assert_exit(&answer, 1);
    assert!(answer.stdout.contains("run the command again"), "{}", answer.stdout);
    let annotations = workload(&pool, "web").await["metadata"]["annotations"].clone();
    assert_eq!((&annotations[REQUIRED], &annotations[AUTO]), (&json!("another"), &Value::Null));
    // A workload that was deleted and created again is another one.
    let recreate = async {
        cluster.delete_stateful_set(pool.namespace, "web", false).await.unwrap();
        cluster.create_stateful_set(&pool.stateful_set("web", 0)).await.unwrap();
    };
    assert_exit(&admin.run_while(&args, recreate).await.unwrap(), 1);
    assert!(workload(&pool, "web").await["metadata"]["annotations"][AUTO].is_null());
}

/// Lets the developer do this in the namespace.
async fn grant(pool: &Pool<'_>, rules: Value) {
    let metadata = json!({"namespace": pool.namespace, "name": "developer"});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "developer"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": DEVELOPER}],
    });
    pool.cluster.apply_objects(&[role, binding]).await.unwrap();
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

async fn needs_the_rights_that_it_names_and_no_others(cluster: &Cluster) {
    let pool = Pool::new(cluster, "pin-rights", 1, 1).await;
    cluster.run_stateful_set(&pool.stateful_set("web", 1)).await.unwrap();
    let developer = plugin(cluster, DEVELOPER);
    let args = ["pin", "web", "--required", "zone", "--yes", "-n", pool.namespace];
    let steps = [
        ("", "", &[][..], "get statefulsets.apps web in namespace pin-rights"),
        ("apps", "statefulsets", &["get"], "list persistentpodstates.apps.kruise.io in namespace pin-rights"),
        (
            "apps.kruise.io",
            "persistentpodstates",
            &["list"],
            "patch statefulsets.apps web in namespace pin-rights",
        ),
    ];
    let mut rules = Vec::new();
    for (group, resource, verbs, missing) in steps {
        if let Some(verb) = verbs.first() {
            rules.push(rule(group, resource, verbs));
            grant(&pool, json!(rules)).await;
            let attributes =
                json!({"group": group, "resource": resource, "verb": verb, "namespace": pool.namespace});
            wait_for_review(cluster, DEVELOPER, &attributes, true).await;
        }
        let answer = developer.run(&args).await.unwrap();
        assert_exit(&answer, 2);
        assert!(answer.stderr.contains(&format!("you have no permission to {missing}")), "{}", answer.stderr);
    }
    rules.push(rule("apps", "statefulsets", &["patch"]));
    grant(&pool, json!(rules)).await;
    let attributes =
        json!({"group": "apps", "resource": "statefulsets", "verb": "patch", "namespace": pool.namespace});
    wait_for_review(cluster, DEVELOPER, &attributes, true).await;
    let answer = developer.run(&args).await.unwrap();
    assert_exit(&answer, 0);
    assert!(answer.stdout.contains("you have no permission to list nodes"), "{}", answer.stdout);
    assert!(answer.stderr.contains("no Event was left"), "{}", answer.stderr);
    pool.recorded("web", "web").await;
}

async fn refuses_what_the_policy_refuses(cluster: &Cluster) {
    let pool = Pool::new(cluster, "pin-refused", 1, 1).await;
    cluster.create_stateful_set(&pool.stateful_set("web", 0)).await.unwrap();
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": pool.namespace, "name": "front"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "f"}}, "template": {
            "metadata": {"labels": {"app": "f"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    cluster.apply_objects(&[deployment]).await.unwrap();
    for (args, text) in [
        (&["web", "--annotation", "ovn.kubernetes.io/allocated"][..], "can never be injected"),
        (&["web", "--annotation", "ovn.kubernetes.io/allocated", "--object"], "can never be persisted"),
        (&["deployment/front", "--required", "zone"], "its Pods do not keep their names"),
        (&["deploy/front", "--required", "zone", "--object"], "its Pods do not keep their names"),
        (&["web", "--required", "no key"], "is no label key"),
        // Only the policy in the cluster knows its settings.
        (&["web", "--annotation", "denied.example.io/ip", "--object"], "it is denied by"),
        (&["web", "--annotation", "denied.example.io/ip"], "it is denied by"),
    ] {
        let answer = run(&pool, &[&["pin"], args, &["--yes"]].concat()).await;
        assert_exit(&answer, 1);
        assert!(answer.stderr.contains(text), "{args:?}: {}", answer.stderr);
    }
    let unknown = run(&pool, &["pin", "none", "--required", "zone", "--yes"]).await;
    assert_exit(&unknown, 2);
    assert!(unknown.stderr.contains("has no StatefulSet (apps/v1) none"), "{unknown:?}");
    let answer = run(&pool, &["pin", "web", "--required", "zoen", "--dry-run"]).await;
    assert!(answer.stdout.contains("no node has the label zoen: check its spelling"), "{}", answer.stdout);
    for args in [&["pin", "nokind/web", "--required", "zone"][..], &["unpin", "Web"], &["pin", "web"]] {
        assert_exit(&run(&pool, args).await, 2);
    }
    assert!(pool.pps("web").await.is_err());
    assert!(workload(&pool, "web").await["metadata"]["annotations"][AUTO].is_null());
}

async fn finds_workloads_of_any_kind(cluster: &Cluster) {
    let pool = Pool::new(cluster, "pin-kinds", 1, 1).await;
    let kind = custom_kinds::database();
    custom_kinds::define(cluster, &kind).await;
    let api_version = format!("{}/{}", kind.resource.group, kind.resource.version);
    let database = json!({"apiVersion": api_version, "kind": "Database",
        "metadata": {"namespace": pool.namespace, "name": "main"}, "spec": {"shape": {"size": 1}}});
    wait_for("the API server to serve databases", TIMEOUT, async || {
        let applied = cluster.apply_objects(std::slice::from_ref(&database)).await;
        Ok(Progress::when(applied.is_ok(), (), format!("{applied:?}")))
    })
    .await
    .unwrap();
    for name in ["database/main", "databases/main", &format!("database.{}/main", kind.resource.group)] {
        let answer = run(&pool, &["pin", name, "--required", "zone", "--dry-run"]).await;
        assert_exit(&answer, 0);
        assert!(answer.stdout.contains("+++ Database main, as it will be"), "{}", answer.stdout);
        assert!(answer.stdout.contains("only if the list of custom kinds has it"), "{}", answer.stdout);
    }
    let answer = run(&pool, &["pin", "database/main", "--required", "zone", "--object", "--yes"]).await;
    assert_exit(&answer, 0);
    let target = pool.pps("main").await.unwrap().data["spec"]["targetRef"].clone();
    assert_eq!(target, json!({"apiVersion": api_version, "kind": "Database", "name": "main"}));
    assert_exit(&run(&pool, &["unpin", "database/main", "--yes"]).await, 0);
    pool.wait_until_no_object("main").await;
}
