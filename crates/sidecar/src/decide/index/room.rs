//! How much an object holds, and what becomes of states for which there is no room.
//!
//! Where the limit is only the API server knows: it depends on how etcd was started. So nothing is held back
//! before it has refused a write as too large. Then what makes the object smaller goes first, and of the rest as
//! much as is likely to fit.

use std::collections::BTreeSet;
use std::sync::Arc;

use pps_core::Reason;
use pps_core::pps::PodState;
use pps_core::size::{nearly_full, of_entry};
use pps_core::status::{RECORDING, Recording};

use super::Index;
use super::object::{Object, written_object};
use crate::facts::NamespacedName;
use crate::facts::states::States;

/// What an object has beside its entries, about.
const REST: usize = 2 * 1024;
/// Less room than this is none: the condition has to fit, too.
const LEAST: usize = 4 * 1024;
/// What to do about an object that grows too large.
const ADVICE: &str = "split the workload, record fewer or shorter annotations, or let states go earlier (persistentPodStateRetentionPolicy: WhenScaled)";

/// How full an object is, as far as is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    /// What all entries take, in bytes.
    size: usize,
    /// The least that the API server has refused.
    refused: Option<usize>,
    /// No more than this is tried, since more was refused.
    ceiling: Option<usize>,
    /// Pods whose states wait for room.
    held: BTreeSet<Arc<str>>,
    /// Not even a write that adds nothing but the condition went through: the next has to do without.
    bare: bool,
    /// What users have been told.
    told: Option<Reason>,
}

/// Changes of entries for which there is room.
pub(super) struct Packed {
    pub(super) entries: Vec<(Arc<str>, Option<PodState>)>,
    pub(super) held: BTreeSet<Arc<str>>,
    pub(super) size: usize,
}

impl Room {
    pub(super) fn of(states: &States) -> Self {
        Self { size: states.size(), ..Self::default() }
    }

    /// The object is another one now. What the API server has refused of it may still be refused.
    pub(super) fn measure(&mut self, states: &States) {
        self.resize(states.size());
    }

    /// In one that is smaller than before all may be tried that would not make it as large as what was refused.
    fn resize(&mut self, size: usize) {
        if size < self.size {
            self.ceiling = self.ceiling.max(self.refused.map(|refused| refused.saturating_sub(LEAST)));
        }
        self.size = size;
    }

    pub(super) fn is_bare(&self) -> bool {
        self.bare
    }

    /// Which states wait for room; none if all are decided anew.
    pub(super) fn held(&self, anew: bool) -> BTreeSet<Arc<str>> {
        if anew { BTreeSet::new() } else { self.held.clone() }
    }

    pub(super) fn hold(&mut self, held: BTreeSet<Arc<str>>) {
        self.held = held;
    }
}

