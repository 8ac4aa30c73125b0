//! A case as a session for `kwctl run --replay-host-capabilities-interactions`.
//!
//! kwctl compares whole requests, in order, and answers from the session. It applies no field
//! masks: the corpus' host has already applied them to the answers.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use pps_corpus::Case;
use serde_json::Value;

/// The only operation in a session, and its YAML tag.
const GET: (&str, &str) = ("get_resource", "KubernetesGetResource");

/// What the host puts before an error text for the policy.
const ERROR_PREFIX: &str = "Callback evaluation failure: ";

/// Whether kwctl can run this case. It refuses invalid settings before it runs the policy, which
/// would answer them with 500.
pub(crate) fn is_for_kwctl(case: &Case) -> bool {
    case.expected.code != Some(500)
}

/// The session of a case in YAML: the host calls that it expects, with their answers.
pub(crate) fn session(case: &Case) -> Result<String> {
    let mut yaml = format!(
        "# Generated from testdata/cases/{}: do not edit.\n# {}\n# To update it: UPDATE=1 cargo \
         test -p pps-e2e --test sessions\n",
        case.name, case.expected.about
    );
    let (host, calls) = (case.host(), case.expected_calls());
    if calls.is_empty() {
        yaml.push_str("[]\n");
    }
    for (operation, payload) in calls {
        ensure!(operation == GET.0, "{operation} is not {}", GET.0);
        write!(yaml, "- type: Exchange\n  request: |\n    !{}\n", GET.1)?;
        // JSON is valid YAML.
        for (field, value) in payload.as_object().into_iter().flatten() {
            writeln!(yaml, "    {field}: {value}")?;
        }
        match host.call(&operation, &payload.to_string()) {
            Ok(answer) => {
                let quoted = answer.replace('\'', "''");
                write!(
                    yaml,
                    "  response:\n    type: Success\n    payload: '{quoted}'\n"
                )?;
            }
            Err(error) => {
                let text = error.strip_prefix(ERROR_PREFIX).unwrap_or(&error);
                let quoted =
                    Value::from(text.split("\n\nStack backtrace").next().unwrap_or_default());
                write!(
                    yaml,
                    "  response:\n    type: Error\n    message: {quoted}\n"
                )?;
            }
        }
    }
    Ok(yaml)
}
