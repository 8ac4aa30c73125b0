mod compact_form;

use std::convert::Infallible;
use std::sync::Mutex;

use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::json;
use tower::service_fn;

use super::*;
use crate::lead::{Leadership, Permit};
use pps_recorder::facts::{GroupKind, NamespacedName};

/// Method, path and body of each request.
type Requests = Arc<Mutex<Vec<(String, String, Value)>>>;

/// A writer, and the requests that its API server gets. Each write is answered with this status
/// code. A read finds a PPS in version 5.
fn writer(code: u16) -> (Writer, Requests) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = requests.clone();
    let service = service_fn(move |request: http::Request<Body>| {
        let seen = seen.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            seen.lock()
                .unwrap()
                .push((head.method.to_string(), head.uri.path().to_owned(), body));
            let is_read = head.method == http::Method::GET;
            let code = if is_read { 200 } else { code };
            let answer = if is_read {
                json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [{
                    "metadata": {"name": "p", "namespace": "n", "uid": "uid-p", "resourceVersion": "5"},
                    "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"}}}]})
            } else {
                json!({"kind": "Status", "status": "Failure", "code": code, "reason": "AlreadyExists",
                    "message": "persistentpodstates \"w\" already exists"})
            };
            let answer = http::Response::builder()
                .status(code)
                .body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, Infallible>(answer.unwrap())
        }
    });
    let mut permit = Permit::new(Leadership::fixed(true));
    permit.renew();
    (Writer::new(Client::new(service, "n"), permit), requests)
}

fn workload() -> WorkloadKey {
    WorkloadKey {
        object: NamespacedName::new("n", "w"),
        kind: GroupKind::stateful_set(),
    }
}

#[tokio::test]
async fn a_new_object_is_created_and_never_merged_into_another() {
    let (writer, requests) = writer(409);
    let create = GeneratedPps::Create {
        key: NamespacedName::new("n", "w"),
        body: json!({"metadata": {"name": "w"}, "spec": {"targetRef": {}}}),
        is_alias: false,
    };
    let result = writer.write_generated_pps(workload(), create).await;
    assert!(
        matches!(
            result,
            Outcome::Generated {
                result: Err(Failure::Conflict),
                ..
            }
        ),
        "{result:?}"
    );
    let requests = requests.lock().unwrap();
    let [(method, path, body)] = &requests[..] else {
        panic!("{requests:?}")
    };
    assert_eq!(
        (method.as_str(), path.as_str()),
        (
            "POST",
            "/apis/apps.kruise.io/v1alpha1/namespaces/n/persistentpodstates"
        )
    );
    assert_eq!(body["spec"], json!({"targetRef": {}}));
}

#[tokio::test]
async fn evicts_only_the_pod_that_was_decided_about() {
    let (writer, requests) = writer(429);
    let pod = NamespacedName::new("n", "w-0");
    let eviction = PodEviction {
        pod,
        uid: "uid-1".to_owned(),
        resource_version: "7".to_owned(),
        workload: workload(),
        pps: NamespacedName::new("n", "p"),
        pps_version: "5".to_owned(),
        node_selectors: BTreeSet::new(),
    };
    let result = writer
        .clone()
        .evict(PodEviction {
            pps_version: "4".to_owned(),
            ..eviction.clone()
        })
        .await;
    assert!(
        matches!(
            result,
            Outcome::Eviction {
                result: Err(Failure::Conflict),
                ..
            }
        ),
        "{result:?}"
    );
    requests.lock().unwrap().clear();
    let result = writer.evict(eviction).await;
    // A disruption budget is in the way for now.
    assert!(
        matches!(
            result,
            Outcome::Eviction {
                result: Err(Failure::Other { .. }),
                ..
            }
        ),
        "{result:?}"
    );
    let requests = requests.lock().unwrap();
    let [_, (method, path, body)] = &requests[..] else {
        panic!("{requests:?}")
    };
    assert_eq!(
        (method.as_str(), path.as_str()),
        ("POST", "/api/v1/namespaces/n/pods/w-0/eviction")
    );
    assert_eq!(
        body["deleteOptions"]["preconditions"],
        json!({"uid": "uid-1", "resourceVersion": "7"})
    );
    assert_eq!(
        (&body["apiVersion"], &body["kind"]),
        (&json!("policy/v1"), &json!("Eviction"))
    );
}

#[tokio::test]
async fn what_is_no_status_of_an_api_server_keeps_its_code_and_the_wait_that_it_asks_for() {
    for (code, body, expected) in [
        (
            429,
            "Too many requests, please try again later.\n",
            ("error", Some(Duration::from_secs(7))),
        ),
        (
            503,
            r#"{"message": "busy"}"#,
            ("error", Some(Duration::from_secs(7))),
        ),
        (413, r#"{"message": "no"}"#, ("too_large", None)),
    ] {
        let service = service_fn(move |_: http::Request<Body>| async move {
            let answer = http::Response::builder()
                .status(code)
                .header("Retry-After", 7);
            Ok::<_, Infallible>(answer.body(Body::from(body.as_bytes().to_vec())).unwrap())
        });
        let mut permit = Permit::new(Leadership::fixed(true));
        permit.renew();
        let writer = Writer::new(Client::new(service, "n"), permit);
        let (uid, resource_version) = ("uid-1".to_owned(), "7".to_owned());
        let key = NamespacedName::new("n", "w");
        let delete = GeneratedPps::Delete {
            key,
            uid,
            resource_version,
            is_alias: true,
        };
        let result = writer.write_generated_pps(workload(), delete).await;
        let Outcome::Generated {
            result: Err(failure),
            ..
        } = result
        else {
            panic!("{result:?}")
        };
        assert_eq!(
            (failure.result(), failure.retry_after()),
            expected,
            "{failure}"
        );
    }
}
