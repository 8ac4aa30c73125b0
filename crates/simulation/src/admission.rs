//! Sends objects through the policy, as the API server and PolicyServer do.

use persistent_pod_state_policy::cluster::{Cluster as PolicyView, GoverningPps};
use persistent_pod_state_policy::{ValidationResponse, admit};
use pps_core::TargetReference;
use pps_core::pps::PLURAL;
use pps_scheduler::fields::text;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Home};
use crate::host::ClusterHost;
use crate::result::Refusal;

#[derive(Debug, Default)]
pub(crate) struct AdmittedPod {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
    pub(crate) recorded: Option<Home>,
    /// The PPS from which the policy has injected something; none if it has changed nothing.
    pub(crate) injected: Option<String>,
}

pub(crate) fn admit_pod(
    cluster: &Cluster,
    name: &str,
    pod: &Value,
    owner: &TargetReference,
) -> Result<AdmittedPod, Refusal> {
    if !cluster.with_pps {
        return Ok(AdmittedPod {
            object: pod.clone(),
            ..AdmittedPod::default()
        });
    }
    let host = host(cluster);
    let response = answer(cluster, &host, "pods", pod, None)?;
    let governing = governing(cluster, owner, name);
    let recorded =
        governing.and_then(|governing| Some((governing.name, governing.spec, governing.state?)));
    let mutated = response.mutated();
    let injected = mutated
        .as_ref()
        .and(recorded.as_ref())
        .map(|(name, ..)| name.clone());
    let home = recorded.map(|(_, spec, state)| {
        let (mut labels, mut annotations) = (
            state.node_topology_labels.clone(),
            state.annotations.clone(),
        );
        labels.retain(|key, _| spec.topology_keys().any(|named| named == key));
        annotations.retain(|key, _| {
            spec.persistent_pod_annotations
                .iter()
                .any(|one| one.key == *key)
        });
        Home {
            state,
            labels,
            annotations,
        }
    });
    Ok(AdmittedPod {
        object: mutated.unwrap_or_else(|| pod.clone()),
        warnings: response.warnings.unwrap_or_default(),
        recorded: home,
        injected,
    })
}

/// The PPS that the policy finds for a workload, with the recorded state of a Pod.
pub(crate) fn governing(
    cluster: &Cluster,
    workload: &TargetReference,
    pod: &str,
) -> Option<GoverningPps> {
    PolicyView::new(&host(cluster), &cluster.namespace)
        .find(workload, pod)
        .ok()
        .flatten()
}

/// Sends the creation of a PersistentPodState, or its update, through the policy. Returns the
/// policy's warnings.
pub(crate) fn admit_pps(
    cluster: &Cluster,
    object: &Value,
    before: Option<&Value>,
) -> Result<Vec<String>, Refusal> {
    if !cluster.with_pps {
        return Ok(Vec::new());
    }
    Ok(answer(cluster, &host(cluster), PLURAL, object, before)?
        .warnings
        .unwrap_or_default())
}

fn host(cluster: &Cluster) -> ClusterHost<'_> {
    ClusterHost {
        objects: cluster.pps.values().map(|pps| &pps.object).collect(),
    }
}

fn answer(
    cluster: &Cluster,
    host: &ClusterHost<'_>,
    plural: &str,
    object: &Value,
    before: Option<&Value>,
) -> Result<ValidationResponse, Refusal> {
    let (group, version) = text(&object["apiVersion"])
        .split_once('/')
        .unwrap_or(("", "v1"));
    let request = json!({
        "uid": "00000000-0000-4000-8000-000000000000",
        "kind": {"group": group, "version": version, "kind": object["kind"]},
        "resource": {"group": group, "version": version, "resource": plural},
        "operation": if before.is_some() { "UPDATE" } else { "CREATE" },
        "namespace": cluster.namespace,
        "name": object["metadata"]["name"],
        "userInfo": {"username": "simulation"},
        "object": object,
        "oldObject": before,
    });
    let payload = json!({"request": request, "settings": cluster.settings}).to_string();
    let response = admit(payload.as_bytes(), host);
    if response.accepted {
        return Ok(response);
    }
    Err(Refusal {
        code: response.code.unwrap_or(403),
        message: response.message.unwrap_or_default(),
    })
}
