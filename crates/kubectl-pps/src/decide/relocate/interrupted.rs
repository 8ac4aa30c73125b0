//! What a move that is interrupted leaves behind.

use super::{Relocation, Removal};
use crate::decide::hand::Hand;
use crate::snapshot::Pod;

/// How far a move has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reached {
    /// Nothing was written.
    #[default]
    Nothing,
    /// The Pod may be marked.
    Marked,
    /// The state may be written.
    Written,
}

impl Relocation {
    /// Whether this move has removed the Pod: then its successor starts by itself, and another move would evict that one.
    ///
    /// What is recorded is changed before, unless something else removes the Pod, as it does on a node that is gone.
    pub fn has_removed(&self, now: Option<&Pod>) -> bool {
        self.present.as_ref().is_some_and(|present| {
            let is_removed =
                matches!(present.removal, Removal::Evict | Removal::Delete) && !present.is_stranded;
            is_removed && now.is_none_or(|now| now.uid() != present.uid || now.is_terminating())
        })
    }

    /// The command that calls the move off, if its Pod is still there.
    pub fn call_off(&self, hand: &Hand) -> Option<String> {
        let present =
            self.present.as_ref().filter(|one| one.removal == Removal::Evict && !one.is_stranded)?;
        let node = present.node.as_ref()?;
        Some(hand.pps(&format!("move {} --to {node}", self.pod), &self.namespace))
    }

    /// What the user can do after an interrupt.
    pub fn how_to_go_on(&self, has_removed: bool, hand: &Hand) -> String {
        let pod = &self.pod;
        if has_removed {
            let explain = hand.pps(&format!("explain {pod}"), &self.namespace);
            format!("Pod {pod} has been removed, and its successor starts by itself; to see where: {explain}")
        } else {
            "the same command goes on".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::several::tests::{relocation, world};
    use super::super::tests::pod;
    use super::*;

    fn read(pod: Value) -> Pod {
        Pod::read(pod).unwrap()
    }

    #[test]
    fn a_pod_that_was_removed_is_not_moved_once_more() {
        let former = pod("db-0", Some("node-1"), None);
        let mut ending = former.clone();
        ending["metadata"]["deletionTimestamp"] = "2026-11-23T00:00:00Z".into();
        let mut successor = pod("db-0", Some("node-2"), None);
        successor["metadata"]["uid"] = "uid-other".into();
        let moved = relocation(&world(std::slice::from_ref(&former), &[]), "db-0");
        assert!(!moved.has_removed(Some(&read(former.clone()))), "it was not evicted yet");
        assert!(moved.has_removed(Some(&read(ending.clone()))));
        assert!(moved.has_removed(Some(&read(successor.clone()))));
        assert!(moved.has_removed(None));
        // It ended already: whether what is recorded was changed before is not known.
        let ends = relocation(&world(&[ending], &[]), "db-0");
        assert!(!ends.has_removed(Some(&read(successor.clone()))));
        // Kubernetes deletes the Pods of a node that is gone.
        let stranded = relocation(&world(&[pod("db-0", Some("node-9"), None)], &[]), "db-0");
        assert!(!stranded.has_removed(Some(&read(successor))));
    }

    #[test]
    fn what_goes_on_after_an_interrupt_is_named() {
        let moved = relocation(&world(&[pod("db-0", Some("node-1"), None)], &[]), "db-0");
        let hand = Hand { context: Some("blue".into()), ..Hand::default() };
        assert_eq!(moved.how_to_go_on(false, &hand), "the same command goes on");
        assert_eq!(
            moved.how_to_go_on(true, &hand),
            "Pod db-0 has been removed, and its successor starts by itself; to see where: kubectl pps explain db-0 -n prod \
             --context blue"
        );
    }
}
