//! The PPS that a workload's annotations ask for.

use std::collections::{BTreeMap, BTreeSet};

use pps_core::annotations::is_never_injected;
use pps_core::limits::{
    MAX_ANNOTATIONS, MAX_FALLBACK_SECONDS, MAX_TOPOLOGY_KEYS, MIN_FALLBACK_SECONDS,
};
use pps_core::pps::{
    FallbackAfter, NodeTopologyTerm, PodAnnotation, PreferredTopologyTerm, RequiredTopologyTerm,
    Spec, TargetReference, ValueFrom,
};
use pps_core::{is_annotation_key, is_label_key};

/// Set to `"true"`, asks for a PPS.
pub const AUTO_GENERATE: &str = "kruise.io/auto-generate-persistent-pod-state";
/// Comma-separated keys of the required topology.
pub const REQUIRED_TOPOLOGY: &str = "kruise.io/required-persistent-topology";
/// After how many seconds the required topology is given up; see
/// [`FallbackAfter`](pps_core::pps::FallbackAfter).
pub const FALLBACK_AFTER: &str = "kruise.io/required-persistent-topology-fallback-after-seconds";
/// Comma-separated keys of one preferred topology, of weight 100.
pub const PREFERRED_TOPOLOGY: &str = "kruise.io/preferred-persistent-topology";
/// Comma-separated keys of the annotations to persist. `key=PodIPsJSON` and `key=PodIPsCSV` also
/// set `valueFrom`.
pub const POD_ANNOTATIONS: &str = "kruise.io/persistent-pod-annotations";

/// All annotations of a workload that this module reads.
pub const WORKLOAD_ANNOTATIONS: [&str; 5] = [
    AUTO_GENERATE,
    REQUIRED_TOPOLOGY,
    FALLBACK_AFTER,
    PREFERRED_TOPOLOGY,
    POD_ANNOTATIONS,
];

/// The fields of a spec that come from annotations.
pub const GENERATED_FIELDS: [&str; 3] = [
    "requiredPersistentTopology",
    "preferredPersistentTopology",
    "persistentPodAnnotations",
];

/// The label of every generated PPS. Its value is [`FIELD_MANAGER`].
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// The sidecar's field manager, and the reporting component of its Events.
pub const FIELD_MANAGER: &str = "pps-sidecar";

/// How many characters of a user's text a message repeats.
const MAX_QUOTED: usize = 80;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub spec: Spec,
    /// Sentences for users about values that were ignored.
    pub warnings: Vec<String>,
}

/// What is kept in memory of such an annotation. A value of more than 64 KiB is never valid. A text
/// that is no valid key either replaces it, and so the user gets the usual warning.
pub fn kept_value(value: &str) -> &str {
    if value.len() > 64 << 10 {
        "(longer than 64 KiB)"
    } else {
        value
    }
}

