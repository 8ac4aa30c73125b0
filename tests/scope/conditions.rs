//! Evaluates the selectors and the match conditions of a ClusterAdmissionPolicy as the API server
//! does.
//!
//! The API server uses cel-go, this the crate `cel`. They agree in what the conditions use: `has()`
//! of an optional field, `exists` over a list, `in` over lists and keys of maps, `startsWith`, `==`
//! of maps, and `&&` and `||` that ignore an error if the other side decides. They differ in three
//! things:
//!
//! - The API server knows the types of `request` when it compiles, and refuses a field that does
//!   not exist. This crate has no such declarations: only a real API server notices that.
//! - The API server skips the request if any condition is false, even if another one fails. Here
//!   each must have a result.
//! - Whole numbers of JSON are unsigned here and signed there. Only `==` of two specs compares
//!   numbers, and both sides are of one type.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use cel::{Context, Program, Value as CelValue, to_value};
use serde_json::{Value, json};

/// A ClusterAdmissionPolicy.
pub(crate) struct Deployed {
    spec: Value,
}

impl Deployed {
    pub(crate) fn new(object: &Value) -> Self {
        let mut spec = object["spec"].clone();
        // Kubewarden's controller adds this.
        let expressions = spec["namespaceSelector"]["matchExpressions"].take();
        let mut expressions = expressions.as_array().cloned().unwrap_or_default();
        expressions.push(
            json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kubewarden"]}),
        );
        spec["namespaceSelector"] = json!({"matchExpressions": expressions});
        Self { spec }
    }

    /// Whether the API server sends the request to the policy.
    pub(crate) fn is_sent(
        &self,
        request: &Value,
        namespace: &BTreeMap<String, String>,
        has_match_conditions: bool,
    ) -> Result<bool> {
        let mut labels = namespace.clone();
        let name = request["namespace"].as_str().context("no namespace")?;
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
        let objects = [&request["object"], &request["oldObject"]];
        let selected = objects
            .into_iter()
            .filter(|object| !object.is_null())
            .any(|object| {
                let labels = object["metadata"]["labels"]
                    .as_object()
                    .into_iter()
                    .flatten();
                let labels = labels.map(|(key, value)| {
                    (key.clone(), value.as_str().unwrap_or_default().to_owned())
                });
                matches_selector(&self.spec["objectSelector"], &labels.collect())
            });
        if !self.has_rule_for(request)
            || !matches_selector(&self.spec["namespaceSelector"], &labels)
            || !selected
        {
            return Ok(false);
        }
        let conditions = self.spec["matchConditions"]
            .as_array()
            .into_iter()
            .flatten();
        let mut all = true;
        for condition in conditions.filter(|_| has_match_conditions) {
            let expression = condition["expression"].as_str().context("no expression")?;
            all &= holds(expression, request)
                .with_context(|| format!("{}: {request}", condition["name"]))?;
        }
        Ok(all)
    }

    fn has_rule_for(&self, request: &Value) -> bool {
        let resource = &request["resource"];
        let mut name = resource["resource"].as_str().unwrap_or_default().to_owned();
        if let Some(subresource) = request["subResource"].as_str() {
            name = format!("{name}/{subresource}");
        }
        let has =
            |list: &Value, value: &Value| list.as_array().is_some_and(|list| list.contains(value));
        self.spec["rules"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|rule| {
                has(&rule["apiGroups"], &resource["group"])
                    && has(&rule["apiVersions"], &resource["version"])
                    && has(&rule["resources"], &name.clone().into())
                    && has(&rule["operations"], &request["operation"])
            })
    }
}

/// Whether labels match a label selector. An empty one matches everything.
fn matches_selector(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten();
    equal
        .into_iter()
        .all(|(key, value)| labels.get(key).map(String::as_str) == value.as_str())
        && expressions.all(|expression| {
            let value = expression["key"].as_str().and_then(|key| labels.get(key));
            let listed = value.is_some_and(|value| {
                expression["values"]
                    .as_array()
                    .is_some_and(|values| values.contains(&value.as_str().into()))
            });
            match expression["operator"].as_str() {
                Some("In") => listed,
                // Also where there is no such label.
                Some("NotIn") => !listed,
                Some("Exists") => value.is_some(),
                Some("DoesNotExist") => value.is_none(),
                other => panic!("operator {other:?}"),
            }
        })
}

/// Evaluates a condition.
fn holds(expression: &str, request: &Value) -> Result<bool> {
    let program = Program::compile(expression).map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut context = Context::default();
    let mut add = |name: &str, value: &Value| -> Result<()> {
        let value = to_value(value).map_err(|error| anyhow::anyhow!("{error}"))?;
        context.add_variable_from_value(name, value);
        Ok(())
    };
    let mut attributes = request.clone();
    for name in ["object", "oldObject"] {
        add(name, &attributes[name].take())?;
    }
    add("request", &attributes)?;
    match program.execute(&context) {
        Ok(CelValue::Bool(holds)) => Ok(holds),
        Ok(other) => bail!("{expression} is no boolean but {other:?}"),
        Err(error) => bail!("{expression}: {error}"),
    }
}
