//! Each finding has facts that produce it, and facts that do not.

mod fixture;
mod flaws;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;

use super::*;
use crate::facts::{Deployment, Metadata, Objects, Phase, Read, Recorder, Right};

use self::fixture::{before, changed, healthy, known, lease, of};
use self::flaws::flaws;

fn codes(facts: &Facts) -> BTreeSet<(Code, Severity)> {
    judge(facts).into_iter().map(|finding| (finding.code, finding.severity)).collect()
}

#[test]
fn a_right_installation_has_no_flaw() {
    let found = judge(&healthy());
    let flaws: Vec<&Finding> = found.iter().filter(|finding| finding.severity != Severity::Ok).collect();
    assert!(flaws.is_empty(), "{flaws:#?}");
    let found = judge(&before());
    assert!(found.iter().all(|finding| finding.severity == Severity::Ok), "{found:#?}");
}

#[test]
fn each_flaw_has_its_code_and_severity_and_says_what_to_do() {
    for (code, severity, facts) in flaws() {
        assert!(codes(&facts).contains(&(code, severity)), "{code:?} {severity:?}: {:#?}", judge(&facts));
        let found = judge(&facts).into_iter().filter(|finding| finding.code == code);
        for finding in found.filter(|finding| finding.severity != Severity::Ok) {
            assert!(!finding.seen.is_empty() && !finding.subject.is_empty(), "{finding:?}");
            assert!(!finding.advice.is_empty() || code == Code::ModuleNotChecked, "{finding:?}");
        }
    }
}

#[test]
fn each_code_is_produced_by_some_facts() {
    let flaws: BTreeSet<Code> = flaws().into_iter().map(|(code, ..)| code).collect();
    let fine: BTreeSet<Code> = judge(&healthy()).into_iter().map(|finding| finding.code).collect();
    assert_eq!(flaws.intersection(&fine).count(), 0, "a code is either fine or a flaw");
    let all: BTreeSet<Code> = Code::ALL.iter().copied().collect();
    assert_eq!(
        all.difference(&flaws.union(&fine).copied().collect()).collect::<Vec<_>>(),
        [&Code::KubernetesSupported; 0]
    );
}

#[test]
fn before_an_installation_what_it_creates_may_be_absent() {
    let mut facts = before();
    facts.definition = Read::Absent;
    facts.policies = Read::Known(Vec::new());
    facts.server = Read::Absent;
    facts.server_account = Read::Absent;
    facts.server_may_look_up = Read::Known(false);
    facts.settings.creates_policy_server = true;
    (facts.mutating, facts.validating) = (Read::Known(Vec::new()), Read::Known(Vec::new()));
    facts.sidecars = Read::Known(Vec::new());
    facts.lease = Read::Absent;
    facts.objects = Read::Absent;
    let found = judge(&facts);
    assert!(found.iter().all(|finding| finding.severity == Severity::Ok), "{found:#?}");
    facts.settings.creates_policy_server = false;
    assert!(codes(&facts).contains(&(Code::PolicyServerMissing, Severity::Error)));
}

#[test]
fn a_registry_in_a_namespace_that_is_left_out_needs_no_policy() {
    let mut facts =
        changed(|facts| facts.registry_services[0].stateful_owners = vec!["StatefulSet r".into()]);
    let warning = (Code::RegistryNeedsPolicy, Severity::Warning);
    for (namespace, labels, wanted) in [
        ("tools", json!({}), true),
        ("tools", json!({"persistent-pod-state/injection": "disabled"}), false),
        ("tools", json!({"persistent-pod-state/injection": "enabled"}), true),
        ("kubewarden", json!({}), false),
        ("kube-system", json!({"kubernetes.io/metadata.name": "kube-system"}), false),
    ] {
        facts.registry_services[0].namespace = namespace.into();
        facts.namespaces = Read::Known(vec![of::<Metadata>(json!({"name": namespace, "labels": labels}))]);
        for phase in [Phase::Before, Phase::After] {
            facts.settings.phase = phase;
            facts.settings.skipped_namespaces = vec!["kube-system".into()];
            assert_eq!(codes(&facts).contains(&warning), wanted, "{namespace} {labels} {phase:?}");
        }
    }
}

