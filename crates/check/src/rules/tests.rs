//! Each finding has facts that produce it, and facts that do not.

use std::path::Path;

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use strum::VariantNames;

use super::*;
use crate::facts::{
    LeaseReads, MinorVersion, Module, ModuleAnswer, Objects, Policy, Read, Recorded,
    ServiceAccountName, Version,
};
use crate::finding::{
    DefinitionDiagnosis, ObjectsDiagnosis, PolicyDiagnosis, RecorderDiagnosis, ServerDiagnosis,
    VersionDiagnosis,
};
use crate::report;
use crate::settings::{Phase, Recorder, Scope};

fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn known<T: DeserializeOwned>(value: Value) -> Read<T> {
    Read::Known(of(value))
}

fn version(minor: u32, text: &str) -> Read<Version> {
    Read::Known(Version {
        minor: MinorVersion { major: 1, minor },
        text: text.into(),
    })
}

/// An object as `deploy/base` has it.
fn shipped(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/base")
        .join(file);
    yaml_serde::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn policies() -> [Value; 2] {
    ["cluster-admission-policy.yaml", "cluster-admission-policy-validation.yaml"].map(|file| {
        let mut policy = shipped(file);
        policy["spec"]["policyServer"] = "own".into();
        policy["status"] = json!({"policyStatus": "active", "mode": "protect",
            "conditions": [{"type": "PolicyActive", "status": "True"}, {"type": "PolicyUniquelyReachable", "status": "True"}]});
        policy
    })
}

fn lease(holder: &str, seconds: [i64; 2]) -> Read<LeaseReads> {
    let [first, second] = seconds.map(|second| {
        let time = Timestamp::from_second(second).unwrap().to_string();
        Some(of(json!({"holderIdentity": holder, "renewTime": time})))
    });
    Read::Known(LeaseReads { first, second })
}

/// The definition of a kind whose spec has these fields.
fn kubewarden(fields: &[&str]) -> Value {
    let fields: serde_json::Map<String, Value> = fields
        .iter()
        .map(|field| ((*field).to_owned(), json!({})))
        .collect();
    json!({"spec": {"group": "g", "names": {"kind": "K", "plural": "ks"}, "scope": "Cluster", "versions": [{"name": "v1",
        "served": true, "storage": true, "schema": {"openAPIV3Schema": {"properties": {"spec": {"properties": fields}}}}}]}})
}

/// The fields by which the definitions are known to be of the newest version.
fn server_fields() -> Vec<&'static str> {
    versions::SERVER_FIELDS.map(|field| field.name).into()
}

fn policy_server(name: &str, tag: &str) -> Value {
    let image = format!("r.example/kubewarden/policy-server:{tag}");
    json!({"metadata": {"name": name}, "spec": {"image": image, "replicas": 2}})
}

fn deployment(namespace: &str, name: &str, image: &str, ready: i32) -> Value {
    json!({"metadata": {"name": name, "namespace": namespace}, "spec": {"replicas": 2, "selector": {},
        "template": {"spec": {"containers": [{"name": "c", "image": image}]}}},
        "status": {"availableReplicas": ready, "readyReplicas": ready, "unavailableReplicas": 2 - ready}})
}

fn sidecar(namespace: &str, ready: i32) -> Value {
    deployment(
        namespace,
        "pps-sidecar",
        "r.example/persistent-pod-state-sidecar:v0.1.0",
        ready,
    )
}

fn object(namespace: &str, recording: &str) -> Value {
    json!({"metadata": {"name": "w", "namespace": namespace}, "status": {"conditions":
        [{"type": "Recording", "status": recording, "reason": "WorkloadNotFound", "message": "there is none"}]}})
}

fn objects(all: &[Value]) -> Read<Objects> {
    let listed = all.iter().map(|one| Recorded::read(one).unwrap()).collect();
    Read::Known(Objects { listed, more: 0 })
}

