//! The connection to the API server is cut, slow or stalled.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Result;
use kube::{
    Client, Config,
    api::{DeleteParams, ListParams},
};
use pps_e2e::{
    cluster::{Cluster, SIDECAR, proxy::Proxy},
    sidecar::{Sidecar, SidecarOptions},
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::fleet::Fleet;
use crate::support::{Random, TIMEOUT};

/// A sidecar that reaches the API server through a proxy.
pub(crate) struct Network<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) proxy: Proxy,
    sidecar: Sidecar,
}

impl<'a> Network<'a> {
    /// Starts the proxy and the sidecar.
    pub(crate) async fn new(cluster: &'a Cluster) -> Self {
        let proxy = Proxy::start(cluster.control_plane.url()).await.unwrap();
        let kubeconfig = Some(proxy.kubeconfig(&cluster.control_plane, SIDECAR).unwrap());
        let options = SidecarOptions {
            kubeconfig,
            ..SidecarOptions::default()
        };
        let sidecar = cluster.run_sidecar(options).unwrap();
        sidecar.wait_ready(TIMEOUT).await.unwrap();
        Self {
            cluster,
            proxy,
            sidecar,
        }
    }

    pub(crate) fn sidecar(&self) -> &Sidecar {
        &self.sidecar
    }

    /// Cuts all connections once, so that watches start again.
    pub(crate) async fn interrupt(&self) {
        self.proxy.cut();
        self.wait_until_unready("").await;
        self.proxy.mend();
    }

    /// Waits until the sidecar is not ready and its reason contains that word.
    pub(crate) async fn wait_until_unready(&self, word: &str) {
        wait_for(
            &format!("the sidecar not to be ready: {word}"),
            TIMEOUT,
            async || {
                let (code, body) = self.sidecar().get("/readyz").await?;
                Ok(Progress::when(
                    code == 503 && body.contains(word),
                    (),
                    format!("{code} {body}"),
                ))
            },
        )
        .await
        .unwrap();
    }

    /// How often the sidecar has listed all objects of a resource, according to the audit log.
    /// Lists with `limit=1`, which only check the permission, do not count.
    fn lists(&self, resource: &str) -> usize {
        let log = self.cluster.control_plane.audit_log();
        let events = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lists = events.filter(|event| {
            let uri = event["requestURI"].as_str().unwrap_or_default();
            event["user"]["username"] == SIDECAR
                && event["verb"] == "list"
                && event["objectRef"]["resource"] == resource
                && !uri.split(['?', '&']).any(|part| part == "limit=1")
        });
        lists
            .map(|event| event["auditID"].to_string())
            .collect::<BTreeSet<_>>()
            .len()
    }
}

/// Compacts etcd, so that it forgets all earlier revisions.
async fn compact(cluster: &Cluster) -> Result<()> {
    let now = cluster
        .nodes
        .api()
        .list(&ListParams::default().limit(1))
        .await?
        .metadata
        .resource_version;
    let etcd = Client::try_from(Config::new(cluster.control_plane.etcd_url().parse()?))?;
    let body = json!({"revision": now, "physical": true});
    let request =
        axum::http::Request::post("/v3/kv/compaction").body(serde_json::to_vec(&body)?)?;
    etcd.request::<Value>(request).await?;
    Ok(())
}

