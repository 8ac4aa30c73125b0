//! An API server that has too much to do, and says so.

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
use super::road::Road;
use crate::support::{Random, TIMEOUT};

/// Which requests are refused, how often, and how long they are asked to wait.
struct Rule {
    /// Method and path end like this.
    request: String,
    times: usize,
    wait: Duration,
    /// When such requests came, those that were let through, too.
    came: Vec<Instant>,
}

/// Stands before the API server, speaks plain HTTP, and refuses what it is told to.
struct Gate {
    shared: Arc<Shared>,
    kubeconfig: std::path::PathBuf,
    task: JoinHandle<()>,
}

struct Shared {
    client: Client,
    rules: Mutex<Vec<Rule>>,
}

impl Gate {
    async fn start(cluster: &Cluster) -> Self {
        let control_plane = &cluster.control_plane;
        let client = control_plane.client_for(SIDECAR).unwrap();
        let shared = Arc::new(Shared { client, rules: Mutex::default() });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let path = control_plane.kubeconfig_for(SIDECAR).unwrap();
        let text = fs::read_to_string(&path).unwrap().replace(control_plane.url(), &url);
        let kubeconfig = path.with_extension("gated");
        fs::write(&kubeconfig, text).unwrap();
        let router = Router::new().fallback(pass).with_state(shared.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { shared, kubeconfig, task }
    }

    fn refuse(&self, request: &str, times: usize, wait: Duration) {
        let rule = Rule { request: request.to_owned(), times, wait, came: Vec::new() };
        self.shared.rules().push(rule);
    }

    /// How long it was from each of the refused requests to the next one.
    fn pauses(&self, request: &str) -> Vec<Duration> {
        let rules = self.shared.rules();
        let rule = rules.iter().find(|rule| rule.request == request).unwrap();
        rule.came.windows(2).take(rule.times).map(|pair| pair[1] - pair[0]).collect()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn rules(&self) -> MutexGuard<'_, Vec<Rule>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long this request has to wait, if it is refused.
    fn refused(&self, request: &str) -> Option<Duration> {
        let mut rules = self.rules();
        let rule = rules.iter_mut().find(|rule| request.ends_with(&rule.request))?;
        rule.came.push(Instant::now());
        (rule.came.len() <= rule.times).then_some(rule.wait)
    }
}

async fn pass(State(shared): State<Arc<Shared>>, request: Request) -> Response {
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
    let Ok(body) = to_bytes(body, usize::MAX).await else { return StatusCode::BAD_REQUEST.into_response() };
    // They are the client's own: those of this connection mean nothing on the next.
    for name in [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::AUTHORIZATION] {
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

/// Both a list and a write are told to wait; what is not, goes on.
pub(crate) async fn who_is_told_to_wait_waits(road: &Road) {
    const LIST: &str = "GET /api/v1/pods";
    const WRITE: &str = "/namespaces/throttled/persistentpodstates/web-a/status";
    let mut random = Random::of("throttled");
    let fleet = Fleet::new(&road.cluster, "throttled", 2, 3).await;
    road.sidecar().terminate(TIMEOUT).await.unwrap();
    let gate = Gate::start(&road.cluster).await;
    let (once, wait) = (Duration::from_secs(2), Duration::from_secs(4));
    gate.refuse(LIST, 2, once);
    gate.refuse(WRITE, 2, wait);

    fleet.replace_some(&mut random, 6).await;
    let options = SidecarOptions {
        name: "gated".to_owned(),
        kubeconfig: Some(gate.kubeconfig.clone()),
        ..SidecarOptions::default()
    };
    let gated = road.cluster.run_sidecar(options).unwrap();
    gated.wait_ready(TIMEOUT).await.unwrap();
    let before = fleet.states().await;
    fleet.pool.recorded("web-b", "web-b").await;
    assert_eq!(gate.shared.rules().len(), 2);
    fleet.end_state().await;
    for (request, wait) in [(LIST, once), (WRITE, wait)] {
        let pauses = gate.pauses(request);
        assert!(pauses.len() == 2 && pauses.iter().all(|pause| *pause >= wait), "{request}: {pauses:?}");
    }
    assert_eq!(fleet.states().await.len(), before.len());
    assert_eq!(gated.terminate(TIMEOUT).await.unwrap().code, Some(0));
    road.sidecar().start_again().unwrap();
    road.sidecar().wait_ready(TIMEOUT).await.unwrap();
    road.sidecar().wait_leading(TIMEOUT).await.unwrap();
}
