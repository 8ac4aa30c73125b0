//! How many Pods of a workload live, and whether the workload wants them.

use crate::demand::Demand;

/// What decisions need of a workload's living Pods, as the API server has them now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LivingPods {
    pub count: usize,
    /// Whether one of them is not among the names that the workload lists.
    has_unlisted: bool,
}

impl LivingPods {
    /// So many Pods, whose names do not matter.
    pub fn counted(count: usize) -> Self {
        Self {
            count,
            has_unlisted: false,
        }
    }

    pub fn add(&mut self, demand: &Demand, pod: &str) {
        self.count += 1;
        let names = demand.names();
        self.has_unlisted |= names.is_some_and(|names| !names.may_have(pod));
    }

    /// Whether no other Pod changes what is decided.
    pub fn is_decisive(&self, demand: &Demand) -> bool {
        let is_surplus = demand
            .replicas()
            .is_some_and(|wanted| self.count as u64 > wanted);
        self.has_unlisted || (demand.names().is_none() && is_surplus)
    }

    /// Whether each of them is among the names that the workload lists.
    pub(crate) fn are_listed(&self) -> bool {
        !self.has_unlisted
    }
}
