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
    let is_set = |value: &Value| {
        value
            .as_array()
            .map_or(!value.is_null(), |items| !items.is_empty())
    };
    let other = spec["schedulerName"]
        .as_str()
        .is_some_and(|name| !matches!(name, "" | "default-scheduler"));
    let is_plain = |volume: &Value| {
        let mut fields = volume
            .as_object()
            .into_iter()
            .flatten()
            .map(|(field, _)| field.as_str());
        fields.all(|field| PLAIN_VOLUMES.contains(&field) || (knows_claims && field == CLAIM))
    };
    // With hostNetwork the API server makes each port of a container one of the node.
    let is_of_node = |port: &Value| spec["hostNetwork"] == true || is_set(&port["hostPort"]);
    let mut containers = list(&spec["containers"]).chain(list(&spec["initContainers"]));
    let caveats = [
        (other, Caveat::OtherScheduler),
        (!list(&spec["volumes"]).all(is_plain), Caveat::Volumes),
        (
            containers.any(|container| list(&container["ports"]).any(is_of_node)),
            Caveat::Field("hostPort"),
        ),
    ];
    let fields = FIELDS.map(|field| (is_set(&spec[field]), Caveat::Field(field)));
    caveats
        .into_iter()
        .chain(fields)
        .filter_map(|(applies, caveat)| applies.then_some(caveat))
        .collect()
}
