//! Pods in protobuf.

use pps_core::limits::{MAX_KEPT_AFFINITY_BYTES, MAX_KEPT_AFFINITY_ITEMS};

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

/// How much has been read of an affinity. Whoever may create a Pod chooses its size.
#[derive(Default)]
struct Kept {
    items: usize,
    bytes: usize,
}

impl Kept {
    /// Whether the affinity exceeds its limits already, so that no more of it needs to be read.
    fn exceeds_limits(&self) -> bool {
        self.items > MAX_KEPT_AFFINITY_ITEMS || self.bytes > MAX_KEPT_AFFINITY_BYTES
    }

    fn add(&mut self, bytes: usize) {
        self.items += 1;
        self.bytes += bytes;
    }
}

/// The required part of an affinity, or so much of it that it exceeds its limits.
fn required_affinity(affinity: Value<'_>) -> Result<RequiredAffinity, Damaged> {
    let (mut terms, mut kept) = (Vec::new(), Kept::default());
    let required = nested(affinity, 1)?.map_or(Ok(None), |node_affinity| nested(node_affinity, 1))?;
    for field in required.map_or(Ok(Fields::of(&[])), Value::fields)? {
        if kept.exceeds_limits() {
            break;
        }
        if let (1, value) = field? {
            kept.add(0);
            terms.push(term(value, &mut kept)?);
        }
    }
    Ok(RequiredAffinity::new(terms))
}

fn term(term: Value<'_>, kept: &mut Kept) -> Result<Vec<(String, Vec<String>)>, Damaged> {
    let mut expressions = Vec::new();
    for field in term.fields()? {
        if kept.exceeds_limits() {
            break;
        }
        if let (1, value) = field?
            && nested(value, 2)?.map_or(Ok(&[][..]), Value::bytes)? == b"In"
        {
            expressions.push(expression(value, kept)?);
        }
    }
    Ok(expressions)
}

fn expression(expression: Value<'_>, kept: &mut Kept) -> Result<(String, Vec<String>), Damaged> {
    let key = nested(expression, 1)?.map_or(Ok(String::new()), Value::text)?;
    kept.add(key.len());
    let mut values = Vec::new();
    for field in expression.fields()? {
        if kept.exceeds_limits() {
            break;
        }
        if let (3, value) = field? {
            let value = value.text()?;
            kept.add(value.len());
            values.push(value);
        }
    }
    Ok((key, values))
}

/// The last field with this number.
fn nested(message: Value<'_>, number: u64) -> Result<Option<Value<'_>>, Damaged> {
    let mut last = None;
    for field in message.fields()? {
        let (found, value) = field?;
        if found == number {
            last = Some(value);
        }
    }
    Ok(last)
}

fn status(fields: Fields<'_>) -> Result<PodStatus, Damaged> {
    let mut status = PodStatus::default();
    for field in fields {
        match field? {
            (1, value) => status.phase = value.some_text()?,
            (2, value) => {
                let condition = condition(value.fields()?)?;
                let is_used = matches!(
                    (&*condition.type_, &*condition.status),
                    ("Ready", "True") | ("PodScheduled", "False")
                );
                let is_same = |kept: &PodCondition| kept.type_ == condition.type_;
                // The first one counts, as in JSON.
                if is_used && !status.conditions.iter().any(is_same) {
                    status.conditions.push(condition);
                }
            }
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
