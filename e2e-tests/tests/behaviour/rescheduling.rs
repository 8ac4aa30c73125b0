//! Replaced Pods return to their nodes and addresses.

use std::collections::BTreeMap;

use kube::api::{DeleteParams, Patch, PatchParams};
use pps_e2e::{
    cluster::{Cluster, PodInfo, is_alias},
    wait::{Progress, wait_for},
};
use serde_json::json;

use crate::support::{
    HOSTNAME, IP_ANNOTATION, MARKER, Pool, TIMEOUT, WHILE, ZONE, homes, list, places, recording,
    required, spec_for, spread_over_nodes,
};

pub(crate) async fn returns_a_deleted_pod_to_its_node_and_address(cluster: &Cluster) {
    let pool = Pool::new(cluster, "returns", 8, 2).await;
    let web = pool
        .stateful_set("web", 2)
        .persistent("", HOSTNAME, IP_ANNOTATION);
    let near = pool.stateful_set("near", 1).persistent("", HOSTNAME, "");
    let free = pool.stateful_set("free", 1);
    for spec in [&web, &near, &free] {
        cluster.create_stateful_set(spec).await.unwrap();
    }
    let (web, near, free) = (
        pool.ready("web", 2).await,
        pool.ready("near", 1).await,
        pool.ready("free", 1).await,
    );
    pool.recorded("web", "web").await;
    pool.recorded("near", "near").await;
    // Make all current nodes unattractive to the scheduler.
    let all = homes(&web)
        .into_values()
        .chain(homes(&near).into_values())
        .chain(homes(&free).into_values());
    pool.load_all(&all.collect::<Vec<_>>()).await;

    // The control group: without an object a Pod moves, and without the annotation its address
    // changes.
    let free_again = pool.recreate("free", &["free-0"]).await;
    assert_ne!(
        homes(&free_again),
        homes(&free),
        "the scheduler should avoid the loaded node"
    );
    assert!(!free_again["free-0"].annotations.contains_key(MARKER));
    let near_again = pool.recreate("near", &["near-0"]).await;
    assert_eq!(homes(&near_again), homes(&near));
    assert_ne!(near_again["near-0"].ip, near["near-0"].ip);

    let web_again = pool.recreate("web", &["web-0", "web-1"]).await;
    assert_eq!(places(&web_again), places(&web));
    assert_eq!(web_again["web-0"].annotations[MARKER], "web");
    pool.recorded("near", "near").await;
}

pub(crate) async fn keeps_every_pod_on_its_node_during_a_rolling_update(cluster: &Cluster) {
    let pool = Pool::new(cluster, "rollout", 10, 2).await;
    let apart =
        spread_over_nodes(&json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}));
    let web = pool
        .stateful_set("web", 3)
        .template(&apart)
        .persistent("", HOSTNAME, IP_ANNOTATION);
    let free = pool.stateful_set("free", 3).template(&apart);
    cluster.create_stateful_set(&web).await.unwrap();
    cluster.create_stateful_set(&free).await.unwrap();
    let (web, free) = (pool.ready("web", 3).await, pool.ready("free", 3).await);
    pool.recorded("web", "web").await;
    pool.load_all(homes(&web).values().chain(homes(&free).values()))
        .await;

    let (web_again, free_again) =
        tokio::join!(pool.roll_out("web", "2"), pool.roll_out("free", "2"));
    assert_eq!(places(&web_again), places(&web));
    let moved = homes(&free_again)
        .iter()
        .filter(|(name, node)| homes(&free)[*name] != **node)
        .count();
    assert!(
        moved > 0,
        "without an object some Pod of {:?} should move",
        homes(&free)
    );
    pool.recorded("web", "web").await;
}

pub(crate) async fn leaves_a_cordoned_node_and_stays_on_the_new_one(cluster: &Cluster) {
    let pool = Pool::new(cluster, "cordoned", 2, 1).await;
    let web = pool.stateful_set("web", 1).persistent("", HOSTNAME, "");
    let first = homes(&cluster.run_stateful_set(&web).await.unwrap())["web-0"].clone();
    pool.recorded("web", "web").await;

    cluster.nodes.cordon(&first).await.unwrap();
    let second = homes(&pool.recreate("web", &["web-0"]).await)["web-0"].clone();
    assert_ne!(second, first, "a cordoned node should get no Pods");
    let states = pool.recorded("web", "web").await;
    assert_eq!(states["web-0"]["nodeName"], json!(second));

    // The old node is empty again and the new one is loaded, but the Pod stays.
    cluster.nodes.uncordon(&first).await.unwrap();
    pool.load(&second).await;
    assert_eq!(
        homes(&pool.recreate("web", &["web-0"]).await)["web-0"],
        second
    );
}

