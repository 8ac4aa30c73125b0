//! What could not be read.

use std::fmt;

use pps_check::facts::Problem;

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unseen {
    /// What: `list nodes`.
    pub what: String,
    /// Whether a right is missing.
    pub is_forbidden: bool,
    /// Why, if no right is missing.
    pub why: String,
}

impl Unseen {
    /// From what the reader reports.
    pub fn of(problem: Problem) -> Self {
        match problem {
            Problem::Forbidden(right) => {
                Self { what: right.to_string(), is_forbidden: true, why: String::new() }
            }
            Problem::Failed { what, why } => Self { what, is_forbidden: false, why },
        }
    }
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_forbidden {
            write!(f, "you have no permission to {}", self.what)
        } else {
            write!(f, "cannot read {}: {}", self.what, self.why)
        }
    }
}
