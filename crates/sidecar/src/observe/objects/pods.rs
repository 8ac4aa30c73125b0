//! Pods, and their facts.

use k8s_openapi::api::core::v1::PodIP;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::jiff::Timestamp;
use pps_core::addresses::pod_ips;
use pps_core::limits::MAX_NAME_LENGTH;
use pps_core::owner::has_stable_names;
use pps_core::required_affinity::RequiredAffinity;
use pps_core::{INJECTED_ANNOTATION, RECORD_ANNOTATION, forbids_recording};
use pps_recorder::facts::{Incarnation, NamespacedName, PendingPod, PodFact, interest::Interest};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::item::{Item, Metadata, Parsed, Parts};
use super::malformed::Malformed;

struct Pod {
    metadata: Metadata,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: Option<String>,
    affinity: RequiredAffinity,
    scheduling_gates: Option<Vec<IgnoredAny>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: Option<String>,
    reason: Option<IgnoredAny>,
    conditions: Vec<PodCondition>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "podIPs")]
    pod_ips: Vec<PodIP>,
    container_statuses: Option<Vec<ContainerStatus>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    restart_count: i64,
    state: Option<ContainerState>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    terminated: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: Option<String>,
    /// Parsed only where it is used: a Pod has several conditions, and only one of them matters.
    last_transition_time: Option<String>,
}

/// Reads a Pod. Of one that cannot be read is known that it exists and whose it is; it counts as
/// not Ready.
pub fn read_pod(
    object: &str,
    interest: &Interest,
) -> Result<Item<NamespacedName, PodFact>, Malformed> {
    let parsed = Parsed::<Option<PodSpec>, Option<PodStatus>>::read(object)?;
    Ok(parsed.into_item(Metadata::key, |metadata, parts| {
        let Parts { spec, status } = parts.unwrap_or_default();
        let pod = Pod {
            metadata,
            spec: spec.unwrap_or_default(),
            status: status.unwrap_or_default(),
        };
        pod_fact(&pod, interest)
    }))
}

/// The fact of a Pod; `None` if it can never have a state, because its controller gives each Pod a
/// new name. A Pod without a controller owner is kept: it may be an orphan with a recorded state.
fn pod_fact(pod: &Pod, interest: &Interest) -> Option<PodFact> {
    let owner = pod.metadata.controller();
    if owner.is_some_and(|owner| !has_stable_names(&owner.api_version, &owner.kind)) {
        return None;
    }
    let annotations = pod
        .metadata
        .annotations
        .iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    let listed = pod.status.pod_ips.iter().map(|ip| ip.ip.as_str());
    let mut ips = pod_ips(listed, pod.status.pod_ip.as_deref());
    ips.shrink_to_fit();
    let node = pod
        .spec
        .node_name
        .as_deref()
        .filter(|node| !node.is_empty());
    let ready = condition(pod, "Ready", "True");
    Some(PodFact {
        owner: owner.map(|owner| owner.uid.as_str().into()),
        node: node.map(Into::into),
        ready: ready.is_some(),
        ready_since: ready.and_then(PodCondition::since),
        terminating: pod.metadata.is_terminating(),
        injected: pod.metadata.annotation(INJECTED_ANNOTATION).is_some(),
        exempt: pod
            .metadata
            .annotation(RECORD_ANNOTATION)
            .is_some_and(forbids_recording),
        // Nothing else is recorded, and a Pod that never runs costs its author nothing.
        annotations: if ready.is_some() {
            interest.pick(annotations)
        } else {
            Vec::new()
        },
        ips,
        pending: pending_pod(pod).filter(|_| node.is_none()).map(Box::new),
        incarnation: owner
            .filter(|owner| !is_stateful_set(owner))
            .and_then(|_| incarnation(pod))
            .map(Box::new),
    })
}

fn condition<'a>(pod: &'a Pod, type_: &str, status: &str) -> Option<&'a PodCondition> {
    let mut conditions = pod.status.conditions.iter();
    conditions.find(|condition| condition.type_ == type_ && condition.status == status)
}

impl PodCondition {
    fn since(&self) -> Option<i64> {
        self.last_transition_time
            .as_ref()?
            .parse()
            .ok()
            .map(Timestamp::as_second)
    }
}

