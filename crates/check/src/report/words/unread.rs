//! The words about what the check could not read.

use super::Words;
use crate::finding::UnreadDiagnosis as D;

pub(super) fn words(diagnosis: &D) -> Words {
    match diagnosis {
        D::PermissionMissing(right) => Words::seen(format!("may not {right}")).advise(
            "run it with an account that may, for example with the ClusterRole pps-check of \
             deploy/check.yaml",
        ),
        D::RequestFailed { why } => Words::seen(format!("cannot be read: {why}")).advise(
            "run the check again; if it fails again, see why the API server refuses the request",
        ),
    }
}
