//! Objects that the sidecar generates for annotated workloads.

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use pps_e2e::{
    cluster::{Cluster, SIDECAR, is_alias},
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::permissions;
use crate::support::{
    HOSTNAME, IP_ANNOTATION, MARKER, Pool, SOON, TIMEOUT, WHILE, ZONE, homes, list, places, recording,
    required,
};

const AUTO: &str = "kruise.io/auto-generate-persistent-pod-state";
const REQUIRED: &str = "kruise.io/required-persistent-topology";
const ANNOTATIONS: &str = "kruise.io/persistent-pod-annotations";

/// The expected ownerReferences of a generated object.
async fn owner(pool: &Pool<'_>, workload: &str) -> Value {
    let uid = pool.cluster.stateful_sets(pool.namespace).get(workload).await.unwrap().metadata.uid;
    json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": workload, "uid": uid, "controller": true}])
}

fn generated_spec(keys: &[&str]) -> Value {
    required("web", keys)
}

async fn names(pool: &Pool<'_>) -> Vec<String> {
    let all = pool.cluster.pps_api(pool.namespace).list(&ListParams::default()).await.unwrap();
    all.iter().filter(|pps| !is_alias(pps)).map(ResourceExt::name_any).collect()
}

pub(crate) async fn generates_an_object_for_an_annotated_workload(cluster: &Cluster) {
    let pool = Pool::new(cluster, "asked", 2, 1).await;
    // Without a topology or annotation to persist, and for another value than "true", nothing is generated.
    cluster.run_stateful_set(&pool.stateful_set("plain", 1).persistent("", "", "")).await.unwrap();
    let off = pool.stateful_set("off", 1).persistent(ZONE, "", "").annotation(AUTO, "false");
    cluster.run_stateful_set(&off).await.unwrap();
    let annotations = format!("{IP_ANNOTATION}, {IP_ANNOTATION},example.io/ips = PodIPsJSON,");
    let web = pool.stateful_set("web", 1).persistent(" a/zone , ,a/rack", HOSTNAME, &annotations);
    cluster.run_stateful_set(&web).await.unwrap();

    let pps = pool.wait_for_object("web", "an object", SOON, |_| true).await;
    let expected = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
        "requiredPersistentTopology": {"nodeTopologyKeys": ["a/zone", "a/rack"]},
        "preferredPersistentTopology": [{"weight": 100, "preference": {"nodeTopologyKeys": [HOSTNAME]}}],
        "persistentPodAnnotations": [{"key": IP_ANNOTATION}, {"key": "example.io/ips", "valueFrom": "PodIPsJSON"}],
    });
    assert_eq!(pps.data["spec"], expected);
    assert_eq!(json!(pps.metadata.owner_references), owner(&pool, "web").await);
    // The sidecar owns exactly the fields that come from annotations.
    let fields = pps.managed_fields().iter().filter(|entry| entry.manager.as_deref() == Some("pps-sidecar"));
    let mut fields = fields.map(|entry| serde_json::to_value(&entry.fields_v1).unwrap());
    let fields = fields.find(|fields| fields["f:spec"].is_object()).unwrap();
    let owned: Vec<&String> =
        fields["f:spec"].as_object().unwrap().keys().filter(|field| *field != ".").collect();
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
    let ip = cluster.pods("asked", "web").await.unwrap()["web-0"].ip.clone().unwrap();
    let recorded = &pps.data["status"]["podStates"]["web-0"]["annotations"];
    assert_eq!(*recorded, json!({IP_ANNOTATION: ip, "example.io/ips": format!("[\"{ip}\"]")}));
    assert_eq!(names(&pool).await, ["web"]);
}

pub(crate) async fn deletes_a_generated_object_with_its_workload(cluster: &Cluster) {
    let pool = Pool::new(cluster, "collected", 1, 1).await;
    cluster.run_stateful_set(&pool.stateful_set("web", 1).persistent(ZONE, "", "")).await.unwrap();
    pool.recorded("web", "web").await;
    // An object made by a user stays.
    pool.object("mine", &required("other", &[ZONE])).await;
    cluster.delete_stateful_set("collected", "web", false).await.unwrap();
    pool.wait_until_no_object("web").await;
    assert_eq!(names(&pool).await, ["mine"]);
}

