//! `export` and `import`: recorded states into a file, and from a file into another cluster.

use std::fs;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::DeleteParams};
use pps_e2e::{
    cluster::Cluster,
    control_plane::ADMIN,
    manifests,
    plugin::{Answer, Plugin},
    repository::repository_file,
    scratch::Scratch,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use crate::behaviour::openkruise;
use crate::support::{self, HOSTNAME, Pool, Scenario, TIMEOUT, ZONE, homes};

/// Has the rights of a namespace user.
pub(super) const USER: &str = "importer";

fn plugin(cluster: &Cluster, user: &str) -> Plugin {
    Plugin::new(cluster.control_plane.kubeconfig_for(user).unwrap())
}

async fn run(cluster: &Cluster, args: &[&str]) -> Answer {
    plugin(cluster, ADMIN).run(args).await.unwrap()
}

/// A namespace that was deleted and made again is another one for the API server, as in another
/// cluster.
pub(super) async fn pods_return_to_their_nodes_in_a_restored_namespace(cluster: &Cluster) {
    let pool = Pool::new(cluster, "prod", 3, 1).await;
    let stateful_set = pool.stateful_set("db", 3).persistent("", HOSTNAME, "");
    let stateful_set = stateful_set.annotation("kruise.io/required-persistent-topology", ZONE);
    let before = homes(&cluster.run_stateful_set(&stateful_set).await.unwrap());
    pool.recorded("db", "db").await;

    let file = Scratch::path_for("states.yaml");
    let file = file.argument();
    let exported = run(cluster, &["export", "-n", "prod", "-f", &file]).await;
    assert_eq!(
        (exported.exit_code, exported.stdout.as_str()),
        (0, ""),
        "{exported:?}"
    );
    assert!(
        exported
            .stderr
            .contains("exported 1 PersistentPodState with 3 states"),
        "{exported:?}"
    );
    let again = run(cluster, &["export", "-n", "prod", "-f", &file]).await;
    assert_eq!(again.exit_code, 1, "{again:?}");
    assert!(
        again.stderr.contains("exists: name another file"),
        "{again:?}"
    );
    let saved = fs::read_to_string(&file).unwrap();
    for word in [
        "uid",
        "resourceVersion",
        "ownerReferences",
        "targetUID",
        "conditions",
        "pps-sidecar",
    ] {
        assert!(!saved.contains(word), "{word}: {saved}");
    }

    let namespaces: Api<Namespace> = Api::all(cluster.client());
    namespaces
        .delete("prod", &DeleteParams::default())
        .await
        .unwrap();
    wait_for("the namespace to be gone", TIMEOUT, async || {
        let gone = namespaces.get_opt("prod").await?.is_none();
        Ok(Progress::when(gone, (), "it is still there"))
    })
    .await
    .unwrap();
    let missing = run(cluster, &["import", &file, "--yes"]).await;
    assert_eq!(missing.exit_code, 2, "{missing:?}");
    assert!(
        missing.stderr.contains("there is no namespace prod"),
        "{missing:?}"
    );
    cluster.namespace("prod").await.unwrap();
    let dry = run(cluster, &["import", &file, "--dry-run"]).await;
    assert_eq!(dry.exit_code, 0, "{dry:?}");
    let unasked = run(cluster, &["import", &file]).await;
    assert_eq!(
        (unasked.exit_code, unasked.stderr.contains("add --yes")),
        (2, true),
        "{unasked:?}"
    );
    assert!(
        cluster
            .pps_api("prod")
            .get_opt("db")
            .await
            .unwrap()
            .is_none()
    );
    let imported = run(cluster, &["import", &file, "--yes"]).await;
    assert_eq!(imported.exit_code, 0, "{imported:?}");
    assert!(!imported.stderr.contains("no Event"), "{imported:?}");
    assert!(
        imported.stderr.contains("imported 1 object with 3 states"),
        "{imported:?}"
    );
    assert!(
        pool.event("db", "StatesImported")
            .await
            .contains("3 recorded states")
    );
    let second = run(cluster, &["export", "-n", "prod"]).await;
    assert_eq!(second.stdout, saved);
    let again = run(cluster, &["import", &file]).await;
    assert_eq!(
        (again.exit_code, again.stderr.contains("nothing to do")),
        (0, true),
        "{again:?}"
    );

    let after = homes(&cluster.run_stateful_set(&stateful_set).await.unwrap());
    assert_eq!(after, before);
    // These Pods are Ready now: no file changes their states.
    let moved = saved.replace("prod-0", "prod-9");
    let moved = Scratch::file("moved.yaml", moved).unwrap();
    let refused = run(
        cluster,
        &["import", &moved.argument(), "--overwrite", "--yes"],
    )
    .await;
    assert_eq!(
        (refused.exit_code, refused.stderr.contains("nothing to do")),
        (0, true),
        "{refused:?}"
    );
    let _ = fs::remove_file(&file);
}

pub(super) fn scenarios(cluster: &Cluster) -> Vec<Scenario<'_>> {
    scenarios![cluster;
        states_that_no_node_has_are_named,
        two_imports_at_once_lose_nothing,
        a_user_of_a_namespace_is_told_which_right_is_missing,
        many_objects_are_imported_and_exported,
    ]
}

