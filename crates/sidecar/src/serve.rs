//! Serve: `/healthz`, `/readyz` and `/metrics` over HTTP. Read-only.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

use crate::lead::Leadership;
use crate::telemetry::health::Health;
use crate::telemetry::metrics::Metrics;

/// Serves in the background until the program ends. Returns the address, whose port differs from the requested one if
/// that was 0. Fails if the address cannot be bound. All IPv6 addresses include those of IPv4, and are these alone on a host
/// without IPv6.
pub(crate) fn serve(
    address: SocketAddr,
    health: Health,
    metrics: Arc<Metrics>,
    leadership: Leadership,
) -> anyhow::Result<SocketAddr> {
    let listener = listen(address, bind)
        .with_context(|| format!("cannot listen on {address}; choose another --admin-address"))?;
    let address = listener.local_addr()?;
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(show_readiness))
        .route("/metrics", get(show_metrics))
        .with_state((health, metrics, leadership));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

fn listen(
    address: SocketAddr,
    bind: impl Fn(SocketAddr) -> io::Result<TcpListener>,
) -> io::Result<TcpListener> {
    let is_any = address.ip() == IpAddr::from(Ipv6Addr::UNSPECIFIED);
    match bind(address) {
        Err(error) if is_any && is_without_ipv6(&error) => {
            bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())))
        }
        result => result,
    }
}

/// Binds as the standard library does; `[::]` also takes IPv4, whatever the host's default (`net.ipv6.bindv6only`) is.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.ip() == IpAddr::from(Ipv6Addr::UNSPECIFIED) {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    TcpListener::from_std(socket.into())
}

/// The kernel has no IPv6, or it is disabled on all interfaces.
fn is_without_ipv6(error: &io::Error) -> bool {
    [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL]
        .map(Errno::raw_os_error)
        .map(Some)
        .contains(&error.raw_os_error())
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
    ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may")]

    use tokio::net::TcpStream;

    use super::*;

    fn any(port: u16) -> SocketAddr {
        SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))
    }

    #[tokio::test]
    async fn all_addresses_of_ipv6_include_those_of_ipv4() {
        let listener = listen(any(0), bind).unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        if listener.local_addr().unwrap().is_ipv6() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_host_without_ipv6_listens_on_all_addresses_of_ipv4() {
        for errno in [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL] {
            let without_ipv6 = |address: SocketAddr| match address {
                SocketAddr::V6(_) => Err(io::Error::from(errno)),
                SocketAddr::V4(_) => bind(address),
            };
            let listener = listen(any(0), without_ipv6).unwrap();
            assert_eq!(listener.local_addr().unwrap().ip(), Ipv4Addr::UNSPECIFIED);
            // An address that was asked for is not replaced by another one.
            let one = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
            assert!(listen(one, without_ipv6).is_err());
        }
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_an_error() {
        let first = listen(any(0), bind).unwrap();
        let error = listen(any(first.local_addr().unwrap().port()), bind).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
