//! `docs/examples/redis.yaml` on the cluster of the test.

use std::fs;

use pps_e2e::{
    cluster::{
        Cluster,
        real_nodes::{self, ip_annotation},
    },
    manifests,
    repository::repository_file,
};
use serde_json::json;

use crate::support::{HOSTNAME, IP_ANNOTATION};

/// The manifest with the image of Redis that the nodes have, and the annotation that their network
/// plugin honours.
pub(crate) fn text(with_state: bool) -> String {
    let mut objects = manifests::read(&repository_file("docs/examples/redis.yaml")).unwrap();
    objects.retain(|object| with_state || object["kind"] != "PersistentPodState");
    for object in &mut objects {
        if object["kind"] == "StatefulSet" {
            let container = &mut object["spec"]["template"]["spec"]["containers"][0];
            assert_eq!(container["image"], "redis:7.2");
            container["image"] = real_nodes::DATABASE.into();
        }
        // The manifest is for Calico.
        if object["kind"] == "PersistentPodState" && ip_annotation() == IP_ANNOTATION {
            object["spec"]["persistentPodAnnotations"] = json!([{"key": IP_ANNOTATION}]);
        }
    }
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

/// Makes the default `StorageClass`, with a volume of each node for each of these.
pub(crate) async fn provide_volumes(cluster: &Cluster, owners: [&str; 2]) {
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {
            "name": "local", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"});
    let mut objects = vec![class];
    for node in cluster.real_nodes().unwrap().names() {
        let here = json!({"key": HOSTNAME, "operator": "In", "values": [node]});
        let term = json!({"matchExpressions": [here]});
        for owner in owners {
            // A node's own folder on its disk.
            let folder = cluster
                .control_plane
                .folder()
                .join(node)
                .join("lib")
                .join(owner);
            fs::create_dir(folder).unwrap();
            objects.push(json!({"apiVersion": "v1", "kind": "PersistentVolume",
                "metadata": {"name": format!("{owner}-{node}")}, "spec": {
                    "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "local", "local": {"path": format!("/var/lib/{owner}")},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}));
        }
    }
    cluster.apply_objects(&objects).await.unwrap();
}
