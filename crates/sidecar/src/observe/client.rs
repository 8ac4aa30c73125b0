//! The API server's client: where its configuration comes from, and a layer that makes all refusals alike.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::{Response, header};
use http_body_util::{BodyExt, Either, Full};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::time::timeout;
use tower::BoxError;
use tower::util::AndThenLayer;

use super::watch::{LONGEST_SILENCE, collect};
use super::wire::{Encoding, Message, Refusal, describe as describe_json_error, wait_seconds};

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
    // Each caller waits and tries again by itself, as long as the API server asks for. Another layer below
    // would hide from it that the API server is overloaded, and hold the request for minutes.
    config.default_retry = false;
    let builder = ClientBuilder::try_from(config)?;
    Ok(builder.with_layer(&AndThenLayer::new(unify_refusals)).build())
}

/// Why a request has no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("no answer from the API server for {} s", .0.as_secs())]
    NoAnswer(Duration),
    #[error("{}", describe(.0))]
    Kube(kube::Error),
}

impl RequestError {
    /// The code of the API server's answer.
    pub(crate) fn code(&self) -> Option<u16> {
        if let Self::Kube(kube::Error::Api(status)) = self { Some(status.code) } else { None }
    }
}

/// Makes a request with a time limit.
pub(crate) async fn bounded<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, RequestError> {
    match timeout(limit, request).await {
        Ok(answer) => answer.map_err(RequestError::Kube),
        Err(_) => Err(RequestError::NoAnswer(limit)),
    }
}

/// An error of a request, without what the response contains: that may be secret.
fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::SerdeError(error) => {
            format!("the response cannot be read: {}", describe_json_error(error))
        }
        kube::Error::FromUtf8(_) => "the response cannot be read: it is not UTF-8".into(),
        other => other.to_string(),
    }
}

/// Makes the body of every error response a `Status` in JSON, with the seconds to wait in its details: those
/// that read answers need no rules of their own for refusals that are compressed, in protobuf, or none of an
/// API server's. These have no `kind`.
async fn unify_refusals<B>(response: Response<B>) -> Result<Response<Either<B, Full<Bytes>>>, BoxError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let code = response.status();
    if !code.is_client_error() && !code.is_server_error() {
        return Ok(response.map(Either::Left));
    }
    let (mut head, body) = response.into_parts();
    let body = Box::pin(body).map_err(|error| kube::Error::Service(error.into()));
    let body = collect(&head.headers, body, LARGEST_REFUSAL).await.unwrap_or_default();
    let body = Message::new(Encoding::of_body(&body).unwrap_or(Encoding::Json), body);
    let status = match &body {
        Message::Json(text) => serde_json::from_str(text).ok(),
        Message::Protobuf(_) => Refusal::read(&body).ok().map(|refusal| json!(refusal)),
    };
    let mut status = status.filter(|status: &Value| status["kind"] == "Status");
    let asked = status.as_ref().map(|status| status["details"]["retryAfterSeconds"].as_u64().unwrap_or(0));
    let status = status.get_or_insert_with(|| {
        let text = if let Message::Json(text) = &body { one_line(text) } else { String::new() };
        json!({"status": "Failure", "code": code.as_u16(), "message": text})
    });
    if !status["details"].is_object() {
        status["details"] = json!({});
    }
    status["details"]["retryAfterSeconds"] = wait_seconds(&head.headers, asked).into();
    for name in [header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::RETRY_AFTER] {
        head.headers.remove(name);
    }
    Ok(Response::from_parts(head, Either::Right(Full::new(status.to_string().into()))))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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

    /// The body that a reader gets of an answer with this status, these headers and this body.
    async fn body_after(status: u16, headers: &[(header::HeaderName, &str)], body: &[u8]) -> String {
        let mut response = Response::builder().status(status).header(header::CONTENT_LENGTH, body.len());
        for (name, value) in headers {
            response = response.header(name, *value);
        }
        let response = response.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let response = unify_refusals(response).await.unwrap();
        assert_eq!(response.headers().contains_key(header::CONTENT_LENGTH), status < 400);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    async fn refusal_after(status: u16, headers: &[(header::HeaderName, &str)], body: &[u8]) -> Value {
        serde_json::from_str(&body_after(status, headers, body).await).unwrap()
    }

    #[tokio::test]
    async fn refusals_look_alike_whoever_refuses_and_other_responses_are_unchanged() {
        let object = b"{\n \"kind\": \"Status\",\n \"code\": 403\n}\n";
        let details = json!({"retryAfterSeconds": 0});
        let status = json!({"kind": "Status", "code": 403, "details": details});
        assert_eq!(refusal_after(403, &[], object).await, status);
        assert_eq!(body_after(200, &[], object).await.as_bytes(), object);
        let other = |code: u16, message: &str| json!({"status": "Failure", "code": code, "message": message, "details": details});
        let page = b"<html>\n  <b>Bad\nGateway</b>\n";
        assert_eq!(refusal_after(502, &[], page).await, other(502, "<html> <b>Bad Gateway</b>"));
        for odd in [&b""[..], b"k8s\0\xff", &b"x".repeat(LARGEST_REFUSAL + 1)] {
            assert_eq!(refusal_after(500, &[], odd).await, other(500, ""), "{}", odd.len());
        }
        for text in ["[1]", "7", r#"{"kind": 7, "details": 7}"#] {
            assert_eq!(refusal_after(500, &[], text.as_bytes()).await, other(500, text));
        }
        let odd = refusal_after(500, &[], br#"{"kind": "Status", "details": "x"}"#).await;
        assert_eq!(odd, json!({"kind": "Status", "details": details}));
    }

    #[tokio::test]
    async fn no_refusal_asks_for_more_than_a_minute_and_none_of_a_proxy_for_more_than_ten_seconds() {
        let status = |seconds: &Value| {
            json!({"kind": "Status", "code": 429, "details": {"retryAfterSeconds": seconds}}).to_string()
        };
        for (header, body, expected) in [
            ("3600", "<html>".to_owned(), 10),
            ("7", "busy".into(), 7),
            ("3600", json!({"error": "rate limited"}).to_string(), 10),
            ("", "busy".into(), 0),
            ("Wed, 21 Oct 2065 07:28:00 GMT", "busy".into(), 0),
            ("99999999999999999999999", "busy".into(), 0),
            ("-5", "busy".into(), 0),
            ("3600", status(&json!(7)), 60),
            ("1", status(&json!(30)), 30),
            ("1", status(&json!(3600)), 60),
            ("1", status(&json!(u64::MAX)), 60),
            ("1", status(&json!("x")), 1),
        ] {
            let refusal = refusal_after(429, &[(header::RETRY_AFTER, header)], body.as_bytes()).await;
            assert_eq!(refusal["details"]["retryAfterSeconds"], expected, "{header} {body}");
        }
    }
}
