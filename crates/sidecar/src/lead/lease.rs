//! What to do about the Lease. Pure: the Lease as it was read and the time on this machine go in.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// How long after its last renewal a Lease expires. Another process notices that renewal up to
/// [`RETRY`] late, so it takes over within 14 seconds.
const DURATION: Duration = Duration::from_secs(SECONDS as u64);
const SECONDS: u8 = 12;
/// A holder that has not renewed for this long stops writing. The rest of [`DURATION`] is a margin
/// for requests in flight.
pub(super) const RENEW_WITHIN: Duration = Duration::from_secs(8);
/// How often the holder renews the Lease, and how often a standby reads it.
pub(super) const RETRY: Duration = Duration::from_secs(2);

/// When to try again after an attempt that took so long and failed: at once if it got no answer,
/// and not later than the end of the term, so that the end is logged in time.
pub(super) fn retry_after(took: Duration, left: Option<Duration>) -> Duration {
    left.map_or(RETRY, |left| left.min(RETRY.saturating_sub(took)))
}

/// The Lease as last read, and when it last changed.
///
/// Clocks of different machines are never compared: a Lease expires if it has not changed for its
/// duration, measured on this machine. A holder with a wrong clock does no harm.
#[derive(Debug, Default)]
pub(super) struct ObservedLease {
    spec: Option<LeaseSpec>,
    changed_at: Duration,
}

impl ObservedLease {
    /// How long to wait until a Lease that has just been read is read again; `None` if this process
    /// is to take or renew it. `now` is the time since some fixed moment.
    pub(super) fn wait(
        &mut self,
        me: &str,
        lease: Option<&LeaseSpec>,
        now: Duration,
    ) -> Option<Duration> {
        if self.spec.as_ref() != lease {
            *self = Self {
                spec: lease.cloned(),
                changed_at: now,
            };
        }
        let lease = lease.filter(|lease| holder(lease).is_some_and(|holder| holder != me))?;
        let left = (self.changed_at + duration(lease)).saturating_sub(now);
        Some(left.min(RETRY)).filter(|left| !left.is_zero())
    }
}

pub(crate) fn holder(lease: &LeaseSpec) -> Option<&str> {
    lease
        .holder_identity
        .as_deref()
        .filter(|holder| !holder.is_empty())
}

fn duration(lease: &LeaseSpec) -> Duration {
    let seconds = lease
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok());
    seconds
        .filter(|seconds| *seconds > 0)
        .map_or(DURATION, Duration::from_secs)
}

/// The Lease with this process as its holder. The times are only for people to read.
pub(super) fn hold(before: Option<LeaseSpec>, me: &str, now: MicroTime) -> LeaseSpec {
    let is_new = before.is_none();
    let mut lease = before.unwrap_or_default();
    if holder(&lease) != Some(me) {
        let transitions = lease.lease_transitions.unwrap_or(0);
        lease.lease_transitions = Some(transitions.saturating_add(i32::from(!is_new)));
        lease.holder_identity = Some(me.to_owned());
        lease.acquire_time = Some(now.clone());
    }
    lease.lease_duration_seconds = Some(SECONDS.into());
    lease.renew_time = Some(now);
    lease
}

