//! How lists and watches fail.

use std::time::Duration;

use crate::observe::wire::Malformed;

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

    /// Whether a watch can only continue after a new list. What a definition has defined is gone with it, even if the
    /// definition returns; and the API server may have a state from before the place of the watch.
    pub(super) fn needs_list(&self) -> bool {
        match self {
            Self::Refused { code: 404 | 410, .. } | Self::WentBack => true,
            Self::Refused { message, .. } => message.contains("Too large resource version"),
            _ => false,
        }
    }
}
