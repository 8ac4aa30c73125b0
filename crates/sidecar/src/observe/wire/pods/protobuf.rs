//! Pods in protobuf.

use serde_json::{Value as Json, json};

use super::super::object::item_of;
use super::super::protobuf::{Damaged, Fields, Value, metadata, read};
use super::{
    Interest, Item, Malformed, NamespacedName, Pod, PodCondition, PodFact, PodIp, PodSpec, PodStatus,
    RequiredAffinity, Since, key_of, pod_fact, rest_of,
};

/// Reads a Pod like [`read_pod`](super::read_pod).
pub fn read_pod_message(
    message: &[u8],
    interest: &Interest,
) -> Result<Item<NamespacedName, PodFact>, Malformed> {
    let whole = |pod| pod_fact(&pod, interest);
    item_of(read(message, pod)?, |pod| &pod.metadata, key_of, whole, |rest| rest_of(rest, interest))
}

fn pod(message: &[u8]) -> Result<Pod, Damaged> {
    let mut pod = Pod::default();
    for field in Fields::of(message) {
        match field? {
            (1, value) => pod.metadata = metadata(value.fields()?)?,
            (2, value) => pod.spec = spec(value.fields()?)?,
            (3, value) => pod.status = status(value.fields()?)?,
            _ => {}
        }
    }
    Ok(pod)
}

fn spec(fields: Fields<'_>) -> Result<PodSpec, Damaged> {
    let mut spec = PodSpec::default();
    let (mut affinity, mut gates) = (None, Vec::new());
    for field in fields {
        match field? {
            (10, value) => spec.node_name = value.some_text()?,
            (18, value) => affinity = Some(value),
            // Only whether there is one is of interest.
            (38, _) => gates.resize(1, serde::de::IgnoredAny),
            _ => {}
        }
    }
    // It matters only until the Pod has a node.
    if let (Some(affinity), None) = (affinity, &spec.node_name) {
        spec.affinity = required_affinity(affinity)?;
    }
    spec.scheduling_gates = Some(gates);
    Ok(spec)
}

/// Core has one reader of affinities, which takes JSON.
fn required_affinity(affinity: Value<'_>) -> Result<RequiredAffinity, Damaged> {
    let terms = nested(affinity, 1)?.map_or(Ok(None), |node_affinity| nested(node_affinity, 1))?;
    let terms = terms.map_or(Ok(Vec::new()), |selector| each(selector, 1, term))?;
    if terms.is_empty() {
        return Ok(RequiredAffinity::default());
    }
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    serde_json::from_value(affinity).map_err(|_| Damaged)
}

fn term(term: Value<'_>) -> Result<Json, Damaged> {
    Ok(json!({"matchExpressions": each(term, 1, expression)?}))
}

fn expression(expression: Value<'_>) -> Result<Json, Damaged> {
    let mut json = json!({"key": "", "operator": ""});
    for field in expression.fields()? {
        match field? {
            (1, value) => json["key"] = value.text()?.into(),
            (2, value) => json["operator"] = value.text()?.into(),
            _ => {}
        }
    }
    json["values"] = each(expression, 3, |value| value.text().map(Json::from))?.into();
    Ok(json)
}

/// The field with this number.
fn nested(message: Value<'_>, number: u64) -> Result<Option<Value<'_>>, Damaged> {
    each(message, number, Ok).map(|mut values| values.pop())
}

/// All fields with this number.
fn each<'a, T>(
    message: Value<'a>,
    number: u64,
    read: impl Fn(Value<'a>) -> Result<T, Damaged>,
) -> Result<Vec<T>, Damaged> {
    let mut values = Vec::new();
    for field in message.fields()? {
        let (found, value) = field?;
        if found == number {
            values.push(read(value)?);
        }
    }
    Ok(values)
}

fn status(fields: Fields<'_>) -> Result<PodStatus, Damaged> {
    let mut status = PodStatus::default();
    for field in fields {
        match field? {
            (1, value) => status.phase = value.some_text()?,
            (2, value) => status.conditions.push(condition(value.fields()?)?),
            (6, value) => status.pod_ip = value.some_text()?,
            (12, value) => {
                let mut ip = PodIp::default();
                for field in value.fields()? {
                    if let (1, value) = field? {
                        ip.ip = value.some_text()?;
                    }
                }
                status.pod_ips.push(ip);
            }
            _ => {}
        }
    }
    Ok(status)
}

fn condition(fields: Fields<'_>) -> Result<PodCondition, Damaged> {
    let mut condition = PodCondition::default();
    for field in fields {
        match field? {
            (1, value) => condition.type_ = value.text()?,
            (2, value) => condition.status = value.text()?,
            (4, value) => condition.last_transition_time = value.seconds()?.map(Since::Seconds),
            _ => {}
        }
    }
    Ok(condition)
}
