//! Which PPS an annotated workload asks for.

use std::collections::BTreeMap;

use crate::pps::{NodeTopologyTerm, PodAnnotation, PreferredTopologyTerm, Spec, TargetReference, ValueFrom};

/// Asks for a PPS: `"true"`.
pub const AUTO_GENERATE: &str = "kruise.io/auto-generate-persistent-pod-state";
/// Keys of the required topology, with commas.
pub const REQUIRED_TOPOLOGY: &str = "kruise.io/required-persistent-topology";
/// Keys of one preferred topology, with commas; its weight is 100.
pub const PREFERRED_TOPOLOGY: &str = "kruise.io/preferred-persistent-topology";
/// Keys of the annotations to keep, with commas; `key=PodIPsJSON` and `key=PodIPsCSV` name where the
/// value comes from.
pub const POD_ANNOTATIONS: &str = "kruise.io/persistent-pod-annotations";

/// All annotations of a workload that matter here.
pub const WORKLOAD_ANNOTATIONS: [&str; 4] =
    [AUTO_GENERATE, REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY, POD_ANNOTATIONS];

/// The label on every generated PPS; its value is [`FIELD_MANAGER`].
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// The sidecar's field manager in server-side apply, and the component that its Events name.
pub const FIELD_MANAGER: &str = "pps-sidecar";

/// What a workload's annotations ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The spec; fields that no annotation speaks of are not set.
    pub spec: Spec,
    /// What could not be used, in sentences for people.
    pub warnings: Vec<String>,
}

/// Reads a workload's annotations. None if they ask for no PPS, or name nothing to persist.
pub fn request(target: &TargetReference, annotations: &BTreeMap<String, String>) -> Option<Request> {
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
                warnings.push(format!("annotation {POD_ANNOTATIONS}: {item:?} names no key; write KEY=SOURCE"));
            }
            Ok(PodAnnotation { key, .. }) if persistent.iter().any(|known: &PodAnnotation| known.key == key) => {
                warnings.push(format!("annotation {POD_ANNOTATIONS}: {key} is named twice; the first one counts"));
            }
            Ok(annotation) => persistent.push(annotation),
            Err(unknown) => warnings.push(format!(
                "annotation {POD_ANNOTATIONS}: {item:?} names the source {unknown:?}; use PodIPsJSON, PodIPsCSV or the key alone"
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

/// The name of the PPS of a workload when its first choice, the workload's own name, belongs to a
/// workload of another kind: `<name>-<8 hex digits of group and kind>`, at most 253 characters.
pub fn second_name(target: &TargetReference) -> String {
    // FNV-1a: stable across versions and builds, which the standard library's hashers are not.
    let mut hash: u32 = 0x811c_9dc5;
    for byte in target.group().bytes().chain([b'/']).chain(target.kind.bytes()) {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    let room = 253 - "-00000000".len();
    let name: String = target.name.chars().take(room).collect();
    format!("{}-{hash:08x}", name.trim_end_matches(['-', '.']))
}

/// Whether a spec has what was asked for, in the fields that come from annotations. The retention
/// policy and what else somebody set do not matter.
pub fn is_satisfied_by(asked: &Spec, actual: &Spec) -> bool {
    asked.target_ref == actual.target_ref
        && asked.required_persistent_topology == actual.required_persistent_topology
        && asked.preferred_persistent_topology == actual.preferred_persistent_topology
        && asked.persistent_pod_annotations == actual.persistent_pod_annotations
}

/// The items of a list with commas: without blanks around them, without empty ones, each once.
fn items(list: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        if !items.iter().any(|known| known == item) {
            items.push(item.into());
        }
    }
    items
}

/// Reads `key` or `key=PodIPsJSON`; on an unknown source, gives that source back.
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
        request(&target(), &annotations)
    }

    #[test]
    fn lists_are_read_kindly() {
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
        assert_eq!(request.warnings.len(), 3);
        assert_eq!(spec.persistent_pod_state_retention_policy, None);
    }

    #[test]
    fn nothing_to_persist_asks_for_nothing() {
        assert_eq!(asked(&[(REQUIRED_TOPOLOGY, "a")]), None);
        assert_eq!(asked(&[(AUTO_GENERATE, "false"), (REQUIRED_TOPOLOGY, "a")]), None);
        assert_eq!(asked(&[(AUTO_GENERATE, "true"), (REQUIRED_TOPOLOGY, " , ")]), None);
        assert!(asked(&[(AUTO_GENERATE, "true"), (POD_ANNOTATIONS, "a")]).is_some());
    }

    #[test]
    fn the_second_name_differs_by_kind_and_fits() {
        let other = TargetReference { api_version: "apps.kruise.io/v1beta1".into(), ..target() };
        assert_ne!(second_name(&target()), second_name(&other));
        let newer = TargetReference { api_version: "apps/v2".into(), ..target() };
        assert_eq!(second_name(&target()), second_name(&newer));
        let long = TargetReference { name: "n".repeat(253), ..target() };
        assert_eq!(second_name(&long).len(), 253);
    }
}
