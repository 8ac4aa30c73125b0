//! Whether this process may write: asked immediately before each write, and at each step of it.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

/// The clock by which a lease is kept. Unlike the one of [`std::time::Instant`] it goes on while the
/// machine sleeps: a process that was asleep with it has to know that its lease is over. Both go on
/// while a process is stopped, and neither is ever set.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// The time since some fixed moment.
pub(super) fn now() -> Duration {
    let now = clock_gettime(CLOCK);
    let nanoseconds = u32::try_from(now.tv_nsec).unwrap_or_default();
    Duration::new(u64::try_from(now.tv_sec).unwrap_or_default(), nanoseconds)
}

/// Until when this process leads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Term {
    /// Each time that it begins to lead has another number.
    number: u64,
    /// Nothing if it does not lead.
    until: Option<Duration>,
}

impl Term {
    /// Of a process that always leads.
    pub(super) fn unlimited() -> Self {
        Self { number: 1, until: Some(Duration::MAX) }
    }

    /// Leads until then. What had come to an end before does not go on: a new term begins, and true is
    /// returned.
    pub(super) fn lead(&mut self, until: Duration, now: Duration) -> bool {
        let is_new = !self.is_running(now);
        self.number += u64::from(is_new);
        self.until = Some(until);
        is_new
    }

    /// Leads no longer. False if it did not lead.
    pub(super) fn end(&mut self) -> bool {
        self.until.take().is_some()
    }

    /// Whether it has ended without anybody having said so.
    pub(super) fn has_lapsed(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// How much of it is left, if it runs.
    pub(super) fn left(&self, now: Duration) -> Option<Duration> {
        self.until?.checked_sub(now).filter(|left| !left.is_zero())
    }

    fn is_running(&self, now: Duration) -> bool {
        self.left(now).is_some()
    }
}

/// Tells whether this process leads.
#[derive(Clone, Debug)]
pub struct Leadership {
    term: watch::Receiver<Term>,
}

impl Leadership {
    pub(super) fn new(term: watch::Receiver<Term>) -> Self {
        Self { term }
    }

    /// The number of the term in which this process leads now; nothing if it does not lead.
    pub fn term(&self) -> Option<u64> {
        let term = *self.term.borrow();
        term.is_running(now()).then_some(term.number)
    }

    /// The permission to write in that term.
    pub fn permit(&self, term: Option<u64>) -> Permit {
        Permit { leadership: self.clone(), term }
    }

    /// Waits until something about it has changed. False if nobody cares for the Lease any longer.
    pub async fn changed(&mut self) -> bool {
        self.term.changed().await.is_ok()
    }
}

/// The permission to write what was decided in one term. It ends with that term; if the process leads
/// again later, it has to decide anew.
#[derive(Clone, Debug)]
pub struct Permit {
    leadership: Leadership,
    term: Option<u64>,
}

impl Permit {
    /// Whether it still holds.
    pub fn holds(&self) -> bool {
        self.term.is_some() && self.leadership.term() == self.term
    }

    /// Does this work as long as the permission holds. It is asked for at each step: a request that
    /// waits for a connection, or whose process was stopped, is not sent later.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(
            |context| {
                if self.holds() { work.as_mut().poll(context).map(Some) } else { Poll::Ready(None) }
            },
        )
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn change(sender: &watch::Sender<Term>, change: impl FnOnce(&mut Term) -> bool) {
        sender.send_modify(|term| assert!(change(term)));
    }

    #[test]
    fn a_term_that_has_ended_does_not_go_on() {
        let mut term = Term::default();
        assert_eq!((term.left(S), term.has_lapsed(S)), (None, false));
        assert!(term.lead(10 * S, 2 * S));
        assert!(!term.lead(12 * S, 4 * S), "renewed");
        assert_eq!(term.left(5 * S), Some(7 * S));
        assert!(term.has_lapsed(12 * S) && term.left(12 * S).is_none());
        let before = term.number;
        assert!(term.lead(30 * S, 22 * S));
        assert_ne!(term.number, before);
        assert!(term.end() && !term.end());
    }

    #[test]
    fn a_permit_ends_with_its_term() {
        let (sender, receiver) = watch::channel(Term::default());
        let leadership = Leadership::new(receiver);
        assert!(!leadership.permit(leadership.term()).holds());
        change(&sender, |term| term.lead(now() + 60 * S, now()));
        let permit = leadership.permit(leadership.term());
        assert!(permit.holds());
        change(&sender, Term::end);
        assert!(!permit.holds());
        change(&sender, |term| term.lead(now() + 60 * S, now()));
        assert!(!permit.holds(), "the next term is another one");
        assert!(leadership.permit(leadership.term()).holds());
        // Time passes, and nobody says anything.
        sender.send_modify(|term| term.until = Some(now()));
        assert_eq!(leadership.term(), None);
    }

    #[tokio::test]
    async fn work_stops_where_the_permit_ends() {
        let (sender, receiver) = watch::channel(Term::unlimited());
        let leadership = Leadership::new(receiver);
        let permit = leadership.permit(leadership.term());
        assert_eq!(permit.during(async { 5 }).await, Some(5));
        let steps = AtomicU32::new(0);
        let work = async {
            steps.fetch_add(1, Ordering::Relaxed);
            change(&sender, Term::end);
            tokio::task::yield_now().await;
            steps.fetch_add(1, Ordering::Relaxed);
        };
        assert_eq!(permit.during(work).await, None);
        assert_eq!(permit.during(async { steps.fetch_add(1, Ordering::Relaxed) }).await, None);
        assert_eq!(steps.into_inner(), 1);
    }
}
