//! How far the moves of several Pods have come.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Goal, PodName, Relocation, Several};
use crate::Outcome;
use crate::decide::hand::Hand;
use crate::decide::names::list;
use crate::snapshot::WorkloadKey;

/// Where one move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The Pod is as it was.
    Untouched,
    /// All is done that has to be done, and the Pod has no node yet.
    OnTheWay,
    /// The Pod did not get where it should be, which was said.
    Elsewhere,
    /// The Pod is there.
    There,
}

#[derive(Clone, Debug)]
struct Step {
    pod: PodName,
    workload: WorkloadKey,
    stage: Stage,
    /// Whether it has waited for others of its workload as long as it may.
    is_held_up: bool,
}

/// How far the moves of several Pods have come.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    steps: Vec<Step>,
    /// How many Pods the plan leaves where they are.
    refused: usize,
    /// The number of the move that is being made.
    pub begun: Option<usize>,
}

impl Progress {
    /// Nothing is done yet.
    pub fn of(plan: &Several) -> Self {
        let step = |one: &Relocation| Step {
            pod: one.name(),
            workload: one.workload.clone(),
            stage: Stage::Untouched,
            is_held_up: false,
        };
        Self { steps: plan.moves.iter().map(step).collect(), refused: plan.refused.len(), begun: None }
    }

    /// Notes where the move of this number is.
    pub fn set(&mut self, number: usize, stage: Stage) {
        if let Some(step) = self.steps.get_mut(number) {
            step.stage = stage;
        }
    }

    /// Notes that the Pod of this number has waited in vain.
    pub fn hold_up(&mut self, number: usize) {
        if let Some(step) = self.steps.get_mut(number) {
            step.is_held_up = true;
        }
    }

    /// The Pods of this workload that were moved. A disruption budget may need a moment to know of them.
    pub fn moved_of(&self, workload: &WorkloadKey) -> Vec<String> {
        let moved =
            self.steps.iter().filter(|step| step.workload == *workload && step.stage != Stage::Untouched);
        moved.map(|step| step.pod.1.clone()).collect()
    }

    /// Whether a Pod of this workload has waited for others as long as it may.
    pub fn has_held_up(&self, workload: &WorkloadKey) -> bool {
        self.steps.iter().any(|step| step.workload == *workload && step.is_held_up)
    }

    fn count(&self, stages: &[Stage]) -> usize {
        self.steps.iter().filter(|step| stages.contains(&step.stage)).count()
    }

    fn pods(&self, stage: Stage) -> Vec<PodName> {
        self.steps.iter().filter(|step| step.stage == stage).map(|step| step.pod.clone()).collect()
    }

    /// How it has ended.
    pub fn outcome(&self) -> Outcome {
        let is_well = self.refused == 0 && self.steps.iter().all(|step| step.stage == Stage::There);
        if is_well { Outcome::Well } else { Outcome::NotWell }
    }

    /// What is said when all was looked at: `Moved 3 Pods; 1 Pod was left where it is`.
    pub fn end(&self) -> String {
        let pods = |count: usize| if count == 1 { "1 Pod".to_owned() } else { format!("{count} Pods") };
        let mut text = format!("Moved {}", pods(self.count(&[Stage::There])));
        match self.count(&[Stage::OnTheWay, Stage::Elsewhere]) {
            0 => {}
            1 => text.push_str("; 1 Pod is not where it should be yet"),
            count => {
                let _ = write!(text, "; {count} Pods are not where they should be yet");
            }
        }
        match self.count(&[Stage::Untouched]) + self.refused {
            0 => text,
            1 => format!("{text}; 1 Pod was left where it is"),
            count => format!("{text}; {} were left where they are", pods(count)),
        }
    }

    /// What was moved, for one who does not see the end.
    pub fn moved(&self) -> Option<String> {
        let there = self.pods(Stage::There);
        (!there.is_empty()).then(|| format!("moved: {}", names(&there)))
    }

