//! What is read from an API server, here a program that answers in its place.

use std::net::SocketAddr;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse;
use http::Response;
use k8s_openapi::jiff::Timestamp;
use kube::Config;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::finding::Severity;
use crate::reader::CHECK_LIMITS;
use crate::report::words;
use crate::rules::judge;
use crate::settings::Phase;

/// What the API server answers to a path with a query, and to the user in a review.
type Answer = Arc<dyn Fn(&str, &str) -> Option<Value> + Send + Sync>;

/// An API server that answers with the function, else as an empty cluster does.
async fn api_server(delay: Duration, answer: Answer) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let app = Router::new().fallback(move |request: Request| {
        let answer = Arc::clone(&answer);
        async move {
            tokio::time::sleep(delay).await;
            let (parts, body) = request.into_parts();
            let path = parts.uri.path().to_owned();
            let mut query = parts.uri.query().unwrap_or_default().to_owned();
            if path.ends_with("/subjectaccessreviews") {
                let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
                let review: Value = serde_json::from_slice(&body).unwrap();
                query = review["spec"].to_string();
            }
            let found = answer(&path, &query).or_else(|| empty(&path));
            let (code, body) = found.map_or((404, json!({})), |body| (200, body));
            Response::builder()
                .status(code)
                .body(body.to_string())
                .unwrap()
                .into_response()
        }
    });
    tokio::spawn(async { axum::serve(listener, app).await });
    let mut config = Config::new(format!("http://{address}").parse().unwrap());
    config.root_cert = Some(
        webpki_root_certs::TLS_SERVER_ROOT_CERTS
            .iter()
            .map(|one| one.to_vec())
            .collect(),
    );
    Client::try_from(config).unwrap()
}

fn empty(path: &str) -> Option<Value> {
    let is_list = [
        "configurations",
        "clusteradmissionpolicies",
        "policyservers",
        "deployments",
        "pods",
        "namespaces",
        "persistentpodstates",
    ]
    .iter()
    .any(|kind| path.ends_with(kind));
    match path {
        "/version" => Some(json!({"major": "1", "minor": "32", "gitVersion": "v1.32.0"})),
        path if path.ends_with("/subjectaccessreviews") => {
            Some(json!({"status": {"allowed": false}}))
        }
        path if path.contains("/customresourcedefinitions/") => {
            Some(json!({"spec": {"group": "g", "scope": "Cluster",
            "names": {"kind": "K", "plural": "ks"}, "versions": []}}))
        }
        path if is_list && !path.contains("customresource") => Some(json!({"items": []})),
        _ => None,
    }
}

fn list(items: &[Value]) -> Value {
    json!({"items": items})
}

fn before() -> Settings {
    Settings {
        phase: Phase::Before,
        policy_server: Some("default".into()),
        skip_registry: true,
        ..Settings::default()
    }
}

fn deployment(namespace: &str, name: &str, replicas: u64) -> Value {
    json!({"metadata": {"name": name, "namespace": namespace}, "spec": {"replicas": replicas, "selector": {}, "template":
        {"spec": {"serviceAccountName": "account",
            "containers": [{"name": "c", "image": "r.example/persistent-pod-state-sidecar:v1"}]}}}})
}

fn found(facts: &Facts, code: &str) -> Vec<(Severity, String)> {
    let all = judge(facts)
        .into_iter()
        .filter(|finding| finding.code() == code);
    all.map(|finding| (finding.severity, words(facts, &finding).seen))
        .collect()
}

/// The API server allows 256 KB of annotations, so whoever may write objects in one namespace can
/// make a page large.
#[tokio::test]
async fn a_page_that_is_too_large_is_read_in_smaller_ones() {
    let client = api_server(
        Duration::ZERO,
        Arc::new(|path, query| {
            if !path.ends_with("/persistentpodstates") {
                return None;
            }
            let parameter = |name: &str| {
                query
                    .split('&')
                    .find_map(|one| one.strip_prefix(name)?.parse::<usize>().ok())
            };
            let (limit, from) = (
                parameter("limit=").unwrap(),
                parameter("continue=").unwrap_or(0),
            );
            let until = (from + limit).min(40);
            let object = |index| {
                json!({"metadata": {"name": format!("w{index}"), "namespace": "aaa",
            "annotations": {"a": "x".repeat(256 << 10)}}})
            };
            let next = if until < 40 {
                until.to_string()
            } else {
                String::new()
            };
            Some(
                json!({"items": (from..until).map(object).collect::<Vec<_>>(), "metadata": {"continue": next}}),
            )
        }),
    );
    let facts = gather(&client.await, before(), &TIMING).await;
    assert_eq!(facts.problems, []);
    let names: std::collections::BTreeSet<&str> = facts
        .objects
        .known()
        .unwrap()
        .listed
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names.len(), 40);
}

