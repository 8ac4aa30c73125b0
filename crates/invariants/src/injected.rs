//! What a Pod may be given from a recorded state, and what it must be given.

use std::collections::BTreeMap;

use pps_core::is_annotation_key;
use serde_json::{Value, json};

use crate::rules::{MARKER, is_never_injected};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// How many items of each list count: of keys in a term, of preferred terms, of annotations.
const KEYS: usize = 64;
const TERMS: usize = 64;
const ANNOTATIONS: usize = 128;

/// What a PersistentPodState holds for one Pod, read from its JSON.
#[derive(Debug, Default)]
pub struct Recorded {
    name: String,
    required: Vec<Value>,
    preferred: Vec<Value>,
    annotations: BTreeMap<String, String>,
}

impl Recorded {
    /// Reads the spec and the state of one Pod.
    pub fn read(name: &str, spec: &Value, state: &Value) -> Self {
        let labels = &state["nodeTopologyLabels"];
        let topology = |term: &Value| {
            let keys = if list(&term["nodeTopologyKeys"]).is_empty() {
                &term["keys"]
            } else {
                &term["nodeTopologyKeys"]
            };
            let mut expressions: Vec<Value> = Vec::new();
            for key in list(keys).iter().take(KEYS).filter_map(Value::as_str) {
                let Some(value) = labels[key].as_str() else {
                    continue;
                };
                let expression = json!({"key": key, "operator": "In", "values": [value]});
                if !expressions.contains(&expression) {
                    expressions.push(expression);
                }
            }
            expressions
        };
        let mut preferred = Vec::new();
        for term in list(&spec["preferredPersistentTopology"])
            .iter()
            .take(TERMS)
        {
            let mut expressions = topology(&term["preference"]);
            expressions.retain(is_possible);
            if !expressions.is_empty() {
                let weight = term["weight"].as_i64().unwrap_or_default().clamp(1, 100);
                preferred.push(
                    json!({"weight": weight, "preference": {"matchExpressions": expressions}}),
                );
            }
        }
        let annotations = list(&spec["persistentPodAnnotations"])
            .iter()
            .take(ANNOTATIONS);
        let annotations = annotations.filter_map(|annotation| {
            let key = annotation.as_str().or_else(|| annotation["key"].as_str())?;
            let value = state["annotations"][key]
                .as_str()
                .filter(|value| !value.is_empty())?;
            (is_annotation_key(key) && !is_never_injected(key))
                .then(|| (key.to_owned(), value.to_owned()))
        });
        Self {
            name: name.to_owned(),
            required: topology(&spec["requiredPersistentTopology"]),
            preferred,
            annotations: annotations.collect(),
        }
    }

    /// The same, without the annotations that the settings forbid.
    #[must_use]
    pub fn without(mut self, is_forbidden: impl Fn(&str) -> bool) -> Self {
        self.annotations.retain(|key, _| !is_forbidden(key));
        self
    }

    /// Panics unless `after` is `before` plus what was recorded: all of it, and nothing else.
    pub fn judge(&self, before: &Value, after: &Value) {
        let mut additions = Vec::new();
        if let Err(path) = walk(before, after, &mut Vec::new(), &mut additions) {
            panic!("{} was changed\n{before}\n{after}", path.join("/"));
        }
        for (path, value) in &additions {
            assert!(
                self.allows(before, path, value),
                "{}: {value}\n{before}\n{after}",
                path.join("/")
            );
        }
        let is_marker = |path: &[&str]| path == ["metadata", "annotations", MARKER];
        let others = additions
            .iter()
            .filter(|(path, _)| !is_marker(path))
            .count();
        let marker = &after["metadata"]["annotations"][MARKER];
        assert!(
            others == 0 || marker == self.name.as_str(),
            "no marker\n{after}"
        );
        assert!(
            others > 0 || before == after,
            "a marker and nothing else\n{after}"
        );
        self.assert_complete(after);
    }

    fn allows(&self, before: &Value, path: &[&str], value: &Value) -> bool {
        match path {
            ["metadata", "annotations", MARKER] => value == self.name.as_str(),
            ["metadata", "annotations", key] => self
                .annotations
                .get(*key)
                .is_some_and(|recorded| value == recorded.as_str()),
            ["spec", "affinity", "nodeAffinity", REQUIRED, path @ ..] => match path {
                ["nodeSelectorTerms", "+"] => {
                    before["spec"]["affinity"]["nodeAffinity"][REQUIRED].is_null()
                        && !self.required.is_empty()
                        && *value == json!({"matchExpressions": self.required})
                }
                ["nodeSelectorTerms", _, "matchExpressions", "+"] => self.required.contains(value),
                _ => false,
            },
            ["spec", "affinity", "nodeAffinity", PREFERRED, "+"] => self.preferred.contains(value),
            _ => false,
        }
    }

    fn assert_complete(&self, pod: &Value) {
        assert!(
            self.required.iter().all(is_possible),
            "it requires what no node has\n{pod}"
        );
        let node_affinity = &pod["spec"]["affinity"]["nodeAffinity"];
        if !self.required.is_empty() {
            let required = &node_affinity[REQUIRED];
            assert!(!required.is_null(), "not pinned\n{pod}");
            for term in list(&required["nodeSelectorTerms"]) {
                let expressions = list(&term["matchExpressions"]);
                let is_empty = expressions.is_empty() && list(&term["matchFields"]).is_empty();
                let is_narrowed = || self.required.iter().all(|one| expressions.contains(one));
                assert!(
                    is_empty || is_narrowed(),
                    "a term lacks a requirement: {term}\n{pod}"
                );
            }
        }
        for preference in &self.preferred {
            assert!(
                list(&node_affinity[PREFERRED]).contains(preference),
                "{preference} is missing\n{pod}"
            );
        }
        for key in self.annotations.keys() {
            assert!(
                pod["metadata"]["annotations"].get(key).is_some(),
                "{key} is missing\n{pod}"
            );
        }
    }
}

