//! Sends objects through the policy, as the API server and PolicyServer do.

use pps_admission::{
    Decision, Found, GoverningPps, Kind, Namespace, Request, Settings, UserInfo, Verdict, admit,
};
use pps_core::TargetReference;
use pps_core::pps::group_of;
use pps_scheduler::fields::text;
use serde_json::Value;

use crate::cluster::{Cluster, RecordedPlace};
use crate::host::ClusterHost;
use crate::result::Refusal;

#[derive(Debug, Default)]
pub(crate) struct AdmittedPod {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
    pub(crate) recorded: Option<RecordedPlace>,
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
    let decision = answer(cluster, &host, pod, None)?;
    let governing = governing(cluster, owner, name).filter(|governing| governing.state.is_some());
    let mutated = match decision.verdict {
        Verdict::Mutate(object) => Some(object),
        _ => None,
    };
    Ok(AdmittedPod {
        injected: mutated
            .as_ref()
            .and(governing.as_ref())
            .map(|governing| governing.name.clone()),
        object: mutated.unwrap_or_else(|| pod.clone()),
        warnings: decision.warnings,
        recorded: governing
            .and_then(|governing| Some(RecordedPlace::of(governing.state?, &governing.spec))),
    })
}

/// The PPS that the policy finds for a workload, with the recorded state of a Pod.
pub(crate) fn governing(
    cluster: &Cluster,
    workload: &TargetReference,
    pod: &str,
) -> Option<GoverningPps> {
    match Namespace::new(&host(cluster), &cluster.namespace).find(workload, pod) {
        Ok(Found::Governing(governing)) => Some(*governing),
        _ => None,
    }
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
    Ok(answer(cluster, &host(cluster), object, before)?.warnings)
}

fn host(cluster: &Cluster) -> ClusterHost<'_> {
    ClusterHost {
        objects: cluster.pps.values().map(|pps| &pps.object).collect(),
    }
}

fn answer(
    cluster: &Cluster,
    host: &ClusterHost<'_>,
    object: &Value,
    before: Option<&Value>,
) -> Result<Decision, Refusal> {
    let request = Request {
        kind: Kind {
            group: group_of(text(&object["apiVersion"])).to_owned(),
            kind: text(&object["kind"]).to_owned(),
        },
        operation: if before.is_some() { "UPDATE" } else { "CREATE" }.to_owned(),
        namespace: cluster.namespace.clone(),
        user_info: UserInfo {
            username: "simulation".to_owned(),
        },
        object: object.clone(),
        old_object: before.cloned().unwrap_or_default(),
        ..Request::default()
    };
    let settings = Settings::read(&cluster.settings);
    let decision = admit(request, settings.as_ref(), host);
    match decision.verdict {
        Verdict::Reject(rejection) => Err(Refusal {
            code: rejection.code(),
            message: rejection.to_string(),
        }),
        _ => Ok(decision),
    }
}
