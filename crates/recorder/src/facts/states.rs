//! Recorded states of one PPS, stored compactly: a cluster may have a hundred thousand of them. An
//! entry is unpacked each time it is read. The entries are grouped by the [`Bucket`] that they have
//! in the compact form, so that a bucket can be written without a look at the others.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use pps_core::packed::{Bucket, Damaged, Row, parse_bucket, read_states};
use pps_core::pps::PodState;
use pps_core::size::entry_size;
use serde::Deserialize;

use super::interner::Interner;

/// Pairs with distinct keys, sorted by key.
type Pairs = Box<[(Arc<str>, Arc<str>)]>;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "BTreeMap<String, PodState>")]
pub struct States {
    /// The entries of each bucket, sorted by Pod; no bucket is empty.
    buckets: BTreeMap<Bucket, Vec<Entry>>,
    len: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    pod: Arc<str>,
    node: Arc<str>,
    labels: Pairs,
    annotations: Pairs,
}

impl States {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn contains(&self, pod: &str) -> bool {
        self.entry(pod).is_some()
    }

    pub fn get(&self, pod: &str) -> Option<PodState> {
        self.entry(pod).map(Entry::unpack)
    }

    /// Each Pod with the node that it was recorded on, by bucket.
    pub fn nodes(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.entries().map(|entry| (&entry.pod, &entry.node))
    }

    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        self.buckets.keys().copied()
    }

    pub fn rows(&self, bucket: Bucket) -> impl Iterator<Item = Row<'_>> {
        self.buckets
            .get(&bucket)
            .into_iter()
            .flatten()
            .map(Entry::row)
    }

    /// Sets the state of a Pod; returns the node of the previous state.
    pub fn insert(
        &mut self,
        pod: &Arc<str>,
        state: &PodState,
        interner: &mut Interner,
    ) -> Option<Arc<str>> {
        let mut entry = Entry::pack(pod.clone(), state);
        entry.intern_values(interner);
        let entries = self.buckets.entry(Bucket::of(pod)).or_default();
        match find(entries, pod) {
            Ok(at) => Some(std::mem::replace(&mut entries[at], entry).node),
            Err(at) => {
                entries.insert(at, entry);
                self.len += 1;
                None
            }
        }
    }

    /// Removes the state of a Pod; returns its node.
    pub fn remove(&mut self, pod: &str) -> Option<Arc<str>> {
        let bucket = Bucket::of(pod);
        let entries = self.buckets.get_mut(&bucket)?;
        let entry = entries.remove(find(entries, pod).ok()?);
        if entries.is_empty() {
            self.buckets.remove(&bucket);
        }
        self.len -= 1;
        Some(entry.node)
    }

    /// Adds the entries of Pods that have none here. Returns whether there were any.
    pub fn add_missing(&mut self, others: &Self) -> bool {
        let missing = others.entries().filter(|entry| !self.contains(&entry.pod));
        let (missing, before): (Vec<Entry>, _) = (missing.cloned().collect(), self.len);
        self.extend(missing);
        self.len > before
    }

    /// Size of all entries in `podStates`, in bytes.
    pub fn size(&self) -> usize {
        self.entries().map(Entry::size).sum()
    }

    /// Size of one Pod's entry in `podStates`, in bytes; 0 without an entry.
    pub fn size_of(&self, pod: &str) -> usize {
        self.entry(pod).map(Entry::size).unwrap_or_default()
    }

    pub fn intern(&mut self, interner: &mut Interner) {
        for entry in self.buckets.values_mut().flatten() {
            entry.pod = interner.intern(&entry.pod);
            entry.intern_values(interner);
        }
    }

    /// The states in the buckets of the compact form, by the buckets' names. What they share is in
    /// memory once, as in the texts.
    pub(super) fn read_buckets(buckets: &BTreeMap<String, String>) -> Result<Self, Damaged> {
        let mut entries = Vec::new();
        let mut pods = HashSet::new();
        let mut interner = Interner::default();
        let mut length = 0;
        for (name, text) in buckets {
            read_states(parse_bucket(name)?, text, &mut length, |pod, state| {
                let mut entry = Entry::pack(pod.into(), &state);
                entry.intern_values(&mut interner);
                let is_first = pods.insert(entry.pod.clone());
                entries.push(entry);
                is_first
            })?;
        }
        let mut states = Self::default();
        states.extend(entries);
        Ok(states)
    }

    /// Adds the entries of Pods that have none here. Each bucket is sorted once: there may be a
    /// hundred thousand entries in one, in any order.
    fn extend(&mut self, entries: impl IntoIterator<Item = Entry>) {
        for entry in entries {
            self.buckets
                .entry(Bucket::of(&entry.pod))
                .or_default()
                .push(entry);
            self.len += 1;
        }
        for entries in self.buckets.values_mut() {
            entries.sort_unstable_by(|one, other| one.pod.cmp(&other.pod));
            entries.shrink_to_fit();
        }
    }

    fn entry(&self, pod: &str) -> Option<&Entry> {
        let entries = self.buckets.get(&Bucket::of(pod))?;
        Some(&entries[find(entries, pod).ok()?])
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.buckets.values().flatten()
    }
}

