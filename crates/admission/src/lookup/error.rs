//! Why a lookup failed, and what to do about it.

use std::error::Error;
use std::fmt;

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
    /// The answer is not a valid object.
    Malformed(FailedCall),
    /// The cluster's definition hides recorded states of the object of this name.
    HiddenStates(String),
    /// Any other failure, such as a time-out.
    Unavailable(FailedCall),
}

/// A host call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCall {
    api_version: &'static str,
    name: String,
    reason: String,
}

impl fmt::Display for FailedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{GET} {} failed: {}", self.name, self.reason)
    }
}

impl LookupError {
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
            Self::Malformed(_) => "correct the object".into(),
            Self::HiddenStates(_) => {
                format!("apply this product's {KIND} CRD again: the present one hides the states")
            }
            Self::Unavailable(_) => "check that the PolicyServer reaches the API server".into(),
        }
    }

    /// Whether there are recorded states that only this policy, or the cluster, does not show. A
    /// message must not offer to start Pods away from their data then.
    pub(crate) fn hides_known_states(&self) -> bool {
        matches!(self, Self::HiddenStates(_))
    }

    /// What happened, for those who want to know more.
    pub(crate) fn details(&self) -> String {
        match self {
            Self::KindNotServed => format!("the cluster does not serve {PLURAL}.{GROUP}"),
            Self::HiddenStates(name) => format!(
                "{KIND} {name} has states in status.packed, which the cluster does not show"
            ),
            Self::NotGranted(call)
            | Self::Forbidden(call)
            | Self::Malformed(call)
            | Self::Unavailable(call) => call.to_string(),
        }
    }
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.remedy(), self.details())
    }
}

impl Error for LookupError {}

/// A get, as messages describe it.
#[derive(Clone, Copy)]
pub(crate) struct HostCall<'a> {
    pub(crate) api_version: &'static str,
    /// The name of the object.
    pub(crate) name: &'a str,
}

impl HostCall<'_> {
    /// The error of an answer that cannot be used.
    pub(crate) fn malformed(&self, error: &dyn fmt::Display) -> LookupError {
        LookupError::Malformed(
            self.with_reason(format!("the answer is not a valid {KIND}: {error}")),
        )
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
