//! How an object moves to the compact form: the API server is asked before and after.

use std::convert::Infallible;
use std::sync::Mutex;

use http_body_util::BodyExt;
use kube::client::Body;
use tower::service_fn;

use super::*;
use crate::facts::GroupKind;
use crate::lead::Election;

/// An API server that stores what it gets, except what it prunes, or answers each request with an error of this code.
#[derive(Clone, Default)]
struct Server {
    pruned_when_asked: bool,
    pruned_when_told: bool,
    code: Option<u16>,
    /// The query of each request.
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        let (head, body) = request.into_parts();
        let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        let query = head.uri.query().unwrap_or_default().to_owned();
        let is_dry_run = query.contains("dryRun=All");
        self.requests.lock().unwrap().push(query);
        let response = |code: u16, answer: Value| {
            http::Response::builder().status(code).body(Body::from(answer.to_string().into_bytes())).unwrap()
        };
        if let Some(code) = self.code {
            return response(
                code,
                json!({"kind": "Status", "status": "Failure", "code": code, "reason": "", "message": "no"}),
            );
        }
        let mut status = json!({});
        json_patch::merge(&mut status, &body["status"]);
        if if is_dry_run { self.pruned_when_asked } else { self.pruned_when_told } {
            status.as_object_mut().unwrap().remove("packed");
        }
        response(200, json!({"metadata": {"resourceVersion": "8"}, "status": status}))
    }

    /// The result of a move, and whether each request was a dry run.
    async fn move_to_compact_form(&self) -> (WriteResult, Vec<bool>) {
        let server = self.clone();
        let service = service_fn(move |request| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        let leadership = Election::always_leading().leadership();
        let writer = Writer::new(Client::new(service, "n"), leadership.permit(leadership.term()));
        let result = writer.write_status(write()).await;
        let requests = self.requests.lock().unwrap();
        assert!(requests.iter().all(|query| query.contains("fieldManager=pps-sidecar")), "{requests:?}");
        (result, requests.iter().map(|query| query.contains("dryRun=All")).collect())
    }
}

fn write() -> StatusWrite {
    let key = NamespacedName::new("n", "p");
    StatusWrite {
        workload: WorkloadKey { object: key.clone(), kind: GroupKind::stateful_set() },
        key,
        uid: "uid-p".into(),
        patch: json!({"metadata": {"uid": "uid-p", "resourceVersion": "7"}, "status": {
            "packed": {"version": 1, "buckets": {"ordinals-0": "1 w-0 n\n% %\n"}}, "podStates": null, "recorded": 1}}),
        entries: 1,
        recorded: 1,
        forgotten: Vec::new(),
        drops: None,
        moves_to: Some(StoredForm::Compact),
        cost: 1,
        newly_recorded: Vec::new(),
    }
}

#[tokio::test]
async fn a_move_is_sent_after_a_dry_run_has_shown_that_it_is_stored() {
    let (result, dry_runs) = Server::default().move_to_compact_form().await;
    assert!(matches!(&result, WriteResult::Status(_, Ok(version)) if version == "8"), "{result:?}");
    assert_eq!(dry_runs, [true, false]);
}

#[tokio::test]
async fn a_move_that_would_be_pruned_is_not_sent() {
    let server = Server { pruned_when_asked: true, ..Server::default() };
    let (result, dry_runs) = server.move_to_compact_form().await;
    assert!(matches!(result, WriteResult::CompactFormDropped(_, None)), "{result:?}");
    assert_eq!(dry_runs, [true]);
}

#[tokio::test]
async fn a_move_that_was_pruned_all_the_same_is_reported() {
    let server = Server { pruned_when_told: true, ..Server::default() };
    let (result, dry_runs) = server.move_to_compact_form().await;
    assert!(
        matches!(&result, WriteResult::CompactFormDropped(_, Some(version)) if version == "8"),
        "{result:?}"
    );
    assert_eq!(dry_runs, [true, false]);
}

#[tokio::test]
async fn a_dry_run_that_fails_is_a_write_that_fails_unless_it_is_refused() {
    for (code, is_dropped) in [(400, true), (422, true), (409, false), (503, false)] {
        let (result, dry_runs) =
            Server { code: Some(code), ..Server::default() }.move_to_compact_form().await;
        match result {
            WriteResult::CompactFormDropped(_, None) => assert!(is_dropped, "{code}"),
            WriteResult::Status(_, Err(_)) => assert!(!is_dropped, "{code}"),
            other => panic!("{code}: {other:?}"),
        }
        assert_eq!(dry_runs, [true]);
    }
}
