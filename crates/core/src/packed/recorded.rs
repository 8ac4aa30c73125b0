//! The recorded state of one Pod in the JSON of an object, in either form.
//!
//! A reader needs only a part of the object for it: what [`field_masks`] name, and the metadata.

use serde_json::{Map, Value};

use super::bucket::Bucket;
use super::claim::PackedClaim;
use super::damaged::Damaged;
use super::read::find;
use super::version::check_version;
use crate::json::{list, read};
use crate::pps::PodState;

/// The fields that [`recorded_state`] needs for a Pod, as paths of field masks.
pub fn field_masks(pod: &str) -> [String; 3] {
    // A mask cannot name a field that has a dot in it.
    let plain = if pod.contains('.') {
        "status.podStates".into()
    } else {
        format!("status.podStates.{pod}")
    };
    let bucket = format!("status.packed.buckets.{}", Bucket::of(pod));
    [plain, "status.packed.version".into(), bucket]
}

/// The recorded state of a Pod in the status of an object. If both forms have the Pod, `podStates`
/// is newer: whoever does not know the compact form writes only that.
///
/// Another type than that of the schema is damage, and not absence: another definition than this
/// product's may allow it.
pub fn recorded_state(status: &Value, pod: &str) -> Result<Option<PodState>, Damaged> {
    let Some(status) = fields(status, "status")? else {
        return Ok(None);
    };
    let plain = fields(field(status, "podStates"), "status.podStates")?;
    if let Some(state) = plain.and_then(|states| states.get(pod))
        && let Some(state) = plain_state(pod, state)?
    {
        return Ok(Some(state));
    }
    let Some(packed) = fields(field(status, "packed"), "status.packed")? else {
        return Ok(None);
    };
    check_version(packed.get("version").and_then(Value::as_i64))?;
    let buckets = field(packed, "buckets");
    let Some(buckets) = fields(buckets, "status.packed.buckets")? else {
        return Ok(None);
    };
    let bucket = Bucket::of(pod);
    match buckets.get(&bucket.to_string()) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => find(bucket, text, pod),
        Some(_) => Err(Damaged::at(bucket, "it is no text")),
    }
}

/// A field; null if it is missing.
fn field<'a>(object: &'a Map<String, Value>, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&Value::Null)
}

/// Reads the state of a Pod in `status.podStates`.
pub(crate) fn plain_state(pod: &str, state: &Value) -> Result<Option<PodState>, Damaged> {
    read(&format!("status.podStates.{pod}"), state)
        .map_err(|error| Damaged::Content(error.to_string()))
}

/// The fields of an object; none if it is missing.
pub(crate) fn fields<'a>(
    value: &'a Value,
    path: &str,
) -> Result<Option<&'a Map<String, Value>>, Damaged> {
    match value {
        Value::Null => Ok(None),
        Value::Object(fields) => Ok(Some(fields)),
        _ => Err(Damaged::Content(format!("{path} is no object"))),
    }
}

/// Whether the definition may hide states of an object, because it has no `status.packed`: states
/// in that field are stored and not shown, and any write would lose them. Under a definition that
/// has this field, nothing is hidden.
///
/// It needs the managed fields.
pub fn may_hide_states(pps: &Value) -> bool {
    let status = &pps["status"];
    let was_written = status.as_object().is_some_and(|status| !status.is_empty());
    let shown = status["podStates"].as_object().map_or(0, Map::len);
    status["packed"].is_null()
        && claim(pps).may_hide_states(shown, status["recorded"].as_i64(), was_written)
}

/// The same, only if the managed fields say that a client has written the compact form. Managed
/// fields that say nothing prove nothing: a file has none, and the API server drops those of an
/// object that would be too large with them.
pub fn hides_states(pps: &Value) -> bool {
    claim(pps) == PackedClaim::Yes && may_hide_states(pps)
}

fn claim(pps: &Value) -> PackedClaim {
    let managed = list(&pps["metadata"]["managedFields"]).iter();
    PackedClaim::of(managed.filter_map(|entry| entry["fieldsV1"].get("f:status")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn masks_name_all_that_one_pod_needs() {
        assert_eq!(
            field_masks("web-107"),
            [
                "status.podStates.web-107",
                "status.packed.version",
                "status.packed.buckets.ordinals-100"
            ]
        );
        assert_eq!(field_masks("web.eu-7")[0], "status.podStates");
    }

    #[test]
    fn another_type_is_damage_and_not_absence() {
        for (status, path) in [
            (json!("x"), "status "),
            (json!([]), "status "),
            (json!({"podStates": "x"}), "status.podStates "),
            (json!({"podStates": ["web-0"]}), "status.podStates "),
            (json!({"packed": 1}), "status.packed "),
            (
                json!({"packed": {"version": 1, "buckets": "x"}}),
                "status.packed.buckets ",
            ),
            (
                json!({"packed": {"version": 1, "buckets": ["ordinals-0"]}}),
                "status.packed.buckets ",
            ),
        ] {
            let error = recorded_state(&status, "web-0").unwrap_err().to_string();
            assert_eq!(error, format!("{path}is no object"), "{status}");
        }
        for status in [
            json!(null),
            json!({}),
            json!({"podStates": null, "packed": null}),
            json!({"podStates": {"web-1": 7}, "packed": {"version": 1}}),
            json!({"packed": {"version": 1, "buckets": null}}),
            json!({"packed": {"version": 1, "buckets": {"ordinals-100": 7}}}),
        ] {
            assert_eq!(recorded_state(&status, "web-0"), Ok(None), "{status}");
        }
    }

    #[test]
    fn hides_states_only_if_a_client_has_written_the_compact_form_and_it_is_not_shown() {
        let object = |fields: Value, status: Value| {
            json!({"metadata": {"managedFields": [{"fieldsV1": {"f:spec": {}}}, {"fieldsV1": fields}]},
                "status": status})
        };
        let compact = || json!({"f:status": {"f:packed": {}}});
        let plain = || json!({"f:status": {"f:podStates": {}}});
        for (fields, status, hides) in [
            (compact(), json!({}), true),
            (compact(), json!(null), true),
            (compact(), json!({"podStates": {"web-0": {}}}), true),
            (
                compact(),
                json!({"podStates": {"web-0": {}}, "recorded": 2}),
                true,
            ),
            (
                compact(),
                json!({"podStates": {"web-0": {}}, "recorded": 1}),
                false,
            ),
            (compact(), json!({"packed": {}}), false),
            (plain(), json!({"podStates": {}}), false),
            (json!({}), json!({"recorded": 3}), false),
        ] {
            let object = object(fields, status);
            assert_eq!(hides_states(&object), hides, "{object}");
        }
    }
}
