//! What the findings come to.

use serde_json::json;

use super::fixture::{before, changed, healthy, lease, object, of};
use super::*;
use crate::facts::{Objects, Read};

fn verdicts(facts: &Facts) -> Vec<String> {
    verdict(facts, &judge(facts))
}

fn records(facts: &Facts) -> String {
    verdicts(facts).remove(0)
}

fn injects(facts: &Facts) -> String {
    verdicts(facts).remove(1)
}

#[test]
fn a_right_installation_records_and_injects() {
    assert_eq!(
        verdicts(&healthy()),
        [
            "States are recorded: pps-sidecar-1_x renews its Lease.",
            "States are injected into new Pods: the policies are active, and their webhooks exist."
        ]
    );
    assert!(verdicts(&before()).is_empty());
}

#[test]
fn the_last_write_of_a_status_is_said() {
    let written = |time: &str| {
        let mut one = object("default", "True");
        one["metadata"]["managedFields"] = json!([
            {"manager": "kubectl", "time": "2027-01-01T00:00:00Z", "fieldsV1": {"f:spec": {}}},
            {"manager": "pps-sidecar", "time": time, "subresource": "status", "fieldsV1": {"f:status": {}}},
        ]);
        of(one)
    };
    let listed = vec![written("2026-11-22T21:12:00Z"), written("2026-11-22T20:00:00Z")];
    let facts = changed(|facts| facts.objects = Read::Known(Objects { listed, more: 0 }));
    assert!(
        records(&facts).ends_with(" A status was last written at 2026-11-22T21:12:00Z."),
        "{}",
        records(&facts)
    );
}

#[test]
fn a_sidecar_outside_the_cluster_records_while_it_renews_its_lease() {
    let facts = changed(|facts| {
        facts.sidecars = Read::Known(Vec::new());
        facts.lease = lease("laptop_1", "1", "2");
    });
    let missing = judge(&facts).into_iter().find(|finding| finding.code == Code::SidecarMissing).unwrap();
    assert_eq!(missing.severity, Severity::Warning);
    assert!(
        missing.seen.starts_with("does not exist, but laptop_1 holds and renews Lease "),
        "{}",
        missing.seen
    );
    assert_eq!(records(&facts), "States are recorded: laptop_1 renews its Lease.");

    let facts = changed(|facts| {
        facts.sidecars = Read::Known(Vec::new());
        facts.lease = lease("laptop_1", "1", "1");
    });
    assert_eq!(records(&facts), "States are not recorded: see SidecarMissing, LeaderMissing.");
}

#[test]
fn what_could_not_be_read_is_not_known() {
    let facts = changed(|facts| facts.lease = Read::Unknown);
    assert!(records(&facts).starts_with("Whether states are recorded is not known"), "{}", records(&facts));
    let facts = changed(|facts| facts.mutating = Read::Unknown);
    assert!(injects(&facts).starts_with("Whether states are injected into new Pods is not known"));
    let nothing = Facts::default();
    assert_eq!(verdicts(&nothing).len(), 1);
}

#[test]
fn a_webhook_without_kubewarden_is_named() {
    let facts = changed(|facts| facts.policy_definition = Read::Absent);
    let missing = judge(&facts).into_iter().find(|finding| finding.code == Code::KubewardenMissing).unwrap();
    let expected = "no definition of ClusterAdmissionPolicy, although MutatingWebhookConfiguration clusterwide-persistent-pod-state exists";
    assert!(missing.seen.starts_with(expected), "{}", missing.seen);
    assert!(injects(&facts).contains("is not known: the webhook exists"), "{}", injects(&facts));
    let facts =
        changed(|facts| (facts.policy_definition, facts.mutating) = (Read::Absent, Read::Known(Vec::new())));
    assert_eq!(
        injects(&facts),
        "States are not injected into new Pods: see KubewardenMissing, WebhookMissing."
    );
}

#[test]
fn an_object_that_is_not_recorded_is_named_with_the_reason_and_a_command() {
    let mut one = object("without", "False");
    one["metadata"]["name"] = "queue".into();
    one["status"]["conditions"][0]["reason"] = "WorkloadNotFound".into();
    one["status"]["conditions"][0]["message"] = "StatefulSet queue does not exist".into();
    let facts = changed(|facts| facts.objects = Read::Known(Objects { listed: vec![of(one)], more: 0 }));
    let found = judge(&facts).into_iter().find(|finding| finding.code == Code::ObjectsNotRecorded).unwrap();
    assert_eq!(
        found.seen,
        "1 of 1 are not recorded: without/queue (WorkloadNotFound: StatefulSet queue does not exist)"
    );
    assert!(found.advice.ends_with("kubectl describe pps queue -n without"), "{}", found.advice);
    assert!(records(&facts).starts_with("States are recorded, but not those of all workloads"));
}
