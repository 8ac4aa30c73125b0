//! Whether the sidecar is ready, and if not, why. Shared by the parts that report and by `/readyz`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A watch that was silent for longer is stuck: the watch itself notices a silent connection earlier.
const LONGEST_SILENCE: Duration = Duration::from_secs(70);

#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    state: Arc<Mutex<HealthState>>,
}

#[derive(Debug, Default)]
struct HealthState {
    is_synced: bool,
    election_problem: Option<String>,
    watches: BTreeMap<Arc<str>, Watch>,
}

#[derive(Debug)]
struct Watch {
    is_up: bool,
    heard: Instant,
}

impl Health {
    pub(crate) fn mark_watch(&self, resource: &Arc<str>, is_up: bool) {
        self.with(|state| state.watches.insert(resource.clone(), Watch { is_up, heard: Instant::now() }));
    }

    pub(crate) fn mark_watch_heard(&self, resource: &str) {
        self.with(|state| {
            if let Some(watch) = state.watches.get_mut(resource) {
                watch.heard = Instant::now();
            }
        });
    }

    pub(crate) fn mark_synced(&self) {
        self.with(|state| state.is_synced = true);
    }

    /// What keeps this process from taking part in the election, if anything. A standby is healthy.
    pub(crate) fn set_election_problem(&self, problem: Option<String>) {
        self.with(|state| state.election_problem = problem);
    }

    /// Why the sidecar is not ready; `None` if it is.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem_at(Instant::now())
    }

    fn problem_at(&self, now: Instant) -> Option<String> {
        self.with(|state| {
            let names = |predicate: &dyn Fn(&Watch) -> bool| {
                let watches = state.watches.iter().filter(|(_, watch)| predicate(watch));
                watches.map(|(resource, _)| &**resource).collect::<Vec<_>>().join(", ")
            };
            let down = names(&|watch| !watch.is_up);
            let silent = names(&|watch| now.saturating_duration_since(watch.heard) > LONGEST_SILENCE);
            if !down.is_empty() {
                Some(format!("cannot watch: {down}"))
            } else if !silent.is_empty() {
                Some(format!("nothing was heard for {} s of: {silent}", LONGEST_SILENCE.as_secs()))
            } else if !state.is_synced {
                Some("the initial lists are not complete".to_owned())
            } else {
                state.election_problem.clone()
            }
        })
    }

    fn with<T>(&self, f: impl FnOnce(&mut HealthState) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_ready_once_synced_while_all_watches_and_the_election_work() {
        let health = Health::default();
        assert!(health.problem().is_some());
        health.mark_watch(&"pods".into(), true);
        health.mark_synced();
        assert_eq!(health.problem(), None);
        health.mark_watch(&"pods".into(), false);
        assert_eq!(health.problem().as_deref(), Some("cannot watch: pods"));
        health.mark_watch(&"pods".into(), true);
        assert_eq!(health.problem(), None);
        health.set_election_problem(Some("no Lease".into()));
        assert_eq!(health.problem().as_deref(), Some("no Lease"));
    }

    #[test]
    fn is_not_ready_while_a_watch_is_silent_for_longer_than_it_can_be() {
        let health = Health::default();
        health.mark_watch(&"pods".into(), true);
        health.mark_watch(&"nodes".into(), true);
        health.mark_synced();
        let later = Instant::now() + LONGEST_SILENCE + Duration::from_secs(1);
        assert_eq!(health.problem_at(Instant::now()), None);
        assert_eq!(health.problem_at(later).as_deref(), Some("nothing was heard for 70 s of: nodes, pods"));
        health.mark_watch_heard("pods");
        assert_eq!(health.problem_at(Instant::now()), None);
    }
}
