//! How an object moves to the compact form: no state is without a stored copy at any time.

use std::convert::Infallible;
use std::sync::Mutex;

use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::json;
use tower::service_fn;

use super::*;
use crate::lead::{Leadership, Permit};
use pps_recorder::facts::GroupKind;

/// An API server that stores an object, as far as its definition has the fields.
#[derive(Clone, Default)]
struct Server {
    /// From this request on, its definition has no compact form.
    pruned_from: Option<usize>,
    /// It answers each request with an error of this code.
    code: Option<u16>,
    /// It has no room for both forms.
    is_tight: bool,
    status: Arc<Mutex<Value>>,
    /// The query of each request.
    requests: Arc<Mutex<Vec<String>>>,
}

fn states() -> Value {
    json!({"podStates": {"w-0": {"nodeName": "n"}}, "desired": 1})
}

impl Server {
    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        let (head, body) = request.into_parts();
        let body: Value =
            serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        let query = head.uri.query().unwrap_or_default().to_owned();
        let is_dry_run = query.contains("dryRun=All");
        let number = {
            let mut requests = self.requests.lock().unwrap();
            requests.push(query);
            requests.len()
        };
        let answer = |code: u16, answer: Value| {
            http::Response::builder()
                .status(code)
                .body(Body::from(answer.to_string().into_bytes()))
                .unwrap()
        };
        let error = |code: u16, message: &str| {
            answer(
                code,
                json!({"kind": "Status", "status": "Failure", "code": code, "reason": "", "message": message}),
            )
        };
        if let Some(code) = self.code {
            return error(code, "no");
        }
        let is_pruned = self.pruned_from.is_some_and(|first| number >= first);
        let prune = |object: &mut Value| {
            if is_pruned {
                object["status"].as_object_mut().unwrap().remove("packed");
            }
        };
        let mut object = json!({"metadata": {}, "status": *self.status.lock().unwrap()});
        prune(&mut object);
        if head.headers[CONTENT_TYPE] == "application/json-patch+json" {
            let patch: json_patch::Patch = serde_json::from_value(body).unwrap();
            if json_patch::patch(&mut object, &patch).is_err() {
                return error(
                    422,
                    "the server rejected our request due to an error in our request",
                );
            }
        } else {
            json_patch::merge(&mut object, &body);
        }
        prune(&mut object);
        let has = |form: &str| !object["status"][form].is_null();
        if self.is_tight && has("packed") && has("podStates") {
            return error(413, "request is too large");
        }
        if !is_dry_run {
            *self.status.lock().unwrap() = object["status"].clone();
        }
        answer(
            200,
            json!({"metadata": {"resourceVersion": (7 + number).to_string()}, "status": object["status"]}),
        )
    }

    /// The result of a write, whether each request was a dry run, and what is stored then.
    async fn write(&self, before: Value, write: StatusWrite) -> (Outcome, Vec<bool>, Value) {
        *self.status.lock().unwrap() = before;
        let server = self.clone();
        let service = service_fn(move |request| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        let mut permit = Permit::new(Leadership::fixed(true));
        permit.renew();
        let writer = Writer::new(Client::new(service, "n"), permit);
        let result = writer.write_status(write).await;
        let requests = self.requests.lock().unwrap();
        assert!(
            requests
                .iter()
                .all(|query| query.contains("fieldManager=pps-sidecar")),
            "{requests:?}"
        );
        let dry_runs = requests
            .iter()
            .map(|query| query.contains("dryRun=All"))
            .collect();
        (result, dry_runs, self.status.lock().unwrap().clone())
    }
}