fn find(entries: &[Entry], pod: &str) -> Result<usize, usize> {
    entries.binary_search_by(|entry| (*entry.pod).cmp(pod))
}

impl Entry {
    fn pack(pod: Arc<str>, state: &PodState) -> Self {
        let pairs = |map: &BTreeMap<String, String>| {
            map.iter()
                .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
                .collect()
        };
        Self {
            pod,
            node: state.node_name.as_str().into(),
            labels: pairs(&state.node_topology_labels),
            annotations: pairs(&state.annotations),
        }
    }

    fn unpack(&self) -> PodState {
        let map = |pairs: &Pairs| {
            pairs
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect()
        };
        PodState {
            node_name: self.node.to_string(),
            node_topology_labels: map(&self.labels),
            annotations: map(&self.annotations),
        }
    }

    fn row(&self) -> Row<'_> {
        Row {
            pod: &self.pod,
            node: &self.node,
            labels: texts(&self.labels).collect(),
            annotations: texts(&self.annotations).collect(),
        }
    }

    fn size(&self) -> usize {
        entry_size(
            &self.pod,
            &self.node,
            texts(&self.labels),
            texts(&self.annotations),
        )
    }

    fn intern_values(&mut self, interner: &mut Interner) {
        self.node = interner.intern(&self.node);
        interner.intern_pairs(self.labels.iter_mut().chain(&mut self.annotations));
    }
}

fn texts(pairs: &Pairs) -> impl Iterator<Item = (&str, &str)> {
    pairs.iter().map(|(key, value)| (&**key, &**value))
}

