//! Moves several Pods, one after the other.
//!
//! A Pod that does not run is only waited for when all others were looked at: until then it would keep them from going.

use std::time::Duration;

use futures::StreamExt;
use tokio::time::{Instant, sleep, sleep_until};

use super::mover::{Mover, PERIOD, read_pod};
use super::{Carried, Job, until_interrupted};
use crate::decide::relocate::{
    Also, Progress, Relocation, Several, Stage, Wait, also, awaited, decide, held_up, stuck, unrecorded,
};
use crate::print::printable;
use crate::run::states::TRIES;
use crate::snapshot::{Pod, Snapshot};
use crate::{Failure, Outcome};

/// How often all is read again that decides whether a Pod may be evicted.
const PAUSE: Duration = Duration::from_secs(2);
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

/// The Pods that a Pod waits for before it is evicted, and for what.
fn peers(snapshot: &Snapshot, now: &Relocation) -> Option<(Wait, Vec<String>)> {
    if !now.is_serving() {
        return None;
    }
    let all = [(Wait::Ready, awaited(snapshot, now)), (Wait::Recorded, unrecorded(snapshot, now))];
    all.into_iter().find(|(_, pods)| !pods.is_empty())
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
        let has_held_up = progress.has_held_up(&shown.workload);
        let mut deadline = None;
        let (snapshot, now) = loop {
            let snapshot = self.read().await?;
            let decision = decide(&snapshot, &self.goal().of(&shown.name()));
            let now = match also(shown, decision, self.args.force) {
                Ok(Also::Go(now)) => *now,
                Ok(Also::Skip(text)) => {
                    self.print(&text)?;
                    return Ok(Next::There);
                }
                Err(Failure::Refused(why)) => return Ok(Next::Left(why)),
                Err(failure) => return Err(failure),
            };
            // It may have become Ready meanwhile.
            let Some((wait, peers)) = peers(&snapshot, &now) else { break (snapshot, now) };
            progress.awaits(number, &peers);
            if has_held_up {
                return Ok(Next::Left(self.left(&now, wait, &peers, None)));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(Next::Left(self.left(&now, wait, &peers, Some(self.args.timeout.as_secs()))));
            }
            if deadline.is_none() {
                let (pods, are) = if peers.len() == 1 { ("Pod", "is") } else { ("Pods", "are") };
                let text = format!("waiting until {pods} {} {are} {} …", peers.join(", "), wait.as_str());
                self.terminal.say(&printable(&text));
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + self.args.timeout);
            self.wait_until_ready(&now.namespace, &peers, deadline).await;
        };
        progress.awaits(number, &[]);
        let mover = Mover::new(self, &snapshot, &now);
        let has_peers = deadline.is_some() || progress.has_moved(&now.workload);
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
                    return Ok(Next::OnTheWay(Box::new(now)));
                }
                Ok(match mover.wait(self.args.timeout).await? {
                    Outcome::Well => Next::There,
                    _ => Next::Elsewhere,
                })
            }
        }
    }

    /// Why a Pod was left alone.
    fn left(&self, now: &Relocation, wait: Wait, peers: &[String], seconds: Option<u64>) -> String {
        let why = held_up(now, wait, peers, seconds);
        match wait {
            Wait::Ready => why,
            Wait::Recorded => format!("{why}; to find out why it is not: {}", self.hand.check()),
        }
    }

    /// Waits until these Pods are Ready, or until then.
    async fn wait_until_ready(&self, namespace: &str, pods: &[String], deadline: Instant) {
        let pause = Instant::now() + PAUSE;
        for pod in pods {
            loop {
                let now = read_pod(self.client, namespace, pod).await.ok().flatten().and_then(Pod::read);
                if now.is_some_and(|pod| pod.is_ready() && !pod.is_terminating()) {
                    break;
                }
                if Instant::now() >= deadline {
                    return;
                }
                sleep(PERIOD).await;
            }
        }
        // Where they are not Ready in spite of that, as on a node that is gone, all is not read again at once.
        sleep_until(pause.min(deadline)).await;
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
