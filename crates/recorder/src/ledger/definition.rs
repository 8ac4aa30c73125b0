//! Which objects get the compact form: what the administrator wants, and what the cluster's
//! definition of PersistentPodState keeps.

use pps_core::packed::{COMPACT_FROM, COMPACT_UNTIL};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactForm {
    /// Objects lose it: the administrator has switched it off, or OpenKruise's manager runs, whose
    /// updates of a status would erase it.
    pub is_off: bool,
    /// Whether the definition of PersistentPodState keeps it. Until that is known, no object gets
    /// or loses it.
    pub is_kept: Option<bool>,
    pub limits: CompactLimits,
}

/// Between the limits an object keeps its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactLimits {
    /// From how many states on an object gets the compact form.
    pub from: usize,
    /// Below how many states an object loses it.
    pub until: usize,
}

impl Default for CompactForm {
    fn default() -> Self {
        Self {
            is_off: false,
            is_kept: None,
            limits: CompactLimits {
                from: COMPACT_FROM,
                until: COMPACT_UNTIL,
            },
        }
    }
}

impl CompactForm {
    /// Whether a plain object with so many states should get it.
    pub(crate) fn suits_plain(self, states: usize) -> bool {
        states >= self.limits.from
    }

    /// Whether a compact object with so many states should keep it.
    pub(crate) fn suits_compact(self, states: usize) -> bool {
        states >= self.limits.until
    }
}
