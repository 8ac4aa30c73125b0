//! The sidecar is down for a while.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{
        DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent,
        WatchParams,
    },
};
use pps_e2e::{
    cluster::{Cluster, PodInfo},
    sidecar::NAMESPACE,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use crate::support::{
    HOSTNAME, IP_ANNOTATION, Pool, SOON, TIMEOUT, WHILE, ZONE, homes, list, note, recording,
    spec_for,
};

async fn restart(cluster: &Cluster) {
    // A killed process would hold it for a while.
    let leases: Api<Lease> = Api::namespaced(cluster.client(), NAMESPACE);
    let _ = leases.delete("pps-sidecar", &DeleteParams::default()).await;
    let sidecar = cluster.sidecar().unwrap();
    sidecar.start_again().unwrap();
    sidecar.wait_ready(TIMEOUT).await.unwrap();
    sidecar.wait_leading(TIMEOUT).await.unwrap();
}

pub(crate) async fn clears_states_of_a_workload_recreated_while_down(cluster: &Cluster) {
    let pool = Pool::new(cluster, "recreated", 3, 1).await;
    let sidecar = cluster.sidecar().unwrap();
    for (workload, retention) in [("dropped", "WhenDeleted"), ("retained", "Retain")] {
        let more = json!({"persistentPodStateRetentionPolicy": retention,
            "requiredPersistentTopology": {"nodeTopologyKeys": [HOSTNAME]}});
        pool.object(workload, &spec_for(workload, &more)).await;
        cluster
            .create_stateful_set(&pool.stateful_set(workload, 3))
            .await
            .unwrap();
    }
    let mut states = Vec::new();
    for workload in ["dropped", "retained"] {
        pool.ready(workload, 3).await;
        states.push(pool.recorded(workload, workload).await);
    }

    sidecar.kill().await.unwrap();
    for workload in ["dropped", "retained"] {
        cluster
            .delete_stateful_set("recreated", workload, false)
            .await
            .unwrap();
        cluster
            .wait_for_pods(
                "recreated",
                workload,
                "no Pods",
                TIMEOUT,
                BTreeMap::is_empty,
            )
            .await
            .unwrap();
        cluster
            .run_stateful_set(&pool.stateful_set(workload, 1))
            .await
            .unwrap();
    }
    assert_eq!(
        pool.states("dropped").await,
        states[0],
        "no sidecar was running to clear them"
    );
    restart(cluster).await;

    // The old entries belong to another workload. Only the entry of a new Pod stays.
    pool.wait_for_entries("dropped", &["dropped-0"]).await;
    pool.recorded("dropped", "dropped").await;
    let now = cluster
        .stateful_sets("recreated")
        .get("retained")
        .await
        .unwrap()
        .metadata
        .uid;
    pool.wait_for_object("retained", "the new workload to be known", TIMEOUT, |pps| {
        pps.data["status"]["targetUID"] == json!(now)
    })
    .await;
    tokio::time::sleep(WHILE).await;
    assert_eq!(
        pool.states("retained").await,
        states[1],
        "Retain keeps the states for the next workload of that name"
    );
    let home = states[1]["retained-2"]["nodeName"].clone();
    pool.load(home.as_str().unwrap()).await;
    pool.scale("retained", 3).await;
    assert_eq!(
        json!(homes(&pool.ready("retained", 3).await)["retained-2"]),
        home
    );
}

/// The condition of another client.
const THEIRS: &str = "Theirs";

/// Another client counts in its condition, until a write of the sidecar has conflicted with one of
/// its own. Meanwhile the sidecar changes its own condition in the same list: a node loses its zone
/// and gets it back.
async fn count_until_the_sidecar_conflicts(pool: &Pool<'_>) {
    let cluster = pool.cluster;
    let sidecar = cluster.sidecar().unwrap();
    let metric = "persistentpodstate_writes_total{resource=\"persistentpodstates/status\",result=\"conflict\"}";
    let conflicts = async || sidecar.metric(metric).await.unwrap().unwrap_or_default();
    let before = conflicts().await;
    let api = cluster.pps_api(pool.namespace);
    let home = homes(&pool.ready("web", 4).await)["web-0"].clone();
    let zone = pool.zone(&home).await;
    let mut written = 0_u32;
    let count = async {
        while conflicts().await <= before {
            for label in [None, Some(zone.as_str())] {
                cluster.nodes.label(&home, ZONE, label).await.unwrap();
                // The sidecar writes within this time.
                let end = tokio::time::Instant::now() + Duration::from_millis(500);
                while tokio::time::Instant::now() < end {
                    // A list must be written as a whole, so read it first.
                    let mut pps = api.get("web").await.unwrap();
                    let mut conditions: Vec<Value> =
                        list(&pps.data["status"]["conditions"]).cloned().collect();
                    let theirs = conditions.iter_mut().find(|one| one["type"] == THEIRS);
                    let theirs = theirs.expect("the sidecar keeps the condition of others");
                    assert_eq!(
                        theirs["message"],
                        written.to_string(),
                        "an old condition has returned"
                    );
                    theirs["message"] = (written + 1).to_string().into();
                    pps.data["status"]["conditions"] = json!(conditions);
                    match api
                        .replace_status("web", &PostParams::default(), &pps)
                        .await
                    {
                        Ok(_) => written += 1,
                        Err(kube::Error::Api(status)) if status.code == 409 => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        }
    };
    tokio::time::timeout(TIMEOUT, count)
        .await
        .expect("a write of the sidecar conflicts");
    note(&format!(
        "another client has written {written} times until a write of the sidecar conflicted"
    ));
}

pub(crate) async fn preserves_concurrent_writes_of_others(cluster: &Cluster) {
    let pool = Pool::new(cluster, "others", 3, 1).await;
    let more = json!({"persistentPodStateRetentionPolicy": "WhenDeleted",
        "requiredPersistentTopology": {"nodeTopologyKeys": [HOSTNAME, ZONE]}});
    pool.object("web", &spec_for("web", &more)).await;
    cluster
        .create_stateful_set(&pool.stateful_set("web", 6))
        .await
        .unwrap();
    // Write while the sidecar writes.
    let api = cluster.pps_api("others");
    let params = PatchParams {
        field_manager: Some("someone-else".to_owned()),
        ..PatchParams::default()
    };
    for number in 0..10 {
        let label = Patch::Merge(
            json!({"metadata": {"annotations": {"example.io/number": number.to_string()}}}),
        );
        api.patch("web", &params, &label).await.unwrap();
        let entry = Patch::Merge(
            json!({"status": {"podStates": {"web-9": {"nodeName": format!("node-{number}")}}}}),
        );
        api.patch_status("web", &params, &entry).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    wait_for("the foreign condition to be stored", TIMEOUT, async || {
        // A list must be written as a whole, so read it first.
        let mut pps = api.get("web").await?;
        let mut conditions: Vec<_> = list(&pps.data["status"]["conditions"]).cloned().collect();
        conditions.push(
            json!({"type": THEIRS, "status": "True", "reason": "Counting", "message": "0",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}),
        );
        pps.data["status"]["conditions"] = json!(conditions);
        api.replace_status("web", &PostParams::default(), &pps)
            .await?;
        Ok(Progress::Done(()))
    })
    .await
    .unwrap();

    pool.ready("web", 6).await;
    // A Pod that is Ready only for a moment need not be recorded.
    pool.wait_for_entries(
        "web",
        &[
            "web-0", "web-1", "web-2", "web-3", "web-4", "web-5", "web-9",
        ],
    )
    .await;
    pool.scale("web", 4).await;
    let done = |pps: &DynamicObject| {
        let status = &pps.data["status"];
        status["desired"] == 4 && status["recorded"] == 7 && recording(pps)["status"] == "True"
    };
    let all = "the entries of six Pods and the foreign one";
    pool.wait_for_object("web", all, TIMEOUT, done).await;
    count_until_the_sidecar_conflicts(&pool).await;
    let pps = pool.wait_for_object("web", all, TIMEOUT, done).await;
    assert_eq!(
        pps.data["status"]["podStates"]["web-9"],
        json!({"nodeName": "node-9"})
    );
    assert!(
        list(&pps.data["status"]["conditions"]).any(|one| one["type"] == THEIRS),
        "{}",
        pps.data["status"]
    );
    assert_eq!(pps.metadata.annotations.unwrap()["example.io/number"], "9");

    // A deleted status is written again.
    let wipe = Patch::Merge(json!({"status": null}));
    api.patch_status("web", &params, &wipe).await.unwrap();
    pool.recorded_within("web", "web", SOON).await;
}

/// Follows all Pods from this version on, until so many of the namespace are Ready. Returns these,
/// and how many events there were.
async fn first_ready(
    cluster: &Cluster,
    namespace: &str,
    version: &str,
    count: usize,
) -> (BTreeSet<String>, u32) {
    let pods: Api<Pod> = Api::all(cluster.client());
    let mut watch = pods
        .watch(&WatchParams::default(), version)
        .await
        .unwrap()
        .boxed();
    let (mut ready, mut events) = (BTreeSet::new(), 0);
    while ready.len() < count {
        match watch.try_next().await.unwrap().expect("the watch goes on") {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                events += 1;
                if pod.metadata.namespace.as_deref() == Some(namespace) && PodInfo::from(&pod).ready
                {
                    ready.insert(pod.name_any());
                }
            }
            WatchEvent::Deleted(_) => events += 1,
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(error) => panic!("{error:?}"),
        }
    }
    (ready, events)
}

pub(crate) async fn writes_pending_changes_before_it_terminates(cluster: &Cluster) {
    const KEY: &str = "example.io/round";
    let pool = Pool::new(cluster, "end", 4, 2).await;
    let sidecar = cluster.sidecar().unwrap();
    let spec = json!({"requiredPersistentTopology": {"nodeTopologyKeys": [HOSTNAME]},
        "persistentPodAnnotations": [{"key": IP_ANNOTATION}, {"key": KEY}]});
    pool.object("web", &spec_for("web", &spec)).await;
    let received = async || {
        let events = sidecar
            .metric("persistentpodstate_watch_events_total{resource=\"pods\"}")
            .await?;
        anyhow::Ok(events.unwrap_or_default())
    };

    // Terminate it while Pods start, once it has received what is known here of eight that are
    // Ready.
    let now = cluster
        .pods_api("end")
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version;
    let before = received().await.unwrap();
    cluster
        .create_stateful_set(&pool.stateful_set("web", 20))
        .await
        .unwrap();
    let (ready, events) =
        tokio::time::timeout(TIMEOUT, first_ready(cluster, "end", &now.unwrap(), 8))
            .await
            .unwrap();
    wait_for(
        "the sidecar to receive the same events",
        TIMEOUT,
        async || {
            let now = received().await? - before;
            Ok(Progress::when(
                now >= f64::from(events),
                (),
                format!("{now} of {events} events"),
            ))
        },
    )
    .await
    .unwrap();
    let end = sidecar.terminate(SOON).await.unwrap();
    assert_eq!((end.running, end.code), (false, Some(0)), "{end:?}");
    let states = pool.states("web").await;
    let lost: Vec<_> = ready
        .iter()
        .filter(|pod| !states.contains_key(*pod))
        .collect();
    assert!(
        lost.is_empty(),
        "Ready before the sidecar ended but not recorded: {lost:?}"
    );
    let pods = pool.ready("web", 20).await;
    assert_eq!(pool.states("web").await, states, "no sidecar is running");

    // Terminate it while it batches many changes.
    for round in ["1", "2"] {
        restart(cluster).await;
        pool.recorded("web", "web").await;
        let before = received().await.unwrap();
        let changes = json!({KEY: round});
        let all = pods.keys().map(|pod| pool.annotate_pod(pod, &changes));
        futures::future::join_all(all).await;
        wait_for(
            "the sidecar to receive an event for each Pod",
            TIMEOUT,
            async || {
                let events = received().await? - before;
                Ok(Progress::when(
                    events >= 20.0,
                    (),
                    format!("{events} events"),
                ))
            },
        )
        .await
        .unwrap();
        let end = sidecar.terminate(SOON).await.unwrap();
        assert_eq!((end.running, end.code), (false, Some(0)), "{end:?}");
        let states = pool.states("web").await;
        let lost: Vec<_> = states
            .iter()
            .filter(|(_, state)| state["annotations"][KEY] != round)
            .collect();
        assert!(
            lost.is_empty() && states.len() == 20,
            "not written in round {round}: {lost:?}"
        );
    }

    restart(cluster).await;
    pool.recorded("web", "web").await;
    // Do not slow down the scenarios that follow.
    pool.scale("web", 0).await;
    pool.wait_for_entries("web", &[]).await;
}
