//! Facts with one flaw each.

use serde_json::{Value, json};

use super::fixture::{
    before, changed, definition, earlier_release, known, lease, object, of, packed_object, pod, policy,
    registry, server, sidecar, with,
};
use crate::facts::{Facts, ModuleAnswer, Objects, OtherSidecar, Problem, Read, Recorder, Right};
use crate::finding::{Code, Severity};

/// Each code that a healthy installation does not have, with facts that produce it.
pub(super) fn flaws() -> Vec<(Code, Severity, Facts)> {
    use Severity::{Error, Info, Unknown, Warning};
    let pull_failure = |answer| with(registry(answer), |facts| facts.settings.runs_in_cluster = true);
    let other = |records| OtherSidecar { name: "aaa/tenants".into(), records };
    let refused = || ModuleAnswer::Unreachable("connection refused".into());
    vec![
        (
            Code::KubernetesTooOld,
            Error,
            changed(|facts| facts.kubernetes = Read::Known((1, 19, "v1.19.0".into()))),
        ),
        (
            Code::KubernetesTooOld,
            Warning,
            changed(|facts| facts.kubernetes = Read::Known((1, 20, "v1.20.0".into()))),
        ),
        (
            Code::MatchConditionsNotEvaluated,
            Info,
            changed(|facts| facts.kubernetes = Read::Known((1, 27, "v1.27.0".into()))),
        ),
        (Code::KubewardenMissing, Error, changed(|facts| facts.policy_definition = Read::Absent)),
        (Code::KubewardenMissing, Error, with(before(), |facts| facts.server_definition = Read::Absent)),
        (
            Code::KubewardenTooOld,
            Error,
            changed(|facts| {
                facts.policy_definition =
                    known(json!({"spec": {"versions": [{"name": "v1", "served": true, "schema":
                {"openAPIV3Schema": {"properties": {"spec": {"properties": {"module": {}}}}}}}]}}));
            }),
        ),
        (
            Code::KubewardenTooOld,
            Error,
            changed(|facts| {
                facts.policy_definition =
                    known(json!({"spec": {"versions": [{"name": "v1alpha2", "served": true}]}}));
            }),
        ),
        (
            Code::KubewardenControllerUnavailable,
            Warning,
            changed(|facts| facts.controllers = Read::Known(Vec::new())),
        ),
        (
            Code::KubewardenControllerUnavailable,
            Error,
            changed(|facts| facts.controllers = known(json!([{"metadata": {"name": "c"}}]))),
        ),
        (Code::DefinitionMissing, Error, changed(|facts| facts.definition = Read::Absent)),
        (
            Code::DefinitionOfOpenKruise,
            Error,
            definition(|one| {
                for version in &mut one.spec.versions {
                    version.schema["openAPIV3Schema"]["properties"]["spec"]["properties"] =
                        json!({"targetRef": {}});
                }
            }),
        ),
        (Code::DefinitionNotEstablished, Error, definition(|one| one.status.conditions.clear())),
        (
            Code::DefinitionNotEstablished,
            Error,
            definition(|one| one.metadata.deletion_timestamp = Some("now".into())),
        ),
        (
            Code::DefinitionVersionNotServed,
            Error,
            definition(|one| one.spec.versions.iter_mut().for_each(|version| version.served = false)),
        ),
        (
            Code::DefinitionStoredVersionUnknown,
            Warning,
            definition(|one| one.status.stored_versions.push("v1".into())),
        ),
        (
            Code::DefinitionConversionWebhook,
            Warning,
            definition(|one| one.spec.conversion.strategy = "Webhook".into()),
        ),
        (
            Code::DefinitionWithoutStatus,
            Error,
            definition(|one| one.spec.versions[0].subresources = Value::Null),
        ),
        (Code::DefinitionWithoutCompactForm, Warning, earlier_release()),
        (
            Code::DefinitionWithoutCompactForm,
            Error,
            with(earlier_release(), |facts| {
                facts.objects = Read::Known(Objects { listed: vec![of(packed_object())], more: 0 });
            }),
        ),
        (Code::PolicyServerMissing, Error, changed(|facts| facts.server = Read::Absent)),
        (Code::PolicyServerMissing, Error, with(before(), |facts| facts.server = Read::Absent)),
        (
            Code::PolicyServerNotReady,
            Error,
            changed(|facts| facts.server_pods = Read::Known(vec![pod("a", true), pod("b", false)])),
        ),
        (
            Code::PolicyServerNotReady,
            Warning,
            with(before(), |facts| facts.server_pods = Read::Known(Vec::new())),
        ),
        (Code::PolicyServerNotReady, Error, changed(|facts| facts.server_deployment = Read::Absent)),
        (Code::PolicyServerNotReady, Error, server(|server| server.spec.replicas = 0)),
        (
            Code::PolicyServerNotReconciled,
            Warning,
            server(|server| {
                server.status.conditions =
                    of(json!([{"type": "DeploymentReconciled", "status": "False", "message": "no"}]));
            }),
        ),
        (Code::PolicyServerSingleReplica, Info, server(|server| server.spec.replicas = 1)),
        (
            Code::PolicyServerImageDiffers,
            Warning,
            changed(|facts| facts.default_server = known(json!({"spec": {"image": "policy-server:v2"}}))),
        ),
        (Code::SignatureRequired, Info, server(|server| server.spec.verification_config = "keys".into())),
        (Code::ServiceAccountMissing, Error, changed(|facts| facts.server_account = Read::Absent)),
        (
            Code::ServiceAccountMismatch,
            Error,
            with(before(), |facts| {
                facts.settings.service_account = Some(("kubewarden".into(), "policy-server".into()));
            }),
        ),
        (Code::LookupForbidden, Error, changed(|facts| facts.server_may_look_up = Read::Known(false))),
        (Code::PolicyMissing, Error, changed(|facts| facts.policies = Read::Known(Vec::new()))),
        (Code::PolicyNotActive, Error, policy(|policy| policy.status.conditions[0].status = "False".into())),
        (Code::PolicyNotActive, Error, policy(|policy| policy.status.conditions.clear())),
        (
            Code::PolicyNotActive,
            Error,
            policy(|policy| policy.metadata.deletion_timestamp = Some("now".into())),
        ),
        (Code::PolicyServersDiffer, Warning, policy(|policy| policy.spec.policy_server = "default".into())),
        (
            Code::PolicyServerImmutable,
            Error,
            with(before(), |facts| facts.settings.policy_server = Some("default".into())),
        ),
        (
            Code::PolicyModeImmutable,
            Error,
            with(before(), |facts| facts.settings.mode = Some("monitor".into())),
        ),
        (Code::PolicyMonitors, Warning, policy(|policy| policy.status.mode = "monitor".into())),
        (
            Code::FailurePolicyIgnore,
            Info,
            policy(|policy| policy.spec.failure_policy = Some("Ignore".into())),
        ),
        (Code::TimeoutsDoNotFit, Warning, policy(|policy| policy.spec.timeout_eval_seconds = Some(10))),
        (Code::ObjectSelectorMissing, Warning, policy(|policy| policy.spec.object_selector = Value::Null)),
        (
            Code::MatchConditionsChanged,
            Warning,
            policy(|policy| drop(policy.spec.match_conditions.remove(1))),
        ),
        (
            Code::MatchConditionsChanged,
            Warning,
            policy(|policy| policy.spec.match_conditions[0]["expression"] = "true".into()),
        ),
        (Code::PolicyDiffers, Error, policy(|policy| policy.spec.mutating = false)),
        (Code::LookupNotGranted, Error, policy(|policy| policy.spec.context_aware_resources.clear())),
        (
            Code::ModulesDiffer,
            Warning,
            policy(|policy| policy.spec.module = "registry://r.example/p:v0.2.0".into()),
        ),
        (Code::WebhookMissing, Error, changed(|facts| facts.validating = Read::Known(Vec::new()))),
        (Code::WebhookPointsElsewhere, Error, policy(|policy| policy.spec.policy_server = "default".into())),
        (Code::WebhookDiffers, Warning, policy(|policy| policy.spec.timeout_seconds = Some(20))),
        (Code::WebhookDiffers, Warning, policy(|policy| policy.spec.failure_policy = Some("Ignore".into()))),
        (Code::WebhookDiffers, Warning, policy(|policy| policy.spec.match_conditions.clear())),
        (
            Code::WebhookDiffers,
            Warning,
            policy(|policy| policy.spec.object_selector = json!({"matchLabels": {"a": "b"}})),
        ),
        (
            Code::WebhookDiffers,
            Warning,
            policy(|policy| policy.spec.namespace_selector = json!({"matchExpressions": [{"key": "a"}]})),
        ),
        (Code::WebhookDiffers, Warning, policy(|policy| policy.spec.rules.clear())),
        (
            Code::LaterWebhooks,
            Info,
            changed(|facts| {
                let Read::Known(all) = &mut facts.mutating else { panic!() };
                all.push(of(json!({"metadata": {"name": "istio-injector"}, "webhooks": [{"rules": [
                {"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}]}]})));
            }),
        ),
        (Code::ModuleNotFound, Error, pull_failure(ModuleAnswer::NotFound)),
        (Code::ModuleNotFound, Warning, changed(|facts| facts.modules[0].answer = ModuleAnswer::NotFound)),
        (Code::RegistryNeedsCredentials, Unknown, pull_failure(ModuleAnswer::NeedsCredentials(401))),
        (Code::RegistryUnreachable, Error, pull_failure(refused())),
        (Code::RegistryUnreachable, Warning, changed(|facts| facts.modules[0].answer = refused())),
        (
            Code::RegistryUnreachable,
            Unknown,
            with(pull_failure(refused()), |facts| facts.settings.runs_in_cluster = false),
        ),
        (
            Code::RegistryUnreachable,
            Unknown,
            with(pull_failure(refused()), |facts| {
                let Read::Known(server) = &mut facts.server else { panic!() };
                server.spec.env = vec![json!({"name": "https_proxy"})];
            }),
        ),
        (Code::RegistryUntrusted, Error, pull_failure(ModuleAnswer::UnknownAuthority("x".into()))),
        (
            Code::RegistryUntrusted,
            Unknown,
            with(pull_failure(ModuleAnswer::UnknownAuthority("x".into())), |facts| {
                facts.settings.source_authorities = vec!["r.example".into()];
            }),
        ),
        (Code::RegistryUntrusted, Error, pull_failure(ModuleAnswer::PlainHttp)),
        (Code::RegistryAnswerUnclear, Unknown, pull_failure(ModuleAnswer::Unclear("429".into()))),
        (Code::ModuleNotChecked, Info, pull_failure(ModuleAnswer::NotAsked("x"))),
        (
            Code::RegistryNeedsPolicy,
            Warning,
            changed(|facts| facts.registry_services[0].stateful_owners = vec!["StatefulSet registry".into()]),
        ),
        (
            Code::RegistryNeedsPolicy,
            Warning,
            with(before(), |facts| {
                facts.registry_services[0].stateful_owners = vec!["StatefulSet registry".into()];
            }),
        ),
        (
            Code::SidecarMissing,
            Error,
            changed(|facts| (facts.sidecars, facts.lease) = (Read::Known(Vec::new()), Read::Absent)),
        ),
        (Code::SidecarMissing, Warning, changed(|facts| facts.sidecars = Read::Known(Vec::new()))),
        (
            Code::SidecarNotAvailable,
            Error,
            changed(|facts| facts.sidecars = known(json!([sidecar("persistent-pod-state", 0)]))),
        ),
        (
            Code::SidecarNotAvailable,
            Warning,
            changed(|facts| facts.sidecars = known(json!([sidecar("persistent-pod-state", 1)]))),
        ),
        (Code::SidecarForbidden, Error, changed(|facts| facts.sidecar_rights[0].1 = false)),
        (
            Code::VersionsDiffer,
            Info,
            policy(|policy| policy.spec.module = "registry://r.example:5000/p:v0.2.0@sha256:00".into()),
        ),
        (Code::LeaderMissing, Error, changed(|facts| facts.lease = Read::Absent)),
        (Code::LeaderMissing, Error, changed(|facts| facts.lease = lease("pps-sidecar-1_x", "1", "1"))),
        (Code::LeaderMissing, Error, changed(|facts| facts.lease = lease("", "1", "2"))),
        (Code::LeaderMissing, Warning, changed(|facts| facts.lease = lease("other_x", "1", "2"))),
        (
            Code::SecondInstallation,
            Error,
            changed(|facts| facts.other_sidecars = vec![other(Read::Known(true))]),
        ),
        (
            Code::SecondInstallation,
            Warning,
            with(before(), |facts| facts.other_sidecars = vec![other(Read::Unknown)]),
        ),
        (
            Code::SecondInstallation,
            Info,
            with(before(), |facts| facts.other_sidecars = vec![other(Read::Known(false))]),
        ),
        (
            Code::ConflictingRecorder,
            Error,
            changed(|facts| facts.openkruise_lease = lease("manager", "1", "2")),
        ),
        (Code::RecorderMissing, Error, changed(|facts| facts.recording.recorder = Recorder::OpenKruise)),
        (
            Code::ObjectsNotRecorded,
            Warning,
            changed(|facts| {
                facts.objects =
                    Read::Known(Objects { listed: vec![of(object("default", "False"))], more: 7 });
            }),
        ),
        (
            Code::NamespacesNotCovered,
            Info,
            changed(|facts| {
                facts.objects = Read::Known(Objects { listed: vec![of(object("off", "True"))], more: 0 });
            }),
        ),
        (Code::WhitelistMalformed, Warning, changed(|facts| facts.whitelist = Read::Known("{".into()))),
        (
            Code::CustomKindNotCovered,
            Warning,
            changed(|facts| {
                facts.whitelist =
                    Read::Known(r#"{"workloads":[{"group":"example.io","kind":"Database"}]}"#.into());
            }),
        ),
        (
            Code::PermissionMissing,
            Unknown,
            changed(|facts| facts.problems = vec![Problem::Forbidden(Right::new("list", "", "pods"))]),
        ),
        (
            Code::RequestFailed,
            Unknown,
            changed(|facts| facts.problems = vec![Problem::Failed { what: "a".into(), why: "b".into() }]),
        ),
    ]
}
