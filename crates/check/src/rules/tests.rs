use std::collections::BTreeSet;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::facts::{
    Deployment, LeaseReads, Metadata, Module, ModuleAnswer, Objects, Phase, Pod, Policy, Read, Recorder,
    RegistryService, Right, WebhookConfiguration,
};

fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn known<T: DeserializeOwned>(value: Value) -> Read<T> {
    Read::Known(of(value))
}

/// A policy as `deploy/base` has it.
fn shipped(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/base").join(file);
    yaml_serde::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn policies() -> [Value; 2] {
    ["cluster-admission-policy.yaml", "cluster-admission-policy-validation.yaml"].map(|file| {
        let mut policy = shipped(file);
        policy["spec"]["policyServer"] = "own".into();
        policy["status"] = json!({"policyStatus": "active", "mode": "protect", "conditions": [
            {"type": "PolicyActive", "status": "True", "reason": "PolicyActive", "message": "The policy webhook has been created"},
            {"type": "PolicyUniquelyReachable", "status": "True"},
        ]});
        policy
    })
}

/// The webhook that Kubewarden's controller derives from a policy.
fn webhook(policy: &Value) -> WebhookConfiguration {
    let id = format!("clusterwide-{}", policy["metadata"]["name"].as_str().unwrap());
    let spec = &policy["spec"];
    let mut expressions =
        vec![json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kubewarden"]})];
    expressions.extend(spec["namespaceSelector"]["matchExpressions"].as_array().into_iter().flatten().cloned());
    of(json!({"metadata": {"name": id}, "webhooks": [{
        "name": format!("{id}.kubewarden.admission"),
        "clientConfig": {"service": {"namespace": "kubewarden", "name": "policy-server-own", "path": format!("/validate/{id}")}},
        "rules": spec["rules"], "failurePolicy": spec["failurePolicy"], "timeoutSeconds": spec["timeoutSeconds"],
        "objectSelector": spec["objectSelector"], "namespaceSelector": {"matchExpressions": expressions},
        "matchConditions": spec["matchConditions"],
    }]}))
}

fn pod(name: &str, ready: bool) -> Pod {
    of(json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}}))
}

fn lease(holder: &str, first: &str, second: &str) -> Read<LeaseReads> {
    let read = |time: &str| Some(of(json!({"holderIdentity": holder, "renewTime": time})));
    Read::Known(LeaseReads { first: read(first), second: read(second) })
}

/// An installation without a flaw.
fn healthy() -> Facts {
    let own = ["metadata", "spec", "status"];
    let [pods, objects] = policies();
    let definition = |file| {
        let mut definition = shipped(file);
        definition["status"] = json!({"conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1alpha1"]});
        assert!(own.iter().all(|field| definition.get(field).is_some()));
        known(definition)
    };
    let fields: serde_json::Map<String, Value> =
        cluster::POLICY_FIELDS.iter().map(|field| ((*field).to_owned(), json!({}))).collect();
    let kubewarden = json!({"spec": {"versions": [{"name": "v1", "served": true, "schema": {"openAPIV3Schema":
        {"properties": {"spec": {"properties": fields}}}}}]}});
    Facts {
        kubernetes: Read::Known((1, 32, "v1.32.0".into())),
        definition: definition("crd.yaml"),
        policy_definition: known(kubewarden.clone()),
        server_definition: known(kubewarden),
        controllers: known(json!([{"metadata": {"name": "kubewarden-controller", "namespace": "kubewarden",
            "labels": {"app.kubernetes.io/version": "v1.36.0"}}, "status": {"availableReplicas": 1}}])),
        mutating: Read::Known(vec![webhook(&pods)]),
        validating: Read::Known(vec![webhook(&objects)]),
        policies: known(json!([pods, objects])),
        server_name: "own".into(),
        server: known(json!({"metadata": {"name": "own"}, "spec": {"image": "ghcr.io/kubewarden/policy-server:v1.36.0",
            "replicas": 2, "serviceAccountName": "policy-server-own"}})),
        server_namespace: "kubewarden".into(),
        server_deployment: known(json!({"metadata": {"name": "policy-server-own", "namespace": "kubewarden"}})),
        server_pods: Read::Known(vec![pod("a", true), pod("b", true)]),
        server_account: Read::Known(()),
        server_may_look_up: Read::Known(true),
        modules: vec![Module { reference: "registry://r.example/p:v0.1.0".into(), answer: ModuleAnswer::Found }],
        registry_services: vec![RegistryService {
            namespace: "tools".into(),
            name: "registry".into(),
            stateful_owners: Vec::new(),
        }],
        namespaces: known(json!([
            {"name": "default", "labels": {"kubernetes.io/metadata.name": "default"}},
            {"name": "off", "labels": {"persistent-pod-state/injection": "disabled"}},
        ])),
        sidecars: known(json!([sidecar("persistent-pod-state", 2)])),
        sidecar_pods: Read::Known(vec![pod("pps-sidecar-1", true), pod("pps-sidecar-2", true)]),
        sidecar_rights: vec![(Right::new("list", "", "pods"), true)],
        lease: lease("pps-sidecar-1_x", "1", "2"),
        openkruise_lease: Read::Absent,
        whitelist: Read::Known(String::new()),
        objects: Read::Known(Objects { listed: vec![of(object("default", "True"))], more: 0 }),
        ..Facts::default()
    }
}