fn size_of(pod: &str, state: &PodState) -> usize {
    let [labels, annotations] = [&state.node_topology_labels, &state.annotations]
        .map(|map| map.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    of_entry(pod, &state.node_name, labels, annotations)
}

/// Of changes, those for which there is room: all, if the API server has not refused any. `held` are those of
/// earlier decisions that still wait.
pub(super) fn pack(
    object: &Object,
    changes: Vec<(Arc<str>, Option<PodState>)>,
    mut held: BTreeSet<Arc<str>>,
) -> Packed {
    let room = &object.room;
    let (mut entries, mut growing, mut size) = (Vec::new(), Vec::new(), room.size);
    for (pod, state) in changes {
        let before = object.fact.status.pod_states.size_of(&pod);
        let after = state.as_ref().map(|state| size_of(&pod, state)).unwrap_or_default();
        if room.ceiling.is_some() && after > before {
            growing.push((pod, state, before, after));
        } else {
            size = (size + after).saturating_sub(before);
            entries.push((pod, state));
        }
    }
    for (pod, state, before, after) in growing {
        let grown = size + after - before;
        if room.ceiling.is_some_and(|ceiling| grown > ceiling) {
            held.insert(pod);
        } else {
            size = grown;
            entries.push((pod, state));
        }
    }
    Packed { entries, held, size }
}

impl Index {
    /// How large an object can be, in bytes.
    pub fn limit_objects(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// The bytes of the largest object, and how many objects are nearly full, and full.
    pub fn sizes(&self) -> (usize, usize, usize) {
        self.objects.values().fold((0, 0, 0), |(largest, nearly, full), object| {
            let bytes = object.room.size + REST;
            let is_full = !object.room.held.is_empty() || object.room.bare;
            let is_nearly = !is_full && nearly_full(bytes, self.limit, false).is_some();
            (largest.max(bytes), nearly + usize::from(is_nearly), full + usize::from(is_full))
        })
    }

    /// What has to be said about the room in an object that is going to be like this.
    pub(super) fn fullness(&self, object: &Object, packed: &Packed, recorded: usize) -> Option<Recording> {
        let limit = self.limit / 1024;
        if !packed.held.is_empty() {
            let message = format!(
                "the API server does not store more than these {recorded} states, so that no others are recorded until some go; {ADVICE}"
            );
            return Some(Recording { ok: false, reason: Reason::CapacityExceeded, message });
        }
        let was_nearly = object.fact.status.conditions.iter().any(|condition| {
            condition.type_ == RECORDING && condition.reason == Reason::NearCapacity.as_str()
        });
        let percent = nearly_full(packed.size + REST, self.limit, was_nearly)?;
        let message = format!(
            "{recorded} states take {percent} % of the {limit} KiB that an object can have; {ADVICE}"
        );
        Some(Recording { ok: true, reason: Reason::NearCapacity, message })
    }

    /// Has users told, once, that there is little room or none.
    pub(super) fn tell_fullness(&mut self, key: &NamespacedName, fullness: Option<&Recording>) {
        let Some(object) = self.objects.get_mut(key) else { return };
        let reason = fullness.map(|fullness| fullness.reason);
        if std::mem::replace(&mut object.room.told, reason) == reason {
            return;
        }
        if let Some(Recording { reason, message, .. }) = fullness {
            let message = format!("PersistentPodState {}: {message}", key.name);
            let workload = object.workload.clone();
            self.tell(&workload, *reason, message);
        }
    }

    /// The API server has refused the write of this object as too large.
    pub fn on_status_too_large(&mut self, key: &NamespacedName, uid: &str) {
        let limit = self.limit;
        if let Some(object) = written_object(&mut self.objects, key, uid)
            && let Some(refused) = object.refused_size()
        {
            let present = object.room.size;
            if refused > present {
                let least = object.room.refused.unwrap_or(usize::MAX).min(refused);
                let first = limit.saturating_sub(REST + LEAST);
                object.room.refused = Some(least);
                object.room.ceiling = Some(if present < first && first < least {
                    first
                } else if least - present > LEAST {
                    present.midpoint(least)
                } else {
                    present
                });
            } else {
                object.room.ceiling.get_or_insert(present);
                object.room.bare = true;
            }
        }
        self.on_status_not_written(key, uid);
    }

    /// A write has gone through: there may be room for what waits for it.
    pub(super) fn room_written(object: &mut Object, size: usize) {
        let shrunk = size < object.room.size;
        object.room.resize(size);
        if std::mem::take(&mut object.room.bare) {
            object.touched.header();
        }
        let more = object.room.refused.filter(|refused| *refused > size + 2 * LEAST);
        if let Some(refused) = more.filter(|_| !object.room.held.is_empty() && !shrunk) {
            object.room.ceiling = Some(size.midpoint(refused));
        }
        if shrunk || more.is_some() {
            for pod in std::mem::take(&mut object.room.held) {
                object.touched.pod(&pod);
            }
        }
    }

    /// Has everything tried anew that the API server has refused as too large: what it takes may have changed.
    pub fn retry_full(&mut self) {
        let full = self.objects.iter_mut().filter(|(_, object)| object.room.ceiling.is_some());
        for (key, object) in full {
            object.room.ceiling = None;
            object.room.refused = None;
            object.room.bare = false;
            object.touched.header();
            for pod in std::mem::take(&mut object.room.held) {
                object.touched.pod(&pod);
            }
            self.work.statuses.insert(key.clone());
        }
    }
}
