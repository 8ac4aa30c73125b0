//! How many notices become Events. Whoever causes many, by mistake or on purpose, must not fill the
//! API server with them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::facts::Subject;

/// Events about one object: at most this many at once, and then one for each pause.
const PER_OBJECT: Rate = Rate {
    burst: 25,
    pause: Duration::from_mins(5),
};
/// Events about the objects of one namespace, so that its users leave enough for the others.
const PER_NAMESPACE: Rate = Rate {
    burst: 50,
    pause: Duration::from_secs(2),
};
const TOTAL: Rate = Rate {
    burst: 200,
    pause: Duration::from_millis(200),
};
/// How many objects and namespaces are tracked. Each new one has spent of the total budget, so that
/// it takes long until all are forgotten.
const MAX_TRACKED: usize = 4096;

#[derive(Debug)]
struct Rate {
    burst: u32,
    pause: Duration,
}

/// By object, by namespace, and the total under an empty name. The log has the notices beyond it,
/// too.
#[derive(Debug, Default)]
pub struct EventBudget(HashMap<String, Spent>);

/// What is spent of a budget, and since when it grows again.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    events: u32,
    since: Option<Instant>,
}

impl EventBudget {
    /// Spends one Event about this object. Returns whether it may be published. Those that tell of
    /// no problem leave half of each budget to others: a workload may be scaled every minute.
    pub fn spend(&mut self, subject: &Subject, is_warning: bool, now: Instant) -> bool {
        if self.0.len() >= MAX_TRACKED {
            self.0.clear();
        }
        let budgets = [
            (String::new(), TOTAL),
            (subject.object.namespace.to_string(), PER_NAMESPACE),
            (subject.to_string(), PER_OBJECT),
        ];
        let is_left = budgets.iter().all(|(name, rate)| {
            let reserved = if is_warning {
                0
            } else {
                rate.burst.div_ceil(2)
            };
            self.0.entry(name.clone()).or_default().left(rate, now) > reserved
        });
        if is_left {
            for (name, _) in budgets {
                self.0.entry(name).or_default().events += 1;
            }
        }
        is_left
    }
}

impl Spent {
    /// How much is left, after what has grown again since the last call.
    fn left(&mut self, rate: &Rate, now: Instant) -> u32 {
        let since = *self.since.get_or_insert(now);
        let pauses = now.saturating_duration_since(since).as_millis() / rate.pause.as_millis();
        let pauses = u32::try_from(pauses).unwrap_or(u32::MAX).min(self.events);
        self.events -= pauses;
        self.since = Some(if self.events == 0 {
            now
        } else {
            since + rate.pause * pauses
        });
        rate.burst - self.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::NamespacedName;

    fn subject(name: &str) -> Subject {
        subject_in("n", name)
    }

    fn subject_in(namespace: &str, name: &str) -> Subject {
        Subject::new(
            "apps/v1",
            "StatefulSet",
            NamespacedName::new(namespace, name),
            "u",
        )
    }

    #[test]
    fn one_object_gets_a_burst_and_then_one_event_for_each_pause() {
        let (mut budget, now) = (EventBudget::default(), Instant::now());
        let mut spend = |name: &str, now| budget.spend(&subject(name), true, now);
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
    fn what_goes_as_wanted_leaves_events_for_problems() {
        let (mut budget, mut now) = (EventBudget::default(), Instant::now());
        // A workload that is scaled down every minute.
        let mut published = 0;
        for _ in 0..600 {
            now += Duration::from_mins(1);
            published += usize::from(budget.spend(&subject("w"), false, now));
        }
        assert!((120..140).contains(&published), "{published}");
        assert_eq!(
            (0..100)
                .filter(|_| budget.spend(&subject("w"), true, now))
                .count(),
            13
        );
    }

    #[test]
    fn the_objects_of_one_namespace_leave_events_for_others() {
        let (mut budget, now) = (EventBudget::default(), Instant::now());
        let published = (0..1000)
            .filter(|n| budget.spend(&subject(&n.to_string()), true, now))
            .count();
        assert_eq!(published, 50);
        assert!(budget.spend(&subject_in("other", "w"), true, now));
    }

    #[test]
    fn all_share_a_budget_and_take_little_memory() {
        let (mut budget, mut now) = (EventBudget::default(), Instant::now());
        let published = (0..1000)
            .filter(|n| budget.spend(&subject_in(&n.to_string(), "w"), true, now))
            .count();
        assert_eq!(published, 200);
        for n in 0..10_000 {
            now += Duration::from_millis(200);
            budget.spend(&subject_in(&n.to_string(), "w"), true, now);
        }
        assert!(budget.0.len() < MAX_TRACKED + 3);
    }
}
