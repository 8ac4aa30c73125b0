//! The mark of a move on its Pod: the sidecar does not record a marked Pod.

use pps_core::{MOVE_ANNOTATION, RECORD_ANNOTATION};
use serde_json::{Value, json};

use crate::snapshot::Pod;

/// The value of the mark of a Pod that a user has exempted from recording.
const EXEMPT: &str = "exempt";

/// The annotations that mark a Pod, or that remove the mark; none if nothing has to be changed. A Pod that a user has
/// exempted stays exempt.
pub fn mark(pod: &Pod, is_moved: bool) -> Option<Value> {
    match (is_moved, pod.is_marked()) {
        (true, false) => {
            let before = if pod.is_exempt() { EXEMPT } else { "recorded" };
            Some(json!({RECORD_ANNOTATION: "false", MOVE_ANNOTATION: before}))
        }
        (false, true) if is_recorded_unmarked(pod) => {
            Some(json!({RECORD_ANNOTATION: null, MOVE_ANNOTATION: null}))
        }
        (false, true) => Some(json!({MOVE_ANNOTATION: null})),
        _ => None,
    }
}

/// Whether the sidecar records the Pod once it has no mark.
pub fn is_recorded_unmarked(pod: &Pod) -> bool {
    if pod.is_marked() { pod.annotation(MOVE_ANNOTATION) != Some(EXEMPT) } else { !pod.is_exempt() }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pod;
    use super::*;

    #[test]
    fn a_removed_mark_leaves_a_users_exemption() {
        for exemption in [None, Some("false"), Some("true")] {
            let mut own = pod("db-0", Some("node-1"), Some("node-1"));
            if let Some(value) = exemption {
                own["metadata"]["annotations"][RECORD_ANNOTATION] = value.into();
            }
            let before = Pod::read(own.clone()).unwrap();
            assert!(!before.is_marked() && mark(&before, false).is_none());
            json_patch::merge(&mut own["metadata"]["annotations"], &mark(&before, true).unwrap());
            let marked = Pod::read(own.clone()).unwrap();
            assert!(marked.is_marked() && mark(&marked, true).is_none(), "another command moves it as well");
            assert_eq!(is_recorded_unmarked(&marked), !before.is_exempt(), "{exemption:?}");
            json_patch::merge(&mut own["metadata"]["annotations"], &mark(&marked, false).unwrap());
            let after = Pod::read(own).unwrap();
            assert_eq!((after.is_marked(), after.is_exempt()), (false, before.is_exempt()), "{exemption:?}");
        }
    }
}
