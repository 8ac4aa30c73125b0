//! Commands that only Chromium's driver has: the console, the network, and DevTools.

use fantoccini::wd::WebDriverCompatibleCommand;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use url::{ParseError, Url};

/// An entry of one of the browser's logs.
#[derive(Clone, Debug, Deserialize)]
pub struct LogEntry {
    /// `SEVERE`, `WARNING`, `INFO` or `DEBUG`.
    pub level: String,
    /// The text: of the network log, JSON.
    pub message: String,
    /// What wrote it: `console-api`, `security`, `network`, `javascript`.
    #[serde(default)]
    pub source: String,
}

impl LogEntry {
    /// Whether something is wrong: an exception, a request that failed, or something that the
    /// content security policy blocked.
    pub fn is_error(&self) -> bool {
        self.level == "SEVERE" || self.source == "security"
    }

    /// The URL of a request that begins, in the network log.
    pub(super) fn requested_url(&self) -> Option<String> {
        let event: Value = serde_json::from_str(&self.message).ok()?;
        let event = &event["message"];
        (event["method"] == "Network.requestWillBeSent").then(|| {
            event["params"]["request"]["url"]
                .as_str()
                .map(str::to_owned)
        })?
    }
}

fn of_session(base: &Url, session: Option<&str>, command: &str) -> Result<Url, ParseError> {
    base.join(&format!(
        "session/{}/{command}",
        session.unwrap_or_default()
    ))
}

/// Reads what is new in a log.
#[derive(Debug)]
pub(super) struct GetLog(pub(super) &'static str);

impl WebDriverCompatibleCommand for GetLog {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        of_session(base, session, "se/log")
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(json!({"type": self.0}).to_string()))
    }
}

/// Calls a method of the DevTools protocol.
#[derive(Debug)]
pub(super) struct DevTools {
    pub(super) method: String,
    pub(super) parameters: Value,
}

impl WebDriverCompatibleCommand for DevTools {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        of_session(base, session, "goog/cdp/execute")
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (
            Method::POST,
            Some(json!({"cmd": self.method, "params": self.parameters}).to_string()),
        )
    }
}
