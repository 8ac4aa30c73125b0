//! Custom workload kinds: definitions and the whitelist change while the sidecar keeps running.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
};
use pps_e2e::{
    cluster::{Cluster, PodInfo, SIDECAR},
    manifests,
    repository::repository_file,
    sidecar::SidecarOptions,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::operator::{COMPARES_AFFINITY, Names, OperatedKind, Operator};
use crate::support::{
    HOSTNAME, IP_ANNOTATION, MARKER, Pool, SOON, TIMEOUT, ZONE, homes, places, recording,
    wait_for_permission,
};

/// The API group of the custom kinds, except OpenKruise's.
pub(crate) const GROUP: &str = "e2e.pps.kubewarden.io";
/// Where the whitelist is.
const CONFIG_NAMESPACE: &str = "kruise-system";
const CONFIG_MAP: &str = "kruise-configuration";

pub(crate) fn openkruise() -> OperatedKind {
    OperatedKind::new("apps.kruise.io", "v1beta1", "StatefulSet", "statefulsets")
}

pub(crate) fn database() -> OperatedKind {
    OperatedKind {
        replicas: "/spec/shape/size",
        ..OperatedKind::new(GROUP, "v1", "Database", "databases")
    }
}

fn cache() -> OperatedKind {
    OperatedKind {
        names: Names::Words,
        ..OperatedKind::new(GROUP, "v1alpha1", "Cache", "caches")
    }
}

/// Shaped after Strimzi's `StrimziPodSet`: no number of Pods.
fn pod_set() -> OperatedKind {
    OperatedKind {
        names: Names::PodSet,
        ..OperatedKind::new(GROUP, "v1", "PodSet", "podsets")
    }
}

/// Shaped after the Cluster of `CloudNativePG`: a number of Pods, and names in the status.
fn instances() -> OperatedKind {
    OperatedKind {
        names: Names::Instances,
        ..OperatedKind::new(GROUP, "v1", "Instances", "instances")
    }
}

/// Drops states soon of Pods whose names do not say whether the workload wants them.
pub(crate) fn sidecar() -> SidecarOptions {
    SidecarOptions {
        args: vec!["--node-grace-period=1s".to_owned()],
        ..SidecarOptions::default()
    }
}

/// Starts the controller of all these kinds.
pub(crate) fn operator(cluster: &Cluster) -> Operator {
    let kinds = vec![openkruise(), database(), cache(), pod_set(), instances()];
    Operator::start(cluster.client(), kinds)
}

/// What the roles that [`grant`] makes permit.
pub(crate) const GRANTED: &[(&str, &str)] = &[
    (GROUP, "databases"),
    (GROUP, "caches"),
    (GROUP, "podsets"),
    (GROUP, "instances"),
];

/// Defines a kind as `fixtures/custom-kinds.yaml` does.
pub(crate) async fn define(cluster: &Cluster, kind: &OperatedKind) {
    let definition = definition_of(kind);
    let definitions =
        manifests::read(&repository_file("e2e-tests/fixtures/custom-kinds.yaml")).unwrap();
    let chosen: Vec<Value> = definitions
        .into_iter()
        .filter(|one| one["metadata"]["name"] == *definition)
        .collect();
    assert_eq!(
        cluster.apply_objects(&chosen).await.unwrap().len(),
        1,
        "{definition}"
    );
}

fn definition_of(kind: &OperatedKind) -> String {
    format!("{}.{}", kind.resource.plural, kind.resource.group)
}

/// Permits the sidecar to list and watch a kind, as deploy/README.md describes. Waits until this
/// user, which runs the sidecar, may.
pub(crate) async fn grant(cluster: &Cluster, user: &str, plural: &str) {
    let label = "persistent-pod-state/aggregate-to-sidecar";
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("e2e-{plural}"), "labels": {label: "true"}},
        "rules": [{"apiGroups": [GROUP], "resources": [plural], "verbs": ["list", "watch"]}]});
    cluster.apply_objects(&[role]).await.unwrap();
    wait_for_permission(cluster, user, GROUP, plural, "watch", true).await;
}

