//! The ConfigMap that lists the kinds of custom workloads, and its fact.

use std::collections::BTreeMap;

use pps_api::describe_json;
use pps_recorder::facts::{ConfigFact, NamespacedName};
use pps_recorder::whitelist::KEY;
use serde::Deserialize;

use super::item::{Item, Metadata, Parsed, Unused};
use super::malformed::Malformed;

/// Reads the ConfigMap. The list of one that cannot be read counts as malformed, so that the last
/// valid one stays in force.
pub fn read_config(object: &str) -> Result<Item<NamespacedName, ConfigFact>, Malformed> {
    #[derive(Deserialize)]
    struct ConfigMap {
        data: Option<BTreeMap<String, String>>,
    }
    let (whitelist, unreadable) = match serde_json::from_str::<ConfigMap>(object) {
        Ok(config) => (config.data.and_then(|mut data| data.remove(KEY)), None),
        Err(error) => (
            Some("the ConfigMap cannot be read".into()),
            Some(describe_json(&error)),
        ),
    };
    let item = Parsed::<Unused, Unused>::read(object)?.into_item(Metadata::key, |metadata, _| {
        Some(ConfigFact {
            uid: metadata.uid.unwrap_or_default(),
            whitelist,
        })
    });
    Ok(Item { unreadable, ..item })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn keeps_only_the_list_of_kinds() {
        let config = |data: Value| {
            let text = json!({"metadata": {"name": "c", "uid": "u"}, "data": data}).to_string();
            read_config(&text).unwrap().fact.unwrap().whitelist
        };
        assert_eq!(
            config(json!({KEY: "[]", "other": "x"})).as_deref(),
            Some("[]")
        );
        assert_eq!((config(json!(null)), config(json!({}))), (None, None));
    }
}
