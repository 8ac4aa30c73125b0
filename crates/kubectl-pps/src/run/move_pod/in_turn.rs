//! Moves several Pods, one after the other.
//!
//! A Pod that does not run is only waited for when all others were looked at: until then it would keep them from going.

use std::time::Duration;

use futures::StreamExt;
use tokio::time::Instant;

use super::mover::Mover;
use super::turn::Step;
use super::{INTERRUPTED, Job, until_interrupted};
use crate::decide::relocate::{Progress, Relocation, Several, Stage, stuck};
use crate::print::printable;
use crate::snapshot::Snapshot;
use crate::{Failure, Outcome};

/// How many Pods are waited for at a time.
const WAITS: usize = 32;
/// For how long a Pod is waited for at least.
const SHORTEST: Duration = Duration::from_secs(5);

impl Job<'_> {
    /// Moves them, and stops at the first Ready Pod that was evicted and does not land.
    pub(super) async fn move_all(&self, snapshot: &Snapshot, plan: &Several) -> Result<Outcome, Failure> {
        let mut progress = Progress::of(plan);
        let mut left = None;
        let result = until_interrupted(self.go(snapshot, plan, &mut progress)).await;
        if let Some((number, moved)) =
            progress.begun.and_then(|number| Some((number, plan.moves.get(number)?)))
            && result.is_err()
        {
            if self.has_removed(moved).await {
                progress.set(number, Stage::OnTheWay);
            } else if result == Err(Failure::Refused(INTERRUPTED.into())) {
                let command = self.take_back(moved).await;
                left = command.map(|command| format!("to call the move of Pod {} off: {command}", moved.pod));
            }
        }
        let rest = progress.rest(&self.goal(), &self.hand);
        match result {
            Ok(()) => {
                for line in rest {
                    self.terminal.say(&printable(&line));
                }
                self.print(&progress.end())?;
                Ok(progress.outcome())
            }
            Err(failure) => {
                let lines: Vec<String> = progress.moved().into_iter().chain(rest).chain(left).collect();
                Err(if lines.is_empty() { failure } else { failure.with(&lines.join("\n")) })
            }
        }
    }

    async fn go(&self, snapshot: &Snapshot, plan: &Several, progress: &mut Progress) -> Result<(), Failure> {
        let mut on_the_way = Vec::new();
        for (number, shown) in plan.moves.iter().enumerate() {
            // The first Pod of a workload that has waited in vain has waited for all.
            let may_wait = !progress.has_held_up(&shown.workload);
            let moved = progress.moved_of(&shown.workload);
            progress.begun = Some(number);
            let step = self.step(shown, &moved, may_wait, false).await?;
            progress.begun = None;
            match step {
                Step::Done => progress.set(number, Stage::There),
                Step::Left(why) => why.lines().for_each(|line| self.note(line)),
                Step::HeldUp(why) => {
                    progress.hold_up(number);
                    self.note(&why);
                }
                Step::Written(now) => {
                    // From here on it is not moved once more, whatever happens.
                    progress.set(number, Stage::OnTheWay);
                    if !now.is_serving() {
                        on_the_way.push((number, *now));
                        continue;
                    }
                    let mover = Mover::new(self, snapshot, &now, &moved);
                    if mover.wait(self.args.timeout).await? != Outcome::Well {
                        progress.set(number, Stage::Elsewhere);
                        break;
                    }
                    progress.set(number, Stage::There);
                }
            }
        }
        self.wait_for(snapshot, &on_the_way, progress).await
    }

    /// Waits for the Pods that did not run, all at once, but not for those that wait for something else than time.
    async fn wait_for(
        &self,
        snapshot: &Snapshot,
        moved: &[(usize, Relocation)],
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        if moved.is_empty() {
            return Ok(());
        }
        let named = |one: &(usize, Relocation)| (one.1.name(), one.1.workload.clone());
        let all: Vec<_> = moved.iter().map(named).collect();
        let coming: Vec<_> = all.iter().map(|(pod, _)| pod.clone()).collect();
        let hopeless = stuck(&self.read().await?, &all, &coming, &self.hand);
        hopeless.iter().flat_map(|one| &one.lines).for_each(|line| self.note(line));
        let waits =
            moved.iter().filter(|(_, one)| !hopeless.iter().any(|stuck| stuck.pods.contains(&one.name())));
        let movers: Vec<_> =
            waits.map(|(number, one)| (*number, Mover::new(self, snapshot, one, &[]))).collect();
        let deadline = Instant::now() + self.args.timeout;
        let shortest = SHORTEST.min(self.args.timeout);
        let mut ended = futures::stream::iter(&movers)
            .map(async |(number, mover)| {
                let time = deadline.saturating_duration_since(Instant::now()).max(shortest);
                (*number, mover.wait(time).await)
            })
            .buffer_unordered(WAITS);
        let (mut late, mut failed) = (Vec::new(), None);
        while let Some((number, result)) = ended.next().await {
            match result {
                Ok(Outcome::Well) => progress.set(number, Stage::There),
                Ok(_) => progress.set(number, Stage::Elsewhere),
                Err(Failure::Refused(why)) => {
                    why.lines().for_each(|line| self.note(line));
                    late.extend(moved.iter().filter(|one| one.0 == number).map(named));
                }
                Err(failure) => failed = Some(failure),
            }
        }
        if !late.is_empty() {
            let reasons = stuck(&self.read().await?, &late, &[], &self.hand);
            reasons.iter().flat_map(|one| &one.lines).for_each(|line| self.note(line));
        }
        failed.map_or(Ok(()), Err)
    }
}
