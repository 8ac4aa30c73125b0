//! Errors in words that repeat nothing of what was sent: that may be secret.

use std::error::Error;
use std::io;

/// The innermost error: the outer ones only say that a request failed. An `io::Error` does not
/// report the error that it wraps as its source.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let wrapped = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    let next = wrapped
        .map(|wrapped| wrapped as &(dyn Error + 'static))
        .or_else(|| error.source());
    next.map_or_else(|| error.to_string(), root_cause)
}

/// Describes an error of JSON without the values that it complains about.
pub fn describe_json(error: &serde_json::Error) -> String {
    const NAMES_A_VALUE: [&str; 4] = [
        "invalid type: ",
        "invalid value: ",
        "invalid length ",
        "unknown variant ",
    ];
    const NAMES_ONLY_FIELDS: [&str; 2] = ["missing field ", "duplicate field "];
    let text = error.to_string();
    let begins_with = |starts: &[&str]| starts.iter().any(|start| text.starts_with(start));
    match text.rfind("expected ") {
        // What was expected comes last.
        Some(start) if begins_with(&NAMES_A_VALUE) => text[start..].to_owned(),
        _ if !error.is_data() || begins_with(&NAMES_ONLY_FIELDS) => text,
        _ => format!(
            "invalid value at line {} column {}",
            error.line(),
            error.column()
        ),
    }
}

#[cfg(test)]
mod tests {
    use pps_core::Spec;
    use serde_json::from_str;

    use super::*;

    #[test]
    fn an_error_says_what_was_expected_and_not_what_was_there() {
        for (text, expected) in [
            (
                r#"{"targetRef": "hunter2, expected hunter2"}"#,
                "expected struct TargetReference",
            ),
            (
                r#"{"targetRef": {"apiVersion": "hunter2"}}"#,
                "missing field `kind`",
            ),
            (
                r#"{"targetRef": {"apiVersion": "v", "kind": "k", "name": "n"}, "persistentPodAnnotations": "hunter2"}"#,
                "expected a sequence",
            ),
            (r#"{"targetRef": hunter2}"#, "expected value"),
        ] {
            let error = describe_json(&from_str::<Spec>(text).unwrap_err());
            assert!(
                error.starts_with(expected) && !error.contains("hunter2"),
                "{error}"
            );
        }
        let custom: serde_json::Error =
            serde::de::Error::custom("cannot use hunter2, expected better");
        assert_eq!(describe_json(&custom), "invalid value at line 0 column 0");
    }
}
