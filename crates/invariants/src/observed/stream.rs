//! The bytes of a watch.

use std::collections::{BTreeMap, HashSet};

use pps_sidecar::facts::NamespacedName;
use pps_sidecar::facts::interest::Interest;
use pps_sidecar::facts::store::Update;
use pps_sidecar::observe::Merge;
use pps_sidecar::observe::wire::{self, Item, Line, Lines};
use serde_json::{Value, json};

use super::objects::UNSTABLE;

/// The longest line.
const LONGEST: usize = 2048;
/// The resource version of the list that the watch follows.
const LISTED: u64 = 10;

/// A watch of Pods; the first byte is the size of the pieces in which the other ones arrive, and says whether a list is
/// awaited meanwhile. However they arrive, the same Pods exist in the end.
pub fn check_watch(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    let whole = follow(data, usize::MAX, false);
    let relisted = first & 0x80 != 0;
    assert_eq!(follow(data, usize::from(first & 0x7f) + 1, relisted), whole);
    if let Some(expected) = expected(data) {
        assert_eq!(whole, expected);
    }
}

/// The names of the Pods in the end, with whether each is Ready.
fn follow(data: &[u8], size: usize, relists: bool) -> BTreeMap<String, bool> {
    let interest = Interest::default();
    let mut pods = Pods::default();
    let mut merge = Merge::default();
    merge.begin_list(0);
    pods.apply_all(merge.begin_page(&LISTED.to_string()));
    pods.apply_all(merge.end_list());
    if relists {
        // This list never arrives.
        merge.begin_list(0);
    }
    let mut lines = Lines::new(LONGEST);
    for piece in data.chunks(size.min(data.len().max(1))) {
        lines.push(piece);
        while let Some(line) = lines.next_line() {
            let Ok(line) = line else { continue };
            let (text, is_deleted) = match Line::read(&line) {
                Ok(Line::Applied(text)) => (text, false),
                Ok(Line::Deleted(text)) => (text, true),
                Ok(Line::Bookmark(_) | Line::Error { .. }) | Err(_) => continue,
            };
            let Ok(item) = wire::read_pod(text, &interest) else { continue };
            let Item { key, resource_version, fact, unreadable } = item;
            let item = Item { key, resource_version, fact: fact.map(|fact| fact.ready), unreadable };
            pods.apply_all(merge.event(item, is_deleted));
        }
    }
    pods.0
}

#[derive(Default)]
struct Pods(BTreeMap<String, bool>);

impl Pods {
    fn apply_all(&mut self, updates: impl IntoIterator<Item = Update<NamespacedName, bool>>) {
        for update in updates {
            match update {
                Update::Apply(key, is_ready) => drop(self.0.insert(key.to_string(), is_ready)),
                Update::Delete(key) => drop(self.0.remove(&key.to_string())),
                Update::Begin(_) | Update::Done => {}
            }
        }
    }
}

/// The Pods in the end, read without the sidecar's code; nothing if the lines are so odd that readers may differ.
fn expected(data: &[u8]) -> Option<BTreeMap<String, bool>> {
    let mut pods = BTreeMap::new();
    let complete = data.iter().rposition(|byte| *byte == b'\n').map_or(&[][..], |end| &data[..end]);
    for line in complete.split(|byte| *byte == b'\n') {
        let text = String::from_utf8_lossy(line);
        let text = text.trim();
        if line.len() >= LONGEST || text.is_empty() {
            continue;
        }
        let Ok(event) = serde_json::from_str::<Value>(text) else {
            // No event, unless the object in it is one that this reader cannot read: too deep, or half a character.
            if Line::read(text).is_ok() {
                return None;
            }
            continue;
        };
        // Equal after a round trip only if no field is there twice and no number was rounded.
        let squeezed = |text: &str| {
            let mut letters: Vec<char> = text.chars().filter(|letter| !letter.is_whitespace()).collect();
            letters.sort_unstable();
            letters
        };
        if squeezed(&event.to_string()) != squeezed(text) {
            return None;
        }
        let object = &event["object"];
        let (metadata, kind) = (&object["metadata"], event["type"].as_str().unwrap_or_default());
        let text_of = |field: &str| metadata[field].as_str().unwrap_or_default();
        let is_text = |field: &str| metadata[field].is_null() || metadata[field].is_string();
        let is_named =
            !text_of("name").is_empty() && ["namespace", "uid", "resourceVersion"].into_iter().all(is_text);
        let is_listed = text_of("resourceVersion").parse::<u64>().is_ok_and(|version| version <= LISTED);
        if !is_named || is_listed || !HashSet::from(["ADDED", "MODIFIED", "DELETED"]).contains(kind) {
            continue;
        }
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let mut controllers = owners.filter(|owner| owner["controller"] == true);
        let kind_of_owner = controllers.next().and_then(|owner| owner["kind"].as_str()).unwrap_or_default();
        if UNSTABLE.contains(&kind_of_owner) {
            // Whether such a Pod counts depends on the group of its owner, and on whether it can be read.
            return None;
        }
        let key = format!("{}/{}", text_of("namespace"), text_of("name"));
        if kind == "DELETED" {
            pods.remove(&key);
            continue;
        }
        let is_ready = wire::read_pod(&json!(object).to_string(), &Interest::default()).ok()?.fact?.ready;
        pods.insert(key, is_ready);
    }
    Some(pods)
}
