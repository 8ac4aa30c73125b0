//! How long Pods have waited for the place that they require until an end, and whose turn it is to
//! give its place up.
//!
//! Only the time counts in which this process led and saw what happened: no clock that somebody can
//! set, no time in which a watch was down, and no step that is longer than any turn of the loop.
//! Another Pod, another recorded state or another term begins again.
//!
//! Of one workload a Pod falls back at a time: the next one only when all that fell back are Ready,
//! or when one more period is over, since there are workloads whose Pods become Ready only together.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pps_core::PodState;
use pps_core::limits::MAX_FALLBACK_SECONDS;
use pps_core::succession::name_order;

use super::schedule::Backoff;
use crate::decide::fallback::FallbackCandidate;
use crate::facts::NamespacedName;
use crate::fallback::Question;

/// A longer step than this does not count: the process was stopped, or the machine suspended.
const LONGEST_STEP: Duration = Duration::from_secs(30);
/// The longest period after which a Pod falls back.
const LONGEST_WAIT: Duration = Duration::from_secs(MAX_FALLBACK_SECONDS as u64);
/// How long to wait after a judgement that gave nothing up: each costs reads of nodes and Pods.
const BACKOFF: Backoff = Backoff {
    first: Duration::from_secs(30),
    longest: Duration::from_mins(5),
};
/// For how many turns it is remembered when a namespace had one.
const REMEMBERED_TURNS: u64 = 10_000;
/// How many Pods are judged at once, of all workloads together: each judgement has many nodes and
/// Pods in memory.
const JUDGED_AT_ONCE: usize = 2;

#[derive(Debug, Default)]
pub struct Fallbacks {
    pods: HashMap<NamespacedName, Waiting>,
    /// By PPS.
    workloads: BTreeMap<NamespacedName, FellBack>,
    /// When time was last counted; none if nothing was seen then.
    counted_at: Option<Instant>,
    turns: Turns,
}

/// When Pods of each namespace were judged last.
#[derive(Debug, Default)]
struct Turns {
    count: u64,
    last: HashMap<Arc<str>, u64>,
}

impl Turns {
    fn take(&mut self, namespace: &Arc<str>) {
        self.count += 1;
        self.last.insert(namespace.clone(), self.count);
        let oldest = self.count.saturating_sub(REMEMBERED_TURNS);
        self.last.retain(|_, turn| *turn > oldest);
    }

    /// The number of the last turn of a namespace.
    fn last(&self, namespace: &str) -> u64 {
        self.last.get(namespace).copied().unwrap_or_default()
    }
}

#[derive(Debug)]
struct Waiting {
    candidate: FallbackCandidate,
    waited: Duration,
    refusals: u32,
    not_before: Option<Instant>,
}

/// The Pods of a workload whose places were given up.
#[derive(Debug, Default)]
struct FellBack {
    /// The UID of each by name.
    pods: BTreeMap<Arc<str>, String>,
    /// How much time has counted since the last of them.
    since: Duration,
    /// The Pod that is being judged.
    judged: Option<Arc<str>>,
}

impl Fallbacks {
    /// Counts the time until now, and takes over the present candidates. `sees` is whether this
    /// process leads and all watches work: only time that begins and ends so counts.
    pub fn follow(
        &mut self,
        candidates: impl IntoIterator<Item = FallbackCandidate>,
        sees: bool,
        now: Instant,
    ) {
        let counted_at = std::mem::replace(&mut self.counted_at, sees.then_some(now));
        let step = counted_at
            .filter(|_| sees)
            .map(|before| now.saturating_duration_since(before))
            .filter(|step| *step <= LONGEST_STEP)
            .unwrap_or_default();
        for workload in self.workloads.values_mut() {
            workload.since += step;
        }
        let mut before = std::mem::take(&mut self.pods);
        for candidate in candidates {
            let known = before
                .remove(&candidate.pod)
                .filter(|known| known.is_same(&candidate));
            let waiting = match known {
                Some(known) => Waiting {
                    candidate,
                    waited: known.waited + step,
                    ..known
                },
                None => Waiting {
                    candidate,
                    waited: Duration::ZERO,
                    refusals: 0,
                    not_before: None,
                },
            };
            let pod = waiting.candidate.pod.clone();
            self.pods.insert(pod, waiting);
        }
        // What fell back long ago holds nothing up.
        let waiting: BTreeSet<&NamespacedName> =
            self.pods.values().map(|pod| &pod.candidate.pps).collect();
        self.workloads.retain(|pps, workload| {
            let is_over = workload.pods.is_empty() || workload.since >= LONGEST_WAIT;
            workload.judged.is_some() || waiting.contains(pps) || !is_over
        });
    }

