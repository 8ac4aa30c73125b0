//! Why recorded states cannot be changed.

use std::fmt;

use crate::limits::MAX_POD_STATES;
use crate::packed::Damaged;
use crate::size::DEFAULT_LIMIT;

/// Why recorded states cannot be changed. Displayed with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditError {
    /// The object has no UID or no resource version.
    Unguarded,
    /// What is recorded cannot be read.
    Damaged(Damaged),
    /// The definition hides the recorded states: any write would lose them.
    Hidden,
    /// A state that cannot be recorded.
    Invalid {
        /// The Pod.
        pod: String,
        /// What is wrong with the state, or with the Pod's name.
        reason: String,
    },
    /// More states than one object can have.
    TooMany {
        /// How many there would be.
        states: usize,
    },
    /// The object would be larger than [`DEFAULT_LIMIT`].
    TooLarge {
        /// The size that it would have, in bytes.
        bytes: usize,
    },
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unguarded => f.write_str(
                "the object has no UID or no resourceVersion: only what was read from the API \
                 server can be changed",
            ),
            Self::Damaged(newer @ Damaged::NewerVersion(_)) => {
                write!(f, "{newer}; nothing is changed until then")
            }
            Self::Damaged(damaged) => write!(
                f,
                "{damaged}; correct it first, nothing is changed until then"
            ),
            Self::Hidden => f.write_str(
                "the definition of PersistentPodState in this cluster hides status.packed, and a \
                 write would lose the states in it: apply this product's definition first",
            ),
            Self::Invalid { pod, reason } => {
                write!(f, "the state of Pod {pod} cannot be recorded: {reason}")
            }
            Self::TooMany { states } => write!(
                f,
                "the object would have {states} states, and at most {MAX_POD_STATES} are allowed: \
                 split the workload"
            ),
            Self::TooLarge { bytes } => write!(
                f,
                "the object would have {} KiB, and is kept below {}, so that the PolicyServer \
                 accepts changes of it: record less, or split the workload",
                bytes.div_ceil(1024),
                DEFAULT_LIMIT / 1024
            ),
        }
    }
}

impl std::error::Error for EditError {}

impl From<Damaged> for EditError {
    fn from(damaged: Damaged) -> Self {
        Self::Damaged(damaged)
    }
}