/// An installation without a flaw.
fn healthy() -> Facts {
    let [pods, validation] = policies();
    let mut definition = shipped("crd.yaml");
    definition["status"] = json!({"conditions": [{"type": "Established", "status": "True"}]});
    let webhook = |policy: &str| {
        let webhook = json!({"name": "w", "admissionReviewVersions": [], "clientConfig": {}, "sideEffects": "None"});
        json!([{"metadata": {"name": format!("clusterwide-{policy}")}, "webhooks": [webhook]}])
    };
    Facts {
        kubernetes: version(32, "v1.32.0"),
        definition: known(definition),
        policy_definition: known(kubewarden(&versions::POLICY_FIELDS)),
        server_definition: known(kubewarden(&server_fields())),
        controller: known(deployment(
            "kubewarden",
            "kubewarden-controller",
            "r.example/kubewarden/controller:v1.36.0",
            2,
        )),
        servers: known(json!([policy_server("own", "v1.36.1")])),
        mutating: known::<Vec<MutatingWebhookConfiguration>>(webhook("persistent-pod-state")),
        validating: known::<Vec<ValidatingWebhookConfiguration>>(json!([
            webhook("persistent-pod-state-validation")[0],
            {"metadata": {"name": "kubewarden-controller-validating-webhook-configuration",
                "labels": {"app.kubernetes.io/version": "v1.36.0"}}},
        ])),
        policies: known(json!([pods, validation])),
        server_name: "own".into(),
        server: known(json!({"spec": {"replicas": 2, "serviceAccountName": "policy-server-own"}})),
        server_namespace: "kubewarden".into(),
        server_deployment: known(deployment("kubewarden", "policy-server-own", "i", 2)),
        server_account: Read::Known(()),
        server_may_look_up: Read::Known(true),
        modules: vec![Module {
            reference: "registry://r.example/p:v0.1.0".into(),
            answer: ModuleAnswer::ModuleFound,
        }],
        namespaces: known(json!([{"metadata": {"name": "default", "labels": {
            "kubernetes.io/metadata.name": "default", "persistent-pod-state/injection": "enabled"}}}])),
        sidecars: known(json!([sidecar("persistent-pod-state", 2)])),
        lease: lease("pps-sidecar-1_x", [1, 2]),
        openkruise_lease: Read::Absent,
        whitelist: Read::Known(Some(String::new())),
        objects: objects(&[object("default", "True")]),
        ..Facts::default()
    }
}

fn changed(change: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = healthy();
    change(&mut facts);
    facts
}

fn before(change: impl FnOnce(&mut Facts)) -> Facts {
    changed(|facts| {
        facts.settings.phase = Phase::Before;
        change(facts);
    })
}

fn controller(tag: &str) -> Facts {
    changed(|facts| {
        facts.controller = known(deployment(
            "kubewarden",
            "c",
            &format!("controller:{tag}"),
            2,
        ));
    })
}

/// The servers of policies have these names and tags.
fn servers(all: &[(&str, &str)]) -> Facts {
    changed(|facts| {
        let all = all.iter().map(|(name, tag)| policy_server(name, tag));
        facts.servers = known(all.collect());
    })
}

/// Changes the policy for Pods.
fn policy(change: impl FnOnce(&mut Policy)) -> Facts {
    changed(|facts| {
        let Read::Known(policies) = &mut facts.policies else {
            panic!()
        };
        change(&mut policies[0]);
    })
}

fn definition(change: impl FnOnce(&mut Value)) -> Facts {
    changed(|facts| {
        let mut definition = shipped("crd.yaml");
        definition["status"] = json!({"conditions": [{"type": "Established", "status": "True"}]});
        change(&mut definition);
        facts.definition = known(definition);
    })
}

fn registry(answer: ModuleAnswer) -> Facts {
    before(|facts| facts.modules[0].answer = answer)
}

