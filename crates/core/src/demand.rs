//! Which Pods a workload's spec asks for, by name and number.

use serde_json::Value;

use crate::workload::Ordinals;

/// How a workload's spec says which Pods it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Naming {
    /// As a StatefulSet does it: by ordinals, and one Pod if it does not say how many.
    StatefulSet,
    /// The number is at this path. Pods may have ordinals like those of a StatefulSet, or be named in
    /// a way that is not known.
    Custom(ReplicasPath),
}

/// Where in a workload's spec the number of its Pods is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicasPath(Vec<String>);

impl ReplicasPath {
    /// A path as a scale subresource names it, such as `.spec.shape.size`. One that does not begin
    /// with `.spec.` leads nowhere.
    pub fn new(path: &str) -> Self {
        let fields = path.strip_prefix(".spec.").unwrap_or_default();
        Self(fields.split('.').map(str::to_owned).collect())
    }

    fn find(&self, spec: &Value) -> Option<u64> {
        self.0.iter().try_fold(spec, |value, field| value.get(field))?.as_u64()
    }
}

impl Default for ReplicasPath {
    /// `.spec.replicas`.
    fn default() -> Self {
        Self::new(".spec.replicas")
    }
}

/// The Pods that a workload wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    ordinals: Ordinals,
    /// Whether the spec says how many they are.
    is_counted: bool,
    /// Whether a Pod may have a name that does not follow from the ordinals.
    is_freely_named: bool,
}

/// Whether a workload wants a Pod of some name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It does.
    Yes,
    /// The name does not tell, but the workload has fewer Pods than it wants: this may be one of those
    /// that are missing.
    Maybe,
    /// It does not.
    No,
}

impl Demand {
    /// What a StatefulSet asks for: Pods with these ordinals.
    pub fn of_ordinals(ordinals: Ordinals) -> Self {
        Self { ordinals, is_counted: true, is_freely_named: false }
    }

    /// Reads a workload's `spec`. What is not what it should be counts as missing: of the reserved
    /// ordinals each one for itself.
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

    /// How many Pods are wanted; none if the spec does not say.
    pub fn replicas(&self) -> Option<u64> {
        self.is_counted.then(|| self.ordinals.replicas())
    }

    /// Whether the workload has all the Pods that it wants, with so many that live.
    pub fn is_met_by(&self, pods: usize) -> bool {
        self.replicas().is_some_and(|replicas| pods as u64 >= replicas)
    }

    /// Whether the workload of that name, of which so many Pods live, wants a Pod of this name. If
    /// nobody knows how many it wants, it wants all.
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

/// A reserved ordinal, `3`, or a range of them, `"3-5"`.
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
    fn an_openkruise_stateful_set_reserves_numbers_and_ranges() {
        let read = |spec: Value| Demand::read(&spec, &Naming::StatefulSet);
        let spec = json!({"replicas": 3, "reserveOrdinals": [1, "3-5", "x", "7-6", -1, null, "8", [2]]});
        assert_eq!(wanted(&read(spec), 0), [0, 2, 6], "a bad item is skipped, not the list");
        let spec = json!({"replicas": 2, "ordinals": {"start": 4}, "reserveOrdinals": [4]});
        assert_eq!(wanted(&read(spec), 0), [5, 6]);
        assert_eq!(read(json!({})).replicas(), Some(1));
        assert_eq!(read(json!({"replicas": 2})).wants("w", "w-2", 0), Wanted::No);
        assert_eq!(read(Value::Null).replicas(), Some(1));
    }

    #[test]
    fn a_custom_kind_has_its_number_where_its_definition_says() {
        let spec = json!({"shape": {"size": 2}, "replicas": 9});
        let read = |path: &str| Demand::read(&spec, &Naming::Custom(ReplicasPath::new(path))).replicas();
        assert_eq!(read(".spec.shape.size"), Some(2));
        assert_eq!(read(".spec.replicas"), Some(9));
        for nowhere in
            [".spec.shape", ".spec.shape.size.more", ".spec.", ".status.replicas", "spec.replicas", ""]
        {
            assert_eq!(read(nowhere), None, "{nowhere}");
        }
        assert_eq!(Demand::read(&spec, &Naming::Custom(ReplicasPath::default())).replicas(), Some(9));
    }

    #[test]
    fn a_name_that_does_not_tell_is_wanted_while_pods_are_missing() {
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
    fn if_nobody_knows_how_many_are_wanted_all_are() {
        for spec in [json!({}), json!({"replicas": "3"}), json!({"replicas": -1})] {
            let demand = Demand::read(&spec, &Naming::Custom(ReplicasPath::default()));
            assert_eq!((demand.replicas(), demand.wants("w", "w-7", 9)), (None, Wanted::Yes), "{spec}");
        }
    }
}
