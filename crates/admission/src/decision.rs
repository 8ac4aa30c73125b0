//! The answer to an admission request.

use std::collections::BTreeMap;

use pps_core::pps::KIND;
use pps_core::shorten;
use serde_json::Value;

use crate::apply::ApplyError;
use crate::deletion::Protected;
use crate::lookup::LookupError;
use crate::settings::SettingsError;
use crate::validate::{Violation, join};

/// The answer to an admission request.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub verdict: Verdict,
    /// What the API server shows to the client.
    pub warnings: Vec<String>,
    /// What the API server writes into its audit log.
    pub audit_annotations: BTreeMap<&'static str, String>,
}

/// What happens to the object of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is accepted unchanged.
    Accept,
    /// It is accepted, and this is the whole object with the changes.
    Mutate(Value),
    Reject(Rejection),
}

/// Why a request is rejected. Displays what is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Rejection {
    #[error("this Pod cannot be read: {0}; correct it, or find the webhook that changed it")]
    UnreadablePod(String),
    #[error("this Pod cannot be changed: {0}")]
    UnchangeablePod(ApplyError),
    #[error("the policy's settings are wrong: {0}")]
    WrongSettings(SettingsError),
    #[error("{} is refused: {}", describe(name), join(violations))]
    Invalid {
        /// The name of the object; empty if the API server generates it after admission.
        name: String,
        violations: Vec<Violation>,
    },
    #[error("{0}")]
    Protected(Protected),
    /// `onLookupFailure` is `reject`, and the cluster could not be asked.
    #[error(
        "{purpose}: {}{} ({})",
        error.remedy(),
        offer(error, alternative),
        error.details()
    )]
    LookupFailed {
        /// What could not be done: `cannot look up …`.
        purpose: String,
        /// What `accept` would do instead, in the infinitive.
        alternative: &'static str,
        error: LookupError,
    },
}

fn describe(name: &str) -> String {
    if name.is_empty() {
        return format!("this {KIND}");
    }
    format!("{KIND} {}", shorten(name))
}

/// The other way out of a failed lookup, if the message may offer one.
fn offer(error: &LookupError, alternative: &str) -> String {
    if error.hides_known_states() {
        return String::new();
    }
    format!(", or set settings.onLookupFailure to \"accept\" to {alternative}")
}

impl Rejection {
    /// The HTTP status of the answer.
    pub fn code(&self) -> u16 {
        match self {
            Self::UnreadablePod(_) | Self::UnchangeablePod(_) => 400,
            Self::Protected(_) => 403,
            Self::Invalid { .. } => 422,
            Self::WrongSettings(_) => 500,
            Self::LookupFailed { .. } => 503,
        }
    }
}

impl Decision {
    /// Accepts the object unchanged.
    pub fn accept() -> Self {
        Self {
            verdict: Verdict::Accept,
            warnings: Vec::new(),
            audit_annotations: BTreeMap::new(),
        }
    }

    /// Accepts the object unchanged, with warnings.
    pub(crate) fn accept_with(warnings: Vec<String>) -> Self {
        Self {
            warnings,
            ..Self::accept()
        }
    }

    pub(crate) fn reject(rejection: Rejection) -> Self {
        Self {
            verdict: Verdict::Reject(rejection),
            ..Self::accept()
        }
    }
}