/// Reads a workload's annotations. None if they do not ask for a PPS, or name nothing to persist.
pub fn read_request(
    target: &TargetReference,
    annotations: &BTreeMap<String, String>,
) -> Result<Option<Request>, String> {
    if annotations.get(AUTO_GENERATE).map(|value| value.trim()) != Some("true") {
        return Ok(None);
    }
    let topology = |annotation| -> Result<Option<NodeTopologyTerm>, String> {
        let keys = items(annotations, annotation, MAX_TOPOLOGY_KEYS)?;
        let Some(invalid) = keys.iter().find(|key| !is_label_key(key)) else {
            let keys: Vec<String> = keys.into_iter().map(str::to_owned).collect();
            return Ok((!keys.is_empty()).then_some(NodeTopologyTerm {
                node_topology_keys: keys,
            }));
        };
        Err(format!(
            "annotation {annotation}: {} is no label key; correct it",
            quoted(invalid)
        ))
    };
    let required = topology(REQUIRED_TOPOLOGY)?;
    let fallback = read_fallback(annotations)?;
    let preferred = topology(PREFERRED_TOPOLOGY)?;
    let (persistent, mut warnings) = read_pod_annotations(annotations)?;
    if required.is_none() && preferred.is_none() && persistent.is_empty() {
        // Nothing but mistakes is no wish to persist nothing.
        return warnings.into_iter().next().map_or(Ok(None), Err);
    }
    if fallback.is_some() && required.is_none() {
        warnings.push(format!(
            "annotation {FALLBACK_AFTER}: ignored, since {REQUIRED_TOPOLOGY} names no key that it \
             could bound; set that, or remove this"
        ));
    }
    let required = required.map(|topology| RequiredTopologyTerm {
        node_topology_keys: topology.node_topology_keys,
        fallback_after_seconds: fallback,
    });
    let spec = Spec {
        target_ref: target.clone(),
        required_persistent_topology: required,
        preferred_persistent_topology: preferred
            .map(|preference| PreferredTopologyTerm {
                weight: 100,
                preference,
            })
            .into_iter()
            .collect(),
        persistent_pod_annotations: persistent,
        ..Spec::default()
    };
    Ok(Some(Request { spec, warnings }))
}

/// How long a Pod waits for the required topology; none if the annotation is missing or blank.
fn read_fallback(annotations: &BTreeMap<String, String>) -> Result<Option<FallbackAfter>, String> {
    let text = annotations.get(FALLBACK_AFTER).map(|text| text.trim());
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let seconds = text
        .parse::<u32>()
        .ok()
        .filter(|seconds| (MIN_FALLBACK_SECONDS..=MAX_FALLBACK_SECONDS).contains(seconds));
    match seconds {
        Some(seconds) => Ok(Some(FallbackAfter::Seconds(seconds.into()))),
        None => Err(format!(
            "annotation {FALLBACK_AFTER}: {} is no whole number from {MIN_FALLBACK_SECONDS} to \
             {MAX_FALLBACK_SECONDS}; correct it, or remove the annotation to wait forever",
            quoted(text)
        )),
    }
}

/// The annotations to persist, and warnings about ignored items.
fn read_pod_annotations(
    annotations: &BTreeMap<String, String>,
) -> Result<(Vec<PodAnnotation>, Vec<String>), String> {
    let mut persistent = Vec::new();
    let mut warnings = Vec::new();
    let mut known = BTreeSet::new();
    for item in items(annotations, POD_ANNOTATIONS, MAX_ANNOTATIONS)? {
        let mut ignore = |why: &str| {
            warnings.push(format!(
                "annotation {POD_ANNOTATIONS}: ignored {}, {why}",
                quoted(item)
            ));
        };
        match pod_annotation(item) {
            Ok(PodAnnotation { key, .. }) if key.is_empty() => {
                ignore("which has no key; write KEY=SOURCE");
            }
            Ok(PodAnnotation { key, .. }) if !is_annotation_key(&key) => {
                let key = quoted(&key);
                return Err(format!(
                    "annotation {POD_ANNOTATIONS}: {key} is no annotation key; correct it"
                ));
            }
            Ok(PodAnnotation { key, .. }) if is_never_injected(&key) => {
                return Err(format!(
                    "annotation {POD_ANNOTATIONS}: {key} can never be injected, since its writer \
                     treats it as its own state; remove it"
                ));
            }
            Ok(annotation) if known.insert(annotation.key.clone()) => persistent.push(annotation),
            Ok(PodAnnotation { key, .. }) => {
                ignore(&format!("since {key} is listed before; remove it"));
            }
            Err(unknown) => ignore(&format!(
                "whose source {} is unknown; use PodIPsJSON, PodIPsCSV or the key alone",
                quoted(unknown)
            )),
        }
    }
    Ok((persistent, warnings))
}

