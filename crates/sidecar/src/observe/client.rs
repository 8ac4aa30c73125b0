//! The API server's client: where its configuration comes from, and a layer that puts refusals on one line.

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

use super::watch::LONGEST_SILENCE;
use super::wire::describe as describe_json_error;

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
    let (mut head, body) = response.into_parts();
    let body = body.collect().await.map_err(Into::into)?.to_bytes();
    let line = serde_json::from_slice::<Value>(&body).map_or_else(
        // Not JSON: a proxy in front of the API server answered.
        |_| String::from_utf8_lossy(&body).split_whitespace().collect::<Vec<_>>().join(" "),
        |refusal| refusal.to_string(),
    );
    head.headers.remove(header::CONTENT_LENGTH);
    Ok(Response::from_parts(head, Either::Right(Full::new(line.into()))))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(body_after(200, object).await, object);
    }
}
