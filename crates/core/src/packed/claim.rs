//! Whether an object has the compact form although the API server does not show it.

use serde_json::Value;

/// Whether some client has written the compact form and none has removed it, as the managed fields
/// say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PackedClaim {
    #[default]
    No,
    /// It is so; under a definition without the compact form, also after it was removed.
    Yes,
    /// They say nothing of the status. The API server drops those of an object that would be too
    /// large with them, and they do not come back.
    Unknown,
}

impl PackedClaim {
    /// From what each client has written of the status: `f:status` of its managed fields.
    pub fn of<'a>(statuses: impl Iterator<Item = &'a Value>) -> Self {
        let mut claim = Self::Unknown;
        for status in statuses {
            if status.get("f:packed").is_some() {
                return Self::Yes;
            }
            claim = Self::No;
        }
        claim
    }

    /// Whether the definition may hide states of an object that shows no compact form, but `shown`
    /// states in `podStates`, and in `status.recorded` how many it has. An object whose status
    /// nobody has written hides none.
    pub fn may_hide_states(self, shown: usize, recorded: Option<i64>, was_written: bool) -> bool {
        // Some may be shown because another client has recorded a Pod in `podStates` before.
        // `OpenKruise`'s definition hides the number as well.
        let are_all =
            |recorded| shown > 0 && i64::try_from(shown).is_ok_and(|shown| shown >= recorded);
        let are_all_shown = recorded.is_some_and(are_all);
        match self {
            Self::No => false,
            Self::Yes => !are_all_shown,
            Self::Unknown => was_written && !are_all_shown,
        }
    }
}
