//! What the reads before a write make of answers.

use std::convert::Infallible;
use std::sync::Mutex;

use kube::Client;
use kube::client::Body;
use pps_recorder::demand::Demand;
use serde_json::json;
use tower::service_fn;

use super::*;
use crate::lead::{Leadership, Permit};

#[tokio::test]
async fn pods_are_counted_in_pages_of_fifty_and_in_smaller_ones_if_these_are_too_large() {
    let queries = Arc::<Mutex<Vec<String>>>::default();
    let seen = queries.clone();
    let service = service_fn(move |request: http::Request<Body>| {
        let query = request
            .uri()
            .query()
            .unwrap_or_default()
            .trim_start_matches('&')
            .to_owned();
        let pod = |name: &str, owner: &str| {
            json!({"metadata": {"name": name, "namespace": "n", "ownerReferences": [
                {"apiVersion": "a.io/v1", "kind": "Database", "name": "w", "uid": owner, "controller": true}]}})
        };
        let mut terminating = pod("c", "uid-w");
        terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let (token, items) = match &*query {
            "limit=50" => (
                "second",
                vec![pod("a", "uid-w"), pod("b", "uid-of-another")],
            ),
            // The small page before it allows more than fifty.
            "limit=50&continue=second" => (
                "",
                vec![json!({"metadata": {"name": "x".repeat(17 << 20)}})],
            ),
            "limit=12&continue=second" => (
                "third",
                vec![terminating, json!({"metadata": {"name": "alone"}})],
            ),
            _ => ("", vec![pod("d", "uid-w")]),
        };
        seen.lock().unwrap().push(query);
        let list = json!({"metadata": {"resourceVersion": "9", "continue": token}, "items": items});
        async move {
            Ok::<_, Infallible>(http::Response::new(Body::from(
                list.to_string().into_bytes(),
            )))
        }
    });
    let mut permit = Permit::new(Leadership::fixed(true));
    permit.renew();
    let writer = Writer::new(Client::new(service, "n"), permit);
    let demand = Demand::numbered(0, 3);
    let workload = WorkloadFact {
        uid: "uid-w".into(),
        demand,
        ..WorkloadFact::default()
    };
    let living = writer.living_pods("n", &workload).await.unwrap();
    assert_eq!(living.count, 2);
    let expected = [
        "limit=50",
        "limit=50&continue=second",
        "limit=12&continue=second",
        "limit=24&continue=third",
    ];
    assert_eq!(*queries.lock().unwrap(), expected);
}

#[tokio::test]
async fn an_object_does_not_exist_only_if_a_complete_list_lacks_it() {
    let complete = r#"{"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": []}"#;
    for (body, is_missing) in [
        (complete, true),
        (&complete.replace("[]", "null"), true),
        (
            &complete.replace(r#""9""#, r#""9", "continue": "more""#),
            false,
        ),
        (&complete.replace(r#""resourceVersion": "9""#, ""), false),
        (&complete.replace("[]", "[{}]"), false),
        (
            &complete.replace("[]", r#"[{"metadata": {"name": "a"}, "spec": 5}]"#),
            false,
        ),
        (
            r#"{"kind": "Status", "metadata": {"resourceVersion": "9"}, "code": 404}"#,
            false,
        ),
        ("<html>", false),
        ("", false),
    ] {
        let answer = body.to_owned();
        let service = service_fn(move |_: http::Request<Body>| {
            let body = Body::from(answer.clone().into_bytes());
            async { Ok::<_, Infallible>(http::Response::new(body)) }
        });
        let permit = Permit::new(Leadership::fixed(true));
        let writer = Writer::new(Client::new(service, "n"), permit);
        let key = NamespacedName::new("", "a");
        let pod = writer.read_pod(key, &Interest::default()).await;
        assert_eq!(matches!(pod, Ok(None)), is_missing, "{body}: {pod:?}");
    }
}
