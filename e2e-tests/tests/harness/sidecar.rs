//! The sidecar process is killed, frozen and restarted. A fake takes its place.

use std::{
    env,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use axum::{Router, http::StatusCode, routing::get};
use pps_e2e::{cluster::Cluster, sidecar::SidecarOptions};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

const SERVE: &str = "PPS_E2E_TEST_SERVE";
const TIMEOUT: Duration = Duration::from_mins(2);

/// Not a test: the fake sidecar. It is ready from the third probe on and exits cleanly on SIGTERM.
#[tokio::test]
#[ignore = "the fake sidecar of another test"]
async fn child_process_that_serves() {
    static PROBES: AtomicUsize = AtomicUsize::new(0);
    let Ok(address) = env::var(SERVE) else { return };
    let ready = async || {
        let is_ready = PROBES.fetch_add(1, Ordering::Relaxed) > 1;
        if is_ready {
            (StatusCode::OK, "ok")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "not yet")
        }
    };
    let metrics =
        async || "# TYPE writes counter\nwrites_total{result=\"ok\"} 41\nwrites_total 1\n";
    let router = Router::new()
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics));
    let listener = TcpListener::bind(address).await.unwrap();
    let mut terminate = signal(SignalKind::terminate()).unwrap();
    println!("serving");
    let end = async move { terminate.recv().await.unwrap() };
    axum::serve(listener, router)
        .with_graceful_shutdown(end)
        .await
        .unwrap();
}

pub(super) fn fake() -> SidecarOptions {
    let own = env::current_exe().unwrap().display().to_string();
    SidecarOptions {
        program: Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harness/fake-sidecar.sh")),
        env: vec![("PPS_E2E_TEST_EXE".to_owned(), own)],
        ..SidecarOptions::default()
    }
}

pub(super) async fn the_sidecar_is_killed_frozen_and_restarted(cluster: &Cluster) {
    let sidecar = cluster.sidecar().unwrap();
    assert_eq!(sidecar.get("/no-such").await.unwrap().0, 404);
    assert_eq!(
        sidecar
            .metric(r#"writes_total{result="ok"}"#)
            .await
            .unwrap(),
        Some(41.0)
    );
    assert_eq!(sidecar.metric("writes").await.unwrap(), None);

    assert_eq!(sidecar.kill().await.unwrap().signal, Some(9));
    assert!(sidecar.get("/readyz").await.is_err());
    let error = sidecar.wait_ready(TIMEOUT).await.unwrap_err().to_string();
    assert!(
        error.contains("pps-sidecar ended") && error.contains("serving"),
        "{error}"
    );

    sidecar.start_again().unwrap();
    sidecar.wait_ready(TIMEOUT).await.unwrap();
    sidecar.pause().unwrap();
    let silence = tokio::time::timeout(Duration::from_millis(300), sidecar.get("/readyz")).await;
    assert!(silence.is_err(), "{silence:?}");
    sidecar.resume().unwrap();
    assert_eq!(
        sidecar.get("/readyz").await.unwrap(),
        (200, "ok".to_owned())
    );
    let end = sidecar.terminate(TIMEOUT).await.unwrap();
    assert_eq!((end.running, end.code), (false, Some(0)));
    assert_eq!(sidecar.log().matches("serving").count(), 2);
}