/// Set if a Pod carries the policy's annotation, is Pending, has no scheduling gate, and its
/// required affinity is not too large to be kept.
fn pending_pod(pod: &Pod) -> Option<PendingPod> {
    let pps = pod.metadata.annotation(INJECTED_ANNOTATION)?;
    let is_gated = pod
        .spec
        .scheduling_gates
        .as_ref()
        .is_some_and(|gates| !gates.is_empty());
    let is_pending = pod.status.phase.as_deref() == Some("Pending");
    let is_too_large = pps.len() > MAX_NAME_LENGTH || pod.spec.affinity.exceeds_limits();
    if is_gated || !is_pending || is_too_large {
        return None;
    }
    let unscheduled = condition(pod, "PodScheduled", "False");
    let is_unschedulable =
        |condition: &PodCondition| condition.reason.as_deref() == Some("Unschedulable");
    Some(PendingPod {
        uid: pod.metadata.uid.clone()?,
        resource_version: pod.metadata.resource_version.clone()?,
        pps: pps.into(),
        required_affinity: pod.spec.affinity.clone(),
        is_unschedulable: unscheduled.is_some_and(is_unschedulable),
        unschedulable_since: unscheduled.and_then(PodCondition::since),
    })
}

/// Whether the controller is Kubernetes' or OpenKruise's StatefulSet.
fn is_stateful_set(owner: &OwnerReference) -> bool {
    let group = owner.api_version.split('/').next();
    owner.kind == "StatefulSet" && matches!(group, Some("apps" | "apps.kruise.io"))
}

/// What tells a Pod that carries the policy's annotation from the next one of its name.
fn incarnation(pod: &Pod) -> Option<Incarnation> {
    pod.metadata.annotation(INJECTED_ANNOTATION)?;
    let created: Timestamp = pod.metadata.creation_timestamp.as_ref()?.parse().ok()?;
    Some(Incarnation {
        uid: pod.metadata.uid.clone()?,
        created: created.as_second(),
        is_disturbed: is_disturbed(pod),
    })
}

/// Whether a Pod, as it is now, may end for a reason of its own.
fn is_disturbed(pod: &Pod) -> bool {
    let is_terminating = pod.metadata.is_terminating();
    // A deletion ends the containers, and the kubelet then reports this phase without a reason. It
    // gives one where it has refused, evicted or shut down the Pod.
    let is_only_deleted = is_terminating && pod.status.reason.is_none();
    let has_ended =
        !is_only_deleted && matches!(pod.status.phase.as_deref(), Some("Failed" | "Succeeded"));
    // The containers of some Pods restart once while they start: only a Pod that is not Ready has
    // failed. And a deletion also ends containers and makes the Pod unready.
    let has_failed =
        !is_terminating && condition(pod, "Ready", "True").is_none() && has_ended_container(pod);
    has_ended || has_failed || condition(pod, "DisruptionTarget", "True").is_some()
}

/// Whether a container of the Pod has ended, or an init container has failed.
fn has_ended_container(pod: &Pod) -> bool {
    let status = &pod.status;
    let mut containers = status.container_statuses.iter().flatten();
    let mut init_containers = status.init_container_statuses.iter().flatten();
    containers.any(|container| container.restart_count > 0 || container.has_ended())
        || init_containers.any(|container| container.restart_count > 0)
}

