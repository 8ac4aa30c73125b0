//! Answers of the API server: how they fail, and how bodies are read within limits.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use flate2::write::GzDecoder;
use http::{HeaderMap, HeaderValue, header};
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::observe::wire::{Encoding, Malformed, Message};

/// How long a watch can be silent.
pub(crate) const LONGEST_SILENCE: Duration = Duration::from_mins(1);

/// Why a list or a watch failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    /// The API server refused it.
    #[error("{message} ({code})")]
    Refused {
        code: u16,
        message: String,
        /// How long it asks to wait.
        retry_after: Duration,
    },
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

    /// How long the API server asks to wait.
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

/// Reads a body with one object or list, of at most this many bytes.
pub(super) async fn collect_message<B>(
    headers: &HeaderMap,
    body: B,
    most: usize,
    takes_protobuf: bool,
) -> Result<Message, WatchError>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    WatchError: From<B::Error>,
{
    let bytes = collect(headers, body, most).await?;
    let encoding = expect_encoding(Encoding::of_body(&bytes), headers, takes_protobuf)?;
    Ok(Message::new(encoding, bytes))
}

/// Fails unless a body is encoded as was asked for.
pub(super) fn expect_encoding(
    found: Option<Encoding>,
    headers: &HeaderMap,
    takes_protobuf: bool,
) -> Result<Encoding, WatchError> {
    match found {
        Some(Encoding::Protobuf) if !takes_protobuf => {
            Err(unreadable("it is protobuf, which was not asked for"))
        }
        Some(encoding) => Ok(encoding),
        None => {
            let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let media_type = media_type.and_then(|value| value.split(';').next()).unwrap_or("missing");
            let is_shown = |one: &char| one.is_ascii_alphanumeric() || "/.+-".contains(*one);
            let media_type: String = media_type.chars().filter(is_shown).take(100).collect();
            Err(unreadable(&format!(
                "it begins neither like JSON nor like protobuf; its Content-Type is {media_type}"
            )))
        }
    }
}

/// Fails if a body is compressed.
pub(super) fn expect_plain(headers: &HeaderMap) -> Result<(), WatchError> {
    coding(headers).map_or(Ok(()), |_| Err(unreadable(NOT_ASKED_FOR)))
}

const NOT_ASKED_FOR: &str = "it has a Content-Encoding that was not asked for";

/// How a body is compressed.
fn coding(headers: &HeaderMap) -> Option<&[u8]> {
    let coding = headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes);
    coding.filter(|coding| !coding.is_empty() && *coding != b"identity")
}

/// Reads a body of at most this many bytes, decompressed if it is compressed.
pub(crate) async fn collect<B>(headers: &HeaderMap, mut body: B, most: usize) -> Result<Vec<u8>, WatchError>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    WatchError: From<B::Error>,
{
    let plain = Bounded { bytes: Vec::new(), most, is_full: false };
    let mut output = match coding(headers) {
        None => Output::Plain(plain),
        Some(coding) if coding.eq_ignore_ascii_case(b"gzip") => Output::Gzip(Box::new(GzDecoder::new(plain))),
        Some(_) => return Err(unreadable(NOT_ASKED_FOR)),
    };
    while let Some(data) = next_data(&mut body).await? {
        output.write(&data)?;
    }
    output.finish()
}

pub(super) async fn next_data<B>(body: &mut B) -> Result<Option<Bytes>, WatchError>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    WatchError: From<B::Error>,
{
    let frame = timeout(LONGEST_SILENCE, body.frame()).await;
    match frame.map_err(|_| WatchError::Silent(LONGEST_SILENCE))? {
        Some(frame) => Ok(Some(frame?.into_data().unwrap_or_default())),
        None => Ok(None),
    }
}

fn unreadable(why: &str) -> WatchError {
    WatchError::Malformed(Malformed(why.to_owned()))
}

enum Output {
    Plain(Bounded),
    Gzip(Box<GzDecoder<Bounded>>),
}

impl Output {
    fn write(&mut self, data: &[u8]) -> Result<(), WatchError> {
        let (result, bounded) = match self {
            Self::Plain(bounded) => (bounded.write_all(data), bounded),
            Self::Gzip(decoder) => (decoder.write_all(data), decoder.get_mut()),
        };
        result.map_err(|_| bounded.error())
    }

    fn finish(self) -> Result<Vec<u8>, WatchError> {
        match self {
            Self::Plain(bounded) => Ok(bounded.bytes),
            Self::Gzip(mut decoder) => match decoder.try_finish() {
                Ok(()) => Ok(std::mem::take(&mut decoder.get_mut().bytes)),
                Err(_) => Err(decoder.get_ref().error()),
            },
        }
    }
}

/// Takes a limited number of bytes, so that a few bytes cannot become gigabytes.
struct Bounded {
    bytes: Vec<u8>,
    most: usize,
    is_full: bool,
}

impl Bounded {
    /// Why a write to it, or to the decoder before it, failed.
    fn error(&self) -> WatchError {
        if self.is_full { WatchError::TooLarge(self.most) } else { unreadable("its compression is damaged") }
    }
}

impl Write for Bounded {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + data.len() > self.most {
            self.is_full = true;
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use kube::client::Body;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    async fn read(coding: Option<&str>, body: Vec<u8>, most: usize) -> Result<Vec<u8>, String> {
        let mut headers = HeaderMap::new();
        if let Some(coding) = coding {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_str(coding).unwrap());
        }
        collect(&headers, Body::from(body), most).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn reads_plain_and_compressed_bodies() {
        let text: Vec<u8> = (0..100_000).map(|n| u8::try_from(n % 251).unwrap()).collect();
        assert_eq!(read(None, text.clone(), text.len()).await, Ok(text.clone()));
        assert_eq!(read(Some("GZIP"), gzip(&text), text.len()).await, Ok(text.clone()));
        let too_large = Err("the answer has more than 99999 bytes".to_owned());
        assert_eq!(read(None, text.clone(), 99_999).await, too_large);
        assert_eq!(read(Some("gzip"), gzip(&text), 99_999).await, too_large);
    }

    #[tokio::test]
    async fn refuses_bodies_whose_compression_is_damaged_or_unknown() {
        let compressed = gzip(b"text");
        let damaged = Err("the answer cannot be read: its compression is damaged".to_owned());
        for length in 0..compressed.len() {
            assert_eq!(read(Some("gzip"), compressed[..length].to_vec(), 9).await, damaged, "{length}");
        }
        let mut flipped = compressed.clone();
        let checksum = flipped.len() - 8;
        flipped[checksum] ^= 1;
        assert_eq!(read(Some("gzip"), flipped, 9).await, damaged);
        assert!(read(Some("br"), compressed, 9).await.is_err());
    }

    #[test]
    fn a_compression_bomb_takes_no_more_memory_than_the_limit() {
        // 64 MB in 64 KB.
        let bomb = gzip(&vec![0; 64 << 20]);
        assert!(bomb.len() < 400_000, "{}", bomb.len());
        let bounded = Bounded { bytes: Vec::new(), most: 1 << 20, is_full: false };
        let mut output = Output::Gzip(Box::new(GzDecoder::new(bounded)));
        assert!(matches!(output.write(&bomb), Err(WatchError::TooLarge(_))));
        let Output::Gzip(decoder) = output else { unreachable!() };
        assert!(decoder.get_ref().bytes.capacity() <= 2 << 20);
    }
}
