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

    /// What was to be listed, such as `pods` or `pods in namespace shop`.
    pub fn list(&self) -> &str {
        // A missing right names the verb, a failed request does not.
        self.what.strip_prefix("list ").unwrap_or(&self.what)
    }

    /// The resource, such as `pods` or `statefulsets.apps`, in whichever namespace.
    pub fn resource(&self) -> &str {
        self.list().split(' ').next().unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use pps_check::facts::Right;

    use super::*;

    #[test]
    fn a_list_is_the_same_one_whether_a_right_is_missing_or_the_request_has_failed() {
        let right = Right::new("list", "", "pods").within("shop");
        let failed = Problem::Failed { what: "pods in namespace shop".into(), why: "500".into() };
        for problem in [Problem::Forbidden(right), failed] {
            assert_eq!(Unseen::of(problem).list(), "pods in namespace shop");
        }
    }
}
