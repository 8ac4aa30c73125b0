//! Which nodes a pending Pod's required affinity excludes.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer};

use crate::limits::{MAX_KEPT_AFFINITY_BYTES, MAX_KEPT_AFFINITY_ITEMS};

/// The part of a Pod's required node affinity that lists values of node labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredAffinity {
    /// The requirements of each node selector term. A node must match all requirements of at least
    /// one term.
    terms: Vec<Vec<Requirement>>,
}

/// `key In values`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    values: Vec<String>,
}

/// Reads a Pod's `spec.affinity`. A field that is missing or `null` counts as empty.
impl<'de> Deserialize<'de> for RequiredAffinity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Affinity {
            node_affinity: Option<NodeAffinity>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct NodeAffinity {
            #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
            required: Option<NodeSelector>,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct NodeSelector {
            node_selector_terms: Option<Vec<Term>>,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Term {
            match_expressions: Option<Vec<Expression>>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Expression {
            key: String,
            operator: String,
            values: Option<Vec<String>>,
        }
        impl Term {
            fn requirements(self) -> Vec<Requirement> {
                let expressions = self.match_expressions.unwrap_or_default();
                expressions
                    .into_iter()
                    .filter(|expression| expression.operator == "In")
                    .map(|expression| Requirement {
                        key: expression.key,
                        values: expression.values.unwrap_or_default(),
                    })
                    .collect()
            }
        }
        let affinity = Option::<Affinity>::deserialize(deserializer)?;
        let selector = affinity.and_then(|affinity| affinity.node_affinity?.required);
        let terms = selector
            .and_then(|selector| selector.node_selector_terms)
            .unwrap_or_default();
        Ok(Self {
            terms: terms.into_iter().map(Term::requirements).collect(),
        })
    }
}

impl RequiredAffinity {
    /// Whether the Pod requires nothing of its node.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether it is so large that it cannot be kept.
    pub fn exceeds_limits(&self) -> bool {
        let mut items = self.terms.len();
        let mut bytes = 0;
        for Requirement { key, values } in self.terms.iter().flatten() {
            items += 1 + values.len();
            bytes += key.len() + values.iter().map(String::len).sum::<usize>();
        }
        items > MAX_KEPT_AFFINITY_ITEMS || bytes > MAX_KEPT_AFFINITY_BYTES
    }

    /// Whether no term can match a node, because each one requires another value of one of these
    /// keys.
    ///
    /// The sidecar knows no other labels of a node, so a term without one of these keys counts as
    /// matching.
    pub fn exclude<'a>(&self, keys: &[&str], label: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.terms.is_empty()
            && self.terms.iter().all(|term| {
                term.iter().any(|Requirement { key, values }| {
                    keys.contains(&key.as_str())
                        && !label(key).is_some_and(|value| values.iter().any(|one| one == value))
                })
            })
    }

    /// Whether each term requires exactly this value of a label, as the policy injects it.
    pub fn requires(&self, key: &str, value: &str) -> bool {
        self.single_values(key).any(|single| single == value)
    }

    /// The values that every term requires as the only value of this label.
    pub fn single_values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let (first, others) = match self.terms.split_first() {
            Some((first, others)) => (first.as_slice(), others),
            None => (&[][..], &[][..]),
        };
        first
            .iter()
            .filter(move |one| one.values.len() == 1)
            .filter(move |one| others.iter().all(|term| term.contains(one)))
            .filter(move |one| one.key == key)
            .filter_map(|one| one.values.first().map(String::as_str))
    }

    /// Label selectors that together select every node which it does not [exclude](Self::exclude).
    pub fn node_selectors(&self, keys: &[&str]) -> BTreeSet<String> {
        self.terms
            .iter()
            .map(|term| label_selector(term, keys))
            .collect()
    }
}

