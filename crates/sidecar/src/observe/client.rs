//! The API server's client: where its configuration comes from, and a layer that puts refusals on one line.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::{Response, header};
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tower::BoxError;
use tower::util::AndThenLayer;

use super::watch::LONGEST_SILENCE;
use super::wire::{Encoding, describe as describe_json_error, retry_after};

/// The largest body of a refusal that is read, in bytes.
const LARGEST_REFUSAL: usize = 1 << 20;

/// Creates a client from this kubeconfig file. Without one, uses the ServiceAccount of the Pod or the user's
/// kubeconfig. Fails if neither exists or the configuration is invalid.
pub(crate) async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let mut config = if let Some(path) = kubeconfig {
        let kubeconfig =
            Kubeconfig::read_from(path).with_context(|| format!("--kubeconfig {}", path.display()))?;
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .with_context(|| format!("--kubeconfig {}", path.display()))?
    } else {
        Config::infer()
            .await
            .context("no cluster is configured: run it in a Pod, or pass --kubeconfig FILE")?
    };
    // The server ends each watch earlier than this, so a connection that is silent for longer is dead.
    config.read_timeout = Some(LONGEST_SILENCE + Duration::from_secs(5));
    // Each caller waits and tries again by itself, as long as the API server asks for. Another layer below would hide
    // from it that the API server is overloaded, and hold the request for minutes.
    config.default_retry = false;
    let builder = ClientBuilder::try_from(config)?;
    Ok(builder.with_layer(&AndThenLayer::new(join_refusal_lines)).build())
}

/// An error of a request, without what the response contains: that may be secret.
pub(crate) fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::SerdeError(error) => {
            format!("the response cannot be read: {}", describe_json_error(error))
        }
        kube::Error::FromUtf8(_) => "the response cannot be read: it is not UTF-8".into(),
        other => other.to_string(),
    }
}

/// Puts the body of an error response on one line. For requests that accept only metadata the API server formats
/// it on several lines, and kube's watch parses each line as an event: one refused watch would fail a dozen
/// times, with a back-off each time.
async fn join_refusal_lines<B>(response: Response<B>) -> Result<Response<Either<B, Full<Bytes>>>, BoxError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return Ok(response.map(Either::Left));
    }
    let content_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_compressed = response.headers().contains_key(header::CONTENT_ENCODING);
    if is_compressed || Encoding::of(content_type) == Encoding::Protobuf {
        return Ok(response.map(Either::Left));
    }
    let (mut head, body) = response.into_parts();
    let body = match Limited::new(body, LARGEST_REFUSAL).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => Bytes::new(),
        Err(error) => return Err(error),
    };
    let line = match (serde_json::from_slice::<Value>(&body), retry_after(&head.headers)) {
        (Ok(refusal), _) => refusal.to_string(),
        // Not JSON: a proxy in front of the API server answered, or its own guard against overload.
        (Err(_), None) => one_line(&body),
        (Err(_), Some(seconds)) => json!({
            "kind": "Status", "status": "Failure", "code": status.as_u16(), "reason": "TooManyRequests",
            "message": one_line(&body), "details": {"retryAfterSeconds": seconds},
        })
        .to_string(),
    };
    head.headers.remove(header::CONTENT_LENGTH);
    Ok(Response::from_parts(head, Either::Right(Full::new(line.into()))))
}

fn one_line(body: &[u8]) -> String {
    String::from_utf8_lossy(body).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use axum::Router;
    use k8s_openapi::api::core::v1::Pod;
    use kube::Api;

    use super::*;

    /// Answers every request as an overloaded API server does, and counts them.
    async fn overloaded_server() -> (std::net::SocketAddr, Arc<AtomicU32>) {
        let requests = Arc::new(AtomicU32::new(0));
        let counter = requests.clone();
        let app = Router::new().fallback(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            async {
                (
                    http::StatusCode::TOO_MANY_REQUESTS,
                    [(header::RETRY_AFTER, "1")],
                    "Too many requests,\nplease try again later.\n",
                )
            }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async { axum::serve(listener, app).await });
        (address, requests)
    }

    #[tokio::test]
    async fn the_caller_hears_at_once_that_the_api_server_is_overloaded_and_how_long_to_wait() {
        let (address, requests) = overloaded_server().await;
        let path = std::env::temp_dir().join(format!("pps-overloaded-{}", std::process::id()));
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
        let kube::Error::Api(status) = answer.expect("an answer at once").unwrap_err() else { panic!() };
        assert_eq!((status.code, requests.load(Ordering::Relaxed)), (429, 1));
        assert_eq!(status.details.unwrap().retry_after_seconds, 1);
        assert_eq!(status.message, "Too many requests, please try again later.");
    }

    async fn body_after(status: u16, body: &str) -> String {
        let response = Response::builder()
            .status(status)
            .header(header::CONTENT_LENGTH, body.len())
            .body(Full::new(Bytes::from(body.to_owned())))
            .unwrap();
        let response = join_refusal_lines(response).await.unwrap();
        assert_eq!(response.headers().contains_key(header::CONTENT_LENGTH), status < 400);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn puts_refusals_on_one_line_and_leaves_other_responses_unchanged() {
        let object = "{\n \"kind\": \"Status\",\n \"code\": 403\n}\n";
        assert_eq!(body_after(403, object).await, r#"{"code":403,"kind":"Status"}"#);
        assert_eq!(body_after(502, "<html>\n  <b>Bad\nGateway</b>\n").await, "<html> <b>Bad Gateway</b>");
        assert_eq!(body_after(500, "").await, "");
        assert_eq!(body_after(500, &"x".repeat(LARGEST_REFUSAL + 1)).await, "", "a refusal is short");
        assert_eq!(body_after(200, object).await, object);
    }
}
