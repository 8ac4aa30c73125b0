//! The bytes of a watch.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use futures::executor::block_on_stream;
use futures::stream;
use kube::core::WatchEvent;
use pps_api::{lines, read_event};
use pps_recorder::facts::NamespacedName;
use pps_recorder::facts::interest::Interest;
use pps_recorder::facts::store::Update;
use pps_sidecar::observe::Merge;
use pps_sidecar::observe::objects::{self, Item};

/// The longest line.
const LONGEST: usize = 2048;
/// The resource version of the list that the watch follows.
const LISTED: u64 = 10;

/// A watch of Pods; the first byte is the size of the pieces in which the other ones arrive, and
/// says whether a list is awaited meanwhile. However they arrive, the same Pods exist in the end.
pub fn check_watch(data: &[u8]) {
    let Some((first, data)) = data.split_first() else {
        return;
    };
    let relists = first & 0x80 != 0;
    let in_pieces = follow(data, usize::from(first & 0x7f) + 1, relists);
    assert_eq!(in_pieces, follow(data, usize::MAX, false));
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
    let pieces = data.chunks(size.min(data.len().max(1)));
    let chunks: Vec<io::Result<Bytes>> = pieces.map(|piece| Ok(piece.to_vec().into())).collect();
    // A line that is too long ends the watch.
    for line in block_on_stream(lines(stream::iter(chunks), LONGEST)).map_while(Result::ok) {
        let (object, is_deleted) = match read_event(&line) {
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => (object, false),
            Ok(WatchEvent::Deleted(object)) => (object, true),
            Ok(WatchEvent::Bookmark(_) | WatchEvent::Error(_)) | Err(_) => continue,
        };
        let Ok(item) = objects::read_pod(object.get(), &interest) else {
            continue;
        };
        let item = Item {
            key: item.key,
            resource_version: item.resource_version,
            fact: item.fact.map(|fact| fact.ready),
            unreadable: item.unreadable,
        };
        pods.apply_all(merge.event(item, is_deleted));
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
