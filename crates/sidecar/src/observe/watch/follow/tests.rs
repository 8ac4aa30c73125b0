//! Lists that fail, in virtual time.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use futures::{StreamExt, stream};
use http::Request;
use http_body_util::StreamBody;
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use pps_recorder::demand::Naming;
use pps_recorder::facts::GroupKind;
use pps_recorder::kinds;
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
        let answer = http::Response::builder()
            .status(code)
            .body(Body::from(body.into_bytes()));
        async move { Ok::<_, Infallible>(answer.unwrap()) }
    });
    let (sender, observations) = mpsc::channel(10_000);
    let health = Health::default();
    let watches = Watches::new(
        Client::new(service, "n"),
        None,
        health.clone(),
        Arc::default(),
        sender,
    );
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
            (
                200,
                json!({"metadata": {"resourceVersion": "7", "continue": "t"}, "items": []}),
            )
        };
        (code, answer.to_string())
    });
    sleep(Duration::from_secs(290)).await;
    let [first, second] = *requests.lock().unwrap();
    assert!(first == 1 && (25..60).contains(&second), "{first} {second}");
    assert_eq!(
        health.problem().as_deref(),
        Some("cannot watch: statefulsets")
    );
    sleep(Duration::from_secs(100)).await;
    assert_eq!(requests.lock().unwrap()[0], 2);
}

/// A new key has no values until there is another list, so that what names it waits.
#[tokio::test(start_paused = true)]
async fn a_list_that_fails_beside_a_watch_that_works_is_reported() {
    let is_forbidden = Arc::<Mutex<bool>>::default();
    let seen = is_forbidden.clone();
    let service = service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().to_string().contains("watch=true");
        let code = if !is_watch && *seen.lock().unwrap() {
            403
        } else {
            200
        };
        let list = json!({"metadata": {"resourceVersion": "7"}, "items": []});
        let body = if is_watch {
            String::new()
        } else {
            list.to_string()
        };
        async move {
            if is_watch {
                // The API server ends each watch, and the next one is opened.
                sleep(Duration::from_secs(5)).await;
            }
            Ok::<_, Infallible>(
                http::Response::builder()
                    .status(code)
                    .body(Body::from(body.into_bytes()))
                    .unwrap(),
            )
        }
    });
    let (sender, _observations) = mpsc::channel(10_000);
    let health = Health::default();
    health.mark_synced();
    let watches = Watches::new(
        Client::new(service, "n"),
        None,
        health.clone(),
        Arc::default(),
        sender,
    );
    let keys = tokio::sync::watch::Sender::new(0);
    tokio::spawn(watches.watch_pods(keys.subscribe()));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(health.problem(), None);
    *is_forbidden.lock().unwrap() = true;
    keys.send_replace(1);
    for _ in 0..20 {
        sleep(Duration::from_secs(3)).await;
        assert_eq!(health.problem().as_deref(), Some("cannot watch: pods"));
    }
    *is_forbidden.lock().unwrap() = false;
    sleep(Duration::from_secs(30)).await;
    assert_eq!(health.problem(), None);
}

/// It never becomes complete, so that a new key has no values.
#[tokio::test(start_paused = true)]
async fn a_list_whose_token_expires_again_and_again_is_reported() {
    let (health, _observations) = watch(|uri| {
        if uri.contains("continue=t") {
            (410, json!({"kind": "Status", "code": 410}).to_string())
        } else {
            let metadata = json!({"resourceVersion": "7", "continue": "t"});
            (200, json!({"metadata": metadata, "items": []}).to_string())
        }
    });
    health.mark_synced();
    sleep(Duration::from_millis(500)).await;
    assert_eq!(health.problem(), None, "once is nothing unusual");
    sleep(Duration::from_secs(1)).await;
    let problem = health.problem();
    assert_eq!(problem.as_deref(), Some("cannot watch: statefulsets"));
}

