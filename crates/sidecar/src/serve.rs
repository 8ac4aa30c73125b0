//! Serve: `/healthz`, `/readyz` and `/metrics`.

pub mod health;
pub mod metrics;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use self::health::Health;
use self::metrics::Metrics;
use crate::lead::Leadership;

/// Serves until the program ends. Gives the address, which tells the port if 0 was asked for.
///
/// # Errors
///
/// If the address cannot be bound.
pub async fn serve(
    address: SocketAddr,
    health: Health,
    metrics: Arc<Metrics>,
    leadership: Leadership,
) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; choose another --admin-address"))?;
    let address = listener.local_addr()?;
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(render))
        .with_state((health, metrics, leadership));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

type Shared = State<(Health, Arc<Metrics>, Leadership)>;

async fn ready(State((health, ..)): Shared) -> impl IntoResponse {
    match health.problem() {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(problem) => (StatusCode::SERVICE_UNAVAILABLE, format!("{problem}\n")),
    }
}

async fn render(State((health, metrics, leadership)): Shared) -> impl IntoResponse {
    let text = metrics.render(health.problem().is_none(), leadership.term().is_some());
    ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
}
