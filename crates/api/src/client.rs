//! The client, and one request within limits. Nothing below the caller tries again: another layer
//! would hide that the API server is overloaded, hold a request for minutes, and repeat writes.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Either, Limited};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tower::util::MapResponseLayer;

use crate::describe::describe_json;
use crate::failure::{Failure, Refusal};

/// The largest body of an error response that is read, in bytes.
pub const LARGEST_REFUSAL: usize = 1 << 20;
/// The longest time without a byte of a body.
pub const LONGEST_SILENCE: Duration = Duration::from_mins(1);
/// How long an answer may take, however steadily it arrives: meanwhile it may hold up other lists.
/// The API server gives up after a minute itself.
pub(crate) const LONGEST_ANSWER: Duration = Duration::from_mins(2);

/// How much of an answer is waited for and read.
#[derive(Clone, Copy, Debug)]
pub struct AnswerLimit {
    /// How long the request may take, until the last byte of its answer.
    pub within: Duration,
    /// The most bytes of the body of a successful answer. The body of another one may have
    /// [`LARGEST_REFUSAL`].
    pub bytes: usize,
}

/// How much of an object the API server answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// All of it.
    Object,
    /// Its metadata alone, as a `PartialObjectMetadata`.
    Metadata,
}

impl Accept {
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Object => "application/json",
            Self::Metadata => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        }
    }
}

/// A client that never tries again by itself, and reads no large error response.
pub fn build(mut config: Config) -> Result<Client, kube::Error> {
    config.default_retry = false;
    Ok(ClientBuilder::try_from(config)?
        .with_layer(&MapResponseLayer::new(limit_refusal))
        .build())
}

/// A client whose watches end when nothing is heard for a little longer than [`LONGEST_SILENCE`].
pub fn build_for_watches(mut config: Config) -> Result<Client, kube::Error> {
    // The server ends each watch earlier than this, so a connection that is silent for longer is
    // dead.
    config.read_timeout = Some(LONGEST_SILENCE + Duration::from_secs(5));
    // Time without a request is no silence.
    config.reset_reader_on_write = true;
    build(config)
}

/// Awaits a request of kube for at most this long.
pub async fn bounded<T>(
    within: Duration,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Failure> {
    match timeout(within, request).await {
        Ok(answer) => answer.map_err(Failure::from),
        Err(_) => Err(Failure::Silent(within)),
    }
}

/// Sends a request once. Returns the body of a successful answer, read as JSON.
pub(crate) async fn exchange<T: DeserializeOwned>(
    client: &Client,
    request: Request<Body>,
    limit: AnswerLimit,
) -> Result<T, Failure> {
    // On the heap, since callers await many of these at once.
    let exchange = Box::pin(async {
        let body = success(client.send(request).await?).await?;
        let body = collect(body, limit.bytes).await?;
        serde_json::from_slice(&body).map_err(|error| Failure::Unreadable(describe_json(&error)))
    });
    timeout(limit.within, exchange)
        .await
        .unwrap_or(Err(Failure::Silent(limit.within)))
}

/// The body of a successful answer. Any other answer is a refusal.
pub(crate) async fn success(answer: Response<Body>) -> Result<Body, Failure> {
    let (head, body) = answer.into_parts();
    if head.status.is_success() {
        return Ok(body);
    }
    // Without its body, a refusal still has its code, and says how long to wait.
    let body = collect(body, LARGEST_REFUSAL).await.unwrap_or_default();
    Err(Refusal::of_answer(&head, &body).into())
}

/// Reads a body of at most so many bytes.
pub(crate) async fn collect(mut body: Body, most: usize) -> Result<Vec<u8>, Failure> {
    let read = async {
        let mut bytes = Vec::new();
        while let Some(data) = next_data(&mut body).await? {
            if bytes.len() + data.len() > most {
                return Err(Failure::TooLarge(most));
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes)
    };
    timeout(LONGEST_ANSWER, read)
        .await
        .unwrap_or(Err(Failure::Silent(LONGEST_ANSWER)))
}

async fn next_data(body: &mut Body) -> Result<Option<Bytes>, Failure> {
    let frame = timeout(LONGEST_SILENCE, body.frame()).await;
    match frame.map_err(|_| Failure::Silent(LONGEST_SILENCE))? {
        Some(frame) => Ok(Some(frame?.into_data().unwrap_or_default())),
        None => Ok(None),
    }
}

/// Bounds the body of an error response: kube reads it as a whole.
fn limit_refusal<B>(response: Response<B>) -> Response<Either<Limited<B>, B>> {
    if response.status().is_client_error() || response.status().is_server_error() {
        response.map(|body| Either::Left(Limited::new(body, LARGEST_REFUSAL)))
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
    use serde::de::IgnoredAny;

    use super::*;
    use crate::Class;

    /// A client of an API server that answers with this body and asks to try again in an hour.
    async fn overloaded(body: String) -> Client {
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
        let mut config = Config::new(format!("http://{address}").parse().unwrap());
        config.root_cert = Some(Vec::new());
        build_for_watches(config).unwrap()
    }

    #[tokio::test]
    async fn the_caller_hears_at_once_that_the_api_server_is_overloaded() {
        let soon = Duration::from_secs(5);
        let client = overloaded("Too many requests".into()).await;
        let pods: Api<Pod> = Api::namespaced(client.clone(), "n");
        let failure = bounded(soon, pods.get("w-0")).await.unwrap_err();
        assert_eq!(failure.class(), Some(Class::Busy));

        let limit = AnswerLimit {
            within: soon,
            bytes: 1,
        };
        let request = Request::get("/").body(Body::empty()).unwrap();
        let Failure::Refused(refusal) = exchange::<IgnoredAny>(&client, request, limit)
            .await
            .unwrap_err()
        else {
            panic!("it has answered")
        };
        assert_eq!(refusal.class, Class::Busy);
        assert_eq!(refusal.retry_after, Duration::from_mins(1));

        let client = overloaded("x".repeat(LARGEST_REFUSAL + 1)).await;
        let pods: Api<Pod> = Api::namespaced(client, "n");
        let too_large = bounded(soon, pods.get("w-0")).await.unwrap_err();
        assert_eq!(too_large.class(), None, "{too_large}");
    }
}