fn sidecar(namespace: &str, available: u64) -> Value {
    json!({"metadata": {"name": "pps-sidecar", "namespace": namespace}, "spec": {"replicas": 2, "template": {"spec":
        {"containers": [{"name": "sidecar", "image": "r.example/persistent-pod-state-sidecar:v0.1.0"}]}}},
        "status": {"availableReplicas": available}})
}

fn object(namespace: &str, recording: &str) -> Value {
    json!({"metadata": {"name": "w", "namespace": namespace}, "status": {"conditions":
        [{"type": "Recording", "status": recording, "reason": "Some"}]}})
}

fn before() -> Facts {
    let mut facts = healthy();
    facts.settings.phase = Phase::Before;
    facts
}

fn definition(change: impl FnOnce(&mut crate::facts::Definition)) -> Facts {
    let mut facts = healthy();
    let Read::Known(definition) = &mut facts.definition else { panic!() };
    change(definition);
    facts
}

fn server(change: impl FnOnce(&mut crate::facts::PolicyServer)) -> Facts {
    let mut facts = healthy();
    let Read::Known(server) = &mut facts.server else { panic!() };
    change(server);
    facts
}

/// Changes the policy for Pods.
fn policy(change: impl FnOnce(&mut Policy)) -> Facts {
    let mut facts = healthy();
    let Read::Known(policies) = &mut facts.policies else { panic!() };
    change(&mut policies[0]);
    facts
}

fn registry(answer: ModuleAnswer) -> Facts {
    let mut facts = before();
    facts.modules[0].answer = answer;
    facts
}

fn with(mut facts: Facts, change: impl FnOnce(&mut Facts)) -> Facts {
    change(&mut facts);
    facts
}

fn changed(change: impl FnOnce(&mut Facts)) -> Facts {
    with(healthy(), change)
}

