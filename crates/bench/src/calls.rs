//! Which host calls are made for which Pod.

use std::sync::Arc;

use anyhow::Result;
use pps_e2e::kubewarden::stand_in::{HostCall, HostCalls, PolicyModule};
use serde_json::json;

use crate::fixture::{Case, Owner, Recorded};
use crate::report::{count, table};

/// A table of the calls that the compiled policy makes.
pub(crate) fn by_kind_of_pod(module: &PolicyModule) -> Result<String> {
    let default = Case::default;
    let by_name = json!({"lookup": "byName"});
    let cases = [
        ("without a controller", Case { owner: Owner::Nobody, ..default() }),
        ("of a ReplicaSet", Case { owner: Owner::ReplicaSet, ..default() }),
        ("of a DaemonSet", Case { owner: Owner::DaemonSet, ..default() }),
        ("of a StatefulSet, PPS under its name", default()),
        ("… that has no state of this Pod yet", Case { recorded: Recorded::NotThisPod, ..default() }),
        ("of a StatefulSet, PPS under another name", Case { recorded: Recorded::ByHand, ..default() }),
        ("of a StatefulSet without PPS", Case { recorded: Recorded::Nothing, ..default() }),
        ("… with `lookup: byName`", Case { recorded: Recorded::Nothing, settings: by_name, ..default() }),
    ];
    let mut rows = Vec::new();
    for (name, case) in cases {
        let host: Arc<dyn HostCalls> = Arc::new(case.host());
        let evaluation = module.evaluate(&case.request(), &case.settings, &host)?;
        let calls = &evaluation.host_calls;
        let received = |call: &HostCall| call.response.as_ref().map_or_else(String::len, Vec::len);
        let names: Vec<&str> = calls.iter().map(|call| call.operation.as_str()).collect();
        rows.push(vec![
            name.to_owned(),
            calls.len().to_string(),
            if names.is_empty() { "none".to_owned() } else { names.join(", ") },
            count(calls.iter().map(|call| call.payload.len()).sum::<usize>()),
            count(calls.iter().map(received).sum::<usize>()),
        ]);
    }
    Ok(table(&["Pod", "calls", "which", "bytes out", "bytes in"], rows))
}
