//! Objects that the sidecar generates for annotated workloads.

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use pps_e2e::{
    cluster::{Cluster, SIDECAR, is_alias},
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::permissions;
use crate::support::{
    HOSTNAME, IP_ANNOTATION, Pool, SOON, TIMEOUT, WHILE, ZONE, list, recording, required,
};

const AUTO: &str = "kruise.io/auto-generate-persistent-pod-state";
const REQUIRED: &str = "kruise.io/required-persistent-topology";

/// The expected ownerReferences of a generated object.
async fn owner(pool: &Pool<'_>, workload: &str) -> Value {
    let uid = pool
        .cluster
        .stateful_sets(pool.namespace)
        .get(workload)
        .await
        .unwrap()
        .metadata
        .uid;
    json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": workload, "uid": uid, "controller": true}])
}

async fn names(pool: &Pool<'_>) -> Vec<String> {
    let all = pool
        .cluster
        .pps_api(pool.namespace)
        .list(&ListParams::default())
        .await
        .unwrap();
    all.iter()
        .filter(|pps| !is_alias(pps))
        .map(ResourceExt::name_any)
        .collect()
}

pub(crate) async fn generates_an_object_for_an_annotated_workload(cluster: &Cluster) {
    let pool = Pool::new(cluster, "asked", 2, 1).await;
    // Without a topology or annotation to persist, and for another value than "true", nothing is
    // generated.
    cluster
        .run_stateful_set(&pool.stateful_set("plain", 1).persistent("", "", ""))
        .await
        .unwrap();
    let off = pool
        .stateful_set("off", 1)
        .persistent(ZONE, "", "")
        .annotation(AUTO, "false");
    cluster.run_stateful_set(&off).await.unwrap();
    let annotations = format!("{IP_ANNOTATION}, {IP_ANNOTATION},example.io/ips = PodIPsJSON,");
    let web = pool
        .stateful_set("web", 1)
        .persistent(" a/zone , ,a/rack", HOSTNAME, &annotations);
    cluster.run_stateful_set(&web).await.unwrap();

    let pps = pool
        .wait_for_object("web", "an object", SOON, |_| true)
        .await;
    let expected = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
        "requiredPersistentTopology": {"nodeTopologyKeys": ["a/zone", "a/rack"]},
        "preferredPersistentTopology": [{"weight": 100, "preference": {"nodeTopologyKeys": [HOSTNAME]}}],
        "persistentPodAnnotations": [{"key": IP_ANNOTATION}, {"key": "example.io/ips", "valueFrom": "PodIPsJSON"}],
    });
    assert_eq!(pps.data["spec"], expected);
    assert_eq!(
        json!(pps.metadata.owner_references),
        owner(&pool, "web").await
    );
    // The sidecar owns exactly the fields that come from annotations.
    let fields = pps
        .managed_fields()
        .iter()
        .filter(|entry| entry.manager.as_deref() == Some("pps-sidecar"));
    let mut fields = fields.map(|entry| serde_json::to_value(&entry.fields_v1).unwrap());
    let fields = fields.find(|fields| fields["f:spec"].is_object()).unwrap();
    let owned: Vec<&String> = fields["f:spec"]
        .as_object()
        .unwrap()
        .keys()
        .filter(|field| *field != ".")
        .collect();
    assert_eq!(
        owned,
        [
            "f:persistentPodAnnotations",
            "f:preferredPersistentTopology",
            "f:requiredPersistentTopology",
            "f:targetRef"
        ]
    );
    assert!(pool.event("web", "Generated").await.contains("web"));

    // An annotation that the CNI does not write is derived from the Pod's addresses.
    let pps = pool
        .wait_for_object("web", "web-0 to be recorded", TIMEOUT, |pps| {
            pps.data["status"]["podStates"]["web-0"].is_object()
        })
        .await;
    let ip = cluster.pods("asked", "web").await.unwrap()["web-0"]
        .ip
        .clone()
        .unwrap();
    let recorded = &pps.data["status"]["podStates"]["web-0"]["annotations"];
    assert_eq!(
        *recorded,
        json!({IP_ANNOTATION: ip, "example.io/ips": format!("[\"{ip}\"]")})
    );
    assert_eq!(names(&pool).await, ["web"]);
}

pub(crate) async fn deletes_a_generated_object_with_its_workload(cluster: &Cluster) {
    let pool = Pool::new(cluster, "collected", 1, 1).await;
    cluster
        .run_stateful_set(&pool.stateful_set("web", 1).persistent(ZONE, "", ""))
        .await
        .unwrap();
    pool.recorded("web", "web").await;
    // An object made by a user stays.
    pool.object("mine", &required("other", &[ZONE])).await;
    cluster
        .delete_stateful_set("collected", "web", false)
        .await
        .unwrap();
    pool.wait_until_no_object("web").await;
    assert_eq!(names(&pool).await, ["mine"]);
}