fn timing(total: u64, lease_interval: u64, lease_duration: u64) -> Timing {
    Timing {
        total: Duration::from_millis(total),
        lease_interval: Duration::from_millis(lease_interval),
        lease_duration: Duration::from_millis(lease_duration),
    }
}

/// The Job would be ended without a word.
#[tokio::test]
async fn a_slow_api_server_costs_only_what_it_could_not_answer_in_time() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    let answer: Answer = Arc::new(move |_, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        None
    });
    let client = api_server(Duration::from_millis(300), answer).await;
    let facts = gather(&client, before(), &timing(1000, 10, 10)).await;
    // Nothing is asked when no time is left.
    let asked = requests.load(Ordering::Relaxed);
    assert!(asked <= 4, "{asked}");
    assert!(facts.kubernetes.known().is_some());
    let late = found(&facts, "RequestFailed");
    assert!(
        !late.is_empty()
            && late
                .iter()
                .all(|(_, seen)| seen.contains("no time is left")),
        "{late:?}"
    );
    assert!(
        judge(&facts)
            .iter()
            .all(|finding| finding.code() == "RequestFailed" || finding.severity != Severity::Error)
    );
}

/// A PolicyServer of somebody else exists, whose account may not read PersistentPodStates.
#[tokio::test]
async fn without_a_policy_no_policy_server_is_judged() {
    let server = json!({"metadata": {"name": "default"}, "spec": {"replicas": 1}});
    let answer: Answer = Arc::new(move |path, _| {
        path.ends_with("/policyservers")
            .then(|| list(std::slice::from_ref(&server)))
    });
    let client = api_server(Duration::ZERO, answer).await;
    for (settings, expected) in [
        (
            Settings {
                policy: "typo".into(),
                skip_registry: true,
                ..Settings::default()
            },
            [0, 0, 2],
        ),
        (
            Settings {
                policy_server: Some("default".into()),
                ..Settings::default()
            },
            [1, 1, 2],
        ),
    ] {
        let facts = gather(&client, settings, &timing(60_000, 10, 10)).await;
        let codes = ["LookupForbidden", "ServiceAccountMissing", "PolicyMissing"];
        assert_eq!(codes.map(|code| found(&facts, code).len()), expected);
    }
}

/// The chart names it after the release.
#[tokio::test]
async fn the_only_sidecar_in_its_namespace_may_have_any_name() {
    for (names, expected) in [
        (&["web-sidecar"][..], "web-sidecar"),
        (&["a", "b"], "pps-sidecar"),
    ] {
        let answer: Answer = Arc::new(move |path, query| {
            let sidecars = names
                .iter()
                .map(|name| deployment("persistent-pod-state", name, 1));
            let all: Vec<Value> = sidecars
                .chain([deployment("elsewhere", "other", 1)])
                .collect();
            (path.ends_with("/deployments") && query.contains("sidecar")).then(|| list(&all))
        });
        let client = api_server(Duration::ZERO, answer).await;
        let facts = gather(&client, before(), &timing(60_000, 10, 10)).await;
        assert_eq!(facts.settings.sidecar, expected);
    }
}

/// The rights of the sidecar are asked at the same time.
#[tokio::test]
async fn many_rights_take_as_long_as_one() {
    let answered = Arc::new(Mutex::new(Vec::new()));
    let times = Arc::clone(&answered);
    let answer: Answer = Arc::new(move |path, query| match path {
        path if path.ends_with("/deployments") && query.contains("sidecar") => {
            Some(list(&[deployment(
                "persistent-pod-state",
                "pps-sidecar",
                1,
            )]))
        }
        path if path.ends_with("/subjectaccessreviews") => {
            times.lock().unwrap().push(Instant::now());
            Some(json!({"status": {"allowed": true}}))
        }
        _ => None,
    });
    let delay = Duration::from_millis(300);
    let client = api_server(delay, answer).await;
    let facts = gather(&client, before(), &timing(60_000, 10, 10)).await;
    assert_eq!(facts.missing_sidecar_rights, []);
    let answered = answered.lock().unwrap();
    let took = *answered.last().unwrap() - answered[0];
    assert!(took < delay * 14, "one after the other: {took:?}");
}