/// Each code that a healthy installation does not have, with facts that produce it.
fn flaws() -> Vec<(&'static str, Severity, Facts)> {
    use Severity::{Error, Info, Unknown, Warning};
    let refused = || ModuleAnswer::RegistryUnreachable("connection refused".into());
    let each_version = |change: fn(&mut Value)| {
        definition(|one| {
            one["spec"]["versions"]
                .as_array_mut()
                .unwrap()
                .iter_mut()
                .for_each(change);
        })
    };
    let with_other = |replicas: i32| {
        let mut other = sidecar("aaa", 2);
        other["spec"]["replicas"] = replicas.into();
        changed(|facts| facts.sidecars = known(json!([sidecar("persistent-pod-state", 2), other])))
    };
    vec![
        (
            "KubernetesTooOld",
            Warning,
            changed(|facts| facts.kubernetes = version(29, "v")),
        ),
        (
            "KubewardenMissing",
            Error,
            changed(|facts| facts.policy_definition = Read::Absent),
        ),
        (
            "KubewardenMissing",
            Error,
            before(|facts| facts.server_definition = Read::Absent),
        ),
        (
            "KubewardenTooOld",
            Error,
            changed(|facts| facts.policy_definition = known(kubewarden(&["module"]))),
        ),
        ("KubewardenTooOld", Error, controller("v1.32.1")),
        ("KubewardenTooOld", Error, servers(&[("own", "v1.32.1")])),
        ("KubewardenSkewed", Warning, controller("v1.35.0")),
        ("KubewardenSkewed", Warning, servers(&[("own", "v1.35.0")])),
        (
            "KubewardenSkewed",
            Warning,
            changed(|facts| facts.server_definition = known(kubewarden(&server_fields()[..2]))),
        ),
        (
            "KubewardenVersionUnknown",
            Unknown,
            servers(&[("own", "latest")]),
        ),
        (
            "KubewardenVersionUnknown",
            Unknown,
            changed(|facts| {
                facts.controller = Read::Unknown;
                let Read::Known(all) = &mut facts.validating else {
                    panic!()
                };
                all[1].metadata.labels = None;
            }),
        ),
        (
            "DefaultPolicyServerImage",
            Info,
            changed(|facts| {
                facts.policies = Read::Known(Vec::new());
                facts.servers = known(json!([policy_server("default", "v1.36.0")]));
            }),
        ),
        (
            "DefinitionMissing",
            Error,
            changed(|facts| facts.definition = Read::Absent),
        ),
        (
            "DefinitionOfOpenKruise",
            Error,
            each_version(|version| {
                version["schema"]["openAPIV3Schema"]["properties"]["spec"] =
                    json!({"type": "object"});
            }),
        ),
        (
            "DefinitionNotEstablished",
            Error,
            definition(|one| one["status"] = json!({})),
        ),
        (
            "DefinitionNotEstablished",
            Error,
            definition(|one| one["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into()),
        ),
        (
            "DefinitionVersionNotServed",
            Error,
            each_version(|version| version["served"] = false.into()),
        ),
        (
            "DefinitionVersionNotServed",
            Error,
            each_version(|version| version["subresources"] = json!({})),
        ),
        ("DefinitionWithoutCompactForm", Error, hidden_states()),
        (
            "PolicyServerMissing",
            Error,
            changed(|facts| facts.server = Read::Absent),
        ),
        (
            "PolicyServerMissing",
            Error,
            before(|facts| facts.server = Read::Absent),
        ),
        (
            "PolicyServerNotReady",
            Error,
            changed(|facts| facts.server_deployment = known(deployment("kubewarden", "s", "i", 1))),
        ),
        (
            "PolicyServerNotReady",
            Warning,
            before(|facts| facts.server_deployment = Read::Absent),
        ),
        (
            "PolicyServerNotReady",
            Error,
            changed(|facts| facts.server = known(json!({"spec": {"replicas": 0}}))),
        ),
        (
            "ServiceAccountMissing",
            Error,
            changed(|facts| facts.server_account = Read::Absent),
        ),
        (
            "ServiceAccountMismatch",
            Error,
            before(|facts| {
                facts.settings.service_account = Some(ServiceAccountName {
                    namespace: "kubewarden".into(),
                    name: "policy-server".into(),
                });
            }),
        ),
        (
            "LookupForbidden",
            Error,
            changed(|facts| facts.server_may_look_up = Read::Known(false)),
        ),
        (
            "PolicyMissing",
            Error,
            changed(|facts| facts.policies = Read::Known(Vec::new())),
        ),
        (
            "PolicyNotActive",
            Error,
            policy(|policy| policy.status.conditions[0].status = "False".into()),
        ),
        (
            "PolicyNotActive",
            Error,
            policy(|policy| policy.status.conditions.clear()),
        ),
        (
            "PoliciesDiffer",
            Warning,
            policy(|policy| policy.spec.policy_server = "default".into()),
        ),
        (
            "PolicyServerImmutable",
            Error,
            before(|facts| facts.settings.policy_server = Some("default".into())),
        ),
        (
            "PolicyMonitors",
            Warning,
            policy(|policy| policy.status.mode = "monitor".into()),
        ),
        (
            "PolicyDiffers",
            Warning,
            policy(|policy| policy.spec.match_conditions.clear()),
        ),
        (
            "PolicyDiffers",
            Error,
            policy(|policy| policy.spec.mutating = false),
        ),
        (
            "LookupNotGranted",
            Error,
            policy(|policy| policy.spec.context_aware_resources.clear()),
        ),
        (
            "PoliciesDiffer",
            Warning,
            policy(|policy| policy.spec.module = "registry://other/p:v1".into()),
        ),
        (
            "WebhookMissing",
            Error,
            changed(|facts| facts.mutating = Read::Known(Vec::new())),
        ),
        ("WebhookMissing", Error, without_webhooks()),
        (
            "ModuleNotFound",
            Error,
            registry(ModuleAnswer::ModuleNotFound),
        ),
        (
            "ModuleNotFound",
            Warning,
            changed(|facts| facts.modules[0].answer = ModuleAnswer::ModuleNotFound),
        ),
        (
            "RegistryNeedsCredentials",
            Unknown,
            registry(ModuleAnswer::RegistryNeedsCredentials(401)),
        ),
        ("RegistryUnreachable", Error, registry(refused())),
        (
            "RegistryUnreachable",
            Unknown,
            before(|facts| {
                facts.modules[0].answer = refused();
                facts.settings.runs_in_cluster = false;
            }),
        ),
        (
            "RegistryUnreachable",
            Unknown,
            before(|facts| {
                facts.modules[0].answer = refused();
                facts.server = known(
                    json!({"spec": {"replicas": 2, "env": [{"name": "https_proxy", "value": "p"}]}}),
                );
            }),
        ),
        (
            "RegistryUnreachable",
            Unknown,
            before(|facts| {
                facts.modules[0].answer = refused();
                facts.settings.source_authority = vec!["r.example".into()];
            }),
        ),
        (
            "RegistryAnswerUnclear",
            Unknown,
            registry(ModuleAnswer::RegistryAnswerUnclear("429".into())),
        ),
        (
            "ModuleNotChecked",
            Info,
            registry(ModuleAnswer::ModuleNotChecked),
        ),
        (
            "SidecarMissing",
            Error,
            changed(|facts| {
                (facts.sidecars, facts.lease) = (Read::Known(Vec::new()), Read::Absent);
            }),
        ),
        (
            "SidecarMissing",
            Warning,
            changed(|facts| facts.sidecars = Read::Known(Vec::new())),
        ),
        (
            "SidecarNotAvailable",
            Error,
            changed(|facts| facts.sidecars = known(json!([sidecar("persistent-pod-state", 0)]))),
        ),
        (
            "SidecarNotAvailable",
            Warning,
            changed(|facts| facts.sidecars = known(json!([sidecar("persistent-pod-state", 1)]))),
        ),
        (
            "SidecarForbidden",
            Error,
            changed(|facts| facts.missing_sidecar_rights = vec![Right::new("list", "", "pods")]),
        ),
        (
            "FallbackForbidden",
            Warning,
            changed(|facts| {
                facts.missing_fallback_rights = vec![Right::new("get", "", "persistentvolumes")];
            }),
        ),
        (
            "FallbackForbidden",
            Warning,
            changed(|facts| facts.falls_back = true),
        ),
        (
            "LeaderMissing",
            Error,
            changed(|facts| facts.lease = Read::Absent),
        ),
        (
            "LeaderMissing",
            Error,
            changed(|facts| facts.lease = lease("pps-sidecar-1_x", [1, 1])),
        ),
        (
            "LeaderMissing",
            Error,
            changed(|facts| facts.lease = lease("", [1, 2])),
        ),
        ("SecondInstallation", Warning, with_other(1)),
        (
            "ConflictingRecorder",
            Error,
            changed(|facts| facts.openkruise_lease = lease("manager", [1, 2])),
        ),
        (
            "RecorderMissing",
            Error,
            changed(|facts| facts.setup.recorder = Recorder::OpenKruise),
        ),
        (
            "ObjectsNotRecorded",
            Warning,
            changed(|facts| facts.objects = objects(&[object("default", "False")])),
        ),
        (
            "NamespacesNotCovered",
            Warning,
            changed(|facts| facts.objects = objects(&[object("kubewarden", "True")])),
        ),
        (
            "WhitelistMalformed",
            Warning,
            changed(|facts| facts.whitelist = Read::Known(Some("{".into()))),
        ),
        (
            "CustomKindNotCovered",
            Warning,
            changed(|facts| {
                facts.whitelist = Read::Known(Some(
                    r#"{"workloads":[{"group":"g.example","kind":"Ring"}]}"#.into(),
                ));
            }),
        ),
        (
            "PermissionMissing",
            Unknown,
            changed(|facts| {
                facts.problems = vec![Problem::Forbidden(Right::new("list", "", "pods"))];
            }),
        ),
        (
            "RequestFailed",
            Unknown,
            changed(|facts| {
                facts.problems = vec![Problem::Failed {
                    right: None,
                    why: "b".into(),
                }];
            }),
        ),
    ]
}

/// The webhook's configuration exists, and the API server asks nobody.
fn without_webhooks() -> Facts {
    changed(|facts| {
        let Read::Known(all) = &mut facts.mutating else {
            panic!()
        };
        all[0].webhooks = Some(Vec::new());
    })
}

/// A definition that hides the states of an object: they are in the compact form, which it does not
/// have.
fn hidden_states() -> Facts {
    let mut packed = object("shop", "True");
    packed["metadata"]["managedFields"] = json!([
        {"manager": "kubectl", "fieldsV1": {"f:spec": {}}},
        {"manager": "pps-sidecar", "subresource": "status", "fieldsV1": {"f:status": {"f:packed": {".": {}}}}},
    ]);
    let mut facts = definition(|one| {
        for version in one["spec"]["versions"].as_array_mut().unwrap() {
            let status =
                &mut version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"];
            status
                .as_object_mut()
                .unwrap()
                .remove("packed")
                .expect("our definition has the compact form");
        }
    });
    facts.objects = objects(&[packed]);
    facts
}

fn severities(facts: &Facts, code: &str) -> Vec<Severity> {
    judge(facts)
        .into_iter()
        .filter(|one| one.code() == code)
        .map(|one| one.severity)
        .collect()
}

fn assert_fine(facts: &Facts) {
    let found = judge(facts);
    assert!(
        found.iter().all(|finding| finding.severity == Severity::Ok),
        "{found:#?}"
    );
}

#[test]
fn a_right_installation_has_no_flaw() {
    assert_fine(&healthy());
    assert_fine(&before(|_| {}));
}

#[test]
fn each_flaw_has_its_code_and_severity_and_says_what_to_do() {
    for (code, severity, facts) in flaws() {
        assert!(
            severities(&facts, code).contains(&severity),
            "{code} {severity:?}: {:#?}",
            judge(&facts)
        );
        for finding in judge(&facts).iter().filter(|one| one.code() == code) {
            let words = report::words(&facts, finding);
            assert!(
                !words.seen.is_empty() && !finding.subject.is_empty(),
                "{finding:?}"
            );
            assert!(
                !words.advice().is_empty() || code == "ModuleNotChecked",
                "{finding:?}"
            );
        }
    }
}

/// Each code has facts that produce it, and `docs/reference/check.md` explains each in the order of
/// the code.
#[test]
fn each_code_is_produced_by_some_facts_and_documented() {
    let flaws: BTreeSet<&str> = flaws().into_iter().map(|(code, ..)| code).collect();
    let fine: BTreeSet<&str> = judge(&healthy()).iter().map(Finding::code).collect();
    assert_eq!(
        flaws.intersection(&fine).count(),
        0,
        "a code is either fine or a flaw"
    );
    let codes = [
        VersionDiagnosis::VARIANTS,
        DefinitionDiagnosis::VARIANTS,
        ServerDiagnosis::VARIANTS,
        PolicyDiagnosis::VARIANTS,
        ModuleAnswer::VARIANTS,
        RecorderDiagnosis::VARIANTS,
        ObjectsDiagnosis::VARIANTS,
        UnreadDiagnosis::VARIANTS,
    ]
    .concat();
    let all: BTreeSet<&str> = codes.iter().copied().collect();
    assert_eq!(all, flaws.union(&fine).copied().collect::<BTreeSet<_>>());

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/check.md");
    let document = std::fs::read_to_string(path).unwrap();
    let rows = document
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once("` |")?.0));
    let rows = rows.filter(|code| {
        code.chars().all(char::is_alphanumeric) && code.starts_with(char::is_uppercase)
    });
    assert_eq!(rows.collect::<Vec<_>>(), codes);
}