pub(crate) async fn keeps_states_across_an_orphaning_delete(cluster: &Cluster) {
    let pool = Pool::new(cluster, "orphans", 2, 1).await;
    let web = pool
        .stateful_set("web", 2)
        .persistent("", HOSTNAME, IP_ANNOTATION);
    cluster.run_stateful_set(&web).await.unwrap();
    let states = pool.recorded("web", "web").await;
    let object = pool.pps("web").await.unwrap().uid();

    cluster
        .delete_stateful_set("orphans", "web", true)
        .await
        .unwrap();
    let gone = |pps: &DynamicObject| recording(pps)["reason"] == "WorkloadNotFound";
    pool.wait_for_object(
        "web",
        "the workload to be reported as not found",
        TIMEOUT,
        gone,
    )
    .await;
    tokio::time::sleep(WHILE).await;
    assert_eq!(
        pool.states("web").await,
        states,
        "the states of orphaned Pods must be kept"
    );

    cluster.create_stateful_set(&web).await.unwrap();
    let owners = owner(&pool, "web").await;
    let uid = owners[0]["uid"].clone();
    let pps = pool
        .wait_for_object("web", "the new owner", SOON, |pps| {
            json!(pps.metadata.owner_references) == owners && pps.data["status"]["targetUID"] == uid
        })
        .await;
    assert_eq!(
        pps.uid(),
        object,
        "neither the garbage collector nor the sidecar may replace the object"
    );
    assert_eq!(pool.recorded("web", "web").await, states);
}

/// Causes refused requests, so it runs after the check of the audit log.
pub(crate) async fn reports_a_refused_object_once(cluster: &Cluster) {
    let pool = Pool::new(cluster, "quota", 2, 1).await;
    let count = "count/persistentpodstates.apps.kruise.io";
    let quotas: Api<ResourceQuota> = Api::namespaced(cluster.client(), "quota");
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {count: "0"}}});
    quotas
        .create(
            &PostParams::default(),
            &serde_json::from_value(quota).unwrap(),
        )
        .await
        .unwrap();
    // In place of the controller, which this control plane does not run.
    let status = json!({"status": {"hard": {count: "0"}, "used": {count: "0"}}});
    quotas
        .patch_status("none", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    cluster
        .run_stateful_set(&pool.stateful_set("web", 1).persistent(ZONE, "", ""))
        .await
        .unwrap();
    let message = pool.event("web", "WriteRefused").await;
    for word in ["cannot create PersistentPodState web", "403", "quota"] {
        assert!(message.contains(word), "{word} in {message}");
    }
    tokio::time::sleep(WHILE * 2).await;
    let creates = permissions::writes(cluster, SIDECAR)
        .into_iter()
        .filter(|event| {
            event["objectRef"]["namespace"] == "quota"
                && event["objectRef"]["resource"] == "persistentpodstates"
        });
    assert_eq!(creates.count(), 1, "it is not tried again at once");
    assert_eq!(pool.events("web", "WriteRefused").await.unwrap().len(), 1);

    // A mistake in an annotation keeps what was generated, and says what is wrong.
    cluster
        .control_plane
        .kubectl(&["delete", "-n", "quota", "resourcequota", "none"])
        .await
        .unwrap();
    pool.annotate("web", &json!({REQUIRED: HOSTNAME})).await;
    let pps = pool
        .wait_for_object("web", "an object", SOON, |_| true)
        .await;
    pool.annotate("web", &json!({REQUIRED: "no key"})).await;
    let message = pool.event("web", "InvalidAnnotation").await;
    assert!(message.contains(r#""no key" is no label key"#), "{message}");
    tokio::time::sleep(WHILE).await;
    assert_eq!(pool.pps("web").await.unwrap().uid(), pps.uid());
}

/// Restarts the sidecar.
pub(crate) async fn keeps_fields_that_users_set(cluster: &Cluster) {
    let pool = Pool::new(cluster, "set", 2, 1).await;
    let web = pool.stateful_set("web", 2).persistent(ZONE, "", "");
    cluster.run_stateful_set(&web).await.unwrap();
    pool.recorded("web", "web").await;
    let patch = r#"{"spec": {"persistentPodStateRetentionPolicy": "WhenDeleted"}}"#;
    cluster
        .control_plane
        .kubectl(&[
            "patch",
            "-n",
            "set",
            "pps",
            "web",
            "--type=merge",
            "-p",
            patch,
        ])
        .await
        .unwrap();
    let set = |pps: &DynamicObject| {
        pps.data["spec"]["persistentPodStateRetentionPolicy"] == "WhenDeleted"
    };

    let sidecar = cluster.sidecar().unwrap();
    let end = sidecar.terminate(TIMEOUT).await.unwrap();
    assert_eq!(end.code, Some(0), "{end:?}");
    sidecar.start_again().unwrap();
    sidecar.wait_ready(TIMEOUT).await.unwrap();
    // A change of annotations shows that the sidecar has processed this workload.
    pool.annotate("web", &json!({REQUIRED: format!("{ZONE},{HOSTNAME}")}))
        .await;
    let changed = |pps: &DynamicObject| {
        list(&pps.data["spec"]["requiredPersistentTopology"]["nodeTopologyKeys"]).count() == 2
    };
    let pps = pool
        .wait_for_object("web", "the change of annotations to arrive", SOON, changed)
        .await;
    assert!(set(&pps), "{}", pps.data["spec"]);
    pool.recorded("web", "web").await;

    // The retention policy is in force.
    pool.scale("web", 1).await;
    pool.ready("web", 1).await;
    pool.wait_for_object("web", "one Pod to be wanted", TIMEOUT, |pps| {
        pps.data["status"]["desired"] == 1
    })
    .await;
    tokio::time::sleep(WHILE).await;
    assert_eq!(pool.states("web").await.len(), 2);
    wait_for("nothing else of the object to change", SOON, async || {
        let pps = pool.pps("web").await?;
        Ok(Progress::when(set(&pps) && changed(&pps), (), &pps.data))
    })
    .await
    .unwrap();
}
