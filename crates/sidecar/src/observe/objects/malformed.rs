//! What cannot be read, and why.

/// Why not even the name of an object can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

/// Describes an error without the values that it complains about.
pub fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let names_a_value = [
        "invalid type: ",
        "invalid value: ",
        "invalid length ",
        "unknown variant ",
    ];
    let names_only_fields = ["missing field ", "duplicate field "];
    let is_one_of = |starts: &[&str]| starts.iter().any(|start| text.starts_with(start));
    match text.rfind("expected ") {
        // What was expected comes last.
        Some(start) if is_one_of(&names_a_value) => text[start..].to_owned(),
        _ if !error.is_data() || is_one_of(&names_only_fields) => text,
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
            let error = describe(&from_str::<Spec>(text).unwrap_err());
            assert!(
                error.starts_with(expected) && !error.contains("hunter2"),
                "{error}"
            );
        }
        let custom: serde_json::Error =
            serde::de::Error::custom("cannot use hunter2, expected better");
        assert_eq!(describe(&custom), "invalid value at line 0 column 0");
    }
}