pub(crate) async fn deletes_unwanted_objects_and_recreates_missing_ones(cluster: &Cluster) {
    let pool = Pool::new(cluster, "asked-no-more", 2, 1).await;
    cluster.run_stateful_set(&pool.stateful_set("web", 1).persistent(ZONE, "", "")).await.unwrap();
    let states = pool.recorded("web", "web").await;

    // A deleted object is generated again.
    let first = pool.pps("web").await.unwrap().uid();
    cluster.pps_api("asked-no-more").delete("web", &DeleteParams::default()).await.unwrap();
    pool.wait_for_object("web", "another object", SOON, |pps| pps.uid() != first).await;
    assert_eq!(pool.recorded("web", "web").await, states);

    // The last topology key is removed, then one is added again.
    pool.annotate("web", &json!({REQUIRED: null})).await;
    pool.wait_until_no_object("web").await;
    pool.annotate("web", &json!({REQUIRED: HOSTNAME})).await;
    let pps = pool.wait_for_object("web", "an object", SOON, |_| true).await;
    assert_eq!(pps.data["spec"], generated_spec(&[HOSTNAME]));

    // The annotation is removed.
    pool.annotate("web", &json!({AUTO: null})).await;
    pool.wait_until_no_object("web").await;
    tokio::time::sleep(WHILE).await;
    assert!(names(&pool).await.is_empty());
    pool.event("web", "Deleted").await;
}

pub(crate) async fn leaves_a_foreign_object_of_the_same_name_alone(cluster: &Cluster) {
    let pool = Pool::new(cluster, "taken", 2, 1).await;
    let foreign = pool.object("web", &required("another", &[HOSTNAME])).await;
    cluster.run_stateful_set(&pool.stateful_set("web", 1).persistent(ZONE, "", "")).await.unwrap();
    let message = pool.event("web", "NameConflict").await;
    assert!(message.contains("PersistentPodState web"), "{message}");
    tokio::time::sleep(WHILE).await;
    let untouched = |pps: &DynamicObject| {
        (
            pps.uid(),
            pps.metadata.generation,
            pps.data["spec"].clone(),
            pps.labels().clone(),
            pps.owner_references().len(),
        )
    };
    assert_eq!(untouched(&pool.pps("web").await.unwrap()), untouched(&foreign));
    assert_eq!(names(&pool).await, ["web"]);

    // Once the foreign object is deleted, one is generated.
    cluster.pps_api("taken").delete("web", &DeleteParams::default()).await.unwrap();
    pool.wait_for_object("web", "an object of its own", SOON, |pps| {
        pps.data["spec"] == generated_spec(&[ZONE])
    })
    .await;
    pool.recorded("web", "web").await;
}

pub(crate) async fn generates_nothing_beside_a_foreign_object_for_the_workload(cluster: &Cluster) {
    let pool = Pool::new(cluster, "foreign", 3, 1).await;
    let mine = pool.object("mine", &required("web", &[HOSTNAME])).await;
    let before =
        cluster.run_stateful_set(&pool.stateful_set("web", 1).persistent(ZONE, "", "")).await.unwrap();
    pool.recorded("mine", "web").await;
    tokio::time::sleep(WHILE).await;
    assert_eq!(names(&pool).await, ["mine"]);
    assert_eq!(pool.pps("mine").await.unwrap().metadata.generation, mine.metadata.generation);
    pool.load(&homes(&before)["web-0"]).await;
    let after = pool.recreate("web", &["web-0"]).await;
    assert_eq!((homes(&after), after["web-0"].annotations[MARKER].as_str()), (homes(&before), "mine"));

    // Removing the annotation does not delete a foreign object.
    pool.annotate("web", &json!({AUTO: null})).await;
    tokio::time::sleep(WHILE).await;
    assert_eq!(names(&pool).await, ["mine"]);

    // Once the foreign object is deleted, one is generated.
    pool.annotate("web", &json!({AUTO: "true"})).await;
    cluster.pps_api("foreign").delete("mine", &DeleteParams::default()).await.unwrap();
    pool.recorded("web", "web").await;
}

pub(crate) async fn keeps_states_across_an_orphaning_delete(cluster: &Cluster) {
    let pool = Pool::new(cluster, "orphans", 5, 1).await;
    let web = pool.stateful_set("web", 2).persistent("", HOSTNAME, IP_ANNOTATION);
    let before = cluster.run_stateful_set(&web).await.unwrap();
    let states = pool.recorded("web", "web").await;
    let object = pool.pps("web").await.unwrap().uid();

    cluster.delete_stateful_set("orphans", "web", true).await.unwrap();
    let gone = |pps: &DynamicObject| recording(pps)["reason"] == "WorkloadNotFound";
    pool.wait_for_object("web", "the workload to be reported as not found", TIMEOUT, gone).await;
    tokio::time::sleep(WHILE).await;
    assert_eq!(pool.states("web").await, states, "the states of orphaned Pods must be kept");

    cluster.create_stateful_set(&web).await.unwrap();
    let owners = owner(&pool, "web").await;
    let uid = owners[0]["uid"].clone();
    let pps = pool
        .wait_for_object("web", "the new owner", SOON, |pps| {
            json!(pps.metadata.owner_references) == owners && pps.data["status"]["targetUID"] == uid
        })
        .await;
    assert_eq!(pps.uid(), object, "the object must not be replaced");
    assert_eq!(pool.recorded("web", "web").await, states);
    pool.load_all(homes(&before).values()).await;
    assert_eq!(places(&pool.roll_out("web", "2").await), places(&before));
    // The garbage collector has not deleted it.
    assert_eq!(pool.pps("web").await.unwrap().uid(), object);
}

