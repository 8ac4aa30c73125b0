//! A host that answers from a list of objects, with PolicyServer's error texts.

use std::collections::BTreeMap;

use pps_simulation::host::get_resource;
use serde::Deserialize;
use serde_json::Value;

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
        if self
            .quirks
            .serves
            .as_ref()
            .is_some_and(|served| !served.iter().any(|it| it == api_version))
        {
            return Err(format!(
                "Callback evaluation failure: Cannot find resource \
                 {api_version}/PersistentPodState\n\nStack backtrace:\n   0: anyhow::error::<impl \
                 anyhow::Error>::msg"
            ));
        }
        if let Some(answer) = keys.iter().find_map(|key| self.quirks.answers.get(*key)) {
            return Ok(answer.to_string());
        }
        match operation {
            "get_resource" => get_resource(&self.objects, &request, self.quirks.ignores_masks),
            _ => Err(format!("unknown operation: {operation}")),
        }
    }
}