fn object(namespace: &str, name: &str, states: &Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [{"uid": "gone"}]},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name},
            "requiredPersistentTopology": {"nodeTopologyKeys": [ZONE]},
        },
        "status": {"podStates": states, "targetUID": "gone"},
    })
}

fn states(pods: usize, node: &str) -> Value {
    let state = |pod: usize| json!({"nodeName": format!("{node}-{pod}"), "nodeTopologyLabels": {ZONE: "zone-0"}});
    (0..pods)
        .map(|pod| (format!("db-{pod}"), state(pod)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn file(objects: &[Value]) -> Scratch {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    Scratch::file("states.json", list.to_string()).unwrap()
}

async fn states_that_no_node_has_are_named(cluster: &Cluster) {
    let pool = Pool::new(cluster, "elsewhere", 1, 1).await;
    let state = |zone: &str| json!({"nodeName": "old", "nodeTopologyLabels": {ZONE: zone}});
    let other = json!({"db-0": state("another-cluster"), "db-1": state("another-cluster")});
    let other = file(&[object(pool.namespace, "db", &other)]);
    let answer = run(cluster, &["import", &other.argument(), "--dry-run"]).await;
    assert_eq!(answer.exit_code, 0, "{answer:?}");
    let note = "no node has topology.kubernetes.io/zone=another-cluster (2 states): Pods would be \
                Pending; --drop-key";
    assert!(answer.stderr.contains(note), "{answer:?}");
    let zone = pool.zone("elsewhere-0").await;
    let same = file(&[object(pool.namespace, "db", &json!({"db-0": state(&zone)}))]);
    let answer = run(cluster, &["import", &same.argument(), "--dry-run"]).await;
    assert!(!answer.stderr.contains("no node has"), "{answer:?}");
}

async fn two_imports_at_once_lose_nothing(cluster: &Cluster) {
    cluster.namespace("twice").await.unwrap();
    let empty: Vec<Value> = (0..12)
        .map(|index| object("twice", &format!("w-{index}"), &json!({})))
        .collect();
    assert_eq!(
        run(cluster, &["import", &file(&empty).argument(), "--yes"])
            .await
            .exit_code,
        0
    );
    let of = |pods: std::ops::Range<usize>| {
        let all = states(pods.end, "node");
        let states: Value = pods
            .map(|pod| (format!("db-{pod}"), all[format!("db-{pod}")].clone()))
            .collect::<serde_json::Map<_, _>>()
            .into();
        file(
            &(0..12)
                .map(|index| object("twice", &format!("w-{index}"), &states))
                .collect::<Vec<_>>(),
        )
    };
    let (low, high) = (of(0..3), of(3..6));
    let (low, high) = (low.argument(), high.argument());
    let (one, other) = (["import", &low, "--yes"], ["import", &high, "--yes"]);
    let (one, other) = tokio::join!(run(cluster, &one), run(cluster, &other));
    assert_eq!(
        (one.exit_code, other.exit_code),
        (0, 0),
        "{one:?} {other:?}"
    );
    for index in 0..12 {
        assert_eq!(
            cluster
                .pod_states("twice", &format!("w-{index}"))
                .await
                .unwrap()
                .len(),
            6,
            "w-{index}"
        );
    }
}

async fn a_user_of_a_namespace_is_told_which_right_is_missing(cluster: &Cluster) {
    cluster.namespace("team").await.unwrap();
    let saved = file(&[object("team", "db", &states(1, "node"))]);
    let user = plugin(cluster, USER);
    let import = ["import", &saved.argument(), "--yes", "-n", "team"].map(str::to_owned);
    let import: Vec<&str> = import.iter().map(String::as_str).collect();
    let answer = user.run(&import).await.unwrap();
    assert_eq!(answer.exit_code, 2, "{answer:?}");
    let list =
        "you have no permission to list persistentpodstates.apps.kruise.io in namespace team";
    assert!(answer.stderr.contains(list), "{answer:?}");
    assert!(
        user.run(&["export", "-n", "team"])
            .await
            .unwrap()
            .stderr
            .contains(list)
    );
    let grant = async |resources: Value, verbs: Value| {
        let group = match resources[0].as_str().unwrap() {
            "pods" => "",
            "statefulsets" => "apps",
            _ => "apps.kruise.io",
        };
        let name = format!(
            "{}-{}",
            resources[0].as_str().unwrap().replace('/', "-"),
            verbs[0].as_str().unwrap()
        );
        let rbac = [
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                   "metadata": {"name": name, "namespace": "team"},
                   "rules": [{"apiGroups": [group], "resources": resources, "verbs": verbs}]}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                   "metadata": {"name": name, "namespace": "team"},
                   "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
                   "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}]}),
        ];
        cluster.apply_objects(&rbac).await.unwrap();
    };
    grant(json!(["persistentpodstates"]), json!(["get", "list"])).await;
    let attributes = json!({"group": "apps.kruise.io", "resource": "persistentpodstates", "verb": "list", "namespace": "team"});
    support::wait_for_review(cluster, USER, &attributes, true).await;
    let answer = user.run(&import).await.unwrap();
    assert_eq!(
        answer.exit_code, 2,
        "a Ready Pod would not be recognized: {answer:?}"
    );
    assert!(
        answer
            .stderr
            .contains("you have no permission to list pods in namespace team"),
        "{answer:?}"
    );
    grant(json!(["pods"]), json!(["list"])).await;
    grant(json!(["statefulsets"]), json!(["list"])).await;
    let attributes =
        json!({"group": "apps", "resource": "statefulsets", "verb": "list", "namespace": "team"});
    support::wait_for_review(cluster, USER, &attributes, true).await;
    for (missing, resource, subresource, verb) in [
        (
            "create persistentpodstates.apps.kruise.io",
            "persistentpodstates",
            "",
            "create",
        ),
        (
            "patch persistentpodstates/status.apps.kruise.io",
            "persistentpodstates/status",
            "status",
            "patch",
        ),
    ] {
        let answer = user.run(&import).await.unwrap();
        assert_eq!(answer.exit_code, 2, "{answer:?}");
        assert!(
            answer
                .stderr
                .contains(&format!("you have no permission to {missing}")),
            "{answer:?}"
        );
        assert!(
            answer.stderr.contains("the same command writes the rest"),
            "{answer:?}"
        );
        grant(json!([resource]), json!([verb])).await;
        let attributes = json!({"group": "apps.kruise.io", "resource": "persistentpodstates",
                                "subresource": subresource, "verb": verb, "namespace": "team"});
        support::wait_for_review(cluster, USER, &attributes, true).await;
    }
    let answer = user.run(&import).await.unwrap();
    assert_eq!(answer.exit_code, 0, "{answer:?}");
    // The user may write no Events and list no nodes. The import says the first, and passes over
    // the second.
    assert!(!answer.stderr.contains("no node has"), "{answer:?}");
    assert!(answer.stderr.contains("no Event"), "{answer:?}");
    assert_eq!(cluster.pod_states("team", "db").await.unwrap().len(), 1);
}

async fn many_objects_are_imported_and_exported(cluster: &Cluster) {
    cluster.namespace("many").await.unwrap();
    let objects: Vec<Value> = (0..60)
        .map(|index| object("many", &format!("w-{index}"), &states(10, "node")))
        .collect();
    let answer = run(cluster, &["import", &file(&objects).argument(), "--yes"]).await;
    assert_eq!(answer.exit_code, 0, "{}", answer.stderr);
    assert!(
        answer
            .stderr
            .contains("imported 60 objects with 600 states"),
        "{}",
        answer.stderr
    );
    let yaml = Scratch::path_for("many.yaml").argument();
    let answer = run(cluster, &["export", "-n", "many", "-f", &yaml]).await;
    assert!(
        answer
            .stderr
            .contains("exported 60 PersistentPodStates with 600 states"),
        "{answer:?}"
    );
    // A large file is read as well.
    let answer = run(cluster, &["import", &yaml]).await;
    assert_eq!(
        (answer.exit_code, answer.stderr.contains("nothing to do")),
        (0, true),
        "{}",
        answer.stderr
    );
    let _ = fs::remove_file(&yaml);
    let api = cluster.pps_api("many");
    api.delete_collection(&DeleteParams::default(), &kube::api::ListParams::default())
        .await
        .unwrap();
}

pub(super) async fn many_states_are_packed_if_the_definition_keeps_them(cluster: &Cluster) {
    cluster.namespace("large").await.unwrap();
    // More than one object holds in the plain form.
    let states = |pods| states(pods, &"n".repeat(240));
    let large = file(&[object("large", "db", &states(5000))]);
    let answer = run(cluster, &["import", &large.argument(), "--yes"]).await;
    assert_eq!(answer.exit_code, 0, "{answer:?}");
    assert_eq!(cluster.pod_states("large", "db").await.unwrap().len(), 5000);
    let plain = run(cluster, &["export", "db", "-n", "large"]).await;
    assert_eq!(plain.stdout.matches("nodeName:").count(), 5000);

    let theirs = openkruise::definition();
    // The API server goes on with the old definition for a moment.
    let replace = async |definition: Value, shown: usize| {
        manifests::apply(&cluster.client(), &[definition])
            .await
            .unwrap();
        wait_for(
            &format!("the definition to show {shown} states"),
            TIMEOUT,
            async || {
                let now = cluster.pod_states("large", "db").await?.len();
                Ok(Progress::when(now == shown, (), now))
            },
        )
        .await
        .unwrap();
    };
    let ours = manifests::read(&repository_file("deploy/base/crd.yaml"))
        .unwrap()
        .remove(0);
    replace(manifests::read(theirs.path()).unwrap().remove(0), 0).await;
    // What the definition hides is not exported as if nothing were recorded.
    let hidden = run(cluster, &["export", "-n", "large"]).await;
    assert_eq!(hidden.exit_code, 1, "{hidden:?}");
    assert!(
        hidden
            .stderr
            .contains("not exported: large/db: the definition"),
        "{hidden:?}"
    );
    assert!(!hidden.stdout.contains("name: db"), "{hidden:?}");
    cluster.namespace("theirs").await.unwrap();
    let large = file(&[object("theirs", "db", &states(5000))]);
    let refused = run(cluster, &["import", &large.argument(), "--yes"]).await;
    assert_eq!(refused.exit_code, 1, "{refused:?}");
    assert!(
        refused
            .stderr
            .contains("has no status.packed: apply this product's definition first"),
        "{refused:?}"
    );
    let small = file(&[object("theirs", "web", &states(3))]);
    let answer = run(cluster, &["import", &small.argument(), "--yes"]).await;
    assert_eq!(answer.exit_code, 0, "{answer:?}");
    assert_eq!(cluster.pod_states("theirs", "web").await.unwrap().len(), 3);
    replace(ours, 5000).await;
}
