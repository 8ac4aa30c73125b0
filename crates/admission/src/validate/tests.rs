use serde_json::json;

use super::*;
use pps_core::annotations::NEVER_INJECTED;
use pps_core::governing::target_of_alias;
use pps_core::limits::{MAX_ANNOTATIONS, MAX_PREFERRED_TERMS, MAX_TOPOLOGY_KEYS};
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
fn only_a_requirement_has_an_end_within_limits() {
    let after =
        |seconds: Value| json!({"requiredPersistentTopology": {"fallbackAfterSeconds": seconds}});
    for seconds in [json!(30), json!(600), json!(14_400), Value::Null] {
        check(&after(seconds), &[]);
    }
    for seconds in [
        json!(29),
        json!(14_401),
        json!(-600),
        json!("600"),
        json!(600.5),
        json!([]),
    ] {
        let path = "spec.requiredPersistentTopology.fallbackAfterSeconds";
        let expected =
            format!("{path} is {seconds}: use a whole number from 30 to 14400, or remove");
        check(&after(seconds), &[&expected]);
    }
    check(
        &json!({"preferredPersistentTopology": [
            {"weight": 1, "preference": {"keys": ["rack"], "fallbackAfterSeconds": 600}}]}),
        &["spec.preferredPersistentTopology[0].preference.fallbackAfterSeconds is 600: remove it"],
    );
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
