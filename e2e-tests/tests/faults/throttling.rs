//! An overloaded API server answers 429 with Retry-After.

use std::{
    fs,
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use kube::Client;
use pps_e2e::{
    cluster::{Cluster, SIDECAR},
    sidecar::SidecarOptions,
};
use serde_json::json;
use tokio::{net::TcpListener, task::JoinHandle};

use super::fleet::Fleet;
use super::network::Network;
use crate::support::{Random, TIMEOUT};

/// Which requests are refused, how often, and with which Retry-After.
struct Rule {
    /// The end of method and path.
    request: String,
    times: usize,
    wait: Duration,
    /// When matching requests arrived, including those that were passed on.
    arrivals: Vec<Instant>,
}

/// A plain-HTTP proxy in front of the API server that refuses chosen requests.
struct Throttle {
    shared: Arc<Shared>,
    kubeconfig: std::path::PathBuf,
    task: JoinHandle<()>,
}

struct Shared {
    client: Client,
    rules: Mutex<Vec<Rule>>,
}

impl Throttle {
    async fn start(cluster: &Cluster) -> Self {
        let control_plane = &cluster.control_plane;
        let client = control_plane.client_for(SIDECAR).unwrap();
        let shared = Arc::new(Shared {
            client,
            rules: Mutex::default(),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let path = control_plane.kubeconfig_for(SIDECAR).unwrap();
        let text = fs::read_to_string(&path)
            .unwrap()
            .replace(control_plane.url(), &url);
        let kubeconfig = path.with_extension("throttled");
        fs::write(&kubeconfig, text).unwrap();
        let router = Router::new().fallback(forward).with_state(shared.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            shared,
            kubeconfig,
            task,
        }
    }

    fn refuse(&self, request: &str, times: usize, wait: Duration) {
        let rule = Rule {
            request: request.to_owned(),
            times,
            wait,
            arrivals: Vec::new(),
        };
        self.shared.rules().push(rule);
    }

    /// The time between each refused request and the next one.
    fn pauses(&self, request: &str) -> Vec<Duration> {
        let rules = self.shared.rules();
        let rule = rules.iter().find(|rule| rule.request == request).unwrap();
        rule.arrivals
            .windows(2)
            .take(rule.times)
            .map(|pair| pair[1] - pair[0])
            .collect()
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn rules(&self) -> MutexGuard<'_, Vec<Rule>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Retry-After for this request, if it is refused.
    fn refused(&self, request: &str) -> Option<Duration> {
        let mut rules = self.rules();
        let rule = rules
            .iter_mut()
            .find(|rule| request.ends_with(&rule.request))?;
        rule.arrivals.push(Instant::now());
        (rule.arrivals.len() <= rule.times).then_some(rule.wait)
    }
}

async fn forward(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let line = format!("{} {}", request.method(), request.uri().path());
    if let Some(wait) = shared.refused(&line) {
        let seconds = wait.as_secs();
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "too many requests, please try again later", "reason": "TooManyRequests",
            "details": {"retryAfterSeconds": seconds}, "code": 429});
        let wait = [(header::RETRY_AFTER, seconds.to_string())];
        return (StatusCode::TOO_MANY_REQUESTS, wait, Json(status)).into_response();
    }
    let (mut parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    // These headers belong to this connection and are set again on the next one.
    for name in [
        header::HOST,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::AUTHORIZATION,
    ] {
        parts.headers.remove(name);
    }
    let request = Request::from_parts(parts, kube::client::Body::from(body));
    match shared.client.send(request).await {
        Ok(answer) => {
            let (mut parts, body) = answer.into_parts();
            parts.headers.remove(header::TRANSFER_ENCODING);
            Response::from_parts(parts, Body::new(body))
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

/// A list and a write are refused and wait. Other requests are not held up.
pub(crate) async fn honours_retry_after(network: &Network<'_>) {
    const LIST: &str = "GET /api/v1/pods";
    const WRITE: &str = "/namespaces/throttled/persistentpodstates/web-a/status";
    let mut random = Random::of("throttled");
    let fleet = Fleet::new(network.cluster, "throttled", 2, 3).await;
    network.sidecar().terminate(TIMEOUT).await.unwrap();
    let throttle = Throttle::start(network.cluster).await;
    let (once, wait) = (Duration::from_secs(2), Duration::from_secs(4));
    throttle.refuse(LIST, 2, once);
    throttle.refuse(WRITE, 2, wait);

    fleet.replace_some(&mut random, 6).await;
    let options = SidecarOptions {
        name: "throttled".to_owned(),
        kubeconfig: Some(throttle.kubeconfig.clone()),
        ..SidecarOptions::default()
    };
    let throttled = network.cluster.run_sidecar(options).unwrap();
    throttled.wait_ready(TIMEOUT).await.unwrap();
    let before = fleet.states().await;
    fleet.pool.recorded("web-b", "web-b").await;
    assert_eq!(throttle.shared.rules().len(), 2);
    fleet.end_state().await;
    for (request, wait) in [(LIST, once), (WRITE, wait)] {
        let pauses = throttle.pauses(request);
        assert!(
            pauses.len() == 2 && pauses.iter().all(|pause| *pause >= wait),
            "{request}: {pauses:?}"
        );
    }
    assert_eq!(fleet.states().await.len(), before.len());
    assert_eq!(throttled.terminate(TIMEOUT).await.unwrap().code, Some(0));
    network.sidecar().start_again().unwrap();
    network.sidecar().wait_ready(TIMEOUT).await.unwrap();
    network.sidecar().wait_leading(TIMEOUT).await.unwrap();
}
