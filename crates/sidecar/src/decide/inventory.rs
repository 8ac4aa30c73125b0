//! Inventory: what the watches have reported, indexed for the questions that decisions ask. Holds data; decides nothing.

mod capacity;
mod changed_states;
mod compaction;
mod dirty;
mod entry_index;
mod node_absences;
mod pods;
mod renewals;
mod tracked_pps;
mod workloads;

pub(crate) use self::capacity::{FittedChanges, OBJECT_OVERHEAD, Sizes, overlay_size};
#[cfg(test)]
pub(crate) use self::changed_states::RENDERED;
pub(crate) use self::changed_states::{ChangedStates, EntryChange, size_of as size_of_bucket};
pub(crate) use self::compaction::{CompactForm, Extent};
pub(crate) use self::dirty::Dirty;
pub(crate) use self::entry_index::EntryIndex;
pub(crate) use self::node_absences::{Absence, NodeAbsences, forgets_nodes};
pub(crate) use self::pods::Pods;
pub(crate) use self::renewals::Renewal;
pub(crate) use self::tracked_pps::{Header, InFlight, MovedEntry, Source, TrackedPps};
pub(crate) use self::workloads::{KindCoverage, Workloads};
