//! Merges the pages of a list with the events of a watch that goes on meanwhile, so that objects can be listed again
//! while none of their changes is missed or reported in the wrong order. Pure.
//!
//! A list shows the objects as they were at one resource version, that of its first page. An event up to that version
//! is in the list, and is left out; a later event replaces what the list says about its object.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::facts::store::Update;
use crate::observe::wire::Item;

/// Follows one list and one watch of the same objects.
#[derive(Debug)]
pub struct Merge<K, F> {
    list: Option<List<K, F>>,
    /// The version of the last complete list: earlier events are in it.
    listed: Option<u64>,
}

#[derive(Debug)]
struct List<K, F> {
    /// The revision of the interest when the list was requested.
    revision: u64,
    progress: Progress<K, F>,
}

#[derive(Debug)]
enum Progress<K, F> {
    /// No page has arrived. The last event of each object, deleted or not, with its version.
    Requested(HashMap<K, (Option<u64>, Option<F>)>),
    /// The version of the list, and the objects about which an event says more than the list.
    Arriving(Option<u64>, HashSet<K>),
}

impl<K, F> Default for Merge<K, F> {
    fn default() -> Self {
        Self { list: None, listed: None }
    }
}

impl<K: Clone + Eq + Hash, F: Clone> Merge<K, F> {
    /// Objects are listed now. Ends a list that is under way.
    pub fn begin_list(&mut self, revision: u64) {
        self.list = Some(List { revision, progress: Progress::Requested(HashMap::new()) });
    }

    /// A page begins to arrive.
    pub fn begin_page(&mut self, resource_version: &str) -> Vec<Update<K, F>> {
        let Some(list) = &mut self.list else { return Vec::new() };
        let Progress::Requested(events) = &mut list.progress else { return Vec::new() };
        let version = resource_version.parse::<u64>().ok();
        let mut updates = vec![Update::Begin(list.revision)];
        let mut newer = HashSet::new();
        for (key, (event_version, fact)) in std::mem::take(events) {
            if !is_covered(event_version, version) {
                updates.extend(fact.map(|fact| Update::Apply(key.clone(), fact)));
                newer.insert(key);
            }
        }
        list.progress = Progress::Arriving(version, newer);
        updates
    }

    /// An object of a page.
    pub fn list_item(&mut self, item: Item<K, F>) -> Option<Update<K, F>> {
        let Progress::Arriving(_, newer) = &self.list.as_ref()?.progress else { return None };
        if newer.contains(&item.key) {
            return None;
        }
        item.fact.map(|fact| Update::Apply(item.key, fact))
    }

    /// The last page has arrived.
    pub fn end_list(&mut self) -> Option<Update<K, F>> {
        let Progress::Arriving(version, _) = self.list.take()?.progress else { return None };
        self.listed = version;
        Some(Update::Done)
    }

    /// An event of the watch.
    pub fn event(&mut self, item: Item<K, F>, is_deleted: bool) -> Option<Update<K, F>> {
        let version = item.resource_version.parse::<u64>().ok();
        if is_covered(version, self.listed) {
            return None;
        }
        let fact = item.fact.filter(|_| !is_deleted);
        match self.list.as_mut().map(|list| &mut list.progress) {
            None => {}
            Some(Progress::Requested(events)) => {
                events.insert(item.key.clone(), (version, fact.clone()));
            }
            Some(Progress::Arriving(listed, newer)) => {
                if is_covered(version, *listed) {
                    return None;
                }
                newer.insert(item.key.clone());
            }
        }
        // An object that is of no interest any longer counts as deleted.
        Some(match fact {
            Some(fact) => Update::Apply(item.key, fact),
            None => Update::Delete(item.key),
        })
    }
}