/// The holder renews its Lease every 400 ms here.
#[tokio::test]
async fn a_holder_is_dead_only_if_it_was_watched_for_as_long_as_its_lease() {
    let run = async |renews: bool, timing: Timing| {
        let started = Instant::now();
        let client = api_server(
            Duration::ZERO,
            Arc::new(move |path, query| match path {
                path if path.ends_with("/leases/pps-sidecar") => {
                    let renewed = if renews {
                        started.elapsed().as_millis() / 400
                    } else {
                        0
                    };
                    let renewed = Timestamp::from_second(i64::try_from(renewed).unwrap())
                        .unwrap()
                        .to_string();
                    Some(json!({"spec": {"holderIdentity": "a_b", "renewTime": renewed}}))
                }
                // A list that takes as long as the former interval between the reads.
                path if path.ends_with("/deployments") && query.contains("sidecar") => {
                    std::thread::sleep(Duration::from_millis(300));
                    Some(list(&[]))
                }
                _ => None,
            }),
        );
        let settings = Settings {
            without_policies: true,
            ..Settings::default()
        };
        let facts = gather(&client.await, settings, &timing).await;
        facts
            .lease
            .known()
            .map(|reads| reads.living_holder().is_some())
    };
    assert_eq!(run(true, timing(20_000, 100, 2000)).await, Some(true));
    assert_eq!(run(false, timing(20_000, 100, 600)).await, Some(false));
    // There was no time to see it: nobody knows.
    assert_eq!(run(false, timing(800, 100, 6000)).await, None);
}

/// What is said of a sidecar `tools/pps`, whose Lease the API server answers with; and how often it
/// was read.
async fn silence(deployments: Option<Vec<Value>>, lease: Option<Value>) -> (Option<String>, usize) {
    silence_of(None, deployments, lease).await
}

