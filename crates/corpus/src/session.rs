//! A case as a session for `kwctl run --replay-host-capabilities-interactions`.
//!
//! kwctl compares whole requests, in order, and answers from the session. It applies no field masks:
//! [`FakeHost`](crate::FakeHost) has already applied them to the answers.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::Case;

/// The only operation in a session, and its YAML tag.
const GET: (&str, &str) = ("get_resource", "KubernetesGetResource");

/// One exchange of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The operation of the host call.
    pub operation: String,
    /// Its payload.
    pub payload: Value,
    /// The answer, or the error text without [`ERROR_PREFIX`].
    pub response: Result<String, String>,
}

/// What the host puts before an error text for the policy.
pub const ERROR_PREFIX: &str = "Callback evaluation failure: ";

impl Case {
    /// Whether kwctl can run this case. It refuses invalid settings before it runs the policy, which would
    /// answer them with 500.
    pub fn is_for_kwctl(&self) -> bool {
        self.expected.code != Some(500)
    }

    /// The host calls that the case expects, with their answers.
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
            ensure!(operation == GET.0, "{operation} is not {}", GET.0);
            write!(yaml, "- type: Exchange\n  request: |\n    !{}\n", GET.1)?;
            // JSON is valid YAML.
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
/// If the operation is unknown or `parse` fails.
pub fn read_request(
    request: &str,
    parse: impl FnOnce(&str) -> Result<Value>,
) -> Result<(&'static str, Value)> {
    let (tag, fields) = request.split_once('\n').unwrap_or((request, ""));
    ensure!(tag.strip_prefix('!') == Some(GET.1), "unknown request {tag:?}");
    Ok((GET.0, parse(fields)?))
}
