//! How a command ends.

use std::fmt;

/// How a command ends that gave its answer, the worst last: a problem counts more than an unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// All is well, or everything is done.
    Well,
    /// Something could not be read, so the answer is incomplete.
    Incomplete,
    /// The answer is that something is wrong: a Pod is Pending, or would be.
    NotWell,
}

impl Outcome {
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Well => 0,
            Self::NotWell => 1,
            Self::Incomplete => 2,
        }
    }
}

pub type CommandResult = Result<Outcome, Failure>;

/// Why a command gave no answer or did not do its work. The text names the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    Usage(String),
    NoNode(String),
    /// The request names a missing object, was refused, or is not safe. Nothing was changed, unless the text
    /// says so.
    Refused(String),
    /// The API server could not be reached or read, or a right is missing.
    Unreadable(String),
    NoDefinition,
}

/// Why something could not be read: the API server's words, or none if the user lacks the right.
pub(crate) fn unreadable(right: &pps_check::read::Right, why: Option<&str>) -> String {
    match why {
        None => format!("you have no permission to {right}"),
        Some(why) => format!("cannot read {}: {why}", right.object()),
    }
}

impl Failure {
    #[must_use]
    pub fn with(self, lines: &str) -> Self {
        let text = format!("{self}\n{lines}");
        match self {
            Self::Usage(_) | Self::NoNode(_) => Self::Usage(text),
            Self::Refused(_) => Self::Refused(text),
            Self::Unreadable(_) | Self::NoDefinition => Self::Unreadable(text),
        }
    }

    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::Refused(_)) { 1 } else { 2 }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Usage(text) | Self::Refused(text) | Self::Unreadable(text) => text,
            Self::NoNode(node) => return write!(f, "there is no node {node}"),
            Self::NoDefinition => {
                "this cluster has no definition of PersistentPodState (persistentpodstates.apps.kruise.io): the product is \
                 not installed, or its CRD was deleted"
            }
        })
    }
}
