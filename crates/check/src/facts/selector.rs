//! Label selectors, as Kubernetes evaluates them.

use std::collections::BTreeMap;

use serde_json::Value;

/// Whether labels match a label selector. An operator that is not known matches nothing.
pub fn matches(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let wanted = selector["matchLabels"].as_object().into_iter().flatten();
    let mut wanted = wanted
        .map(|(key, value)| labels.get(key).is_some_and(|label| Some(label.as_str()) == value.as_str()));
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten().map(|expression| {
        let label = expression["key"].as_str().and_then(|key| labels.get(key));
        let values = expression["values"].as_array().map_or(&[][..], Vec::as_slice);
        let is_listed = label.is_some_and(|label| values.iter().any(|value| value == label.as_str()));
        match expression["operator"].as_str() {
            Some("In") => is_listed,
            Some("NotIn") => !is_listed,
            Some("Exists") => label.is_some(),
            Some("DoesNotExist") => label.is_none(),
            _ => false,
        }
    });
    wanted.all(|matched| matched) && expressions.all(|matched| matched)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selects_as_kubernetes_does() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, wanted) in [
            (Value::Null, true),
            (json!({}), true),
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "2"}}), false),
            (json!({"matchLabels": {"b": "1"}}), false),
            (expression("a", "In", &["1", "2"]), true),
            (expression("a", "In", &["2"]), false),
            (expression("a", "NotIn", &["1"]), false),
            (expression("b", "NotIn", &["1"]), true),
            (expression("a", "Exists", &[]), true),
            (expression("b", "Exists", &[]), false),
            (expression("b", "DoesNotExist", &[]), true),
            (expression("a", "Other", &["1"]), false),
            (json!({"matchLabels": [], "matchExpressions": "x"}), true),
        ] {
            assert_eq!(matches(&selector, &labels), wanted, "{selector}");
        }
    }
}
