//! A host that answers from a list of objects, with PolicyServer's error texts.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

/// How a host deviates from a normal one. Calls are keyed by `get_resource NAME`, `get_resource
/// API-VERSION` or their operation alone.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostQuirks {
    /// It ignores field masks and answers with whole objects.
    pub ignores_masks: bool,
    /// The versions that the API server serves; all by default.
    pub serves: Option<Vec<String>>,
    /// Error text by call; `{api_version}` in it is replaced by the requested one.
    pub errors: BTreeMap<String, String>,
    /// Answers by call, instead of those that follow from the objects.
    pub answers: BTreeMap<String, Value>,
}

/// Answers host calls.
#[derive(Clone, Debug)]
pub struct FakeHost {
    objects: Vec<Value>,
    quirks: HostQuirks,
}

impl FakeHost {
    /// A host of a cluster that holds these objects.
    pub fn new(objects: Vec<Value>, quirks: HostQuirks) -> Self {
        Self { objects, quirks }
    }

    /// Answers a call in the `kubernetes` namespace.
    ///
    /// # Errors
    ///
    /// The error text that the policy gets.
    pub fn call(&self, operation: &str, payload: &str) -> Result<String, String> {
        let request: Value = serde_json::from_str(payload).map_err(|error| error.to_string())?;
        let name = request["name"].as_str().unwrap_or_default();
        let api_version = request["api_version"].as_str().unwrap_or_default();
        let call = format!("{operation} {name}");
        let versioned = format!("{operation} {api_version}");
        let keys = [call.as_str(), versioned.as_str(), operation];
        if let Some(error) = keys.iter().find_map(|key| self.quirks.errors.get(*key)) {
            return Err(error.replace("{api_version}", api_version));
        }
        if self.quirks.serves.as_ref().is_some_and(|served| !served.iter().any(|it| it == api_version)) {
            return Err(format!(
                "Callback evaluation failure: Cannot find resource {api_version}/PersistentPodState\n\n\
                 Stack backtrace:\n   0: anyhow::error::<impl anyhow::Error>::msg"
            ));
        }
        if let Some(answer) = keys.iter().find_map(|key| self.quirks.answers.get(*key)) {
            return Ok(answer.to_string());
        }
        match operation {
            "get_resource" => {
                let object = self.objects.iter().find(|object| {
                    object["metadata"]["namespace"] == request["namespace"]
                        && object["metadata"]["name"] == name
                });
                let object =
                    object.ok_or_else(|| not_found_error(api_version, name, &request["namespace"]))?;
                Ok(self.mask(object, &request).to_string())
            }
            _ => Err(format!("unknown operation: {operation}")),
        }
    }

    fn mask(&self, object: &Value, request: &Value) -> Value {
        let masks: Vec<Vec<&str>> = request["field_masks"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|mask| Some(mask.as_str()?.split('.').collect()))
            .collect();
        if masks.is_empty() || self.quirks.ignores_masks {
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

fn not_found_error(api_version: &str, name: &str, namespace: &Value) -> String {
    let namespace = Some(namespace.as_str().unwrap_or_default());
    format!(
        "Callback evaluation failure: Cannot find {api_version}/PersistentPodState named '{name}' \
         inside of namespace '{namespace:?}'\n\nStack backtrace:\n   0: anyhow::error::<impl anyhow::Error>::msg"
    )
}
