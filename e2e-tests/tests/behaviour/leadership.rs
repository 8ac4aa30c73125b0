//! Two sidecars: a leader and a standby.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, api::DeleteParams};
use pps_e2e::{
    cluster::{Cluster, SIDECAR},
    manifests,
    repository::repository_file,
    sidecar::{NAMESPACE, Sidecar, SidecarOptions},
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::permissions::writes;
use crate::support::{
    HOSTNAME, IP_ANNOTATION, Pool, SOON, TIMEOUT, WHILE, ZONE, homes, note, required, spec_for,
};

/// The time within which a standby takes over from a leader that was killed.
const TAKEOVER: Duration = Duration::from_secs(15);
/// The time within which it takes over from one that gives the Lease back.
const HANDOVER: Duration = Duration::from_secs(4);
/// The second sidecar runs as its own user, so that the audit log distinguishes the two.
pub(crate) const SECOND: &str = "pps-sidecar-second";
const PODS: [&str; 4] = ["web-0", "web-1", "web-2", "web-3"];
const KEY: &str = "example.io/round";

/// Starts a second sidecar, which is ready as a standby.
async fn standby(cluster: &Cluster) -> Sidecar {
    let options = SidecarOptions {
        name: SECOND.to_owned(),
        user: SECOND.to_owned(),
        ..SidecarOptions::default()
    };
    let second = cluster.run_sidecar(options).unwrap();
    second.wait_ready(TIMEOUT).await.unwrap();
    second
}

/// The identity of the Lease's holder, if any.
async fn holder(cluster: &Cluster) -> Option<String> {
    let api: Api<Lease> = Api::namespaced(cluster.client(), NAMESPACE);
    api.get("pps-sidecar")
        .await
        .unwrap()
        .spec
        .unwrap()
        .holder_identity
}

/// Waits until `leader` leads and asserts that this took less than `within`.
async fn assert_takeover(what: &str, leader: &Sidecar, since: Instant, within: Duration) {
    leader.wait_leading(TIMEOUT).await.unwrap();
    let took = since.elapsed();
    note(&format!("{what}: takeover within {took:.1?}"));
    assert!(took < within, "{what} took {took:?}");
}

/// Stops the second sidecar and waits until the first one leads.
async fn restore_first_leader(cluster: &Cluster, second: &Sidecar) {
    if second.status().unwrap().running {
        second.terminate(SOON).await.unwrap();
    }
    let first = cluster.sidecar().unwrap();
    if !first.status().unwrap().running {
        first.start_again().unwrap();
    }
    first.wait_ready(TIMEOUT).await.unwrap();
    first.wait_leading(TIMEOUT).await.unwrap();
}

pub(crate) async fn standby_takes_over_when_the_leader_is_killed(cluster: &Cluster) {
    let pool = Pool::new(cluster, "crash", 6, 2).await;
    let first = cluster.sidecar().unwrap();
    first.wait_leading(TIMEOUT).await.unwrap();
    let second = standby(cluster).await;
    let web = pool
        .stateful_set("web", 4)
        .persistent(ZONE, HOSTNAME, IP_ANNOTATION);
    cluster.run_stateful_set(&web).await.unwrap();
    pool.recorded("web", "web").await;
    assert!(first.leads().await.unwrap() && !second.leads().await.unwrap());
    assert!(holder(cluster).await.unwrap().starts_with("pps-sidecar_"));
    assert_eq!(
        writes(cluster, SECOND),
        Vec::<Value>::new(),
        "a standby must write nothing"
    );
    assert_eq!(
        second.get("/readyz").await.unwrap().0,
        200,
        "a standby must be ready"
    );

    first.kill().await.unwrap();
    let killed = Instant::now();
    // Meanwhile Pods become Ready, one changes, and a workload is annotated.
    pool.scale("web", 6).await;
    pool.annotate_pod("web-0", &json!({IP_ANNOTATION: "10.99.0.1"}))
        .await;
    let late = pool
        .stateful_set("late", 2)
        .persistent(ZONE, HOSTNAME, IP_ANNOTATION);
    cluster.create_stateful_set(&late).await.unwrap();
    pool.ready("web", 6).await;
    assert!(
        !second.leads().await.unwrap() && pool.states("web").await.len() == 4,
        "there must be no leader yet"
    );
    assert_takeover("after a kill", &second, killed, TAKEOVER).await;
    pool.recorded_within("web", "web", SOON).await;
    assert_eq!(
        pool.states("web").await["web-0"]["annotations"][IP_ANNOTATION],
        "10.99.0.1"
    );
    pool.recorded("late", "late").await;
    assert!(holder(cluster).await.unwrap().starts_with(SECOND));

    // The killed sidecar restarts as a standby.
    first.start_again().unwrap();
    first.wait_ready(TIMEOUT).await.unwrap();
    tokio::time::sleep(WHILE).await;
    assert!(second.leads().await.unwrap() && !first.leads().await.unwrap());
    restore_first_leader(cluster, &second).await;
}

pub(crate) async fn terminating_leader_hands_over_at_once(cluster: &Cluster) {
    let pool = Pool::new(cluster, "handover", 4, 2).await;
    let first = cluster.sidecar().unwrap();
    first.wait_leading(TIMEOUT).await.unwrap();
    let second = standby(cluster).await;
    let web = pool
        .stateful_set("web", 3)
        .persistent(ZONE, HOSTNAME, IP_ANNOTATION);
    cluster.run_stateful_set(&web).await.unwrap();
    pool.recorded("web", "web").await;

    // A standby that terminates does not affect the leader.
    second.terminate(SOON).await.unwrap();
    assert!(holder(cluster).await.unwrap().starts_with("pps-sidecar_"));
    second.start_again().unwrap();
    second.wait_ready(TIMEOUT).await.unwrap();

    let end = first.terminate(SOON).await.unwrap();
    let ended = Instant::now();
    assert_eq!(end.code, Some(0), "{end:?}");
    assert_takeover("after SIGTERM", &second, ended, HANDOVER).await;
    let before = pool.ready("web", 3).await;
    pool.load_all(homes(&before).values()).await;
    let after = pool.recreate("web", &["web-1"]).await;
    assert_eq!(homes(&after), homes(&before));
    pool.scale("web", 4).await;
    pool.ready("web", 4).await;
    pool.recorded("web", "web").await;

    // If the Lease is deleted, the leader makes it again and stays leader.
    let api: Api<Lease> = Api::namespaced(cluster.client(), NAMESPACE);
    api.delete("pps-sidecar", &DeleteParams::default())
        .await
        .unwrap();
    wait_for("the Lease to be made again", SOON, async || {
        let lease = api.get_opt("pps-sidecar").await?;
        Ok(Progress::when(lease.is_some(), (), "no Lease"))
    })
    .await
    .unwrap();
    assert!(holder(cluster).await.unwrap().starts_with(SECOND));
    restore_first_leader(cluster, &second).await;
}

pub(crate) async fn resumed_leader_writes_nothing_stale(cluster: &Cluster) {
    let pool = Pool::new(cluster, "frozen", 6, 2).await;
    let first = cluster.sidecar().unwrap();
    first.wait_leading(TIMEOUT).await.unwrap();
    let second = standby(cluster).await;
    let spec = json!({"requiredPersistentTopology": {"nodeTopologyKeys": [HOSTNAME]},
        "persistentPodAnnotations": [{"key": IP_ANNOTATION}, {"key": KEY}]});
    pool.object("web", &spec_for("web", &spec)).await;
    pool.object("moving", &required("moving", &[ZONE])).await;
    for workload in ["web", "moving"] {
        cluster
            .create_stateful_set(&pool.stateful_set(workload, 4))
            .await
            .unwrap();
    }
    for workload in ["web", "moving"] {
        pool.ready(workload, 4).await;
        pool.recorded(workload, workload).await;
    }

    // Freeze it while it batches changes, which it would write as soon as it continues.
    let annotate = async |value: &str| {
        let value = json!({KEY: value});
        let all = PODS.map(|pod| pool.annotate_pod(pod, &value));
        futures::future::join_all(all).await;
    };
    let changes = async {
        for round in 0_u32.. {
            annotate(&round.to_string()).await;
        }
    };
    // A request on its way would arrive later, so freeze it right after a write: the next one is a
    // window away.
    let after_a_write = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = writes(cluster, SIDECAR).len();
        while writes(cluster, SIDECAR).len() == before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = changes => {}
        written = tokio::time::timeout(TIMEOUT, after_a_write) => written.expect("the leader writes"),
    }
    first.pause().unwrap();
    let frozen = Instant::now();
    // Its knowledge becomes stale.
    annotate("after").await;
    cluster
        .delete_stateful_set("frozen", "moving", false)
        .await
        .unwrap();
    assert_takeover("after SIGSTOP", &second, frozen, TAKEOVER).await;
    pool.recorded("web", "web").await;
    pool.wait_for_entries("moving", &[]).await;
    cluster
        .run_stateful_set(&pool.stateful_set("moving", 2))
        .await
        .unwrap();
    pool.recorded("moving", "moving").await;
    let before = writes(cluster, SIDECAR).len();
    let state = async || (pool.states("web").await, pool.states("moving").await);
    let states = state().await;

    first.resume().unwrap();
    wait_for("it to notice that it lost the Lease", SOON, async || {
        let log = first.log();
        Ok(Progress::when(
            log.matches("no longer leading").count() == 1,
            (),
            "it does not log that",
        ))
    })
    .await
    .unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(second.leads().await.unwrap() && !first.leads().await.unwrap());
    let after = writes(cluster, SIDECAR);
    assert_eq!(after.len(), before, "{:?}", &after[before..]);
    assert_eq!(state().await, states);
    first.wait_ready(TIMEOUT).await.unwrap();
    assert_eq!(writes(cluster, SIDECAR).len(), before);

    // It continues as a standby and can lead again.
    second.terminate(SOON).await.unwrap();
    let ended = Instant::now();
    pool.annotate_pod("web-0", &json!({KEY: "later"})).await;
    // It was frozen a moment ago, so only `terminating_leader_hands_over_at_once` asks for haste.
    assert_takeover("after SIGTERM", first, ended, TAKEOVER).await;
    pool.recorded("web", "web").await;
    pool.recorded("moving", "moving").await;
    restore_first_leader(cluster, &second).await;
}

