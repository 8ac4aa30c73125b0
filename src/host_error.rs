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

/// The second wording also wraps time-outs and refused connections, which say nothing about the kind.
fn is_kind_not_served(text: &str, api_version: &str) -> bool {
    let text = strip_wrapping(text);
    if let Some(rest) = text.strip_prefix(&format!("Cannot find resource {api_version}/{KIND}")) {
        return rest.trim().is_empty();
    }
    text.strip_prefix(&format!("error finding resource {api_version} / {KIND}:")).is_some_and(|rest| {
        ["404 page not found", "code: 404", "404 Not Found"].iter().any(|code| rest.contains(code))
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

    #[test]
    fn only_a_404_of_the_discovery_means_that_the_kind_is_not_served() {
        for not_served in [
            "Callback evaluation failure: Cannot find resource apps.kruise.io/v1alpha1/PersistentPodState\n\nStack backtrace:",
            "error finding resource apps.kruise.io/v1alpha1 / PersistentPodState: ApiError: \"404 page not found\\n\"",
        ] {
            assert_eq!(parse(not_served), HostError::KindNotServed, "{not_served}");
        }
        for other in [
            "Cannot find resource apps.kruise.io/v1beta1/PersistentPodState",
            "Cannot find resource apps.kruise.io/v1alpha1/PersistentPodState or so",
            "error finding resource apps.kruise.io/v1alpha1 / PersistentPodState: deadline has elapsed",
            "timed out\n\nStack backtrace:\n   1: 404 page not found",
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
