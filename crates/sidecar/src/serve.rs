//! Serve: `/healthz`, `/readyz` and `/metrics` over HTTP. Read-only. Whoever reaches the port can
//! hold neither much memory nor a connection for long, and keeps no probe out: a new connection
//! ends the oldest one when there are too many.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::{sleep, timeout};

use crate::lead::Leadership;
use crate::telemetry::Health;
use crate::telemetry::metrics::Metrics;

/// How many connections are open at once. The kubelet and Prometheus need two or three.
const MAX_CONNECTIONS: usize = 64;
const MAX_HEADER: usize = 16 << 10;
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection may last, in which one request is answered. Prometheus waits as long by
/// default.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a connection that could not be accepted, for example because too many files are
/// open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves in the background until the program ends. Returns the address, whose port differs from
/// the requested one if that was 0. Fails if the address cannot be bound. All IPv6 addresses
/// include those of IPv4, unless the host says otherwise (`net.ipv6.bindv6only`), and are these
/// alone on a host without IPv6.
pub(crate) async fn serve(
    address: SocketAddr,
    health: Health,
    metrics: Arc<Metrics>,
    leadership: Leadership,
) -> anyhow::Result<SocketAddr> {
    let listener = listen(address)
        .await
        .with_context(|| format!("cannot listen on {address}; choose another --admin-address"))?;
    let address = listener.local_addr()?;
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(show_readiness))
        .route("/metrics", get(show_metrics))
        .with_state((health, metrics, leadership));
    tokio::spawn(accept_connections(listener, router));
    Ok(address)
}

async fn accept_connections(listener: TcpListener, router: Router) {
    let mut connections = VecDeque::<AbortHandle>::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        connections.retain(|connection| !connection.is_finished());
        if connections.len() >= MAX_CONNECTIONS
            && let Some(oldest) = connections.pop_front()
        {
            oldest.abort();
        }
        connections.push_back(tokio::spawn(answer(stream, router.clone())).abort_handle());
        // Answers a request that has arrived before a further connection can end it.
        yield_now().await;
    }
}

async fn answer(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // A failed connection has no one to report to.
    drop(timeout(CONNECTION_TIMEOUT, connection).await);
}

async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) => match without_ipv6(address, &error) {
            Some(address) => TcpListener::bind(address).await,
            None => Err(error),
        },
        listener => listener,
    }
}

/// All addresses of a host on which all IPv6 addresses are refused like this, as it may have no
/// IPv6.
fn without_ipv6(address: SocketAddr, error: &io::Error) -> Option<SocketAddr> {
    let is_any = address.ip() == IpAddr::from(Ipv6Addr::UNSPECIFIED);
    let may_help = is_any && error.kind() != io::ErrorKind::AddrInUse;
    may_help.then(|| (Ipv4Addr::UNSPECIFIED, address.port()).into())
}

type Shared = State<(Health, Arc<Metrics>, Leadership)>;

async fn show_readiness(State((health, ..)): Shared) -> impl IntoResponse {
    match health.problem() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(problem) => (StatusCode::SERVICE_UNAVAILABLE, format!("{problem}\n")),
    }
}

async fn show_metrics(State((health, metrics, leadership)): Shared) -> impl IntoResponse {
    let text = metrics.render(health.problem().is_none(), leadership.term().is_some());
    (
        [(
            header::CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        text,
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may")]

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn any(port: u16) -> SocketAddr {
        SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))
    }

    #[tokio::test]
    async fn all_addresses_of_ipv6_include_those_of_ipv4() {
        let port = listen(any(0)).await.unwrap().local_addr().unwrap().port();
        let _listener = listen(any(port)).await.unwrap();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .await
            .unwrap();
    }

    #[test]
    fn a_host_without_ipv6_listens_on_all_addresses_of_ipv4() {
        for kind in [io::ErrorKind::Unsupported, io::ErrorKind::AddrNotAvailable] {
            let instead = |address| without_ipv6(address, &kind.into());
            assert_eq!(
                instead(any(8080)),
                Some((Ipv4Addr::UNSPECIFIED, 8080).into())
            );
            // An address that was asked for is not replaced by another one.
            assert_eq!(instead((Ipv6Addr::LOCALHOST, 0).into()), None);
        }
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_an_error() {
        let first = listen(any(0)).await.unwrap();
        let error = listen(any(first.local_addr().unwrap().port()))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    async fn running_server() -> SocketAddr {
        let leadership = Leadership::fixed(true);
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        serve(
            any,
            Health::default(),
            Arc::new(Metrics::default()),
            leadership,
        )
        .await
        .unwrap()
    }

    /// Sends this, and then nothing. Returns what is answered until the connection ends; nothing if
    /// it stays open for ten seconds.
    async fn answer_to(address: SocketAddr, request: &[u8]) -> Option<String> {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The server may have seen enough before the end.
        let _ = stream.write_all(request).await;
        let mut answer = Vec::new();
        let end = timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
        end.ok()
            .map(|_| String::from_utf8_lossy(&answer).into_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_sends_no_whole_request_or_a_large_one_is_closed() {
        let address = running_server().await;
        let endless = [
            b"GET /healthz HTTP/1.1\r\nX: ",
            "x".repeat(64 << 10).as_bytes(),
        ]
        .concat();
        let get = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
        let post = b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n";
        let answers = tokio::join!(
            answer_to(address, b""),
            answer_to(address, b"GET /healthz HTTP/1.1\r\nX: x"),
            answer_to(address, &endless),
            answer_to(address, get),
            answer_to(address, post),
        );
        let begins = |answer: &Option<String>, with: &str| {
            assert!(
                answer
                    .as_ref()
                    .is_some_and(|answer| answer.starts_with(with)),
                "{answers:?}"
            );
        };
        begins(&answers.0, "");
        begins(&answers.1, "");
        assert!(answers.2.is_some(), "not read to its end");
        begins(&answers.3, "HTTP/1.1 200");
        begins(&answers.4, "HTTP/1.1 405");
    }

    #[tokio::test]
    async fn many_open_connections_neither_add_up_nor_keep_the_kubelet_out() {
        let address = running_server().await;
        let mut held = Vec::new();
        for _ in 0..200 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream
                .write_all(b"GET /healthz HTTP/1.1\r\n")
                .await
                .unwrap();
            held.push(stream);
        }
        let probe = answer_to(
            address,
            b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        );
        let answer = timeout(Duration::from_secs(1), probe)
            .await
            .expect("an answer at once");
        assert!(
            answer
                .as_ref()
                .is_some_and(|answer| answer.starts_with("HTTP/1.1 200")),
            "{answer:?}"
        );
        let is_open = |stream: &TcpStream| matches!(stream.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        tokio::time::sleep(Duration::from_millis(100)).await;
        let open = held.iter().filter(|stream| is_open(stream)).count();
        assert!(open < MAX_CONNECTIONS, "{open} are open");
    }
    #[tokio::test]
    async fn a_probe_that_has_arrived_is_answered_whoever_connects_after_it() {
        let address = running_server().await;
        let connect = || std::net::TcpStream::connect(address).unwrap();
        let mut probe = connect();
        std::io::Write::write_all(&mut probe, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        // The server runs only when this test waits.
        let _held: Vec<_> = (0..=MAX_CONNECTIONS).map(|_| connect()).collect();
        probe.set_nonblocking(true).unwrap();
        let mut answer = String::new();
        TcpStream::from_std(probe)
            .unwrap()
            .read_to_string(&mut answer)
            .await
            .unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}
