//! Answers the host calls of the policy from a list of objects, with PolicyServer's error texts.

use pps_admission::Host;
use pps_scheduler::fields::text;
use serde_json::{Map, Value};

/// Answers a call `get_resource`. A host that knows no field masks ignores them.
///
/// # Errors
///
/// The error text that the policy gets.
pub fn get_resource<'a>(
    objects: impl IntoIterator<Item = &'a Value>,
    request: &Value,
    ignores_masks: bool,
) -> Result<String, String> {
    let found = objects.into_iter().find(|object| {
        let metadata = &object["metadata"];
        metadata["namespace"] == request["namespace"] && metadata["name"] == request["name"]
    });
    match found {
        Some(object) if ignores_masks => Ok(object.to_string()),
        Some(object) => Ok(mask(object, request).to_string()),
        None => Err(not_found(request)),
    }
}

fn mask(object: &Value, request: &Value) -> Value {
    // Masks do not apply to the type and the metadata.
    let whole = ["apiVersion", "kind", "metadata"];
    let masks = request["field_masks"].as_array().into_iter().flatten();
    let masks = masks.filter_map(|mask| Some(mask.as_str()?.split('.').collect::<Vec<_>>()));
    let mut masks: Vec<Vec<&str>> = masks.filter(|mask| !whole.contains(&mask[0])).collect();
    masks.extend(whole.map(|field| vec![field]));
    let is_masked = request["field_masks"]
        .as_array()
        .is_some_and(|masks| !masks.is_empty());
    if is_masked {
        prune(object, &masks.iter().map(Vec::as_slice).collect::<Vec<_>>())
    } else {
        object.clone()
    }
}

/// Keeps what the masks name. A mask that ends here keeps everything below, unless another one
/// continues.
fn prune(value: &Value, masks: &[&[&str]]) -> Value {
    if masks.iter().all(|mask| mask.is_empty()) {
        return value.clone();
    }
    match value {
        Value::Array(items) => items.iter().map(|item| prune(item, masks)).collect(),
        Value::Object(object) => {
            let mut pruned = Map::new();
            for (field, value) in object {
                let of_field = masks
                    .iter()
                    .filter(|mask| mask.first() == Some(&field.as_str()));
                let below: Vec<&[&str]> = of_field.map(|mask| &mask[1..]).collect();
                if !below.is_empty() {
                    pruned.insert(field.clone(), prune(value, &below));
                }
            }
            pruned.into()
        }
        other => other.clone(),
    }
}

fn not_found(request: &Value) -> String {
    let api_version = text(&request["api_version"]);
    let name = text(&request["name"]);
    let namespace = Some(text(&request["namespace"]));
    format!(
        "Callback evaluation failure: Cannot find {api_version}/PersistentPodState named '{name}' \
         inside of namespace '{namespace:?}'\n\nStack backtrace:\n   0: anyhow::error::<impl \
         anyhow::Error>::msg"
    )
}

#[derive(Debug)]
pub(crate) struct ClusterHost<'a> {
    pub(crate) objects: Vec<&'a Value>,
}

impl Host for ClusterHost<'_> {
    fn call(&self, namespace: &str, operation: &str, payload: &str) -> Result<String, String> {
        match (namespace, operation) {
            ("kubernetes", "get_resource") => {
                let request: Value =
                    serde_json::from_str(payload).map_err(|error| error.to_string())?;
                get_resource(self.objects.iter().copied(), &request, false)
            }
            ("tracing", "log") => Ok(String::new()),
            _ => Err(format!("unknown operation: {operation}")),
        }
    }
}
