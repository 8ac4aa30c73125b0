//! Merges the pages of a list with the events of a watch that goes on meanwhile, so that objects
//! can be listed again while none of their changes is missed or reported in the wrong order. Pure.
//!
//! A list shows the objects as they were at one resource version, that of its first page. An event
//! up to that version is in the list, and is left out once the list has shown its object; a later
//! event replaces what the list says about its object. The pages that are still to come may never
//! arrive, so what they will show is not taken for known.

use std::collections::HashMap;
use std::hash::Hash;

use crate::observe::objects::Item;
use pps_recorder::facts::store::Update;

/// Follows one list and one watch of the same objects.
#[derive(Debug)]
pub struct Merge<K, F> {
    list: Option<List<K, F>>,
    /// The version of the last complete list: earlier events are in it.
    listed: Option<u64>,
}

#[derive(Debug)]
enum List<K, F> {
    /// No page has arrived. The revision of the interest, and the last event of each object,
    /// deleted or not, with its version.
    Requested(u64, HashMap<K, (Option<u64>, Option<F>)>),
    /// The version of the list, and what has said something about an object since the first page
    /// arrived.
    Arriving(Option<u64>, HashMap<K, Source>),
}

/// What an object is known from while a list arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The list, or an event after it: the list has nothing newer.
    Newest,
    /// An event that the list contains, before the list has shown the object, if it ever does.
    EarlyEvent,
}

impl<K, F> Default for Merge<K, F> {
    fn default() -> Self {
        Self {
            list: None,
            listed: None,
        }
    }
}

impl<K: Clone + Eq + Hash, F: Clone> Merge<K, F> {
    /// Objects are listed now. Ends a list that is under way.
    pub fn begin_list(&mut self, revision: u64) {
        self.list = Some(List::Requested(revision, HashMap::new()));
    }

    pub fn begin_page(&mut self, resource_version: &str) -> Vec<Update<K, F>> {
        let Some(List::Requested(revision, events)) = &mut self.list else {
            return Vec::new();
        };
        let version = resource_version.parse::<u64>().ok();
        let mut updates = vec![Update::Begin(*revision)];
        let mut known = HashMap::new();
        for (key, (event_version, fact)) in std::mem::take(events) {
            if !is_covered(event_version, version) {
                updates.extend(fact.map(|fact| Update::Apply(key.clone(), fact)));
                known.insert(key, Source::Newest);
            }
        }
        self.list = Some(List::Arriving(version, known));
        updates
    }

    pub fn list_item(&mut self, item: Item<K, F>) -> Option<Update<K, F>> {
        let Some(List::Arriving(_, known)) = &mut self.list else {
            return None;
        };
        if known.get(&item.key) == Some(&Source::Newest) {
            return None;
        }
        let Some(fact) = item.fact else {
            return known.remove(&item.key).map(|_| Update::Delete(item.key));
        };
        known.insert(item.key.clone(), Source::Newest);
        Some(Update::Apply(item.key, fact))
    }

    /// The last page has arrived. What only early events have shown was deleted before the list was
    /// read.
    pub fn end_list(&mut self) -> Vec<Update<K, F>> {
        let Some(List::Arriving(version, known)) = self.list.take() else {
            return Vec::new();
        };
        self.listed = version;
        let unlisted = known
            .into_iter()
            .filter(|(_, source)| *source == Source::EarlyEvent);
        unlisted
            .map(|(key, _)| Update::Delete(key))
            .chain([Update::Done])
            .collect()
    }

    pub fn event(&mut self, item: Item<K, F>, is_deleted: bool) -> Option<Update<K, F>> {
        let version = item.resource_version.parse::<u64>().ok();
        if is_covered(version, self.listed) {
            return None;
        }
        // An object that is of no interest any longer counts as deleted.
        let key = item.key;
        let fact = item.fact.filter(|_| !is_deleted);
        match &mut self.list {
            None => {}
            Some(List::Requested(_, events)) => {
                drop(events.insert(key.clone(), (version, fact.clone())));
            }
            Some(List::Arriving(listed, known)) => {
                if !is_covered(version, *listed) {
                    known.insert(key.clone(), Source::Newest);
                } else if known.get(&key) == Some(&Source::Newest) {
                    return None;
                } else if fact.is_some() {
                    known.insert(key.clone(), Source::EarlyEvent);
                } else {
                    known.remove(&key);
                }
            }
        }
        Some(match fact {
            Some(fact) => Update::Apply(key, fact),
            None => Update::Delete(key),
        })
    }
}

