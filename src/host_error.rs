//! What the host's error texts mean. A text is all that a policy gets of a failed host call.

use pps_core::pps::KIND;

/// How many characters of a text are kept.
const MAX_REASON: usize = 400;

/// The causes that lead to different answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HostError {
    /// The API server does not serve the kind in this version.
    KindNotServed,
    /// The policy's manifest does not grant the call.
    NotGranted(String),
    /// RBAC forbids the PolicyServer's request.
    Forbidden(String),
    /// Anything else.
    Other(String),
}

impl HostError {
    pub(crate) fn parse(text: &str, api_version: &str) -> Self {
        if is_kind_not_served(text, api_version) {
            return Self::KindNotServed;
        }
        let reason = shorten(text);
        if reason.contains("has not been granted access") {
            Self::NotGranted(reason)
        } else if reason.contains("forbidden") || reason.contains("Forbidden") {
            Self::Forbidden(reason)
        } else {
            Self::Other(reason)
        }
    }
}

/// Whether an object of this name does not exist.
pub(crate) fn is_not_found(text: &str, api_version: &str, name: &str) -> bool {
    strip_wrapping(text).starts_with(&format!("Cannot find {api_version}/{KIND} named '{name}'"))
}

/// Whether the API server itself says that it does not serve the kind: it listed the kinds of this version without
/// this one, or it has no such path. It answers that with this very page, which is no JSON: to the host's discovery,
/// or to the get of a host that cached the discovery before. Whatever else went wrong, such as the page of a proxy,
/// says nothing about the kind.
fn is_kind_not_served(text: &str, api_version: &str) -> bool {
    let text = strip_wrapping(text);
    if let Some(rest) = text.strip_prefix(&format!("Cannot find resource {api_version}/{KIND}")) {
        return rest.trim().is_empty();
    }
    let discovery = format!("error finding resource {api_version} / {KIND}: ");
    let text = text.strip_prefix(&discovery).unwrap_or(text);
    // Older hosts quote the page.
    ["ApiError: 404 page not found\n: ", "ApiError: \"404 page not found\\n\": "].iter().any(|page| {
        text.strip_prefix(page).is_some_and(|rest| {
            rest.starts_with("Failed to parse error data (") && rest.contains(" code: 404, ")
        })
    })
}

/// The text without what waPC puts before it, and without the backtrace after it.
fn strip_wrapping(text: &str) -> &str {
    let text = text.split_once("Callback evaluation failure: ").map_or(text, |(_, words)| words);
    text.split("Stack backtrace:").next().unwrap_or_default()
}

/// The text on one line, of bounded length.
fn shorten(text: &str) -> String {
    let line = strip_wrapping(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.trim_start_matches("Host error: ").trim_end_matches('.');
    match line.char_indices().nth(MAX_REASON) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1ALPHA1: &str = "apps.kruise.io/v1alpha1";

    fn parse(text: &str) -> HostError {
        HostError::parse(text, V1ALPHA1)
    }

    #[test]
    fn only_the_requested_object_can_be_not_found() {
        let text = "Host error: Callback evaluation failure: Cannot find apps.kruise.io/v1alpha1/PersistentPodState named 'web' inside of namespace 'Some(\"shop\")'\n\nStack backtrace:\n   0: anyhow";
        assert!(is_not_found(text, V1ALPHA1, "web"));
        assert!(!is_not_found(text, V1ALPHA1, "we"));
        assert!(!is_not_found(text, "apps.kruise.io/v1beta1", "web"));
        let in_backtrace = "timed out\n\nStack backtrace:\nCannot find apps.kruise.io/v1alpha1/PersistentPodState named 'web'";
        assert!(!is_not_found(in_backtrace, V1ALPHA1, "web"));
    }

    /// What the host says if the API server answers with this status and a body that is no JSON: to its discovery,
    /// and to a get.
    fn api_error(code: u16, body: &str) -> [String; 2] {
        let error = format!(
            "ApiError: {body}: Failed to parse error data (Status {{ status: Some(Failure), code: {code}, \
             message: {body:?}, metadata: None, reason: \"Failed to parse error data\", details: None }})"
        );
        let backtrace = "\n\nStack backtrace:\n   0: anyhow";
        ["error finding resource apps.kruise.io/v1alpha1 / PersistentPodState: ", ""]
            .map(|what| format!("Callback evaluation failure: {what}{error}{backtrace}"))
    }

    #[test]
    fn only_the_api_servers_own_answer_means_that_the_kind_is_not_served() {
        let older = "error finding resource apps.kruise.io/v1alpha1 / PersistentPodState: ApiError: \"404 page not found\\n\": Failed to parse error data (ErrorResponse { status: \"404 Not Found\", code: 404, message: \"\\\"404 page not found\\\\n\\\"\", reason: \"Failed to parse error data\" })";
        let [discovery, get] = api_error(404, "404 page not found\n");
        for not_served in [
            "Callback evaluation failure: Cannot find resource apps.kruise.io/v1alpha1/PersistentPodState\n\nStack backtrace:",
            &discovery,
            &get,
            older,
        ] {
            assert_eq!(parse(not_served), HostError::KindNotServed, "{not_served}");
        }
        let others = [
            (404, "<html><head><title>404 Not Found</title></head></html>"),
            (404, "default backend - 404"),
            (404, "no route: 404 page not found\n"),
            (503, "error trying to reach service: 404 Not Found, code: 404, 404 page not found\n"),
            (503, "404 page not found\n"),
        ];
        for other in others.iter().flat_map(|(code, body)| api_error(*code, body)) {
            assert!(matches!(parse(&other), HostError::Other(_)), "{other}");
        }
        for other in [
            "Cannot find resource apps.kruise.io/v1beta1/PersistentPodState",
            "Cannot find resource apps.kruise.io/v1alpha1/PersistentPodState or so",
            "error finding resource apps.kruise.io/v1alpha1 / PersistentPodState: deadline has elapsed",
            "timed out\n\nStack backtrace:\n   1: 404 page not found",
            &older.replace("code: 404", "code: 502"),
            &older.replace("v1alpha1", "v1beta1"),
        ] {
            assert!(matches!(parse(other), HostError::Other(_)), "{other}");
        }
    }

    #[test]
    fn distinguishes_missing_grants_from_missing_permissions() {
        let not_granted = "Policy has not been granted access to Kubernetes resource";
        assert_eq!(parse(not_granted), HostError::NotGranted(not_granted.into()));
        let forbidden = "ApiError: persistentpodstates \"web\" is forbidden";
        assert_eq!(parse(forbidden), HostError::Forbidden(forbidden.into()));
    }

    #[test]
    fn keeps_one_short_line_of_the_text() {
        assert_eq!(parse("Host error: a\n\n  b.\n"), HostError::Other("a b".into()));
        let HostError::Other(reason) = parse(&"é".repeat(1000)) else { panic!() };
        assert_eq!(reason.chars().count(), MAX_REASON + 1);
    }
}
