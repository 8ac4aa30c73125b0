//! What is wrong with an object or an action.

use pps_core::shorten;
use serde_json::Value;

use crate::result::Severity;

/// How many names a remedy lists.
const MAX_LISTED: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The field, such as `spec.replicas`; none if it is about the whole object.
    pub field: Option<String>,
    pub severity: Severity,
    pub message: String,
}

impl Finding {
    pub(crate) fn error(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: Some(field.into()),
            severity: Severity::Error,
            message: message.into(),
        }
    }

    pub(crate) fn warning(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(field, message)
        }
    }

    pub(crate) fn of_all(message: impl Into<String>) -> Self {
        Self {
            field: None,
            severity: Severity::Error,
            message: message.into(),
        }
    }

    pub(crate) fn wrong(field: &str, value: &Value, remedy: &str) -> Self {
        let message = match value {
            Value::Null => format!("{field} is missing: {remedy}"),
            value => format!("{field} is {}: {remedy}", shorten(&value.to_string())),
        };
        Self::error(field, message)
    }
}

impl From<Finding> for Vec<Finding> {
    fn from(finding: Finding) -> Self {
        vec![finding]
    }
}

pub(crate) fn unknown<'a>(
    kind: &str,
    name: &str,
    known: impl Iterator<Item = &'a String>,
) -> Finding {
    let known: Vec<&str> = known.map(String::as_str).take(MAX_LISTED).collect();
    let remedy = match known.as_slice() {
        [] if kind == "Pod" => "no Pod exists in this step; roll out first".to_owned(),
        [] => format!("no {kind}s exist in this step"),
        known => format!("use {}", known.join(" or ")),
    };
    Finding::of_all(format!("there is no {kind} {}: {remedy}", shorten(name)))
}
