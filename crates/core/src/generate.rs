//! The PPS that a workload's annotations ask for.

use std::collections::BTreeMap;

use crate::pps::{NodeTopologyTerm, PodAnnotation, PreferredTopologyTerm, Spec, TargetReference, ValueFrom};

/// Set to `"true"`, asks for a PPS.
pub const AUTO_GENERATE: &str = "kruise.io/auto-generate-persistent-pod-state";
/// Comma-separated keys of the required topology.
pub const REQUIRED_TOPOLOGY: &str = "kruise.io/required-persistent-topology";
/// Comma-separated keys of one preferred topology, of weight 100.
pub const PREFERRED_TOPOLOGY: &str = "kruise.io/preferred-persistent-topology";
/// Comma-separated keys of the annotations to persist. `key=PodIPsJSON` and `key=PodIPsCSV` also set `valueFrom`.
pub const POD_ANNOTATIONS: &str = "kruise.io/persistent-pod-annotations";

/// All annotations of a workload that this module reads.
pub const WORKLOAD_ANNOTATIONS: [&str; 4] =
    [AUTO_GENERATE, REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY, POD_ANNOTATIONS];

/// The label of every generated PPS. Its value is [`FIELD_MANAGER`].
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// The sidecar's field manager in server-side apply, and the reporting component of its Events.
pub const FIELD_MANAGER: &str = "pps-sidecar";

/// What a workload's annotations ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The spec. Fields without an annotation are not set.
    pub spec: Spec,
    /// Sentences for users about values that were ignored.
    pub warnings: Vec<String>,
}

/// Reads a workload's annotations. None if they do not ask for a PPS, or name nothing to persist.
pub fn read_request(target: &TargetReference, annotations: &BTreeMap<String, String>) -> Option<Request> {
    if annotations.get(AUTO_GENERATE).map(|value| value.trim()) != Some("true") {
        return None;
    }
    let items = |annotation: &str| items(annotations.get(annotation).map_or("", String::as_str));
    let term =
        |keys: Vec<String>| (!keys.is_empty()).then_some(NodeTopologyTerm { node_topology_keys: keys });

    let mut warnings = Vec::new();
    let required = term(items(REQUIRED_TOPOLOGY));
    let preferred = term(items(PREFERRED_TOPOLOGY));
    let mut persistent = Vec::new();
    for item in items(POD_ANNOTATIONS) {
        match pod_annotation(&item) {
            Ok(PodAnnotation { key, .. }) if key.is_empty() => {
                warnings.push(format!(
                    "annotation {POD_ANNOTATIONS}: ignored {item:?}, which has no key; write KEY=SOURCE"
                ));
            }
            Ok(PodAnnotation { key, .. }) if persistent.iter().any(|known: &PodAnnotation| known.key == key) => {
                warnings.push(format!(
                    "annotation {POD_ANNOTATIONS}: ignored {item:?}, since {key} is listed before; remove it"
                ));
            }
            Ok(annotation) => persistent.push(annotation),
            Err(unknown) => warnings.push(format!(
                "annotation {POD_ANNOTATIONS}: ignored {item:?}, whose source {unknown:?} is unknown; use PodIPsJSON, PodIPsCSV or the key alone"
            )),
        }
    }
    if required.is_none() && preferred.is_none() && persistent.is_empty() {
        return None;
    }
    let spec = Spec {
        target_ref: target.clone(),
        required_persistent_topology: required,
        preferred_persistent_topology: preferred
            .map(|preference| PreferredTopologyTerm { weight: 100, preference })
            .into_iter()
            .collect(),
        persistent_pod_annotations: persistent,
        ..Spec::default()
    };
    Some(Request { spec, warnings })
}

