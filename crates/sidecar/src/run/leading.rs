//! What changes when this process begins to lead, and when it no longer does.

use std::collections::VecDeque;
use std::time::Instant;

use tracing::info;

use super::Worker;
use crate::facts::Notice;
use crate::lead::{Leadership, PERHAPS_UNTOLD, Permit};

/// More than this many notices at once help nobody.
const NOTICES: usize = 100;

/// Whether this process leads, as far as the worker has taken it up.
pub(super) struct LeadershipState {
    leadership: Leadership,
    term: Option<u64>,
    /// What a standby would have told. Its leader does that, unless it is just then that it fails.
    untold: VecDeque<(Instant, Notice)>,
}

impl LeadershipState {
    pub(super) fn new(leadership: Leadership) -> Self {
        Self { leadership, term: None, untold: VecDeque::new() }
    }

    /// The permission to write what is decided now.
    pub(super) fn permit(&self) -> Permit {
        self.leadership.permit(self.term)
    }

    pub(super) fn leads(&self) -> bool {
        self.permit().holds()
    }

    fn hold_back(&mut self, notice: Notice) {
        if self.untold.len() == NOTICES {
            self.untold.pop_front();
        }
        self.untold.push_back((Instant::now(), notice));
    }
}

impl Worker {
    /// A leader decides about everything, from what the watches have told by now; a standby keeps no
    /// decisions.
    pub(super) fn follow_leadership(&mut self) {
        let term = self.role.leadership.term();
        if term == self.role.term {
            return;
        }
        self.role.term = term;
        let permit = self.role.permit();
        self.writer.permit = permit.clone();
        self.publisher.permit = permit;
        self.statuses.take_all();
        self.generated.take_all();
        self.evictions.take_all();
        if term.is_some() {
            self.index.retry_all();
            let untold = std::mem::take(&mut self.role.untold);
            for (_, notice) in untold.into_iter().filter(|(time, _)| time.elapsed() < PERHAPS_UNTOLD) {
                self.publish(notice);
            }
        }
    }

    pub(super) fn publish(&mut self, notice: Notice) {
        if !self.role.leads() {
            self.role.hold_back(notice);
            return;
        }
        info!(about = %notice.subject, reason = %notice.reason, "{}", notice.message);
        tokio::spawn(self.publisher.clone().publish(notice));
    }
}