    /// Takes a Pod whose place is to be judged now: of the namespace whose turn is longest ago, and
    /// of each workload the one that has waited longest. `is_ready` says whether the Pod of this name is Ready.
    pub fn take_due(
        &mut self,
        is_ready: impl Fn(&NamespacedName) -> bool,
        now: Instant,
    ) -> Option<FallbackCandidate> {
        let judged: Vec<&NamespacedName> = self
            .workloads
            .iter()
            .filter(|(_, one)| one.judged.is_some())
            .map(|(pps, _)| pps)
            .collect();
        if judged.len() >= JUDGED_AT_ONCE {
            return None;
        }
        // What takes long in one namespace must not stop the others.
        let is_busy = |namespace: &str| judged.iter().any(|pps| *pps.namespace == *namespace);
        let due = self
            .pods
            .values()
            .filter(|waiting| waiting.is_due(now) && !is_busy(&waiting.candidate.pod.namespace))
            .filter(|waiting| self.is_turn(&waiting.candidate, &is_ready));
        // However many Pods one namespace has, and however often they are created again.
        let turn = |waiting: &Waiting| self.turns.last(&waiting.candidate.pod.namespace);
        let first = due.max_by_key(|waiting| (Reverse(turn(waiting)), waiting.rank()))?;
        let first = first.candidate.clone();
        self.turns.take(&first.pod.namespace);
        let workload = self.workloads.entry(first.pps.clone()).or_default();
        workload.judged = Some(first.pod.name.clone());
        Some(first)
    }

    /// Whether no other Pod of the workload stands in the way.
    fn is_turn(
        &self,
        candidate: &FallbackCandidate,
        is_ready: &impl Fn(&NamespacedName) -> bool,
    ) -> bool {
        let Some(workload) = self.workloads.get(&candidate.pps) else {
            return true;
        };
        if workload.judged.is_some() {
            return false;
        }
        if workload.since >= candidate.wait {
            return true;
        }
        if candidate.question == Question::CreateAgain {
            // Its place was given up already. If it was created again since and still requires the
            // place, something else requires it, and another eviction would not help.
            let given_up = workload.pods.get(&candidate.pod.name);
            return given_up.is_none_or(|uid| *uid == candidate.uid);
        }
        let mut pods = workload.pods.keys();
        pods.all(|pod| is_ready(&candidate.pod.sibling(pod)))
    }

    /// The place of a Pod was given up, in whole or in part, or may have been: nobody knows what
    /// became of the write.
    pub fn on_given_up(&mut self, candidate: &FallbackCandidate) {
        let workload = self.workloads.entry(candidate.pps.clone()).or_default();
        let name = candidate.pod.name.clone();
        workload.pods.insert(name, candidate.uid.clone());
        workload.since = Duration::ZERO;
        workload.end_judgement(candidate);
        self.pods.remove(&candidate.pod);
    }

    /// The Pod keeps its place for now. It is judged again later.
    pub fn on_kept(
        &mut self,
        candidate: &FallbackCandidate,
        retry_after: Option<Duration>,
        now: Instant,
    ) {
        if let Some(workload) = self.workloads.get_mut(&candidate.pps) {
            workload.end_judgement(candidate);
        }
        let waiting = self.pods.get_mut(&candidate.pod);
        if let Some(waiting) = waiting.filter(|waiting| waiting.is_same(candidate)) {
            let pause = BACKOFF.after(waiting.refusals);
            waiting.refusals += 1;
            waiting.not_before = Some(now + pause.max(retry_after.unwrap_or_default()));
        }
    }

    /// How often this Pod has been judged and has kept its place.
    pub fn refusals(&self, candidate: &FallbackCandidate) -> u32 {
        let waiting = self.pods.get(&candidate.pod);
        let same = waiting.filter(|waiting| waiting.is_same(candidate));
        same.map_or(0, |waiting| waiting.refusals)
    }

    /// Another process led meanwhile, and nobody knows what it saw.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl FellBack {
    /// The answer may be about a Pod that was judged in a former term.
    fn end_judgement(&mut self, candidate: &FallbackCandidate) {
        self.judged.take_if(|judged| *judged == candidate.pod.name);
    }
}

impl Waiting {
    /// Whether a candidate is the same Pod, waiting for the same place.
    fn is_same(&self, candidate: &FallbackCandidate) -> bool {
        let known = &self.candidate;
        let is_same_place = |one: &PodState, other: &PodState| {
            one.node_name == other.node_name
                && one.node_topology_labels == other.node_topology_labels
        };
        known.uid == candidate.uid
            && known.pps_uid == candidate.pps_uid
            && known.question == candidate.question
            && is_same_place(&known.state, &candidate.state)
    }

    fn is_due(&self, now: Instant) -> bool {
        let has_waited =
            self.candidate.question == Question::CreateAgain || self.waited >= self.candidate.wait;
        has_waited && self.not_before.is_none_or(|not_before| not_before <= now)
    }

    /// One that was refused lets others go before. Then a Pod whose place is given up already comes
    /// first, then the one that has waited longest, and of equals the first by name.
    fn rank(&self) -> (Reverse<u32>, bool, Duration, Reverse<Name<'_>>) {
        let pod = &self.candidate.pod;
        let name = Name {
            namespace: &pod.namespace,
            name: name_order(&pod.name),
        };
        (
            Reverse(self.refusals),
            self.candidate.question == Question::CreateAgain,
            self.waited,
            Reverse(name),
        )
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Name<'a> {
    namespace: &'a str,
    name: (&'a str, u64),
}

#[cfg(test)]
mod tests;
