//! Serve: `/healthz`, `/readyz` and `/metrics` over HTTP. Read-only.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::lead::Leadership;
use crate::telemetry::health::Health;
use crate::telemetry::metrics::Metrics;

/// Serves in the background until the program ends. Returns the address, whose port differs from the requested one if
/// that was 0. Fails if the address cannot be bound.
pub(crate) async fn serve(
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
        .route("/readyz", get(show_readiness))
        .route("/metrics", get(show_metrics))
        .with_state((health, metrics, leadership));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
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
