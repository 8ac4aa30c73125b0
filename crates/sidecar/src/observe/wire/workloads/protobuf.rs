//! StatefulSets in protobuf.

use super::super::object::item_of;
use super::super::protobuf::{Damaged, Fields, Value, metadata, read};
use super::{
    Item, Malformed, NamespacedName, StatefulSet, StatefulSetOrdinals, WorkloadFact, key_of, rest_of,
    workload_fact,
};

/// Reads a StatefulSet like [`read_stateful_set`](super::read_stateful_set).
pub fn read_stateful_set_message(message: &[u8]) -> Result<Item<NamespacedName, WorkloadFact>, Malformed> {
    let whole = |workload| Some(workload_fact(&workload));
    item_of(read(message, stateful_set)?, |workload| &workload.metadata, key_of, whole, rest_of)
}

fn stateful_set(message: &[u8]) -> Result<StatefulSet, Damaged> {
    let mut workload = StatefulSet::default();
    for field in Fields::of(message) {
        match field? {
            (1, value) => workload.metadata = metadata(value.fields()?)?,
            (2, value) => {
                for field in value.fields()? {
                    match field? {
                        (1, value) => workload.spec.replicas = Some(int32(value)?),
                        (11, value) => workload.spec.ordinals = Some(ordinals(value.fields()?)?),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Ok(workload)
}

fn ordinals(fields: Fields<'_>) -> Result<StatefulSetOrdinals, Damaged> {
    let mut ordinals = StatefulSetOrdinals::default();
    for field in fields {
        if let (1, value) = field? {
            ordinals.start = Some(int32(value)?);
        }
    }
    Ok(ordinals)
}

fn int32(value: Value<'_>) -> Result<i32, Damaged> {
    i32::try_from(value.signed()?).map_err(|_| Damaged)
}
