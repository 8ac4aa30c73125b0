//! What speaks for and against the compact form of recorded states.

use pps_core::packed::{COMPACT_FROM, COMPACT_UNTIL};

/// Whether objects may have the compact form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactForm {
    /// The administrator has switched it off, or OpenKruise's manager runs, whose updates of a status erase it.
    pub(crate) is_off: bool,
    /// Whether the definition of PersistentPodState keeps it, if that is known.
    pub(crate) is_kept: Option<bool>,
    /// From how many states on an object gets it, and below how many it loses it.
    pub(crate) limits: (usize, usize),
}

impl Default for CompactForm {
    fn default() -> Self {
        Self { is_off: false, is_kept: None, limits: (COMPACT_FROM, COMPACT_UNTIL) }
    }
}

impl CompactForm {
    /// Whether an object with so many states should have it. Between the limits an object stays as it is.
    pub(crate) fn suits(self, states: usize, is_compact: bool) -> bool {
        states >= if is_compact { self.limits.1 } else { self.limits.0 }
    }
}

/// What speaks against another form of an object than it has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Compaction {
    /// The API server has not stored the compact form, although the definition seems to have it.
    pub(crate) is_held: bool,
    /// The API server has refused `podStates` of this size as too large.
    pub(crate) refused_plain_size: Option<usize>,
    /// With these states the compact form was no smaller.
    pub(crate) saved_nothing_at: Option<Extent>,
}

/// How many states an object has, and their size in `podStates`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) states: usize,
    pub(crate) plain_size: usize,
}

impl Compaction {
    /// Whether the API server has refused to store another form than the object has.
    pub(crate) fn is_refused(self) -> bool {
        self.is_held || self.refused_plain_size.is_some()
    }

    /// Whether the compact form of these states is known to be no smaller. To examine that costs time for each state. So
    /// it is done again when there are twice as many, or when all are `examined` and their size has changed: most events
    /// of an object change no state.
    pub(crate) fn saves_nothing(self, now: Extent, examined: bool) -> bool {
        self.saved_nothing_at
            .is_some_and(|before| now == before || (!examined && now.states < 2 * before.states))
    }
}
