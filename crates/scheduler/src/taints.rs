//! Cordons and taints.

use std::borrow::Cow;

use serde_json::Value;

use super::fields::{list, text};
use super::read::{Node, Taint};
use super::reason::Exclusion;

const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";
const UNSCHEDULABLE: Taint = Taint {
    key: Cow::Borrowed("node.kubernetes.io/unschedulable"),
    value: Cow::Borrowed(""),
    effect: Cow::Borrowed(NO_SCHEDULE),
};
/// The API server makes every Pod tolerate these for five minutes.
const TOLERATED_FOR_A_WHILE: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const DEFAULT_SECONDS: i64 = 300;

pub(super) fn exclusions(spec: &Value, node: &Node) -> Vec<Exclusion> {
    let mut exclusions = Vec::new();
    if node.unschedulable && !tolerates(spec, &UNSCHEDULABLE) {
        exclusions.push(Exclusion::Cordon);
    }
    exclusions.extend(untolerated(spec, node).map(|taint| {
        let [key, value, effect] = [&taint.key, &taint.value, &taint.effect].map(ToString::to_string);
        Exclusion::Taint { key, value, effect }
    }));
    exclusions
}

fn untolerated<'a>(spec: &'a Value, node: &'a Node) -> impl Iterator<Item = &'a Taint> {
    let keeps_out = |taint: &&Taint| match &*taint.effect {
        NO_SCHEDULE => true,
        NO_EXECUTE => !TOLERATED_FOR_A_WHILE.contains(&&*taint.key),
        _ => false,
    };
    node.taints.iter().filter(keeps_out).filter(|taint| !tolerates(spec, taint))
}

pub(super) fn tolerates_all(spec: &Value, node: &Node) -> bool {
    untolerated(spec, node).next().is_none()
}

/// How long a Pod stays on a Node that has taints with the effect `NoExecute`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stay {
    Forever,
    ForAWhile { seconds: i64 },
    Not { taint: String },
}

/// How long a Pod stays on a Node. Of several tolerations of a taint the first one counts.
pub fn stay(spec: &Value, node: &Value) -> Stay {
    let mut least: Option<i64> = None;
    for taint in list(&node["spec"]["taints"]).map(Taint::of).filter(|taint| taint.effect == NO_EXECUTE) {
        let toleration = tolerations(spec, &taint).next();
        let seconds = match toleration {
            Some(toleration) => toleration["tolerationSeconds"].as_i64(),
            None if TOLERATED_FOR_A_WHILE.contains(&&*taint.key) => Some(DEFAULT_SECONDS),
            None => Some(0),
        };
        match seconds {
            Some(seconds) if seconds <= 0 => return Stay::Not { taint: shown(&taint) },
            Some(seconds) => least = Some(least.map_or(seconds, |least| least.min(seconds))),
            None => {}
        }
    }
    least.map_or(Stay::Forever, |seconds| Stay::ForAWhile { seconds })
}

fn shown(taint: &Taint) -> String {
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    format!("{}{value}:{}", taint.key, taint.effect)
}

fn tolerates(spec: &Value, taint: &Taint) -> bool {
    tolerations(spec, taint).next().is_some()
}

fn tolerations<'a>(spec: &'a Value, taint: &Taint) -> impl Iterator<Item = &'a Value> {
    list(&spec["tolerations"]).filter(|toleration| {
        let matches_if_set = |field: &str, value: &str| {
            let wanted = text(&toleration[field]);
            wanted.is_empty() || wanted == value
        };
        matches_if_set("effect", &taint.effect)
            && matches_if_set("key", &taint.key)
            && match text(&toleration["operator"]) {
                "" | "Equal" => text(&toleration["value"]) == taint.value,
                "Exists" => true,
                _ => false,
            }
    })
}

/// How many taints of the effect `PreferNoSchedule` the Pod does not tolerate.
pub(super) fn avoided(spec: &Value, node: &Node) -> i64 {
    let avoided = node.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
    i64::try_from(avoided.filter(|taint| !tolerates(spec, taint)).count()).unwrap_or(i64::MAX)
}
