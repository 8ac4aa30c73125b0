//! Answers the host calls of the policy from a list of objects, with PolicyServer's error texts.

use persistent_pod_state_policy::Host;
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
    let (namespace, name) = (&request["namespace"], &request["name"]);
    let found = objects
        .into_iter()
        .find(|object| object["metadata"]["namespace"] == *namespace && object["metadata"]["name"] == *name);
    match found {
        Some(object) if ignores_masks => Ok(object.to_string()),
        Some(object) => Ok(mask(object, request).to_string()),
        None => Err(not_found(request)),
    }
}

fn mask(object: &Value, request: &Value) -> Value {
    let masks: Vec<Vec<&str>> = request["field_masks"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|mask| Some(mask.as_str()?.split('.').collect()))
        .collect();
    if masks.is_empty() {
        return object.clone();
    }
    // Masks do not apply to the type and the metadata.
    let mut masked = Map::new();
    for (field, value) in object.as_object().into_iter().flatten() {
        let below: Vec<&[&str]> =
            masks.iter().filter(|mask| mask[0] == field).map(|mask| &mask[1..]).collect();
        if ["apiVersion", "kind", "metadata"].contains(&field.as_str()) {
            masked.insert(field.clone(), value.clone());
        } else if !below.is_empty() {
            masked.insert(field.clone(), prune(value, &below));
        }
    }
    masked.into()
}

/// Keeps what the masks name. A mask that ends here keeps everything below, unless another one continues.
fn prune(value: &Value, masks: &[&[&str]]) -> Value {
    if masks.iter().all(|mask| mask.is_empty()) {
        return value.clone();
    }
    match value {
        Value::Array(items) => items.iter().map(|item| prune(item, masks)).collect(),
        Value::Object(object) => {
            let mut pruned = Map::new();
            for (field, value) in object {
                let below: Vec<&[&str]> = masks
                    .iter()
                    .filter(|mask| mask.first() == Some(&field.as_str()))
                    .map(|mask| &mask[1..])
                    .collect();
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
    let text = |field: &str| request[field].as_str().unwrap_or_default();
    format!(
        "Callback evaluation failure: Cannot find {}/PersistentPodState named '{}' \
         inside of namespace '{:?}'\n\nStack backtrace:\n   0: anyhow::error::<impl anyhow::Error>::msg",
        text("api_version"),
        text("name"),
        Some(text("namespace"))
    )
}

#[derive(Clone, Debug)]
pub struct ClusterHost<'a> {
    pub(crate) objects: Vec<&'a Value>,
}

impl<'a> ClusterHost<'a> {
    pub fn new(objects: Vec<&'a Value>) -> Self {
        Self { objects }
    }
}

impl Host for ClusterHost<'_> {
    fn call(&self, namespace: &str, operation: &str, payload: &str) -> Result<String, String> {
        match (namespace, operation) {
            ("kubernetes", "get_resource") => {
                let request: Value = serde_json::from_str(payload).map_err(|error| error.to_string())?;
                get_resource(self.objects.iter().copied(), &request, false)
            }
            ("tracing", "log") => Ok(String::new()),
            _ => Err(format!("unknown operation: {operation}")),
        }
    }
}
