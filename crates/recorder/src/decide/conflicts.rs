//! Conflicts in a row: when an object has to be read again, and which objects keep conflicting.

use std::collections::HashMap;

use crate::facts::NamespacedName;

/// After so many conflicts in a row, what is known of the object may be wrong, and no event of a watch may
/// correct it.
const READ_AFTER: u32 = 3;
/// After so many, reading again has not helped, and users must know.
const REPORT_AFTER: u32 = 9;

/// Objects whose last write ended in a conflict, with the number of conflicts in a row.
#[derive(Debug, Default)]
pub struct Conflicts(HashMap<NamespacedName, u32>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterConflict {
    Wait,
    ReadAgain,
    Report,
}

impl Conflicts {
    pub fn on_conflict(&mut self, key: &NamespacedName) -> AfterConflict {
        let count = self.0.entry(key.clone()).or_default();
        *count = count.saturating_add(1);
        match *count {
            REPORT_AFTER => AfterConflict::Report,
            count if count.is_multiple_of(READ_AFTER) => AfterConflict::ReadAgain,
            _ => AfterConflict::Wait,
        }
    }

    pub fn forget(&mut self, key: &NamespacedName) {
        self.0.remove(key);
    }

    pub fn retain(&mut self, is_known: impl Fn(&NamespacedName) -> bool) {
        self.0.retain(|key, _| is_known(key));
    }

    pub fn persistent(&self) -> usize {
        self.0.values().filter(|count| **count >= REPORT_AFTER).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_again_after_three_conflicts_in_a_row_and_reports_once() {
        let (mut conflicts, key) = (Conflicts::default(), NamespacedName::new("n", "p"));
        let next: Vec<_> = (0..12).map(|_| conflicts.on_conflict(&key)).collect();
        let at = |what| next.iter().enumerate().filter(move |(_, one)| **one == what).map(|(at, _)| at + 1);
        assert_eq!(at(AfterConflict::ReadAgain).collect::<Vec<_>>(), [3, 6, 12]);
        assert_eq!(at(AfterConflict::Report).collect::<Vec<_>>(), [9]);
        assert_eq!(conflicts.persistent(), 1);
        conflicts.forget(&key);
        assert_eq!((conflicts.persistent(), conflicts.on_conflict(&key)), (0, AfterConflict::Wait));
    }
}
