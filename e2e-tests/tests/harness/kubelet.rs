//! Pods start, get addresses, and end.

use std::{collections::BTreeMap, net::Ipv4Addr, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use pps_e2e::{
    cluster::{
        Cluster, PodInfo, StatefulSetSpec,
        kubelet::{IP_ANNOTATION, NO_RESERVATION},
    },
    wait::{Progress, wait_for},
};
use serde_json::json;

const TIMEOUT: Duration = Duration::from_mins(2);

fn in_subnet(ip: &str, subnet: &str) -> bool {
    let (base, bits) = subnet.split_once('/').unwrap();
    let mask = u32::MAX << (32 - bits.parse::<u32>().unwrap());
    let number = |text: &str| u32::from(text.parse::<Ipv4Addr>().unwrap());
    number(ip) & mask == number(base) & mask
}

/// Runs a Pod on that node until it is Ready.
async fn run(cluster: &Cluster, name: &str, node: &str, annotations: &[(&str, &str)]) -> PodInfo {
    let annotations: BTreeMap<_, _> = annotations.iter().copied().collect();
    let pod = json!({"metadata": {"name": name, "annotations": annotations},
        "spec": {"nodeName": node, "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "none"}]}});
    let pods: Api<Pod> = cluster.pods_api("default");
    pods.create(
        &PostParams::default(),
        &serde_json::from_value(pod).unwrap(),
    )
    .await
    .unwrap();
    wait_for(&format!("{name} to be Ready"), TIMEOUT, async || {
        let pod = PodInfo::from(&pods.get(name).await?);
        Ok(Progress::when(pod.ready, pod.clone(), format!("{pod:?}")))
    })
    .await
    .unwrap()
}

async fn remove(cluster: &Cluster, name: &str) {
    let pods: Api<Pod> = cluster.pods_api("default");
    pods.delete(name, &DeleteParams::default()).await.unwrap();
    wait_for(&format!("{name} to be gone"), TIMEOUT, async || {
        let found = pods.get_opt(name).await?;
        Ok(Progress::when(found.is_none(), (), "still there"))
    })
    .await
    .unwrap();
}

pub(super) async fn assigns_the_requested_address_only_if_it_is_free(cluster: &Cluster) {
    let first = run(cluster, "db", "node-0", &[]).await;
    let ip = first.ip.clone().unwrap();
    assert!(in_subnet(&ip, &cluster.kubelet.subnet("node-0")), "{ip}");
    assert_eq!(first.annotations[IP_ANNOTATION], ip);

    // The same address if requested on the same node, else another one.
    remove(cluster, "db").await;
    let asked = run(cluster, "db", "node-0", &[(IP_ANNOTATION, &ip)]).await;
    assert_eq!(asked.ip.as_ref(), Some(&ip));
    remove(cluster, "db").await;
    let fresh = run(cluster, "db", "node-0", &[]).await;
    assert_ne!(fresh.ip.as_ref(), Some(&ip));

    // If the address is taken or on another node: a fresh one, which the annotation then names.
    let taken = fresh.ip.unwrap();
    let second = run(cluster, "thief", "node-0", &[(IP_ANNOTATION, &taken)]).await;
    assert_ne!(second.ip.as_ref(), Some(&taken));
    assert_eq!(Some(&second.annotations[IP_ANNOTATION]), second.ip.as_ref());
    let moved = run(cluster, "moved", "node-1", &[(IP_ANNOTATION, &ip)]).await;
    let moved_ip = moved.ip.unwrap();
    assert!(
        in_subnet(&moved_ip, &cluster.kubelet.subnet("node-1")),
        "{moved_ip}"
    );
    assert_eq!(moved.annotations[IP_ANNOTATION], moved_ip);

    // A Pod that opts out gets no annotation.
    let plain = run(
        cluster,
        "plain",
        "node-0",
        &[(NO_RESERVATION, ""), (IP_ANNOTATION, &ip)],
    )
    .await;
    assert_ne!(plain.ip.as_ref(), Some(&ip));
    assert_eq!(plain.annotations[IP_ANNOTATION], ip);
}

pub(super) async fn holds_pods_and_fails_nodes(cluster: &Cluster) {
    cluster.kubelet.hold("default", "web-1");
    cluster
        .create_stateful_set(&StatefulSetSpec::new("default", "web", 2))
        .await
        .unwrap();
    let what = "web-0 to be Ready and web-1 to run";
    let pods = cluster
        .wait_for_pods("default", "web", what, TIMEOUT, |pods| {
            pods.len() == 2 && pods["web-0"].ready && pods["web-1"].ip.is_some()
        })
        .await
        .unwrap();
    assert!(!pods["web-1"].ready);
    cluster.kubelet.release("default", "web-1");
    let pods = cluster
        .wait_ready("default", "web", 2, TIMEOUT)
        .await
        .unwrap();
    let node = pods["web-0"].node.clone().unwrap();

    // A Pod on a failed node keeps terminating.
    cluster.kubelet.stop_node(&node);
    cluster
        .delete_pods("default", "web", &["web-0"])
        .await
        .unwrap();
    let wait = cluster.wait_for_pods(
        "default",
        "web",
        "web-0 to be gone",
        Duration::from_secs(2),
        |pods| pods.get("web-0").is_none_or(|pod| !pod.terminating),
    );
    let error = wait.await.unwrap_err().to_string();
    assert!(
        error.contains(&format!("web-0 terminating on {node}")),
        "{error}"
    );
    cluster.kubelet.start_node(&node);
    cluster
        .wait_ready("default", "web", 2, TIMEOUT)
        .await
        .unwrap();
}