async fn silence_of(
    namespace: Option<&str>,
    deployments: Option<Vec<Value>>,
    lease: Option<Value>,
) -> (Option<String>, usize) {
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    let client = api_server(
        Duration::ZERO,
        Arc::new(move |path, _| match path {
            // What is no list cannot be read.
            path if path.ends_with("/deployments") => Some(
                deployments
                    .as_ref()
                    .map_or(json!("no list"), |items| list(items)),
            ),
            path if path.ends_with("/namespaces/tools/leases/pps") => {
                counted.fetch_add(1, Ordering::Relaxed);
                lease.clone()
            }
            _ => None,
        }),
    );
    let timing = timing(60_000, 100, 300);
    let reader = Reader::new(client.await, CHECK_LIMITS, timing.total);
    let silent = leases::silent_within(reader, namespace, &timing).await;
    let seen = silent.map(|one| format!("{}: {}", one.subject, one.seen));
    (seen, reads.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_lease_that_nobody_renews_is_noticed_and_one_that_is_renewed_costs_one_request() {
    let held =
        |renewed: &str| Some(json!({"spec": {"holderIdentity": "pps-1_x", "renewTime": renewed}}));
    let named = || Some(vec![deployment("tools", "pps", 2)]);
    let now = Timestamp::now().to_string();
    let (fresh, reads) = silence(named(), held(&now)).await;
    assert_eq!(
        (fresh, reads),
        (None, 1),
        "it looks renewed, so nobody waits for the next time"
    );

    let (stale, reads) = silence(named(), held("2026-11-23T00:00:00.000000Z")).await;
    let text =
        "Lease tools/pps: pps-1_x holds it, but did not renew it for 15 s, so nothing is recorded";
    assert_eq!(stale.as_deref(), Some(text));
    assert!(
        reads > 1,
        "another clock may be wrong: it is watched for as long as it lasts"
    );

    let (missing, _) = silence(named(), None).await;
    assert_eq!(
        missing.as_deref(),
        Some("Lease tools/pps: does not exist, so nothing is recorded")
    );
    let (nothing, _) = silence(Some(Vec::new()), None).await;
    let text = "Lease persistent-pod-state/pps-sidecar: does not exist, so nothing is recorded";
    assert_eq!(nothing.as_deref(), Some(text), "there is no sidecar at all");
}

#[tokio::test]
async fn a_recorder_that_may_have_any_name_is_not_called_silent() {
    assert_eq!(
        silence(None, None).await.0,
        None,
        "Deployments may not be read"
    );
    let two = vec![deployment("tools", "pps", 1), deployment("more", "pps", 1)];
    assert_eq!(silence(Some(two), None).await.0, None);
    // One that uses no Lease.
    let mut alone = deployment("tools", "pps", 1);
    alone["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["--leader-election=false"]);
    assert_eq!(silence(Some(vec![alone]), None).await.0, None);
}

/// A sidecar of this namespace, as the chart installs one for each.
fn sidecar_of(recorded: &str) -> Value {
    let mut one = deployment(
        "persistent-pod-state",
        &format!("pps-sidecar-{recorded}"),
        1,
    );
    let lease = format!("--lease-name=pps-sidecar-{recorded}");
    let container = &mut one["spec"]["template"]["spec"]["containers"][0];
    container["args"] = json!([format!("--namespace={recorded}"), lease]);
    one
}

#[tokio::test]
async fn each_sidecar_of_one_namespace_is_checked_with_its_lease_and_its_rights_there() {
    let reviewed = Arc::new(Mutex::new(Vec::new()));
    let (seen, renewals) = (Arc::clone(&reviewed), AtomicUsize::new(0));
    let answer: Answer = Arc::new(move |path, query| match path {
        path if path.ends_with("/deployments") && query.contains("sidecar") => {
            let all = [
                sidecar_of("a"),
                sidecar_of("b"),
                deployment("elsewhere", "other", 1),
            ];
            Some(list(&all))
        }
        path if path.ends_with("/leases/pps-sidecar-a") => {
            let renewals = renewals.fetch_add(1, Ordering::Relaxed);
            Some(json!({"spec": {"holderIdentity": "a_x", "leaseTransitions": renewals}}))
        }
        path if path.ends_with("/subjectaccessreviews") => {
            seen.lock().unwrap().push(query.to_owned());
            Some(
                json!({"status": {"allowed": !query.contains(r#""pods""#) || query.contains(r#""namespace":"a""#)}}),
            )
        }
        _ => None,
    });
    let client = api_server(Duration::ZERO, answer).await;
    let settings = Settings {
        without_policies: true,
        ..Settings::default()
    };
    let facts = gather(&client, settings, &timing(60_000, 10, 10)).await;
    let leads = |name: &str| (Severity::Ok, format!("{name} leads"));
    assert_eq!(found(&facts, "LeaderActive"), [leads("a")]);
    let missing = |seen: &str| (Severity::Error, seen.to_owned());
    assert_eq!(
        found(&facts, "LeaderMissing"),
        [missing("does not exist, so nothing is recorded")]
    );
    let lacks = "its ServiceAccount may not list pods in namespace b, watch pods in namespace b";
    assert_eq!(found(&facts, "SidecarForbidden"), [missing(lacks)]);
    assert_eq!(found(&facts, "SidecarMissing"), []);
    let second = "another sidecar runs, which may record the same objects: elsewhere/other";
    assert_eq!(
        found(&facts, "SecondInstallation"),
        [(Severity::Warning, second.to_owned())]
    );
    let reviews = reviewed.lock().unwrap();
    assert!(
        reviews
            .iter()
            .any(|review| review.contains(r#""resource":"nodes""#)
                && !review.contains(r#""namespace":"a""#))
    );
}

#[tokio::test]
async fn the_recorder_of_a_namespace_is_the_sidecar_that_records_it() {
    let mut apart = deployment("tools", "pps", 1);
    apart["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["--namespace", "shop"]);
    let both = || Some(vec![sidecar_of("b"), apart.clone()]);
    let (missing, _) = silence_of(Some("shop"), both(), None).await;
    assert_eq!(
        missing.as_deref(),
        Some("Lease tools/pps: does not exist, so nothing is recorded")
    );
    let (other, _) = silence_of(Some("b"), both(), None).await;
    let text = "Lease persistent-pod-state/pps-sidecar-b: does not exist, so nothing is recorded";
    assert_eq!(other.as_deref(), Some(text));
    let now = Timestamp::now().to_string();
    let held = json!({"spec": {"holderIdentity": "pps-1_x", "renewTime": now}});
    assert_eq!(
        silence_of(Some("shop"), both(), Some(held)).await,
        (None, 1)
    );
}

/// The webhook names the namespace and, by its Service, the Deployment. Nothing else is asked for.
#[tokio::test]
async fn the_controller_is_the_one_that_kubewardens_own_webhook_leads_to() {
    let name = "kubewarden-controller-validating-webhook-configuration";
    let webhook = json!({"metadata": {"name": name}, "webhooks": [{"name": "w",
        "admissionReviewVersions": [], "sideEffects": "None", "clientConfig": {"service":
            {"namespace": "kw", "name": "release-admission-controller-webhook-service"}}}]});
    let answer: Answer = Arc::new(move |path, _| match path {
        path if path.ends_with("/validatingwebhookconfigurations") => {
            Some(list(std::slice::from_ref(&webhook)))
        }
        path if path.ends_with("/namespaces/kw/deployments/release-admission-controller") => {
            let mut controller = deployment("kw", "release-admission-controller", 1);
            let container = &mut controller["spec"]["template"]["spec"]["containers"][0];
            container["image"] = "r.example/controller:v1.37.2".into();
            Some(controller)
        }
        _ => None,
    });
    let client = api_server(Duration::ZERO, answer).await;
    let facts = gather(&client, before(), &timing(60_000, 10, 10)).await;
    assert_eq!(facts.problems, []);
    assert_eq!(facts.controller_version().unwrap().text, "v1.37.2");
}