/// Causes refused requests, so it runs after the check of the audit log.
pub(crate) async fn reports_missing_lease_permissions_and_writes_nothing(cluster: &Cluster) {
    let pool = Pool::new(cluster, "lease", 3, 1).await;
    let first = cluster.sidecar().unwrap();
    let role: Vec<Value> = manifests::read(&repository_file("deploy/base/rbac.yaml")).unwrap();
    let role = role.into_iter().find(|one| one["kind"] == "Role").unwrap();
    let mut nothing = role.clone();
    nothing["rules"] = json!([]);
    cluster.apply_objects(&[nothing]).await.unwrap();

    // A leader that loses the permission loses the Lease.
    wait_for("the leader to become a standby", TIMEOUT, async || {
        Ok(Progress::when(!first.leads().await?, (), "it still leads"))
    })
    .await
    .unwrap();
    let (code, body) = first.get("/readyz").await.unwrap();
    let words = format!("not allowed to use the Lease {NAMESPACE}/pps-sidecar");
    assert!(
        code == 503 && body.contains(&words) && body.contains("grant"),
        "{code} {body}"
    );
    assert_eq!(first.get("/healthz").await.unwrap().0, 200);
    assert!(first.log().contains(&words), "{}", first.log());

    let before = writes(cluster, SIDECAR).len();
    let web = pool
        .stateful_set("web", 2)
        .persistent("", HOSTNAME, IP_ANNOTATION);
    cluster.run_stateful_set(&web).await.unwrap();
    tokio::time::sleep(WHILE).await;
    assert_eq!(writes(cluster, SIDECAR).len(), before);
    assert!(pool.pps("web").await.is_err());

    // A sidecar without leader election needs no Lease.
    first.terminate(SOON).await.unwrap();
    let alone = SidecarOptions {
        name: "alone".to_owned(),
        // Its behaviour must not depend on the log level.
        args: vec![
            "--leader-election=false".to_owned(),
            "--log=error".to_owned(),
        ],
        ..SidecarOptions::default()
    };
    let alone = cluster.run_sidecar(alone).unwrap();
    alone.wait_ready(TIMEOUT).await.unwrap();
    assert!(alone.leads().await.unwrap());
    pool.recorded("web", "web").await;
    assert_eq!(alone.terminate(SOON).await.unwrap().code, Some(0));

    first.start_again().unwrap();
    wait_for("it to report the missing permission", SOON, async || {
        let (code, body) = first.get("/readyz").await?;
        Ok(Progress::when(
            code == 503 && body.contains(&words),
            (),
            body,
        ))
    })
    .await
    .unwrap();
    assert!(!first.leads().await.unwrap());

    // Once the permission is granted, it leads without a restart.
    cluster.apply_objects(&[role]).await.unwrap();
    first.wait_leading(TIMEOUT).await.unwrap();
    first.wait_ready(SOON).await.unwrap();
    pool.scale("web", 3).await;
    pool.ready("web", 3).await;
    pool.recorded("web", "web").await;
}
