//! Requirements on labels: of Nodes, which a term of a node affinity makes, and of Pods, which a
//! label selector makes.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fields::{list, text};

pub(super) type Labels = BTreeMap<String, String>;

/// Whether labels meet a requirement: `{key, operator, values}`. One that Kubernetes would refuse
/// is never met.
pub(super) fn meets(requirement: &Value, labels: &Labels) -> bool {
    let found = labels.get(text(&requirement["key"])).map(String::as_str);
    let values: Vec<&str> = list(&requirement["values"]).map(text).collect();
    match text(&requirement["operator"]) {
        "In" => found.is_some_and(|found| values.contains(&found)),
        "NotIn" => !values.is_empty() && found.is_none_or(|found| !values.contains(&found)),
        "Exists" => found.is_some() && values.is_empty(),
        "DoesNotExist" => found.is_none() && values.is_empty(),
        "Gt" => compare_to_one(found, &values) == Some(Ordering::Greater),
        "Lt" => compare_to_one(found, &values) == Some(Ordering::Less),
        _ => false,
    }
}

/// How a label's value compares with the only value of a requirement. None if one of both is no
/// number.
fn compare_to_one(found: Option<&str>, values: &[&str]) -> Option<Ordering> {
    let [value] = values else { return None };
    let found: i64 = found?.parse().ok()?;
    Some(found.cmp(&value.parse().ok()?))
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
        let mut wanted = selector["matchLabels"].as_object().into_iter().flatten();
        wanted.all(|(key, value)| has(labels, key, text(value)))
            && list(&selector["matchExpressions"]).all(|requirement| meets(requirement, labels))
            && self.also.iter().all(|(key, value)| has(labels, key, value))
    }
}

fn has(labels: &Labels, key: &str, value: &str) -> bool {
    labels.get(key).is_some_and(|found| found == value)
}