pub(super) fn release(mut lease: LeaseSpec, now: MicroTime) -> LeaseSpec {
    lease.holder_identity = None;
    lease.renew_time = Some(now);
    lease
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn wall(second: i64) -> MicroTime {
        MicroTime(Timestamp::from_second(second).unwrap())
    }

    fn lease_of(holder: &str, renewed: i64) -> LeaseSpec {
        hold(None, holder, wall(renewed))
    }

    #[test]
    fn takes_a_lease_that_is_missing_or_has_no_holder() {
        let mut seen = ObservedLease::default();
        assert_eq!(seen.wait("a", None, 100 * S), None);
        let free = release(lease_of("b", 1), wall(2));
        assert_eq!(seen.wait("a", Some(&free), 100 * S), None);
        let empty = LeaseSpec {
            holder_identity: Some(String::new()),
            ..LeaseSpec::default()
        };
        assert_eq!(seen.wait("a", Some(&empty), 100 * S), None);
        assert_eq!(seen.wait("a", Some(&LeaseSpec::default()), 100 * S), None);
    }

    #[test]
    fn renews_its_own_lease_even_if_it_has_expired() {
        let mut seen = ObservedLease::default();
        assert_eq!(seen.wait("a", Some(&lease_of("a", 1)), 100 * S), None);
        assert_eq!(seen.wait("a", Some(&lease_of("a", 1)), 900 * S), None);
    }

    #[test]
    fn takes_anothers_lease_that_has_not_changed_for_its_duration() {
        let mut seen = ObservedLease::default();
        // The renew time does not matter: here it is years behind or ahead.
        for renewed in [0, 4_000_000_000] {
            let lease = lease_of("b", renewed);
            assert_eq!(seen.wait("a", Some(&lease), 100 * S), Some(2 * S));
            assert_eq!(
                seen.wait("a", Some(&lease), 111 * S),
                Some(S),
                "until it expires"
            );
            assert_eq!(seen.wait("a", Some(&lease), 112 * S), None);
        }
        // Renewed at the last moment.
        assert_eq!(
            seen.wait("a", Some(&lease_of("b", 5)), 200 * S),
            Some(2 * S)
        );
        assert_eq!(
            seen.wait("a", Some(&lease_of("b", 6)), 212 * S),
            Some(2 * S)
        );
        assert_eq!(seen.wait("a", Some(&lease_of("b", 6)), 223 * S), Some(S));
        assert_eq!(seen.wait("a", Some(&lease_of("b", 6)), 224 * S), None);
    }

    #[test]
    fn waits_a_whole_duration_after_the_first_read() {
        let lease = lease_of("b", 1);
        assert_eq!(
            ObservedLease::default().wait("a", Some(&lease), 9_000 * S),
            Some(2 * S)
        );
    }

    #[test]
    fn uses_the_duration_that_the_holder_has_set() {
        let mut seen = ObservedLease::default();
        let long = LeaseSpec {
            lease_duration_seconds: Some(60),
            ..lease_of("b", 1)
        };
        assert_eq!(seen.wait("a", Some(&long), 100 * S), Some(2 * S));
        assert_eq!(seen.wait("a", Some(&long), 159 * S), Some(S));
        assert_eq!(seen.wait("a", Some(&long), 160 * S), None);
        for invalid in [None, Some(0), Some(-5)] {
            assert_eq!(
                duration(&LeaseSpec {
                    lease_duration_seconds: invalid,
                    ..lease_of("b", 1)
                }),
                DURATION,
                "{invalid:?}"
            );
        }
    }

    #[test]
    fn a_holder_stops_writing_before_others_may_take_the_lease() {
        assert!(RENEW_WITHIN + RETRY < DURATION && DURATION + RETRY < 15 * S);
    }

    #[test]
    fn a_renewal_without_an_answer_is_tried_again_before_the_term_ends() {
        let failed_at = RETRY + crate::lead::REQUEST_TIMEOUT;
        let left = RENEW_WITHIN.saturating_sub(failed_at);
        let retried_at = failed_at + retry_after(crate::lead::REQUEST_TIMEOUT, Some(left));
        assert!(retried_at + crate::lead::REQUEST_TIMEOUT <= RENEW_WITHIN);
        // A refusal comes at once.
        assert_eq!(retry_after(Duration::ZERO, Some(6 * S)), RETRY);
        assert_eq!(
            retry_after(Duration::ZERO, Some(S)),
            S,
            "to log the end of the term in time"
        );
        assert_eq!(retry_after(3 * S, None), RETRY, "of a standby");
    }

    #[test]
    fn records_when_and_how_often_the_holder_changed() {
        let first = hold(None, "a", wall(1));
        assert_eq!(
            (first.lease_transitions, first.acquire_time.clone()),
            (Some(0), Some(wall(1)))
        );
        let renewed = hold(Some(first), "a", wall(3));
        assert_eq!(
            (renewed.lease_transitions, renewed.acquire_time.clone()),
            (Some(0), Some(wall(1)))
        );
        assert_eq!(renewed.renew_time, Some(wall(3)));
        let free = release(renewed, wall(4));
        assert_eq!((holder(&free), free.lease_transitions), (None, Some(0)));
        let second = hold(Some(free), "b", wall(5));
        assert_eq!(
            (holder(&second), second.lease_transitions),
            (Some("b"), Some(1))
        );
        assert_eq!(second.acquire_time, Some(wall(5)));
    }
}
