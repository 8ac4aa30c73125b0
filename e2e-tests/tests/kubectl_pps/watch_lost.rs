//! `watch` where watches are forbidden, where a poll fails, and where the connection is lost.

use std::collections::BTreeSet;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use futures::future::join_all;
use kube::Client;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pps_e2e::cluster::Cluster;
use pps_e2e::cluster::proxy::Proxy;
use pps_e2e::plugin::Plugin;
use pps_e2e::scratch::Scratch;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::{HOSTNAME, Pool, TIMEOUT};

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// It is answered with 500.
    Error,
    /// Its connection is closed in the middle of the answer.
    Cut,
    /// It is never answered.
    Hold,
}

/// An API server that refuses all watches, and fails chosen lists.
struct Faulty {
    shared: Arc<Shared>,
    kubeconfig: Scratch,
    task: JoinHandle<()>,
}

struct Shared {
    client: Client,
    next: Mutex<Option<(&'static str, Fault)>>,
    is_holding: Notify,
}

impl Faulty {
    async fn start(cluster: &Cluster) -> Self {
        let control_plane = &cluster.control_plane;
        let client = control_plane.client_for("admin").unwrap();
        let shared = Arc::new(Shared { client, next: Mutex::default(), is_holding: Notify::new() });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let kubeconfig = std::fs::read_to_string(control_plane.kubeconfig_for("admin").unwrap()).unwrap();
        let kubeconfig = kubeconfig.replace(control_plane.url(), &url);
        let kubeconfig = Scratch::file("faulty-kubeconfig", kubeconfig).unwrap();
        let router = Router::new().fallback(forward).with_state(shared.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { shared, kubeconfig, task }
    }

    /// The next list of this resource.
    fn fail(&self, resource: &'static str, fault: Fault) {
        *self.shared.next.lock().unwrap_or_else(PoisonError::into_inner) = Some((resource, fault));
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let refusal = |code: StatusCode, reason: &str| {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "refused by the test", "reason": reason, "code": code.as_u16()});
        (code, Json(status)).into_response()
    };
    let uri = request.uri();
    if uri.query().is_some_and(|query| query.contains("watch=true")) {
        return refusal(StatusCode::FORBIDDEN, "Forbidden");
    }
    let resource = uri.path().rsplit('/').next().unwrap_or_default();
    let fault = {
        let mut next = shared.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.take_if(|(of, _)| *of == resource)
    };
    match fault {
        Some((_, Fault::Error)) => return refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        Some((_, Fault::Cut)) => {
            let part = futures::stream::iter([Ok(b"{".to_vec()), Err(io::Error::other("cut"))]);
            return Response::new(Body::from_stream(part));
        }
        Some((_, Fault::Hold)) => {
            shared.is_holding.notify_one();
            std::future::pending::<()>().await;
        }
        None => {}
    }
    // The command only reads.
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let read = http::Request::get(target).body(kube::client::Body::empty()).unwrap();
    match shared.client.send(read).await {
        Ok(answer) => (answer.status(), Body::new(answer.into_body())).into_response(),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

/// `kubectl pps watch`, without a terminal.
struct Watching {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: Lines<BufReader<ChildStderr>>,
}

impl Watching {
    /// Starts it, and waits for the line of the only Pod.
    async fn start(plugin: &Plugin, namespace: &str) -> Self {
        let mut child = plugin.start(&["watch", "web", "-n", namespace]).unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut watching = Self { child, stdout, stderr };
        watching.says("web-0 Ready, on ").await;
        watching
    }

    /// The next line of standard output, which has this text.
    async fn says(&mut self, text: &str) -> String {
        let line = next(&mut self.stdout, text).await;
        assert!(line.contains(text), "not {text:?}, but {line:?}");
        line
    }

    /// The next line of standard error begins with this text.
    async fn notes(&mut self, text: &str) {
        let line = next(&mut self.stderr, text).await;
        assert!(line.starts_with(text), "not {text:?}, but {line:?}");
    }

    /// Each kind may not be watched, in any order.
    async fn polls(&mut self) {
        let mut notes = BTreeSet::new();
        for _ in 0..4 {
            notes.insert(next(&mut self.stderr, "you may not watch").await);
        }
        let kinds = ["PersistentPodStates", "Pods", "StatefulSets", "nodes"];
        let expected =
            kinds.map(|kind| format!("note: you may not watch {kind}, so everything is read again each 5s"));
        assert_eq!(notes, expected.into());
    }

    /// Presses Ctrl-C.
    async fn interrupt(mut self) {
        let id = i32::try_from(self.child.id().unwrap()).unwrap();
        kill(Pid::from_raw(id), Signal::SIGINT).unwrap();
        let ended = timeout(TIMEOUT, self.child.wait()).await.expect("it does not end").unwrap();
        assert_eq!(ended.code(), Some(0));
    }
}

async fn next(lines: &mut Lines<BufReader<impl AsyncRead + Unpin>>, expected: &str) -> String {
    let line = timeout(TIMEOUT, lines.next_line()).await;
    line.unwrap_or_else(|_| panic!("no line with {expected:?}")).unwrap().unwrap_or_default()
}

/// A poll that fails, partly or completely, shows no Pod as deleted. It is reported once, and so is its end.
pub(super) async fn goes_on_when_a_poll_has_failed(cluster: &Cluster) {
    let pool = pool(cluster, "watch-polls").await;
    let lists = [
        ("persistentpodstates", Fault::Error),
        ("pods", Fault::Error),
        ("statefulsets", Fault::Error),
        ("nodes", Fault::Cut),
    ];
    let all = lists.map(async |(resource, fault)| {
        let api = Faulty::start(cluster).await;
        let mut watching = Watching::start(&Plugin::new(api.kubeconfig.path()), "watch-polls").await;
        watching.polls().await;
        api.fail(resource, fault);
        watching.notes("note: connection lost, trying again: ").await;
        (api, watching)
    });
    let all = join_all(all).await;
    pool.scale("web", 2).await;
    for (_api, mut watching) in all {
        watching.notes("note: connected again").await;
        watching.says(" web-1 ").await;
        watching.interrupt().await;
    }
}

pub(super) async fn ends_on_an_interrupt_while_a_poll_hangs(cluster: &Cluster) {
    pool(cluster, "watch-hangs").await;
    let api = Faulty::start(cluster).await;
    let mut watching = Watching::start(&Plugin::new(api.kubeconfig.path()), "watch-hangs").await;
    watching.polls().await;
    api.fail("pods", Fault::Hold);
    timeout(TIMEOUT, api.shared.is_holding.notified()).await.expect("nothing is read again");
    watching.interrupt().await;
}

pub(super) async fn shows_what_a_lost_watch_has_missed(cluster: &Cluster) {
    let pool = pool(cluster, "watch-cut").await;
    let proxy = Proxy::start(cluster.control_plane.url()).await.unwrap();
    let kubeconfig = proxy.kubeconfig(&cluster.control_plane, "admin").unwrap();
    let mut watching = Watching::start(&Plugin::new(kubeconfig), "watch-cut").await;
    proxy.cut();
    watching.notes("note: connection lost, trying again: ").await;
    pool.scale("web", 2).await;
    pool.ready("web", 2).await;
    proxy.mend();
    watching.notes("note: connected again").await;
    // The StatefulSet may be seen before its Pod.
    while !watching.says(" web-1 ").await.contains("Ready") {}
    watching.interrupt().await;
}

/// A Pod that is where it is recorded.
async fn pool<'a>(cluster: &'a Cluster, namespace: &'static str) -> Pool<'a> {
    let pool = Pool::new(cluster, namespace, 1, 1).await;
    cluster.run_stateful_set(&pool.stateful_set("web", 1).persistent(HOSTNAME, "", "")).await.unwrap();
    pool.recorded("web", "web").await;
    pool
}