#[test]
fn before_an_installation_what_it_creates_may_be_absent() {
    let mut facts = before(|facts| {
        (facts.definition, facts.policies) = (Read::Absent, Read::Known(Vec::new()));
        (facts.server, facts.server_account) = (Read::Absent, Read::Absent);
        facts.server_may_look_up = Read::Known(false);
        facts.settings.creates_policy_server = true;
        (facts.mutating, facts.validating) = (Read::Known(Vec::new()), Read::Known(Vec::new()));
        (facts.sidecars, facts.lease, facts.objects) =
            (Read::Known(Vec::new()), Read::Absent, Read::Absent);
    });
    // The account is looked for only if the PolicyServer exists.
    facts.server_account = Read::Unknown;
    assert_fine(&facts);
    facts.settings.creates_policy_server = false;
    assert_eq!(severities(&facts, "PolicyServerMissing"), [Severity::Error]);
}

#[test]
fn policies_for_the_recorded_namespaces_alone_are_those_that_the_chart_installs() {
    let mut facts = policy(|policy| {
        let named =
            json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["default"]});
        let all = policy
            .spec
            .namespace_selector
            .match_expressions
            .as_mut()
            .unwrap();
        all.push(serde_json::from_value(named).unwrap());
    });
    assert_eq!(severities(&facts, "PolicyDiffers"), [Severity::Warning]);
    facts.setup.namespace = Some("default".into());
    assert_fine(&facts);
}

