//! Pods that wait for a node that no longer exists.

use pps_core::INJECTED_ANNOTATION;
use pps_core::pps::NodeDeletionPolicy;
use pps_core::required_affinity::RequiredAffinity;

use crate::cluster::{Cluster, Pod};
use crate::result::EventKind;

/// Evicts the Pods that no node can take because they require the values of a deleted node, and whose state has been
/// dropped: their successors do not require them. Without the sidecar's flag it says that they stay Pending.
pub(crate) fn evict(cluster: &mut Cluster) {
    let hopeless: Vec<String> = cluster
        .pods
        .waiting()
        .filter(|(name, pod)| is_evicted(cluster, name, pod).unwrap_or(false))
        .map(|(name, _)| name.clone())
        .collect();
    for name in &hopeless {
        let object = format!("Pod/{name}");
        if cluster.evict_pending_pods {
            cluster.remove_pod(name);
            let text = "is evicted: it was Pending for a node that does not exist (nodeDeletionPolicy: Forget; the sidecar runs with --evict-pending-pods)";
            cluster.tell(EventKind::Evicted, object, text);
        } else {
            let text = "stays Pending for a node that does not exist, and its controller does not re-create it by itself: delete it, or start the sidecar with --evict-pending-pods (PodNotEvicted)";
            cluster.tell(EventKind::Warning, object, text);
        }
    }
}

fn is_evicted(cluster: &Cluster, name: &str, pod: &Pod) -> Option<bool> {
    let pps = cluster.pps.get(pod.object["metadata"]["annotations"][INJECTED_ANNOTATION].as_str()?)?;
    let workload = cluster.workloads.get(&pod.workload)?;
    let spec = pps.spec.as_ref().ok()?;
    let affinity: RequiredAffinity = serde_json::from_value(pod.object["spec"]["affinity"].clone()).ok()?;
    let waits = pod.node().is_none() && !affinity.is_empty() && !affinity.exceeds_limits();
    let is_forgotten = spec.node_deletion() == NodeDeletionPolicy::Forget && !pps.states.contains_key(name);
    if !waits || !is_forgotten || !pps.target.is_same_workload(&workload.target) {
        return None;
    }
    let keys: Vec<&str> = spec.required_keys().collect();
    Some(cluster.existing_nodes().all(|(_, node)| affinity.exclude(&keys, |key| node.label(key))))
}
