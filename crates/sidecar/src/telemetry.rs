//! Telemetry: the state that probes and scrapes show. Other parts report into it; it depends on
//! none.

pub mod metrics;
#[cfg(target_os = "linux")]
mod process;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Whether the sidecar is ready, and if not, why. Shared by the parts that report and by `/readyz`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    state: Arc<Mutex<HealthState>>,
}

#[derive(Debug, Default)]
struct HealthState {
    is_synced: bool,
    election_problem: Option<String>,
    /// Whether each essential watch works.
    watches: BTreeMap<String, bool>,
}

impl Health {
    pub(crate) fn mark_watch(&self, resource: &str, is_up: bool) {
        self.with(|state| state.watches.insert(resource.to_owned(), is_up));
    }

    pub(crate) fn mark_synced(&self) {
        self.with(|state| state.is_synced = true);
    }

    /// What keeps this process from taking part in the election, if anything. A standby is healthy.
    /// Returns what did so before.
    pub(crate) fn set_election_problem(&self, problem: Option<String>) -> Option<String> {
        self.with(|state| std::mem::replace(&mut state.election_problem, problem))
    }

    /// Why the sidecar is not ready; `None` if it is.
    pub(crate) fn problem(&self) -> Option<String> {
        self.with(|state| {
            let down = state.watches.iter().filter(|(_, is_up)| !**is_up);
            let down: Vec<&str> = down.map(|(resource, _)| resource.as_str()).collect();
            if !down.is_empty() {
                Some(format!("cannot watch: {}", down.join(", ")))
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
        health.mark_watch("pods", true);
        health.mark_synced();
        assert_eq!(health.problem(), None);
        health.mark_watch("pods", false);
        assert_eq!(health.problem().as_deref(), Some("cannot watch: pods"));
        health.mark_watch("pods", true);
        assert_eq!(health.problem(), None);
        health.set_election_problem(Some("no Lease".into()));
        assert_eq!(health.problem().as_deref(), Some("no Lease"));
    }
}
