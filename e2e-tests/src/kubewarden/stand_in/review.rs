//! Admission reviews as PolicyServer reads and writes them.

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use k8s_openapi::{api::authentication::v1::UserInfo, apimachinery::pkg::runtime::RawExtension};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A request, with the fields that PolicyServer knows and passes to the policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionRequest {
    /// Identifies the request.
    pub uid: String,
    /// The kind of the object.
    pub kind: Kind,
    /// The resource of the request.
    pub resource: Resource,
    /// Its subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_resource: Option<String>,
    /// The kind in the client's request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_kind: Option<Kind>,
    /// The resource in the client's request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_resource: Option<Resource>,
    /// The subresource in the client's request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_sub_resource: Option<String>,
    /// The object's name, if it has one yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// CREATE, UPDATE, DELETE or CONNECT.
    pub operation: String,
    /// The client.
    pub user_info: UserInfo,
    /// The new object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<RawExtension>,
    /// The existing object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_object: Option<RawExtension>,
    /// Whether nothing will be stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// The options of the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<RawExtension>,
}

/// Group, version and kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kind {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
}

/// Group, version and resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural name.
    pub resource: String,
}

/// A review from the API server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReviewRequest {
    /// The request.
    pub request: AdmissionRequest,
}

/// The review that goes back.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewResponse {
    /// Always `admission.k8s.io/v1`.
    pub api_version: String,
    /// Always `AdmissionReview`.
    pub kind: String,
    /// The response.
    pub response: AdmissionResponse,
}

impl From<AdmissionResponse> for ReviewResponse {
    fn from(response: AdmissionResponse) -> Self {
        Self {
            api_version: "admission.k8s.io/v1".to_owned(),
            kind: "AdmissionReview".to_owned(),
            response,
        }
    }
}

/// The answer to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionResponse {
    /// Identifies the request.
    pub uid: String,
    /// Whether the request is allowed.
    pub allowed: bool,
    /// `JSONPatch` if there is a patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<String>,
    /// Base64 of the patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// Why the request is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ResponseStatus>,
    /// Annotations for the audit log.
    pub audit_annotations: Option<BTreeMap<String, String>>,
    /// Warnings for the client.
    pub warnings: Option<Vec<String>>,
}

/// Why a request is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseStatus {
    /// The message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// An HTTP status code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
}

/// The guest's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PolicyResponse {
    /// Whether the request is allowed.
    pub accepted: bool,
    /// Why the request is refused.
    pub message: Option<String>,
    /// An HTTP status code.
    pub code: Option<u16>,
    /// The object as the policy changed it.
    pub mutated_object: Option<Value>,
    /// Annotations for the audit log.
    pub audit_annotations: Option<BTreeMap<String, String>>,
    /// Warnings for the client.
    pub warnings: Option<Vec<String>>,
}

impl AdmissionResponse {
    /// A refusal.
    pub fn reject(uid: &str, message: impl Into<String>, code: Option<u16>) -> Self {
        let status = ResponseStatus {
            message: Some(message.into()),
            code,
        };
        Self {
            uid: uid.to_owned(),
            status: Some(status),
            ..Self::default()
        }
    }

    /// An error that the policy did not handle.
    pub fn internal_error(uid: &str, message: impl std::fmt::Display) -> Self {
        Self::reject(uid, format!("internal server error: {message}"), Some(500))
    }

    /// Converts the guest's answer. The difference between the two objects becomes the patch.
    pub(super) fn from_policy(
        uid: &str,
        object: Option<&Value>,
        answer: PolicyResponse,
    ) -> serde_json::Result<Self> {
        let patch = match (object, &answer.mutated_object) {
            (_, None) => None,
            (Some(before), Some(after)) => {
                let patch = json_patch::diff(before, after);
                if patch.0.is_empty() {
                    None
                } else {
                    Some(BASE64_STANDARD.encode(serde_json::to_string(&patch)?))
                }
            }
            (None, Some(_)) => {
                let message = "Incoming object is null, which happens only with DELETE \
                               operations, but the policy is attempting a mutation. This is not \
                               allowed";
                return Ok(Self::reject(uid, message, None));
            }
        };
        let status =
            (answer.message.is_some() || answer.code.is_some()).then_some(ResponseStatus {
                message: answer.message,
                code: answer.code,
            });
        Ok(Self {
            uid: uid.to_owned(),
            allowed: answer.accepted,
            patch_type: patch.is_some().then(|| "JSONPatch".to_owned()),
            patch,
            status,
            audit_annotations: answer.audit_annotations,
            warnings: answer.warnings,
        })
    }

    /// Refuses a patch of a policy that is not declared as mutating.
    pub(super) fn without_right_to_mutate(self, policy: &str) -> Self {
        if self.patch.is_none() {
            return self;
        }
        let message = format!(
            "Request rejected by policy {policy}. The policy attempted to mutate the request, but \
             it is currently configured to not allow mutations."
        );
        let status = ResponseStatus {
            message: Some(message),
            code: None,
        };
        Self {
            allowed: false,
            status: Some(status),
            patch: None,
            patch_type: None,
            ..self
        }
    }

    /// The patch, decoded.
    pub fn decoded_patch(&self) -> Option<json_patch::Patch> {
        let bytes = BASE64_STANDARD.decode(self.patch.as_ref()?).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}
