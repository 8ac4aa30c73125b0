//! Each finding has facts that produce it, and facts that do not.

mod compact_form;
mod fixture;
mod flaws;
mod verdicts;

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
                let found = judge(&facts);
                crate::report::table(&found, &verdict(&facts, &found), true, crate::report::WIDTH);
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

fn severities(facts: &Facts, code: &str) -> Vec<Severity> {
    judge(facts).into_iter().filter(|one| one.code.as_str() == code).map(|one| one.severity).collect()
}

/// An evicted Pod stays for days, and one that is being deleted has done its work.
#[test]
fn finished_and_deleted_pods_of_the_policy_server_do_not_count() {
    for gone in [
        json!({"metadata": {"name": "evicted"}, "status": {"phase": "Failed", "reason": "Evicted",
            "conditions": [{"type": "Ready", "status": "False"}]}}),
        json!({"metadata": {"name": "done"}, "status": {"phase": "Succeeded"}}),
        json!({"metadata": {"name": "old", "deletionTimestamp": "now"}}),
    ] {
        let facts = changed(|facts| {
            let Read::Known(pods) = &mut facts.server_pods else { panic!() };
            pods.push(of(gone.clone()));
        });
        let found = judge(&facts);
        assert!(found.iter().all(|finding| finding.severity == Severity::Ok), "{found:#?}");
        // Of two replicas only one is left.
        let facts = changed(|facts| {
            facts.server_pods = Read::Known(vec![fixture::pod("a", true), of(gone.clone())]);
        });
        assert_eq!(severities(&facts, "PolicyServerNotReady"), [Severity::Error], "{gone}");
    }
}

/// Nothing looks wrong, and no Pod gets its state back.
#[test]
fn a_policy_that_is_never_asked_is_not_fine() {
    use fixture::{policy, webhook};
    for (what, severity, facts) in [
        ("mutating", Severity::Error, policy(|policy| policy.spec.mutating = false)),
        ("rules", Severity::Error, policy(|policy| policy.spec.rules.clear())),
        (
            "rules",
            Severity::Error,
            policy(|policy| {
                policy.spec.rules = vec![
                    json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}),
                    json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["DELETE"]}),
                ];
            }),
        ),
        (
            "objectSelector",
            Severity::Warning,
            policy(|policy| policy.spec.object_selector = json!({"matchLabels": {"no": "where"}})),
        ),
        (
            "namespaceSelector",
            Severity::Warning,
            policy(|policy| {
                let expression = json!({"key": "no", "operator": "In", "values": ["where"]});
                policy.spec.namespace_selector["matchExpressions"].as_array_mut().unwrap().push(expression);
            }),
        ),
        (
            "matchConditions",
            Severity::Warning,
            policy(|policy| {
                let more = json!({"name": "more", "expression": "object.metadata.namespace == 'nowhere'"});
                policy.spec.match_conditions.push(more);
            }),
        ),
    ] {
        let found = judge(&facts);
        let mut named =
            found.iter().filter(|one| one.code.as_str() == "PolicyDiffers" && one.severity == severity);
        assert!(named.any(|one| one.seen.contains(what)), "{what}: {found:#?}");
    }
    // Without the lookup nothing is injected, whatever the policy says of itself.
    let facts = policy(|policy| {
        policy.spec.mutating = false;
        policy.spec.context_aware_resources.clear();
    });
    assert_eq!(severities(&facts, "LookupNotGranted"), [Severity::Error]);
    // What was added to the webhook, but not to the policy.
    for more in [
        json!({"key": "no", "operator": "In", "values": ["where"]}),
        json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["shop"]}),
    ] {
        let facts = changed(|facts| {
            let [pods, _] = fixture::policies();
            let mut changed = webhook(&pods);
            changed.webhooks[0].namespace_selector["matchExpressions"]
                .as_array_mut()
                .unwrap()
                .push(more.clone());
            facts.mutating = Read::Known(vec![changed]);
        });
        assert_eq!(severities(&facts, "WebhookDiffers"), [Severity::Warning], "{more}");
    }
}