/// Whether a list of this version contains an event. Versions are growing numbers. Where they are
/// none, there is no watch while a list is read, and every event is later.
fn is_covered(event: Option<u64>, list: Option<u64>) -> bool {
    matches!((event, list), (Some(event), Some(list)) if event <= list)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use pps_recorder::facts::store::Store;

    type TestMerge = Merge<&'static str, u64>;

    /// An object whose fact is the version at which it had it.
    fn at(key: &'static str, version: u64) -> Item<&'static str, u64> {
        Item {
            key,
            resource_version: version.to_string(),
            fact: Some(version),
            unreadable: None,
        }
    }

    fn list(
        merge: &mut TestMerge,
        version: u64,
        items: &[Item<&'static str, u64>],
    ) -> Vec<Update<&'static str, u64>> {
        let mut updates = merge.begin_page(&version.to_string());
        updates.extend(
            items
                .iter()
                .cloned()
                .filter_map(|item| merge.list_item(item)),
        );
        updates
    }

    #[test]
    fn passes_on_a_list_and_the_events_after_it() {
        let mut merge = TestMerge::default();
        merge.begin_list(4);
        assert_eq!(
            list(&mut merge, 10, &[at("a", 5)]),
            [Update::Begin(4), Update::Apply("a", 5)]
        );
        assert_eq!(
            list(&mut merge, 10, &[at("b", 6)]),
            [Update::Apply("b", 6)],
            "the second page"
        );
        assert_eq!(merge.end_list(), [Update::Done]);
        assert_eq!(
            merge.event(at("a", 11), false),
            Some(Update::Apply("a", 11))
        );
        assert_eq!(merge.event(at("a", 12), true), Some(Update::Delete("a")));
        let uninteresting = Item {
            fact: None,
            ..at("b", 13)
        };
        assert_eq!(merge.event(uninteresting, false), Some(Update::Delete("b")));
    }

    #[test]
    fn passes_on_events_while_a_list_is_awaited_and_after_its_beginning() {
        let mut merge = TestMerge::default();
        merge.begin_list(1);
        // The list shows version 10, but arrives after these.
        assert_eq!(merge.event(at("a", 9), false), Some(Update::Apply("a", 9)));
        assert_eq!(
            merge.event(at("b", 11), false),
            Some(Update::Apply("b", 11))
        );
        assert_eq!(merge.event(at("c", 12), true), Some(Update::Delete("c")));
        let updates = list(
            &mut merge,
            10,
            &[at("a", 8), at("b", 3), at("c", 4), at("d", 5)],
        );
        let expected = [
            Update::Begin(1),
            Update::Apply("b", 11),
            Update::Apply("a", 8),
            Update::Apply("d", 5),
        ];
        assert_eq!(updates, expected, "later events win, and count as listed");
        // While the second page is awaited.
        assert_eq!(merge.event(at("a", 10), false), None, "in the list");
        assert_eq!(
            merge.event(at("e", 10), false),
            Some(Update::Apply("e", 10)),
            "not listed yet"
        );
        assert_eq!(
            merge.event(at("e", 13), false),
            Some(Update::Apply("e", 13))
        );
        assert_eq!(
            list(&mut merge, 10, &[at("e", 10)]),
            [],
            "older than the event"
        );
        assert_eq!(merge.end_list(), [Update::Done]);
        assert_eq!(merge.event(at("a", 10), true), None, "in the list");
        assert_eq!(merge.event(at("a", 14), true), Some(Update::Delete("a")));
    }

    #[test]
    fn a_list_that_begins_again_forgets_the_first_attempt() {
        let mut merge = TestMerge::default();
        merge.begin_list(1);
        list(&mut merge, 10, &[at("a", 1)]);
        merge.event(at("b", 11), false);
        merge.begin_list(2);
        assert_eq!(
            list(&mut merge, 20, &[at("b", 15)]),
            [Update::Begin(2), Update::Apply("b", 15)]
        );
        assert_eq!(merge.end_list(), [Update::Done]);
        assert_eq!(merge.end_list(), []);
    }

    #[test]
    fn an_event_that_a_list_contains_and_has_not_shown_yet_is_not_lost_if_the_list_fails() {
        let mut merge = TestMerge::default();
        merge.begin_list(1);
        list(&mut merge, 10, &[at("a", 8)]);
        // The watch is behind the list, whose next page would show b, c and d.
        assert_eq!(merge.event(at("a", 7), false), None, "listed already");
        assert_eq!(merge.event(at("b", 6), false), Some(Update::Apply("b", 6)));
        assert_eq!(merge.event(at("b", 9), true), Some(Update::Delete("b")));
        assert_eq!(merge.event(at("c", 7), false), Some(Update::Apply("c", 7)));
        assert_eq!(merge.event(at("d", 5), false), Some(Update::Apply("d", 5)));
        assert_eq!(merge.event(at("e", 4), false), Some(Update::Apply("e", 4)));
        let uninteresting = Item {
            fact: None,
            ..at("e", 10)
        };
        assert_eq!(
            list(&mut merge, 10, &[at("c", 8), uninteresting]),
            [Update::Apply("c", 8), Update::Delete("e")],
            "the list shows them later than the events"
        );
        assert_eq!(
            merge.end_list(),
            [Update::Delete("d"), Update::Done],
            "deleted before the list was read"
        );
    }

    /// Version, key, and whether the object is deleted then.
    const HISTORY: [(u64, &str, bool); 8] = [
        (1, "a", false),
        (2, "b", false),
        (3, "a", true),
        (4, "c", false),
        (5, "a", false),
        (6, "b", true),
        (7, "c", false),
        (8, "d", false),
    ];

    /// The objects at a version.
    fn truth(version: u64) -> BTreeMap<&'static str, u64> {
        let mut objects = BTreeMap::new();
        for (at, key, is_deleted) in HISTORY.into_iter().filter(|(at, ..)| *at <= version) {
            if is_deleted {
                objects.remove(key)
            } else {
                objects.insert(key, at)
            };
        }
        objects
    }

    /// What is known in the end if all was known at the version `seen`, and two pages of a list
    /// that was read at the version `listed` arrive after the events of these versions; one that
    /// arrives at 9 fails again and again.
    fn result(seen: u64, listed: u64, arrivals: [u64; 2]) -> BTreeMap<&'static str, u64> {
        let (mut merge, mut store) = (TestMerge::default(), Store::default());
        store.apply(Update::Begin(0));
        for (key, fact) in truth(seen) {
            store.put(&key, fact);
        }
        store.apply(Update::Done);
        merge.begin_list(0);
        let items: Vec<_> = truth(listed)
            .into_iter()
            .map(|(key, version)| at(key, version))
            .collect();
        let (first, second) = items.split_at(items.len() / 2);
        for now in seen..=8 {
            if let Some((version, key, is_deleted)) = HISTORY
                .into_iter()
                .find(|(at, ..)| *at == now && now > seen)
                && let Some(update) = merge.event(at(key, version), is_deleted)
            {
                store.apply(update);
            }
            let mut updates = Vec::new();
            for (_, page) in arrivals
                .into_iter()
                .zip([first, second])
                .filter(|(arrival, _)| *arrival == now)
            {
                updates.extend(list(&mut merge, listed, page));
            }
            if arrivals[1] == now {
                updates.extend(merge.end_list());
            }
            for update in updates {
                store.apply(update);
            }
        }
        ["a", "b", "c", "d"]
            .into_iter()
            .filter_map(|key| Some((key, *store.get(key)?)))
            .collect()
    }

    #[test]
    fn ends_with_the_true_state_however_list_and_events_interleave() {
        for seen in 0..=4 {
            for listed in 0..=8 {
                for first in seen..=8 {
                    for second in first..=9 {
                        let result = result(seen, listed, [first, second]);
                        // A list that is newer than the last event before it has all that the
                        // events bring.
                        assert_eq!(
                            result,
                            truth(8),
                            "seen {seen} listed {listed} pages {first} {second}"
                        );
                    }
                }
            }
        }
    }
}
