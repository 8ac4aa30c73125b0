//! `move`: Pods really move, whatever comes in between.

use std::{collections::BTreeMap, time::Duration};

use kube::api::{DeleteParams, Patch, PatchParams};
use pps_core::{MOVE_ANNOTATION, RECORD_ANNOTATION};
use pps_e2e::{
    cluster::{Cluster, PodInfo},
    control_plane::ADMIN,
    plugin::{Answer, Plugin},
};
use serde_json::{Value, json};

use crate::support::{HOSTNAME, Pool, Scenario, TIMEOUT, ZONE, homes, required, spec_for};

/// Has the rights of a namespace user.
pub(super) const DEVELOPER: &str = "developer";
const KEPT: &str = "example.io/kept";

pub(super) fn scenarios(cluster: &Cluster) -> Vec<Scenario<'_>> {
    scenarios![cluster;
        a_running_pod_moves_to_a_node_and_then_anywhere,
        a_pending_pod_whose_node_was_deleted_moves_anywhere,
        what_is_in_the_way_is_said_and_force_passes_over_it,
        an_eviction_that_is_refused_only_after_the_question_costs_no_state,
        a_move_that_is_killed_goes_on_or_is_called_off,
        a_move_beside_another_writer_overwrites_nothing,
        a_move_needs_no_more_rights_than_its_steps,
        a_required_zone_is_given_up_only_by_name,
    ]
}

pub(super) fn plugin(cluster: &Cluster, user: &str) -> Plugin {
    Plugin::new(cluster.control_plane.kubeconfig_for(user).unwrap())
}

/// Runs a command in the namespace of a scenario as the administrator.
pub(super) async fn run(pool: &Pool<'_>, args: &[&str]) -> Answer {
    run_as(pool, ADMIN, args).await
}

async fn run_as(pool: &Pool<'_>, user: &str, args: &[&str]) -> Answer {
    let args = [args, &["--namespace", pool.namespace]].concat();
    plugin(pool.cluster, user).run(&args).await.unwrap()
}

/// Three Nodes, and Pods that must return to theirs with an annotation.
async fn pinned<'a>(
    cluster: &'a Cluster,
    namespace: &'static str,
    replicas: u32,
) -> (Pool<'a>, BTreeMap<String, PodInfo>) {
    let pool = Pool::new(cluster, namespace, 3, 1).await;
    let spec = json!({"requiredPersistentTopology": {"nodeTopologyKeys": [HOSTNAME]},
        "persistentPodAnnotations": [{"key": KEPT}], "persistentPodStateRetentionPolicy": "WhenDeleted"});
    pool.object("web", &spec_for("web", &spec)).await;
    let pods = cluster
        .run_stateful_set(&pool.stateful_set("web", replicas))
        .await
        .unwrap();
    pool.annotate_pod("web-0", &json!({KEPT: "x"})).await;
    pool.recorded("web", "web").await;
    (pool, pods)
}

/// A Node of the scenario on which none of these Pods runs.
fn free(pool: &Pool<'_>, pods: &BTreeMap<String, PodInfo>) -> String {
    let homes = homes(pods);
    (0..3)
        .map(|index| format!("{}-{index}", pool.namespace))
        .find(|node| !homes.values().any(|home| home == node))
        .unwrap()
}

async fn web_0(pool: &Pool<'_>) -> PodInfo {
    pool.cluster
        .pods(pool.namespace, "web")
        .await
        .unwrap()
        .remove("web-0")
        .unwrap()
}

async fn assert_on(pool: &Pool<'_>, node: &str, replicas: usize) {
    let pods = pool.ready("web", replicas).await;
    assert_eq!(homes(&pods)["web-0"], node);
    let states = pool.recorded("web", "web").await;
    assert_eq!(states["web-0"]["nodeName"], node);
    assert!(!pods["web-0"].annotations.contains_key(RECORD_ANNOTATION));
}

