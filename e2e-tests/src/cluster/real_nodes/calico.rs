//! Calico's CNI plugin, in place of `bridge` with `ipam.sh`, where `CALICO_CNI` names it. It runs
//! without Calico's daemons: the routes to the nodes' pools are those to their subnets, and nothing
//! enforces a `NetworkPolicy`.

use std::env;

use anyhow::Result;
use kube::Client;
use serde_json::json;

use super::IP_ANNOTATION;
use crate::{kubewarden::permissive_definition, manifests};

const GROUP: &str = "crd.projectcalico.org";
const KINDS: &str =
    "ClusterInformation IPPool IPReservation IPAMConfig IPAMBlock IPAMHandle BlockAffinity";

/// The plugin's path; empty without it.
pub(super) fn plugin() -> String {
    env::var("CALICO_CNI").unwrap_or_default()
}

/// What keeps the addresses of Pods on real nodes: an item of
/// `kruise.io/persistent-pod-annotations`.
pub fn ip_annotation() -> &'static str {
    if plugin().is_empty() {
        IP_ANNOTATION
    } else {
        "cni.projectcalico.org/ipAddrs=PodIPsJSON"
    }
}

/// Applies what the plugin reads: each node has a pool.
pub(super) async fn configure(client: &Client, subnets: Vec<(String, String)>) -> Result<()> {
    let definitions = KINDS.split(' ').map(|kind| {
        let plural = format!("{}s", kind.to_lowercase()).replace("ys", "ies");
        permissive_definition(GROUP, "v1", kind, &plural, "Cluster")
    });
    let version = format!("{GROUP}/v1");
    let ready = json!({"apiVersion": version, "kind": "ClusterInformation", "metadata": {"name": "default"},
        "spec": {"datastoreReady": true}});
    let pools = subnets.into_iter().map(|(node, subnet)| {
        json!({"apiVersion": version, "kind": "IPPool", "metadata": {"name": node}, "spec": {
            "cidr": subnet, "nodeSelector": format!("kubernetes.io/hostname == '{node}'"),
            "ipipMode": "Never", "vxlanMode": "Never"}})
    });
    let objects: Vec<_> = definitions.chain([ready]).chain(pools).collect();
    manifests::apply(client, &objects).await.map(drop)
}