/// Applies an exported copy of a generated object, as `kubectl get -o yaml | kubectl apply -f -` does.
pub(crate) async fn leaves_an_exported_copy_of_a_generated_object_alone(cluster: &Cluster) {
    let pool = Pool::new(cluster, "copied", 2, 1).await;
    cluster.run_stateful_set(&pool.stateful_set("web", 1).persistent(ZONE, "", "")).await.unwrap();
    pool.recorded("web", "web").await;
    let kubectl = async |arguments: &[&str]| cluster.control_plane.kubectl(arguments).await.unwrap();
    let exported = kubectl(&["get", "-n", "copied", "pps", "web", "-o", "json"]).await;
    let mut exported: Value = serde_json::from_str(&exported).unwrap();
    let metadata = exported["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "managedFields", "creationTimestamp", "generation"] {
        metadata.remove(field);
    }
    let file = cluster.control_plane.folder().join("copied.json");
    std::fs::write(&file, exported.to_string()).unwrap();

    // The copy replaces the original before the sidecar can generate another one.
    let sidecar = cluster.sidecar().unwrap();
    sidecar.pause().unwrap();
    cluster.pps_api("copied").delete("web", &DeleteParams::default()).await.unwrap();
    pool.wait_until_no_object("web").await;
    kubectl(&["apply", "-f", file.to_str().unwrap()]).await;
    sidecar.resume().unwrap();
    let copy = pool.pps("web").await.unwrap().uid();
    pool.recorded("web", "web").await;

    pool.annotate("web", &json!({AUTO: null})).await;
    tokio::time::sleep(WHILE * 2).await;
    assert_eq!(pool.pps("web").await.unwrap().uid(), copy, "a user's object is not deleted");
}

