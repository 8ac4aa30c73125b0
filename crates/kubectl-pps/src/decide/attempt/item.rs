//! An object of a file.

use pps_manifest::Flaw;
use pps_manifest::yaml::Positions;
use serde_json::Value;

use super::answers::{Attempt, Problem};

/// What is done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Pod,
    StatefulSet,
    Pps,
    /// A request of the API server or of PolicyServer, as `kwctl run --request-path` takes it.
    Request,
}

/// An object of a file.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) subject: Subject,
    /// With its namespace.
    pub(super) object: Value,
    pub(super) namespace: String,
    pub(super) origin: Origin,
}

/// Where an object is.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) file: String,
    pub(super) positions: Positions,
    /// Its path in its document: `items[3].`
    pub(super) prefix: String,
}

impl Item {
    pub(super) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub(super) fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    /// An attempt to create an object of this item. The policy has not been asked about it yet.
    pub(super) fn begin(&self, object: &Value) -> Attempt {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Attempt {
            kind: text(&object["kind"]),
            name: text(&object["metadata"]["name"]),
            namespace: self.namespace.clone(),
            file: self.origin.file.clone(),
            line: self.origin.line(),
            before: object.clone(),
            ..Attempt::default()
        }
    }
}

impl Origin {
    /// Where the object begins.
    pub(super) fn line(&self) -> usize {
        self.positions.find(self.prefix.trim_end_matches('.')).line
    }

    /// `pods.yaml:12`
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.file, self.line())
    }

    /// Something that is wrong with a field of the object.
    pub(super) fn problem(&self, field: &str, message: &str, is_error: bool) -> Problem {
        let path = format!("{}{field}", self.prefix);
        let flaw = Flaw { field: field.to_owned(), ..Flaw::of(&self.positions, &path, message) };
        Problem { is_error, ..Problem::error(&self.file, &flaw) }
    }
}