async fn a_running_pod_moves_to_a_node_and_then_anywhere(cluster: &Cluster) {
    let (pool, before) = pinned(cluster, "mv-to", 2).await;
    let (from, to) = (homes(&before)["web-0"].clone(), free(&pool, &before));
    let asked = run(&pool, &["move", "web-0"]).await;
    assert_eq!(asked.exit_code, 2, "{asked:?}");
    assert!(
        asked.stderr.contains("<--to <NODE>|--anywhere>"),
        "{asked:?}"
    );
    let shown = run(&pool, &["move", "web-0", "--to", &to, "--dry-run"]).await;
    assert_eq!(shown.exit_code, 0, "{shown:?}");
    assert!(
        shown.stdout.contains(&format!("becomes   {to}")),
        "{shown:?}"
    );
    let unasked = run(&pool, &["move", "web-0", "--to", &to]).await;
    assert_eq!(
        (unasked.exit_code, unasked.stderr.contains("add --yes")),
        (2, true),
        "{unasked:?}"
    );
    let now = web_0(&pool).await;
    assert_eq!(
        (&now.uid, now.terminating),
        (&before["web-0"].uid, false),
        "nothing has happened yet"
    );

    let moved = run(&pool, &["move", "web-0", "--to", &to, "--yes"]).await;
    assert_eq!(moved.exit_code, 0, "{moved:?}");
    assert!(
        moved
            .stdout
            .contains(&format!("has moved from {from} to {to}")),
        "{moved:?}"
    );
    assert_on(&pool, &to, 2).await;
    assert_eq!(web_0(&pool).await.annotations[KEPT], "x");
    assert!(
        pool.event("web", "PodMoved")
            .await
            .contains(&format!("web-0 is moved to {to}"))
    );

    // The same command has nothing left to do.
    let uid = web_0(&pool).await.uid;
    let again = run(&pool, &["move", "web-0", "--to", &to, "--yes"]).await;
    assert_eq!(
        (again.exit_code, again.stdout.contains("already")),
        (0, true),
        "{again:?}"
    );
    assert_eq!(web_0(&pool).await.uid, uid);

    pool.load(&to).await;
    let moved = run(
        &pool,
        &["move", "web-0", "--anywhere", "--drop-annotations", "--yes"],
    )
    .await;
    assert_eq!(moved.exit_code, 0, "{moved:?}");
    let now = homes(&pool.ready("web", 2).await)["web-0"].clone();
    assert_ne!(now, to);
    assert_on(&pool, &now, 2).await;
    assert!(!web_0(&pool).await.annotations.contains_key(KEPT));
}

/// As Kubernetes deletes the Pods of a node that is gone, about a minute later.
pub(super) fn at_once() -> DeleteParams {
    DeleteParams {
        grace_period_seconds: Some(0),
        ..DeleteParams::default()
    }
}

/// The node of web-0 is gone, and its successor waits for it.
async fn wait_for_gone_node(pool: &Pool<'_>, before: &BTreeMap<String, PodInfo>) {
    pool.cluster
        .nodes
        .delete(&homes(before)["web-0"])
        .await
        .unwrap();
    // The controller that deletes Pods of deleted nodes may be faster.
    let _ = pool
        .cluster
        .pods_api(pool.namespace)
        .delete("web-0", &at_once())
        .await;
    let uid = before["web-0"].uid.clone();
    let what = "web-0 to be created again and to have no node";
    pool.cluster
        .wait_for_pods(pool.namespace, "web", what, TIMEOUT, |pods| {
            pods.get("web-0")
                .is_some_and(|pod| pod.uid != uid && pod.node.is_none())
        })
        .await
        .unwrap();
}

async fn a_pending_pod_whose_node_was_deleted_moves_anywhere(cluster: &Cluster) {
    let (pool, before) = pinned(cluster, "mv-gone", 1).await;
    wait_for_gone_node(&pool, &before).await;
    let moved = run(&pool, &["move", "web-0", "--anywhere", "--yes"]).await;
    assert_eq!(moved.exit_code, 0, "{moved:?}");
    let now = homes(&pool.ready("web", 1).await)["web-0"].clone();
    assert_on(&pool, &now, 1).await;
    assert_eq!(
        web_0(&pool).await.annotations[KEPT],
        "x",
        "what was recorded is brought back"
    );
}

/// A budget of one Pod of web, which is `minAvailable` or `maxUnavailable`.
pub(super) fn budget(pool: &Pool<'_>, name: &str, limit: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"namespace": pool.namespace, "name": name},
        "spec": {limit: 1, "selector": {"matchLabels": {"app": "web"}}}})
}

/// The API server evicts no Pod that has two budgets, from the moment when they exist.
async fn forbid_evictions(pool: &Pool<'_>) {
    let budgets = ["one", "two"].map(|name| budget(pool, name, "maxUnavailable"));
    pool.cluster.apply_objects(&budgets).await.unwrap();
}

