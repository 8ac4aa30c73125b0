//! The wall clock, for what people read.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// The wall clock, which an administrator may set. Only for what people read: conditions and
/// metrics.
pub(super) fn wall_clock() -> Timestamp {
    Timestamp::now()
}

/// The time between these Unix seconds and now; zero if another machine's clock is ahead of this
/// one's.
pub(super) fn time_since(seconds: i64, now: Timestamp) -> Duration {
    let milliseconds = now
        .as_millisecond()
        .saturating_sub(seconds.saturating_mul(1000));
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_since_is_zero_if_the_clock_of_another_machine_is_ahead() {
        let now = Timestamp::from_millisecond(7_500).unwrap();
        assert_eq!(time_since(5, now), Duration::from_millis(2_500));
        assert_eq!(time_since(9, now), Duration::ZERO);
        assert_eq!(time_since(i64::MAX, now), Duration::ZERO);
    }
}