/// The upgrade may be the repair, and makes nothing worse.
#[test]
fn a_module_that_is_installed_already_stops_no_upgrade() {
    let mut facts = fixture::registry(crate::facts::ModuleAnswer::Unreachable("refused".into()));
    assert_eq!(severities(&facts, "RegistryUnreachable"), [Severity::Error]);
    let installed = facts.own_policies().next().unwrap().spec.module.clone();
    facts.modules[0].reference = installed;
    assert_eq!(severities(&facts, "RegistryUnreachable"), [Severity::Warning]);
    let Read::Known(policies) = &mut facts.policies else { panic!() };
    for policy in policies.iter_mut() {
        policy.status.conditions.clear();
    }
    assert_eq!(severities(&facts, "RegistryUnreachable"), [Severity::Warning]);
}

#[test]
fn before_an_upgrade_namespaces_that_would_lose_their_states_are_named() {
    let namespaces = |facts: &mut Facts, labels: serde_json::Value| {
        facts.namespaces = Read::Known(vec![of::<Metadata>(json!({"name": "shop", "labels": labels}))]);
        facts.objects = Read::Known(Objects { listed: vec![of(fixture::object("shop", "True"))], more: 0 });
    };
    let name = "kubernetes.io/metadata.name";
    let label = "persistent-pod-state/injection";
    for (is_opt_in, skipped, labels, wanted) in [
        (false, "other", json!({name: "shop"}), &[][..]),
        (true, "other", json!({name: "shop"}), &[Severity::Warning]),
        (true, "other", json!({name: "shop", label: "enabled"}), &[]),
        (false, "shop", json!({name: "shop"}), &[Severity::Warning]),
        // It is left out now, too.
        (true, "other", json!({name: "shop", label: "disabled"}), &[]),
    ] {
        let mut facts = before();
        facts.settings.is_opt_in = is_opt_in;
        facts.settings.skipped_namespaces = vec![skipped.into()];
        namespaces(&mut facts, labels.clone());
        assert_eq!(severities(&facts, "NamespacesNotCovered"), wanted, "{is_opt_in} {skipped} {labels}");
        // Nothing is installed yet.
        facts.policies = Read::Known(Vec::new());
        assert_eq!(severities(&facts, "NamespacesNotCovered"), [], "{labels}");
    }
}

/// docs/break-glass.md says the same, and its tests show it.
#[test]
fn without_the_definition_pods_start_without_their_states() {
    let found = judge(&changed(|facts| facts.definition = Read::Absent));
    let finding = found.iter().find(|finding| finding.code == Code::DefinitionMissing).unwrap();
    assert!(finding.seen.contains("Pods start without their states"), "{finding:?}");
    assert!(
        finding.advice.contains("--replicas=0") && finding.advice.contains("break-glass.md"),
        "{finding:?}"
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/check.md");
    let document = std::fs::read_to_string(path).unwrap();
    let row = document.lines().find(|line| line.starts_with("| `DefinitionMissing`")).unwrap();
    assert!(row.contains("start without their states") && !row.contains("refused"), "{row}");
}

/// It has no label with the name of a namespace.
#[test]
fn kubernetes_1_20_works_but_is_not_supported() {
    let of_minor = |minor| changed(|facts| facts.kubernetes = Read::Known((1, minor, "v".into())));
    assert_eq!(severities(&of_minor(19), "KubernetesTooOld"), [Severity::Error]);
    assert_eq!(severities(&of_minor(20), "KubernetesTooOld"), [Severity::Warning]);
    assert_eq!(severities(&of_minor(21), "KubernetesTooOld"), []);
}

/// The image of `default` follows Kubewarden's; the same image, and a `default` that does not exist, are fine.
#[test]
fn the_image_of_the_policy_server_is_that_of_default() {
    let image =
        |image: &str| changed(|facts| facts.default_server = known(json!({"spec": {"image": image}})));
    assert_eq!(severities(&image("other:v2"), "PolicyServerImageDiffers"), [Severity::Warning]);
    assert_eq!(
        severities(&image("ghcr.io/kubewarden/policy-server:v1.36.0"), "PolicyServerImageDiffers"),
        []
    );
    let absent = changed(|facts| facts.default_server = Read::Absent);
    assert_eq!(severities(&absent, "PolicyServerImageDiffers"), []);
}