/// The items of a comma-separated list: trimmed, without empty ones and repeats. The error says
/// that there are too many.
fn items<'a>(
    annotations: &'a BTreeMap<String, String>,
    annotation: &str,
    limit: usize,
) -> Result<Vec<&'a str>, String> {
    let list = annotations.get(annotation).map_or("", String::as_str);
    let mut items = Vec::new();
    let mut known = BTreeSet::new();
    for item in list
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        if known.insert(item) && known.len() <= limit {
            items.push(item);
        }
    }
    if known.len() > limit {
        return Err(format!(
            "annotation {annotation} lists {} keys; list at most {limit}",
            known.len()
        ));
    }
    Ok(items)
}

/// Reads `key` or `key=SOURCE`, an item of [`POD_ANNOTATIONS`].
pub fn pod_annotation(item: &str) -> Result<PodAnnotation, &str> {
    let Some((key, source)) = item.split_once('=') else {
        return Ok(PodAnnotation {
            key: item.into(),
            value_from: None,
        });
    };
    let value_from = match source.trim() {
        "PodIPsJSON" => ValueFrom::PodIpsJson,
        "PodIPsCSV" => ValueFrom::PodIpsCsv,
        unknown => return Err(unknown),
    };
    Ok(PodAnnotation {
        key: key.trim().into(),
        value_from: Some(value_from),
    })
}

