//! Guards, by an API server that honours what a real one does.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Response;
use http_body_util::BodyExt;
use serde::de::IgnoredAny;
use tower::service_fn;

use super::*;
use crate::Class;

const LIMIT: AnswerLimit = AnswerLimit {
    within: Duration::from_secs(5),
    bytes: 1_000,
};
const READ: Guard<'static> = Guard {
    uid: "uid-1",
    resource_version: "7",
};
const POD: &str = "/api/v1/namespaces/n/pods/w-0";

/// An API server with one Pod, and what has changed it. Like a real one it compares what a request
/// names, does what names nothing, and does not know `delete_options`.
struct Server {
    guard: Guard<'static>,
    done: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn with(uid: &'static str, resource_version: &'static str) -> Self {
        Self {
            guard: Guard {
                uid,
                resource_version,
            },
            done: Arc::default(),
        }
    }

    fn client(&self) -> Client {
        let (guard, done) = (self.guard, self.done.clone());
        let service = service_fn(move |request: Request<Body>| {
            let done = done.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body: Value = serde_json::from_slice(&body).unwrap();
                let named = match head.method {
                    Method::DELETE => &body["preconditions"],
                    Method::POST => &body["deleteOptions"]["preconditions"],
                    _ => &body["metadata"],
                };
                let is_other =
                    |field: &str, now: &str| !named[field].is_null() && named[field] != now;
                let is_conflict = is_other("uid", guard.uid)
                    || is_other("resourceVersion", guard.resource_version);
                let code = if is_conflict { 409 } else { 200 };
                if !is_conflict {
                    done.lock().unwrap().push(head.uri.to_string());
                }
                let answer = json!({"kind": "Status", "code": code, "accept": head.headers[ACCEPT]
                    .to_str().unwrap(), "type": head.headers[CONTENT_TYPE].to_str().unwrap(), "sent": body});
                let answer = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
            }
        });
        Client::new(service, "n")
    }

    fn done(&self) -> Vec<String> {
        self.done.lock().unwrap().clone()
    }
}

fn guarded_writes() -> [Write; 4] {
    let metadata = json!({"metadata": {"uid": "uid-1", "resourceVersion": "7"}});
    [
        Write::evict("n", "w-0", READ),
        Write::delete(POD.into(), READ),
        Write::patch(POD.into(), &metadata),
        Write::replace(POD.into(), &metadata),
    ]
}

#[tokio::test]
async fn only_the_pod_that_was_read_is_evicted_deleted_or_changed() {
    for write in guarded_writes() {
        let same = Server::with("uid-1", "7");
        let answer = write.send::<IgnoredAny>(&same.client(), LIMIT).await;
        assert!(answer.is_ok(), "{answer:?}");
        assert_eq!(same.done().len(), 1);
        for other in [Server::with("uid-2", "7"), Server::with("uid-1", "8")] {
            let answer = write.send::<IgnoredAny>(&other.client(), LIMIT).await;
            let class = answer.unwrap_err().class();
            assert_eq!(class, Some(Class::Conflict), "{write:?}");
            assert_eq!(other.done(), [""; 0], "{write:?}");
        }
    }
}

#[tokio::test]
async fn an_eviction_is_one_that_the_api_server_understands() {
    let server = Server::with("uid-1", "7");
    let eviction = Write::evict("n", "w-0", READ);
    let answer: Value = eviction.send(&server.client(), LIMIT).await.unwrap();
    assert_eq!(server.done(), [format!("{POD}/eviction?")]);
    assert_eq!(
        answer["sent"],
        json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "w-0", "namespace": "n"},
            "deleteOptions": {"preconditions": {"uid": "uid-1", "resourceVersion": "7"}},
        })
    );
}

#[tokio::test]
async fn a_write_without_a_version_or_a_name_is_not_sent() {
    let server = Server::with("uid-1", "7");
    let path = || POD.to_owned();
    let only_uid = json!({"metadata": {"uid": "uid-1"}});
    let only_version = json!([{"op": "add", "path": "/metadata/resourceVersion", "value": "7"}]);
    let no_version = json!({"metadata": {"uid": "uid-1", "resourceVersion": ""}});
    for (write, expected) in [
        (Write::patch(path(), &only_uid), Failure::Unguarded),
        (Write::patch(path(), &only_version), Failure::Unguarded),
        (Write::patch(path(), &no_version), Failure::Unguarded),
        (Write::replace(path(), &only_uid), Failure::Unguarded),
        (Write::replace(path(), &no_version), Failure::Unguarded),
        (
            Write::delete("/api/v1/namespaces/n/pods/".into(), READ),
            Failure::Nameless,
        ),
        (Write::evict("n", "", READ), Failure::Nameless),
    ] {
        let answer = write.send::<IgnoredAny>(&server.client(), LIMIT).await;
        assert_eq!(answer.unwrap_err(), expected);
    }
    assert_eq!(server.done(), [""; 0]);
}

#[tokio::test]
async fn a_write_says_who_it_is_by_whether_it_is_done_and_what_it_is_answered_with() {
    let server = Server::with("uid-1", "7");
    let [_, delete, merge, _] = guarded_writes();
    let list = json!([{"op": "add", "path": "/metadata/uid", "value": "uid-1"},
        {"op": "add", "path": "/metadata/resourceVersion", "value": "7"}]);
    let merge = merge.managed_by("pps").answered_with(Accept::Metadata);
    let list = Write::patch(POD.into(), &list)
        .managed_by("pps")
        .as_dry_run();
    let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    for (write, accept, content_type) in [
        (merge, metadata, MERGE_PATCH),
        (list, JSON, JSON_PATCH),
        (delete.as_dry_run(), JSON, JSON),
    ] {
        let answer: Value = write.send(&server.client(), LIMIT).await.unwrap();
        assert_eq!(answer["accept"], accept);
        assert_eq!(answer["type"], content_type);
        let is_rehearsed_deletion = answer["sent"]["dryRun"] == json!(["All"]);
        assert_eq!(is_rehearsed_deletion, content_type == JSON);
    }
    let expected = [
        format!("{POD}?fieldManager=pps"),
        format!("{POD}?fieldManager=pps&dryRun=All"),
        format!("{POD}?dryRun=All"),
    ];
    assert_eq!(server.done(), expected);
}

#[tokio::test]
async fn an_answer_that_is_too_large_or_does_not_come_is_a_failure() {
    let server = Server::with("uid-1", "7");
    let small = AnswerLimit { bytes: 9, ..LIMIT };
    let eviction = Write::evict("n", "w-0", READ);
    let answer = eviction.send::<IgnoredAny>(&server.client(), small).await;
    assert_eq!(answer.unwrap_err(), Failure::TooLarge(9));

    let silent =
        service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>());
    let within = Duration::from_millis(50);
    let soon = AnswerLimit { within, ..LIMIT };
    let answer = eviction
        .send::<IgnoredAny>(&Client::new(silent, "n"), soon)
        .await;
    assert_eq!(answer.unwrap_err(), Failure::Silent(within));
}
