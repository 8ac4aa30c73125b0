//! Whether a Pod that waits for a node can still get one.

use serde::{Deserialize, Deserializer};

/// The required node affinity of a Pod, as far as it pins the Pod to values of labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredAffinity {
    /// Of each node selector term, its requirements of the form `key In values`. A node has to match one
    /// term, and all that is in it.
    terms: Vec<Vec<(String, Vec<String>)>>,
}

/// Of a Pod's `spec.affinity` the part that is read. What is missing or `null` is empty.
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
        let affinity = Option::<Affinity>::deserialize(deserializer)?;
        let selector = affinity.and_then(|affinity| affinity.node_affinity?.required);
        let terms = selector.and_then(|selector| selector.node_selector_terms).unwrap_or_default();
        let pins = |term: Term| {
            let expressions = term.match_expressions.unwrap_or_default().into_iter();
            let pins = expressions.filter(|expression| expression.operator == "In");
            pins.map(|pin| (pin.key, pin.values.unwrap_or_default())).collect()
        };
        Ok(Self { terms: terms.into_iter().map(pins).collect() })
    }
}

impl RequiredAffinity {
    /// Whether nothing is required of a node.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether a node with these labels is out of the question: each term asks for another value of one
    /// of these keys. Of the node no other labels are known, so that nothing else counts; a term that
    /// says nothing about the keys is believed to match.
    pub fn exclude<'a>(&self, keys: &[&str], label: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.terms.is_empty()
            && self.terms.iter().all(|term| {
                term.iter().any(|(key, values)| {
                    keys.contains(&key.as_str())
                        && !label(key).is_some_and(|value| values.iter().any(|one| one == value))
                })
            })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pins(terms: &Value) -> RequiredAffinity {
        let required =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        serde_json::from_value(json!({"nodeAffinity": required, "podAffinity": {"x": 1}})).unwrap()
    }

    fn excludes(terms: &Value, zone: Option<&'static str>) -> bool {
        pins(terms).exclude(&["zone"], |key| zone.filter(|_| key == "zone"))
    }

    #[test]
    fn a_node_with_another_value_or_none_is_excluded() {
        let a = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]);
        assert!(!excludes(&a, Some("a")));
        assert!(excludes(&a, Some("b")));
        assert!(excludes(&a, None));
    }

    #[test]
    fn every_term_has_to_exclude_it() {
        let pin = |value: &str| json!({"key": "zone", "operator": "In", "values": [value]});
        let other = json!({"key": "disk", "operator": "In", "values": ["ssd"]});
        let both = json!([{"matchExpressions": [other, pin("a")]}, {"matchExpressions": [pin("a")]}]);
        assert!(excludes(&both, Some("b")));
        let either = json!([{"matchExpressions": [pin("a")]}, {"matchExpressions": [other]}]);
        assert!(!excludes(&either, Some("b")), "the second term says nothing about the zone");
    }

    #[test]
    fn in_doubt_no_node_is_excluded() {
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
            let pins: RequiredAffinity = serde_json::from_value(affinity).unwrap();
            assert!(pins.is_empty() && !pins.exclude(&["zone"], |_| None));
        }
        let of_others = json!([{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]);
        assert!(!excludes(&of_others, Some("b")), "not a key of which the labels are known");
    }
}
