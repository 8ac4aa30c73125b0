//! The sidecar's Deployment, running as its manifest says.

use std::{collections::BTreeSet, fs};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use pps_e2e::{
    cluster::{Cluster, real_nodes::ip_annotation},
    http,
    install::{Installation, SIDECAR},
    sidecar::NAMESPACE,
    wait::{Progress, wait_for},
};

use crate::support::{HOSTNAME, Pool, TIMEOUT, ZONE, serving};

/// Both Pods run the pushed image as the manifest says.
pub(crate) async fn both_replicas_match_the_deployment(
    cluster: &Cluster,
    installation: &Installation,
) {
    let pods = installation.sidecars(cluster).await.unwrap();
    assert_eq!(
        pods.len(),
        2,
        "{:?}",
        pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    );
    let (_, digest) = installation.published.sidecar.split_once('@').unwrap();
    let mut leaders = 0.0;
    for pod in &pods {
        let name = pod.name_any();
        let image = pod.spec.as_ref().unwrap().containers[0]
            .image
            .clone()
            .unwrap();
        assert!(image.ends_with(digest), "{image} is not {digest}");
        let status = pod.status.as_ref().unwrap();
        assert_eq!(
            status.container_statuses.as_ref().unwrap()[0].restart_count,
            0,
            "{name}"
        );
        let address = format!("{}:8080", status.pod_ip.as_ref().unwrap());
        assert_eq!(
            http::get(&address, "/healthz").await.unwrap().0,
            200,
            "{name}"
        );
        let (_, metrics) = http::get(&address, "/metrics").await.unwrap();
        leaders += http::metric(&metrics, "persistentpodstate_leader").unwrap();

        let processes = cluster
            .real_nodes()
            .unwrap()
            .processes(&pod.uid().unwrap())
            .unwrap();
        let [process] = processes[..] else {
            panic!("{name} has the processes {processes:?}")
        };
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        assert!(
            status.contains("Uid:\t65532\t65532\t65532\t65532"),
            "{status}"
        );
        assert!(
            status.contains("Gid:\t65532\t65532\t65532\t65532"),
            "{status}"
        );
        assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
        assert!(status.contains("Seccomp:\t2"), "{status}");
    }
    assert!((leaders - 1.0).abs() < f64::EPSILON, "{leaders} Pods lead");
}

/// Waits until another Pod leads. Returns its name.
pub(crate) async fn other_leader(
    cluster: &Cluster,
    installation: &Installation,
    old: &str,
) -> String {
    wait_for("another replica to lead", TIMEOUT, async || {
        let leader = installation.leader(cluster).await?;
        let other = leader.clone().filter(|name| name != old);
        Ok(Progress::when(
            other.is_some(),
            other.unwrap_or_default(),
            format!("{leader:?}"),
        ))
    })
    .await
    .unwrap()
}

/// `kubectl rollout restart` replaces both Pods. Afterwards everything is still recorded.
pub(crate) async fn keeps_states_during_a_rollout(cluster: &Cluster, installation: &Installation) {
    let pool = Pool::on_real_nodes(cluster, "restarted").await;
    let web = serving(pool.namespace, "web", 3).persistent(ZONE, HOSTNAME, ip_annotation());
    cluster.run_stateful_set(&web).await.unwrap();
    let recorded = pool.recorded("web", "web").await;
    let before = uids(&installation.sidecars(cluster).await.unwrap());

    let kubectl = async |args: &[&str]| cluster.control_plane.kubectl(args).await.unwrap();
    kubectl(&["-n", NAMESPACE, "rollout", "restart", "deployment", SIDECAR]).await;
    kubectl(&[
        "-n",
        NAMESPACE,
        "rollout",
        "status",
        "deployment",
        SIDECAR,
        "--timeout=50s",
    ])
    .await;
    installation.wait_available(cluster).await.unwrap();
    // `rollout status` does not wait for the end of the old Pods.
    wait_for("both Pods to be replaced", TIMEOUT, async || {
        let after = uids(&installation.sidecars(cluster).await?);
        Ok(Progress::when(
            before.is_disjoint(&after),
            (),
            format!("{before:?} {after:?}"),
        ))
    })
    .await
    .unwrap();
    assert_eq!(pool.states("web").await, recorded);
    pool.recreate("web", &["web-0", "web-1", "web-2"]).await;
    assert_eq!(pool.recorded("web", "web").await, recorded);
}

fn uids(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().filter_map(ResourceExt::uid).collect()
}

/// The replicas are on different nodes, and in different zones.
pub(crate) async fn replicas_run_on_different_nodes_and_zones(
    cluster: &Cluster,
    installation: &Installation,
) {
    let pods = wait_for("the former Pods to be gone", TIMEOUT, async || {
        let pods = installation.sidecars(cluster).await?;
        Ok(Progress::when(pods.len() == 2, pods.clone(), pods.len()))
    });
    let pods = pods.await.unwrap();
    let (mut nodes, mut zones) = (BTreeSet::new(), BTreeSet::new());
    for pod in pods {
        let node = pod.spec.and_then(|spec| spec.node_name).unwrap();
        zones.insert(cluster.nodes.api().get(&node).await.unwrap().labels()[ZONE].clone());
        nodes.insert(node);
    }
    assert_eq!((nodes.len(), zones.len()), (2, 2), "{nodes:?} {zones:?}");
}
