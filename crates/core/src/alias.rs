//! Aliases: how a single get finds a PPS of any name.
//!
//! A PPS may have another name than its workload. The policy finds it without a list, because the sidecar keeps an
//! alias for it: a PPS under [the workload's second name](crate::generate::second_name), whose `targetRef` names the
//! other PPS and which says nothing else. An alias proves nothing by itself: a reader checks that the PPS it
//! points to targets the workload.

use crate::pps::{API_VERSION, GROUP, KIND, TargetReference};

/// The `targetRef` of an alias of the PPS of this name.
pub fn target_of_alias(pps: &str) -> TargetReference {
    TargetReference { api_version: API_VERSION.into(), kind: KIND.into(), name: pps.into() }
}

/// The name of the PPS that an object with this `targetRef` is an alias of; `None` if it targets a workload.
pub fn aliased(target_ref: &TargetReference) -> Option<&str> {
    (target_ref.group() == GROUP && target_ref.kind == KIND).then_some(&target_ref.name)
}

/// A key to sort the PPS objects by that target one workload: the first governs it. That is the one of the workload's own
/// name, which the policy asks for first; else the one of its [second name](crate::generate::second_name), which it asks
/// for next; else the oldest; of equally old ones the first by name.
pub fn precedence<'a>(
    workload: &str,
    second_name: &str,
    pps: &'a str,
    created: &'a str,
) -> impl Ord + use<'a> {
    (pps != workload, pps != second_name, created, pps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_the_policy_asks_for_take_precedence_then_the_oldest_object() {
        let first = |mut objects: Vec<(&'static str, &'static str)>| {
            objects.sort_by_key(|(name, created)| precedence("web", "web-1234abcd", name, created));
            objects[0].0
        };
        assert_eq!(first(vec![("a", "1"), ("web-1234abcd", "2"), ("web", "3")]), "web");
        assert_eq!(first(vec![("a", "1"), ("web-1234abcd", "2")]), "web-1234abcd");
        assert_eq!(first(vec![("a", "2"), ("b", "1")]), "b");
        assert_eq!(first(vec![("b", "1"), ("a", "1")]), "a");
    }

    #[test]
    fn an_alias_targets_a_pps() {
        let alias = target_of_alias("my-web");
        assert_eq!(aliased(&alias), Some("my-web"));
        let newer = TargetReference { api_version: "apps.kruise.io/v1beta1".into(), ..alias };
        assert_eq!(aliased(&newer), Some("my-web"));
        let workload = TargetReference { kind: "StatefulSet".into(), ..newer };
        assert_eq!(aliased(&workload), None);
    }
}