fn write() -> StatusWrite {
    let key = NamespacedName::new("n", "p");
    StatusWrite {
        workload: WorkloadKey {
            object: key.clone(),
            kind: GroupKind::stateful_set(),
        },
        key,
        uid: "uid-p".into(),
        patch: json!({"metadata": {"uid": "uid-p", "resourceVersion": "7"}, "status": {
            "packed": {"version": 1, "buckets": {"ordinals-0": "1 w-0 n\n% %\n"}}, "podStates": null, "recorded": 1}}),
        entries: 1,
        recorded: 1,
        loss_check: None,
        form: WriteForm::MoveToCompact,
        cost: 1,
        newly_recorded: Vec::new(),
    }
}

fn moved() -> Value {
    let mut status = states();
    json_patch::merge(&mut status, &write().patch["status"]);
    status
}

#[tokio::test]
async fn states_are_removed_from_pod_states_once_the_compact_form_is_stored() {
    let (result, dry_runs, stored) = Server::default().write(states(), write()).await;
    assert!(
        matches!(&result, Outcome::Status { result: Ok(version), .. } if version == "9"),
        "{result:?}"
    );
    assert_eq!((dry_runs, stored), (vec![false, false], moved()));
}

#[tokio::test]
async fn a_definition_without_the_compact_form_costs_no_state_whenever_it_comes() {
    for pruned_from in [1, 2] {
        let server = Server {
            pruned_from: Some(pruned_from),
            ..Server::default()
        };
        let (result, _, stored) = server.write(states(), write()).await;
        match result {
            Outcome::StoredWithoutCompactForm {
                resource_version: version,
                ..
            } => {
                assert_eq!((pruned_from, &*version), (1, "8"));
            }
            Outcome::Status {
                result: Err(Failure::Refused(_)),
                ..
            } => assert_eq!(pruned_from, 2),
            other => panic!("{pruned_from}: {other:?}"),
        }
        assert_eq!(stored["podStates"], states()["podStates"], "{pruned_from}");
    }
}

#[tokio::test]
async fn a_write_to_the_compact_form_changes_nothing_where_the_form_is_hidden() {
    let change = || StatusWrite {
        patch: json!({"metadata": {"uid": "uid-p", "resourceVersion": "9"}, "status": {
            "packed": {"buckets": {"ordinals-100": "1 w-100 n\n% %\n"}}, "recorded": 2}}),
        form: WriteForm::StayCompact,
        ..write()
    };
    let (result, _, stored) = Server::default().write(moved(), change()).await;
    assert!(
        matches!(result, Outcome::Status { result: Ok(_), .. }),
        "{result:?}"
    );
    assert_eq!(
        stored["packed"]["buckets"].as_object().map(Map::len),
        Some(2)
    );
    let hidden = Server {
        pruned_from: Some(1),
        ..Server::default()
    };
    let (result, _, stored) = hidden.write(moved(), change()).await;
    assert!(
        matches!(
            result,
            Outcome::Status {
                result: Err(Failure::Refused(_)),
                ..
            }
        ),
        "{result:?}"
    );
    assert_eq!(stored, moved());
}

#[tokio::test]
async fn an_object_without_room_for_both_forms_moves_after_a_dry_run() {
    let tight = Server {
        is_tight: true,
        ..Server::default()
    };
    let (result, dry_runs, stored) = tight.write(states(), write()).await;
    assert!(
        matches!(result, Outcome::Status { result: Ok(_), .. }),
        "{result:?}"
    );
    assert_eq!((dry_runs, stored), (vec![false, true, false], moved()));
}

#[tokio::test]
async fn a_move_that_is_refused_keeps_its_reason_and_one_that_fails_is_a_write_that_fails() {
    for (code, is_refused) in [(400, true), (422, true), (409, false), (503, false)] {
        let server = Server {
            code: Some(code),
            ..Server::default()
        };
        match server.write(states(), write()).await.0 {
            Outcome::CompactFormRefused { reason, .. } => {
                assert!(is_refused && reason.ends_with("no"), "{code}: {reason}");
            }
            Outcome::Status { result: Err(_), .. } => assert!(!is_refused, "{code}"),
            other => panic!("{code}: {other:?}"),
        }
    }
}
