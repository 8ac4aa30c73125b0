//! A list whose second page fails, in virtual time.

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
use crate::telemetry::health::Health;
use crate::telemetry::metrics::Metrics;
use pps_recorder::facts::interest::Interest;

#[tokio::test(start_paused = true)]
async fn a_page_that_fails_is_tried_again_for_five_minutes_before_the_list_begins_again() {
    let requests = Arc::<Mutex<[usize; 2]>>::default();
    let seen = requests.clone();
    let service = service_fn(move |request: Request<Body>| {
        let continues = request.uri().to_string().contains("continue=t");
        seen.lock().unwrap()[usize::from(continues)] += 1;
        let (code, answer) = if continues {
            (500, json!({"kind": "Status", "code": 500, "message": "no"}))
        } else {
            (200, json!({"metadata": {"resourceVersion": "7", "continue": "t"}, "items": []}))
        };
        let answer = Body::from(answer.to_string().into_bytes());
        async move { Ok::<_, Infallible>(http::Response::builder().status(code).body(answer).unwrap()) }
    });
    let (sender, _observations) = mpsc::channel(100);
    let health = Health::default();
    let metrics = Arc::new(Metrics::default());
    let watches =
        Watches::new(Client::new(service, "n"), Interest::default(), health.clone(), metrics, sender);
    tokio::spawn(watches.watch_stateful_sets());
    sleep(Duration::from_secs(290)).await;
    let [first, second] = *requests.lock().unwrap();
    assert!(first == 1 && (25..60).contains(&second), "{first} {second}");
    assert_eq!(health.problem().as_deref(), Some("cannot watch: statefulsets"));
    sleep(Duration::from_secs(100)).await;
    assert_eq!(requests.lock().unwrap()[0], 2);
}
