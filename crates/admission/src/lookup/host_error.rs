//! What the host's error texts mean. A text is all that a policy gets of a failed host call.

use pps_core::limits::MAX_REPEATED_REASON;
use pps_core::pps::KIND;
use pps_core::shorten_to;

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

/// Whether the API server itself says that it does not serve the kind: it listed the kinds of this
/// version without this one, or it has no such path. It answers that with this very page, which is
/// no JSON: to the host's discovery, or to the get of a host that cached the discovery before. The
/// host's client, kube, repeats the page; up to version 4 with the newline at its end. Whatever
/// else went wrong, such as another page of a proxy, says nothing about the kind.
fn is_kind_not_served(text: &str, api_version: &str) -> bool {
    let text = strip_wrapping(text);
    if let Some(rest) = text.strip_prefix(&format!("Cannot find resource {api_version}/{KIND}")) {
        return rest.trim().is_empty();
    }
    let discovery = format!("error finding resource {api_version} / {KIND}: ");
    let text = text.strip_prefix(&discovery).unwrap_or(text);
    text.strip_prefix("ApiError: 404 page not found")
        .is_some_and(|rest| {
            let rest = rest.strip_prefix('\n').unwrap_or(rest);
            rest.starts_with(": Failed to parse error data (") && rest.contains(" code: 404, ")
        })
}

/// The text without what waPC puts before it, and without the backtrace after it.
fn strip_wrapping(text: &str) -> &str {
    let text = text
        .split_once("Callback evaluation failure: ")
        .map_or(text, |(_, words)| words);
    text.split("Stack backtrace:").next().unwrap_or_default()
}

