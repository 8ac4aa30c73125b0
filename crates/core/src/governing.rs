//! Which PPS governs a workload, and aliases: how a single get finds a PPS of any name.
//!
//! A PPS may have another name than its workload. The policy finds it without a list, because the
//! sidecar keeps an alias for it: a PPS under [the workload's second name](second_name), whose
//! `targetRef` names the other PPS and which says nothing else. An alias proves nothing by itself:
//! a reader checks that the PPS it points to targets the workload.

use crate::names::fnv1a;
use crate::pps::{API_VERSION, GROUP, KIND, TargetReference};

/// The `targetRef` of an alias of the PPS of this name.
pub fn target_of_alias(pps: &str) -> TargetReference {
    TargetReference {
        api_version: API_VERSION.into(),
        kind: KIND.into(),
        name: pps.into(),
    }
}

/// The name of the PPS that an object with this `targetRef` is an alias of; `None` if it targets a
/// workload.
pub fn aliased(target_ref: &TargetReference) -> Option<&str> {
    (target_ref.group() == GROUP && target_ref.kind == KIND).then_some(&target_ref.name)
}

/// The name for the PPS of a workload if the PPS of the workload's own name belongs to a workload
/// of another kind: `<name>-<8 hex digits, a hash of group and kind>`, at most 253 characters.
pub fn second_name(target: &TargetReference) -> String {
    let hash = fnv1a(
        target
            .group()
            .bytes()
            .chain([b'/'])
            .chain(target.kind.bytes()),
    );
    let length = 253 - "-00000000".len();
    let name: String = target.name.chars().take(length).collect();
    format!("{}-{hash:08x}", name.trim_end_matches(['-', '.']))
}

/// A PPS that may govern a workload.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub name: &'a str,
    pub target: &'a TargetReference,
    /// `metadata.creationTimestamp`.
    pub created: &'a str,
    pub is_terminating: bool,
}

/// Whether a PPS with this target can govern a workload: it targets the workload and is not
/// terminating. An alias targets no workload.
fn may_govern(workload: &TargetReference, target: &TargetReference, is_terminating: bool) -> bool {
    !is_terminating && target.is_same_workload(workload)
}

/// Which of these objects governs a workload: the one of the workload's own name, which the policy
/// asks for first; else the one of its [second name](second_name), which it asks for next; else the
/// oldest; of equally old ones the first by name. Each candidate comes with what the caller knows
/// it by.
pub fn governing<'a, T>(
    workload: &TargetReference,
    candidates: impl IntoIterator<Item = (Candidate<'a>, T)>,
) -> Option<T> {
    let second = second_name(workload);
    candidates
        .into_iter()
        .filter(|(pps, _)| may_govern(workload, pps.target, pps.is_terminating))
        .min_by_key(|(pps, _)| {
            let has_own_name = pps.name == workload.name;
            let has_second_name = pps.name == second;
            (!has_own_name, !has_second_name, pps.created, pps.name)
        })
        .map(|(_, known_as)| known_as)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_the_policy_asks_for_govern_then_the_oldest_object() {
        let web = TargetReference {
            api_version: "apps/v1".into(),
            kind: "StatefulSet".into(),
            name: "web".into(),
        };
        let newer = TargetReference {
            api_version: "apps/v2".into(),
            ..web.clone()
        };
        let other = TargetReference {
            name: "db".into(),
            ..web.clone()
        };
        let alias = target_of_alias("web");
        let second = second_name(&web);
        let first = |objects: &[(&'static str, &'static str)]| {
            let candidates = objects.iter().map(|(name, created)| {
                let name = if *name == "second" {
                    second.as_str()
                } else {
                    *name
                };
                let (name, is_terminating) = (name.trim_end_matches('!'), name.ends_with('!'));
                let target = match name {
                    "other" => &other,
                    "alias" => &alias,
                    _ => &newer,
                };
                (
                    Candidate {
                        name,
                        target,
                        created,
                        is_terminating,
                    },
                    name.to_owned(),
                )
            });
            governing(&web, candidates)
        };
        for (objects, expected) in [
            (
                &[("a", "1"), ("second", "2"), ("web", "3")][..],
                Some("web"),
            ),
            (&[("a", "1"), ("second", "2")], Some(second.as_str())),
            (&[("a", "1"), ("web!", "0")], Some("a")),
            (&[("a", "2"), ("b", "1")], Some("b")),
            (&[("b", "1"), ("a", "1")], Some("a")),
            (&[("other", "1"), ("alias", "1"), ("a!", "1")], None),
        ] {
            assert_eq!(first(objects).as_deref(), expected, "{objects:?}");
        }
    }

    #[test]
    fn an_alias_targets_a_pps() {
        let alias = target_of_alias("my-web");
        assert_eq!(aliased(&alias), Some("my-web"));
        let newer = TargetReference {
            api_version: "apps.kruise.io/v1beta1".into(),
            ..alias
        };
        assert_eq!(aliased(&newer), Some("my-web"));
        let workload = TargetReference {
            kind: "StatefulSet".into(),
            ..newer
        };
        assert_eq!(aliased(&workload), None);
    }
}