pub(crate) fn whitelist(kinds: &[&OperatedKind]) -> String {
    let kinds: Vec<Value> = kinds
        .iter()
        .map(|kind| json!({"Group": kind.resource.group, "kind": kind.resource.kind}))
        .collect();
    json!({"Workloads": kinds}).to_string()
}

/// Writes the whitelist.
pub(crate) async fn write_whitelist(cluster: &Cluster, list: &str) {
    cluster.namespace(CONFIG_NAMESPACE).await.unwrap();
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": CONFIG_NAMESPACE, "name": CONFIG_MAP},
        "data": {"PPS_Watch_Custom_Workload_WhiteList": list}});
    cluster.apply_objects(&[config]).await.unwrap();
}

async fn config_event(cluster: &Cluster, reason: &str) -> String {
    Pool {
        cluster,
        namespace: CONFIG_NAMESPACE,
    }
    .event(CONFIG_MAP, reason)
    .await
}

/// Waits until the sidecar watches a kind, or does not.
async fn wait_until_watched(cluster: &Cluster, kind: &OperatedKind, expected: bool) {
    let metric = format!(
        "persistentpodstate_watch_up{{resource=\"{}\"}}",
        definition_of(kind)
    );
    wait_for(&format!("{metric} to be {expected}"), TIMEOUT, async || {
        let value = cluster.sidecar()?.metric(&metric).await?;
        Ok(Progress::when(
            (value == Some(1.0)) == expected,
            (),
            format!("{value:?}"),
        ))
    })
    .await
    .unwrap();
}

/// Makes a workload on the Nodes of the pool, or changes it.
async fn apply(
    pool: &Pool<'_>,
    kind: &OperatedKind,
    name: &str,
    generate: bool,
    spec: &Value,
) -> DynamicObject {
    let mut annotations = json!({});
    if generate {
        annotations = json!({
            "kruise.io/auto-generate-persistent-pod-state": "true",
            "kruise.io/required-persistent-topology": ZONE,
            "kruise.io/preferred-persistent-topology": HOSTNAME,
            "kruise.io/persistent-pod-annotations": IP_ANNOTATION,
        });
    }
    let mut workload = json!({"apiVersion": kind.resource.api_version, "kind": kind.resource.kind,
        "metadata": {"namespace": pool.namespace, "name": name, "annotations": annotations},
        "spec": {"template": {"spec": {"nodeSelector": pool.selector()}}}});
    json_patch::merge(&mut workload["spec"], spec);
    pool.cluster
        .apply_objects(&[workload])
        .await
        .unwrap()
        .remove(0)
}

/// Waits until exactly these Pods are Ready.
async fn ready(pool: &Pool<'_>, workload: &str, names: &[&str]) -> BTreeMap<String, PodInfo> {
    pool.cluster
        .wait_for_pods(
            pool.namespace,
            workload,
            &format!("{names:?} to be Ready"),
            TIMEOUT,
            |pods| {
                pods.keys().map(String::as_str).eq(names.iter().copied())
                    && pods.values().all(|pod| pod.ready)
            },
        )
        .await
        .unwrap()
}