/// A list that works again says nothing about the watch, which waits as long as it was asked to.
#[tokio::test(start_paused = true)]
async fn a_watch_that_waits_stays_down_when_a_list_beside_it_works_again() {
    let codes = Arc::new(Mutex::new((200, 200)));
    let seen = codes.clone();
    let service = service_fn(move |request: Request<Body>| {
        let uri = request.uri().to_string();
        let is_watch = uri.contains("watch=true");
        let (mut list_code, watch_code) = *seen.lock().unwrap();
        if uri.ends_with("limit=1") {
            // The question which version the API server has.
            list_code = 200;
        }
        async move {
            let (code, body) = if !is_watch {
                let list = json!({"metadata": {"resourceVersion": "7"}, "items": []});
                (list_code, list.to_string())
            } else if watch_code == 200 {
                sleep(Duration::from_secs(5)).await;
                (200, String::new())
            } else {
                let wait = json!({"kind": "Status", "details": {"retryAfterSeconds": 40}});
                (watch_code, wait.to_string())
            };
            let answer = http::Response::builder().status(code);
            Ok::<_, Infallible>(answer.body(Body::from(body.into_bytes())).unwrap())
        }
    });
    let (sender, _observations) = mpsc::channel(10_000);
    let health = Health::default();
    health.mark_synced();
    let watches = Watches::new(
        Client::new(service, "n"),
        None,
        health.clone(),
        Arc::default(),
        sender,
    );
    let keys = tokio::sync::watch::Sender::new(0);
    tokio::spawn(watches.watch_pods(keys.subscribe()));
    sleep(Duration::from_secs(20)).await;
    assert_eq!(health.problem(), None);
    *codes.lock().unwrap() = (500, 429);
    keys.send_replace(1);
    sleep(Duration::from_secs(10)).await;
    *codes.lock().unwrap() = (200, 429);
    for _ in 0..10 {
        sleep(Duration::from_secs(2)).await;
        assert_eq!(health.problem().as_deref(), Some("cannot watch: pods"));
    }
    *codes.lock().unwrap() = (200, 200);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(health.problem(), None);
}

