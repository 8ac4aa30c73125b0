//! How many Events may be published. Whoever causes many, by mistake or on purpose, must not fill the API
//! server with them. The log has every notice.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::facts::Subject;

/// Events about one object: at most this many at once, and then one for each pause.
const PER_OBJECT: Rate = Rate { burst: 25, pause: Duration::from_mins(5) };
/// Events about the objects of one namespace, so that its users leave enough for the others.
const PER_NAMESPACE: Rate = Rate { burst: 50, pause: Duration::from_secs(2) };
const TOTAL: Rate = Rate { burst: 200, pause: Duration::from_millis(200) };
/// How many objects and how many namespaces are tracked. Those without a recent Event are forgotten first.
const MAX_TRACKED: usize = 4096;

#[derive(Debug)]
struct Rate {
    burst: u32,
    pause: Duration,
}

#[derive(Debug, Default)]
pub struct EventBudget {
    total: Spent,
    by_namespace: HashMap<Arc<str>, Spent>,
    by_object: HashMap<(String, String), Spent>,
}

/// What is spent of a budget, and since when it grows again.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    events: u32,
    since: Option<Instant>,
}

impl EventBudget {
    /// Spends one Event about this object. Returns whether it may be published. Those that tell of no problem
    /// leave half of each budget to others: a workload may be scaled every minute.
    pub fn spend(&mut self, subject: &Subject, is_warning: bool, now: Instant) -> bool {
        let reserved = |rate: &Rate| if is_warning { 0 } else { rate.burst.div_ceil(2) };
        let (namespace, object) =
            (&subject.object.namespace, (subject.kind.clone(), subject.object.to_string()));
        let Some(of_object) = tracked(&mut self.by_object, object, &PER_OBJECT, now) else { return false };
        let Some(of_namespace) = tracked(&mut self.by_namespace, namespace.clone(), &PER_NAMESPACE, now)
        else {
            return false;
        };
        let mut spent = [(&mut self.total, &TOTAL), (of_namespace, &PER_NAMESPACE), (of_object, &PER_OBJECT)];
        let is_left = spent.iter_mut().all(|(spent, rate)| spent.left(rate, now) > reserved(rate));
        for (spent, _) in spent {
            spent.events += u32::from(is_left);
        }
        is_left
    }
}

/// What is spent by this one; `None` if too many others are tracked.
fn tracked<'a, K: Eq + Hash>(
    all: &'a mut HashMap<K, Spent>,
    key: K,
    rate: &Rate,
    now: Instant,
) -> Option<&'a mut Spent> {
    if all.len() >= MAX_TRACKED {
        all.retain(|_, spent| spent.left(rate, now) < rate.burst);
    }
    let is_tracked = all.contains_key(&key) || all.len() < MAX_TRACKED;
    is_tracked.then(|| all.entry(key).or_default())
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::NamespacedName;

    fn subject(name: &str) -> Subject {
        subject_in("n", name)
    }

    fn subject_in(namespace: &str, name: &str) -> Subject {
        Subject {
            api_version: "apps/v1".into(),
            kind: "StatefulSet".into(),
            object: NamespacedName::new(namespace, name),
            uid: "u".into(),
        }
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
        assert_eq!((0..100).filter(|_| budget.spend(&subject("w"), true, now)).count(), 13);
    }

    #[test]
    fn the_objects_of_one_namespace_leave_events_for_others() {
        let (mut budget, now) = (EventBudget::default(), Instant::now());
        let published = (0..1000).filter(|n| budget.spend(&subject(&n.to_string()), true, now)).count();
        assert_eq!(published, 50);
        assert!(budget.spend(&subject_in("other", "w"), true, now));
    }

    #[test]
    fn all_share_a_budget_and_take_little_memory() {
        let (mut budget, mut now) = (EventBudget::default(), Instant::now());
        let published =
            (0..1000).filter(|n| budget.spend(&subject_in(&n.to_string(), "w"), true, now)).count();
        assert_eq!(published, 200);
        for n in 0..10_000 {
            now += Duration::from_millis(200);
            budget.spend(&subject_in(&n.to_string(), "w"), true, now);
        }
        assert!(budget.by_object.len() <= MAX_TRACKED && budget.by_namespace.len() <= MAX_TRACKED);
    }
}
