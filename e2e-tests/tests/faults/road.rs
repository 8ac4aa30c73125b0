//! The road to the API server is cut, slow, or jammed.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Result;
use kube::{
    Client, Config,
    api::{DeleteParams, ListParams},
};
use pps_e2e::{
    cluster::{Cluster, SIDECAR},
    proxy::Proxy,
    sidecar::{Sidecar, SidecarOptions},
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::fleet::Fleet;
use crate::support::{Random, TIMEOUT};

/// A cluster whose sidecar goes to the API server by a road of its own.
pub(crate) struct Road {
    pub(crate) cluster: Cluster,
    pub(crate) proxy: Proxy,
}

impl Road {
    /// Starts the sidecar.
    pub(crate) async fn new(mut cluster: Cluster) -> Self {
        let proxy = Proxy::start(cluster.control_plane.url()).await.unwrap();
        let kubeconfig = Some(proxy.kubeconfig(&cluster.control_plane, SIDECAR).unwrap());
        cluster.start_sidecar(SidecarOptions { kubeconfig, ..SidecarOptions::default() }).await.unwrap();
        Self { cluster, proxy }
    }

    pub(crate) fn sidecar(&self) -> &Sidecar {
        self.cluster.sidecar().unwrap()
    }

    /// Cuts the connections, so that watches have to begin anew.
    pub(crate) async fn interrupt(&self) {
        self.proxy.cut();
        self.unready("").await;
        self.proxy.mend();
    }

    /// Waits until the sidecar is not ready, and says that word.
    pub(crate) async fn unready(&self, word: &str) {
        wait_for(&format!("the sidecar not to be ready: {word}"), TIMEOUT, async || {
            let (code, body) = self.sidecar().get("/readyz").await?;
            Ok(Progress::when(code == 503 && body.contains(word), (), format!("{code} {body}")))
        })
        .await
        .unwrap();
    }

    /// How often the sidecar has listed all objects of a kind, by the audit log. To ask whether a list can be
    /// had it asks for one object; that does not count.
    fn lists(&self, resource: &str) -> usize {
        let log = self.cluster.control_plane.audit_log();
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lists = events.filter(|event| {
            let uri = event["requestURI"].as_str().unwrap_or_default();
            event["user"]["username"] == SIDECAR
                && event["verb"] == "list"
                && event["objectRef"]["resource"] == resource
                && !uri.split(['?', '&']).any(|part| part == "limit=1")
        });
        lists.map(|event| event["auditID"].to_string()).collect::<BTreeSet<_>>().len()
    }
}

/// Makes etcd forget all that was before now.
async fn compact(cluster: &Cluster) -> Result<()> {
    let now = cluster.nodes.api().list(&ListParams::default().limit(1)).await?.metadata.resource_version;
    let etcd = Client::try_from(Config::new(cluster.control_plane.etcd_url().parse()?))?;
    let body = json!({"revision": now, "physical": true});
    let request = axum::http::Request::post("/v3/kv/compaction").body(serde_json::to_vec(&body)?)?;
    etcd.request::<Value>(request).await?;
    Ok(())
}

/// What happened meanwhile no watch can tell any more: everything has to be listed.
pub(crate) async fn watches_expire_while_the_road_is_cut(road: &Road) {
    let mut random = Random::of("expiry");
    let mut fleet = Fleet::new(&road.cluster, "expired", 5, 3).await;
    let kinds = ["pods", "nodes", "statefulsets", "persistentpodstates"];
    let lists = || kinds.map(|kind| road.lists(kind));
    let before = lists();

    road.proxy.cut();
    road.unready("pods").await;
    fleet.replace_some(&mut random, 6).await;
    fleet.relabel(&mut random).await;
    // Pods that go for good, and a workload that is another one under its name, with its object.
    fleet.scale("web-b", 1).await;
    fleet.scale("web-c", 4).await;
    fleet.make_anew("web-d", 2).await;
    fleet.ready().await;
    // An object that others have changed, and one that is gone.
    fleet.pool.wipe("web-a").await;
    let objects = road.cluster.pps_api("expired");
    objects.delete("web-e", &DeleteParams::default()).await.unwrap();
    compact(&road.cluster).await.unwrap();
    fleet.delete_some(&mut random, 2).await;
    fleet.ready().await;

    road.proxy.mend();
    road.sidecar().wait_ready(TIMEOUT).await.unwrap();
    fleet.end_state().await;
    let after = lists();
    for ((kind, before), after) in kinds.iter().zip(before).zip(after) {
        assert!(after > before, "{kind} were not listed anew");
        let expired = |line: &str| line.contains("the watch failed") && line.contains(&format!("\"{kind}\""));
        let log = road.sidecar().log();
        let told = log.lines().filter(|line| expired(line)).any(|line| line.contains("too old"));
        assert!(told, "the watch of {kind} did not expire");
    }
}

/// Each answer takes a second; then none comes for longer than a Lease lasts.
pub(crate) async fn a_slow_api_server_and_one_that_stalls(road: &Road) {
    let mut random = Random::of("slow");
    let mut fleet = Fleet::new(&road.cluster, "slow", 4, 3).await;
    let sidecar = road.sidecar();
    let lost = || sidecar.log().matches("no longer leading").count();
    let before = lost();
    road.proxy.slow_down(Duration::from_secs(1));
    for _ in 0..2 {
        fleet.replace_some(&mut random, 6).await;
    }
    fleet.relabel(&mut random).await;
    fleet.scale("web-b", 2).await;
    fleet.scale("web-c", 4).await;
    fleet.ready().await;
    fleet.end_state().await;
    assert_eq!(lost(), before, "a slow answer is one");
    assert!(sidecar.leads().await.unwrap());

    road.proxy.slow_down(Duration::from_secs(12));
    fleet.replace_some(&mut random, 6).await;
    wait_for("it to give up its Lease", TIMEOUT, async || {
        Ok(Progress::when(lost() > before && !sidecar.leads().await?, (), "it leads"))
    })
    .await
    .unwrap();
    fleet.delete_some(&mut random, 3).await;
    road.proxy.slow_down(Duration::ZERO);
    fleet.ready().await;
    sidecar.wait_leading(TIMEOUT).await.unwrap();
    fleet.end_state().await;
}