/// The answer has begun, and then nothing comes.
#[tokio::test(start_paused = true)]
async fn a_connection_on_which_nothing_comes_is_noticed_within_a_minute() {
    for (silent, before) in [
        ("limit=250", r#"{"metadata": "#),
        ("watch=true", ""),
        ("watch=true", r#"{"type": "ADDED", "object": "#),
    ] {
        let service = service_fn(move |request: Request<Body>| {
            let list = r#"{"metadata": {"resourceVersion": "7"}, "items": []}"#;
            let is_silent = request.uri().to_string().contains(silent);
            let body = if is_silent { before } else { list };
            let begun = stream::once(async { Ok::<_, Infallible>(Frame::data(body.into())) });
            let rest = stream::pending().take(usize::from(is_silent));
            let answer = http::Response::new(StreamBody::new(begun.chain(rest)));
            async { Ok::<_, Infallible>(answer) }
        });
        let (sender, _observations) = mpsc::channel(10_000);
        let health = Health::default();
        health.mark_synced();
        let watches = Watches::new(
            Client::new(service, "n"),
            None,
            health.clone(),
            Arc::default(),
            sender,
        );
        tokio::spawn(watches.watch_stateful_sets());
        sleep(Duration::from_secs(55)).await;
        assert_eq!(health.problem(), None, "{silent} {before}");
        sleep(Duration::from_millis(5500)).await;
        assert_eq!(
            health.problem().as_deref(),
            Some("cannot watch: statefulsets"),
            "{silent} {before}"
        );
    }
}

/// A place in time that the API server does not have is not asked for again.
#[tokio::test(start_paused = true)]
async fn lists_again_where_the_api_server_does_not_have_the_version_of_the_watch() {
    for (code, message) in [
        (404, "page not found"),
        (410, "too old resource version"),
        (504, "Timeout: Too large resource version: 7, current: 5"),
    ] {
        for is_event in [false, true] {
            let requests = Arc::<Mutex<Vec<String>>>::default();
            let seen = requests.clone();
            let (_health, _observations) = watch(move |uri| {
                let version = 7 + seen.lock().unwrap().len();
                let place = uri.split_once("resourceVersion=");
                let request = place.map_or("list", |(_, place)| place).to_owned();
                seen.lock().unwrap().push(request);
                let status = json!({"kind": "Status", "code": code, "message": message});
                let list =
                    json!({"metadata": {"resourceVersion": version.to_string()}, "items": []});
                match (place, is_event) {
                    (None, _) => (200, list.to_string()),
                    (_, true) => (200, json!({"type": "ERROR", "object": status}).to_string()),
                    (_, false) => (code, status.to_string()),
                }
            });
            sleep(Duration::from_secs(3)).await;
            assert_eq!(
                requests.lock().unwrap()[..4],
                ["list", "7", "list", "9"],
                "{code} {is_event}"
            );
        }
    }
}

/// Versions that are no numbers say nothing about which of a list and an event is newer.
#[tokio::test(start_paused = true)]
async fn where_versions_are_no_numbers_a_list_is_read_without_a_watch() {
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let seen = requests.clone();
    let service = service_fn(move |request: Request<Body>| {
        let uri = request.uri().to_string();
        let is_watch = uri.contains("watch=true");
        seen.lock()
            .unwrap()
            .push(if is_watch { "watch" } else { "list" }.to_owned());
        async move {
            if is_watch {
                return std::future::pending().await;
            }
            let list = json!({"metadata": {"resourceVersion": "v-1"}, "items": []}).to_string();
            Ok::<_, Infallible>(http::Response::new(Body::from(list.into_bytes())))
        }
    });
    let (sender, _observations) = mpsc::channel(10_000);
    let watches = Watches::new(
        Client::new(service, "n"),
        None,
        Health::default(),
        Arc::default(),
        sender,
    );
    let keys = tokio::sync::watch::Sender::new(0);
    tokio::spawn(watches.watch_pods(keys.subscribe()));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(*requests.lock().unwrap(), ["list", "watch"]);
    keys.send_replace(1);
    sleep(Duration::from_secs(1)).await;
    let expected = ["list", "watch", "list", "list", "watch"];
    assert_eq!(
        *requests.lock().unwrap(),
        expected,
        "the list that the watch ran beside does not count"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_fails_that_has_more_than_a_thousand_objects_without_a_name() {
    for (nameless, is_complete) in [(MAX_NAMELESS, true), (MAX_NAMELESS + 1, false)] {
        let list =
            json!({"metadata": {"resourceVersion": "7"}, "items": vec![json!({}); nameless]});
        let (_health, mut observations) = watch(move |_| (200, list.to_string()));
        sleep(Duration::from_secs(1)).await;
        let mut is_done = false;
        while let Ok(Observation::Workloads(_, update)) = observations.try_recv() {
            is_done |= update == Update::Done;
        }
        assert_eq!(is_done, is_complete, "{nameless}");
    }
}

#[tokio::test(start_paused = true)]
async fn objects_of_one_namespace_are_read_there_and_others_in_the_cluster() {
    let paths = Arc::<Mutex<BTreeSet<String>>>::default();
    let seen = paths.clone();
    let service = service_fn(move |request: Request<Body>| {
        seen.lock().unwrap().insert(request.uri().path().to_owned());
        std::future::pending::<Result<http::Response<Body>, Infallible>>()
    });
    let (sender, _observations) = mpsc::channel(1);
    let client = Client::new(service, "n");
    let watches = Watches::new(
        client,
        Some("shop"),
        Health::default(),
        Arc::default(),
        sender,
    );
    let relist = || tokio::sync::watch::Sender::new(0).subscribe();
    let kind = GroupKind {
        group: "example.io".into(),
        kind: "Database".into(),
    };
    let resource = kinds::Resource {
        group: "example.io".into(),
        version: "v1".into(),
        kind: "Database".into(),
        plural: "databases".into(),
        naming: Naming::StatefulSet,
    };
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(watches.clone().watch_persistent_pod_states(relist()));
    tasks.spawn(watches.clone().watch_stateful_sets());
    tasks.spawn(
        watches
            .clone()
            .watch_kind(WatchId { kind, number: 1 }, resource),
    );
    tasks.spawn(watches.clone().watch_pods(relist()));
    tasks.spawn(watches.clone().watch_nodes(relist()));
    tasks.spawn(watches.clone().watch_namespaces("a=b".into()));
    tasks.spawn(watches.clone().watch_definitions());
    tasks.spawn(watches.clone().watch_config("kruise-system".into()));
    sleep(Duration::from_secs(1)).await;
    let expected = [
        "/api/v1/namespaces",
        "/api/v1/namespaces/kruise-system/configmaps",
        "/api/v1/namespaces/shop/pods",
        "/api/v1/nodes",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/apps.kruise.io/v1alpha1/namespaces/shop/persistentpodstates",
        "/apis/apps/v1/namespaces/shop/statefulsets",
        "/apis/example.io/v1/namespaces/shop/databases",
    ];
    assert_eq!(*paths.lock().unwrap(), expected.map(str::to_owned).into());
}
