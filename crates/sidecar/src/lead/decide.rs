//! What to do about the Lease: a decision from the Lease as it was read and from the time on this
//! machine, without a clock and without a cluster.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// How long the Lease of a holder that is no longer heard of keeps others from taking it. With the
/// [`RETRY`] that it may take them to see its last renewal they lead within 14 seconds.
pub(super) const DURATION: Duration = Duration::from_secs(12);
/// [`DURATION`], as the API has it.
const DURATION_SECONDS: i32 = 12;
/// A holder that could not renew for so long stops writing. The rest of [`DURATION`] is for requests
/// that are on their way.
pub(super) const RENEW_WITHIN: Duration = Duration::from_secs(8);
/// How often the holder renews, and how often the others look.
pub(super) const RETRY: Duration = Duration::from_secs(2);

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeaseAction {
    /// There is no Lease: make it.
    Create,
    /// Nobody holds it: take it.
    Take,
    /// It is this process's own: renew it.
    Renew,
    /// Another one holds it: look again after this time.
    Wait(Duration),
}

/// The Lease as it was last seen to change.
///
/// Clocks of different machines are never compared: a Lease expires when nobody has changed it for
/// its duration, measured here. A holder whose clock is wrong is as good as any other.
#[derive(Debug, Default)]
pub(super) struct ObservedLease {
    spec: Option<LeaseSpec>,
    since: Duration,
}

impl ObservedLease {
    /// What to do about a Lease that has just been read, by the process of this identity. `now` is the
    /// time since some fixed moment.
    pub(super) fn look(&mut self, me: &str, lease: Option<&LeaseSpec>, now: Duration) -> LeaseAction {
        let Some(lease) = lease else {
            *self = Self::default();
            return LeaseAction::Create;
        };
        if self.spec.as_ref() != Some(lease) {
            *self = Self { spec: Some(lease.clone()), since: now };
        }
        match holder(lease) {
            None => LeaseAction::Take,
            Some(holder) if holder == me => LeaseAction::Renew,
            Some(_) => {
                let left = (self.since + duration(lease)).saturating_sub(now);
                if left.is_zero() { LeaseAction::Take } else { LeaseAction::Wait(left.min(RETRY)) }
            }
        }
    }
}

