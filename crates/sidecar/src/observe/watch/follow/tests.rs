//! Lists that fail, in virtual time.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::Request;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tower::service_fn;

use super::*;
use crate::telemetry::Health;

/// Watches the StatefulSets of an API server that answers to each request with a code and a body.
fn watch(
    answer: impl Fn(&str) -> (u16, String) + Clone + Send + 'static,
) -> (Health, mpsc::Receiver<Observation>) {
    let service = service_fn(move |request: Request<Body>| {
        let (code, body) = answer(&request.uri().to_string());
        let answer = http::Response::builder().status(code).body(Body::from(body.into_bytes()));
        async move { Ok::<_, Infallible>(answer.unwrap()) }
    });
    let (sender, observations) = mpsc::channel(10_000);
    let health = Health::default();
    let watches = Watches::new(Client::new(service, "n"), health.clone(), Arc::default(), sender);
    tokio::spawn(watches.watch_stateful_sets());
    (health, observations)
}

#[tokio::test(start_paused = true)]
async fn a_page_that_fails_is_tried_again_for_five_minutes_before_the_list_begins_again() {
    let requests = Arc::<Mutex<[usize; 2]>>::default();
    let seen = requests.clone();
    let (health, _observations) = watch(move |uri| {
        let continues = uri.contains("continue=t");
        seen.lock().unwrap()[usize::from(continues)] += 1;
        let (code, answer) = if continues {
            (500, json!({"kind": "Status", "code": 500, "message": "no"}))
        } else {
            (200, json!({"metadata": {"resourceVersion": "7", "continue": "t"}, "items": []}))
        };
        (code, answer.to_string())
    });
    sleep(Duration::from_secs(290)).await;
    let [first, second] = *requests.lock().unwrap();
    assert!(first == 1 && (25..60).contains(&second), "{first} {second}");
    assert_eq!(health.problem().as_deref(), Some("cannot watch: statefulsets"));
    sleep(Duration::from_secs(100)).await;
    assert_eq!(requests.lock().unwrap()[0], 2);
}

#[tokio::test(start_paused = true)]
async fn a_list_fails_that_has_more_than_a_thousand_objects_without_a_name() {
    for (nameless, is_complete) in [(MAX_NAMELESS, true), (MAX_NAMELESS + 1, false)] {
        let list = json!({"metadata": {"resourceVersion": "7"}, "items": vec![json!({}); nameless]});
        let (_health, mut observations) = watch(move |_| (200, list.to_string()));
        sleep(Duration::from_secs(1)).await;
        let mut is_done = false;
        while let Ok(Observation::Workloads(_, update)) = observations.try_recv() {
            is_done |= update == Update::Done;
        }
        assert_eq!(is_done, is_complete, "{nameless}");
    }
}