#[test]
fn a_custom_kind_is_covered_only_by_a_policy_that_names_it_with_its_group() {
    let file = "../components/custom-workloads/cluster-admission-policy-custom-workloads.yaml";
    for (group, kind, expected) in [
        ("example.io", "Database", &[][..]),
        ("ample.io", "Database", &[Severity::Warning]),
        ("example.io", "Data", &[Severity::Warning]),
        ("example.io", "Cache", &[Severity::Warning]),
    ] {
        let facts = changed(|facts| {
            let Read::Known(policies) = &mut facts.policies else {
                panic!()
            };
            policies.push(of(shipped(file)));
            let list = json!({"workloads": [{"group": group, "kind": kind}]});
            facts.whitelist = Read::Known(Some(list.to_string()));
        });
        assert_eq!(
            severities(&facts, "CustomKindNotCovered"),
            expected,
            "{kind}.{group}"
        );
    }
}

#[test]
fn a_sidecar_without_policies_is_checked_alone() {
    let facts = changed(|facts| {
        facts.settings.without_policies = true;
        facts.policies = Read::Absent;
        (facts.policy_definition, facts.server_definition) = (Read::Absent, Read::Absent);
        facts.modules.clear();
    });
    assert_fine(&facts);
}

#[test]
fn openkruise_may_record_with_its_own_definition() {
    let mut facts = flaws()
        .into_iter()
        .find(|(code, ..)| *code == "DefinitionOfOpenKruise")
        .unwrap()
        .2;
    facts.setup.recorder = Recorder::OpenKruise;
    facts.openkruise_lease = lease("manager", [1, 2]);
    facts.lease = Read::Absent;
    assert_fine(&facts);
}

