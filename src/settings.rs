//! What an administrator can choose.

use std::collections::BTreeMap;

use pps_core::annotations::{AnnotationRules, Pattern, is_never_injected};
use pps_core::to_text;
use serde_json::Value;

/// The policy's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// What becomes of a Pod whose PersistentPodState cannot be read.
    pub on_lookup_failure: OnLookupFailure,
    /// How the PersistentPodState of a Pod is found.
    pub lookup: Lookup,
    /// Which annotations a PersistentPodState may name, and a Pod may be given.
    pub annotations: AnnotationRules,
}

/// What becomes of a Pod whose PersistentPodState cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLookupFailure {
    /// It is refused. The workload's controller tries again, and a Pod with data on a node is not
    /// started on another one.
    #[default]
    Reject,
    /// It starts without its state, with a warning.
    Accept,
}

/// How the PersistentPodState of a Pod is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookup {
    /// By the name of the Pod's owner, then among all of the namespace.
    #[default]
    Full,
    /// By the name of the Pod's owner only: for clusters that use generated objects only.
    ByName,
}

impl Settings {
    /// Reads settings from JSON. Nothing, `null` and `{}` mean the defaults.
    ///
    /// # Errors
    ///
    /// A sentence for people that names every field that is wrong, its value and what it may be.
    pub fn parse(json: &str) -> Result<Self, String> {
        let fields: Option<BTreeMap<String, Value>> = serde_json::from_str(json).map_err(|error| {
            format!("the settings must be an object, such as {{\"lookup\": \"full\"}}: {error}")
        })?;
        let mut settings = Self::default();
        let mut errors = Vec::new();
        for (field, value) in fields.iter().flatten().filter(|(_, value)| !value.is_null()) {
            match (field.as_str(), value.as_str()) {
                ("onLookupFailure", Some("reject")) => settings.on_lookup_failure = OnLookupFailure::Reject,
                ("onLookupFailure", Some("accept")) => settings.on_lookup_failure = OnLookupFailure::Accept,
                ("onLookupFailure", _) => errors.push(not_one_of(field, value, "\"reject\" or \"accept\"")),
                ("lookup", Some("full")) => settings.lookup = Lookup::Full,
                ("lookup", Some("byName")) => settings.lookup = Lookup::ByName,
                ("lookup", _) => errors.push(not_one_of(field, value, "\"full\" or \"byName\"")),
                ("annotations", _) => settings.annotations = annotation_rules(value, &mut errors),
                _ => errors.push(unknown(
                    field,
                    "settings.onLookupFailure, settings.lookup and settings.annotations",
                )),
            }
        }
        if errors.is_empty() { Ok(settings) } else { Err(errors.join("; ")) }
    }
}

/// Reads the lists of what is allowed and denied; what is wrong is added to the errors.
fn annotation_rules(value: &Value, errors: &mut Vec<String>) -> AnnotationRules {
    let mut rules = AnnotationRules::default();
    let Some(lists) = value.as_object() else {
        errors.push(not_one_of("annotations", value, "an object with the lists allow and deny"));
        return rules;
    };
    for (list, value) in lists.iter().filter(|(_, value)| !value.is_null()) {
        let path = format!("annotations.{list}");
        let patterns = match list.as_str() {
            "allow" => rules.allow.get_or_insert_default(),
            "deny" => &mut rules.deny,
            _ => {
                errors.push(unknown(&path, "settings.annotations.allow and settings.annotations.deny"));
                continue;
            }
        };
        let Some(items) = value.as_array() else {
            errors.push(not_one_of(&path, value, "a list of annotation keys"));
            continue;
        };
        for (index, item) in items.iter().enumerate() {
            let text = item.as_str().unwrap_or_default();
            let remedy = match Pattern::parse(text) {
                Some(_) if list == "allow" && is_never_injected(text) => {
                    "no setting can allow it, since whoever writes it trusts it; remove it"
                }
                Some(pattern) => {
                    patterns.push(pattern);
                    continue;
                }
                None => {
                    "use the key of an annotation, or the start of keys with one * at its end, such as cni.projectcalico.org/*"
                }
            };
            errors.push(format!("settings.{path}[{index}] is {}: {remedy}", to_text(item)));
        }
    }
    rules
}