#[test]
fn a_sidecar_without_policies_is_checked_alone() {
    let mut facts = healthy();
    facts.settings.has_policies = false;
    facts.policies = Read::Absent;
    facts.policy_definition = Read::Absent;
    facts.server_definition = Read::Absent;
    facts.controllers = Read::Known(Vec::new());
    facts.server = Read::Unknown;
    facts.modules.clear();
    let found = judge(&facts);
    assert!(found.iter().all(|finding| finding.severity == Severity::Ok), "{found:#?}");
    assert!(found.iter().any(|finding| finding.code == Code::LeaderActive));
}

#[test]
fn with_opt_in_only_namespaces_with_the_label_are_covered() {
    let mut facts = before();
    facts.settings.is_opt_in = true;
    facts.registry_services[0].stateful_owners = vec!["StatefulSet r".into()];
    for (labels, wanted) in [(json!({}), false), (json!({"persistent-pod-state/injection": "enabled"}), true)]
    {
        facts.namespaces = Read::Known(vec![of::<Metadata>(json!({"name": "tools", "labels": labels}))]);
        assert_eq!(
            codes(&facts).contains(&(Code::RegistryNeedsPolicy, Severity::Warning)),
            wanted,
            "{labels}"
        );
    }
}

#[test]
fn openkruise_may_record_with_its_own_definition() {
    let mut facts = flaws().into_iter().find(|(code, ..)| *code == Code::DefinitionOfOpenKruise).unwrap().2;
    facts.recording.recorder = Recorder::OpenKruise;
    facts.openkruise_lease = lease("manager", "1", "2");
    facts.lease = Read::Absent;
    let found = judge(&facts);
    assert!(found.iter().all(|finding| finding.severity == Severity::Ok), "{found:#?}");
}

/// A check without any right reports each missing right, and nothing else.
#[test]
fn what_cannot_be_read_is_unknown_and_not_wrong() {
    let facts = Facts {
        kubernetes: Read::Known((1, 32, "v1.32.0".into())),
        problems: vec![
            Problem::Forbidden(Right::new("list", "", "pods").within("kubewarden")),
            Problem::Forbidden(Right::new("list", "", "pods").within("kubewarden")),
        ],
        ..Facts::default()
    };
    let found = judge(&facts);
    let unknown: Vec<&Finding> = found.iter().filter(|finding| finding.severity != Severity::Ok).collect();
    assert_eq!(unknown.len(), 1, "{found:#?}");
    assert_eq!(unknown[0].seen, "may not list pods in namespace kubewarden");
}

/// Objects that a user could write, with every field of a wrong type.
#[test]
fn odd_objects_make_no_panic() {
    for odd in [
        json!(null),
        json!(0),
        json!("\u{1b}[2J"),
        json!([]),
        json!({}),
        json!([[null]]),
        json!({"a": {"b": 1}}),
    ] {
        let object = json!({"metadata": odd, "spec": odd, "status": odd, "webhooks": odd});
        let nested = json!({"metadata": {"name": "persistent-pod-state", "labels": odd}, "spec": {"rules": odd, "versions": odd,
            "matchConditions": odd, "namespaceSelector": odd, "env": odd, "replicas": odd, "mutating": true, "template": odd},
            "status": {"conditions": odd, "containerStatuses": odd, "storedVersions": odd}, "webhooks": [{"rules": odd, "clientConfig": odd}]});
        for object in [object, nested] {
            let mut facts = healthy();
            facts.definition = known(object.clone());
            facts.policy_definition = known(object.clone());
            facts.server = known(object.clone());
            facts.policies = known(json!([object]));
            facts.mutating = known(json!([object]));
            facts.server_pods = known(json!([object]));
            facts.sidecars = known::<Vec<Deployment>>(json!([object]));
            facts.objects = Read::Known(Objects { listed: vec![of(object.clone())], more: 0 });
            for phase in [Phase::Before, Phase::After] {
                facts.settings.phase = phase;
                crate::report::table(&judge(&facts), true);
            }
        }
    }
}

/// The table of docs/check.md lists each code once, in the order of the code.
#[test]
fn the_document_explains_each_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/check.md");
    let document = std::fs::read_to_string(path).unwrap();
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let listed: Vec<&str> = rows
        .filter(|(code, _)| code.chars().all(char::is_alphanumeric) && code.starts_with(char::is_uppercase))
        .map(|(code, _)| code)
        .collect();
    let all: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(listed, all);
}
