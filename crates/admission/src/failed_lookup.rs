//! What a lookup that failed means for its request.

use crate::decision::{Decision, Rejection};
use crate::lookup::{LookupError, Namespace};
use crate::settings::OnLookupFailure;

/// A lookup that failed, as messages describe it.
pub(crate) struct FailedLookup {
    /// What could not be done: `cannot look up …`.
    pub(crate) purpose: String,
    /// What `onLookupFailure: accept` does about it, in the infinitive.
    pub(crate) alternative: &'static str,
    /// The same, once it has happened.
    pub(crate) consequence: &'static str,
    pub(crate) error: LookupError,
}

impl FailedLookup {
    /// Rejects or accepts the request, as `onLookupFailure` says.
    pub(crate) fn answer(
        self,
        namespace: Namespace,
        on_failure: OnLookupFailure,
    ) -> Result<Decision, Rejection> {
        let Self {
            purpose,
            alternative,
            consequence,
            error,
        } = self;
        match on_failure {
            OnLookupFailure::Reject => Err(Rejection::LookupFailed {
                purpose,
                alternative,
                error,
            }),
            OnLookupFailure::Accept => {
                let remedy = error.remedy();
                let details = error.details();
                let warning = format!("{consequence}: {remedy} ({purpose}: {details})");
                namespace.log_warning(&warning);
                let mut decision = Decision::accept_with(vec![warning.clone()]);
                decision.audit_annotations.insert("lookup-failed", warning);
                Ok(decision)
            }
        }
    }
}
