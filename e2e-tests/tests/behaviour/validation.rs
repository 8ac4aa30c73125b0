//! The policy validates PersistentPodStates.

use kube::api::{DeleteParams, Patch, PatchParams};
use pps_e2e::cluster::Cluster;
use serde_json::json;

use crate::support::{HOSTNAME, Pool, ZONE, required};

pub(crate) async fn refuses_invalid_objects_and_allows_their_deletion(cluster: &Cluster) {
    let pool = Pool::new(cluster, "refusals", 1, 1).await;
    // The CRD allows all of this.
    let mut wrong = required("web", &["Zone.io/zone"]);
    wrong["targetRef"]["kind"] = json!("Stateful Set");
    wrong["persistentPodAnnotations"] = json!([{"key": "cni.projectcalico.org/podIP"}]);
    let refusal = pool.refusal("web", &wrong).await;
    for piece in [
        "spec.targetRef.kind is \"Stateful Set\"",
        "spec.requiredPersistentTopology.nodeTopologyKeys[0] is \"Zone.io/zone\"",
        "spec.persistentPodAnnotations[0].key is \"cni.projectcalico.org/podIP\"",
        "use \"cni.projectcalico.org/ipAddrs\"",
    ] {
        assert!(refusal.contains(piece), "{piece:?} in {refusal:?}");
    }

    // An invalid object that was made without the policy can be deleted, and its finalizer removed.
    pool.refused_object("web", &wrong).await;
    let api = cluster.pps_api("refusals");
    let patch = async |patch: serde_json::Value| {
        api.patch("web", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map(|_| ())
    };
    patch(json!({"metadata": {"finalizers": ["example.io/wait"]}}))
        .await
        .unwrap();
    let refusal =
        patch(json!({"spec": {"requiredPersistentTopology": {"nodeTopologyKeys": [ZONE]}}})).await;
    assert!(
        refusal
            .unwrap_err()
            .to_string()
            .contains("spec.targetRef.kind")
    );
    api.delete("web", &DeleteParams::default()).await.unwrap();
    patch(json!({"metadata": {"finalizers": null}}))
        .await
        .unwrap();

    // The workload of a valid object cannot change.
    pool.object("good", &required("web", &[HOSTNAME])).await;
    let refusal = pool.refusal("good", &required("bew", &[HOSTNAME])).await;
    // From the CRD's rules, where the API server has them.
    assert!(refusal.contains("cannot change from \"web\""), "{refusal}");
}