/// Whether a list of this version contains an event. Versions are growing numbers; if a server makes them otherwise,
/// every event counts as later.
fn is_covered(event: Option<u64>, list: Option<u64>) -> bool {
    matches!((event, list), (Some(event), Some(list)) if event <= list)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::facts::store::Store;

    type TestMerge = Merge<&'static str, u64>;

    /// An object whose fact is the version at which it had it.
    fn at(key: &'static str, version: u64) -> Item<&'static str, u64> {
        Item { key, resource_version: version.to_string(), fact: Some(version), unreadable: None }
    }

    fn list(
        merge: &mut TestMerge,
        version: u64,
        items: &[Item<&'static str, u64>],
    ) -> Vec<Update<&'static str, u64>> {
        let mut updates = merge.begin_page(&version.to_string());
        updates.extend(items.iter().cloned().filter_map(|item| merge.list_item(item)));
        updates
    }

    #[test]
    fn passes_on_a_list_and_the_events_after_it() {
        let mut merge = TestMerge::default();
        merge.begin_list(4);
        assert_eq!(list(&mut merge, 10, &[at("a", 5)]), [Update::Begin(4), Update::Apply("a", 5)]);
        assert_eq!(list(&mut merge, 10, &[at("b", 6)]), [Update::Apply("b", 6)], "the second page");
        assert_eq!(merge.end_list(), Some(Update::Done));
        assert_eq!(merge.event(at("a", 11), false), Some(Update::Apply("a", 11)));
        assert_eq!(merge.event(at("a", 12), true), Some(Update::Delete("a")));
        let uninteresting = Item { fact: None, ..at("b", 13) };
        assert_eq!(merge.event(uninteresting, false), Some(Update::Delete("b")));
    }

    #[test]
    fn passes_on_events_while_a_list_is_awaited_and_after_its_beginning() {
        let mut merge = TestMerge::default();
        merge.begin_list(1);
        // The list shows version 10, but arrives after these.
        assert_eq!(merge.event(at("a", 9), false), Some(Update::Apply("a", 9)));
        assert_eq!(merge.event(at("b", 11), false), Some(Update::Apply("b", 11)));
        assert_eq!(merge.event(at("c", 12), true), Some(Update::Delete("c")));
        let updates = list(&mut merge, 10, &[at("a", 8), at("b", 3), at("c", 4), at("d", 5)]);
        let expected =
            [Update::Begin(1), Update::Apply("b", 11), Update::Apply("a", 8), Update::Apply("d", 5)];
        assert_eq!(updates, expected, "later events win, and count as listed");
        // While the second page is awaited.
        assert_eq!(merge.event(at("e", 10), false), None, "in the list");
        assert_eq!(merge.event(at("e", 13), false), Some(Update::Apply("e", 13)));
        assert_eq!(list(&mut merge, 10, &[at("e", 10)]), [], "older than the event");
        assert_eq!(merge.end_list(), Some(Update::Done));
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
        assert_eq!(list(&mut merge, 20, &[at("b", 15)]), [Update::Begin(2), Update::Apply("b", 15)]);
        assert_eq!(merge.end_list(), Some(Update::Done));
        assert_eq!(merge.end_list(), None);
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

    /// What is known in the end if all was known at the version `seen`, and two pages of a list that was read at the
    /// version `listed` arrive after the events of these versions.
    fn result(seen: u64, listed: u64, arrivals: [u64; 2]) -> BTreeMap<&'static str, u64> {
        let (mut merge, mut store) = (TestMerge::default(), Store::default());
        store.begin(0);
        for (key, fact) in truth(seen) {
            store.put(&key, fact);
        }
        store.done();
        merge.begin_list(0);
        let items: Vec<_> = truth(listed).into_iter().map(|(key, version)| at(key, version)).collect();
        let (first, second) = items.split_at(items.len() / 2);
        for now in seen..=8 {
            if let Some((version, key, is_deleted)) =
                HISTORY.into_iter().find(|(at, ..)| *at == now && now > seen)
                && let Some(update) = merge.event(at(key, version), is_deleted)
            {
                store.apply(update);
            }
            let mut updates = Vec::new();
            for (_, page) in arrivals.into_iter().zip([first, second]).filter(|(arrival, _)| *arrival == now)
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
        ["a", "b", "c", "d"].into_iter().filter_map(|key| Some((key, *store.get(key)?))).collect()
    }

    #[test]
    fn ends_with_the_true_state_however_list_and_events_interleave() {
        for seen in 0..=4 {
            for listed in 0..=8 {
                for first in seen..=8 {
                    for second in first..=8 {
                        let result = result(seen, listed, [first, second]);
                        // A list that is newer than the last event before it has all that the events bring.
                        assert_eq!(result, truth(8), "seen {seen} listed {listed} pages {first} {second}");
                    }
                }
            }
        }
    }
}
