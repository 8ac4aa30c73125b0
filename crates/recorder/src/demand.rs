//! How many Pods a workload's spec asks for, and by which names.

use std::sync::Arc;

use pps_core::succession::ordinal;
use serde_json::Value;

use crate::facts::interner::Interner;
use crate::facts::states::States;
use crate::names::{Names, NamesDoubt, NamesPath};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Like a StatefulSet: Pods are numbered, and `.spec.replicas` defaults to one.
    StatefulSet,
    /// The number of Pods is at this path and has no default. Pods may be numbered like those of a
    /// StatefulSet, or have any other names.
    Custom(ReplicasPath),
    /// The workload lists the names of its Pods. If the number of Pods is at its path, there are at
    /// least as many names.
    Listed {
        names: NamesPath,
        replicas: ReplicasPath,
    },
}

impl Naming {
    /// Whether the names of the Pods are read from the status of the workload.
    pub fn reads_status(&self) -> bool {
        matches!(self, Self::Listed { names, .. } if names.is_in_status())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicasPath(Vec<String>);

impl ReplicasPath {
    /// Reads a path in the form of a scale subresource, such as `.spec.shape.size`. A path that
    /// does not begin with `.spec.` finds nothing.
    pub fn new(path: &str) -> Self {
        let fields = path.strip_prefix(".spec.").unwrap_or_default();
        Self(fields.split('.').map(str::to_owned).collect())
    }

    /// The names of the fields that lead from the spec to the number.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    fn find(&self, spec: &Value) -> Option<u64> {
        self.0
            .iter()
            .try_fold(spec, |value, field| value.get(field))?
            .as_u64()
    }
}

impl Default for ReplicasPath {
    fn default() -> Self {
        Self::new(".spec.replicas")
    }
}

/// The ordinals that a workload wants: the first `replicas` from `start` that are not reserved. No
/// method looks at each replica, or at each reserved range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    start: u64,
    /// None if the spec does not give the number.
    replicas: Option<u64>,
    /// Sorted, and neither overlapping nor adjacent.
    reserved: Vec<ReservedRange>,
    /// Whether a Pod may have a name without an ordinal.
    is_freely_named: bool,
    /// The names of the wanted Pods, if the workload lists them: then nothing else counts.
    names: Option<Names>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReservedRange {
    ordinals: Ordinals,
    /// How many ordinals are reserved from the workload's `start` to the last one here.
    reserved_so_far: u64,
}

/// Both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ordinals {
    first: u64,
    last: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Yes,
    /// The workload has fewer Pods than it wants, and the name may be that of a missing one; or it
    /// has more, and its number says nothing of the name.
    Maybe,
    No,
}

impl Demand {
    /// The demand of a StatefulSet that reserves no ordinals.
    pub fn numbered(start: u64, replicas: u64) -> Self {
        Self {
            start,
            replicas: Some(replicas),
            ..Self::default()
        }
    }

    /// Reads a workload's `spec`. A field of the wrong type counts as missing, and an invalid item
    /// of `reserveOrdinals` is skipped.
    pub fn read(spec: &Value, naming: &Naming) -> Self {
        Self::read_with_status(spec, &Value::Null, naming)
    }

    /// Reads a workload's `spec`, and its `status` if the naming [reads
    /// it](Naming::reads_status).
    pub fn read_with_status(spec: &Value, status: &Value, naming: &Naming) -> Self {
        let start = spec["ordinals"]["start"].as_u64().unwrap_or(0);
        let reserved = spec["reserveOrdinals"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(range);
        Self {
            start,
            replicas: match naming {
                Naming::StatefulSet => Some(ReplicasPath::default().find(spec).unwrap_or(1)),
                Naming::Custom(path) | Naming::Listed { replicas: path, .. } => path.find(spec),
            },
            reserved: merge(start, reserved),
            is_freely_named: matches!(naming, Naming::Custom(_)),
            names: match naming {
                Naming::Listed { names, .. } => Some(names.read(spec, status)),
                Naming::StatefulSet | Naming::Custom(_) => None,
            },
        }
    }

    /// How many Pods the workload wants: the number that it gives, else that of the names.
    pub fn replicas(&self) -> Option<u64> {
        self.replicas.or_else(|| self.names.as_ref()?.count())
    }

    /// The names of the wanted Pods, if the workload lists them.
    pub(crate) fn names(&self) -> Option<&Names> {
        self.names.as_ref()
    }

    /// Shares the listed names in memory.
    pub(crate) fn intern(&mut self, interner: &mut Interner) {
        if let Some(names) = &mut self.names {
            names.intern(interner);
        }
    }

    /// Why the names that the workload lists do not say which Pods it wants, if so. `living` are
    /// the names of its living Pods, and `recorded` are the states of its PPS.
    pub(crate) fn doubt<'a>(
        &self,
        living: impl IntoIterator<Item = &'a Arc<str>>,
        recorded: &States,
    ) -> Option<NamesDoubt> {
        self.names.as_ref()?.doubt(self.replicas, living, recorded)
    }

