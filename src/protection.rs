//! Refuses to delete a PersistentPodState that a label protects.

use pps_core::protect::{is_cluster_controller, refuse_deletion};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::admission::Admission;
use crate::objects::parse;
use crate::response::{AdmissionResult, Rejection, ValidationResponse};

/// Answers the deletion of an object by a user. Makes no host call: the old object holds all that
/// counts.
pub(crate) fn admit(admission: &Admission, user: Option<&RawValue>) -> AdmissionResult {
    let user: Value = user
        .and_then(|user| serde_json::from_str(user.get()).ok())
        .unwrap_or_default();
    let is_own = is_cluster_controller(user["username"].as_str().unwrap_or_default());
    // API servers before 1.15 send no old object: nothing is known of a label then.
    let object = admission
        .old_object
        .filter(|_| !is_own)
        .map(parse)
        .transpose()?;
    match object.as_ref().and_then(refuse_deletion) {
        Some(message) => Err(Rejection { code: 403, message }),
        None => Ok(ValidationResponse::accept(Vec::new())),
    }
}