fn unknown(field: &str, known: &str) -> String {
    format!("settings.{field} is unknown: remove it; there are only {known}")
}

fn not_one_of(field: &str, value: &Value, choices: &str) -> String {
    let value = to_text(value);
    format!("settings.{field} is {value}: set it to {choices}, or leave it out")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_means_the_defaults() {
        for json in
            ["null", "{}", r#"{"lookup": null}"#, r#"{"lookup": "full", "onLookupFailure": "reject"}"#]
        {
            assert_eq!(Settings::parse(json), Ok(Settings::default()), "{json}");
        }
    }

    #[test]
    fn choices_are_read() {
        let settings = Settings::parse(r#"{"lookup": "byName", "onLookupFailure": "accept"}"#);
        let expected = Settings {
            on_lookup_failure: OnLookupFailure::Accept,
            lookup: Lookup::ByName,
            ..Settings::default()
        };
        assert_eq!(settings, Ok(expected));
    }

    #[test]
    fn lists_are_read() {
        let rules =
            |json: &str| Settings::parse(&format!(r#"{{"annotations": {json}}}"#)).unwrap().annotations;
        let pattern = |text: &str| Pattern::parse(text).unwrap();
        for nothing in ["null", "{}", r#"{"allow": null, "deny": null}"#, r#"{"deny": []}"#] {
            assert_eq!(rules(nothing), AnnotationRules::default(), "{nothing}");
        }
        let nothing_at_all = AnnotationRules { allow: Some(Vec::new()), deny: Vec::new() };
        assert_eq!(rules(r#"{"allow": []}"#), nothing_at_all);
        assert_eq!(
            rules(r#"{"allow": ["a", "example.io/*"], "deny": ["*", "ovn.kubernetes.io/allocated"]}"#),
            AnnotationRules {
                allow: Some(vec![pattern("a"), pattern("example.io/*")]),
                deny: vec![pattern("*"), pattern("ovn.kubernetes.io/allocated")],
            }
        );
    }

    #[test]
    fn every_mistake_in_the_lists_is_named_at_once() {
        let told = Settings::parse(
            r#"{"annotations": {
                "allow": ["", "a*b", 7, "good", "ovn.kubernetes.io/allocated", "cni.projectcalico.org/*"],
                "deny": "a", "forbid": []
            }}"#,
        )
        .unwrap_err();
        let remedy = "use the key of an annotation, or the start of keys with one * at its end, such as cni.projectcalico.org/*";
        let expected = [
            format!(r#"settings.annotations.allow[0] is "": {remedy}"#),
            format!(r#"settings.annotations.allow[1] is "a*b": {remedy}"#),
            format!("settings.annotations.allow[2] is 7: {remedy}"),
            r#"settings.annotations.allow[4] is "ovn.kubernetes.io/allocated": no setting can allow it, since whoever writes it trusts it; remove it"#.into(),
            r#"settings.annotations.deny is "a": set it to a list of annotation keys, or leave it out"#.into(),
            "settings.annotations.forbid is unknown: remove it; there are only settings.annotations.allow and settings.annotations.deny".into(),
        ];
        assert_eq!(told, expected.join("; "));
        assert_eq!(
            Settings::parse(r#"{"annotations": ["a"]}"#).unwrap_err(),
            r#"settings.annotations is ["a"]: set it to an object with the lists allow and deny, or leave it out"#
        );
    }

    #[test]
    fn every_mistake_is_named_at_once() {
        assert_eq!(
            Settings::parse(r#"{"lookup": "ByName", "onLookupFailure": true, "retries": 3}"#).unwrap_err(),
            "settings.lookup is \"ByName\": set it to \"full\" or \"byName\", or leave it out; \
             settings.onLookupFailure is true: set it to \"reject\" or \"accept\", or leave it out; \
             settings.retries is unknown: remove it; there are only settings.onLookupFailure, settings.lookup and settings.annotations"
        );
        for json in ["[]", "3", "", "{"] {
            assert!(
                Settings::parse(json).unwrap_err().starts_with("the settings must be an object"),
                "{json}"
            );
        }
    }
}
