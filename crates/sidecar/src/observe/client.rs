//! The client of the API server.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::{Response, header};
use http_body_util::{BodyExt, Either, Full};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use tower::BoxError;
use tower::util::AndThenLayer;

/// Connects as this file says; without one as the environment does, in a Pod or by the user's own
/// configuration.
///
/// # Errors
///
/// If no cluster is configured, or not so that a connection could be made.
pub async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let mut config = if let Some(path) = kubeconfig {
        let kubeconfig =
            Kubeconfig::read_from(path).with_context(|| format!("--kubeconfig {}", path.display()))?;
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .with_context(|| format!("--kubeconfig {}", path.display()))?
    } else {
        Config::infer()
            .await
            .context("no cluster is configured; run it in a Pod, or give --kubeconfig FILE")?
    };
    // A watch is ended by the server before this; a connection that is silent for longer is dead.
    config.read_timeout = Some(Duration::from_secs(295));
    let builder = ClientBuilder::try_from(config)?;
    Ok(builder.with_layer(&AndThenLayer::new(refusal_on_one_line)).build())
}

/// Puts a refusal on one line. The API server writes it on many to who asks for nothing but metadata, and
/// who reads a watch takes each line for an event: a watch that is refused would fail a dozen times, and
/// wait before it goes on each time.
async fn refusal_on_one_line<B>(response: Response<B>) -> Result<Response<Either<B, Full<Bytes>>>, BoxError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return Ok(response.map(Either::Left));
    }
    let (mut head, body) = response.into_parts();
    let body = body.collect().await.map_err(Into::into)?.to_bytes();
    let line = serde_json::from_slice::<Value>(&body).map_or_else(
        // Not of the API server, but of something before it.
        |_| String::from_utf8_lossy(&body).split_whitespace().collect::<Vec<_>>().join(" "),
        |refusal| refusal.to_string(),
    );
    head.headers.remove(header::CONTENT_LENGTH);
    Ok(Response::from_parts(head, Either::Right(Full::new(line.into()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn passed(status: u16, body: &str) -> String {
        let response = Response::builder()
            .status(status)
            .header(header::CONTENT_LENGTH, body.len())
            .body(Full::new(Bytes::from(body.to_owned())))
            .unwrap();
        let response = refusal_on_one_line(response).await.unwrap();
        assert_eq!(response.headers().contains_key(header::CONTENT_LENGTH), status < 400);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_refusal_is_one_line_and_everything_else_goes_through() {
        let object = "{\n \"kind\": \"Status\",\n \"code\": 403\n}\n";
        assert_eq!(passed(403, object).await, r#"{"code":403,"kind":"Status"}"#);
        assert_eq!(passed(502, "<html>\n  <b>Bad\nGateway</b>\n").await, "<html> <b>Bad Gateway</b>");
        assert_eq!(passed(500, "").await, "");
        assert_eq!(passed(200, object).await, object);
    }
}
