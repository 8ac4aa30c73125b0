//! Moves several Pods, one after the other.
//!
//! A Pod that does not run is only waited for when all others were looked at: until then it would keep them from going.

use std::time::Duration;

use futures::StreamExt;
use tokio::time::Instant;

use super::mover::Mover;
use super::turn::Turn;
use super::{Carried, Job, until_interrupted};
use crate::decide::relocate::{Progress, Relocation, Several, Stage, stuck};
use crate::print::printable;
use crate::run::states::TRIES;
use crate::snapshot::Snapshot;
use crate::{Failure, Outcome};

/// How many Pods are waited for at a time.
const WAITS: usize = 32;
/// For how long a Pod is waited for at least.
const SHORTEST: Duration = Duration::from_secs(5);

/// What became of one of several moves.
enum Next {
    /// The Pod is there.
    There,
    /// The Pod was moved, and did not get where it should be, which was said.
    Elsewhere,
    /// The Pod did not run, and goes on by itself.
    OnTheWay(Box<Relocation>),
    /// The Pod is as it was, and the others may go on.
    Left(String),
    /// Nothing was written: the Pod has changed so that this is another move.
    Overtaken(String),
}

impl Job<'_> {
    /// Moves them, and stops at the first Ready Pod that was evicted and does not land.
    pub(super) async fn move_all(&self, snapshot: &Snapshot, plan: &Several) -> Result<Outcome, Failure> {
        let mut progress = Progress::of(plan);
        let result = until_interrupted(self.go(snapshot, plan, &mut progress)).await;
        if let Some((number, moved)) = progress.begun().filter(|_| result.is_err())
            && self.has_removed(moved).await
        {
            progress.set(number, Stage::OnTheWay);
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
                let lines: Vec<String> = progress.moved().into_iter().chain(rest).collect();
                Err(if lines.is_empty() { failure } else { failure.with(&lines.join("\n")) })
            }
        }
    }

    async fn go(&self, snapshot: &Snapshot, plan: &Several, progress: &mut Progress) -> Result<(), Failure> {
        let mut on_the_way = Vec::new();
        for (number, shown) in plan.moves.iter().enumerate() {
            match self.next(number, shown, progress).await? {
                Next::There => progress.set(number, Stage::There),
                Next::OnTheWay(now) => on_the_way.push((number, *now)),
                Next::Left(why) => why.lines().for_each(|line| self.note(line)),
                Next::Overtaken(what) => self.note(&format!("{what}: it was left alone")),
                Next::Elsewhere => {
                    progress.set(number, Stage::Elsewhere);
                    break;
                }
            }
        }
        self.wait_for(snapshot, &on_the_way, progress).await
    }

    /// Moves the next one. It is decided again: those before it have landed somewhere, and the user was asked before the first.
    async fn next(
        &self,
        number: usize,
        shown: &Relocation,
        progress: &mut Progress,
    ) -> Result<Next, Failure> {
        let mut next = Next::Overtaken(String::new());
        // Kubernetes deletes the Pods of a node that is gone, and their controllers create them again, meanwhile.
        for _ in 0..TRIES {
            next = self.try_next(number, shown, progress).await?;
            if !matches!(next, Next::Overtaken(_)) {
                break;
            }
        }
        Ok(next)
    }

    async fn try_next(
        &self,
        number: usize,
        shown: &Relocation,
        progress: &mut Progress,
    ) -> Result<Next, Failure> {
        // The first Pod of a workload that has waited in vain has waited for all.
        let may_wait = !progress.has_held_up(&shown.workload);
        let moved = progress.moved_of(&shown.workload);
        let (snapshot, now, has_waited) = match self.turn(shown, &moved, may_wait).await? {
            Turn::Come { snapshot, now, has_waited } => (snapshot, now, has_waited),
            Turn::Over(text) => {
                self.print(&text)?;
                return Ok(Next::There);
            }
            Turn::Left(why) => return Ok(Next::Left(why)),
            Turn::HeldUp(why) => {
                progress.hold_up(number);
                return Ok(Next::Left(why));
            }
        };
        let mover = Mover::new(self, &snapshot, &now);
        let has_peers = has_waited || !moved.is_empty();
        let patience = if has_peers && now.is_serving() { self.args.timeout } else { Duration::ZERO };
        match mover.check(&[], patience).await {
            Err(Failure::Refused(why)) => return Ok(Next::Left(why)),
            checked => checked?,
        }
        progress.begin(number, &now);
        let written = self.write(&mover).await?;
        progress.finish();
        match written {
            Some(Carried::Overtaken(what)) => Ok(Next::Overtaken(what)),
            Some(Carried::Out(_)) => Ok(Next::There),
            None => {
                // From here on it is not moved once more, whatever happens.
                progress.set(number, Stage::OnTheWay);
                if !now.is_serving() {
                    return Ok(Next::OnTheWay(now));
                }
                Ok(match mover.wait(self.args.timeout).await? {
                    Outcome::Well => Next::There,
                    _ => Next::Elsewhere,
                })
            }
        }
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
        let movers: Vec<_> = waits.map(|(number, one)| (*number, Mover::new(self, snapshot, one))).collect();
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
