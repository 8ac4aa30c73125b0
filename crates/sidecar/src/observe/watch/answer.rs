//! Answers of the API server: how they fail, and how bodies are read within limits.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::timeout;

use crate::observe::wire::{Encoding, Malformed, Message};

pub(crate) const LONGEST_SILENCE: Duration = Duration::from_mins(1);

#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    #[error("{message} ({code})")]
    Refused { code: u16, message: String, retry_after: Duration },
    #[error("{0}")]
    Transport(#[from] kube::Error),
    #[error("the answer cannot be read: {0}")]
    Malformed(#[from] Malformed),
    #[error("nothing was heard for {} s", .0.as_secs())]
    Silent(Duration),
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
    #[error("the API server has gone back to an earlier state, as after a restore")]
    WentBack,
}

impl WatchError {
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { code: 403, .. })
    }

    pub(crate) fn retry_after(&self) -> Duration {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => Duration::ZERO,
        }
    }

    /// Whether the API server has forgotten the resource version or the token.
    pub(super) fn is_expired(&self) -> bool {
        matches!(self, Self::Refused { code: 410, .. })
    }

    /// Whether a watch can only continue after a new list. What a definition has defined is gone with it,
    /// even if the definition returns; and the API server may have a state from before the place of the
    /// watch.
    pub(super) fn needs_list(&self) -> bool {
        match self {
            Self::Refused { code: 404 | 410, .. } | Self::WentBack => true,
            Self::Refused { message, .. } => message.contains("Too large resource version"),
            _ => false,
        }
    }
}

pub(super) async fn collect_message(
    headers: &HeaderMap,
    body: Body,
    most: usize,
    takes_protobuf: bool,
) -> Result<Message, WatchError> {
    let bytes = collect(body, most).await?;
    let encoding = expect_encoding(Encoding::of_body(&bytes), headers, takes_protobuf)?;
    Ok(Message::new(encoding, bytes))
}

/// Fails unless a body is encoded as was asked for. One that is compressed is not.
pub(super) fn expect_encoding(
    found: Option<Encoding>,
    headers: &HeaderMap,
    takes_protobuf: bool,
) -> Result<Encoding, WatchError> {
    let why = match found {
        Some(Encoding::Protobuf) if !takes_protobuf => "it is protobuf, which was not asked for".to_owned(),
        Some(encoding) => return Ok(encoding),
        None => {
            let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let media_type = media_type.and_then(|value| value.split(';').next()).unwrap_or("missing");
            let is_shown = |one: &char| one.is_ascii_alphanumeric() || "/.+-".contains(*one);
            let media_type: String = media_type.chars().filter(is_shown).take(100).collect();
            format!("it begins neither like JSON nor like protobuf; its Content-Type is {media_type}")
        }
    };
    Err(WatchError::Malformed(Malformed(why)))
}

pub(super) async fn collect(mut body: Body, most: usize) -> Result<Vec<u8>, WatchError> {
    let mut bytes = Vec::new();
    while let Some(data) = next_data(&mut body).await? {
        if bytes.len() + data.len() > most {
            return Err(WatchError::TooLarge(most));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

pub(super) async fn next_data(body: &mut Body) -> Result<Option<Bytes>, WatchError> {
    let frame = timeout(LONGEST_SILENCE, body.frame()).await;
    match frame.map_err(|_| WatchError::Silent(LONGEST_SILENCE))? {
        Some(frame) => Ok(Some(frame?.into_data().unwrap_or_default())),
        None => Ok(None),
    }
}