    /// Whether the workload has exactly the number of living Pods that it wants. If it has more,
    /// its number does not count all of them, as that of an operator which counts workers and also
    /// makes masters.
    pub fn is_met_by(&self, pods: usize) -> bool {
        self.replicas == Some(pods as u64)
    }

    /// Whether the workload wants a Pod of this name; `pods` is how many of its Pods live. A
    /// workload that does not say how many Pods it wants is taken to want each of them, so that no
    /// state is dropped.
    pub fn wants(&self, workload: &str, pod: &str, pods: usize) -> Wanted {
        if self.wants_by_name(workload, pod) {
            Wanted::Yes
        } else if self.is_freely_named && !self.is_met_by(pods) {
            Wanted::Maybe
        } else {
            Wanted::No
        }
    }

    /// Whether the name of a Pod does not say if the workload wants it, so that its number of Pods
    /// decides.
    pub fn depends_on_count(&self, workload: &str, pod: &str) -> bool {
        self.is_freely_named && !self.wants_by_name(workload, pod)
    }

    fn wants_by_name(&self, workload: &str, pod: &str) -> bool {
        if let Some(names) = &self.names {
            return names.may_have(pod);
        }
        self.replicas.is_none()
            || ordinal(workload, pod).is_some_and(|ordinal| self.contains(ordinal))
    }

    fn contains(&self, ordinal: u64) -> bool {
        let Some(offset) = ordinal.checked_sub(self.start) else {
            return false;
        };
        let before = self
            .reserved
            .partition_point(|range| range.ordinals.first <= ordinal);
        let nearest = before.checked_sub(1).map(|index| self.reserved[index]);
        let skipped = match nearest {
            Some(range) if range.ordinals.last >= ordinal => return false,
            Some(range) => range.reserved_so_far,
            None => 0,
        };
        self.replicas
            .is_some_and(|replicas| offset - skipped < replicas)
    }
}

/// Reads an item of `reserveOrdinals`: a number such as `3`, or a range such as `"3-5"`.
fn range(item: &Value) -> Option<Ordinals> {
    if let Some(ordinal) = item.as_u64() {
        return Some(Ordinals {
            first: ordinal,
            last: ordinal,
        });
    }
    let (first, last) = item.as_str()?.split_once('-')?;
    Some(Ordinals {
        first: first.trim().parse().ok()?,
        last: last.trim().parse().ok()?,
    })
}

