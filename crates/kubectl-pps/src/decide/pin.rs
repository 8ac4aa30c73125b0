//! What `pin` and `unpin` write.

mod ask;
mod dropped;
mod generated;
mod labels;
mod lost;
mod object;
mod plan;
mod unpin;
mod workload;

pub use self::ask::Ask;
pub use self::generated::{Generated, generated, set_fields};
pub use self::labels::warn_of_missing_labels;
pub use self::lost::warn_of_lost_places;
pub use self::plan::{Change, Plan, Step, World, plan};
pub use self::unpin::{still_waiting, unpin};
pub use self::workload::{Resource, WorkloadName, find_resource};

#[cfg(test)]
mod tests;
