//! The term that the worker has taken over from the election, and the notices that a standby holds back.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::facts::Notice;
use crate::lead::{Leadership, Permit};

/// How many notices a standby keeps. More of them at once would not help anybody.
const MAX_HELD_BACK: usize = 100;

pub(super) struct CurrentTerm {
    leadership: Leadership,
    number: Option<u64>,
    /// Notices that came up while another process led. That process publishes them, unless it fails at that moment.
    held_back: VecDeque<(Instant, Notice)>,
}

impl CurrentTerm {
    pub(super) fn new(leadership: Leadership) -> Self {
        Self { leadership, number: None, held_back: VecDeque::new() }
    }

    /// The permission to write what is decided now.
    pub(super) fn permit(&self) -> Permit {
        self.leadership.permit(self.number)
    }

    pub(super) fn is_leader(&self) -> bool {
        self.permit().is_valid()
    }

    /// Takes over the election's current term. Returns whether it is another one.
    pub(super) fn update(&mut self) -> bool {
        let number = self.leadership.term();
        std::mem::replace(&mut self.number, number) != number
    }

    /// Whether there is a term, that is, whether this process led at the last update.
    pub(super) fn has_begun(&self) -> bool {
        self.number.is_some()
    }

    pub(super) fn hold_back(&mut self, notice: Notice) {
        if self.held_back.len() == MAX_HELD_BACK {
            self.held_back.pop_front();
        }
        self.held_back.push_back((Instant::now(), notice));
    }

    /// Takes the notices of this last period, and drops older ones.
    pub(super) fn take_held_back(&mut self, period: Duration) -> Vec<Notice> {
        let held_back = std::mem::take(&mut self.held_back).into_iter();
        held_back.filter(|(time, _)| time.elapsed() < period).map(|(_, notice)| notice).collect()
    }
}
