//! What the failure of a request means to the worker: whether to wait, to read again or to warn.

use std::fmt::Display;
use std::time::Duration;

use pps_api::{Class, Refusal};
use pps_core::shorten_to;

/// How long a message of the API server may be in an Event or a log entry.
const MAX_REFUSAL: usize = 400;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The object has changed since the write was decided. The watch will deliver the new state.
    #[error("the object has changed in the meantime")]
    Conflict,
    #[error("the object no longer exists")]
    NotFound,
    /// The API server or an admission policy refuses what is asked for. The same request would be
    /// refused again.
    #[error("{0}")]
    Refused(String),
    #[error("{message}")]
    Other {
        message: String,
        retry_after: Duration,
    },
    /// This object cannot be read, or its answer is too large. Other objects may be readable.
    #[error("{0}")]
    Unreadable(String),
    /// The object would be larger than the API server stores.
    #[error("{0}")]
    TooLarge(String),
    /// Another process leads now. Whether the API server has accepted the request is unknown.
    #[error("this process no longer leads")]
    NotLeading,
}

impl Failure {
    /// Whether the next state from the watches resolves it, so that it deserves no warning.
    pub(crate) fn is_expected(&self) -> bool {
        matches!(self, Self::Conflict | Self::NotFound | Self::NotLeading)
    }

    pub(super) fn of_read(what: &impl Display, failure: &pps_api::Failure) -> Self {
        let message = shortened(&format!("cannot read {what}: {failure}"));
        match failure {
            pps_api::Failure::TooLarge(_) => {
                Self::Unreadable(format!("{message}; make the object smaller"))
            }
            pps_api::Failure::Unreadable(_) => Self::Unreadable(message),
            _ => Self::Other {
                message,
                retry_after: failure.retry_after(),
            },
        }
    }

    pub(crate) fn result(&self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::NotFound => "not_found",
            Self::Refused(_) => "refused",
            Self::Other { .. } | Self::Unreadable(_) => "error",
            Self::TooLarge(_) => "too_large",
            Self::NotLeading => "not_leading",
        }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Other { retry_after, .. } if !retry_after.is_zero() => Some(*retry_after),
            _ => None,
        }
    }
}

/// A message on one line, without the end of a long one.
fn shortened(message: &str) -> String {
    shorten_to(
        MAX_REFUSAL,
        &message.split_whitespace().collect::<Vec<_>>().join(" "),
    )
}

impl From<pps_api::Failure> for Failure {
    fn from(failure: pps_api::Failure) -> Self {
        match failure {
            pps_api::Failure::Refused(refusal) => Self::from(*refusal),
            other => Self::Other {
                message: other.to_string(),
                retry_after: Duration::ZERO,
            },
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let Refusal { code, message, .. } = &refusal;
        match refusal.class {
            Class::TooLarge => Self::TooLarge(format!("{code} {}", shortened(message))),
            Class::Denied | Class::Forbidden => {
                Self::Refused(format!("{code} {}", shortened(message)))
            }
            Class::NotFound => Self::NotFound,
            Class::Conflict => Self::Conflict,
            _ => Self::Other {
                message: shortened(&refusal.to_string()),
                retry_after: refusal.retry_after,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_on_one_line_and_not_long() {
        assert_eq!(shortened("a\n  b"), "a b");
        assert!(shortened(&"é ".repeat(9_000)).chars().count() <= MAX_REFUSAL + 1);
    }
}
