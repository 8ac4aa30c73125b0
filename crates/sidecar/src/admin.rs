//! `/healthz`, `/readyz` and `/metrics`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::lease::Leadership;
use crate::metrics::Metrics;

/// Whether the program knows the world and keeps up with it. Shared by those who find out and those
/// who tell.
#[derive(Clone, Debug, Default)]
pub struct Health {
    state: Arc<Mutex<HealthState>>,
}

#[derive(Debug, Default)]
struct HealthState {
    complete: bool,
    election: Option<String>,
    watches: BTreeMap<&'static str, bool>,
}

impl Health {
    /// A watch has told something.
    pub fn heard(&self, watch: &'static str) {
        self.with(|state| state.watches.insert(watch, true));
    }

    /// A watch has failed.
    pub fn lost(&self, watch: &'static str) {
        self.with(|state| state.watches.insert(watch, false));
    }

    /// Everything has been listed once.
    pub fn complete(&self) {
        self.with(|state| state.complete = true);
    }

    /// What keeps this process from standing for election, if anything does. To stand by is well.
    pub fn election(&self, problem: Option<String>) {
        self.with(|state| state.election = problem);
    }

    /// Nothing if all is well, otherwise what is not.
    pub fn problem(&self) -> Option<String> {
        self.with(|state| {
            let lost: Vec<&str> =
                state.watches.iter().filter(|(_, heard)| !**heard).map(|(watch, _)| *watch).collect();
            if !lost.is_empty() {
                Some(format!("cannot watch: {}", lost.join(", ")))
            } else if !state.complete {
                Some("the cluster has not been listed yet".to_owned())
            } else {
                state.election.clone()
            }
        })
    }

    fn with<T>(&self, f: impl FnOnce(&mut HealthState) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ready_when_all_is_listed_and_no_watch_is_lost() {
        let health = Health::default();
        assert!(health.problem().is_some());
        health.heard("pods");
        health.complete();
        assert_eq!(health.problem(), None);
        health.lost("pods");
        assert_eq!(health.problem().as_deref(), Some("cannot watch: pods"));
        health.heard("pods");
        assert_eq!(health.problem(), None);
        health.election(Some("no Lease".into()));
        assert_eq!(health.problem().as_deref(), Some("no Lease"));
    }
}
