//! How many Events may be published. Whoever causes many, by mistake or on purpose, must not fill the API server with
//! them. The log has every notice.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::facts::Subject;

/// Events about one object: at most this many at once, and then one for each pause.
const PER_OBJECT: Rate = Rate { burst: 25, pause: Duration::from_mins(5) };
/// Events in total.
const TOTAL: Rate = Rate { burst: 200, pause: Duration::from_millis(200) };
/// How many objects are tracked. Those without a recent Event are forgotten first.
const MAX_OBJECTS: usize = 4096;

#[derive(Debug)]
struct Rate {
    burst: u32,
    pause: Duration,
}

/// What was published lately.
#[derive(Debug, Default)]
pub struct EventBudget {
    total: Spent,
    by_object: HashMap<(String, String), Spent>,
}

/// What is spent of a budget, and since when it grows again.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    events: u32,
    since: Option<Instant>,
}

impl EventBudget {
    /// Spends one Event about this object. Returns whether it may be published.
    pub fn spend(&mut self, subject: &Subject, now: Instant) -> bool {
        if self.by_object.len() >= MAX_OBJECTS {
            self.by_object.retain(|_, spent| spent.left(&PER_OBJECT, now) < PER_OBJECT.burst);
        }
        let key = (subject.kind.clone(), subject.object.to_string());
        let is_tracked = self.by_object.contains_key(&key) || self.by_object.len() < MAX_OBJECTS;
        is_tracked
            && self.total.left(&TOTAL, now) > 0
            && self.by_object.entry(key).or_default().spend(&PER_OBJECT, now)
            && self.total.spend(&TOTAL, now)
    }
}

impl Spent {
    /// How much is left, after what has grown again since the last call.
    fn left(&mut self, rate: &Rate, now: Instant) -> u32 {
        let since = *self.since.get_or_insert(now);
        let pauses = now.saturating_duration_since(since).as_millis() / rate.pause.as_millis();
        let pauses = u32::try_from(pauses).unwrap_or(u32::MAX).min(self.events);
        self.events -= pauses;
        self.since = Some(if self.events == 0 { now } else { since + rate.pause * pauses });
        rate.burst - self.events
    }

    fn spend(&mut self, rate: &Rate, now: Instant) -> bool {
        let is_left = self.left(rate, now) > 0;
        self.events += u32::from(is_left);
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::NamespacedName;

    fn subject(name: &str) -> Subject {
        Subject {
            api_version: "apps/v1".into(),
            kind: "StatefulSet".into(),
            object: NamespacedName::new("n", name),
            uid: "u".into(),
        }
    }

    #[test]
    fn one_object_gets_a_burst_and_then_one_event_for_each_pause() {
        let (mut budget, now) = (EventBudget::default(), Instant::now());
        let mut spend = |name: &str, now| budget.spend(&subject(name), now);
        let published = (0..1000).filter(|_| spend("w", now)).count();
        assert_eq!(published, 25);
        assert!(spend("v", now), "another object has its own budget");
        assert!(!spend("w", now + Duration::from_secs(299)));
        assert!(spend("w", now + Duration::from_mins(5)));
        assert!(!spend("w", now + Duration::from_mins(5)));
        let later = now + Duration::from_hours(24);
        assert_eq!((0..1000).filter(|_| spend("w", later)).count(), 25);
    }

    #[test]
    fn many_objects_share_a_budget_and_take_little_memory() {
        let (mut budget, mut now) = (EventBudget::default(), Instant::now());
        let published = (0..1000).filter(|n| budget.spend(&subject(&n.to_string()), now)).count();
        assert_eq!(published, 200);
        for n in 0..10_000 {
            now += Duration::from_millis(200);
            budget.spend(&subject(&format!("w-{n}")), now);
        }
        assert!(budget.by_object.len() <= MAX_OBJECTS);
    }
}