/// The union of ranges in any order, without what is before `start`; a range whose end is before
/// its beginning is skipped.
fn merge(start: u64, ranges: impl Iterator<Item = Ordinals>) -> Vec<ReservedRange> {
    let mut ranges: Vec<Ordinals> = ranges.filter(|range| range.first <= range.last).collect();
    ranges.sort_unstable();
    ranges.dedup_by(|next, merged| {
        let is_joined = next.first <= merged.last.saturating_add(1);
        if is_joined {
            merged.last = merged.last.max(next.last);
        }
        is_joined
    });
    let mut reserved_so_far = 0_u64;
    let counted = ranges
        .into_iter()
        .filter(|range| range.last >= start)
        .map(|ordinals| {
            let first = ordinals.first.max(start);
            reserved_so_far = reserved_so_far
                .saturating_add(ordinals.last - first)
                .saturating_add(1);
            ReservedRange {
                ordinals,
                reserved_so_far,
            }
        });
    counted.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn wanted(demand: &Demand, pods: usize) -> Vec<u32> {
        (0..20)
            .filter(|ordinal| demand.wants("w", &format!("w-{ordinal}"), pods) == Wanted::Yes)
            .collect()
    }

    #[test]
    fn skips_reserved_numbers_and_ranges_of_an_openkruise_stateful_set() {
        let read = |spec: Value| Demand::read(&spec, &Naming::StatefulSet);
        let spec =
            json!({"replicas": 3, "reserveOrdinals": [1, "3-5", "x", "7-6", -1, null, "8", [2]]});
        assert_eq!(
            wanted(&read(spec), 0),
            [0, 2, 6],
            "only the invalid items are skipped"
        );
        let spec = json!({"replicas": 2, "ordinals": {"start": 4}, "reserveOrdinals": [4]});
        assert_eq!(wanted(&read(spec), 0), [5, 6]);
        assert_eq!(read(json!({})).replicas(), Some(1));
        assert_eq!(
            read(json!({"replicas": 2})).wants("w", "w-2", 0),
            Wanted::No
        );
        assert_eq!(read(Value::Null).replicas(), Some(1));
    }

    #[test]
    fn reads_replicas_of_a_custom_kind_at_the_path_of_its_scale_subresource() {
        let spec = json!({"shape": {"size": 2}, "replicas": 9});
        let read =
            |path: &str| Demand::read(&spec, &Naming::Custom(ReplicasPath::new(path))).replicas();
        assert_eq!(read(".spec.shape.size"), Some(2));
        assert_eq!(read(".spec.replicas"), Some(9));
        for path in [
            ".spec.shape",
            ".spec.shape.size.more",
            ".spec.",
            ".status.replicas",
            "spec.replicas",
            "",
        ] {
            assert_eq!(read(path), None, "{path}");
        }
        assert_eq!(
            Demand::read(&spec, &Naming::Custom(ReplicasPath::default())).replicas(),
            Some(9)
        );
    }

    #[test]
    fn may_want_any_name_unless_a_custom_kind_has_as_many_pods_as_it_wants() {
        let demand = Demand::read(
            &json!({"replicas": 2}),
            &Naming::Custom(ReplicasPath::default()),
        );
        for (name, pods, want) in [
            ("w-1", 2, Wanted::Yes),
            ("w-blue", 1, Wanted::Maybe),
            ("w-blue", 2, Wanted::No),
            ("w-2", 1, Wanted::Maybe),
            ("w-2", 2, Wanted::No),
            ("w-master-0", 4, Wanted::Maybe),
        ] {
            assert_eq!(demand.wants("w", name, pods), want, "{name} {pods}");
        }
        assert_eq!(
            [1, 2, 3].map(|pods| demand.is_met_by(pods)),
            [false, true, false]
        );
    }

    #[test]
    fn wants_every_pod_if_replicas_are_unknown() {
        for spec in [json!({}), json!({"replicas": "3"}), json!({"replicas": -1})] {
            let demand = Demand::read(&spec, &Naming::Custom(ReplicasPath::default()));
            assert_eq!(
                (demand.replicas(), demand.wants("w", "w-7", 9)),
                (None, Wanted::Yes),
                "{spec}"
            );
        }
    }

    fn numbered(start: u64, replicas: u64, reserved: &[(u64, u64)]) -> Demand {
        let reserved = reserved
            .iter()
            .map(|&(first, last)| Ordinals { first, last });
        Demand {
            reserved: merge(start, reserved),
            ..Demand::numbered(start, replicas)
        }
    }

    #[test]
    fn counts_from_start_and_skips_reserved_ordinals() {
        let wanted = |start, replicas, reserved: &[_]| {
            let demand = numbered(start, replicas, reserved);
            (0..20)
                .filter(|ordinal| demand.contains(*ordinal))
                .collect::<Vec<_>>()
        };
        assert_eq!(wanted(0, 3, &[]), [0, 1, 2]);
        assert_eq!(wanted(5, 3, &[]), [5, 6, 7]);
        assert_eq!(wanted(0, 3, &[(1, 1)]), [0, 2, 3]);
        assert_eq!(wanted(2, 3, &[(0, 2), (4, 6), (5, 5)]), [3, 7, 8]);
        assert_eq!(wanted(0, 0, &[]), Vec::<u64>::new());
        assert!(Demand::numbered(0, u64::MAX).contains(u64::MAX - 1));
    }

    proptest! {
        #[test]
        fn wants_the_ordinals_that_counting_finds(
            start in 0_u64..30,
            replicas in 0_u64..30,
            reserved in proptest::collection::vec((0_u64..80, 0_u64..6), 0..6),
        ) {
            let reserved: Vec<_> = reserved.into_iter().map(|(first, length)| (first, first + length)).collect();
            let mut expected = Vec::new();
            let mut next = start;
            while (expected.len() as u64) < replicas {
                if !reserved.iter().any(|(first, last)| (*first..=*last).contains(&next)) {
                    expected.push(next);
                }
                next += 1;
            }
            let demand = numbered(start, replicas, &reserved);
            let actual: Vec<_> = (0..next + 50).filter(|ordinal| demand.contains(*ordinal)).collect();
            prop_assert_eq!(actual, expected);
        }
    }
}