/// Who holds the Lease, if anybody does.
pub(super) fn holder(lease: &LeaseSpec) -> Option<&str> {
    lease.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// The duration that its holder has set.
fn duration(lease: &LeaseSpec) -> Duration {
    let seconds = lease.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.filter(|seconds| *seconds > 0).map_or(DURATION, Duration::from_secs)
}

/// The Lease held by this process. The time is for people to read.
pub(super) fn held(before: Option<LeaseSpec>, me: &str, now: MicroTime) -> LeaseSpec {
    let is_new = before.is_none();
    let mut lease = before.unwrap_or_default();
    if holder(&lease) != Some(me) {
        let transitions = lease.lease_transitions.unwrap_or(0);
        lease.lease_transitions = Some(transitions.saturating_add(i32::from(!is_new)));
        lease.holder_identity = Some(me.to_owned());
        lease.acquire_time = Some(now.clone());
    }
    lease.lease_duration_seconds = Some(DURATION_SECONDS);
    lease.renew_time = Some(now);
    lease
}

/// The Lease held by nobody.
pub(super) fn released(mut lease: LeaseSpec, now: MicroTime) -> LeaseSpec {
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

    fn of(holder: &str, renewed: i64) -> LeaseSpec {
        held(None, holder, wall(renewed))
    }

    #[test]
    fn a_lease_that_is_missing_or_free_is_taken() {
        let mut seen = ObservedLease::default();
        assert_eq!(seen.look("a", None, 100 * S), LeaseAction::Create);
        let free = released(of("b", 1), wall(2));
        assert_eq!(seen.look("a", Some(&free), 100 * S), LeaseAction::Take);
        let empty = LeaseSpec { holder_identity: Some(String::new()), ..LeaseSpec::default() };
        assert_eq!(seen.look("a", Some(&empty), 100 * S), LeaseAction::Take);
        assert_eq!(seen.look("a", Some(&LeaseSpec::default()), 100 * S), LeaseAction::Take);
    }

    #[test]
    fn ones_own_is_renewed_however_old_it_is() {
        let mut seen = ObservedLease::default();
        assert_eq!(seen.look("a", Some(&of("a", 1)), 100 * S), LeaseAction::Renew);
        assert_eq!(seen.look("a", Some(&of("a", 1)), 900 * S), LeaseAction::Renew);
    }

    #[test]
    fn anothers_is_taken_when_it_has_not_changed_for_its_duration() {
        let mut seen = ObservedLease::default();
        // What its renew time says counts for nothing: here it is years ahead, or behind.
        for renewed in [0, 4_000_000_000] {
            let lease = of("b", renewed);
            assert_eq!(seen.look("a", Some(&lease), 100 * S), LeaseAction::Wait(2 * S));
            assert_eq!(seen.look("a", Some(&lease), 111 * S), LeaseAction::Wait(S), "just when it expires");
            assert_eq!(seen.look("a", Some(&lease), 112 * S), LeaseAction::Take);
        }
        // Renewed in the last moment.
        assert_eq!(seen.look("a", Some(&of("b", 5)), 200 * S), LeaseAction::Wait(2 * S));
        assert_eq!(seen.look("a", Some(&of("b", 6)), 212 * S), LeaseAction::Wait(2 * S));
        assert_eq!(seen.look("a", Some(&of("b", 6)), 223 * S), LeaseAction::Wait(S));
        assert_eq!(seen.look("a", Some(&of("b", 6)), 224 * S), LeaseAction::Take);
    }

    #[test]
    fn who_looks_for_the_first_time_waits_for_a_whole_duration() {
        let lease = of("b", 1);
        assert_eq!(ObservedLease::default().look("a", Some(&lease), 9_000 * S), LeaseAction::Wait(2 * S));
    }

    #[test]
    fn the_holder_says_how_long_its_lease_is() {
        let mut seen = ObservedLease::default();
        let long = LeaseSpec { lease_duration_seconds: Some(60), ..of("b", 1) };
        assert_eq!(seen.look("a", Some(&long), 100 * S), LeaseAction::Wait(2 * S));
        assert_eq!(seen.look("a", Some(&long), 159 * S), LeaseAction::Wait(S));
        assert_eq!(seen.look("a", Some(&long), 160 * S), LeaseAction::Take);
        for nonsense in [None, Some(0), Some(-5)] {
            assert_eq!(
                duration(&LeaseSpec { lease_duration_seconds: nonsense, ..of("b", 1) }),
                DURATION,
                "{nonsense:?}"
            );
        }
    }

    #[test]
    fn a_holder_stops_before_others_may_take_the_lease() {
        assert_eq!(Duration::from_secs(u64::try_from(DURATION_SECONDS).unwrap()), DURATION);
        assert!(RENEW_WITHIN + RETRY < DURATION && DURATION + RETRY < 15 * S);
    }

    #[test]
    fn the_lease_tells_since_when_and_how_often_it_changed_hands() {
        let first = held(None, "a", wall(1));
        assert_eq!((first.lease_transitions, first.acquire_time.clone()), (Some(0), Some(wall(1))));
        let renewed = held(Some(first), "a", wall(3));
        assert_eq!((renewed.lease_transitions, renewed.acquire_time.clone()), (Some(0), Some(wall(1))));
        assert_eq!(renewed.renew_time, Some(wall(3)));
        let free = released(renewed, wall(4));
        assert_eq!((holder(&free), free.lease_transitions), (None, Some(0)));
        let second = held(Some(free), "b", wall(5));
        assert_eq!((holder(&second), second.lease_transitions), (Some("b"), Some(1)));
        assert_eq!(second.acquire_time, Some(wall(5)));
    }
}