/// An installation brings the field back; a definition that hides nothing is fine without it.
#[test]
fn hidden_states_are_named() {
    let mut facts = hidden_states();
    let finding = judge(&facts)
        .into_iter()
        .find(|one| one.code() == "DefinitionWithoutCompactForm")
        .unwrap();
    assert_eq!(
        finding.diagnosis,
        Diagnosis::from(DefinitionDiagnosis::DefinitionWithoutCompactForm {
            hidden_objects: vec!["shop/w".into()]
        })
    );
    facts.settings.phase = Phase::Before;
    assert_eq!(
        severities(&facts, "DefinitionWithoutCompactForm"),
        [Severity::Warning]
    );
    facts.objects = objects(&[object("shop", "True")]);
    assert_eq!(severities(&facts, "DefinitionWithoutCompactForm"), []);
}

#[test]
fn what_cannot_be_read_is_unknown_and_not_wrong() {
    let missing = Problem::Forbidden(Right::new("list", "", "pods").within("kubewarden"));
    let facts = Facts {
        kubernetes: version(32, "v1.32.0"),
        problems: vec![missing.clone(), missing],
        ..Facts::default()
    };
    let found = judge(&facts);
    let unknown: Vec<&Finding> = found
        .iter()
        .filter(|finding| finding.severity != Severity::Ok)
        .collect();
    assert_eq!(unknown.len(), 1, "{found:#?}");
    assert_eq!(
        report::words(&facts, unknown[0]).seen,
        "may not list pods in namespace kubewarden"
    );
}

/// Nothing looks wrong, and Pods do not get their states back.
#[test]
#[allow(clippy::large_stack_arrays, reason = "each case has all facts")]
fn a_policy_that_is_never_asked_is_not_fine() {
    use crate::finding::Difference as D;
    let rule = |resource: &str, operation: &str| {
        of(
            json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": [resource], "operations": [operation]}),
        )
    };
    let expression = json!({"key": "no", "operator": "In", "values": ["where"]});
    for (severity, wanted, facts) in [
        (
            Severity::Error,
            D::NotMutating,
            policy(|policy| policy.spec.mutating = false),
        ),
        (
            Severity::Error,
            D::NoNewPods,
            policy(|policy| policy.spec.rules.clear()),
        ),
        (
            Severity::Error,
            D::NoNewPods,
            policy(|policy| policy.spec.rules = vec![rule("configmaps", "*"), rule("*", "DELETE")]),
        ),
        (
            Severity::Warning,
            D::Selects(vec!["objectSelector"]),
            policy(|policy| {
                policy.spec.object_selector = of(json!({"matchLabels": {"no": "where"}}));
            }),
        ),
        (
            Severity::Warning,
            D::Selects(vec!["namespaceSelector", "matchConditions"]),
            policy(|policy| {
                let expressions = &mut policy.spec.namespace_selector.match_expressions;
                expressions
                    .get_or_insert_default()
                    .push(of(expression.clone()));
                let more = MatchCondition {
                    name: "more".into(),
                    expression: "false".into(),
                };
                policy.spec.match_conditions.push(more);
            }),
        ),
        (
            Severity::Warning,
            D::Selects(vec!["matchConditions"]),
            policy(|policy| policy.spec.match_conditions[0].expression = "true".into()),
        ),
    ] {
        let found = judge(&facts);
        let diagnosis = Diagnosis::from(PolicyDiagnosis::PolicyDiffers(wanted.clone()));
        let is_named = |one: &Finding| one.severity == severity && one.diagnosis == diagnosis;
        assert!(found.iter().any(is_named), "{wanted:?}: {found:#?}");
    }
}

/// The upgrade may be the repair, and makes nothing worse.
#[test]
fn a_module_that_is_installed_already_stops_no_upgrade() {
    let mut facts = registry(ModuleAnswer::RegistryUnreachable("refused".into()));
    let installed = facts.own_policies().next().unwrap().spec.module.clone();
    facts.modules[0].reference = installed;
    let Read::Known(policies) = &mut facts.policies else {
        panic!()
    };
    for policy in policies {
        policy.status.conditions.clear();
    }
    assert_eq!(
        severities(&facts, "RegistryUnreachable"),
        [Severity::Warning]
    );
}

