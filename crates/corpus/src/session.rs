//! A case as a session that `kwctl run --replay-host-capabilities-interactions` plays back.
//!
//! kwctl compares whole requests, in order, and answers with what the session holds. Nothing masks
//! here: the answers are those of [`FakeHost`](crate::FakeHost), which has done so.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::Value;

use crate::Case;

/// What each operation is called in a session.
const TAGS: [(&str, &str); 2] = [
    ("get_resource", "KubernetesGetResource"),
    ("list_resources_by_namespace", "KubernetesListResourceNamespace"),
];

/// One exchange of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The operation of the host call.
    pub operation: String,
    /// Its payload.
    pub payload: Value,
    /// The answer, or the error as the host has it before it goes to the policy.
    pub response: Result<String, String>,
}

/// What the host puts before an error for the policy.
pub const ERROR_PREFIX: &str = "Callback evaluation failure: ";

impl Case {
    /// Whether kwctl can run this case: it refuses settings that the policy calls wrong, which otherwise
    /// are answered with 500.
    pub fn is_for_kwctl(&self) -> bool {
        self.expected.code != Some(500)
    }

    /// The host calls that the case expects, with what the host answers.
    pub fn exchanges(&self) -> Vec<Exchange> {
        let host = self.host();
        let calls = self.expected_calls().into_iter();
        calls
            .map(|(operation, payload)| {
                let response = host.call(&operation, &payload.to_string()).map_err(|error| {
                    let text = error.strip_prefix(ERROR_PREFIX).unwrap_or(&error);
                    text.split("\n\nStack backtrace").next().unwrap_or_default().to_owned()
                });
                Exchange { operation, payload, response }
            })
            .collect()
    }

    /// The session in YAML.
    pub fn session(&self) -> Result<String> {
        let mut yaml = format!(
            "# Generated from testdata/cases/{}: do not edit.\n# {}\n# To update it: UPDATE=1 cargo test -p pps-e2e --test sessions\n",
            self.name, self.expected.about
        );
        let exchanges = self.exchanges();
        if exchanges.is_empty() {
            yaml.push_str("[]\n");
        }
        for Exchange { operation, payload, response } in exchanges {
            let tag = TAGS.iter().find(|(name, _)| *name == operation).map_or("", |(_, tag)| tag);
            write!(yaml, "- type: Exchange\n  request: |\n    !{tag}\n")?;
            // JSON is YAML, too.
            for (field, value) in payload.as_object().into_iter().flatten() {
                writeln!(yaml, "    {field}: {value}")?;
            }
            match response {
                Ok(answer) => {
                    let quoted = answer.replace('\'', "''");
                    write!(yaml, "  response:\n    type: Success\n    payload: '{quoted}'\n")?;
                }
                Err(error) => {
                    let quoted = Value::from(error);
                    write!(yaml, "  response:\n    type: Error\n    message: {quoted}\n")?;
                }
            }
        }
        Ok(yaml)
    }
}

/// Reads the operation and the payload of a request in a session; `parse` reads YAML.
///
/// # Errors
///
/// When the text is no request that a session of ours holds.
pub fn read_request(
    request: &str,
    parse: impl FnOnce(&str) -> Result<Value>,
) -> Result<(&'static str, Value)> {
    let (tag, fields) = request.split_once('\n').unwrap_or((request, ""));
    let known = TAGS.iter().find(|(_, name)| tag.strip_prefix('!') == Some(name));
    let (operation, _) = known.ok_or_else(|| anyhow::anyhow!("unknown request {tag:?}"))?;
    Ok((operation, parse(fields)?))
}
