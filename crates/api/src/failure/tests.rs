//! The table, by what API servers, webhooks and proxies have answered.

use http::Response;
use serde_json::json;

use super::*;

fn refusal(code: u16, retry_after: &str, body: &str) -> Refusal {
    let response = Response::builder().status(code);
    let response = response.header(header::RETRY_AFTER, retry_after);
    let (head, ()) = response.body(()).unwrap().into_parts();
    Refusal::of_answer(&head, body.as_bytes())
}

/// The class of a Status, as an answer and as kube reads it.
fn class(code: u16, message: &str) -> Class {
    let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": message});
    let class = refusal(code, "", &status.to_string()).class;
    let read_by_kube: Status = serde_json::from_value(status).unwrap();
    assert_eq!(Refusal::of_status(&read_by_kube).class, class);
    class
}

#[test]
fn refusals_for_size_are_too_large() {
    let connection = "rpc error: code = ResourceExhausted desc = trying to send message larger than max (3 vs. 2)";
    for (code, message, expected) in [
        (
            413,
            "Request entity too large: limit is 3145728",
            Class::TooLarge,
        ),
        (500, "etcdserver: request is too large", Class::TooLarge),
        (500, connection, Class::TooLarge),
        (500, "etcdserver: request timed out", Class::Other),
        (422, "podStates is invalid", Class::Denied),
    ] {
        assert_eq!(class(code, message), expected, "{message}");
    }
}

#[test]
fn a_denial_is_what_the_api_server_or_a_policy_says_about_the_request() {
    let denied = r#"admission webhook "p.kubewarden.admission" denied the request: no"#;
    let quoting = r#"admission webhook "p" denied the request: pods is forbidden: User "jane""#;
    for (code, message, expected) in [
        (422, r#"PersistentPodState "w" is invalid"#, Class::Denied),
        (403, "forbidden: exceeded quota: pps", Class::Denied),
        (403, quoting, Class::Denied),
        (
            403,
            r#"pods is forbidden: User "jane" cannot list resource "pods""#,
            Class::Forbidden,
        ),
        (400, denied, Class::Denied),
        (409, denied, Class::Denied),
        (500, denied, Class::Denied),
        (
            409,
            r#"persistentpodstates "w" already exists"#,
            Class::Conflict,
        ),
        (
            500,
            r#"failed calling webhook "p.kubewarden.admission": timeout"#,
            Class::Other,
        ),
        (
            429,
            "the server has received too many requests",
            Class::Busy,
        ),
        (401, "Unauthorized", Class::Unauthorized),
        (404, "not found", Class::NotFound),
        (410, "too old resource version: 1 (2)", Class::Expired),
        (
            504,
            "Timeout: Too large resource version: 9, current: 7",
            Class::VersionAhead,
        ),
    ] {
        assert_eq!(class(code, message), expected, "{code} {message}");
    }
}

#[test]
fn only_a_budget_is_called_one() {
    let status =
        |causes: Value| json!({"kind": "Status", "message": "no", "details": {"causes": causes}});
    let budget = status(json!([{"reason": "DisruptionBudget", "message": "db needs 2"}]));
    assert_eq!(refusal(429, "", &budget.to_string()).class, Class::Budget);
    let other = status(json!([]));
    assert_eq!(refusal(429, "", &other.to_string()).class, Class::Busy);
    assert_eq!(refusal(429, "", "Too many requests").class, Class::Busy);
}

#[test]
fn only_an_unambiguous_not_found_means_that_a_node_does_not_exist() {
    let failure = |code: u16, reason: &str, kind: &str, name: &str| -> Failure {
        let status = json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason,
            "details": {"kind": kind, "name": name}});
        refusal(code, "", &status.to_string()).into()
    };
    assert!(failure(404, "NotFound", "nodes", "n").is_not_found("nodes", "n"));
    for other in [
        failure(404, "Failed to parse error data", "", ""),
        failure(404, "NotFound", "", ""),
        failure(404, "NotFound", "nodes", "m"),
        failure(403, "Forbidden", "nodes", "n"),
        failure(410, "Gone", "nodes", "n"),
        failure(500, "InternalError", "nodes", "n"),
        refusal(404, "", r#"{"reason": "NotFound"}"#).into(),
        Failure::Unreachable("no route".into()),
    ] {
        assert!(!other.is_not_found("nodes", "n"), "{other:?}");
    }
}

#[test]
fn the_page_of_another_server_is_not_repeated() {
    for (body, expected) in [
        (
            "<html>secret</html>",
            "502 Bad Gateway: the answer is no Status",
        ),
        (
            r#"{"message": "secret"}"#,
            "502 Bad Gateway: the answer is no Status",
        ),
        (
            r#"{"status": "error", "message": "secret"}"#,
            "502 Bad Gateway: the answer is no Status",
        ),
        ("[1]", "502 Bad Gateway: the answer is no Status"),
        ("", "502 Bad Gateway: the answer is no Status"),
        (
            r#"{"status": "Failure", "reason": "InternalError", "message": "no etcd"}"#,
            "502 InternalError: no etcd",
        ),
    ] {
        assert_eq!(refusal(502, "", body).to_string(), expected);
    }
    let text_of_kube = Status::failure("<html>secret</html>", "Failed to parse error data");
    let object_of_kube: Status = serde_json::from_value(json!({"message": "secret"})).unwrap();
    for status in [text_of_kube, object_of_kube] {
        let failure = Failure::from(kube::Error::Api(status.with_code(502).boxed()));
        assert_eq!(
            failure.to_string(),
            "502 Bad Gateway: the answer is no Status"
        );
    }
}

#[test]
fn no_refusal_asks_for_more_than_a_minute() {
    for (header, details, expected) in [
        ("3600", 0, 60),
        ("7", 0, 7),
        ("1", 30, 30),
        ("1", 3600, 60),
        ("-5", 0, 0),
        ("Wed, 21 Oct", 2, 2),
    ] {
        let body = json!({"kind": "Status", "details": {"retryAfterSeconds": details}});
        let wait = refusal(429, header, &body.to_string()).retry_after;
        assert_eq!(wait, Duration::from_secs(expected), "{header} {details}");
    }
    let gateway = refusal(503, "7", "<html>");
    assert_eq!(gateway.retry_after, Duration::from_secs(7));
}