impl ContainerStatus {
    fn has_ended(&self) -> bool {
        let mut states = self.state.iter();
        states.any(|state| state.terminated.is_some())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn pod_fact(pod: &Value, interest: &Interest) -> Option<PodFact> {
        read_pod(&pod.to_string(), interest).unwrap().fact
    }

    #[test]
    fn keeps_only_the_fields_and_annotations_that_are_used() {
        let interest = Interest::default();
        interest.add_keys(
            &from_value(json!({
                "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
                "persistentPodAnnotations": ["ip"],
            }))
            .unwrap(),
        );
        let pod = json!({
            "metadata": {
                "name": "w-0", "namespace": "n", "uid": "1", "annotations": {"ip": "10.0.0.7", "other": "x"},
                "managedFields": [{"manager": "m"}],
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w", "uid": "u", "controller": true}],
            },
            "spec": {"nodeName": "node-1", "containers": [{"name": "c"}]},
            "status": {
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:07Z"}],
                "podIP": "10.0.0.7",
            },
        });
        let expected = PodFact {
            owner: Some("u".into()),
            node: Some("node-1".into()),
            ready: true,
            ready_since: Some(1_767_225_607),
            terminating: false,
            injected: false,
            exempt: false,
            annotations: vec![("ip".into(), "10.0.0.7".into())],
            ips: vec!["10.0.0.7".into()],
            pending: None,
            incarnation: None,
        };
        assert_eq!(pod_fact(&pod, &interest), Some(expected));
        let mut starting = pod;
        starting["status"]["conditions"] = json!([]);
        assert_eq!(pod_fact(&starting, &interest).unwrap().annotations, []);
    }

    #[test]
    fn reads_ready_since_only_from_a_ready_condition_that_is_true() {
        for (ready, expected) in [
            (
                json!({"status": "True", "lastTransitionTime": "1970-01-01T00:01:00Z"}),
                (true, Some(60)),
            ),
            (
                json!({"status": "False", "lastTransitionTime": "1970-01-01T00:01:00Z"}),
                (false, None),
            ),
            (
                json!({"status": "True", "lastTransitionTime": null}),
                (true, None),
            ),
            (
                json!({"status": "True", "lastTransitionTime": "yesterday"}),
                (true, None),
            ),
            (json!({"status": "True"}), (true, None)),
        ] {
            let mut condition = ready.clone();
            condition["type"] = "Ready".into();
            let scheduled = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:01Z"});
            let pod = json!({"metadata": {"name": "w-0"}, "status": {"conditions": [scheduled, condition]}});
            let fact = pod_fact(&pod, &Interest::default()).unwrap();
            assert_eq!((fact.ready, fact.ready_since), expected, "{ready}");
        }
    }

    #[test]
    fn only_the_word_false_forbids_that_a_pod_is_recorded() {
        for (annotations, expected) in [
            (json!({RECORD_ANNOTATION: "false"}), true),
            (json!({RECORD_ANNOTATION: "true"}), false),
            (json!({RECORD_ANNOTATION: "False"}), false),
            (json!({RECORD_ANNOTATION: ""}), false),
            (json!({"other": "false"}), false),
            (json!(null), false),
        ] {
            let pod = json!({"metadata": {"name": "w-0", "annotations": annotations}});
            let fact = pod_fact(&pod, &Interest::default()).unwrap();
            assert_eq!(
                (fact.exempt, fact.annotations),
                (expected, vec![]),
                "{annotations}"
            );
        }
    }

    #[test]
    fn keeps_the_required_affinity_only_while_a_pod_is_pending() {
        let waiting = json!({
            "metadata": {"name": "w-0", "namespace": "n", "uid": "1", "resourceVersion": "2",
                "annotations": {INJECTED_ANNOTATION: "p"}},
            "spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}}},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "lastTransitionTime": "1970-01-01T00:01:00Z"}]},
        });
        let pending = |json: &Value| pod_fact(json, &Interest::default()).unwrap().pending;
        let kept = pending(&waiting).unwrap();
        assert_eq!(
            (&*kept.uid, &*kept.resource_version, &*kept.pps),
            ("1", "2", "p")
        );
        assert!(!kept.required_affinity.is_empty());
        assert_eq!(kept.unschedulable_since, Some(60));
        assert!(pod_fact(&waiting, &Interest::default()).unwrap().injected);
        for (pointer, value) in [
            ("/metadata/annotations", json!({})),
            ("/status/phase", "Running".into()),
            ("/spec/nodeName", "node-1".into()),
            (
                "/spec/schedulingGates",
                json!([{"name": "example.io/hold"}]),
            ),
        ] {
            let mut other = waiting.clone();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            other.pointer_mut(parent).unwrap()[field] = value;
            assert_eq!(pending(&other), None, "{pointer}");
        }
    }

    #[test]
    fn a_pending_pod_with_many_terms_costs_little() {
        let zone =
            json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["q"]}]});
        let waiting = |terms: usize, pps: &str| {
            json!({
                "metadata": {"name": "w-0", "namespace": "n", "uid": "1", "resourceVersion": "2",
                    "annotations": {INJECTED_ANNOTATION: pps}},
                "spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": vec![zone.clone(); terms]}}}},
                "status": {"phase": "Pending"},
            })
        };
        let pending = |terms, pps| {
            pod_fact(&waiting(terms, pps), &Interest::default())
                .unwrap()
                .pending
        };
        assert!(pending(50, "p").is_some());
        assert_eq!(pending(40_000, "p"), None, "nothing of it is kept");
        assert_eq!(
            pending(1, &"p".repeat(200_000)),
            None,
            "no PPS has such a name"
        );
    }

    #[test]
    fn drops_pods_whose_controller_gives_no_stable_names() {
        let owned_by = |api_version: &str, kind: &str| {
            json!({"metadata": {"name": "p", "ownerReferences": [
                {"apiVersion": api_version, "kind": kind, "name": "w", "uid": "u", "controller": true}]}})
        };
        let interest = Interest::default();
        assert!(pod_fact(&owned_by("apps/v1", "ReplicaSet"), &interest).is_none());
        assert!(pod_fact(&owned_by("example.io/v1", "Database"), &interest).is_some());
        assert!(pod_fact(&json!({"metadata": {"name": "bare"}}), &interest).is_some());
    }

    #[test]
    fn tells_the_pods_of_one_name_apart_where_an_operator_makes_them() {
        let read = |api_version: &str, kind: &str, change: &Value| {
            let mut pod = json!({
                "metadata": {
                    "name": "w-0", "uid": "1", "creationTimestamp": "2026-01-01T00:00:07Z",
                    "deletionTimestamp": null, "annotations": {INJECTED_ANNOTATION: "p"},
                    "ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": "w", "uid": "u", "controller": true}],
                },
                "status": {"phase": "Running"},
            });
            for (pointer, value) in change.as_object().into_iter().flatten() {
                *pod.pointer_mut(pointer).unwrap() = value.clone();
            }
            pod_fact(&pod, &Interest::default()).unwrap().incarnation
        };
        let healthy = read("planetscale.com/v2", "VitessShard", &json!({})).unwrap();
        let expected = Incarnation {
            uid: "1".into(),
            created: 1_767_225_607,
            is_disturbed: false,
        };
        assert_eq!(*healthy, expected);
        assert_eq!(
            read("apps.kruise.io/v1beta1", "StatefulSet", &json!({})),
            None
        );
        assert_eq!(
            read(
                "planetscale.com/v2",
                "VitessShard",
                &json!({"/metadata/annotations": {}})
            ),
            None
        );
        for status in [
            json!({"phase": "Failed"}),
            json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}]}),
            json!({"containerStatuses": [{"restartCount": 0}, {"restartCount": 1}]}),
            json!({"initContainerStatuses": [{"restartCount": 1}]}),
            json!({"containerStatuses": [{"state": {"terminated": {"exitCode": 1}}}]}),
        ] {
            let read = read(
                "planetscale.com/v2",
                "VitessShard",
                &json!({"/status": status}),
            );
            assert!(read.unwrap().is_disturbed, "{status}");
        }
        // The container of a Vitess tablet restarts once while it starts.
        let restarted = json!([{"restartCount": 1, "state": {"running": {}, "terminated": null}}]);
        let finished =
            json!([{"restartCount": 0, "state": {"terminated": {"reason": "Completed"}}}]);
        let ready = json!([{"type": "Ready", "status": "True"}]);
        for status in [
            json!({"conditions": ready, "containerStatuses": restarted}),
            json!({"conditions": ready, "initContainerStatuses": [{"restartCount": 1}]}),
            json!({"initContainerStatuses": finished}),
        ] {
            let change = json!({"/status": status});
            let read = read("planetscale.com/v2", "VitessShard", &change);
            assert!(!read.unwrap().is_disturbed, "{status}");
        }
        // Whoever deletes a healthy Pod, its containers have ended before it is gone.
        let deleted = json!({"/metadata/deletionTimestamp": "2026-01-01T00:01:00Z"});
        for (reason, expected) in [(json!(null), false), (json!("NodeAffinity"), true)] {
            let mut change = deleted.clone();
            change["/status"] = json!({
                "phase": "Failed", "reason": reason, "containerStatuses": restarted,
                "conditions": [{"type": "Ready", "status": "False"}],
            });
            let read = read("planetscale.com/v2", "VitessShard", &change).unwrap();
            assert_eq!(read.is_disturbed, expected, "{reason}");
        }
    }
}
