//! The Pods that are created again after a fallback. Until each runs, the room that was found for it
//! is not free for another one.

use std::time::{Duration, Instant};

use pps_scheduler::fields::text;
use serde_json::Value;

use super::slim_pod;

/// How long a successor may take to get a node. It may get another one than was found.
const LONGEST_START: Duration = Duration::from_mins(1);

/// A Pod that will be created, and the node that was found for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Successor {
    node: String,
    pod: Value,
}

impl Successor {
    pub(super) fn new(pod: &Value, node: String) -> Self {
        let mut pod = slim_pod(pod);
        pod["spec"]["nodeName"] = node.as_str().into();
        Self { node, pod }
    }

    pub fn node(&self) -> &str {
        &self.node
    }

    pub(super) fn pod(&self) -> &Value {
        &self.pod
    }

    /// Whether this is the Pod of that name.
    pub(super) fn is_for(&self, pod: &Value) -> bool {
        let metadata = &self.pod["metadata"];
        ["namespace", "name"]
            .iter()
            .all(|field| text(&metadata[*field]) == text(&pod["metadata"][*field]))
    }
}

/// The successors that may not have a node yet.
#[derive(Debug, Default)]
pub struct Successors {
    coming: Vec<Coming>,
}

#[derive(Debug)]
struct Coming {
    successor: Successor,
    since: Instant,
}

impl Successors {
    pub fn add(&mut self, successor: Successor, now: Instant) {
        self.remove(&successor);
        self.coming.push(Coming {
            successor,
            since: now,
        });
    }

    /// The Pod is not created again.
    pub fn remove(&mut self, successor: &Successor) {
        self.coming
            .retain(|coming| !coming.successor.is_for(&successor.pod));
    }

    /// Those that still need room.
    pub fn current(&mut self, now: Instant) -> Vec<Successor> {
        self.coming
            .retain(|coming| now.saturating_duration_since(coming.since) < LONGEST_START);
        let coming = self.coming.iter();
        coming.map(|coming| coming.successor.clone()).collect()
    }
}
