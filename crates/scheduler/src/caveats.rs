//! What a Pod asks for that is not simulated.

use serde_json::Value;

use super::fields::list;
use super::reason::Caveat;
use super::volumes::CLAIM;

/// Volumes that exist on every Node.
const PLAIN_VOLUMES: [&str; 7] =
    ["name", "configMap", "downwardAPI", "emptyDir", "hostPath", "projected", "secret"];

const FIELDS: [&str; 5] = ["resourceClaims", "resources", "overhead", "runtimeClassName", "schedulingGates"];

/// What a real scheduler looks at besides what is simulated. `knows_claims` is whether the Pod's claims are
/// looked at.
pub(super) fn of(spec: &Value, knows_claims: bool) -> Vec<Caveat> {
    let is_set = |value: &Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    let other = spec["schedulerName"].as_str().is_some_and(|name| !matches!(name, "" | "default-scheduler"));
    let is_plain = |volume: &Value| {
        let mut fields = volume.as_object().into_iter().flatten().map(|(field, _)| field.as_str());
        fields.all(|field| PLAIN_VOLUMES.contains(&field) || (knows_claims && field == CLAIM))
    };
    let has_host_port = |container: &Value| list(&container["ports"]).any(|port| is_set(&port["hostPort"]));
    let is_special = |term: &Value| {
        let labelled = term["namespaceSelector"].as_object().is_some_and(|selector| !selector.is_empty());
        labelled || is_set(&term["matchLabelKeys"]) || is_set(&term["mismatchLabelKeys"])
    };
    let caveats = [
        (other, Caveat::OtherScheduler),
        (!list(&spec["volumes"]).all(is_plain), Caveat::Volumes),
        (list(&spec["containers"]).any(has_host_port), Caveat::Field("hostPort")),
        (terms_between_pods(spec).any(is_special), Caveat::PodAffinityFields),
    ];
    let fields = FIELDS.map(|field| (is_set(&spec[field]), Caveat::Field(field)));
    caveats.into_iter().chain(fields).filter_map(|(applies, caveat)| applies.then_some(caveat)).collect()
}

fn terms_between_pods(spec: &Value) -> impl Iterator<Item = &Value> {
    ["podAffinity", "podAntiAffinity"].into_iter().flat_map(|kind| {
        let affinity = &spec["affinity"][kind];
        let preferred = list(&affinity["preferredDuringSchedulingIgnoredDuringExecution"]);
        list(&affinity["requiredDuringSchedulingIgnoredDuringExecution"])
            .chain(preferred.map(|one| &one["podAffinityTerm"]))
    })
}

/// Whether a real scheduler may evict other Pods to make room for this one.
pub(super) fn may_preempt(spec: &Value) -> bool {
    let has_class = spec["priorityClassName"].as_str().is_some_and(|name| !name.is_empty());
    let has_priority = spec["priority"].as_i64().is_some_and(|priority| priority > 0);
    (has_class || has_priority) && spec["preemptionPolicy"] != "Never"
}
