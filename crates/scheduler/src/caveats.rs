//! What a Pod asks for that is not simulated.

use serde_json::Value;

use super::fields::list;
use super::reason::Caveat;
use super::volumes::CLAIM;

/// Volumes that exist on every Node.
const PLAIN_VOLUMES: [&str; 7] = [
    "name",
    "configMap",
    "downwardAPI",
    "emptyDir",
    "hostPath",
    "projected",
    "secret",
];

const FIELDS: [&str; 3] = ["resourceClaims", "runtimeClassName", "schedulingGates"];

/// What a real scheduler looks at besides what is simulated. `knows_claims` is whether the Pod's
/// claims are looked at.
pub(super) fn of(spec: &Value, knows_claims: bool) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    if names_other_scheduler(spec) {
        caveats.push(Caveat::OtherScheduler);
    }
    if !list(&spec["volumes"]).all(|volume| is_plain(volume, knows_claims)) {
        caveats.push(Caveat::Volumes);
    }
    if has_host_port(spec) {
        caveats.push(Caveat::Field("hostPort"));
    }
    let fields = FIELDS.into_iter().filter(|field| is_set(&spec[*field]));
    caveats.extend(fields.map(Caveat::Field));
    caveats
}

fn is_set(value: &Value) -> bool {
    value
        .as_array()
        .map_or(!value.is_null(), |items| !items.is_empty())
}

fn names_other_scheduler(spec: &Value) -> bool {
    let name = spec["schedulerName"].as_str();
    name.is_some_and(|name| !matches!(name, "" | "default-scheduler"))
}

fn is_plain(volume: &Value, knows_claims: bool) -> bool {
    let fields = volume.as_object();
    fields
        .into_iter()
        .flat_map(|fields| fields.keys())
        .all(|field| PLAIN_VOLUMES.contains(&field.as_str()) || (knows_claims && field == CLAIM))
}

/// Whether a container has a port of the node. With `hostNetwork` the API server makes each port
/// one.
fn has_host_port(spec: &Value) -> bool {
    list(&spec["containers"])
        .chain(list(&spec["initContainers"]))
        .flat_map(|container| list(&container["ports"]))
        .any(|port| spec["hostNetwork"] == true || is_set(&port["hostPort"]))
}
