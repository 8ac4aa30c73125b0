//! What `pin` and `unpin` write.

mod ask;
mod dropped;
mod labels;
mod object;
mod plan;
mod unpin;
mod workload;

pub use self::ask::Ask;
pub use self::labels::warn_of_missing_labels;
pub use self::plan::{Change, Plan, Step, World, generated, plan, set_fields};
pub use self::unpin::{still_waiting, unpin};
pub use self::workload::{Resource, WorkloadName, find_resource};

#[cfg(test)]
mod tests;
