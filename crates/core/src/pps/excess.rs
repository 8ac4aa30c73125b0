//! Which [limit](crate::limits) a spec exceeds.

use super::{Spec, TargetReference};
use crate::limits::{
    MAX_ANNOTATIONS, MAX_API_VERSION_LENGTH, MAX_KEY_LENGTH, MAX_KIND_LENGTH, MAX_NAME_LENGTH,
    MAX_PREFERRED_TERMS, MAX_TOPOLOGY_KEYS,
};

impl Spec {
    /// A sentence that names a field beyond its limit, what it has and what it may have; `None` if
    /// there is none.
    ///
    /// An object like that is older than the limits, or another definition than this product's is
    /// installed.
    ///
    /// ```
    /// use pps_core::Spec;
    /// use serde_json::{from_value, json};
    ///
    /// let spec: Spec = from_value(json!({
    ///     "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
    ///     "requiredPersistentTopology": {"nodeTopologyKeys": vec!["zone"; 20_000]},
    /// }))?;
    ///
    /// assert_eq!(
    ///     spec.exceeds_limits().unwrap(),
    ///     "spec.requiredPersistentTopology.nodeTopologyKeys is a list of 20000: list at most 64",
    /// );
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn exceeds_limits(&self) -> Option<String> {
        self.exceeds_list_limits()
            .or_else(|| self.exceeds_length_limits())
    }

    /// The same for its lists only. Does not examine their items.
    pub fn exceeds_list_limits(&self) -> Option<String> {
        let preferred = &self.preferred_persistent_topology;
        let annotations = &self.persistent_pod_annotations;
        let required = self.required_persistent_topology.as_ref();
        check_list(
            "preferredPersistentTopology",
            preferred.len(),
            MAX_PREFERRED_TERMS,
        )
        .or_else(|| {
            check_list(
                "persistentPodAnnotations",
                annotations.len(),
                MAX_ANNOTATIONS,
            )
        })
        .or_else(|| {
            let field = "requiredPersistentTopology.nodeTopologyKeys";
            check_list(field, required?.node_topology_keys.len(), MAX_TOPOLOGY_KEYS)
        })
        .or_else(|| {
            let lengths = preferred
                .iter()
                .map(|term| term.preference.node_topology_keys.len());
            let (index, longest) = lengths.enumerate().max_by_key(|(_, length)| *length)?;
            let field = format!("preferredPersistentTopology[{index}].preference.nodeTopologyKeys");
            check_list(&field, longest, MAX_TOPOLOGY_KEYS)
        })
    }

    fn exceeds_length_limits(&self) -> Option<String> {
        let TargetReference {
            api_version,
            kind,
            name,
        } = &self.target_ref;
        let mut annotations = self.persistent_pod_annotations.iter();
        check_length(
            "spec.targetRef.apiVersion",
            api_version,
            MAX_API_VERSION_LENGTH,
        )
        .or_else(|| check_length("spec.targetRef.kind", kind, MAX_KIND_LENGTH))
        .or_else(|| check_length("spec.targetRef.name", name, MAX_NAME_LENGTH))
        .or_else(|| {
            let field = "a topology key of spec";
            self.topology_keys()
                .find_map(|key| check_length(field, key, MAX_KEY_LENGTH))
        })
        .or_else(|| {
            let field = "a key of spec.persistentPodAnnotations";
            annotations.find_map(|annotation| check_length(field, &annotation.key, MAX_KEY_LENGTH))
        })
    }
}

fn check_list(field: &str, length: usize, max: usize) -> Option<String> {
    (length > max).then(|| format!("spec.{field} is a list of {length}: list at most {max}"))
}

fn check_length(field: &str, text: &str, max: usize) -> Option<String> {
    let length = text.chars().count();
    (length > max).then(|| format!("{field} has {length} characters: use at most {max}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn excess(changes: &Value) -> Option<String> {
        let mut spec = json!({
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
        });
        for (field, value) in changes.as_object().unwrap() {
            spec[field] = value.clone();
        }
        serde_json::from_value::<Spec>(spec)
            .unwrap()
            .exceeds_limits()
    }

    #[test]
    fn names_the_field_beyond_its_limit() {
        let keys = |count: usize| json!({"nodeTopologyKeys": vec!["zone"; count]});
        let term = |count: usize| json!({"weight": 1, "preference": keys(count)});
        let long = "k".repeat(MAX_KEY_LENGTH + 1);
        for (changes, expected) in [
            (json!({"requiredPersistentTopology": keys(64)}), ""),
            (
                json!({"requiredPersistentTopology": keys(65)}),
                "spec.requiredPersistentTopology.nodeTopologyKeys is a list of 65: list at most 64",
            ),
            (
                json!({"preferredPersistentTopology": vec![term(64); 64]}),
                "",
            ),
            (
                json!({"preferredPersistentTopology": [term(1), term(65)]}),
                "spec.preferredPersistentTopology[1].preference.nodeTopologyKeys is a list of 65: \
                 list at most 64",
            ),
            (
                json!({"preferredPersistentTopology": vec![term(1); 65]}),
                "spec.preferredPersistentTopology is a list of 65: list at most 64",
            ),
            (json!({"persistentPodAnnotations": vec!["a"; 128]}), ""),
            (
                json!({"persistentPodAnnotations": vec!["a"; 129]}),
                "spec.persistentPodAnnotations is a list of 129: list at most 128",
            ),
            (
                json!({"persistentPodAnnotations": [long]}),
                "a key of spec.persistentPodAnnotations has 318 characters: use at most 317",
            ),
            (
                json!({"requiredPersistentTopology": {"nodeTopologyKeys": [long]}}),
                "a topology key of spec has 318 characters: use at most 317",
            ),
            (
                json!({"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w".repeat(254)}}),
                "spec.targetRef.name has 254 characters: use at most 253",
            ),
        ] {
            assert_eq!(excess(&changes).unwrap_or_default(), expected);
        }
    }
}