/// The name for the PPS of a workload if the PPS of the workload's own name belongs to a workload of another kind:
/// `<name>-<8 hex digits, a hash of group and kind>`, at most 253 characters.
pub fn second_name(target: &TargetReference) -> String {
    // FNV-1a, since the standard library's hashers may change between versions.
    let mut hash: u32 = 0x811c_9dc5;
    for byte in target.group().bytes().chain([b'/']).chain(target.kind.bytes()) {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    let length = 253 - "-00000000".len();
    let name: String = target.name.chars().take(length).collect();
    format!("{}-{hash:08x}", name.trim_end_matches(['-', '.']))
}

/// Whether a spec has the requested values in the fields that come from annotations. Other fields, such as the retention
/// policy, do not matter.
pub fn is_satisfied_by(asked: &Spec, actual: &Spec) -> bool {
    asked.target_ref == actual.target_ref
        && asked.required_persistent_topology == actual.required_persistent_topology
        && asked.preferred_persistent_topology == actual.preferred_persistent_topology
        && asked.persistent_pod_annotations == actual.persistent_pod_annotations
}

/// The items of a comma-separated list: trimmed, without empty ones and repeats.
fn items(list: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        if !items.iter().any(|known| known == item) {
            items.push(item.into());
        }
    }
    items
}

/// Reads `key` or `key=SOURCE`. The error is an unknown source.
fn pod_annotation(item: &str) -> Result<PodAnnotation, String> {
    let Some((key, source)) = item.split_once('=') else {
        return Ok(PodAnnotation { key: item.into(), value_from: None });
    };
    let value_from = match source.trim() {
        "PodIPsJSON" => ValueFrom::PodIpsJson,
        "PodIPsCSV" => ValueFrom::PodIpsCsv,
        unknown => return Err(unknown.into()),
    };
    Ok(PodAnnotation { key: key.trim().into(), value_from: Some(value_from) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> TargetReference {
        TargetReference { api_version: "apps/v1".into(), kind: "StatefulSet".into(), name: "w".into() }
    }

    fn asked(annotations: &[(&str, &str)]) -> Option<Request> {
        let annotations =
            annotations.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        read_request(&target(), &annotations)
    }

    #[test]
    fn reads_lists_with_blanks_repeats_and_unknown_sources() {
        let request = asked(&[
            (AUTO_GENERATE, "true"),
            (REQUIRED_TOPOLOGY, " a , b,,a"),
            (PREFERRED_TOPOLOGY, "kubernetes.io/hostname"),
            (POD_ANNOTATIONS, "x, y = PodIPsJSON,z=PodIPsCSV,q=Bogus,=PodIPsCSV,x=PodIPsCSV"),
        ])
        .unwrap();
        let spec = &request.spec;
        assert_eq!(spec.required_keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(spec.preferred_persistent_topology[0].weight, 100);
        let annotations: Vec<_> =
            spec.persistent_pod_annotations.iter().map(|one| (one.key.as_str(), one.value_from)).collect();
        assert_eq!(
            annotations,
            [("x", None), ("y", Some(ValueFrom::PodIpsJson)), ("z", Some(ValueFrom::PodIpsCsv))]
        );
        assert_eq!(
            request.warnings,
            [
                r#"ignored "q=Bogus", whose source "Bogus" is unknown; use PodIPsJSON, PodIPsCSV or the key alone"#,
                r#"ignored "=PodIPsCSV", which has no key; write KEY=SOURCE"#,
                r#"ignored "x=PodIPsCSV", since x is listed before; remove it"#,
            ]
            .map(|warning| format!("annotation kruise.io/persistent-pod-annotations: {warning}"))
        );
        assert_eq!(spec.persistent_pod_state_retention_policy, None);
    }

    #[test]
    fn generates_nothing_without_a_request_or_a_key() {
        assert_eq!(asked(&[(REQUIRED_TOPOLOGY, "a")]), None);
        assert_eq!(asked(&[(AUTO_GENERATE, "false"), (REQUIRED_TOPOLOGY, "a")]), None);
        assert_eq!(asked(&[(AUTO_GENERATE, "true"), (REQUIRED_TOPOLOGY, " , ")]), None);
        assert!(asked(&[(AUTO_GENERATE, "true"), (POD_ANNOTATIONS, "a")]).is_some());
    }

    #[test]
    fn second_name_differs_by_group_and_has_at_most_253_characters() {
        let other = TargetReference { api_version: "apps.kruise.io/v1beta1".into(), ..target() };
        assert_ne!(second_name(&target()), second_name(&other));
        let newer = TargetReference { api_version: "apps/v2".into(), ..target() };
        assert_eq!(second_name(&target()), second_name(&newer));
        let long = TargetReference { name: "n".repeat(253), ..target() };
        assert_eq!(second_name(&long).len(), 253);
    }
}
