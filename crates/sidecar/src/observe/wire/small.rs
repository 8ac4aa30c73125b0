//! Nodes and the ConfigMap with the whitelist on the wire, and their facts.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pps_recorder::facts::interest::Interest;
use pps_recorder::facts::{ConfigFact, NamespacedName, NodeFact};
use serde::Deserialize;

use super::encoding::Encoded;
use super::object::{Item, METADATA, Malformed, item, key_of, null_as_default, slim_metadata};
use super::protobuf::Kind;

/// Reads the metadata of a Node. One that cannot be read exists and has no labels.
pub fn read_node(object: Encoded<'_>, interest: &Interest) -> Result<Item<Arc<str>, NodeFact>, Malformed> {
    #[derive(Deserialize)]
    struct Node {
        #[serde(deserialize_with = "slim_metadata")]
        metadata: ObjectMeta,
    }
    let key = |metadata: &ObjectMeta| metadata.name.as_deref().unwrap_or_default().into();
    let fact = |metadata: &ObjectMeta| {
        let labels = metadata.labels.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
        Some(NodeFact { labels: interest.labels().pick(labels) })
    };
    let schema = &[(1, "metadata", Kind::Message(METADATA))];
    item(object, schema, |node: &Node| &node.metadata, key, |node| fact(&node.metadata), fact)
}

/// Reads the ConfigMap. The list of one that cannot be read counts as malformed, so that the last valid one
/// stays in force.
pub fn read_config(object: Encoded<'_>) -> Result<Item<NamespacedName, ConfigFact>, Malformed> {
    #[derive(Deserialize)]
    struct ConfigMap {
        #[serde(deserialize_with = "slim_metadata")]
        metadata: ObjectMeta,
        #[serde(default, deserialize_with = "null_as_default")]
        data: ConfigData,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct ConfigData {
        #[serde(rename = "PPS_Watch_Custom_Workload_WhiteList")]
        whitelist: Option<String>,
    }
    let fact = |metadata: &ObjectMeta, whitelist| {
        Some(ConfigFact { uid: metadata.uid.clone().unwrap_or_default(), whitelist })
    };
    let whole = |config: ConfigMap| fact(&config.metadata, config.data.whitelist);
    let rest = |metadata: &ObjectMeta| fact(metadata, Some("the ConfigMap cannot be read".into()));
    item(object, &[], |config: &ConfigMap| &config.metadata, key_of, whole, rest)
}

#[cfg(test)]
mod tests {
    use pps_recorder::whitelist;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn keeps_only_the_list_of_kinds() {
        let config = |data: Value| {
            let text = json!({"metadata": {"name": "c", "uid": "u"}, "data": data}).to_string();
            read_config(Encoded::Json(&text)).unwrap().fact.unwrap().whitelist
        };
        assert_eq!(config(json!({whitelist::KEY: "[]", "other": "x"})).as_deref(), Some("[]"));
        assert_eq!((config(json!(null)), config(json!({}))), (None, None));
    }
}
