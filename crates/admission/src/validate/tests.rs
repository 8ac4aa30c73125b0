use serde_json::json;

use super::*;
use pps_core::annotations::{INJECTED_ANNOTATION, NEVER_INJECTED, Pattern};
use pps_core::governing::target_of_alias;
use pps_core::limits::{MAX_ANNOTATIONS, MAX_MESSAGES, MAX_PREFERRED_TERMS, MAX_TOPOLOGY_KEYS};
use pps_core::pps::Spec;

fn object(changes: &Value) -> Value {
    let mut spec = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
        "requiredPersistentTopology": {"nodeTopologyKeys": ["topology.kubernetes.io/zone"]},
    });
    merge(&mut spec, changes);
    json!({"metadata": {"name": "web"}, "spec": spec})
}

fn merge(target: &mut Value, changes: &Value) {
    match (target, changes) {
        (Value::Object(target), Value::Object(changes)) => {
            for (field, change) in changes {
                merge(target.entry(field).or_insert(Value::Null), change);
            }
        }
        (target, changes) => *target = changes.clone(),
    }
}

/// The review of a created object.
fn create(object: &Value) -> Review {
    review(object, None, &AnnotationRules::default())
}

/// The violations of a created object, in one line each.
fn violations(changes: &Value) -> Vec<String> {
    let review = create(&object(changes));
    assert_eq!(
        review.workload.is_none(),
        review
            .violations
            .iter()
            .any(|it| it.path.contains("targetRef"))
    );
    review.violations.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn check(changes: &Value, expected: &[&str]) {
    let violations = violations(changes);
    assert_eq!(violations.len(), expected.len(), "{violations:#?}");
    for (violation, start) in violations.iter().zip(expected) {
        assert!(violation.starts_with(start), "{violation}");
    }
}

#[test]
fn accepts_all_spellings_of_a_valid_object() {
    check(&json!({}), &[]);
    check(
        &json!({
            "targetRef": {"apiVersion": "game.kruise.io/v1alpha1", "kind": "GameServerSet", "name": "eu.web"},
            "requiredPersistentTopology": {"nodeTopologyKeys": null, "keys": ["rack", "Example.io_x"]},
            "preferredPersistentTopology": [{"weight": 1, "preference": {"keys": ["kubernetes.io/hostname"]}}],
            "persistentPodAnnotations": ["a", {"key": "Example.IO/B", "valueFrom": "PodIPsCSV"}, {"key": "c", "valueFrom": null}],
            "persistentPodStateRetentionPolicy": "Retain",
            "nodeDeletionPolicy": null,
            "recordingPolicy": "IfNotPresent",
        }),
        &[],
    );
    check(
        &json!({"requiredPersistentTopology": {"nodeTopologyKeys": ["zone"], "keys": null}}),
        &[],
    );
    check(
        &json!({"requiredPersistentTopology": {"nodeTopologyKeys": ["zone"], "keys": ["rack"]}}),
        &[r#"spec.requiredPersistentTopology.keys is ["rack"]: it is another spelling"#],
    );
    check(
        &json!({"requiredPersistentTopology": null, "persistentPodAnnotations": ["a"]}),
        &[],
    );
}

#[test]
fn reports_all_violations_at_once() {
    check(
        &json!({
            "targetRef": {"apiVersion": "apps/v1/", "kind": "", "name": "Web"},
            "requiredPersistentTopology": {"nodeTopologyKeys": []},
            "preferredPersistentTopology": [
                {"weight": 100, "preference": {"nodeTopologyKeys": ["a"]}},
                {"weight": 0, "preference": {"nodeTopologyKeys": ["a", "-b", 7]}},
                3,
            ],
            "persistentPodAnnotations": ["", {"key": INJECTED_ANNOTATION}, null],
            "nodeDeletionPolicy": "keep",
            "recordingPolicy": "Never",
        }),
        &[
            r#"spec.targetRef.apiVersion is "apps/v1/": "#,
            r#"spec.targetRef.kind is "": "#,
            r#"spec.targetRef.name is "Web": "#,
            "spec.requiredPersistentTopology.nodeTopologyKeys is []: ",
            "spec.preferredPersistentTopology[1].weight is 0: use a whole number from 1 to 100",
            r#"spec.preferredPersistentTopology[1].preference.nodeTopologyKeys[1] is "-b": "#,
            "spec.preferredPersistentTopology[1].preference.nodeTopologyKeys[2] is 7: ",
            "spec.preferredPersistentTopology[2].weight is missing: ",
            "spec.preferredPersistentTopology[2].preference.nodeTopologyKeys is missing: ",
            r#"spec.persistentPodAnnotations[0] is "": "#,
            r#"spec.persistentPodAnnotations[1].key is "kruise.io/injected-persistent-pod-state": "#,
            "spec.persistentPodAnnotations[2] is missing: ",
            r#"spec.nodeDeletionPolicy is "keep": use one of Keep, Forget, or remove it"#,
            r#"spec.recordingPolicy is "Never": use one of Always, IfNotPresent, or remove it"#,
        ],
    );
}

#[test]
fn refuses_kinds_without_stable_names() {
    for (api_version, kind) in [
        ("apps/v1", "Deployment"),
        ("batch/v1", "Job"),
        ("v1", "ReplicationController"),
    ] {
        let changes = json!({"targetRef": {"apiVersion": api_version, "kind": kind}});
        check(
            &changes,
            &[&format!(
                "spec.targetRef.kind is {kind:?}: its Pods do not keep their names"
            )],
        );
    }
}

#[test]
fn refuses_an_object_that_persists_nothing() {
    let nothing = "spec is without anything to persist: ";
    check(&json!({"requiredPersistentTopology": null}), &[nothing]);
    check(
        &json!({"requiredPersistentTopology": null, "preferredPersistentTopology": [], "persistentPodAnnotations": []}),
        &[nothing],
    );
}

#[test]
fn names_the_key_to_use_instead_of_one_that_is_never_injected() {
    for (never, instead) in NEVER_INJECTED {
        let of_a_provider = |key: &str| key.replace('*', "net1.shop.ovn");
        let refusals = violations(&json!({"persistentPodAnnotations": [of_a_provider(never)]}));
        assert_eq!(refusals.len(), 1);
        assert!(
            refusals[0].contains(&of_a_provider(instead.unwrap_or("remove it"))),
            "{}",
            refusals[0]
        );
    }
}

#[test]
fn refuses_annotations_that_the_settings_deny() {
    let rules = AnnotationRules {
        allow: None,
        deny: Pattern::parse("example.io/*").into_iter().collect(),
    };
    let changes =
        json!({"persistentPodAnnotations": ["a", {"key": "example.io/ip"}, "example.io/mac", ""]});
    let review = review(&object(&changes), None, &rules);
    let refusals: Vec<String> = review.violations.iter().map(ToString::to_string).collect();
    let remedy =
        "it is denied by \"example.io/*\" in the policy's settings.annotations.deny; remove it";
    assert_eq!(refusals.len(), 3, "{refusals:?}");
    assert_eq!(
        refusals[0],
        format!("spec.persistentPodAnnotations[1].key is \"example.io/ip\": {remedy}")
    );
    assert_eq!(
        refusals[1],
        format!("spec.persistentPodAnnotations[2] is \"example.io/mac\": {remedy}")
    );
}

#[test]
fn warns_of_a_deprecated_label() {
    let changes = json!({"requiredPersistentTopology": {"nodeTopologyKeys": ["failure-domain.beta.kubernetes.io/zone"]}});
    let review = create(&object(&changes));
    assert_eq!(review.violations, []);
    assert!(
        review.warnings[0].contains(r#"; use "topology.kubernetes.io/zone""#),
        "{}",
        review.warnings[0]
    );
}

#[test]
fn refuses_another_workload_but_not_another_version() {
    let of = |api_version: &str, kind: &str, name: &str| {
        object(&json!({"targetRef": {"apiVersion": api_version, "kind": kind, "name": name}}))
    };
    let paths = |after: &Value| -> Vec<String> {
        let before = of("apps/v1", "StatefulSet", "web");
        let review = review(after, Some(&before), &AnnotationRules::default());
        review
            .violations
            .iter()
            .map(|violation| violation.path.clone())
            .collect()
    };
    assert_eq!(paths(&of("apps/v1beta2", "StatefulSet", "web")), [""; 0]);
    assert_eq!(
        paths(&of("apps.kruise.io/v1beta1", "StatefulSet", "web")),
        ["spec.targetRef.apiVersion"]
    );
    assert_eq!(
        paths(&of("apps/v1", "PetSet", "bew")),
        ["spec.targetRef.kind", "spec.targetRef.name"]
    );
}

#[test]
fn an_update_may_correct_a_target_that_named_no_workload() {
    let before = object(&json!({"targetRef": {"apiVersion": null, "name": 7}}));
    let after = object(&json!({}));
    let review = review(&after, Some(&before), &AnnotationRules::default());
    assert_eq!(review.violations, []);
    let without_name = object(&json!({"targetRef": {"name": null}}));
    let review = super::review(&without_name, Some(&after), &AnnotationRules::default());
    let refusals: Vec<String> = review.violations.iter().map(ToString::to_string).collect();
    assert_eq!(
        refusals,
        [
            "spec.targetRef.name is missing: use the workload's name: lower-case letters, digits, \
             '-' and '.'"
        ]
    );
}

#[test]
fn refuses_one_annotation_with_different_sources() {
    let json = json!({"key": "ip", "valueFrom": "PodIPsJSON"});
    let csv = json!({"key": "ip", "valueFrom": "PodIPsCSV"});
    for other in [&csv, &json!("ip"), &json!({"key": "ip", "valueFrom": null})] {
        check(
            &json!({"persistentPodAnnotations": [other, json, "mac"]}),
            &[
                r#"spec.persistentPodAnnotations[1].valueFrom is "PodIPsJSON": ip is listed before with another one; list it once"#,
            ],
        );
    }
    check(
        &json!({"persistentPodAnnotations": [json, json, "mac", {"key": "mac"}]}),
        &[],
    );
}

#[test]
fn exempts_terminating_objects_and_unchanged_specs() {
    let wrong = object(&json!({"targetRef": {"kind": "Deployment"}}));
    let mut without_finalizers = wrong.clone();
    without_finalizers["metadata"]["finalizers"] = json!([]);
    assert!(is_exempt(&without_finalizers, Some(&wrong)));
    let mut terminating = wrong.clone();
    terminating["metadata"]["deletionTimestamp"] = json!("2026-03-01T10:00:00Z");
    let other = object(&json!({"targetRef": {"kind": "Job"}}));
    assert!(is_exempt(&other, Some(&terminating)));
    assert!(!is_exempt(&object(&json!({})), Some(&wrong)) && !is_exempt(&wrong, None));
}

#[test]
fn deletion_timestamp_in_the_submitted_object_exempts_nothing() {
    let before = object(&json!({}));
    let mut forged = object(&json!({"targetRef": {"kind": "Job"}}));
    forged["metadata"]["deletionTimestamp"] = json!("2026-03-01T10:00:00Z");
    assert!(!is_exempt(&forged, None));
    assert!(!is_exempt(&forged, Some(&before)));
}

#[test]
fn refuses_annotations_of_every_provider_and_interface() {
    for never in [
        "net1.shop.ovn.kubernetes.io/allocated",
        "net1.shop.ovn.eth1.kubernetes.io/allocated",
        "macvlan.default.kubernetes.io/routed",
        "ovn.kubernetes.io/routed",
        "ovn.kubernetes.io/vpc_nat_gw_init",
        "k8s.ovn.org/pod-networks",
        "k8s.v1.cni.cncf.io/network-status",
        "k8s.v1.cni.cncf.io/networks-status",
        "vpc.amazonaws.com/pod-ips",
        "vpc.amazonaws.com/pod-eni",
        "vpc.amazonaws.com/PrivateIPv4Address",
        "networking.gke.io/pod-ips",
    ] {
        let refusals = violations(&json!({"persistentPodAnnotations": [never]}));
        assert_eq!(refusals.len(), 1, "{never}: {refusals:?}");
    }
    check(
        &json!({"persistentPodAnnotations": ["net1.shop.ovn.kubernetes.io/allocated"]}),
        &[
            r#"spec.persistentPodAnnotations[0] is "net1.shop.ovn.kubernetes.io/allocated": it can never be persisted; use "net1.shop.ovn.kubernetes.io/ip_address""#,
        ],
    );
    check(
        &json!({"persistentPodAnnotations": [
            "net1.shop.ovn.kubernetes.io/ip_address", "kubernetes.io/allocated", "example.io/allocated",
        ]}),
        &[],
    );
}

#[test]
fn refuses_a_list_beyond_its_limit_without_examining_it() {
    let keys = vec![""; MAX_TOPOLOGY_KEYS + 1];
    let terms = vec![json!({"weight": 0}); MAX_PREFERRED_TERMS + 1];
    let annotations = vec![""; MAX_ANNOTATIONS + 1];
    check(
        &json!({
            "requiredPersistentTopology": {"nodeTopologyKeys": keys},
            "preferredPersistentTopology": [{"weight": 1, "preference": {"keys": keys}}],
        }),
        &[
            "spec.requiredPersistentTopology.nodeTopologyKeys is a list of 65: list at most 64",
            "spec.preferredPersistentTopology[0].preference.keys is a list of 65: list at most 64",
        ],
    );
    check(
        &json!({"preferredPersistentTopology": terms, "persistentPodAnnotations": annotations}),
        &[
            "spec.preferredPersistentTopology is a list of 65: list at most 64",
            "spec.persistentPodAnnotations is a list of 129: list at most 128",
        ],
    );
}

#[test]
fn accepts_lists_at_their_limit() {
    let keys: Vec<String> = (0..MAX_TOPOLOGY_KEYS)
        .map(|key| format!("{key}.io/k"))
        .collect();
    let term = json!({"weight": 1, "preference": {"nodeTopologyKeys": keys}});
    let annotations: Vec<String> = (0..MAX_ANNOTATIONS)
        .map(|key| format!("{key}.io/a"))
        .collect();
    check(
        &json!({
            "requiredPersistentTopology": {"nodeTopologyKeys": keys},
            "preferredPersistentTopology": vec![term; MAX_PREFERRED_TERMS],
            "persistentPodAnnotations": annotations,
        }),
        &[],
    );
}

#[test]
fn lists_the_first_violations_and_counts_the_others() {
    let review = create(&object(&json!({"persistentPodAnnotations": vec![""; 100]})));
    assert_eq!(review.violations.len(), 100);
    let message = join(&review.violations);
    assert!(message.ends_with("; and 80 more"), "{message}");
    assert_eq!(
        message.matches("spec.persistentPodAnnotations").count(),
        MAX_MESSAGES
    );
    let few = create(&object(
        &json!({"persistentPodAnnotations": vec![""; MAX_MESSAGES]}),
    ));
    assert!(!join(&few.violations).contains("more"));
}

#[test]
fn accepts_an_alias_that_says_nothing_else() {
    let alias = |changes: &Value| {
        let mut spec = json!({"targetRef": target_of_alias("my-web")});
        merge(&mut spec, changes);
        create(&json!({"metadata": {"name": "web-5cb12f44"}, "spec": spec}))
    };
    assert_eq!(alias(&json!({})), Review::default());
    assert_eq!(
        alias(&json!({"preferredPersistentTopology": [], "nodeDeletionPolicy": null})),
        Review::default()
    );
    for (field, value) in [
        (
            "requiredPersistentTopology",
            json!({"nodeTopologyKeys": ["zone"]}),
        ),
        ("preferredPersistentTopology", json!([1])),
        ("persistentPodAnnotations", json!(["a"])),
        ("persistentPodStateRetentionPolicy", json!("Retain")),
        ("nodeDeletionPolicy", json!("Keep")),
        ("recordingPolicy", json!("Always")),
    ] {
        let review = alias(&json!({field: value}));
        let [violation] = &review.violations[..] else {
            panic!("{review:?}")
        };
        assert_eq!(violation.path, format!("spec.{field}"));
        assert!(violation.remedy.starts_with("remove it"), "{violation}");
        assert_eq!(review.workload, None);
    }
    let own = alias(&json!({"targetRef": {"name": "web-5cb12f44"}}));
    assert_eq!(own.violations[0].path, "spec.targetRef.name", "{own:?}");
}

#[test]
fn an_alias_keeps_its_target() {
    let of = |target: &str| json!({"metadata": {"name": "x"}, "spec": {"targetRef": target_of_alias(target)}});
    let review = review(&of("b"), Some(&of("a")), &AnnotationRules::default());
    assert_eq!(review.violations[0].path, "spec.targetRef.name");
}

#[test]
fn whatever_passes_can_be_read_as_a_spec() {
    for wrong in [
        json!(null),
        json!(7),
        json!("x"),
        json!([]),
        json!([[]]),
        json!({}),
        json!([{"key": {}}]),
    ] {
        assert!(!create(&wrong).violations.is_empty());
        assert!(!create(&json!({"spec": wrong})).violations.is_empty());
        for field in [
            "targetRef",
            "requiredPersistentTopology",
            "preferredPersistentTopology",
            "persistentPodAnnotations",
            "persistentPodStateRetentionPolicy",
            "nodeDeletionPolicy",
            "recordingPolicy",
        ] {
            let mut object = object(&json!({}));
            object["spec"][field] = wrong.clone();
            let review = create(&object);
            let read = serde_json::from_value::<Spec>(object["spec"].clone());
            assert!(
                read.is_ok() || !review.violations.is_empty(),
                "{field} {wrong}: {read:?}"
            );
        }
    }
}

#[test]
fn cuts_long_values() {
    let refusals = violations(&json!({"targetRef": {"name": "É".repeat(9000)}}));
    assert!(refusals[0].len() < 400, "{}", refusals[0].len());
}
