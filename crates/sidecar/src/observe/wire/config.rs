//! The ConfigMap with the list of custom workload kinds on the wire, and its fact.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::metadata::{key_of, null_as_default, slim_metadata};
use super::object::{Item, Malformed, item};
use crate::facts::{ConfigFact, NamespacedName};

/// The fields of the ConfigMap that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ConfigMap {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(deserialize_with = "null_as_default")]
    data: ConfigData,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ConfigData {
    #[serde(rename = "PPS_Watch_Custom_Workload_WhiteList")]
    whitelist: Option<String>,
}

pub(crate) fn config_fact(config: ConfigMap) -> ConfigFact {
    ConfigFact { uid: config.metadata.uid.unwrap_or_default(), whitelist: config.data.whitelist }
}

/// Reads the ConfigMap. The list of one that cannot be read counts as malformed, so that the last valid one stays in
/// force.
pub fn read_config(text: &str) -> Result<Item<NamespacedName, ConfigFact>, Malformed> {
    let rest = |metadata: &ObjectMeta| {
        let uid = metadata.uid.clone().unwrap_or_default();
        Some(ConfigFact { uid, whitelist: Some("the ConfigMap cannot be read".into()) })
    };
    let whole = |config: ConfigMap| Some(config_fact(config));
    item(text, |config: &ConfigMap| &config.metadata, key_of, whole, rest)
}

#[cfg(test)]
mod tests {
    use pps_core::whitelist;
    use serde_json::{Value, from_value, json};

    use super::*;

    #[test]
    fn keeps_only_the_list_of_kinds() {
        let config = |data: Value| {
            config_fact(from_value(json!({"metadata": {"uid": "u"}, "data": data})).unwrap()).whitelist
        };
        assert_eq!(config(json!({whitelist::KEY: "[]", "other": "x"})).as_deref(), Some("[]"));
        assert_eq!((config(json!(null)), config(json!({}))), (None, None));
    }
}
