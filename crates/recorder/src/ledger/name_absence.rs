//! For how long a workload has not listed the names of its entries.

use std::time::{Duration, Instant};

/// How long a name has to be absent before its entry is dropped, unless the caller changes it.
pub(crate) const NAME_ABSENCE: Duration = Duration::from_mins(10);

/// For how long a workload that lists the names of its Pods has not listed an entry's, while no
/// such Pod exists and nothing casts doubt on the names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NameAbsence {
    /// Not measured yet.
    #[default]
    New,
    /// This leader has known of it since then.
    Since(Instant),
    /// For as long as it takes to drop the entry.
    Overdue,
}

impl NameAbsence {
    /// Time has passed. `is_absent` is whether the name is certainly not listed now; if not, the
    /// measurement starts again.
    #[must_use]
    pub(super) fn after(self, now: Instant, period: Duration, is_absent: bool) -> Self {
        match self {
            _ if !is_absent => Self::New,
            Self::New => Self::Since(now),
            Self::Since(since) if now.saturating_duration_since(since) >= period => Self::Overdue,
            Self::Since(_) | Self::Overdue => self,
        }
    }
}
