//! Requirements on labels: of Nodes, which a term of a node affinity makes, and of Pods, which a
//! label selector makes.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fields::{list, text};

pub(super) type Labels = BTreeMap<String, String>;

/// Whether labels meet a requirement: `{key, operator, values}`. One that Kubernetes would refuse
/// is never met.
pub(super) fn meets(requirement: &Value, labels: &Labels) -> bool {
    let found = labels.get(text(&requirement["key"])).map(String::as_str);
    let values = || list(&requirement["values"]).map(text);
    let compare = |compare: fn(&i64, &i64) -> bool| {
        let mut values = values();
        let (Some(value), None, Some(found)) = (values.next(), values.next(), found) else {
            return false;
        };
        let (Ok(found), Ok(value)) = (found.parse(), value.parse()) else {
            return false;
        };
        compare(&found, &value)
    };
    match text(&requirement["operator"]) {
        "In" => values().any(|value| found == Some(value)),
        "NotIn" => values().next().is_some() && values().all(|value| found != Some(value)),
        "Exists" => found.is_some() && values().next().is_none(),
        "DoesNotExist" => found.is_none() && values().next().is_none(),
        "Gt" => compare(i64::gt),
        "Lt" => compare(i64::lt),
        _ => false,
    }
}

#[derive(Clone)]
pub struct PodSelector<'a> {
    selector: Option<&'a Value>,
    also: Labels,
}

impl<'a> PodSelector<'a> {
    pub fn of(selector: &'a Value) -> Self {
        Self {
            selector: selector.is_object().then_some(selector),
            also: Labels::new(),
        }
    }

    pub(super) fn and(mut self, labels: Labels) -> Self {
        self.also = labels;
        self
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.selector.is_none()
    }

    /// Whether it selects everything. Such a selector counts no Pods when they are spread.
    pub(super) fn is_everything(&self) -> bool {
        let Some(selector) = self.selector else {
            return false;
        };
        selector["matchLabels"]
            .as_object()
            .is_none_or(Map::is_empty)
            && list(&selector["matchExpressions"]).next().is_none()
            && self.also.is_empty()
    }

    pub fn matches(&self, labels: &Labels) -> bool {
        let Some(selector) = self.selector else {
            return false;
        };
        let has = |key: &str, value: &str| labels.get(key).is_some_and(|found| found == value);
        let wanted = selector["matchLabels"].as_object();
        wanted
            .into_iter()
            .flatten()
            .all(|(key, value)| has(key, text(value)))
            && list(&selector["matchExpressions"]).all(|requirement| meets(requirement, labels))
            && self.also.iter().all(|(key, value)| has(key, value))
    }
}