/// Watches cannot continue after the compaction, so everything has to be listed again.
pub(crate) async fn relists_after_watches_expire(network: &Network<'_>) {
    let mut random = Random::of("expiry");
    let mut fleet = Fleet::new(network.cluster, "expired", 5, 2).await;
    let kinds = ["pods", "nodes", "statefulsets", "persistentpodstates"];
    let lists = || kinds.map(|kind| network.lists(kind));
    let before = lists();

    network.proxy.cut();
    network.wait_until_unready("pods").await;
    fleet.replace_some(&mut random, 4).await;
    fleet.relabel(&mut random).await;
    // Pods that are not replaced, and a workload that is replaced by another one of its name, with
    // its object.
    fleet.scale("web-b", 1).await;
    fleet.scale("web-c", 3).await;
    fleet.recreate_set("web-d", 1).await;
    fleet.ready().await;
    // The status of one object is deleted, and another object is deleted as a whole.
    fleet.pool.wipe("web-a").await;
    let objects = network.cluster.pps_api("expired");
    objects
        .delete("web-e", &DeleteParams::default())
        .await
        .unwrap();
    compact(network.cluster).await.unwrap();
    fleet.delete_some(&mut random, 2).await;
    fleet.ready().await;

    network.proxy.mend();
    network.sidecar().wait_ready(TIMEOUT).await.unwrap();
    fleet.end_state().await;
    let after = lists();
    for ((kind, before), after) in kinds.iter().zip(before).zip(after) {
        assert!(after > before, "{kind} were not listed again");
        let expired =
            |line: &str| line.contains("the watch failed") && line.contains(&format!("\"{kind}\""));
        let log = network.sidecar().log();
        let is_logged = log
            .lines()
            .filter(|line| expired(line))
            .any(|line| line.contains("too old"));
        assert!(is_logged, "the watch of {kind} did not expire");
    }
}

/// Every connection is half-open: nothing arrives any longer, and nothing says so. The watches
/// notice it within about a minute, the sidecar is not ready then, and it catches up by itself.
pub(crate) async fn notices_silent_connections_and_catches_up(network: &Network<'_>) {
    let mut random = Random::of("silence");
    let mut fleet = Fleet::new(network.cluster, "silent", 2, 2).await;
    let sidecar = network.sidecar();
    let process = sidecar.status().unwrap().pid;
    network.proxy.swallow();
    fleet.replace_some(&mut random, 2).await;
    fleet.scale("web-b", 3).await;
    wait_for(
        "the sidecar not to be ready because of a watch",
        Duration::from_secs(90),
        async || {
            let (code, body) = sidecar.get("/readyz").await?;
            Ok(Progress::when(
                code == 503 && body.contains("watch") && body.contains("pods"),
                (),
                format!("{code} {body}"),
            ))
        },
    )
    .await
    .unwrap();
    assert_eq!(
        sidecar.get("/healthz").await.unwrap().0,
        200,
        "a restart of the sidecar would not help"
    );

    network.proxy.mend();
    sidecar.wait_ready(TIMEOUT).await.unwrap();
    fleet.delete_some(&mut random, 2).await;
    fleet.ready().await;
    fleet.end_state().await;
    assert_eq!(
        sidecar.status().unwrap().pid,
        process,
        "the sidecar must recover without a restart"
    );
}

/// First each response takes a second, then responses stall for longer than the Lease lasts.
pub(crate) async fn tolerates_slow_responses_and_yields_the_lease_when_they_stall(
    network: &Network<'_>,
) {
    let mut random = Random::of("slow");
    let mut fleet = Fleet::new(network.cluster, "slow", 3, 2).await;
    let sidecar = network.sidecar();
    let lost = || sidecar.log().matches("no longer leading").count();
    let before = lost();
    network.proxy.slow_down(Duration::from_secs(1));
    fleet.replace_some(&mut random, 4).await;
    fleet.relabel(&mut random).await;
    fleet.scale("web-b", 1).await;
    fleet.scale("web-c", 3).await;
    fleet.ready().await;
    fleet.end_state().await;
    assert_eq!(lost(), before, "slow responses must not cost the Lease");
    assert!(sidecar.leads().await.unwrap());

    network.proxy.slow_down(Duration::from_secs(12));
    fleet.replace_some(&mut random, 3).await;
    wait_for("the sidecar to give up its Lease", TIMEOUT, async || {
        Ok(Progress::when(
            lost() > before && !sidecar.leads().await?,
            (),
            "it still leads",
        ))
    })
    .await
    .unwrap();
    fleet.delete_some(&mut random, 2).await;
    network.proxy.slow_down(Duration::ZERO);
    fleet.ready().await;
    sidecar.wait_leading(TIMEOUT).await.unwrap();
    fleet.end_state().await;
}
