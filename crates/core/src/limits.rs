//! The limits on everything that a user or the sidecar writes. The schema, the validation, the plan and the sidecar use
//! the same numbers. Each is far above what real use needs.

use crate::pps::{NodeTopologyTerm, Spec};

/// Keys in one topology term.
pub const MAX_TOPOLOGY_KEYS: usize = 64;
/// Preferred topology terms in one PPS.
pub const MAX_PREFERRED_TERMS: usize = 64;
/// Annotations that one PPS persists.
pub const MAX_ANNOTATIONS: usize = 128;
/// Characters in a label or annotation key: a prefix of 253, a slash, and a name of 63.
pub const MAX_KEY_LENGTH: usize = 317;
/// Characters in the name of an object.
pub const MAX_NAME_LENGTH: usize = 253;
/// Characters in an API version: a group of 253, a slash, and a version of 63.
pub const MAX_API_VERSION_LENGTH: usize = 317;
/// Characters in a kind.
pub const MAX_KIND_LENGTH: usize = 63;
/// Entries in `podStates`. What etcd takes in one request is reached long before.
pub const MAX_POD_STATES: usize = 100_000;
/// Node labels in one entry: one for each key that a spec can name.
pub const MAX_RECORDED_LABELS: usize = MAX_TOPOLOGY_KEYS * (1 + MAX_PREFERRED_TERMS);
/// Characters in the value of a label.
pub const MAX_LABEL_VALUE_LENGTH: usize = 63;
/// Characters in the value of an annotation: the API server takes as much for all annotations of an object together.
pub const MAX_ANNOTATION_VALUE_LENGTH: usize = 256 * 1024;
/// Characters in a UID.
pub const MAX_UID_LENGTH: usize = 128;
/// Conditions of one PPS.
pub const MAX_CONDITIONS: usize = 32;
/// Characters in the type of a condition. This limit and the next two are those of Kubernetes' own conditions.
pub const MAX_CONDITION_TYPE_LENGTH: usize = 316;
/// Characters in the reason of a condition.
pub const MAX_REASON_LENGTH: usize = 1024;
/// Characters in the message of a condition.
pub const MAX_CONDITION_MESSAGE_LENGTH: usize = 32 * 1024;
/// Errors or warnings that one answer lists. It says how many more there are.
pub const MAX_MESSAGES: usize = 20;
/// Items in a list of a Pod's node affinity, together with what is injected: its terms, required or preferred, and the
/// expressions in a term. A topology is added to each required term, after a comparison with each of its expressions.
pub const MAX_POD_ITEMS: usize = 128;

/// Says that a list is too long; `None` if it is not.
pub(crate) fn describe_excess(length: usize, max: usize) -> Option<[String; 2]> {
    (length > max).then(|| [format!("a list of {length}"), format!("list at most {max}")])
}

/// The messages, at most [`MAX_MESSAGES`] of them, and how many more there are.
pub fn shorten_list(mut messages: Vec<String>) -> Vec<String> {
    if let Some(more) = messages.len().checked_sub(MAX_MESSAGES).filter(|more| *more > 0) {
        messages.truncate(MAX_MESSAGES);
        messages.push(format!("and {more} more"));
    }
    messages
}

impl Spec {
    /// A sentence that names a field beyond its limit, what it has and what it may have; `None` if there is none.
    ///
    /// An object like that is older than the limits, or another definition than this product's is installed.
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
        self.exceeds_list_limits().or_else(|| self.exceeds_length_limits())
    }

    /// The same for its lists only. Does not examine their items.
    pub(crate) fn exceeds_list_limits(&self) -> Option<String> {
        let keys = |term: &NodeTopologyTerm| term.node_topology_keys.len();
        let preferred = &self.preferred_persistent_topology;
        let required = self.required_persistent_topology.iter().map(keys).max();
        let longest = preferred.iter().map(|term| keys(&term.preference)).max();
        let lists = [
            ("preferredPersistentTopology", Some(preferred.len()), MAX_PREFERRED_TERMS),
            ("persistentPodAnnotations", Some(self.persistent_pod_annotations.len()), MAX_ANNOTATIONS),
            ("requiredPersistentTopology.nodeTopologyKeys", required, MAX_TOPOLOGY_KEYS),
            ("preferredPersistentTopology.nodeTopologyKeys", longest, MAX_TOPOLOGY_KEYS),
        ];
        let (field, length, max) = lists.into_iter().find(|(_, length, max)| *length > Some(*max))?;
        Some(format!("spec.{field} is a list of {}: list at most {max}", length?))
    }

    fn exceeds_length_limits(&self) -> Option<String> {
        let target = &self.target_ref;
        let fields = [
            ("spec.targetRef.apiVersion", target.api_version.as_str(), MAX_API_VERSION_LENGTH),
            ("spec.targetRef.kind", &target.kind, MAX_KIND_LENGTH),
            ("spec.targetRef.name", &target.name, MAX_NAME_LENGTH),
        ];
        let keys = self.topology_keys().map(|key| ("a topology key of spec", key, MAX_KEY_LENGTH));
        let annotations = &self.persistent_pod_annotations;
        let annotations = annotations.iter().map(|annotation| {
            ("a key of spec.persistentPodAnnotations", annotation.key.as_str(), MAX_KEY_LENGTH)
        });
        let (field, length, max) = fields
            .into_iter()
            .chain(keys)
            .chain(annotations)
            .map(|(field, text, max)| (field, text.chars().count(), max))
            .find(|(_, length, max)| length > max)?;
        Some(format!("{field} has {length} characters: use at most {max}"))
    }
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
        serde_json::from_value::<Spec>(spec).unwrap().exceeds_limits()
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
            (json!({"preferredPersistentTopology": vec![term(64); 64]}), ""),
            (
                json!({"preferredPersistentTopology": [term(1), term(65)]}),
                "spec.preferredPersistentTopology.nodeTopologyKeys is a list of 65: list at most 64",
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

    #[test]
    fn a_list_of_messages_ends_with_the_number_of_the_others() {
        let list = |count: usize| shorten_list(vec!["wrong".into(); count]);
        assert_eq!(list(20), vec!["wrong"; 20]);
        assert_eq!(list(21).len(), 21);
        assert_eq!(list(21)[20], "and 1 more");
        assert_eq!(list(900)[20], "and 880 more");
        assert!(list(0).is_empty());
    }
}
