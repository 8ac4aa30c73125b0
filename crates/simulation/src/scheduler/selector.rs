//! Requirements on labels: of Nodes, which a term of a node affinity makes, and of Pods, which a label selector makes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{list, text};

/// The labels of an object.
pub(super) type Labels = BTreeMap<String, String>;

/// Whether labels meet a requirement: `{key, operator, values}`. One that Kubernetes would refuse is never met.
pub(super) fn meets(requirement: &Value, labels: &Labels) -> bool {
    let found = labels.get(text(&requirement["key"])).map(String::as_str);
    let values = || list(&requirement["values"]).map(text);
    let compare = |compare: fn(&i64, &i64) -> bool| {
        let mut values = values();
        let (Some(value), None, Some(found)) = (values.next(), values.next(), found) else { return false };
        let (Ok(found), Ok(value)) = (found.parse(), value.parse()) else { return false };
        compare(&found, &value)
    };
    match text(&requirement["operator"]) {
        "In" => found.is_some_and(|found| values().any(|value| value == found)),
        "NotIn" => {
            values().next().is_some() && found.is_none_or(|found| values().all(|value| value != found))
        }
        "Exists" => found.is_some() && values().next().is_none(),
        "DoesNotExist" => found.is_none() && values().next().is_none(),
        "Gt" => compare(i64::gt),
        "Lt" => compare(i64::lt),
        _ => false,
    }
}

/// What a requirement requires, in words that follow "the Pod requires".
pub(super) fn required_words(requirement: &Value) -> String {
    let values: Vec<&str> = list(&requirement["values"]).map(text).collect();
    match (text(&requirement["operator"]), values.as_slice()) {
        ("In", [value]) => quoted_if_empty(value).to_owned(),
        ("In", _) => format!("one of {}", values.join(", ")),
        ("NotIn", [value]) => format!("another value than {}", quoted_if_empty(value)),
        ("NotIn", _) => format!("none of {}", values.join(", ")),
        ("Exists", _) => "this label".to_owned(),
        ("DoesNotExist", _) => "that it is absent".to_owned(),
        ("Gt", [value]) => format!("more than {value}"),
        ("Lt", [value]) => format!("less than {value}"),
        (operator, _) => format!("{operator} {}", values.join(", ")),
    }
}

/// An empty value would be invisible in a sentence.
pub(super) fn quoted_if_empty(value: &str) -> &str {
    if value.is_empty() { "\"\"" } else { value }
}

/// A label selector of Pods.
#[derive(Clone)]
pub(crate) struct PodSelector<'a> {
    /// Absent selects nothing.
    selector: Option<&'a Value>,
    /// Further labels that a Pod must have.
    also: Labels,
}

impl<'a> PodSelector<'a> {
    pub(crate) fn of(selector: &'a Value) -> Self {
        Self { selector: selector.is_object().then_some(selector), also: Labels::new() }
    }

    /// Selects only Pods that also have these labels.
    pub(super) fn and(mut self, labels: Labels) -> Self {
        self.also = labels;
        self
    }

    /// Whether there is no selector, which selects nothing.
    pub(super) fn is_nothing(&self) -> bool {
        self.selector.is_none()
    }

    /// Whether it selects everything. Such a selector counts no Pods when they are spread.
    pub(super) fn is_everything(&self) -> bool {
        let Some(selector) = self.selector else { return false };
        let is_empty = |value: &Value| match value {
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => true,
        };
        is_empty(&selector["matchLabels"]) && is_empty(&selector["matchExpressions"]) && self.also.is_empty()
    }

    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        let Some(selector) = self.selector else { return false };
        let has = |key: &str, value: &str| labels.get(key).is_some_and(|found| found == value);
        let wanted = selector["matchLabels"].as_object();
        wanted.into_iter().flatten().all(|(key, value)| has(key, text(value)))
            && list(&selector["matchExpressions"]).all(|requirement| meets(requirement, labels))
            && self.also.iter().all(|(key, value)| has(key, value))
    }
}