/// Causes refused requests, so it runs after the check of the audit log.
pub(crate) async fn reports_a_refused_object_once(cluster: &Cluster) {
    let pool = Pool::new(cluster, "quota", 2, 1).await;
    let count = "count/persistentpodstates.apps.kruise.io";
    let quotas: Api<ResourceQuota> = Api::namespaced(cluster.client(), "quota");
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {count: "0"}}});
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    // In place of the controller, which this control plane need not run.
    let status = json!({"status": {"hard": {count: "0"}, "used": {count: "0"}}});
    quotas.patch_status("none", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    cluster.run_stateful_set(&pool.stateful_set("web", 1).persistent(ZONE, "", "")).await.unwrap();
    let message = pool.event("web", "WriteRefused").await;
    for word in ["cannot create PersistentPodState web", "403", "quota"] {
        assert!(message.contains(word), "{word} in {message}");
    }
    tokio::time::sleep(WHILE * 2).await;
    let creates = permissions::writes(cluster, SIDECAR).into_iter().filter(|event| {
        event["objectRef"]["namespace"] == "quota" && event["objectRef"]["resource"] == "persistentpodstates"
    });
    assert_eq!(creates.count(), 1, "it is not tried again at once");
    assert_eq!(pool.events("web", "WriteRefused").await.unwrap().len(), 1);

    // A mistake in an annotation keeps what was generated, and says what is wrong.
    cluster.control_plane.kubectl(&["delete", "-n", "quota", "resourcequota", "none"]).await.unwrap();
    pool.annotate("web", &json!({REQUIRED: HOSTNAME})).await;
    let pps = pool.wait_for_object("web", "an object", SOON, |_| true).await;
    pool.annotate("web", &json!({REQUIRED: "no key"})).await;
    let message = pool.event("web", "InvalidAnnotation").await;
    assert!(message.contains(r#""no key" is no label key"#), "{message}");
    tokio::time::sleep(WHILE).await;
    assert_eq!(pool.pps("web").await.unwrap().uid(), pps.uid());
}

/// Without the policy: how it finds objects of other names is its own matter.
pub(crate) async fn keeps_an_alias_of_an_object_of_another_name(cluster: &Cluster) {
    let pool = Pool::new(cluster, "aliases", 2, 1).await;
    let mine = pool.object("mine", &required("web", &[HOSTNAME])).await;
    let alias = wait_for("an alias", SOON, async || {
        let all = pool.cluster.pps_api("aliases").list(&ListParams::default()).await?;
        let alias = all.items.into_iter().find(|pps| pps.name_any() != "mine");
        Ok(alias.map_or_else(|| Progress::Waiting("none".to_owned()), Progress::Done))
    })
    .await
    .unwrap();
    assert_eq!(alias.name_any(), "web-bfaad516", "<name>-<hash of group and kind>");
    assert_eq!(
        alias.data["spec"],
        json!({"targetRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "name": "mine"}})
    );
    assert_eq!(alias.metadata.owner_references.as_ref().unwrap()[0].uid, mine.uid().unwrap());
    assert_eq!(alias.owner_references().len(), 1);
    // It is no object to record in.
    cluster.run_stateful_set(&pool.stateful_set("web", 1)).await.unwrap();
    pool.recorded("mine", "web").await;
    let stored = pool.pps(&alias.name_any()).await.unwrap();
    assert!(stored.data.get("status").is_none_or(|status| *status == json!({})), "{}", stored.data);

    // The garbage collector removes it with the object.
    cluster.pps_api("aliases").delete("mine", &DeleteParams::default()).await.unwrap();
    pool.wait_until_no_object(&alias.name_any()).await;
    tokio::time::sleep(WHILE).await;
    assert!(names(&pool).await.is_empty());
}

pub(crate) async fn reports_a_malformed_annotation(cluster: &Cluster) {
    let pool = Pool::new(cluster, "malformed", 3, 1).await;
    let annotations = format!("example.io/a=PodIPs,{IP_ANNOTATION}");
    let web = pool.stateful_set("web", 1).persistent("", HOSTNAME, &annotations);
    let before = cluster.run_stateful_set(&web).await.unwrap();
    let message = pool.event("web", "InvalidAnnotation").await;
    for word in [ANNOTATIONS, "example.io/a=PodIPs", "PodIPsJSON", "PodIPsCSV"] {
        assert!(message.contains(word), "{word} in {message}");
    }
    let pps = pool.wait_for_object("web", "the rest to be generated", SOON, |_| true).await;
    assert_eq!(pps.data["spec"]["persistentPodAnnotations"], json!([{"key": IP_ANNOTATION}]));
    pool.recorded("web", "web").await;
    pool.load_all(homes(&before).values()).await;
    assert_eq!(places(&pool.recreate("web", &["web-0"]).await), places(&before));

    // Another mistake gets an Event of its own.
    pool.annotate("web", &json!({ANNOTATIONS: "example.io/b=PodIPs"})).await;
    wait_for("an Event about the second mistake", TIMEOUT, async || {
        let messages = pool.events("web", "InvalidAnnotation").await?;
        let found = messages.iter().any(|message| message.contains("example.io/b"));
        Ok(Progress::when(found, (), format!("{messages:?}")))
    })
    .await
    .unwrap();
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
        .kubectl(&["patch", "-n", "set", "pps", "web", "--type=merge", "-p", patch])
        .await
        .unwrap();
    let set = |pps: &DynamicObject| pps.data["spec"]["persistentPodStateRetentionPolicy"] == "WhenDeleted";

    let sidecar = cluster.sidecar().unwrap();
    let end = sidecar.terminate(TIMEOUT).await.unwrap();
    assert_eq!(end.code, Some(0), "{end:?}");
    sidecar.start_again().unwrap();
    sidecar.wait_ready(TIMEOUT).await.unwrap();
    // A change of annotations shows that the sidecar has processed this workload.
    pool.annotate("web", &json!({REQUIRED: format!("{ZONE},{HOSTNAME}")})).await;
    let changed = |pps: &DynamicObject| {
        list(&pps.data["spec"]["requiredPersistentTopology"]["nodeTopologyKeys"]).count() == 2
    };
    let pps = pool.wait_for_object("web", "the change of annotations to arrive", SOON, changed).await;
    assert!(set(&pps), "{}", pps.data["spec"]);
    pool.recorded("web", "web").await;

    // The retention policy is in force.
    pool.scale("web", 1).await;
    pool.ready("web", 1).await;
    pool.wait_for_object("web", "one Pod to be wanted", TIMEOUT, |pps| pps.data["status"]["desired"] == 1)
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