async fn an_eviction_that_is_refused_only_after_the_question_costs_no_state(cluster: &Cluster) {
    let (pool, before) = pinned(cluster, "mv-late", 1).await;
    let home = homes(&before)["web-0"].clone();
    let meanwhile = forbid_evictions(&pool);
    let args = ["move", "web-0", "--anywhere", "--namespace", "mv-late"];
    let answer = plugin(cluster, ADMIN)
        .run_while(&args, meanwhile)
        .await
        .unwrap();
    assert_ne!(answer.exit_code, 0, "{answer:?}");
    let said = answer
        .stdout
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for text in [
        "more than one PodDisruptionBudget",
        "Pod web-0 was left alone: nothing was changed",
    ] {
        assert!(said.contains(text), "{text}: {answer:?}");
    }
    let now = web_0(&pool).await;
    assert_eq!(now.uid, before["web-0"].uid);
    assert!(
        !now.annotations.contains_key(RECORD_ANNOTATION),
        "{:?}",
        now.annotations
    );
    assert_eq!(pool.states("web").await["web-0"]["nodeName"], home);
}

async fn what_is_in_the_way_is_said_and_force_passes_over_it(cluster: &Cluster) {
    let (pool, before) = pinned(cluster, "mv-refuse", 1).await;
    let home = homes(&before)["web-0"].clone();
    let others: Vec<String> = (0..3)
        .map(|index| format!("mv-refuse-{index}"))
        .filter(|node| *node != home)
        .collect();
    for node in [&home, &others[0], &others[1]] {
        cluster.nodes.cordon(node).await.unwrap();
    }
    // It is Pending then.
    let args = [
        "move",
        "web-0",
        "--anywhere",
        "--force",
        "--timeout",
        "1s",
        "--yes",
    ];
    let answer = run(&pool, &args).await;
    assert_eq!(answer.exit_code, 1, "{answer:?}");
    assert!(answer.stderr.contains("waited 1 s in vain"), "{answer:?}");
    assert!(
        answer
            .stderr
            .contains("kubectl pps explain web-0 -n mv-refuse"),
        "{answer:?}"
    );
    cluster.nodes.uncordon(&others[0]).await.unwrap();
    assert_on(&pool, &others[0], 1).await;

    let uid = web_0(&pool).await.uid;
    cluster.nodes.uncordon(&others[1]).await.unwrap();
    let refused = async |args: &[&str], exit_code: i32, expected: &str| {
        let answer = run(&pool, &[&["move"], args, &["--yes"]].concat()).await;
        assert_eq!(answer.exit_code, exit_code, "{answer:?}");
        assert!(answer.stderr.contains(expected), "{expected}: {answer:?}");
        answer
    };
    refused(&["web-0", "--to", "mv-none"], 2, "there is no node mv-none").await;
    // A user who names Pods wants all of them moved.
    let expected = "there is no Pod nothing in namespace mv-refuse";
    let answer = refused(&["web-0", "nothing", "--anywhere"], 2, expected).await;
    assert!(
        answer.stderr.ends_with("nothing was changed\n"),
        "{answer:?}"
    );
    cluster
        .apply_objects(&[budget(&pool, "all", "minAvailable")])
        .await
        .unwrap();
    let expected = "a PodDisruptionBudget forbids to evict Pod web-0 now";
    let answer = refused(&["web-0", "--to", &others[1]], 1, expected).await;
    assert!(answer.stderr.contains("nothing was changed"), "{answer:?}");
    let now = web_0(&pool).await;
    assert_eq!(now.uid, uid);
    assert!(
        !now.annotations.contains_key(RECORD_ANNOTATION),
        "{:?}",
        now.annotations
    );
    assert_eq!(pool.states("web").await["web-0"]["nodeName"], others[0]);
}

