//! The policy's settings, as Kubewarden passes them.

use kubewarden_policy_sdk::settings::Validatable;
use pps_admission::SettingsError;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Settings that may be wrong. To read wrong settings is no error: PolicyServer shows the message
/// of a response, but not that of a failed call.
#[derive(Clone, Debug)]
pub struct Settings(Result<pps_admission::Settings, SettingsError>);

impl Settings {
    /// The settings, or what is wrong with them.
    pub fn as_result(&self) -> Result<&pps_admission::Settings, &SettingsError> {
        self.0.as_ref()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self(Ok(pps_admission::Settings::default()))
    }
}

impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let settings = Value::deserialize(deserializer)?;
        Ok(Self(pps_admission::Settings::read(&settings)))
    }
}

impl Validatable for Settings {
    fn validate(&self) -> Result<(), String> {
        match self.as_result() {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}