/// From now on, the operator of this workload deletes each Pod to which the policy adds a node
/// affinity.
pub(crate) async fn compare_affinity(pool: &Pool<'_>, kind: &OperatedKind, name: &str) {
    let client = pool.cluster.client();
    let all: Api<DynamicObject> = Api::namespaced_with(client, pool.namespace, &kind.resource);
    let patch = json!({"metadata": {"annotations": {COMPARES_AFFINITY: "true"}}});
    all.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

pub(crate) async fn wait_for_reason(pool: &Pool<'_>, object: &str, reason: &str) -> DynamicObject {
    let what = format!("{object} to have the reason {reason}");
    pool.wait_for_object(object, &what, TIMEOUT, |pps| {
        recording(pps)["reason"] == reason
    })
    .await
}

/// Deletes all Pods while other Nodes are more attractive, and asserts that they return to their
/// places.
async fn assert_that_pods_return(pool: &Pool<'_>, workload: &str, object: &str, names: &[&str]) {
    let before = ready(pool, workload, names).await;
    pool.recorded(object, workload).await;
    pool.load_all(homes(&before).values()).await;
    let after = pool.recreate(workload, names).await;
    assert_eq!(places(&after), places(&before));
    for pod in after.values() {
        assert_eq!(pod.annotations[MARKER], object, "{}", pod.name);
    }
    pool.recorded(object, workload).await;
}

/// The product is installed with Database as a custom kind, and both kinds are defined.
pub(crate) async fn returns_pods_of_an_installed_custom_kind(cluster: &Cluster) {
    let pool = Pool::new(cluster, "installed", 5, 2).await;
    apply(
        &pool,
        &database(),
        "db",
        true,
        &json!({"shape": {"size": 3}}),
    )
    .await;
    apply(&pool, &openkruise(), "web", true, &json!({"replicas": 2})).await;
    for (workload, names) in [
        ("db", &["db-0", "db-1", "db-2"][..]),
        ("web", &["web-0", "web-1"]),
    ] {
        ready(&pool, workload, names).await;
        pool.wait_for_entries(workload, names).await;
        assert_that_pods_return(&pool, workload, workload, names).await;
    }
}

pub(crate) async fn supports_openkruise_stateful_sets_without_a_whitelist(cluster: &Cluster) {
    let pool = Pool::new(cluster, "openkruise", 5, 2).await;
    define(cluster, &openkruise()).await;
    wait_until_watched(cluster, &openkruise(), true).await;
    let spec =
        |replicas: u32, reserved: Value| json!({"replicas": replicas, "reserveOrdinals": reserved});
    let workload = apply(
        &pool,
        &openkruise(),
        "web",
        true,
        &spec(4, json!([1, "3-4"])),
    )
    .await;
    ready(&pool, "web", &["web-0", "web-2", "web-5", "web-6"]).await;
    let pps = pool
        .wait_for_object("web", "four Pods to be recorded", TIMEOUT, |pps| {
            pps.data["status"]["recorded"] == 4
        })
        .await;
    let target =
        json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"});
    assert_eq!(pps.data["spec"]["targetRef"], target);
    assert_eq!(pps.data["status"]["desired"], 4);
    assert_eq!(pps.owner_references()[0].uid, workload.uid().unwrap());
    assert_that_pods_return(&pool, "web", "web", &["web-0", "web-2", "web-5", "web-6"]).await;

    // Other ordinals are reserved, then the workload is scaled down.
    apply(
        &pool,
        &openkruise(),
        "web",
        true,
        &spec(4, json!(["0-1", "bad", 3])),
    )
    .await;
    ready(&pool, "web", &["web-2", "web-4", "web-5", "web-6"]).await;
    pool.wait_for_entries("web", &["web-2", "web-4", "web-5", "web-6"])
        .await;
    apply(
        &pool,
        &openkruise(),
        "web",
        true,
        &spec(2, json!(["0-1", "bad", 3])),
    )
    .await;
    ready(&pool, "web", &["web-2", "web-4"]).await;
    pool.wait_for_entries("web", &["web-2", "web-4"]).await;

    // Ordinals that do not start at 0.
    let late = |replicas: u32| json!({"replicas": replicas, "ordinals": {"start": 7}, "reserveOrdinals": ["0-3", 8]});
    apply(&pool, &openkruise(), "late", true, &late(2)).await;
    assert_that_pods_return(&pool, "late", "late", &["late-7", "late-9"]).await;
    apply(&pool, &openkruise(), "late", true, &late(1)).await;
    pool.wait_for_entries("late", &["late-7"]).await;

    // A StatefulSet of the same name gets an object of its own, under another name.
    cluster
        .create_stateful_set(&pool.stateful_set("web", 0).persistent(ZONE, "", ""))
        .await
        .unwrap();
    let second = wait_for("a second object", SOON, async || {
        let all = cluster
            .pps_api("openkruise")
            .list(&ListParams::default())
            .await?
            .items;
        let seen = format!(
            "{:?}",
            all.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
        );
        let second = all
            .into_iter()
            .find(|pps| pps.name_any().starts_with("web-"));
        Ok(second.map_or(Progress::Waiting(seen), Progress::Done))
    });
    assert_eq!(
        second.await.unwrap().data["spec"]["targetRef"]["apiVersion"],
        "apps/v1"
    );
    assert_eq!(
        pool.pps("web").await.unwrap().data["spec"]["targetRef"],
        target,
        "the first object must stay"
    );
}

pub(crate) async fn watches_a_kind_as_soon_as_it_is_defined(cluster: &Cluster) {
    let pool = Pool::new(cluster, "databases", 5, 2).await;
    grant(cluster, SIDECAR, "databases").await;
    grant(cluster, SIDECAR, "caches").await;
    write_whitelist(cluster, &whitelist(&[&database(), &cache()])).await;
    // An object may exist before its workload kind.
    let target =
        json!({"apiVersion": "e2e.pps.kubewarden.io/v1", "kind": "Database", "name": "mine"});
    let spec =
        json!({"targetRef": target, "requiredPersistentTopology": {"nodeTopologyKeys": [ZONE]}});
    pool.object("early", &spec).await;
    wait_for_reason(&pool, "early", "WorkloadKindNotWatched").await;

    // Pod names without ordinals.
    let hot = Pool::new(cluster, "caches", 4, 2).await;
    define(cluster, &cache()).await;
    wait_until_watched(cluster, &cache(), true).await;
    let target =
        json!({"apiVersion": "e2e.pps.kubewarden.io/v1alpha1", "kind": "Cache", "name": "hot"});
    let spec = json!({"targetRef": target, "requiredPersistentTopology": {"nodeTopologyKeys": [ZONE]},
        "preferredPersistentTopology": [{"weight": 100, "preference": {"nodeTopologyKeys": [HOSTNAME]}}],
        "persistentPodAnnotations": [{"key": IP_ANNOTATION}]});
    hot.object("mine", &spec).await;
    apply(&hot, &cache(), "hot", false, &json!({"replicas": 3})).await;
    let words = ["hot-blue", "hot-green", "hot-red"];
    ready(&hot, "hot", &words).await;
    hot.wait_for_entries("mine", &words).await;
    assert_eq!(hot.pps("mine").await.unwrap().data["status"]["desired"], 3);
    assert_that_pods_return(&hot, "hot", "mine", &words).await;
    // It takes a few sweeps until the entry of the Pod that is removed is dropped.
    apply(&hot, &cache(), "hot", false, &json!({"replicas": 2})).await;

    define(cluster, &database()).await;
    wait_until_watched(cluster, &database(), true).await;
    wait_for_reason(&pool, "early", "WorkloadNotFound").await;
    let size = |size: u32| json!({"shape": {"size": size}, "replicas": 1});
    apply(&pool, &database(), "mine", false, &size(1)).await;
    pool.recorded("early", "mine").await;

    let workload = apply(&pool, &database(), "db", true, &size(3)).await;
    let names = ["db-0", "db-1", "db-2"];
    ready(&pool, "db", &names).await;
    pool.wait_for_entries("db", &names).await;
    let pps = pool.pps("db").await.unwrap();
    assert_eq!(
        pps.data["status"]["desired"], 3,
        "the number comes from the scale subresource"
    );
    assert_eq!(pps.owner_references()[0].uid, workload.uid().unwrap());
    assert_that_pods_return(&pool, "db", "db", &names).await;

    // A list that cannot be read is reported, and changes nothing for both kinds.
    write_whitelist(
        cluster,
        r#"{"workloads":[{"group":"e2e.pps.kubewarden.io"}]}"#,
    )
    .await;
    let message = config_event(cluster, "MalformedWhitelist").await;
    for words in [
        "workloads[0]: missing field `kind`",
        "the last valid list stays in force",
    ] {
        assert!(message.contains(words), "{words} in {message}");
    }
    apply(&pool, &database(), "db", true, &size(2)).await;
    pool.wait_for_entries("db", &names[..2]).await;

    hot.wait_for_entries("mine", &["hot-green", "hot-red"])
        .await;
    cluster
        .pods_api("caches")
        .delete("hot-red", &DeleteParams::default())
        .await
        .unwrap();
    ready(&hot, "hot", &["hot-green", "hot-red"]).await;
    hot.wait_for_entries("mine", &["hot-green", "hot-red"])
        .await;
}

pub(crate) async fn stops_watching_a_kind_whose_definition_is_deleted(cluster: &Cluster) {
    let pool = Pool::new(cluster, "undefined", 3, 1).await;
    grant(cluster, SIDECAR, "databases").await;
    define(cluster, &database()).await;
    write_whitelist(cluster, &whitelist(&[&database()])).await;
    let size = json!({"shape": {"size": 1}});
    apply(&pool, &database(), "db", true, &size).await;
    pool.wait_for_entries("db", &["db-0"]).await;
    let target =
        json!({"apiVersion": "e2e.pps.kubewarden.io/v1", "kind": "Database", "name": "other"});
    let spec =
        json!({"targetRef": target, "requiredPersistentTopology": {"nodeTopologyKeys": [ZONE]}});
    pool.object("mine", &spec).await;
    wait_for_reason(&pool, "mine", "WorkloadNotFound").await;

    let definitions = cluster
        .control_plane
        .kubectl(&["delete", "crd", &definition_of(&database())])
        .await;
    definitions.unwrap();
    wait_until_watched(cluster, &database(), false).await;
    wait_for_reason(&pool, "mine", "WorkloadKindNotWatched").await;
    assert_eq!(
        cluster.sidecar().unwrap().get("/readyz").await.unwrap().0,
        200
    );

    define(cluster, &database()).await;
    wait_until_watched(cluster, &database(), true).await;
    apply(&pool, &database(), "other", false, &size).await;
    pool.recorded("mine", "other").await;
}

/// The spec of a `PodSet` with Pods of these names.
fn pods_named(names: &[&str]) -> Value {
    let pods: Vec<Value> = names
        .iter()
        .map(|name| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}))
        .collect();
    json!({"pods": pods})
}