/// Whether a node can have the label that an expression asks for.
fn is_possible(expression: &Value) -> bool {
    let is_word = |text: &str| {
        let is_end = |end: Option<char>| end.is_some_and(|end| end.is_ascii_alphanumeric());
        let is_inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        text.len() <= 63
            && is_end(text.chars().next())
            && is_end(text.chars().next_back())
            && text.chars().all(is_inner)
    };
    let is_domain = |domain: &str| {
        let is_label = |label: &str| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        };
        domain.len() <= 253 && domain.split('.').all(is_label)
    };
    let key = expression["key"].as_str().unwrap_or_default();
    let value = expression["values"][0].as_str().unwrap_or_default();
    let is_key = match key.split_once('/') {
        Some((domain, name)) => is_domain(domain) && is_word(name),
        None => is_word(key),
    };
    is_key && (value.is_empty() || is_word(value))
}

/// The items of a list; none for any other value.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

type Additions<'a> = Vec<(Vec<&'a str>, Value)>;

/// Finds what was added to a value: scalars, empty objects and lists, and items at the end of
/// lists, whose path is `+`. A null that became an object or a list counts as an empty one.
///
/// The error is the path of a value that was removed or replaced.
fn walk<'a>(
    before: &'a Value,
    after: &'a Value,
    path: &mut Vec<&'a str>,
    additions: &mut Additions<'a>,
) -> Result<(), Vec<String>> {
    const INDICES: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
    let broken = |path: &[&str]| Err(path.iter().map(ToString::to_string).collect());
    let is_marker = path.as_slice() == ["metadata", "annotations", MARKER];
    match (before, after) {
        _ if before == after => Ok(()),
        // The marker is the only value that may be replaced.
        (_, Value::String(_)) if is_marker => {
            additions.push((path.clone(), after.clone()));
            Ok(())
        }
        (Value::Null | Value::Object(_), Value::Object(after)) if !after.is_empty() => {
            let before = before.as_object();
            if let Some((field, _)) = before
                .into_iter()
                .flatten()
                .find(|(field, _)| !after.contains_key(*field))
            {
                path.push(field);
                return broken(path);
            }
            for (field, value) in after {
                path.push(field);
                match before.and_then(|before| before.get(field)) {
                    Some(other) => walk(other, value, path, additions)?,
                    None if value.is_null() => return broken(path),
                    None => walk(&Value::Null, value, path, additions)?,
                }
                path.pop();
            }
            Ok(())
        }
        (Value::Null | Value::Array(_), Value::Array(after)) if !after.is_empty() => {
            let before = list(before);
            if before.len() > after.len() {
                return broken(path);
            }
            for (index, (value, other)) in before.iter().zip(after).enumerate() {
                path.push(INDICES.get(index).copied().unwrap_or("n"));
                walk(value, other, path, additions)?;
                path.pop();
            }
            for value in &after[before.len()..] {
                path.push("+");
                additions.push((path.clone(), value.clone()));
                path.pop();
            }
            Ok(())
        }
        (Value::Null, _) => {
            additions.push((path.clone(), after.clone()));
            Ok(())
        }
        _ => broken(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Recorded {
        let spec = json!({
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone", "rack"]},
            "persistentPodAnnotations": ["ip"],
        });
        Recorded::read(
            "p",
            &spec,
            &json!({"nodeTopologyLabels": {"zone": "a"}, "annotations": {"ip": "1"}}),
        )
    }

    fn passes(before: &Value, after: &Value) -> bool {
        std::panic::catch_unwind(|| recorded().judge(before, after)).is_ok()
    }

    #[test]
    fn rejects_lost_fields_wrong_markers_and_wider_terms() {
        let ours = json!({"key": "zone", "operator": "In", "values": ["a"]});
        let pod = |terms: Value, marker: &str| {
            json!({
                "metadata": {"annotations": {"ip": "1", "kruise.io/injected-persistent-pod-state": marker}},
                "spec": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}},
            })
        };
        let good = pod(json!([{"matchExpressions": [ours]}]), "p");
        let bare = json!({"metadata": {}, "spec": {"affinity": null}});
        assert!(passes(&bare, &good));
        assert!(passes(&good, &good));
        assert!(!passes(&bare, &bare), "nothing was injected");
        assert!(
            !passes(&bare, &pod(json!([{"matchExpressions": [ours]}]), "q")),
            "another marker"
        );
        assert!(!passes(&bare, &pod(json!([{}]), "p")), "an empty term");
        assert!(
            !passes(
                &bare,
                &pod(json!([{"matchExpressions": [ours, ours]}, {}]), "p")
            ),
            "two terms"
        );
        let own = json!({"metadata": {}, "spec": {"image": 1, "affinity": null}});
        assert!(!passes(&own, &good), "a field is lost");
        let other = json!({"key": "disk", "operator": "Exists"});
        let mut wide = good.clone();
        wide["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"][0]["matchExpressions"] =
            json!([other]);
        let mut widened = wide.clone();
        widened["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] =
            json!([{"matchExpressions": [other]}, {"matchExpressions": [ours]}]);
        assert!(
            !passes(&wide, &widened),
            "a term was added beside existing ones"
        );
    }
}