pub(crate) async fn keeps_a_pod_pending_rather_than_leave_its_required_zone(cluster: &Cluster) {
    let pool = Pool::new(cluster, "zones", 4, 2).await;
    let web = pool.stateful_set("web", 1).persistent(ZONE, "", "");
    let first = homes(&cluster.run_stateful_set(&web).await.unwrap())["web-0"].clone();
    pool.recorded("web", "web").await;
    let zone = pool.zone(&first).await;
    let number = |node: &str| node.rsplit('-').next().unwrap().parse::<usize>().unwrap();
    let other = format!("zones-{}", (number(&first) + 2) % 4);
    assert_eq!(pool.zone(&other).await, zone);

    // The rest of the zone is loaded while the other zone is empty.
    pool.load(&other).await;
    cluster.nodes.cordon(&first).await.unwrap();
    assert_eq!(
        homes(&pool.recreate("web", &["web-0"]).await)["web-0"],
        other
    );
    pool.recorded("web", "web").await;

    cluster.nodes.cordon(&other).await.unwrap();
    let before = cluster
        .delete_pods("zones", "web", &["web-0"])
        .await
        .unwrap();
    let api = cluster.pods_api("zones");
    wait_for(
        "the scheduler to find no node for web-0",
        TIMEOUT,
        async || {
            let pod = api.get("web-0").await?;
            let status = serde_json::to_value(&pod.status)?;
            let unscheduled =
                list(&status["conditions"]).any(|one| one["reason"] == "Unschedulable");
            let new = pod.metadata.uid.as_ref() != Some(&before["web-0"].uid);
            Ok(Progress::when(new && unscheduled, (), status))
        },
    )
    .await
    .unwrap();
    tokio::time::sleep(WHILE).await;
    let pending = PodInfo::from(&api.get("web-0").await.unwrap());
    assert_eq!(pending.node, None, "the Pod must not run outside {zone}");
    assert_eq!(
        pool.states("web").await["web-0"]["nodeName"],
        json!(other),
        "the state must be kept meanwhile"
    );

    cluster.nodes.uncordon(&first).await.unwrap();
    assert_eq!(homes(&pool.ready("web", 1).await)["web-0"], first);
    pool.recorded("web", "web").await;
}

pub(crate) async fn when_deleted_retention_returns_pods_after_scale_up(cluster: &Cluster) {
    let pool = Pool::new(cluster, "kept", 6, 1).await;
    let policy = json!({"persistentPodStateRetentionPolicy": "WhenDeleted",
        "preferredPersistentTopology": [{"weight": 100, "preference": {"nodeTopologyKeys": [HOSTNAME]}}]});
    pool.object("mine", &spec_for("web", &policy)).await;
    let web = pool.stateful_set("web", 3);
    let before = cluster.run_stateful_set(&web).await.unwrap();
    let states = pool.recorded("mine", "web").await;

    pool.scale("web", 0).await;
    cluster
        .wait_for_pods("kept", "web", "no Pods", TIMEOUT, BTreeMap::is_empty)
        .await
        .unwrap();
    let scaled = |pps: &kube::api::DynamicObject| pps.data["status"]["desired"] == 0;
    pool.wait_for_object("mine", "no Pod to be wanted", TIMEOUT, scaled)
        .await;
    tokio::time::sleep(WHILE).await;
    assert_eq!(pool.states("mine").await, states);

    pool.load_all(homes(&before).values()).await;
    pool.scale("web", 3).await;
    assert_eq!(homes(&pool.ready("web", 3).await), homes(&before));

    // Deleting the workload drops the states.
    cluster
        .delete_stateful_set("kept", "web", false)
        .await
        .unwrap();
    pool.wait_for_entries("mine", &[]).await;
    let pps = pool
        .wait_for_object("mine", "the condition to say so", TIMEOUT, |pps| {
            recording(pps)["reason"] == "WorkloadNotFound"
        })
        .await;
    assert_eq!(recording(&pps)["status"], "False");
    // With the object goes the alias under which the policy has found it.
    assert!(is_alias(&pool.pps("web-bfaad516").await.unwrap()));
    cluster
        .pps_api("kept")
        .delete("mine", &DeleteParams::default())
        .await
        .unwrap();
    pool.wait_until_no_object("web-bfaad516").await;
}

pub(crate) async fn records_pods_whose_ordinals_do_not_start_at_0(cluster: &Cluster) {
    let pool = Pool::new(cluster, "ordinals", 3, 1).await;
    pool.object("web", &required("web", &[HOSTNAME])).await;
    let web = pool
        .stateful_set("web", 2)
        .overrides(&json!({"spec": {"ordinals": {"start": 5}}}));
    let before = cluster.run_stateful_set(&web).await.unwrap();
    let states = pool.recorded("web", "web").await;
    assert!(states.keys().eq(["web-5", "web-6"]), "{states:?}");
    assert_eq!(
        homes(&pool.recreate("web", &["web-5", "web-6"]).await),
        homes(&before)
    );
}

/// The procedure of docs/operations.md: the objects and their statuses are there before the
/// workload.
pub(crate) async fn restored_states_serve_the_next_workload_of_the_name(cluster: &Cluster) {
    let pool = Pool::new(cluster, "restored", 2, 1).await;
    let home = "restored-1";
    pool.object("web", &required("web", &[HOSTNAME])).await;
    let state = json!({"nodeName": home, "nodeTopologyLabels": {HOSTNAME: home}});
    let patch = Patch::Merge(json!({"status": {"podStates": {"web-0": state}}}));
    let api = cluster.pps_api("restored");
    api.patch_status("web", &PatchParams::default(), &patch)
        .await
        .unwrap();
    wait_for(
        "the sidecar to say that there is no workload",
        TIMEOUT,
        async || {
            let pps = pool.pps("web").await?;
            let counted = pps.data["status"]["recorded"] == 1;
            Ok(Progress::when(
                counted && recording(&pps)["reason"] == "WorkloadNotFound",
                (),
                pps.data,
            ))
        },
    )
    .await
    .unwrap();
    assert_eq!(pool.states("web").await["web-0"], state);

    pool.load(home).await;
    let web = cluster
        .create_stateful_set(&pool.stateful_set("web", 1))
        .await
        .unwrap();
    assert_eq!(homes(&pool.ready("web", 1).await)["web-0"], home);
    pool.recorded("web", "web").await;
    let uid = web.metadata.uid.unwrap();
    wait_for(
        "the states to belong to the workload",
        TIMEOUT,
        async || {
            let pps = pool.pps("web").await?;
            Ok(Progress::when(
                pps.data["status"]["targetUID"] == uid,
                (),
                pps.data,
            ))
        },
    )
    .await
    .unwrap();
}
