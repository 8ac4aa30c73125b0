//! Pods that are replaced while all nodes work.

use std::time::Instant;

use pps_e2e::{cluster::real_nodes::ip_annotation, http};
use serde_json::json;

use super::Stage;
use crate::support::{HOSTNAME, note, places, serving};

/// One Pod at a time is replaced, and clients that know only addresses reach the others meanwhile.
pub(super) async fn a_rolling_update(stage: &Stage<'_>) {
    let before = stage.places().await;
    let pool = stage.pool();
    // One that the Pods do not have.
    let revision = stage.pods().await["db-0"].uid.clone();
    pool.start_rollout("db", &revision).await;
    let mut rounds = 0;
    let watch = async {
        loop {
            let mut reached = 0;
            for (pod, (_, address)) in &before {
                if let Ok((200, body)) = http::get(&format!("{address}:8080"), "/").await {
                    assert_eq!(body.trim(), pod, "another Pod answers at {address}");
                    reached += 1;
                }
            }
            assert!(reached >= 2, "only {reached} of 3 Pods answer");
            rounds += 1;
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = watch => {}
        _ = pool.rolled_out("db", &revision) => {}
    }
    assert!(rounds > 0);
    stage.are_back(&before).await;
}

/// The Pod waits while its node is cordoned, and nothing takes its address.
pub(super) async fn a_drain_with_a_disruption_budget(stage: &Stage<'_>) {
    let before = stage.places().await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "shop", "name": "db"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "db"}}}});
    stage.cluster.apply_objects(&[budget]).await.unwrap();
    let drained = stage.pods().await.into_values().next().unwrap();
    let node = drained.node.clone().unwrap();

    let started = Instant::now();
    let kubectl = async |args: &[&str]| stage.cluster.control_plane.kubectl(args).await;
    kubectl(&[
        "drain",
        &node,
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        "--timeout=50s",
    ])
    .await
    .unwrap();
    note(&format!("{node} was drained in {:.1?}", started.elapsed()));
    let waiting = stage.replaced(&drained).await;
    assert_eq!((waiting.node, waiting.ready), (None, false));
    // Meanwhile, the budget allows no second Pod to be evicted.
    let other = stage
        .pods()
        .await
        .into_values()
        .filter_map(|pod| pod.node)
        .find(|other| *other != node)
        .unwrap();
    let refusal = kubectl(&["drain", &other, "--pod-selector=app=db", "--timeout=3s"])
        .await
        .unwrap_err();
    assert!(
        format!("{refusal:#}").contains("disruption budget"),
        "{refusal:#}"
    );
    kubectl(&["uncordon", &other]).await.unwrap();
    kubectl(&["uncordon", &node]).await.unwrap();
    stage.are_back(&before).await;
}

/// The first Pod decides where its volume is bound. The next one finds the data there.
pub(super) async fn a_local_volume(stage: &Stage<'_>) {
    let pool = stage.pool();
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"});
    let volumes = stage.nodes().names().map(|node| {
        // A node's own folder on its disk.
        let folder = stage.cluster.control_plane.folder().join(node).join("lib/volume");
        std::fs::create_dir(folder).unwrap();
        let here = json!({"key": HOSTNAME, "operator": "In", "values": [node]});
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": node}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
            "local": {"path": "/var/lib/volume"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}}})
    });
    stage
        .cluster
        .apply_objects(&std::iter::once(class).chain(volumes).collect::<Vec<_>>())
        .await
        .unwrap();
    let serve = "[ -e /data/index.html ] || cat /proc/sys/kernel/random/uuid >/data/index.html; \
                 exec httpd -f -p 8080 -h /data";
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": "local", "resources": {"requests": {"storage": "1Gi"}}}});
    let mut disk = serving("shop", "disk", 1)
        .overrides(&json!({"spec": {"volumeClaimTemplates": [claim]}}))
        .persistent("", HOSTNAME, ip_annotation());
    let container = &mut disk.template["spec"]["containers"][0];
    container["command"] = json!(["sh", "-c", serve]);
    container["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    let before = stage.cluster.run_stateful_set(&disk).await.unwrap();
    pool.recorded("disk", "disk").await;
    let address = format!("{}:8080", before["disk-0"].ip.as_ref().unwrap());
    let (_, data) = http::get(&address, "/").await.unwrap();
    let after = pool.recreate("disk", &["disk-0"]).await;
    assert_eq!(places(&after), places(&before));
    assert_eq!(http::get(&address, "/").await.unwrap().1, data);
    stage.records_match().await;
}

/// The kubelet evicts the Pod that uses most of its node's memory. The next one, which requests
/// some, may start there at once.
pub(super) async fn an_eviction_under_memory_pressure(stage: &Stage<'_>) {
    let before = stage.places().await;
    let (pool, sidecars) = (
        stage.pool(),
        stage.sidecars().await.map(|(_, node)| Some(node)),
    );
    let greedy = stage
        .pods()
        .await
        .into_values()
        .find(|pod| !sidecars.contains(&pod.node))
        .unwrap();
    // All Pods of a node have 512 MiB. This reads 460 MiB into memory, and keeps them.
    let fill = "dd if=/dev/zero bs=460M count=1 | sleep 60";
    let fill = ["exec", "-n", "shop", &greedy.name, "--", "sh", "-c", fill];
    let started = Instant::now();
    let (_, event) = tokio::join!(
        stage.cluster.control_plane.kubectl(&fill),
        pool.event_with(&greedy.name, "Evicted", "memory")
    );
    note(&format!(
        "{} was evicted after {:.1?}: {event}",
        greedy.name,
        started.elapsed()
    ));
    stage.replaced(&greedy).await;
    stage.are_back(&before).await;
}
