//! Objects whose writes keep conflicting, or do not find the object: each is read again, and reported if that does not
//! help. An object may be gone without an event, for example because it is not in the backup that etcd was restored from.

use pps_core::Reason;
use tracing::{info, warn};

use super::worker::Worker;
use crate::decide::conflicts::AfterConflict;
use crate::decide::index::StatusWrite;
use crate::facts::{NamespacedName, PpsFact};
use crate::write::Failure;

impl Worker {
    pub(super) fn on_conflict(&mut self, write: &StatusWrite, failure: &Failure) {
        let next = self.conflicts.on_conflict(&write.key);
        if next == AfterConflict::Wait {
            return;
        }
        if next == AfterConflict::Report {
            let name = &write.key.name;
            let message = if matches!(failure, Failure::NotFound) {
                format!(
                    "install this product's definition of PersistentPodState: the API server has {name}, but does not find its status, so that nothing is recorded"
                )
            } else {
                format!(
                    "find out which client keeps writing PersistentPodState {name}: it changes the object before each write of the sidecar, so that nothing is recorded"
                )
            };
            warn!(object = %write.key, error = %failure, "the writes of an object keep conflicting");
            self.index.report(&write.workload, Reason::WriteConflicts, message);
        }
        if let Some(version) = self.index.resource_version(&write.key).map(str::to_owned) {
            let read = self.writer.clone().read_pps(write.key.clone(), version);
            self.begin_write(false, read);
        }
    }

    pub(super) fn on_pps_read(
        &mut self,
        key: &NamespacedName,
        known_version: &str,
        result: Result<Option<Box<PpsFact>>, Failure>,
    ) {
        match result {
            Ok(fact) => {
                info!(object = %key, exists = fact.is_some(), "read again after conflicts");
                self.index.on_object_read(key, known_version, fact);
                // An object of this name may have been created since.
                if self.index.resource_version(key).is_none() {
                    self.status_writes.forget(key);
                    self.conflicts.forget(key);
                }
            }
            Err(error) => warn!(object = %key, %error, "cannot read an object again after conflicts"),
        }
    }
}
