//! Whether a spec is larger than the limits. An object like that is older than the limits, or another definition than this
//! product's is installed.

use pps_core::Spec;
use pps_core::limits::{MAX_ANNOTATIONS, MAX_KEY_LENGTH, MAX_PREFERRED_TERMS, MAX_TOPOLOGY_KEYS};

/// A sentence that names the field, what it has and what it may have; `None` if all is within the limits.
pub(crate) fn exceeded(spec: &Spec) -> Option<String> {
    let too_long = |field: &str, length: usize, max: usize| {
        (length > max).then(|| format!("{field} has {length} items: list at most {max}"))
    };
    let terms = &spec.preferred_persistent_topology;
    too_long("spec.preferredPersistentTopology", terms.len(), MAX_PREFERRED_TERMS)
        .or_else(|| {
            let annotations = spec.persistent_pod_annotations.len();
            too_long("spec.persistentPodAnnotations", annotations, MAX_ANNOTATIONS)
        })
        .or_else(|| {
            let required = spec.required_persistent_topology.iter();
            let mut all = required.chain(terms.iter().map(|term| &term.preference));
            all.find_map(|term| {
                too_long("a list of nodeTopologyKeys", term.node_topology_keys.len(), MAX_TOPOLOGY_KEYS)
            })
        })
        .or_else(|| {
            let annotations =
                spec.persistent_pod_annotations.iter().map(|annotation| annotation.key.as_str());
            let length =
                spec.topology_keys().chain(annotations).map(str::len).find(|it| *it > MAX_KEY_LENGTH)?;
            Some(format!("a key in spec has {length} characters: use at most {MAX_KEY_LENGTH}"))
        })
}
