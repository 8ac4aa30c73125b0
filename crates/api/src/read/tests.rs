//! A list with limits, from an API server that answers each query.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::Response;
use serde_json::json;
use tower::service_fn;

use super::*;

const LIMITS: Limits = Limits {
    request: Duration::from_secs(5),
    body: 1_000,
    page: 8,
    objects: 6,
};

/// A reader from an API server that answers each query with a code and an object; and the queries.
fn reader(
    answer: impl Fn(&str) -> (u16, Value) + Clone + Send + 'static,
) -> (Reader, Arc<Mutex<Vec<String>>>) {
    let queries = Arc::<Mutex<Vec<String>>>::default();
    let seen = queries.clone();
    let service = service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default();
        let query = query.trim_start_matches('&');
        let query = query.replace("labelSelector=&", "");
        let (code, answer) = answer(&query);
        seen.lock().unwrap().push(query);
        let body = Body::from(answer.to_string().into_bytes());
        async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
    });
    let client = Client::new(service, "n");
    (Reader::new(client, LIMITS, Duration::from_mins(1)), queries)
}

fn page(names: &[&str], next: &str) -> (u16, Value) {
    let objects: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    let metadata = json!({"continue": next, "remainingItemCount": 9});
    (
        200,
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": objects}),
    )
}

fn name(object: &Value) -> Option<String> {
    assert_eq!(
        (&object["kind"], &object["apiVersion"]),
        (&json!("Pod"), &json!("v1"))
    );
    object["name"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn a_list_has_limits_on_pages_bytes_and_objects() {
    let (reader, queries) = reader(|query| match query {
        "limit=8" => page(&["x".repeat(2_000).as_str()], ""),
        "limit=2" => page(&["a", "b", "c", "d"], "second"),
        "limit=2&continue=second" => page(&["e", "f"], "third"),
        _ => page(&["g"], ""),
    });
    let list = reader
        .list("/api/v1/pods", "", |object| name(&object))
        .await
        .unwrap();
    assert_eq!(list.objects, ["a", "b", "c", "d", "e", "f"]);
    assert_eq!((list.more, list.unusable), (9, 0));
    let expected = ["limit=8", "limit=2", "limit=2&continue=second"];
    assert_eq!(*queries.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_list_that_was_forgotten_begins_again_once() {
    let gone = || (410, json!({"kind": "Status", "code": 410}));
    let (forgetful, queries) = reader(move |query| match query {
        "limit=8" => page(&["a"], "second"),
        _ => gone(),
    });
    let failure = forgetful
        .list("/api/v1/pods", "", |object| name(&object))
        .await
        .unwrap_err();
    assert_eq!(failure.class(), Some(Class::Expired));
    assert_eq!(queries.lock().unwrap().len(), 4);

    let (once, _) = {
        let asked = Arc::new(Mutex::new(0));
        reader(move |query| {
            let mut asked = asked.lock().unwrap();
            *asked += 1;
            match query {
                "limit=8" => page(&["a"], "second"),
                _ if *asked == 2 => gone(),
                _ => page(&["b"], ""),
            }
        })
    };
    let list = once
        .list("/api/v1/pods", "", |object| name(&object))
        .await
        .unwrap();
    assert_eq!((list.objects, list.more), (vec!["a".into(), "b".into()], 0));
}

#[tokio::test]
async fn what_is_no_list_is_unreadable_and_an_object_that_is_unusable_is_counted() {
    let (reader, _) = reader(|query| match query {
        "limit=8" => (
            200,
            json!({"kind": "PodList", "apiVersion": "v1", "items": [{}]}),
        ),
        _ => (200, json!("no list")),
    });
    let list = reader
        .list("/api/v1/pods", "", |object| name(&object))
        .await
        .unwrap();
    assert_eq!((list.objects.len(), list.unusable), (0, 1));
    let failure = reader
        .list("/api/v1/pods", "a=b", |object| name(&object))
        .await
        .unwrap_err();
    assert!(matches!(failure, Failure::Unreadable(_)), "{failure:?}");
}
