//! A Pod without a node.

use pps_scheduler::{Contradiction, Exclusion, Selection, Verdict as NodeVerdict};

use super::fallback::fallback;
use super::remedies::{let_volume_place, remedies};
use super::{Cause, Explanation};
use crate::decide::subject::{Candidate, Subject};
use crate::snapshot::Pod;

pub(super) fn pending<'a>(subject: Subject<'a>, pod: &Pod) -> Explanation<'a> {
    let is_refused = pod.unschedulable().is_some();
    let present = subject.present(pod);
    let Some(mut selection) = subject.select(&present) else {
        // Without the right to read nodes only the scheduler's own message is known.
        let cause = if is_refused {
            Cause::NoNode {
                matching: None,
                by_recorded_state: !present.required.is_empty(),
            }
        } else {
            Cause::Unscheduled
        };
        return Explanation::new(subject, cause);
    };
    let is_nowhere = selection.chosen.is_none();
    let cause = if is_nowhere {
        no_node(&subject, &present, &selection)
    } else {
        Cause::Unscheduled
    };
    let mut explanation = Explanation::new(subject, cause);
    // A rule that is not simulated may exclude the remaining nodes.
    if is_nowhere || is_refused && !selection.caveats.is_empty() {
        let subject = &explanation.subject;
        explanation.contradiction = contradiction(subject, &present).filter(|_| is_nowhere);
        explanation.remedies = if explanation.contradiction.is_some() {
            vec![let_volume_place(subject, &present)]
        } else {
            remedies(subject, &present, &selection)
        };
        explanation.is_stuck = is_nowhere && explanation.remedies.is_empty();
    }
    if present.is_outdated {
        blame_former_state(&mut selection.verdicts);
    }
    explanation.add(selection);
    explanation.fallback = fallback(&explanation.subject, pod);
    explanation
}

/// The volume of the Pod that cannot be where its recorded state requires the Pod to be. A new Pod
/// would require the same.
fn contradiction(subject: &Subject, present: &Candidate) -> Option<Contradiction> {
    if present.is_outdated {
        return None;
    }
    let nodes = subject.nodes.as_ref()?;
    nodes.contradiction(&present.pod, &present.required)
}

/// No node can take the Pod: because of its recorded state, or whatever that is.
fn no_node(subject: &Subject, present: &Candidate, selection: &Selection) -> Cause {
    let is_pinned = !present.required.is_empty();
    let matching = selection
        .verdicts
        .iter()
        .filter(|node| !is_pinned || !node.exclusions.iter().any(Exclusion::from_pps))
        .cloned()
        .collect();
    // Without the recorded state the Pod may be Pending as well.
    let freed = subject.select_freed(present);
    Cause::NoNode {
        matching: Some(matching),
        by_recorded_state: freed.is_some_and(|freed| freed.chosen.is_some()),
    }
}

/// The Pod was created with another state than is recorded now: the reasons say so.
fn blame_former_state(verdicts: &mut [NodeVerdict]) {
    for verdict in verdicts {
        for exclusion in &mut verdict.exclusions {
            *exclusion = exclusion.clone().of_former_state();
        }
    }
}
