//! Why a lookup failed, and what to do about it.

use std::error::Error;
use std::fmt;

use pps_core::packed::Damaged;
use pps_core::pps::{GROUP, KIND, PLURAL};

use super::host_error::HostError;

/// The only host call that a lookup makes.
pub(crate) const GET: &str = "get_resource";

/// Why the cluster did not answer a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// The cluster serves no version of the kind, so there are no recorded states.
    KindNotServed,
    /// The policy's manifest does not grant the host call.
    NotGranted(FailedCall),
    /// RBAC forbids the PolicyServer's request.
    Forbidden(FailedCall),
    /// Any other failure of the call, such as a time-out.
    Unavailable(FailedCall),
    /// The call succeeded, and the host's answer is not the object.
    WrongAnswer(FailedCall),
    /// The object has a field that cannot be read, or a damaged state.
    Unreadable(UnreadablePps),
    /// A newer release of this product wrote the states.
    NewerVersion(UnreadablePps),
    /// The cluster's definition hides recorded states of the object of this name.
    HiddenStates(String),
}

/// A host call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCall {
    api_version: &'static str,
    name: String,
    reason: String,
}

/// An object that this version of the policy cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadablePps {
    name: String,
    /// The field, and what is wrong with it.
    reason: String,
}

impl LookupError {
    /// An object of this name has something that cannot be read.
    pub(crate) fn unreadable(name: &str, reason: String) -> Self {
        let name = name.into();
        Self::Unreadable(UnreadablePps { name, reason })
    }

    /// An object of this name has a state that cannot be read.
    pub(crate) fn damaged(name: &str, why: &Damaged) -> Self {
        let pps = UnreadablePps {
            name: name.into(),
            reason: why.to_string(),
        };
        match why {
            Damaged::NewerVersion(_) => Self::NewerVersion(pps),
            Damaged::Content(_) => Self::Unreadable(pps),
        }
    }

    /// What to do, in the imperative.
    pub(crate) fn remedy(&self) -> String {
        match self {
            Self::KindNotServed => {
                format!(
                    "install the {KIND} CRD ({GROUP}, v1alpha1 or v1beta1), or remove this policy"
                )
            }
            Self::NotGranted(FailedCall { api_version, .. }) => format!(
                "name {api_version} {KIND} in the policy's spec.contextAwareResources, and \
                 kubernetes/{GET} in its host capabilities"
            ),
            Self::Forbidden(_) => {
                format!("grant the PolicyServer's ServiceAccount the verb get on {PLURAL}.{GROUP}")
            }
            Self::Unavailable(_) => "check that the PolicyServer reaches the API server".into(),
            Self::WrongAnswer(_) => "run a supported version of the PolicyServer".into(),
            Self::Unreadable(UnreadablePps { name, .. }) => format!("correct {KIND} {name}"),
            Self::NewerVersion(UnreadablePps { name, .. }) => {
                format!("upgrade the policy, since a newer release has written {KIND} {name}")
            }
            Self::HiddenStates(_) => {
                format!("apply this product's {KIND} CRD again: the present one hides the states")
            }
        }
    }

    /// Whether there are recorded states that only this policy, or the cluster, does not show. A
    /// message must not offer to start Pods away from their data then.
    pub(crate) fn hides_known_states(&self) -> bool {
        matches!(self, Self::NewerVersion(_) | Self::HiddenStates(_))
    }

    /// What happened, for those who want to know more.
    pub(crate) fn details(&self) -> String {
        match self {
            Self::KindNotServed => format!("the cluster does not serve {PLURAL}.{GROUP}"),
            Self::NotGranted(call) | Self::Forbidden(call) | Self::Unavailable(call) => {
                format!("{GET} {} failed: {}", call.name, call.reason)
            }
            Self::WrongAnswer(call) => format!(
                "the answer to {GET} {} is not the {KIND} of this name: {}",
                call.name, call.reason
            ),
            Self::Unreadable(pps) | Self::NewerVersion(pps) => pps.reason.clone(),
            Self::HiddenStates(name) => format!(
                "{KIND} {name} has states in status.packed, which the cluster does not show"
            ),
        }
    }
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.remedy(), self.details())
    }
}

impl Error for LookupError {}

/// The object that a call asks for, as messages describe it.
#[derive(Clone, Copy)]
pub(crate) struct RequestedPps<'a> {
    pub(crate) api_version: &'static str,
    pub(crate) name: &'a str,
}

impl RequestedPps<'_> {
    /// The error of an answer that is not the object.
    pub(crate) fn wrong_answer(&self, error: &dyn fmt::Display) -> LookupError {
        LookupError::WrongAnswer(self.with_reason(error.to_string()))
    }

    /// The error of a call to which the host answers with this error text.
    pub(crate) fn failed(&self, text: &str) -> LookupError {
        match HostError::parse(text, self.api_version) {
            HostError::KindNotServed => LookupError::KindNotServed,
            HostError::NotGranted(reason) => LookupError::NotGranted(self.with_reason(reason)),
            HostError::Forbidden(reason) => LookupError::Forbidden(self.with_reason(reason)),
            HostError::Other(reason) => LookupError::Unavailable(self.with_reason(reason)),
        }
    }

    fn with_reason(&self, reason: String) -> FailedCall {
        FailedCall {
            api_version: self.api_version,
            name: self.name.into(),
            reason,
        }
    }
}
