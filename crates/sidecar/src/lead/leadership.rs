//! Whether this process may write. Checked immediately before each write and at each step of it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

/// The clock that measures the Lease. Unlike the clock of [`std::time::Instant`] it runs while the
/// machine is suspended, so that a process notices after resuming that its Lease has expired. Both
/// run while a process is stopped, and neither can be set.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// The time since some fixed moment, by [`CLOCK`].
pub(super) fn now() -> Duration {
    let now = clock_gettime(CLOCK);
    let nanoseconds = u32::try_from(now.tv_nsec).unwrap_or_default();
    Duration::new(u64::try_from(now.tv_sec).unwrap_or_default(), nanoseconds)
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Term {
    /// Increases each time that this process begins to lead.
    number: u64,
    until: Option<Duration>,
}

impl Term {
    /// Extends the term to `until`, or begins a new one if it has ended. Returns whether it is a
    /// new one.
    pub(super) fn extend(&mut self, until: Duration, now: Duration) -> bool {
        let is_new = !self.is_running(now);
        self.number += u64::from(is_new);
        self.until = Some(until);
        is_new
    }

    /// Ends the term. Returns false if there was none.
    pub(super) fn end(&mut self) -> bool {
        self.until.take().is_some()
    }

    /// Whether the term has run out without [`Self::end`].
    pub(super) fn has_lapsed(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    pub(super) fn left(&self, now: Duration) -> Option<Duration> {
        self.until?.checked_sub(now).filter(|left| !left.is_zero())
    }

    fn is_running(&self, now: Duration) -> bool {
        self.left(now).is_some()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Leadership {
    term: watch::Receiver<Term>,
    /// Set once this process must not write again, whatever the Lease says.
    is_revoked: Arc<AtomicBool>,
    /// Without an election. Dropping it would signal the end of one.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "kept only so that it is not dropped")
    )]
    fixed: Option<Arc<watch::Sender<Term>>>,
}

impl Leadership {
    pub(super) fn new(term: watch::Receiver<Term>) -> Self {
        Self {
            term,
            is_revoked: Arc::default(),
            fixed: None,
        }
    }

    /// Of a process that always leads, because it is the only one, or never, because it writes
    /// nothing.
    pub(crate) fn fixed(leads: bool) -> Self {
        let until = leads.then_some(Duration::MAX);
        let (sender, term) = watch::channel(Term {
            number: leads.into(),
            until,
        });
        Self {
            term,
            is_revoked: Arc::default(),
            fixed: Some(Arc::new(sender)),
        }
    }

    #[cfg(test)]
    pub(crate) fn begin_another_term(&self) {
        self.fixed
            .as_ref()
            .unwrap()
            .send_modify(|term| term.number += 1);
    }

    /// The number of the current term; `None` if this process does not lead.
    pub(crate) fn term(&self) -> Option<u64> {
        if self.is_revoked.load(Ordering::Relaxed) {
            return None;
        }
        let term = *self.term.borrow();
        term.is_running(now()).then_some(term.number)
    }

    /// Ends all writing of this process at once: what it knows is no longer true, and it ends.
    pub(crate) fn revoke(&self) {
        self.is_revoked.store(true, Ordering::Relaxed);
    }

    /// Waits for a change. Returns false if the election has ended.
    pub(crate) async fn changed(&mut self) -> bool {
        self.term.changed().await.is_ok()
    }
}

/// The permission to write what was decided in one term. It ends with that term: a process that
/// leads again later has to decide again.
#[derive(Clone, Debug)]
pub(crate) struct Permit {
    leadership: Leadership,
    term: Option<u64>,
}

impl Permit {
    /// One that is not valid until it is renewed.
    pub(crate) fn new(leadership: Leadership) -> Self {
        Self {
            leadership,
            term: None,
        }
    }

    /// Takes over the current term. Returns whether it is another one.
    pub(crate) fn renew(&mut self) -> bool {
        let term = self.leadership.term();
        std::mem::replace(&mut self.term, term) != term
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.term.is_some() && self.leadership.term() == self.term
    }

    /// Runs the future while the permission is valid; `None` if it ends before. Checked at each
    /// poll, so that a request that waits for a connection, or whose process was stopped, is not
    /// sent later; and each second, so that a request that hears nothing is given up.
    pub(crate) async fn run_while_valid<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        poll_fn(|context| {
            while seconds.poll_tick(context).is_ready() {}
            if !self.is_valid() {
                return Poll::Ready(None);
            }
            work.as_mut().poll(context).map(Some)
        })
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

    fn current(leadership: &Leadership) -> Permit {
        let mut permit = Permit::new(leadership.clone());
        permit.renew();
        permit
    }

    #[test]
    fn extending_an_ended_term_begins_a_new_one() {
        let mut term = Term::default();
        assert_eq!((term.left(S), term.has_lapsed(S)), (None, false));
        assert!(term.extend(10 * S, 2 * S));
        assert!(!term.extend(12 * S, 4 * S), "renewed");
        assert_eq!(term.left(5 * S), Some(7 * S));
        assert!(term.has_lapsed(12 * S) && term.left(12 * S).is_none());
        let before = term.number;
        assert!(term.extend(30 * S, 22 * S));
        assert_ne!(term.number, before);
        assert!(term.end() && !term.end());
    }

    #[test]
    fn a_permit_is_invalid_after_its_term() {
        let (sender, receiver) = watch::channel(Term::default());
        let leadership = Leadership::new(receiver);
        assert!(!current(&leadership).is_valid());
        change(&sender, |term| term.extend(now() + 60 * S, now()));
        let permit = current(&leadership);
        assert!(permit.is_valid());
        change(&sender, Term::end);
        assert!(!permit.is_valid());
        change(&sender, |term| term.extend(now() + 60 * S, now()));
        assert!(!permit.is_valid(), "a new term needs a new permit");
        assert!(current(&leadership).is_valid());
        // The term runs out.
        sender.send_modify(|term| term.until = Some(now()));
        assert_eq!(leadership.term(), None);
    }

    #[tokio::test]
    async fn a_request_that_hears_nothing_ends_with_the_term() {
        let until = Some(now() + Duration::from_millis(100));
        let (_sender, receiver) = watch::channel(Term { number: 1, until });
        let permit = current(&Leadership::new(receiver));
        let request = permit.run_while_valid(std::future::pending::<()>());
        assert_eq!(tokio::time::timeout(5 * S, request).await, Ok(None));
    }

    #[tokio::test]
    async fn stops_a_future_once_the_permit_is_invalid() {
        let (sender, receiver) = watch::channel(Term {
            number: 1,
            until: Some(Duration::MAX),
        });
        let leadership = Leadership::new(receiver);
        let permit = current(&leadership);
        assert_eq!(permit.run_while_valid(async { 5 }).await, Some(5));
        let steps = AtomicU32::new(0);
        let work = async {
            steps.fetch_add(1, Ordering::Relaxed);
            change(&sender, Term::end);
            tokio::task::yield_now().await;
            steps.fetch_add(1, Ordering::Relaxed);
        };
        assert_eq!(permit.run_while_valid(work).await, None);
        assert_eq!(
            permit
                .run_while_valid(async { steps.fetch_add(1, Ordering::Relaxed) })
                .await,
            None
        );
        assert_eq!(steps.into_inner(), 1);
    }
}
