//! Objects whose writes keep conflicting: each is read again, and reported if that does not help.

use pps_core::Reason;
use tracing::{info, warn};

use super::worker::Worker;
use crate::decide::conflicts::AfterConflict;
use crate::decide::index::StatusWrite;
use crate::facts::{NamespacedName, PpsFact};
use crate::write::Failure;

impl Worker {
    pub(super) fn on_conflict(&mut self, write: &StatusWrite) {
        let next = self.conflicts.on_conflict(&write.key);
        if next == AfterConflict::Wait {
            return;
        }
        if next == AfterConflict::Report {
            let message = format!(
                "find out which client keeps writing PersistentPodState {}: it changes the object before each write of the sidecar, so that nothing is recorded",
                write.key.name
            );
            warn!(object = %write.key, "the writes of an object keep conflicting");
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
                info!(object = %key, "read again after conflicts");
                self.index.on_object_read(key, known_version, fact);
            }
            Err(error) => warn!(object = %key, %error, "cannot read an object again after conflicts"),
        }
    }
}
