//! The policy's settings.

mod error;

use std::collections::BTreeMap;

use pps_core::annotations::{AnnotationRules, Pattern, is_never_injected};
use pps_core::to_text;
use serde_json::Value;

pub use error::{Cause, FieldError, SettingsError};

/// The policy's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// What happens to a Pod whose PersistentPodState cannot be read.
    pub on_lookup_failure: OnLookupFailure,
    /// Which annotations a PersistentPodState may name and a Pod may get.
    pub annotations: AnnotationRules,
}

/// What happens to a Pod whose PersistentPodState cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLookupFailure {
    /// It is rejected. The workload's controller tries again, and a Pod with data on a node does
    /// not start on another one.
    #[default]
    Reject,
    /// It starts without its recorded state, with a warning.
    Accept,
}

impl Settings {
    /// Reads settings from JSON. `null` and `{}` mean the defaults.
    pub fn parse(json: &str) -> Result<Self, SettingsError> {
        let fields: Option<BTreeMap<String, Value>> = serde_json::from_str(json)
            .map_err(|error| SettingsError::NotAnObject(error.to_string()))?;
        let mut settings = Self::default();
        let mut errors = Vec::new();
        for (field, value) in fields
            .iter()
            .flatten()
            .filter(|(_, value)| !value.is_null())
        {
            match (field.as_str(), value.as_str()) {
                ("onLookupFailure", Some("reject")) => {
                    settings.on_lookup_failure = OnLookupFailure::Reject;
                }
                ("onLookupFailure", Some("accept")) => {
                    settings.on_lookup_failure = OnLookupFailure::Accept;
                }
                ("onLookupFailure", _) => {
                    errors.push(wrong(
                        field,
                        value,
                        Cause::NotOneOf("\"reject\" or \"accept\""),
                    ));
                }
                ("annotations", _) => {
                    settings.annotations = read_annotation_rules(value, &mut errors);
                }
                _ => {
                    let known = ["onLookupFailure", "annotations"];
                    errors.push(wrong(field, value, Cause::Unknown(known)));
                }
            }
        }
        if errors.is_empty() {
            Ok(settings)
        } else {
            Err(SettingsError::Fields(errors))
        }
    }
}

/// Reads the lists of allowed and denied annotations; adds what is wrong to the errors.
fn read_annotation_rules(value: &Value, errors: &mut Vec<FieldError>) -> AnnotationRules {
    let mut rules = AnnotationRules::default();
    let Some(lists) = value.as_object() else {
        errors.push(wrong(
            "annotations",
            value,
            Cause::NotOneOf("an object with the lists allow and deny"),
        ));
        return rules;
    };
    for (list, value) in lists.iter().filter(|(_, value)| !value.is_null()) {
        let path = format!("annotations.{list}");
        let patterns = match list.as_str() {
            "allow" => rules.allow.get_or_insert_default(),
            "deny" => &mut rules.deny,
            _ => {
                let known = ["annotations.allow", "annotations.deny"];
                errors.push(wrong(&path, value, Cause::Unknown(known)));
                continue;
            }
        };
        let Some(items) = value.as_array() else {
            errors.push(wrong(
                &path,
                value,
                Cause::NotOneOf("a list of annotation keys"),
            ));
            continue;
        };
        for (index, item) in items.iter().enumerate() {
            let text = item.as_str().unwrap_or_default();
            let cause = match Pattern::parse(text) {
                Some(_) if list == "allow" && is_never_injected(text) => Cause::NeverInjected,
                Some(pattern) => {
                    patterns.push(pattern);
                    continue;
                }
                None => Cause::NotAPattern,
            };
            errors.push(wrong(&format!("{path}[{index}]"), item, cause));
        }
    }
    rules
}

fn wrong(path: &str, value: &Value, cause: Cause) -> FieldError {
    FieldError {
        path: path.to_owned(),
        value: to_text(value),
        cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_empty_settings_are_the_defaults() {
        for json in [
            "null",
            "{}",
            r#"{"annotations": null}"#,
            r#"{"onLookupFailure": "reject"}"#,
        ] {
            assert_eq!(Settings::parse(json), Ok(Settings::default()), "{json}");
        }
    }

    #[test]
    fn reads_on_lookup_failure() {
        let settings = Settings::parse(r#"{"onLookupFailure": "accept"}"#);
        let expected = Settings {
            on_lookup_failure: OnLookupFailure::Accept,
            ..Settings::default()
        };
        assert_eq!(settings, Ok(expected));
    }

    #[test]
    fn reads_the_lists_of_annotations() {
        let rules = |json: &str| {
            Settings::parse(&format!(r#"{{"annotations": {json}}}"#))
                .unwrap()
                .annotations
        };
        let pattern = |text: &str| Pattern::parse(text).unwrap();
        for nothing in [
            "null",
            "{}",
            r#"{"allow": null, "deny": null}"#,
            r#"{"deny": []}"#,
        ] {
            assert_eq!(rules(nothing), AnnotationRules::default(), "{nothing}");
        }
        let allow_none = AnnotationRules {
            allow: Some(Vec::new()),
            deny: Vec::new(),
        };
        assert_eq!(rules(r#"{"allow": []}"#), allow_none);
        assert_eq!(
            rules(
                r#"{"allow": ["a", "example.io/*"], "deny": ["*", "ovn.kubernetes.io/allocated"]}"#
            ),
            AnnotationRules {
                allow: Some(vec![pattern("a"), pattern("example.io/*")]),
                deny: vec![pattern("*"), pattern("ovn.kubernetes.io/allocated")],
            }
        );
    }

    #[test]
    fn reports_all_errors_in_the_lists_at_once() {
        let error = Settings::parse(
            r#"{"annotations": {
                "allow": ["", "a*b", 7, "good", "ovn.kubernetes.io/allocated", "cni.projectcalico.org/*"],
                "deny": "a", "forbid": []
            }}"#,
        )
        .unwrap_err();
        let remedy =
            "use an annotation key, or a prefix that ends in *, such as cni.projectcalico.org/*";
        let expected = [
            format!(r#"settings.annotations.allow[0] is "": {remedy}"#),
            format!(r#"settings.annotations.allow[1] is "a*b": {remedy}"#),
            format!("settings.annotations.allow[2] is 7: {remedy}"),
            r#"settings.annotations.allow[4] is "ovn.kubernetes.io/allocated": remove it; it can never be allowed (its writer treats it as its own state)"#.into(),
            r#"settings.annotations.deny is "a": set it to a list of annotation keys, or remove it"#.into(),
            "settings.annotations.forbid is unknown: use settings.annotations.allow or settings.annotations.deny, or remove it".into(),
        ];
        assert_eq!(error.to_string(), expected.join("; "));
        assert_eq!(
            Settings::parse(r#"{"annotations": ["a"]}"#)
                .unwrap_err()
                .to_string(),
            r#"settings.annotations is ["a"]: set it to an object with the lists allow and deny, or remove it"#
        );
    }

    #[test]
    fn reports_all_errors_at_once() {
        assert_eq!(
            Settings::parse(r#"{"lookup": "full", "onLookupFailure": true}"#)
                .unwrap_err()
                .to_string(),
            "settings.lookup is unknown: use settings.onLookupFailure or settings.annotations, or \
             remove it; settings.onLookupFailure is true: set it to \"reject\" or \"accept\", or \
             remove it"
        );
        for json in ["[]", "3", "", "{"] {
            let error = Settings::parse(json).unwrap_err().to_string();
            assert!(
                error.starts_with("the settings must be an object"),
                "{json}: {error}"
            );
        }
    }
}