#[test]
fn before_an_upgrade_namespaces_that_would_lose_their_states_are_named() {
    let label = "persistent-pod-state/injection";
    for (scope, skipped, covered_now, label_value, wanted) in [
        (Scope::All, "other", true, None, &[][..]),
        (Scope::OptIn, "other", true, None, &[Severity::Warning]),
        (Scope::OptIn, "other", true, Some("enabled"), &[]),
        (Scope::All, "shop", true, None, &[Severity::Warning]),
        // It is left out now, too.
        (Scope::OptIn, "other", false, Some("disabled"), &[]),
    ] {
        let mut facts = before(|facts| {
            facts.settings.scope = scope;
            facts.settings.skipped_namespace = vec![skipped.into()];
            let labels =
                json!({"kubernetes.io/metadata.name": "shop", "covered": covered_now.to_string()});
            facts.namespaces = known(json!([{"metadata": {"name": "shop", "labels": labels}}]));
            facts.objects = objects(&[object("shop", "True")]);
        });
        let Read::Known(policies) = &mut facts.policies else {
            panic!()
        };
        policies[0].spec.namespace_selector = of(
            json!({"matchExpressions": [{"key": "covered", "operator": "NotIn", "values": ["false"]}]}),
        );
        if let (Some(value), Read::Known(namespaces)) = (label_value, &mut facts.namespaces) {
            namespaces[0]
                .metadata
                .labels
                .as_mut()
                .unwrap()
                .insert(label.into(), value.into());
        }
        assert_eq!(
            severities(&facts, "NamespacesNotCovered"),
            wanted,
            "{scope:?} {skipped} {label_value:?}"
        );
        // Nothing is installed yet.
        facts.policies = Read::Known(Vec::new());
        assert_eq!(severities(&facts, "NamespacesNotCovered"), []);
    }
}

/// Also where no policy is installed, and only the sidecar says so.
#[test]
fn a_namespace_out_of_scope_is_named_once_with_the_command_that_enables_it() {
    let mut out = object("shop", "False");
    out["status"]["conditions"][0]["reason"] = "NamespaceNotEnabled".into();
    let facts = changed(|facts| {
        facts.objects = objects(&[out.clone(), out, object("default", "True")]);
        facts.settings.without_policies = true;
        facts.policies = Read::Known(Vec::new());
    });
    assert_eq!(
        severities(&facts, "ObjectsNotRecorded"),
        [],
        "this is no fault of each object"
    );
    assert_eq!(
        severities(&facts, "NamespacesNotCovered"),
        [Severity::Warning]
    );
    let mut found = judge(&facts);
    found.retain(|one| one.code() == "NamespacesNotCovered");
    let words = report::words(&facts, &found[0]);
    assert!(
        words.seen.ends_with("start without their states: shop"),
        "{}",
        words.seen
    );
    let command = "kubectl label namespace shop persistent-pod-state/injection=enabled --overwrite";
    assert_eq!(words.command, command);

    // The sidecar alone leaves it out. Commands name the cluster that was asked.
    let facts = changed(|facts| {
        let mut out = object("shop", "False");
        out["status"]["conditions"][0]["reason"] = "NamespaceNotEnabled".into();
        facts.objects = objects(&[out]);
        facts.settings.cluster = " --context staging".into();
    });
    assert_eq!(
        severities(&facts, "NamespacesNotCovered"),
        [Severity::Warning]
    );
    let words = report::words(
        &facts,
        judge(&facts)
            .iter()
            .find(|one| one.code() == "NamespacesNotCovered")
            .unwrap(),
    );
    assert!(
        words.command.ends_with(" --context staging"),
        "{}",
        words.command
    );

    // It has the label.
    found[0].diagnosis = ObjectsDiagnosis::NamespacesNotCovered {
        namespaces: vec!["default".into()],
    }
    .into();
    assert_eq!(report::words(&facts, &found[0]).command, "");
}

#[test]
fn an_object_that_is_not_recorded_is_named_with_the_reason_and_a_command() {
    let facts = changed(|facts| facts.objects = objects(&[object("shop", "False")]));
    let found = judge(&facts);
    let words = report::words(
        &facts,
        found
            .iter()
            .find(|one| one.code() == "ObjectsNotRecorded")
            .unwrap(),
    );
    assert_eq!(
        words.seen,
        "1 of 1 are not recorded: shop/w (WorkloadNotFound)"
    );
    assert!(
        words.command.ends_with("kubectl describe pps w -n shop"),
        "{}",
        words.command
    );
}

/// What is said of Kubewarden's versions, with its advice.
fn skews(facts: &Facts) -> Vec<String> {
    let codes = ["KubewardenSkewed", "KubewardenTooOld"];
    judge(facts)
        .iter()
        .filter(|one| codes.contains(&one.code()))
        .map(|one| {
            let words = report::words(facts, one);
            format!("{}: {} -> {}", one.subject, words.seen, words.advice())
        })
        .collect()
}

