//! The API server's client: where its configuration comes from, and the limits of its requests.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use http::Response;
use http_body_util::{Either, Limited};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::time::timeout;
use tower::util::MapResponseLayer;

use super::objects::describe as describe_json_error;

pub(super) const LARGEST_REFUSAL: usize = 1 << 20;
/// The longest time without a byte of a body.
pub(super) const LONGEST_SILENCE: Duration = Duration::from_mins(1);

/// Creates a client from this kubeconfig file. Without one, uses the ServiceAccount of the Pod or
/// the user's kubeconfig. Fails if neither exists or the configuration is invalid.
pub(crate) async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let options = KubeConfigOptions::default();
    let mut config = match (kubeconfig, Kubeconfig::read()) {
        (Some(path), _) => {
            let read = async { pps_connect::load(Kubeconfig::read_from(path)?, &options).await };
            read.await
                .with_context(|| format!("--kubeconfig {}", path.display()))?
        }
        (None, Ok(found)) if !found.contexts.is_empty() => {
            pps_connect::load(found, &options).await?
        }
        (None, found) => Config::incluster().with_context(|| {
            let why = found
                .err()
                .map(|error| format!(" ({error})"))
                .unwrap_or_default();
            format!("no cluster is configured{why}: run it in a Pod, or pass --kubeconfig FILE")
        })?,
    };
    // The server ends each watch earlier than this, so a connection that is silent for longer is
    // dead.
    config.read_timeout = Some(LONGEST_SILENCE + Duration::from_secs(5));
    // Time without a request is no silence.
    config.reset_reader_on_write = true;
    // Each caller waits and tries again by itself, as long as the API server asks for. Another
    // layer below would hide from it that the API server is overloaded, and hold the request for
    // minutes.
    config.default_retry = false;
    let builder = ClientBuilder::try_from(config)?;
    Ok(builder
        .with_layer(&MapResponseLayer::new(limit_refusal))
        .build())
}

pub(crate) async fn bounded<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    let late = |_| kube::Error::Service(format!("no answer for {} s", limit.as_secs()).into());
    timeout(limit, request).await.map_err(late)?
}

/// The code of the API server's answer.
pub(crate) fn code(error: &kube::Error) -> Option<u16> {
    if let kube::Error::Api(status) = error {
        Some(status.code)
    } else {
        None
    }
}

/// An error of a request, without what the response contains: that may be secret.
pub(crate) fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::SerdeError(error) => {
            format!(
                "the response cannot be read: {}",
                describe_json_error(error)
            )
        }
        kube::Error::FromUtf8(_) => "the response cannot be read: it is not UTF-8".into(),
        kube::Error::Service(error) => format!("cannot reach the API server: {error}"),
        other => other.to_string(),
    }
}

/// Bounds the body of an error response: kube reads it as a whole.
fn limit_refusal<B>(response: Response<B>) -> Response<Either<Limited<B>, B>> {
    let is_refusal = response.status().is_client_error() || response.status().is_server_error();
    let limited = |body| Either::Left(Limited::new(body, LARGEST_REFUSAL));
    if is_refusal {
        response.map(limited)
    } else {
        response.map(Either::Right)
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::{StatusCode, header};
    use k8s_openapi::api::core::v1::Pod;
    use kube::Api;
    use serde_json::json;

    use super::*;

    /// The error of a client whose API server answers with this body and asks to try again in an
    /// hour.
    async fn refusal(body: String) -> kube::Error {
        let answer = move || async move {
            (
                StatusCode::TOO_MANY_REQUESTS,
                [(header::RETRY_AFTER, "3600")],
                body,
            )
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async { axum::serve(listener, Router::new().fallback(answer)).await });
        let path = std::env::temp_dir().join(format!("pps-overloaded-{}", address.port()));
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "u", "user": {}}],
        });
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        let client = connect(Some(&path)).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        let pods: Api<Pod> = Api::namespaced(client, "n");
        let answer = tokio::time::timeout(Duration::from_secs(5), pods.get("w-0")).await;
        answer.expect("an answer at once").unwrap_err()
    }

    #[tokio::test]
    async fn the_caller_hears_at_once_that_the_api_server_is_overloaded() {
        let kube::Error::Api(status) = refusal("Too many requests".into()).await else {
            panic!()
        };
        assert_eq!(
            (status.code, status.message.as_str()),
            (429, "Too many requests")
        );
        let too_large = refusal("x".repeat(LARGEST_REFUSAL + 1)).await;
        assert!(!matches!(too_large, kube::Error::Api(_)), "{too_large}");
    }
}