async fn a_move_that_is_killed_goes_on_or_is_called_off(cluster: &Cluster) {
    let (pool, before) = pinned(cluster, "mv-kill", 1).await;
    let (from, to) = (homes(&before)["web-0"].clone(), free(&pool, &before));
    let args = [
        "move",
        "web-0",
        "--to",
        &to,
        "--yes",
        "--namespace",
        "mv-kill",
    ];
    for milliseconds in [150, 300, 500, 900] {
        let mut child = plugin(cluster, ADMIN).start(&args).unwrap();
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        child.kill().await.unwrap();
    }
    let moved = run(&pool, &args[..5]).await;
    assert_eq!(moved.exit_code, 0, "{moved:?}");
    assert_on(&pool, &to, 1).await;

    // The Pod is marked, and its new place is recorded. It is not wanted any longer.
    let uid = web_0(&pool).await.uid;
    pool.annotate_pod(
        "web-0",
        &json!({RECORD_ANNOTATION: "false", MOVE_ANNOTATION: "recorded"}),
    )
    .await;
    let state = json!({"nodeName": from, "nodeTopologyLabels": {HOSTNAME: from}});
    let patch = Patch::Merge(json!({"status": {"podStates": {"web-0": state}}}));
    cluster
        .pps_api("mv-kill")
        .patch_status("web", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let off = run(&pool, &args[..5]).await;
    assert_eq!(
        (off.exit_code, off.stdout.contains("stays on")),
        (0, true),
        "{off:?}"
    );
    assert_on(&pool, &to, 1).await;
    assert_eq!(web_0(&pool).await.uid, uid);
}

async fn a_move_beside_another_writer_overwrites_nothing(cluster: &Cluster) {
    let (pool, before) = pinned(cluster, "mv-race", 2).await;
    let to = free(&pool, &before);
    let api = cluster.pps_api("mv-race");
    let writes = async {
        for number in 0..40 {
            let condition = json!({"type": "Theirs", "status": "True", "reason": format!("R{number}"),
                "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let pps = api.get("web").await.unwrap();
            let mut conditions = pps.data["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            conditions.retain(|one| one["type"] != "Theirs");
            conditions.push(condition);
            let patch =
                Patch::Merge(json!({"status": {"conditions": conditions, "theirs": number}}));
            api.patch_status("web", &PatchParams::default(), &patch)
                .await
                .unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let args = ["move", "web-0", "--to", &to, "--yes"];
    let (moved, ()) = tokio::join!(run(&pool, &args), writes);
    assert_eq!(moved.exit_code, 0, "{moved:?}");
    assert_on(&pool, &to, 2).await;
    let pps = pool.pps("web").await.unwrap();
    let theirs = pps.data["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["type"] == "Theirs");
    assert_eq!(theirs.unwrap()["reason"], "R39");
}

async fn a_required_zone_is_given_up_only_by_name(cluster: &Cluster) {
    let pool = Pool::new(cluster, "mv-zone", 3, 2).await;
    pool.object("web", &required("web", &[ZONE, HOSTNAME]))
        .await;
    // Nodes 0 and 2 are in one zone.
    cluster.nodes.cordon("mv-zone-1").await.unwrap();
    let before = cluster
        .run_stateful_set(&pool.stateful_set("web", 1))
        .await
        .unwrap();
    pool.recorded("web", "web").await;
    let home = homes(&before)["web-0"].clone();
    let other = if home == "mv-zone-0" {
        "mv-zone-2"
    } else {
        "mv-zone-0"
    };
    cluster.nodes.cordon(&home).await.unwrap();
    cluster.nodes.uncordon("mv-zone-1").await.unwrap();

    let args = ["move", "--node", &home, "--anywhere", "--yes"];
    let moved = run(&pool, &args).await;
    assert_eq!(moved.exit_code, 0, "{moved:?}");
    assert_eq!(homes(&pool.ready("web", 1).await)["web-0"], other);
    let states = pool.recorded("web", "web").await;
    assert_eq!(states["web-0"]["nodeName"], other);

    cluster.nodes.cordon(other).await.unwrap();
    let refused = run(&pool, &["move", "web-0", "--anywhere", "--yes"]).await;
    let expected =
        "no node with zone=mv-zone-zone-0 can take Pod web-0, and --any zone gives that up:";
    assert_eq!(
        (refused.exit_code, refused.stderr.contains(expected)),
        (1, true),
        "{refused:?}"
    );
    assert_eq!(
        pool.states("web").await["web-0"]["nodeName"],
        other,
        "nothing was changed"
    );
    let wrong = run(
        &pool,
        &["move", "web-0", "--anywhere", "--any", "zoen", "--yes"],
    )
    .await;
    let expected = "no PersistentPodState names the node label zoen";
    assert_eq!(
        (wrong.exit_code, wrong.stderr.contains(expected)),
        (2, true),
        "{wrong:?}"
    );
    let moved = run(
        &pool,
        &["move", "web-0", "--anywhere", "--any", "zone", "--yes"],
    )
    .await;
    assert_eq!(moved.exit_code, 0, "{moved:?}");
    assert!(
        moved
            .stdout
            .contains("gives up  zone=mv-zone-zone-0, which is required now"),
        "{moved:?}"
    );
    assert_eq!(homes(&pool.ready("web", 1).await)["web-0"], "mv-zone-1");

    // Nobody knows this node.
    let wrong = run(
        &pool,
        &["move", "--node", "mv-zone-9", "--anywhere", "--yes"],
    )
    .await;
    let expected = "there is no node mv-zone-9";
    assert_eq!(
        (wrong.exit_code, wrong.stderr.contains(expected)),
        (2, true),
        "{wrong:?}"
    );
}

/// A Role with these rules for the developer.
async fn grant(pool: &Pool<'_>, rules: &Value) {
    let metadata = json!({"name": DEVELOPER, "namespace": pool.namespace});
    let api = "rbac.authorization.k8s.io";
    let role = json!({"apiVersion": format!("{api}/v1"), "kind": "Role", "metadata": metadata, "rules": rules});
    let binding = json!({"apiVersion": format!("{api}/v1"), "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": api, "kind": "Role", "name": DEVELOPER},
        "subjects": [{"apiGroup": api, "kind": "User", "name": DEVELOPER}]});
    pool.cluster.apply_objects(&[role, binding]).await.unwrap();
}

async fn a_move_needs_no_more_rights_than_its_steps(cluster: &Cluster) {
    let (pool, before) = pinned(cluster, "mv-rights", 1).await;
    let rule = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let kruise = "apps.kruise.io";
    let reads = [
        rule("", "pods", &["get", "list"]),
        rule(kruise, "persistentpodstates", &["get", "list"]),
        rule("apps", "statefulsets", &["list"]),
        rule(kruise, "statefulsets", &["list"]),
    ];
    let writes = [
        (
            "patch pods web-0 in namespace mv-rights",
            rule("", "pods", &["patch"]),
        ),
        (
            "create pods/eviction web-0 in namespace mv-rights",
            rule("", "pods/eviction", &["create"]),
        ),
        (
            "patch persistentpodstates/status.apps.kruise.io web in namespace mv-rights",
            rule(kruise, "persistentpodstates/status", &["patch"]),
        ),
    ];
    for (missing, (right, _)) in writes.iter().enumerate() {
        let others = writes
            .iter()
            .enumerate()
            .filter(|(number, _)| *number != missing);
        let rules: Vec<Value> = reads
            .iter()
            .cloned()
            .chain(others.map(|(_, (_, rule))| rule.clone()))
            .collect();
        grant(&pool, &rules.into()).await;
        let answer = eventually(&pool, &["move", "web-0", "--anywhere", "--yes"], right).await;
        assert_eq!(answer.exit_code, 2, "{answer:?}");
        assert!(answer.stderr.contains("nothing was changed"), "{answer:?}");
        assert_eq!(web_0(&pool).await.uid, before["web-0"].uid);
    }
    let rules: Vec<Value> = reads
        .iter()
        .cloned()
        .chain(writes.map(|(_, rule)| rule))
        .collect();
    grant(&pool, &rules.into()).await;
    let right = "you have no permission to list nodes";
    let answer = eventually(
        &pool,
        &["move", "web-0", "--to", "mv-rights-0", "--yes"],
        right,
    )
    .await;
    assert_eq!(answer.exit_code, 2, "{answer:?}");
    pool.load(&homes(&before)["web-0"]).await;
    let answer = run_as(&pool, DEVELOPER, &["move", "web-0", "--anywhere", "--yes"]).await;
    assert_eq!(answer.exit_code, 0, "{answer:?}");
    assert!(
        answer
            .stderr
            .contains("you have no permission to list nodes, so where"),
        "{answer:?}"
    );
    assert!(
        answer
            .stderr
            .contains("no Event tells others of this: you have no permission to create events"),
        "{answer:?}"
    );
    let now = homes(&pool.ready("web", 1).await)["web-0"].clone();
    assert_ne!(now, homes(&before)["web-0"]);
    assert_on(&pool, &now, 1).await;
}

/// Runs a command as the developer until it says this: the API server takes a moment to know new
/// rights.
async fn eventually(pool: &Pool<'_>, args: &[&str], expected: &str) -> Answer {
    let mut answer = Answer::default();
    for _ in 0..20 {
        let args = [args, &["--dry-run"]].concat();
        answer = run_as(pool, DEVELOPER, &args).await;
        if answer.stderr.contains(expected) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(answer.stderr.contains(expected), "{expected}: {answer:?}");
    answer
}