impl From<BTreeMap<String, PodState>> for States {
    fn from(map: BTreeMap<String, PodState>) -> Self {
        let mut states = Self::default();
        states.extend(
            map.into_iter()
                .map(|(pod, state)| Entry::pack(pod.into(), &state)),
        );
        states
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deserializes_the_same_states_as_core() {
        let json = json!({
            "w-1": {"nodeName": "n", "nodeTopologyLabels": {"zone": "a", "host": "n"}, "annotations": {"ip": "1"}},
            "w-0": {"nodeName": null, "nodeTopologyLabels": null, "unknown": 1},
        });
        let core: BTreeMap<String, PodState> = serde_json::from_value(json.clone()).unwrap();
        let (mut states, mut names): (States, _) =
            (serde_json::from_value(json).unwrap(), Interner::default());
        states.intern(&mut names);
        assert_eq!(states.len(), core.len());
        for (pod, state) in &core {
            assert_eq!(states.get(pod).as_ref(), Some(state));
        }
        assert!(serde_json::from_value::<States>(json!({"w-0": 1})).is_err());
    }

    #[test]
    fn values_that_buckets_share_are_in_memory_once() {
        let text = |first: u32| {
            format!(
                "2 web-* node label:zone=eu annotation:ip=10.*\n{first} % % 1\n{} % % 1\n",
                first + 1
            )
        };
        let buckets = [0, 100].map(|first| (format!("ordinals-{first}"), text(first)));
        let states = States::read_buckets(&buckets.into()).unwrap();
        let entries: Vec<&Entry> = states.entries().collect();
        assert_eq!((entries.len(), &*entries[0].annotations[0].1), (4, "10.1"));
        for entry in &entries {
            let pairs = |entry: &Entry| [entry.labels[0].clone(), entry.annotations[0].clone()];
            for (one, other) in pairs(entry).into_iter().zip(pairs(entries[0])) {
                assert!(
                    Arc::ptr_eq(&one.0, &other.0) && Arc::ptr_eq(&one.1, &other.1),
                    "{one:?}"
                );
            }
            assert!(Arc::ptr_eq(&entry.node, &entries[0].node));
        }
        let repeated = [(
            "ordinals-0".to_owned(),
            "2 web-* node\n0 %\n0 %\n".to_owned(),
        )];
        assert!(
            States::read_buckets(&repeated.into())
                .unwrap_err()
                .to_string()
                .ends_with("repeats a Pod")
        );
    }

    #[test]
    fn an_object_that_stands_for_very_much_more_than_its_text_is_not_read() {
        let object = |affix: usize| -> BTreeMap<String, String> {
            let prefix = "v".repeat(affix);
            let bucket = |first: u32| {
                let line = |row: u32| format!("{row}-{first} % {row}\n");
                let lines: String = (0..1500).map(line).collect();
                format!("1500 * n annotation:ip={prefix}*{prefix}\n{lines}")
            };
            (0..100)
                .map(|at| (format!("ordinals-{}", at * 100), bucket(at * 100)))
                .collect()
        };
        let read = |affix: usize| States::read_buckets(&object(affix)).map(|states| states.len());
        let error = |affix: usize| read(affix).unwrap_err().to_string();
        assert!(error(6000).ends_with("line 1 cannot be read"));
        assert!(error(256).ends_with("the object's states have more than 67108864 bytes"));
        assert_eq!(read(100), Ok(150_000));
    }

    #[test]
    fn many_entries_of_one_bucket_are_read_in_any_order() {
        let read = |numbers: &mut dyn Iterator<Item = u32>| {
            let lines: Vec<String> = numbers.map(|number| format!("{number:06}-0 %\n")).collect();
            let text = format!("100000 w* node\n{}", lines.concat());
            let buckets = [("ordinals-0".to_owned(), text)].into();
            States::read_buckets(&buckets).unwrap()
        };
        let (ascending, descending) = (read(&mut (0..100_000)), read(&mut (0..100_000).rev()));
        assert!(ascending == descending && descending.contains("w077777-0"));
        let mut erased = States::default();
        assert!(erased.add_missing(&descending) && !erased.add_missing(&descending));
        assert_eq!((erased.len(), erased == ascending), (100_000, true));
    }

    #[test]
    fn insert_and_remove_return_the_previous_node() {
        let (mut states, mut names) = (States::default(), Interner::default());
        let on = |node: &str| PodState {
            node_name: node.into(),
            ..PodState::default()
        };
        assert_eq!(states.insert(&"w-0".into(), &on("a"), &mut names), None);
        assert_eq!(
            states
                .insert(&"w-0".into(), &on("b"), &mut names)
                .as_deref(),
            Some("a")
        );
        assert_eq!(states.remove("w-0").as_deref(), Some("b"));
        assert_eq!(states.remove("w-0"), None);
    }

    #[test]
    fn an_entry_is_found_in_its_bucket_however_it_came_there() {
        let names = [
            "w-0",
            "w-10",
            "w-2",
            "w-99",
            "w-100",
            "w-205",
            "a.b-7",
            "queue-x7k2p",
            "queue",
        ];
        let on = |node: &str| PodState {
            node_name: node.into(),
            ..PodState::default()
        };
        let json: serde_json::Map<_, _> = names
            .iter()
            .map(|name| ((*name).to_owned(), json!({"nodeName": name})))
            .collect();
        let read: States = serde_json::from_value(json.into()).unwrap();
        let (mut inserted, mut interner) = (States::default(), Interner::default());
        for name in names.iter().rev() {
            inserted.insert(&(*name).into(), &on(name), &mut interner);
        }
        assert_eq!(read, inserted);
        let buckets: Vec<String> = read.buckets().map(|bucket| bucket.to_string()).collect();
        assert_eq!(buckets[..3], ["ordinals-0", "ordinals-100", "ordinals-200"]);
        let rows: Vec<&str> = read.rows(Bucket::of("w-0")).map(|row| row.pod).collect();
        assert_eq!(rows, ["a.b-7", "w-0", "w-10", "w-2", "w-99"]);
        for name in names {
            assert_eq!(read.get(name), Some(on(name)));
            assert!(inserted.remove(name).is_some() && !inserted.contains(name));
        }
        assert_eq!((inserted.len(), inserted.buckets().count()), (0, 0));
        let twice: States = serde_json::from_str(
            r#"{"w-0": {"nodeName": "a"}, "w-1": {}, "w-0": {"nodeName": "b"}}"#,
        )
        .unwrap();
        assert_eq!(
            (twice.len(), twice.get("w-0")),
            (2, Some(on("b"))),
            "the last one counts, as in the API server"
        );
    }
}