/// A user's text in quotes, and only its beginning if it is long.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use pps_core::governing::second_name;

    use super::*;

    fn target() -> TargetReference {
        TargetReference {
            api_version: "apps/v1".into(),
            kind: "StatefulSet".into(),
            name: "w".into(),
        }
    }

    fn asked(annotations: &[(&str, &str)]) -> Result<Option<Request>, String> {
        let annotations = annotations
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect();
        read_request(&target(), &annotations)
    }

    #[test]
    fn reads_lists_with_blanks_repeats_and_unknown_sources() {
        let request = asked(&[
            (AUTO_GENERATE, "true"),
            (REQUIRED_TOPOLOGY, " a , b,,a"),
            (PREFERRED_TOPOLOGY, "kubernetes.io/hostname"),
            (
                POD_ANNOTATIONS,
                "x, y = PodIPsJSON,z=PodIPsCSV,q=Bogus,=PodIPsCSV,x=PodIPsCSV",
            ),
        ])
        .unwrap()
        .unwrap();
        let spec = &request.spec;
        assert_eq!(spec.required_keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(spec.preferred_persistent_topology[0].weight, 100);
        let annotations: Vec<_> = spec
            .persistent_pod_annotations
            .iter()
            .map(|one| (one.key.as_str(), one.value_from))
            .collect();
        assert_eq!(
            annotations,
            [
                ("x", None),
                ("y", Some(ValueFrom::PodIpsJson)),
                ("z", Some(ValueFrom::PodIpsCsv))
            ]
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
    fn a_requirement_gets_an_end_that_an_annotation_names() {
        let with = |seconds: &str| {
            asked(&[
                (AUTO_GENERATE, "true"),
                (REQUIRED_TOPOLOGY, "a"),
                (FALLBACK_AFTER, seconds),
            ])
        };
        for (seconds, expected) in [
            (" 600 ", Some(600)),
            ("30", Some(30)),
            ("", None),
            (" ", None),
        ] {
            let request = with(seconds).unwrap().unwrap();
            assert_eq!(
                request.spec.fallback_after_seconds(),
                expected,
                "{seconds:?}"
            );
            assert_eq!(request.warnings, Vec::<String>::new());
        }
        for wrong in ["29", "14401", "-30", "10m", "600.0", "99999999999"] {
            let error = with(wrong).unwrap_err();
            let expected = format!("annotation {FALLBACK_AFTER}: \"{wrong}\" is no whole number");
            assert!(error.starts_with(&expected), "{error}");
        }
        let request = asked(&[
            (AUTO_GENERATE, "true"),
            (POD_ANNOTATIONS, "a"),
            (FALLBACK_AFTER, "600"),
        ]);
        let request = request.unwrap().unwrap();
        assert_eq!(request.spec.required_persistent_topology, None);
        assert!(
            request.warnings[0].contains("names no key"),
            "{:?}",
            request.warnings
        );
    }

    #[test]
    fn generates_nothing_without_a_request_or_a_key() {
        assert_eq!(asked(&[(REQUIRED_TOPOLOGY, "a")]), Ok(None));
        assert_eq!(
            asked(&[(AUTO_GENERATE, "false"), (REQUIRED_TOPOLOGY, "a")]),
            Ok(None)
        );
        assert_eq!(
            asked(&[(AUTO_GENERATE, "true"), (REQUIRED_TOPOLOGY, " , ")]),
            Ok(None)
        );
        assert!(
            asked(&[(AUTO_GENERATE, "true"), (POD_ANNOTATIONS, "a")])
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn refuses_an_annotation_that_no_object_could_honour() {
        for (annotation, value, word) in [
            (REQUIRED_TOPOLOGY, "a,no key", "\"no key\" is no label key"),
            (PREFERRED_TOPOLOGY, "a/b/c", "\"a/b/c\" is no label key"),
            (
                POD_ANNOTATIONS,
                "good,no key=PodIPsCSV",
                "\"no key\" is no annotation key",
            ),
            (
                POD_ANNOTATIONS,
                "cni.projectcalico.org/podIP",
                "podIP can never be injected",
            ),
            (POD_ANNOTATIONS, "only=Bogus", "ignored \"only=Bogus\""),
        ] {
            let error = asked(&[(AUTO_GENERATE, "true"), (annotation, value)]).unwrap_err();
            assert!(
                error.contains(annotation) && error.contains(word),
                "{error}"
            );
        }
        let long = asked(&[
            (AUTO_GENERATE, "true"),
            (REQUIRED_TOPOLOGY, &"é".repeat(9_000)),
        ])
        .unwrap_err();
        assert!(long.chars().count() < 256, "{long}");
    }

    #[test]
    fn refuses_a_huge_annotation() {
        let list = |count: usize| {
            (0..count)
                .map(|n| format!("k{n},k0"))
                .collect::<Vec<_>>()
                .join(",")
        };
        for (annotation, limit) in [
            (REQUIRED_TOPOLOGY, MAX_TOPOLOGY_KEYS),
            (PREFERRED_TOPOLOGY, 64),
            (POD_ANNOTATIONS, 128),
        ] {
            // Comparing each key with all others would not end.
            let error =
                asked(&[(AUTO_GENERATE, "true"), (annotation, &list(128_000))]).unwrap_err();
            assert_eq!(
                error,
                format!("annotation {annotation} lists 128000 keys; list at most {limit}")
            );
            assert!(asked(&[(AUTO_GENERATE, "true"), (annotation, &list(limit))]).is_ok());
        }
    }

    #[test]
    fn keeps_every_valid_value_and_refuses_what_stands_for_a_longer_one() {
        let longest = vec!["k".repeat(317); MAX_ANNOTATIONS].join(" , ");
        assert_eq!(kept_value(&longest), longest);
        let long = "k,".repeat(40_000);
        for annotation in [REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY, POD_ANNOTATIONS] {
            let error =
                asked(&[(AUTO_GENERATE, "true"), (annotation, kept_value(&long))]).unwrap_err();
            assert!(
                error.contains(annotation) && error.contains("longer than 64 KiB"),
                "{error}"
            );
        }
    }

    #[test]
    fn second_name_differs_by_group_and_has_at_most_253_characters() {
        let other = TargetReference {
            api_version: "apps.kruise.io/v1beta1".into(),
            ..target()
        };
        assert_ne!(second_name(&target()), second_name(&other));
        let newer = TargetReference {
            api_version: "apps/v2".into(),
            ..target()
        };
        assert_eq!(second_name(&target()), second_name(&newer));
        let long = TargetReference {
            name: "n".repeat(253),
            ..target()
        };
        assert_eq!(second_name(&long).len(), 253);
    }
}