/// Each code that a healthy installation does not have, with facts that produce it.
fn flaws() -> Vec<(Code, Severity, Facts)> {
    use Severity::{Error, Info, Unknown, Warning};
    let pull_failure = |answer| with(registry(answer), |facts| facts.settings.runs_in_cluster = true);
    let refused = || ModuleAnswer::Unreachable("connection refused".into());
    vec![
        (Code::KubernetesTooOld, Error, changed(|facts| facts.kubernetes = Read::Known((1, 19, "v1.19.0".into())))),
        (Code::MatchConditionsNotEvaluated, Info, changed(|facts| facts.kubernetes = Read::Known((1, 27, "v1.27.0".into())))),
        (Code::KubewardenMissing, Error, changed(|facts| facts.policy_definition = Read::Absent)),
        (Code::KubewardenMissing, Error, with(before(), |facts| facts.server_definition = Read::Absent)),
        (Code::KubewardenTooOld, Error, changed(|facts| {
            facts.policy_definition = known(json!({"spec": {"versions": [{"name": "v1", "served": true, "schema":
                {"openAPIV3Schema": {"properties": {"spec": {"properties": {"module": {}}}}}}}]}}));
        })),
        (Code::KubewardenTooOld, Error, changed(|facts| facts.policy_definition = known(json!({"spec": {"versions": [{"name": "v1alpha2", "served": true}]}})))),
        (Code::KubewardenControllerUnavailable, Warning, changed(|facts| facts.controllers = Read::Known(Vec::new()))),
        (Code::KubewardenControllerUnavailable, Error, changed(|facts| facts.controllers = known(json!([{"metadata": {"name": "c"}}])))),
        (Code::DefinitionMissing, Error, changed(|facts| facts.definition = Read::Absent)),
        (Code::DefinitionOfOpenKruise, Error, definition(|one| {
            for version in &mut one.spec.versions {
                version.schema["openAPIV3Schema"]["properties"]["spec"]["properties"] = json!({"targetRef": {}});
            }
        })),
        (Code::DefinitionNotEstablished, Error, definition(|one| one.status.conditions.clear())),
        (Code::DefinitionNotEstablished, Error, definition(|one| one.metadata.deletion_timestamp = Some("now".into()))),
        (Code::DefinitionVersionNotServed, Error, definition(|one| one.spec.versions.iter_mut().for_each(|version| version.served = false))),
        (Code::DefinitionStoredVersionUnknown, Warning, definition(|one| one.status.stored_versions.push("v1".into()))),
        (Code::DefinitionConversionWebhook, Warning, definition(|one| one.spec.conversion.strategy = "Webhook".into())),
        (Code::DefinitionWithoutStatus, Error, definition(|one| one.spec.versions[0].subresources = Value::Null)),
        (Code::PolicyServerMissing, Error, changed(|facts| facts.server = Read::Absent)),
        (Code::PolicyServerMissing, Error, with(before(), |facts| facts.server = Read::Absent)),
        (Code::PolicyServerNotReady, Error, changed(|facts| facts.server_pods = Read::Known(vec![pod("a", true), pod("b", false)]))),
        (Code::PolicyServerNotReady, Warning, with(before(), |facts| facts.server_pods = Read::Known(Vec::new()))),
        (Code::PolicyServerNotReady, Error, changed(|facts| facts.server_deployment = Read::Absent)),
        (Code::PolicyServerNotReady, Error, server(|server| server.spec.replicas = 0)),
        (Code::PolicyServerNotReconciled, Warning, server(|server| {
            server.status.conditions = of(json!([{"type": "DeploymentReconciled", "status": "False", "message": "no"}]));
        })),
        (Code::PolicyServerSingleReplica, Info, server(|server| server.spec.replicas = 1)),
        (Code::SignatureRequired, Info, server(|server| server.spec.verification_config = "keys".into())),
        (Code::ServiceAccountMissing, Error, changed(|facts| facts.server_account = Read::Absent)),
        (Code::ServiceAccountMismatch, Error, with(before(), |facts| {
            facts.settings.service_account = Some(("kubewarden".into(), "policy-server".into()));
        })),
        (Code::LookupForbidden, Error, changed(|facts| facts.server_may_look_up = Read::Known(false))),
        (Code::PolicyMissing, Error, changed(|facts| facts.policies = Read::Known(Vec::new()))),
        (Code::PolicyNotActive, Error, policy(|policy| policy.status.conditions[0].status = "False".into())),
        (Code::PolicyNotActive, Error, policy(|policy| policy.status.conditions.clear())),
        (Code::PolicyNotActive, Error, policy(|policy| policy.metadata.deletion_timestamp = Some("now".into()))),
        (Code::PolicyServersDiffer, Warning, policy(|policy| policy.spec.policy_server = "default".into())),
        (Code::PolicyServerImmutable, Error, with(before(), |facts| facts.settings.policy_server = Some("default".into()))),
        (Code::PolicyModeImmutable, Error, with(before(), |facts| facts.settings.mode = Some("monitor".into()))),
        (Code::PolicyMonitors, Warning, policy(|policy| policy.status.mode = "monitor".into())),
        (Code::FailurePolicyIgnore, Info, policy(|policy| policy.spec.failure_policy = Some("Ignore".into()))),
        (Code::TimeoutsDoNotFit, Warning, policy(|policy| policy.spec.timeout_eval_seconds = Some(10))),
        (Code::ObjectSelectorMissing, Warning, policy(|policy| policy.spec.object_selector = Value::Null)),
        (Code::MatchConditionsChanged, Warning, policy(|policy| drop(policy.spec.match_conditions.remove(1)))),
        (Code::MatchConditionsChanged, Warning, policy(|policy| policy.spec.match_conditions[0]["expression"] = "true".into())),
        (Code::LookupNotGranted, Error, policy(|policy| policy.spec.context_aware_resources.clear())),
        (Code::ModulesDiffer, Warning, policy(|policy| policy.spec.module = "registry://r.example/p:v0.2.0".into())),
        (Code::WebhookMissing, Error, changed(|facts| facts.validating = Read::Known(Vec::new()))),
        (Code::WebhookPointsElsewhere, Error, policy(|policy| policy.spec.policy_server = "default".into())),
        (Code::WebhookDiffers, Warning, policy(|policy| policy.spec.timeout_seconds = Some(20))),
        (Code::WebhookDiffers, Warning, policy(|policy| policy.spec.failure_policy = Some("Ignore".into()))),
        (Code::WebhookDiffers, Warning, policy(|policy| policy.spec.match_conditions.clear())),
        (Code::WebhookDiffers, Warning, policy(|policy| policy.spec.object_selector = json!({"matchLabels": {"a": "b"}}))),
        (Code::WebhookDiffers, Warning, policy(|policy| policy.spec.namespace_selector = json!({"matchExpressions": [{"key": "a"}]}))),
        (Code::WebhookDiffers, Warning, policy(|policy| policy.spec.rules.clear())),
        (Code::LaterWebhooks, Info, changed(|facts| {
            let Read::Known(all) = &mut facts.mutating else { panic!() };
            all.push(of(json!({"metadata": {"name": "istio-injector"}, "webhooks": [{"rules": [
                {"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}]}]})));
        })),
        (Code::ModuleNotFound, Error, pull_failure(ModuleAnswer::NotFound)),
        (Code::ModuleNotFound, Warning, changed(|facts| facts.modules[0].answer = ModuleAnswer::NotFound)),
        (Code::RegistryNeedsCredentials, Unknown, pull_failure(ModuleAnswer::NeedsCredentials(401))),
        (Code::RegistryUnreachable, Error, pull_failure(refused())),
        (Code::RegistryUnreachable, Warning, changed(|facts| facts.modules[0].answer = refused())),
        (Code::RegistryUnreachable, Unknown, with(pull_failure(refused()), |facts| facts.settings.runs_in_cluster = false)),
        (Code::RegistryUnreachable, Unknown, with(pull_failure(refused()), |facts| {
            let Read::Known(server) = &mut facts.server else { panic!() };
            server.spec.env = vec![json!({"name": "https_proxy"})];
        })),
        (Code::RegistryUntrusted, Error, pull_failure(ModuleAnswer::UnknownAuthority("x".into()))),
        (Code::RegistryUntrusted, Unknown, with(pull_failure(ModuleAnswer::UnknownAuthority("x".into())), |facts| {
            facts.settings.source_authorities = vec!["r.example".into()];
        })),
        (Code::RegistryUntrusted, Error, pull_failure(ModuleAnswer::PlainHttp)),
        (Code::RegistryAnswerUnclear, Unknown, pull_failure(ModuleAnswer::Unclear("429".into()))),
        (Code::ModuleNotChecked, Info, pull_failure(ModuleAnswer::NotAsked("x"))),
        (Code::RegistryNeedsPolicy, Warning, changed(|facts| facts.registry_services[0].stateful_owners = vec!["StatefulSet registry".into()])),
        (Code::RegistryNeedsPolicy, Warning, with(before(), |facts| facts.registry_services[0].stateful_owners = vec!["StatefulSet registry".into()])),
        (Code::SidecarMissing, Error, changed(|facts| facts.sidecars = Read::Known(Vec::new()))),
        (Code::SidecarNotAvailable, Error, changed(|facts| facts.sidecars = known(json!([sidecar("persistent-pod-state", 0)])))),
        (Code::SidecarNotAvailable, Warning, changed(|facts| facts.sidecars = known(json!([sidecar("persistent-pod-state", 1)])))),
        (Code::SidecarForbidden, Error, changed(|facts| facts.sidecar_rights[0].1 = false)),
        (Code::VersionsDiffer, Info, policy(|policy| policy.spec.module = "registry://r.example:5000/p:v0.2.0@sha256:00".into())),
        (Code::LeaderMissing, Error, changed(|facts| facts.lease = Read::Absent)),
        (Code::LeaderMissing, Error, changed(|facts| facts.lease = lease("pps-sidecar-1_x", "1", "1"))),
        (Code::LeaderMissing, Error, changed(|facts| facts.lease = lease("", "1", "2"))),
        (Code::LeaderMissing, Warning, changed(|facts| facts.lease = lease("other_x", "1", "2"))),
        (Code::SecondInstallation, Error, changed(|facts| {
            facts.sidecars = known(json!([sidecar("persistent-pod-state", 2), sidecar("other", 0)]));
        })),
        (Code::ConflictingRecorder, Error, changed(|facts| facts.openkruise_lease = lease("manager", "1", "2"))),
        (Code::RecorderMissing, Error, changed(|facts| facts.settings.recorder = Recorder::OpenKruise)),
        (Code::ObjectsNotRecorded, Warning, changed(|facts| {
            facts.objects = Read::Known(Objects { listed: vec![of(object("default", "False"))], more: 7 });
        })),
        (Code::NamespacesNotCovered, Info, changed(|facts| {
            facts.objects = Read::Known(Objects { listed: vec![of(object("off", "True"))], more: 0 });
        })),
        (Code::WhitelistMalformed, Warning, changed(|facts| facts.whitelist = Read::Known("{".into()))),
        (Code::CustomKindNotCovered, Warning, changed(|facts| {
            facts.whitelist = Read::Known(r#"{"workloads":[{"group":"example.io","kind":"Database"}]}"#.into());
        })),
        (Code::PermissionMissing, Unknown, changed(|facts| facts.problems = vec![Problem::Forbidden(Right::new("list", "", "pods"))])),
        (Code::RequestFailed, Unknown, changed(|facts| facts.problems = vec![Problem::Failed { what: "a".into(), why: "b".into() }])),
    ]
}

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
    assert_eq!(all.difference(&flaws.union(&fine).copied().collect()).collect::<Vec<_>>(), [&Code::KubernetesSupported; 0]);
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
    let mut facts = changed(|facts| facts.registry_services[0].stateful_owners = vec!["StatefulSet r".into()]);
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
fn openkruise_may_record_with_its_own_definition() {
    let mut facts = flaws().into_iter().find(|(code, ..)| *code == Code::DefinitionOfOpenKruise).unwrap().2;
    facts.settings.recorder = Recorder::OpenKruise;
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
    for odd in [json!(null), json!(0), json!("\u{1b}[2J"), json!([]), json!({}), json!([[null]]), json!({"a": {"b": 1}})] {
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