#[test]
#[allow(clippy::large_stack_arrays, reason = "each case has all facts")]
fn the_older_part_of_kubewarden_is_named_with_the_chart_that_updates_it() {
    let from_137 = "(from 1.37 on admission-controller)";
    let to_137 = "docs/upgrading.md says how to change to it)";
    let images = "r.example/kubewarden/policy-server";
    for (facts, wanted) in [
        (servers(&[("own", "v1.36.9")]), vec![]),
        (
            servers(&[
                ("default", "v1.36.0"),
                ("own", "v1.35.0"),
                ("team", "v1.34.2"),
            ]),
            vec![
                format!(
                    "PolicyServer own: its image is {images}:v1.35.0, but the controller is 1.36 \
                     -> set its spec.image to {images}:v1.36.0 (chart: policyServer.image)"
                ),
                format!(
                    "PolicyServer team: its image is {images}:v1.34.2, but the controller is 1.36 \
                     -> set its spec.image to {images}:v1.36.0"
                ),
            ],
        ),
        (
            servers(&[("default", "v1.35.0"), ("own", "v1.35.0")]),
            vec![
                format!(
                    "PolicyServer default: its image is {images}:v1.35.0, but the controller is \
                     1.36 -> update it: Kubewarden's chart kubewarden-defaults {from_137}"
                ),
                format!(
                    "PolicyServer own: its image is {images}:v1.35.0, but the controller is 1.36 \
                     -> set its spec.image to one of 1.36 (chart: policyServer.image)"
                ),
            ],
        ),
        (
            servers(&[("default", "v1.37.2"), ("own", "v1.37.2")]),
            vec![format!(
                "Kubewarden's controller: is v1.36.0, but PolicyServer own is 1.37 -> update it: \
                 Kubewarden's chart admission-controller (up to 1.36 kubewarden-controller; \
                 {to_137}"
            )],
        ),
        (
            changed(|facts| facts.server_definition = known(kubewarden(&server_fields()[..1]))),
            vec![format!(
                "Kubewarden's definitions: have no PolicyServer.spec.webhookPort, but the \
                 controller is 1.36 -> update them: Kubewarden's chart kubewarden-crds {from_137}"
            )],
        ),
        (
            changed(|facts| {
                facts.controller = known(deployment("k", "c", "controller:v1.35.0", 2));
                facts.servers = known(json!([policy_server("own", "v1.36.0")]));
            }),
            vec![format!(
                "Kubewarden's controller: is v1.35.0, but PolicyServer own is 1.36 -> update it: \
                 Kubewarden's chart kubewarden-controller {from_137}"
            )],
        ),
        (
            controller("v1.32.1"),
            vec![format!(
                "Kubewarden's controller: is v1.32.1 -> update Kubewarden to 1.33 or newer, the \
                 oldest that is supported: Kubewarden's chart kubewarden-controller {from_137}"
            )],
        ),
        // An old PolicyServer of somebody else is only skewed.
        (
            servers(&[("own", "v1.36.0"), ("team", "v1.30.0")]),
            vec![format!(
                "PolicyServer team: its image is {images}:v1.30.0, but the controller is 1.36 -> \
                 set its spec.image to one of 1.36"
            )],
        ),
    ] {
        assert_eq!(skews(&facts), wanted);
    }
}

/// A digest says nothing of a version; the charts' label does.
#[test]
fn the_version_of_the_controller_is_that_of_its_image_else_of_its_chart() {
    for (tag, wanted) in [("v1.36.2", "v1.36.2"), ("latest", "v1.36.0")] {
        let facts = controller(tag);
        assert_eq!(facts.controller_version().unwrap().text, wanted);
    }
    let facts = changed(|facts| facts.controller = Read::Unknown);
    assert_eq!(facts.controller_version().unwrap().text, "v1.36.0");
}

#[test]
fn all_versions_of_kubewarden_and_the_image_of_its_own_server_are_shown() {
    let facts = servers(&[("default", "v1.36.0"), ("own", "v1.36.1")]);
    let found = judge(&facts);
    let all = found.iter().find(|one| one.code() == "KubewardenInstalled");
    let images = "r.example/kubewarden/policy-server";
    assert_eq!(
        report::words(&facts, all.unwrap()).seen,
        format!(
            "its definitions have all fields that the policies use; controller v1.36.0; \
             PolicyServers: default {images}:v1.36.0, own {images}:v1.36.1"
        )
    );
    let facts = changed(|facts| facts.servers = Read::Unknown);
    let found = judge(&facts);
    let all = found.iter().find(|one| one.code() == "KubewardenInstalled");
    let seen = report::words(&facts, all.unwrap()).seen;
    assert!(seen.ends_with("PolicyServers could not be read"), "{seen}");
}