fn label_selector(term: &[Requirement], keys: &[&str]) -> String {
    let named = term.iter().filter(|one| keys.contains(&one.key.as_str()));
    named
        .map(|one| format!("{} in ({})", one.key, one.values.join(",")))
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn affinity(terms: &Value) -> RequiredAffinity {
        let required =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        serde_json::from_value(json!({"nodeAffinity": required, "podAffinity": {"x": 1}})).unwrap()
    }

    fn excludes(terms: &Value, zone: Option<&'static str>) -> bool {
        affinity(terms).exclude(&["zone"], |key| zone.filter(|_| key == "zone"))
    }

    #[test]
    fn excludes_a_node_with_another_value_or_none() {
        let a = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]);
        assert!(!excludes(&a, Some("a")));
        assert!(excludes(&a, Some("b")));
        assert!(excludes(&a, None));
    }

    #[test]
    fn excludes_a_node_only_if_every_term_does() {
        let zone = |value: &str| json!({"key": "zone", "operator": "In", "values": [value]});
        let other = json!({"key": "disk", "operator": "In", "values": ["ssd"]});
        let both =
            json!([{"matchExpressions": [other, zone("a")]}, {"matchExpressions": [zone("a")]}]);
        assert!(excludes(&both, Some("b")));
        let either = json!([{"matchExpressions": [zone("a")]}, {"matchExpressions": [other]}]);
        assert!(
            !excludes(&either, Some("b")),
            "the second term does not require a zone"
        );
    }

    #[test]
    fn node_selectors_select_the_nodes_that_are_not_excluded() {
        let is_in =
            |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
        let term = |expressions: &[Value]| json!({"matchExpressions": expressions});
        let zone = is_in("zone", &["a", "b"]);
        let terms = json!([
            term(&[zone.clone(), is_in("host", &["n"])]),
            term(&[is_in("disk", &["ssd"]), zone.clone(), is_in("host", &["n"])]),
        ]);
        let selectors = affinity(&terms).node_selectors(&["zone", "host"]);
        assert_eq!(selectors, ["zone in (a,b),host in (n)".to_owned()].into());
    }

    #[test]
    fn a_value_is_required_if_every_term_requires_it_alone() {
        let is_in =
            |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
        let term = |expressions: &[Value]| json!({"matchExpressions": expressions});
        let [zone, disk] = [is_in("zone", &["a"]), is_in("disk", &["ssd"])];
        let both = json!([
            term(&[disk, zone.clone()]),
            term(std::slice::from_ref(&zone))
        ]);
        assert!(affinity(&both).requires("zone", "a"));
        assert!(!affinity(&both).requires("zone", "b"));
        assert!(
            !affinity(&both).requires("disk", "ssd"),
            "the other term does not"
        );
        let several = json!([term(&[is_in("zone", &["a", "b"])])]);
        assert!(!affinity(&several).requires("zone", "a"));
        assert!(!affinity(&json!([])).requires("zone", "a"));
    }

    #[test]
    fn is_too_large_with_too_many_terms_expressions_or_values_or_too_long_ones() {
        let zone = |values: &[&str]| json!({"key": "zone", "operator": "In", "values": values});
        let exceeds = |terms: &Value| affinity(terms).exceeds_limits();
        let term = |expressions: &[Value]| json!({"matchExpressions": expressions});
        assert!(!exceeds(&json!([term(&[zone(
            &["a"; MAX_KEPT_AFFINITY_ITEMS - 2]
        )])])));
        assert!(exceeds(&json!([term(&[zone(
            &["a"; MAX_KEPT_AFFINITY_ITEMS - 1]
        )])])));
        assert!(exceeds(&json!([term(&vec![
            zone(&[]);
            MAX_KEPT_AFFINITY_ITEMS
        ])])));
        assert!(exceeds(&json!(vec![
            term(&[]);
            MAX_KEPT_AFFINITY_ITEMS + 1
        ])));
        let long = "x".repeat(MAX_KEPT_AFFINITY_BYTES);
        assert!(exceeds(&json!([term(&[zone(&[&long])])])));
    }

    #[test]
    fn excludes_no_node_by_other_operators_keys_or_empty_terms() {
        let not_in = json!({"key": "zone", "operator": "NotIn", "values": ["b"]});
        let terms = [
            json!([]),
            json!(null),
            json!([{}]),
            json!([{"matchExpressions": null}]),
            json!([{"matchExpressions": [not_in]}]),
            json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]),
        ];
        for terms in terms {
            assert!(!excludes(&terms, Some("b")), "{terms}");
        }
        for affinity in [json!(null), json!({}), json!({"nodeAffinity": null})] {
            let affinity: RequiredAffinity = serde_json::from_value(affinity).unwrap();
            assert!(affinity.is_empty() && !affinity.exclude(&["zone"], |_| None));
        }
        let other_key =
            json!([{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]);
        assert!(
            !excludes(&other_key, Some("b")),
            "the node's labels are not known for this key"
        );
    }
}
