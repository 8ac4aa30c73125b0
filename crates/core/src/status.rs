//! From what is recorded and what should be to the merge patch that leads from one to the other.
//!
//! A patch names only what changes: its size follows the change, not the object.

use serde_json::{Map, Value, json};

use crate::Reason;
use crate::pps::{Condition, PodState};

/// The type of the one condition that a PPS has.
pub const RECORDING: &str = "Recording";

/// The merge patch (RFC 7396) of one entry of `podStates`: nothing if they are equal, `null` if the
/// entry goes.
pub fn entry_patch(before: Option<&PodState>, after: Option<&PodState>) -> Option<Value> {
    if before == after {
        return None;
    }
    let Some(after) = after else { return Some(Value::Null) };
    let before = before.cloned().unwrap_or_default();
    let mut patch = Map::new();
    if before.node_name != after.node_name {
        patch.insert("nodeName".into(), after.node_name.clone().into());
    }
    let maps = [
        ("nodeTopologyLabels", &before.node_topology_labels, &after.node_topology_labels),
        ("annotations", &before.annotations, &after.annotations),
    ];
    for (field, before, after) in maps {
        if after.is_empty() && !before.is_empty() {
            patch.insert(field.into(), Value::Null);
            continue;
        }
        let mut changes = Map::new();
        for key in before.keys().filter(|key| !after.contains_key(*key)) {
            changes.insert(key.clone(), Value::Null);
        }
        for (key, value) in after.iter().filter(|(key, value)| before.get(*key) != Some(value)) {
            changes.insert(key.clone(), value.clone().into());
        }
        if !changes.is_empty() {
            patch.insert(field.into(), changes.into());
        }
    }
    Some(patch.into())
}

/// What the condition of type Recording should say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Whether states are being recorded as the spec asks for.
    pub ok: bool,
    /// The cause in one word.
    pub reason: Reason,
    /// The cause in a sentence, with what to do about it.
    pub message: String,
}

/// The list of conditions with this one in it, or nothing if it is there already. Conditions of other
/// types stay as they are. `now` is RFC 3339; it is taken only when the status turns.
pub fn with_recording(
    conditions: &[Condition],
    recording: &Recording,
    generation: Option<i64>,
    now: &str,
) -> Option<Vec<Condition>> {
    let status = if recording.ok { "True" } else { "False" };
    let before = conditions.iter().find(|condition| condition.type_ == RECORDING);
    let since =
        before.filter(|before| before.status == status).map(|before| before.last_transition_time.as_str());
    let condition = Condition {
        type_: RECORDING.into(),
        status: status.into(),
        reason: recording.reason.as_str().into(),
        message: recording.message.clone(),
        last_transition_time: since.unwrap_or(now).into(),
        observed_generation: generation,
    };
    if before == Some(&condition) {
        return None;
    }
    let others = conditions.iter().filter(|condition| condition.type_ != RECORDING).cloned();
    Some(others.chain([condition]).collect())
}

/// The body of a status patch that applies only to the object that it was made for: one with this UID
/// and resource version. On any other the API server answers with a conflict.
pub fn guarded_patch(uid: &str, resource_version: &str, status: &Map<String, Value>) -> Value {
    json!({"metadata": {"uid": uid, "resourceVersion": resource_version}, "status": status})
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_map;
    use proptest::prelude::*;

    use super::*;

    fn state() -> impl Strategy<Value = PodState> {
        let map = || btree_map("[a-c]", "[x-y]", 0..3);
        ("[m-n]", map(), map()).prop_map(|(node_name, node_topology_labels, annotations)| PodState {
            node_name,
            node_topology_labels,
            annotations,
        })
    }

    proptest! {
        #[test]
        fn a_patch_leads_from_one_state_to_the_other(
            before in proptest::option::of(state()),
            after in proptest::option::of(state()),
        ) {
            let mut states = json!({});
            if let Some(before) = &before {
                states["p"] = serde_json::to_value(before).unwrap();
            }
            match entry_patch(before.as_ref(), after.as_ref()) {
                None => prop_assert_eq!(before, after),
                Some(patch) => {
                    json_patch::merge(&mut states, &json!({"p": patch}));
                    let merged: Option<PodState> =
                        states.get("p").map(|state| serde_json::from_value(state.clone()).unwrap());
                    prop_assert_eq!(merged, after);
                }
            }
        }
    }

    #[test]
    fn the_time_moves_only_when_the_status_turns() {
        let foreign = Condition { type_: "Theirs".into(), ..Condition::default() };
        let good = Recording { ok: true, reason: Reason::AllRecorded, message: "fine".into() };
        let first = with_recording(std::slice::from_ref(&foreign), &good, Some(1), "t1").unwrap();
        assert_eq!((&first[0], first[1].last_transition_time.as_str()), (&foreign, "t1"));
        assert_eq!(with_recording(&first, &good, Some(1), "t2"), None);

        let other_words = Recording { message: "still fine".into(), ..good };
        assert_eq!(
            with_recording(&first, &other_words, Some(1), "t2").unwrap()[1].last_transition_time,
            "t1"
        );

        let bad = Recording { ok: false, reason: Reason::WorkloadNotFound, message: "gone".into() };
        let turned = with_recording(&first, &bad, Some(1), "t3").unwrap();
        assert_eq!((turned.len(), turned[1].last_transition_time.as_str()), (2, "t3"));
    }
}
