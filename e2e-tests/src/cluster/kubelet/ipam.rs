//! Addresses of simulated Nodes, assigned as `host-local` does. Real nodes run that plugin itself.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The size of a Node's range, a /20: 10.16.0.0/20 for the first Node, 10.16.16.0/20 for the next.
const SIZE: u32 = 1 << 12;
/// Where the range of the first Node begins.
const FIRST: u32 = u32::from_be_bytes([10, 16, 0, 0]);

/// Assigns addresses to Pods. A Node that is deleted and made again keeps its range.
#[derive(Default)]
pub(super) struct Ipam {
    nodes: Mutex<BTreeMap<String, Range>>,
}

struct Range {
    start: u32,
    /// The address that was assigned last.
    last: u32,
    /// The UID of the Pod that has an address.
    pods: BTreeMap<u32, String>,
}

impl Ipam {
    /// Assigns an address to a Pod: the wanted one if it is in the Node's range and free, else the
    /// next one, which is not the one that was freed last. None if all are assigned.
    pub(super) fn add(&self, node: &str, pod_uid: &str, wanted: Option<&str>) -> Option<String> {
        let mut nodes = self.nodes();
        let range = range(&mut nodes, node);
        // Without the addresses of network and gateway, and the broadcast.
        let own = range.start + 2..range.start + SIZE - 1;
        let free = |address: &u32| own.contains(address) && !range.pods.contains_key(address);
        let wanted = wanted
            .and_then(|wanted| wanted.parse::<Ipv4Addr>().ok())
            .map(u32::from)
            .filter(free);
        let address = wanted.or_else(|| (range.last + 1..own.end).chain(own.clone()).find(free))?;
        range.last = address;
        range.pods.insert(address, pod_uid.to_owned());
        Some(Ipv4Addr::from(address).to_string())
    }

    /// Releases the Pod's address, if it has any.
    pub(super) fn delete(&self, node: &str, pod_uid: &str) {
        range(&mut self.nodes(), node)
            .pods
            .retain(|_, uid| uid != pod_uid);
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<String, Range>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The range of a Node, which it gets at its first request.
fn range<'a>(nodes: &'a mut BTreeMap<String, Range>, node: &str) -> &'a mut Range {
    let start = FIRST + SIZE * u32::try_from(nodes.len()).unwrap_or_default();
    nodes.entry(node.to_owned()).or_insert(Range {
        start,
        last: start + 1,
        pods: BTreeMap::new(),
    })
}