pub(crate) async fn wants_the_names_that_a_workload_lists(cluster: &Cluster) {
    let pool = Pool::new(cluster, "listed", 5, 2).await;
    grant(cluster, SIDECAR, "podsets").await;
    grant(cluster, SIDECAR, "instances").await;
    let list = json!({"workloads": [
        {"group": GROUP, "kind": "PodSet", "namesPath": "spec.pods[*].metadata.name"},
        {"group": GROUP, "kind": "Instances", "namesPath": "status.instanceNames"},
    ]});
    write_whitelist(cluster, &list.to_string()).await;
    for kind in [pod_set(), instances()] {
        define(cluster, &kind).await;
        wait_until_watched(cluster, &kind, true).await;
    }

    // No number of Pods, and a gap: the names alone say what is wanted.
    let names = ["kafka-0", "kafka-4", "kafka-7"];
    apply(&pool, &pod_set(), "kafka", true, &pods_named(&names)).await;
    ready(&pool, "kafka", &names).await;
    pool.wait_for_entries("kafka", &names).await;
    wait_for_reason(&pool, "kafka", "AllRecorded").await;
    let pps = pool.pps("kafka").await.unwrap();
    assert_eq!(pps.data["status"]["desired"], 3);
    assert_that_pods_return(&pool, "kafka", "kafka", &names).await;
    // Scaled down in the middle.
    let names = ["kafka-0", "kafka-7"];
    apply(&pool, &pod_set(), "kafka", true, &pods_named(&names)).await;
    pool.wait_for_entries("kafka", &names).await;

    // The names are in the status, which is empty after a restore.
    let names = ["pg-1", "pg-2", "pg-3"];
    apply(&pool, &instances(), "pg", true, &json!({"replicas": 3})).await;
    set_instances(&pool, "pg", &json!(names)).await;
    ready(&pool, "pg", &names).await;
    pool.wait_for_entries("pg", &names).await;
    wait_for_reason(&pool, "pg", "AllRecorded").await;
    let before = ready(&pool, "pg", &names).await;
    set_instances(&pool, "pg", &Value::Null).await;
    let pods = cluster.pods_api(pool.namespace);
    for name in names {
        pods.delete(name, &DeleteParams::default()).await.unwrap();
    }
    let pps = wait_for_reason(&pool, "pg", "ReplicasUnknown").await;
    let message = recording(&pps)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("status.instanceNames"), "{message}");
    ready(&pool, "pg", &[]).await;
    // Several times as long as a name has to be absent.
    tokio::time::sleep(EMPTY_STATUS).await;
    pool.wait_for_entries("pg", &names).await;
    pool.load_all(homes(&before).values()).await;
    set_instances(&pool, "pg", &json!(names)).await;
    let after = ready(&pool, "pg", &names).await;
    assert_eq!(places(&after), places(&before));

    // A list with another syntax is reported, and the names go on to count.
    let bad = list.to_string().replace("[*]", "[0]");
    write_whitelist(cluster, &bad).await;
    let config = Pool {
        cluster,
        namespace: CONFIG_NAMESPACE,
    };
    let part = r#"workloads[0]: namesPath: no field or [*] at "[0].metadata.name""#;
    config
        .event_with(CONFIG_MAP, "MalformedWhitelist", part)
        .await;
    apply(&pool, &instances(), "pg", true, &json!({"replicas": 2})).await;
    set_instances(&pool, "pg", &json!(["pg-1", "pg-3"])).await;
    pool.wait_for_entries("pg", &["pg-1", "pg-3"]).await;
}

