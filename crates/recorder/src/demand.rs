//! How many Pods a workload's spec asks for, and by which names.

use serde_json::Value;

use crate::workload::Ordinals;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Like a StatefulSet: Pods are numbered, and `.spec.replicas` defaults to one.
    StatefulSet,
    /// The number of Pods is at this path and has no default. Pods may be numbered like those of a
    /// StatefulSet, or have any other names.
    Custom(ReplicasPath),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicasPath(Vec<String>);

impl ReplicasPath {
    /// Reads a path in the form of a scale subresource, such as `.spec.shape.size`. A path that does not
    /// begin with `.spec.` finds nothing.
    pub fn new(path: &str) -> Self {
        let fields = path.strip_prefix(".spec.").unwrap_or_default();
        Self(fields.split('.').map(str::to_owned).collect())
    }

    /// The names of the fields that lead from the spec to the number.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    fn find(&self, spec: &Value) -> Option<u64> {
        self.0.iter().try_fold(spec, |value, field| value.get(field))?.as_u64()
    }
}

impl Default for ReplicasPath {
    fn default() -> Self {
        Self::new(".spec.replicas")
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    ordinals: Ordinals,
    /// Whether the spec gives their number.
    is_counted: bool,
    /// Whether a Pod may have a name without an ordinal.
    is_freely_named: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Yes,
    /// The workload has fewer Pods than it wants, and the name may be that of a missing one.
    Maybe,
    No,
}

impl Demand {
    /// The demand of a StatefulSet: Pods with these ordinals.
    pub fn of_ordinals(ordinals: Ordinals) -> Self {
        Self { ordinals, is_counted: true, is_freely_named: false }
    }

    /// Reads a workload's `spec`. A field of the wrong type counts as missing, and an invalid item of
    /// `reserveOrdinals` is skipped.
    pub fn read(spec: &Value, naming: &Naming) -> Self {
        let start = spec["ordinals"]["start"].as_u64().unwrap_or(0);
        let replicas = match naming {
            Naming::StatefulSet => Some(ReplicasPath::default().find(spec).unwrap_or(1)),
            Naming::Custom(path) => path.find(spec),
        };
        let reserved = spec["reserveOrdinals"].as_array().into_iter().flatten().filter_map(range);
        Self {
            ordinals: Ordinals::new(start, replicas.unwrap_or(0), reserved),
            is_counted: replicas.is_some(),
            is_freely_named: matches!(naming, Naming::Custom(_)),
        }
    }

    pub fn replicas(&self) -> Option<u64> {
        self.is_counted.then(|| self.ordinals.replicas())
    }

    /// Whether this number of living Pods is all that the workload wants.
    pub fn is_met_by(&self, pods: usize) -> bool {
        self.replicas().is_some_and(|replicas| pods as u64 >= replicas)
    }

    /// Whether the workload wants a Pod of this name; `pods` is how many of its Pods live. A workload that
    /// does not say how many Pods it wants is taken to want each of them, so that no state is dropped.
    pub fn wants(&self, workload: &str, pod: &str, pods: usize) -> Wanted {
        if !self.is_counted || self.ordinals.wants(workload, pod) {
            Wanted::Yes
        } else if self.is_freely_named && !self.is_met_by(pods) {
            Wanted::Maybe
        } else {
            Wanted::No
        }
    }
}

/// Reads an item of `reserveOrdinals`: a number such as `3`, or a range such as `"3-5"`.
fn range(item: &Value) -> Option<(u64, u64)> {
    if let Some(ordinal) = item.as_u64() {
        return Some((ordinal, ordinal));
    }
    let (first, last) = item.as_str()?.split_once('-')?;
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted(demand: &Demand, pods: usize) -> Vec<u32> {
        (0..20).filter(|ordinal| demand.wants("w", &format!("w-{ordinal}"), pods) == Wanted::Yes).collect()
    }

    #[test]
    fn skips_reserved_numbers_and_ranges_of_an_openkruise_stateful_set() {
        let read = |spec: Value| Demand::read(&spec, &Naming::StatefulSet);
        let spec = json!({"replicas": 3, "reserveOrdinals": [1, "3-5", "x", "7-6", -1, null, "8", [2]]});
        assert_eq!(wanted(&read(spec), 0), [0, 2, 6], "only the invalid items are skipped");
        let spec = json!({"replicas": 2, "ordinals": {"start": 4}, "reserveOrdinals": [4]});
        assert_eq!(wanted(&read(spec), 0), [5, 6]);
        assert_eq!(read(json!({})).replicas(), Some(1));
        assert_eq!(read(json!({"replicas": 2})).wants("w", "w-2", 0), Wanted::No);
        assert_eq!(read(Value::Null).replicas(), Some(1));
    }

    #[test]
    fn reads_replicas_of_a_custom_kind_at_the_path_of_its_scale_subresource() {
        let spec = json!({"shape": {"size": 2}, "replicas": 9});
        let read = |path: &str| Demand::read(&spec, &Naming::Custom(ReplicasPath::new(path))).replicas();
        assert_eq!(read(".spec.shape.size"), Some(2));
        assert_eq!(read(".spec.replicas"), Some(9));
        for path in
            [".spec.shape", ".spec.shape.size.more", ".spec.", ".status.replicas", "spec.replicas", ""]
        {
            assert_eq!(read(path), None, "{path}");
        }
        assert_eq!(Demand::read(&spec, &Naming::Custom(ReplicasPath::default())).replicas(), Some(9));
    }

    #[test]
    fn may_want_any_name_while_pods_of_a_custom_kind_are_missing() {
        let demand = Demand::read(&json!({"replicas": 2}), &Naming::Custom(ReplicasPath::default()));
        for (name, pods, want) in [
            ("w-1", 2, Wanted::Yes),
            ("w-blue", 1, Wanted::Maybe),
            ("w-blue", 2, Wanted::No),
            ("w-2", 1, Wanted::Maybe),
            ("w-2", 2, Wanted::No),
        ] {
            assert_eq!(demand.wants("w", name, pods), want, "{name} {pods}");
        }
        assert!(!demand.is_met_by(1) && demand.is_met_by(2));
    }

    #[test]
    fn wants_every_pod_if_replicas_are_unknown() {
        for spec in [json!({}), json!({"replicas": "3"}), json!({"replicas": -1})] {
            let demand = Demand::read(&spec, &Naming::Custom(ReplicasPath::default()));
            assert_eq!((demand.replicas(), demand.wants("w", "w-7", 9)), (None, Wanted::Yes), "{spec}");
        }
    }
}