    /// What is not finished, and the commands that go on. A Pod that goes on by itself is not moved once more.
    pub fn rest(&self, goal: &Goal<'_>, hand: &Hand) -> Vec<String> {
        let mut lines = Vec::new();
        let mut on_the_way: BTreeMap<String, Vec<PodName>> = BTreeMap::new();
        for pod in self.pods(Stage::OnTheWay) {
            on_the_way.entry(pod.0.clone()).or_default().push(pod);
        }
        for (namespace, pods) in on_the_way {
            let (they, look) = match pods.as_slice() {
                [(_, pod)] => ("it goes", format!("explain {pod}")),
                _ => ("they go", "status".to_owned()),
            };
            let look = hand.pps(&look, &namespace);
            lines
                .push(format!("not on a node yet: {}; {they} on without this command: {look}", names(&pods)));
        }
        let left = self.pods(Stage::Untouched);
        if !left.is_empty() {
            lines.push(format!("still to be moved: {}", names(&left)));
            lines
                .extend(goal.commands(&left, hand).into_iter().map(|command| format!("to go on: {command}")));
        }
        lines
    }
}

fn names(pods: &[PodName]) -> String {
    list(&pods.iter().map(|(_, pod)| pod.clone()).collect::<Vec<_>>(), "and")
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::pod;
    use super::super::tests::{ANYWHERE, named, world};
    use super::super::{Destination, decide_all};
    use super::*;

    const ALL: [&str; 4] = ["db-0", "db-1", "db-2", "db-3"];

    fn progress() -> Progress {
        let pods = ALL.map(|name| pod(name, Some("node-1"), Some("node-1")));
        let world = world(&pods, &ALL.map(|name| (name, "node-1")));
        let plan = decide_all(&world, &named(&ALL), &Goal { force: true, ..ANYWHERE }).unwrap();
        assert_eq!(plan.pods(), named(&ALL));
        Progress::of(&plan)
    }

    #[test]
    fn what_is_left_is_named_with_the_command_that_goes_on() {
        let hand = Hand { own_namespace: Some("prod".into()), ..Hand::default() };
        let goal =
            Goal { destination: Some(Destination::Node("node-2")), drop_annotations: true, ..ANYWHERE };
        let mut progress = progress();
        assert_eq!(progress.moved(), None);
        progress.set(0, Stage::There);
        assert_eq!(progress.moved().unwrap(), "moved: db-0");
        assert_eq!(
            progress.rest(&goal, &hand),
            [
                "still to be moved: db-1, db-2 and db-3",
                "to go on: kubectl pps move db-1 db-2 db-3 --to node-2 --drop-annotations",
            ]
        );
        // The Pod that was evicted is not moved once more.
        progress.set(1, Stage::OnTheWay);
        progress.set(2, Stage::There);
        progress.hold_up(3);
        assert_eq!(
            progress.rest(&ANYWHERE, &Hand::default()),
            [
                "not on a node yet: db-1; it goes on without this command: kubectl pps explain db-1 -n prod",
                "still to be moved: db-3",
                "to go on: kubectl pps move db-3 --anywhere -n prod",
            ]
        );
        let workload = &progress.steps[0].workload;
        assert!(progress.has_held_up(workload));
        assert_eq!(progress.moved_of(workload), ["db-0", "db-1", "db-2"]);
    }

    #[test]
    fn the_end_counts_what_was_moved_and_what_was_not() {
        let mut progress = progress();
        for number in 0..4 {
            progress.set(number, Stage::There);
        }
        assert_eq!((progress.end(), progress.outcome()), ("Moved 4 Pods".into(), Outcome::Well));
        assert!(progress.rest(&ANYWHERE, &Hand::default()).is_empty());
        progress.set(0, Stage::OnTheWay);
        assert_eq!(
            (progress.end(), progress.outcome()),
            ("Moved 3 Pods; 1 Pod is not where it should be yet".into(), Outcome::NotWell)
        );
        progress.set(1, Stage::Elsewhere);
        progress.set(2, Stage::Untouched);
        progress.refused = 1;
        assert_eq!(
            progress.end(),
            "Moved 1 Pod; 2 Pods are not where they should be yet; 2 Pods were left where they are"
        );
        assert_eq!(Progress { refused: 1, ..Progress::default() }.outcome(), Outcome::NotWell);
    }
}