/// How long the status of a workload stays empty: the sidecar's names count as absent after a few
/// seconds, see [`sidecar`].
const EMPTY_STATUS: Duration = Duration::from_secs(15);

/// Writes `status.instanceNames`, as an operator does.
async fn set_instances(pool: &Pool<'_>, name: &str, names: &Value) {
    let client = pool.cluster.client();
    let resource = instances().resource;
    let all: Api<DynamicObject> = Api::namespaced_with(client, pool.namespace, &resource);
    let patch = json!({"status": {"instanceNames": names}});
    all.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

pub(crate) async fn reports_an_operator_that_compares_the_affinity(cluster: &Cluster) {
    let pool = Pool::new(cluster, "looping", 3, 2).await;
    grant(cluster, SIDECAR, "podsets").await;
    let list = json!({"workloads": [
        {"group": GROUP, "kind": "PodSet", "namesPath": "spec.pods[*].metadata.name"},
    ]});
    write_whitelist(cluster, &list.to_string()).await;
    define(cluster, &pod_set()).await;
    wait_until_watched(cluster, &pod_set(), true).await;
    apply(&pool, &pod_set(), "vt", false, &pods_named(&["vt-0"])).await;
    compare_affinity(&pool, &pod_set(), "vt").await;
    let target =
        json!({"apiVersion": pod_set().resource.api_version, "kind": "PodSet", "name": "vt"});
    let spec = json!({"targetRef": target,
        "requiredPersistentTopology": {"nodeTopologyKeys": [HOSTNAME]},
        "persistentPodAnnotations": [{"key": IP_ANNOTATION}]});
    pool.object("vt", &spec).await;
    pool.recorded("vt", "vt").await;

    // From now on, each Pod gets an affinity that its operator did not write.
    let pods = cluster.pods_api(pool.namespace);
    pods.delete("vt-0", &DeleteParams::default()).await.unwrap();
    let pps = wait_for_reason(&pool, "vt", "RecreationLoop").await;
    assert_eq!(recording(&pps)["status"], "True");
    assert!(pps.data["status"]["podStates"]["vt-0"].is_object());
    let message = pool.event("vt", "RecreationLoop").await;
    assert!(
        message.contains("list annotations only, no topology"),
        "{message}"
    );

    // The way out.
    let patch = json!({"spec": {"requiredPersistentTopology": null}});
    cluster
        .pps_api(pool.namespace)
        .patch("vt", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    wait_for_reason(&pool, "vt", "AllRecorded").await;
    let pod = ready(&pool, "vt", &["vt-0"]).await.remove("vt-0").unwrap();
    assert_eq!(pod.annotations[MARKER], "vt", "the annotation is injected");
}
