//! What the policy answered, and what is wrong with the files.

use pps_manifest::Flaw;
use serde::Serialize;
use serde_json::Value;

/// What the policy answered.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answers {
    /// Each Pod and each PersistentPodState, in the order of the files.
    pub attempts: Vec<Attempt>,
    /// What is wrong with the files, and where.
    pub problems: Vec<Problem>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// Whether a file could not be read, so that nothing was tried.
    #[serde(skip)]
    pub is_unreadable: bool,
}

impl Answers {
    /// Whether something is refused.
    pub fn is_refused(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.refusal.is_some())
            || self.problems.iter().any(|problem| problem.is_error)
    }
}

/// The creation of one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// `Pod`
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The file that has it.
    pub file: String,
    /// The line where it begins.
    pub line: usize,
    /// The workload from whose template it was made: `StatefulSet db`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_from: Option<String>,
    /// The PersistentPodState whose state was injected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_pod_state: Option<String>,
    /// What was injected: `required: topology.kubernetes.io/zone; annotations: example.io/ip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub injected: Option<String>,
    /// Why nothing was injected into a Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unchanged: Option<String>,
    /// What the policy warns of.
    pub warnings: Vec<String>,
    /// Why the policy refuses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// The object as it was sent.
    #[serde(skip)]
    pub before: Value,
    /// The object as it would be stored; none if it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<Value>,
}

/// Why an object is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// An HTTP status.
    pub code: u16,
    /// The policy's text.
    pub message: String,
}

/// Something that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The file.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
    /// The field; empty if it is not about a field.
    pub field: String,
    /// Whether the object cannot be stored.
    pub is_error: bool,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Problem {
    pub(super) fn error(file: &str, flaw: &Flaw) -> Self {
        Self {
            file: file.to_owned(),
            line: flaw.place.line,
            column: flaw.place.column,
            field: flaw.field.clone(),
            is_error: true,
            message: flaw.message.clone(),
        }
    }
}
