//! A request that the policy has to decide.

use serde_json::value::RawValue;

use crate::cluster::Cluster;
use crate::lookup_error::LookupError;
use crate::response::{AdmissionResult, Rejection, ValidationResponse};
use crate::settings::{OnLookupFailure, Settings};

pub(crate) struct Admission<'a> {
    /// The cluster, as seen from the object's namespace.
    pub(crate) cluster: Cluster<'a>,
    /// The object in JSON, after the change.
    pub(crate) object: &'a str,
    /// The object in JSON, before the change; `None` if it is created.
    pub(crate) old_object: Option<&'a str>,
    pub(crate) settings: Option<&'a RawValue>,
}

/// How messages describe a lookup that failed.
pub(crate) struct FailedLookup<'a> {
    /// What could not be done: `cannot look up …`.
    pub(crate) failure: &'a str,
    /// What `onLookupFailure: accept` does about it, in the infinitive.
    pub(crate) alternative: &'a str,
    /// The same, once it has happened.
    pub(crate) consequence: &'a str,
}

impl Admission<'_> {
    /// The policy's settings.
    pub(crate) fn settings(&self) -> Result<Settings, Rejection> {
        Settings::parse(self.settings.map_or("null", RawValue::get)).map_err(|error| Rejection {
            code: 500,
            message: format!("the policy's settings are wrong: {error}"),
        })
    }

    /// Rejects or accepts a request whose lookup failed, as `onLookupFailure` says.
    pub(crate) fn answer_lookup_failure(
        &self,
        settings: &Settings,
        lookup: &FailedLookup,
        error: &LookupError,
    ) -> AdmissionResult {
        let FailedLookup {
            failure,
            alternative,
            consequence,
        } = lookup;
        let (remedy, details) = (error.remedy(), error.details());
        match settings.on_lookup_failure {
            OnLookupFailure::Reject => {
                let message = format!(
                    "{failure}: {remedy}, or set settings.onLookupFailure to \"accept\" to \
                     {alternative} ({details})"
                );
                Err(Rejection { code: 503, message })
            }
            OnLookupFailure::Accept => {
                let warning = format!("{consequence}: {failure}; {remedy} ({details})");
                self.cluster.log_warning(&warning);
                let response = ValidationResponse::accept(vec![warning.clone()]);
                Ok(response.with_audit_annotations(vec![("lookup-failed", warning.into())]))
            }
        }
    }
}
