//! Which host calls the policy makes for which Pod.

use std::sync::Arc;

use anyhow::Result;
use pps_e2e::kubewarden::stand_in::{HostCall, HostCalls, PolicyModule};

use crate::fixture::{Case, Owner, Recording};
use crate::report::{count, table};

/// A table of the host calls of the compiled policy.
pub(crate) fn count_by_pod_kind(module: &PolicyModule) -> Result<String> {
    let default = Case::default;
    let cases = [
        ("without a controller", Case { owner: Owner::None, ..default() }),
        ("of a ReplicaSet", Case { owner: Owner::ReplicaSet, ..default() }),
        ("of a DaemonSet", Case { owner: Owner::DaemonSet, ..default() }),
        ("of a StatefulSet, PPS of the same name", default()),
        ("… without a state of this Pod", Case { recording: Recording::OtherPods, ..default() }),
        ("of a StatefulSet, PPS of another name", Case { recording: Recording::OtherName, ..default() }),
        ("of a StatefulSet without a PPS", Case { recording: Recording::None, ..default() }),
    ];
    let mut rows = Vec::new();
    for (name, case) in cases {
        let host: Arc<dyn HostCalls> = Arc::new(case.host());
        let evaluation = module.evaluate(&case.request(), &case.settings, &host)?;
        let calls = &evaluation.host_calls;
        let response_len = |call: &HostCall| call.response.as_ref().map_or_else(String::len, Vec::len);
        let names: Vec<&str> = calls.iter().map(|call| call.operation.as_str()).collect();
        rows.push(vec![
            name.to_owned(),
            calls.len().to_string(),
            if names.is_empty() { "none".to_owned() } else { names.join(", ") },
            count(calls.iter().map(|call| call.payload.len()).sum::<usize>()),
            count(calls.iter().map(response_len).sum::<usize>()),
        ]);
    }
    Ok(table(&["Pod", "calls", "operations", "bytes sent", "bytes received"], rows))
}