/// The text on one line, of bounded length.
fn shorten(text: &str) -> String {
    let line = strip_wrapping(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    shorten_to(
        MAX_REPEATED_REASON,
        line.trim_start_matches("Host error: ")
            .trim_end_matches('.'),
    )
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
        let text = "Host error: Callback evaluation failure: Cannot find \
                    apps.kruise.io/v1alpha1/PersistentPodState named 'web' inside of namespace \
                    'Some(\"shop\")'\n\nStack backtrace:\n   0: anyhow";
        assert!(is_not_found(text, V1ALPHA1, "web"));
        assert!(!is_not_found(text, V1ALPHA1, "we"));
        assert!(!is_not_found(text, "apps.kruise.io/v1beta1", "web"));
        let in_backtrace = "timed out\n\nStack backtrace:\nCannot find \
                            apps.kruise.io/v1alpha1/PersistentPodState named 'web'";
        assert!(!is_not_found(in_backtrace, V1ALPHA1, "web"));
    }

    /// What the host says if the API server answers with this status and a body that is no JSON.
    /// Its discovery repeats the client's error; from a get it comes with its causes. kube 3 and 4
    /// keep the blanks around the body, kube 5 does not.
    fn api_error(code: u16, body: &str) -> Vec<String> {
        let texts = [body, body.trim()].into_iter().flat_map(|body| {
            let error = format!(
                "ApiError: {body}: Failed to parse error data (Status {{ status: Some(Failure), \
                 code: {code}, message: {body:?}, metadata: None, reason: \"Failed to parse error \
                 data\", details: None }})"
            );
            let causes = body.replace('\n', "\n    ");
            [
                format!(
                    "error finding resource apps.kruise.io/v1alpha1 / PersistentPodState: \
                     {error}\n\nStack backtrace:\n   0: anyhow"
                ),
                format!("{error}\n\nCaused by:\n    {causes}: Failed to parse error data"),
            ]
        });
        texts
            .map(|text| format!("Callback evaluation failure: {text}"))
            .collect()
    }

    /// The texts of Kubewarden's policy-evaluator with kube 3.0, 4.2 and 5.0, as their sources have
    /// them.
    #[test]
    fn knows_the_texts_of_the_hosts_clients() {
        const FAILURE: &str = "Callback evaluation failure: ";
        const DISCOVERY: &str =
            "error finding resource apps.kruise.io/v1alpha1 / PersistentPodState: ";
        let status = |code: u16, message: &str, reason: &str| {
            format!(
                "ApiError: {message}: {reason} (Status {{ status: Some(Failure), code: {code}, \
                 message: {message:?}, metadata: Some(ListMeta {{ continue_: None, \
                 remaining_item_count: None, resource_version: None, self_link: None }}), reason: \
                 {reason:?}, details: None }})"
            )
        };
        let page =
            "Failed to parse error data (Status { status: Some(Failure), code: 404, message: ";
        let rest = ", metadata: None, reason: \"Failed to parse error data\", details: None })";
        let forbidden = status(
            403,
            "persistentpodstates.apps.kruise.io \"web\" is forbidden: User \
             \"system:serviceaccount:kubewarden:default\" cannot get resource \
             \"persistentpodstates\" in API group \"apps.kruise.io\" in the namespace \"shop\"",
            "Forbidden",
        );
        for (client, text, expected) in [
            (
                "3, 4",
                format!(
                    "{DISCOVERY}ApiError: 404 page not found\n: {page}\"404 page not \
                     found\\n\"{rest}"
                ),
                "not served",
            ),
            (
                "5",
                format!(
                    "{DISCOVERY}ApiError: 404 page not found: {page}\"404 page not found\"{rest}"
                ),
                "not served",
            ),
            (
                "any",
                "Cannot find resource apps.kruise.io/v1alpha1/PersistentPodState".into(),
                "not served",
            ),
            (
                "any",
                "Cannot find apps.kruise.io/v1alpha1/PersistentPodState named 'web' inside of \
                 namespace 'Some(\"shop\")'"
                    .into(),
                "not found",
            ),
            ("any", forbidden.clone(), "forbidden"),
            ("any", format!("{DISCOVERY}{forbidden}"), "forbidden"),
            (
                "any",
                status(503, "apiserver is shutting down", "ServiceUnavailable"),
                "other",
            ),
            (
                "any",
                format!(
                    "{DISCOVERY}{}",
                    status(
                        404,
                        "the server could not find the requested resource",
                        "NotFound"
                    )
                ),
                "other",
            ),
            (
                "any",
                "ServiceError: client error (Connect)\n\nCaused by:\n    0: client error (Connect)"
                    .into(),
                "other",
            ),
        ] {
            let text = format!("{FAILURE}{text}\n\nStack backtrace:\n   0: <unknown>");
            let found = match parse(&text) {
                _ if is_not_found(&text, V1ALPHA1, "web") => "not found",
                HostError::KindNotServed => "not served",
                HostError::Forbidden(_) => "forbidden",
                HostError::NotGranted(_) => "not granted",
                HostError::Other(_) => "other",
            };
            assert_eq!(found, expected, "kube {client}: {text}");
        }
    }

    #[test]
    fn only_the_api_servers_own_answer_means_that_the_kind_is_not_served() {
        let [served, others] = [
            api_error(404, "404 page not found\n"),
            api_error(502, "404 page not found\n"),
        ];
        for text in &served {
            assert_eq!(parse(text), HostError::KindNotServed, "{text}");
        }
        for text in &others {
            assert!(matches!(parse(text), HostError::Other(_)), "{text}");
        }
        let others = [
            (
                404,
                "<html><head><title>404 Not Found</title></head></html>",
            ),
            (404, "default backend - 404"),
            (404, "no route: 404 page not found\n"),
            (
                503,
                "error trying to reach service: 404 Not Found, code: 404, 404 page not found\n",
            ),
            (404, "404 page not found\nx"),
        ];
        for other in others
            .iter()
            .flat_map(|(code, body)| api_error(*code, body))
        {
            assert!(matches!(parse(&other), HostError::Other(_)), "{other}");
        }
        for other in [
            "Cannot find resource apps.kruise.io/v1beta1/PersistentPodState",
            "Cannot find resource apps.kruise.io/v1alpha1/PersistentPodState or so",
            "error finding resource apps.kruise.io/v1alpha1 / PersistentPodState: deadline has \
             elapsed",
            "timed out\n\nStack backtrace:\n   1: 404 page not found",
            &served[0].replace("v1alpha1", "v1beta1"),
        ] {
            assert!(matches!(parse(other), HostError::Other(_)), "{other}");
        }
    }

    #[test]
    fn distinguishes_missing_grants_from_missing_permissions() {
        let not_granted = "Policy has not been granted access to Kubernetes resource";
        assert_eq!(
            parse(not_granted),
            HostError::NotGranted(not_granted.into())
        );
        let forbidden = "ApiError: persistentpodstates \"web\" is forbidden";
        assert_eq!(parse(forbidden), HostError::Forbidden(forbidden.into()));
    }

    #[test]
    fn keeps_one_short_line_of_the_text() {
        assert_eq!(
            parse("Host error: a\n\n  b.\n"),
            HostError::Other("a b".into())
        );
        let HostError::Other(reason) = parse(&"é".repeat(1000)) else {
            panic!()
        };
        assert_eq!(reason.chars().count(), MAX_REPEATED_REASON + 1);
    }
}
