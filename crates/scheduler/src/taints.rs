//! Cordons and taints.

use serde_json::Value;

use super::fields::{list, text};
use super::read::{Node, Taint};
use super::reason::Exclusion;

const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// The API server makes every Pod tolerate these for five minutes.
const TOLERATED_FOR_A_WHILE: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

pub(super) fn exclusions(spec: &Value, node: &Node) -> Vec<Exclusion> {
    let cordon = Taint {
        key: UNSCHEDULABLE.into(),
        effect: NO_SCHEDULE.into(),
        ..Taint::default()
    };
    let is_cordoned = node.unschedulable && !tolerates(spec, &cordon);
    let cordon = is_cordoned.then_some(Exclusion::Cordon);
    cordon
        .into_iter()
        .chain(untolerated(spec, node).cloned().map(Exclusion::Taint))
        .collect()
}

fn untolerated<'a>(spec: &'a Value, node: &'a Node) -> impl Iterator<Item = &'a Taint> {
    node.taints
        .iter()
        .filter(|taint| keeps_out(taint) && !tolerates(spec, taint))
}

/// Whether Pods that do not tolerate the taint are kept off the Node.
fn keeps_out(taint: &Taint) -> bool {
    match taint.effect.as_str() {
        NO_SCHEDULE => true,
        NO_EXECUTE => !TOLERATED_FOR_A_WHILE.contains(&taint.key.as_str()),
        _ => false,
    }
}

pub(super) fn tolerates_all(spec: &Value, node: &Node) -> bool {
    untolerated(spec, node).next().is_none()
}

/// The taint for which a Node evicts a Pod at once. Of several tolerations of a taint the first one
/// counts.
pub fn evicting_taint(spec: &Value, node: &Value) -> Option<Taint> {
    let mut taints = list(&node["spec"]["taints"])
        .map(Taint::of)
        .filter(|taint| taint.effect == NO_EXECUTE);
    taints.find(|taint| match tolerations(spec, taint).next() {
        Some(toleration) => toleration["tolerationSeconds"]
            .as_i64()
            .is_some_and(|seconds| seconds <= 0),
        None => !TOLERATED_FOR_A_WHILE.contains(&taint.key.as_str()),
    })
}

fn tolerates(spec: &Value, taint: &Taint) -> bool {
    tolerations(spec, taint).next().is_some()
}

fn tolerations<'a>(spec: &'a Value, taint: &Taint) -> impl Iterator<Item = &'a Value> {
    list(&spec["tolerations"]).filter(|toleration| is_toleration_of(toleration, taint))
}

fn is_toleration_of(toleration: &Value, taint: &Taint) -> bool {
    let is_value_tolerated = match text(&toleration["operator"]) {
        "" | "Equal" => text(&toleration["value"]) == taint.value,
        "Exists" => true,
        _ => false,
    };
    is_value_tolerated
        && is_empty_or(text(&toleration["effect"]), &taint.effect)
        && is_empty_or(text(&toleration["key"]), &taint.key)
}

fn is_empty_or(wanted: &str, value: &str) -> bool {
    wanted.is_empty() || wanted == value
}

/// How many taints of the effect `PreferNoSchedule` the Pod does not tolerate.
pub(super) fn avoided(spec: &Value, node: &Node) -> i64 {
    let avoided = node
        .taints
        .iter()
        .filter(|taint| taint.effect == "PreferNoSchedule");
    i64::try_from(avoided.filter(|taint| !tolerates(spec, taint)).count()).unwrap_or(i64::MAX)
}
