//! Whether the program is ready, and if not, why.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Whether the program knows the world and keeps up with it. Shared by those who find out and those
/// who tell.
#[derive(Clone, Debug, Default)]
pub struct Health {
    state: Arc<Mutex<HealthState>>,
}

#[derive(Debug, Default)]
struct HealthState {
    complete: bool,
    election: Option<String>,
    watches: BTreeMap<&'static str, bool>,
}

impl Health {
    /// A watch has told something.
    pub fn heard(&self, watch: &'static str) {
        self.with(|state| state.watches.insert(watch, true));
    }

    /// A watch has failed.
    pub fn lost(&self, watch: &'static str) {
        self.with(|state| state.watches.insert(watch, false));
    }

    /// Everything has been listed once.
    pub fn complete(&self) {
        self.with(|state| state.complete = true);
    }

    /// What keeps this process from standing for election, if anything does. To stand by is well.
    pub fn election(&self, problem: Option<String>) {
        self.with(|state| state.election = problem);
    }

    /// Nothing if all is well, otherwise what is not.
    pub fn problem(&self) -> Option<String> {
        self.with(|state| {
            let lost: Vec<&str> =
                state.watches.iter().filter(|(_, heard)| !**heard).map(|(watch, _)| *watch).collect();
            if !lost.is_empty() {
                Some(format!("cannot watch: {}", lost.join(", ")))
            } else if !state.complete {
                Some("the cluster has not been listed yet".to_owned())
            } else {
                state.election.clone()
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
    fn it_is_ready_when_all_is_listed_and_no_watch_is_lost() {
        let health = Health::default();
        assert!(health.problem().is_some());
        health.heard("pods");
        health.complete();
        assert_eq!(health.problem(), None);
        health.lost("pods");
        assert_eq!(health.problem().as_deref(), Some("cannot watch: pods"));
        health.heard("pods");
        assert_eq!(health.problem(), None);
        health.election(Some("no Lease".into()));
        assert_eq!(health.problem().as_deref(), Some("no Lease"));
    }
}
