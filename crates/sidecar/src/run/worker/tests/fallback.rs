//! Requirements with an end: what is read before a place is given up, what is written, and what
//! follows from the answers.

use super::super::fallbacks::REFUSALS_THAT_LAST;
use super::*;
use crate::observe::objects::read_pod;
use crate::write::fallback::{FallbackFailure, FallbackResult};
use crate::write::{Failure, Outcome};
use pps_core::{PodState, edit};
use pps_recorder::FallbackCandidate;
use pps_recorder::facts::interest::Interest;
use pps_recorder::fallback::Refusal;

const WAIT: u64 = 30;

/// What the API server has. Pod `w-0` waits for zone a, in which there is no node; node `b1` is in
/// zone b.
struct World {
    pps: Value,
    pod: Value,
    nodes: Vec<Value>,
    /// Other Pods of all namespaces.
    others: Vec<Value>,
    /// What a read of a claim is answered with.
    claim: (u16, Value),
    /// Whether the Pod gets a node in the moment of an eviction, which is then refused.
    is_bound_at_eviction: bool,
    /// What is answered to that eviction.
    eviction_refusal: (u16, &'static str),
    /// What happens while the nodes are read.
    during_judgement: Option<Change>,
    /// What happens after the first status write.
    after_write: Option<Change>,
    /// How the status writes after the first one are refused, until none is left.
    later_refusals: Vec<(u16, &'static str)>,
    may_evict: bool,
    evictions: usize,
    status_writes: usize,
    reads: usize,
}

type Shared = Arc<Mutex<World>>;
type Change = fn(&mut World);

impl World {
    fn new() -> Self {
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}});
        Self {
            pps: json!({
                "metadata": {"name": "w", "namespace": "n", "uid": "uid-1", "resourceVersion": "6", "generation": 1},
                "spec": {
                    "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
                    "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"], "fallbackAfterSeconds": WAIT},
                },
                "status": {"targetUID": "uid-w", "podStates": {"w-0": {
                    "nodeName": "a1", "nodeTopologyLabels": {"zone": "a"}, "annotations": {"ip": "10.0.0.1"}}}},
            }),
            pod: json!({
                "metadata": {"name": "w-0", "namespace": "n", "uid": "uid-w-0", "resourceVersion": "7",
                    "annotations": {"kruise.io/injected-persistent-pod-state": "w"},
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w", "uid": "uid-w", "controller": true}]},
                "spec": {"affinity": affinity, "containers": [{"name": "c"}]},
                "status": {"phase": "Pending", "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
            }),
            nodes: vec![node("b1", "b")],
            others: Vec::new(),
            claim: refusal(
                403,
                "Forbidden",
                "persistentvolumeclaims \"data-w-0\" is forbidden: User \"s\" cannot get resource \
                 \"persistentvolumeclaims\" in API group \"\" in the namespace \"n\"",
            ),
            is_bound_at_eviction: false,
            eviction_refusal: (409, "Conflict"),
            during_judgement: None,
            after_write: None,
            later_refusals: Vec::new(),
            may_evict: true,
            evictions: 0,
            status_writes: 0,
            reads: 0,
        }
    }

    fn read(&mut self, path: &str) -> (u16, Value) {
        self.reads += 1;
        let one = |object: &Value| list(std::slice::from_ref(object));
        if path.contains("/persistentpodstates?") {
            one(&self.pps)
        } else if path.contains("/statefulsets?") {
            let mut workload = plain_workload();
            workload["spec"]["template"] = json!({"spec": {"containers": [{"name": "c"}]}});
            one(&workload)
        } else if path.contains("/nodes?") {
            if let Some(change) = self.during_judgement.take() {
                change(self);
            }
            list(&self.nodes)
        } else if path.contains("metadata.name%3Dw-") {
            one(&self.pod)
        } else if let Some((_, node)) = path.split_once("spec.nodeName%3D") {
            let node = node.split('&').next().unwrap();
            let on = |pod: &&Value| pod["spec"]["nodeName"] == *node;
            list(&self.others.iter().filter(on).cloned().collect::<Vec<_>>())
        } else if path.contains("/namespaces/n/pods?") {
            one(&self.pod)
        } else if path.contains("/persistentvolumeclaims/") {
            self.claim.clone()
        } else {
            panic!("{path}")
        }
    }

    fn write(&mut self, body: &Value) -> (u16, Value) {
        if body["kind"] == "Eviction" {
            self.evictions += 1;
            if !self.may_evict {
                return refusal(403, "Forbidden", "pods \"w-0\" is forbidden: no");
            }
            // The first one only asks.
            if self.is_bound_at_eviction && self.evictions > 1 {
                self.pod["spec"]["nodeName"] = "b1".into();
                let (code, reason) = self.eviction_refusal;
                return refusal(code, reason, "the object has been modified");
            }
            let expected = &body["deleteOptions"]["preconditions"]["resourceVersion"];
            if *expected != self.pod["metadata"]["resourceVersion"] {
                return refusal(409, "Conflict", "the object has been modified");
            }
            return (201, json!({"kind": "Status", "status": "Success"}));
        }
        let Some(patched) = patched(&self.pps, body) else {
            return refusal(409, "Conflict", "the object has been modified");
        };
        self.status_writes += 1;
        if self.status_writes > 1
            && let Some((code, reason)) = self.later_refusals.pop()
        {
            return refusal(code, reason, "not now");
        }
        self.pps["status"] = patched["status"].clone();
        let version: u64 = self.pps["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        self.pps["metadata"]["resourceVersion"] = (version + 1).to_string().into();
        if let Some(change) = self.after_write.take() {
            change(self);
        }
        (200, json!({"metadata": self.pps["metadata"]}))
    }
}

/// An object after a patch of its status; nothing if that is for another version.
fn patched(pps: &Value, body: &Value) -> Option<Value> {
    let mut patched = pps.clone();
    if body.is_array() {
        let patch: json_patch::Patch = serde_json::from_value(body.clone()).unwrap();
        json_patch::patch(&mut patched, &patch).ok()?;
    } else {
        json_patch::merge(&mut patched, body);
    }
    let is_current = patched["metadata"] == pps["metadata"];
    is_current.then_some(patched)
}

fn node(name: &str, zone: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"zone": zone}}, "spec": {},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}})
}

/// A worker whose watches have shown the PPS, the workload and the Pod, but none of these nodes.
fn falling_back(world: World) -> (Worker, Shared, Requests) {
    falling_back_in(&Leadership::fixed(true), world)
}

fn falling_back_in(leadership: &Leadership, world: World) -> (Worker, Shared, Requests) {
    let (pps, pod) = (world.pps.clone(), world.pod.clone());
    let shared = Arc::new(Mutex::new(world));
    let [reads, writes] = [shared.clone(), shared.clone()];
    let (client, requests) = api_server_with_reads(
        move |path| reads.lock().unwrap().read(path),
        move |body| writes.lock().unwrap().write(body),
    );
    let fact = pps_recorder::facts::object_fact(serde_json::from_value(pps).unwrap());
    let update = Update::Apply(NamespacedName::new("n", "w"), Box::new(fact));
    let objects = [Observation::PersistentPodStates(update)];
    let mut worker = worker_in(leadership, client, objects);
    report_plain_workload(&mut worker);
    report_pod(&mut worker, &pod);
    worker.evicts_pending_pods = true;
    worker.health.mark_synced();
    worker.recorder.take_work();
    (worker, shared, requests)
}

fn report_pod(worker: &mut Worker, pod: &Value) {
    let item = read_pod(&pod.to_string(), &Interest::default()).unwrap();
    let update = Update::Apply(item.key, item.fact.unwrap());
    worker.apply(Observation::Pods(update));
}

/// Lets as much time pass as the Pod waits, and takes what comes of it. Returns whether anything
/// was sent.
async fn wait(worker: &mut Worker) -> bool {
    let start = Instant::now();
    for second in (0..=WAIT).step_by(5) {
        worker.follow_fallbacks(start + Duration::from_secs(second));
    }
    let Some(done) = worker.requests.next_outcome().await else {
        return false;
    };
    worker.done(done.unwrap());
    true
}

fn notices(worker: &mut Worker) -> Vec<(Reason, String)> {
    let notices = worker.recorder.take_work().notices.into_iter();
    notices
        .map(|notice| (notice.reason, notice.message))
        .collect()
}

#[tokio::test]
async fn a_place_that_no_node_can_serve_is_given_up_and_the_pod_evicted_in_this_order() {
    let (mut worker, world, requests) = falling_back(World::new());
    assert!(wait(&mut worker).await);
    let writes = requests.lock().unwrap().clone();
    let [question, state, eviction] = &writes[..] else {
        panic!("{writes:?}")
    };
    assert_eq!(question, eviction, "asked before, as a dry run");
    assert_eq!(
        state["metadata"],
        json!({"uid": "uid-1", "resourceVersion": "6"})
    );
    assert_eq!(
        world.lock().unwrap().pps["status"]["podStates"]["w-0"],
        json!({"annotations": {"ip": "10.0.0.1"}}),
        "what has nothing to do with the place stays"
    );
    assert_eq!(
        eviction["deleteOptions"]["preconditions"],
        json!({"uid": "uid-w-0", "resourceVersion": "7"})
    );
    let notices = notices(&mut worker);
    let [(Reason::FellBack, message)] = &notices[..] else {
        panic!("{notices:?}")
    };
    assert!(
        message.starts_with("Pod w-0 gave up zone=a and node a1 after 30 s"),
        "{message}"
    );
    // The watches have not shown it yet.
    wait(&mut worker).await;
    assert_eq!(requests.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn nothing_is_given_up_before_the_time_is_over_or_while_a_watch_does_not_work() {
    let (mut worker, world, _) = falling_back(World::new());
    let start = Instant::now();
    for second in (0..WAIT).step_by(5) {
        worker.follow_fallbacks(start + Duration::from_secs(second));
    }
    assert_eq!(worker.requests.count(), 0);
    let (mut worker, other, _) = falling_back(World::new());
    worker.health.mark_watch("nodes", false);
    assert!(!wait(&mut worker).await);
    worker.health.mark_watch("nodes", true);
    worker.health.mark_watch("pods", false);
    assert!(!wait(&mut worker).await);
    // Nor where another process leads.
    let (mut worker, standby, _) = falling_back(World::new());
    worker.term.writer.permit = crate::lead::Permit::new(Leadership::fixed(false));
    assert!(!wait(&mut worker).await);
    for world in [world, other, standby] {
        assert_eq!(world.lock().unwrap().reads, 0);
    }
}

#[tokio::test]
async fn a_new_term_counts_the_time_again() {
    let leadership = Leadership::fixed(true);
    let (mut worker, _, _) = falling_back_in(&leadership, World::new());
    let start = Instant::now();
    for second in (0..WAIT).step_by(5) {
        worker.follow_fallbacks(start + Duration::from_secs(second));
    }
    leadership.begin_another_term();
    worker.follow_leadership();
    for second in (WAIT..2 * WAIT).step_by(5) {
        worker.follow_fallbacks(start + Duration::from_secs(second));
    }
    assert_eq!(worker.requests.count(), 0);
    worker.follow_fallbacks(start + Duration::from_secs(2 * WAIT));
    assert_eq!(worker.requests.count(), 1);
}

#[tokio::test]
async fn a_pod_whose_home_is_back_and_one_that_has_changed_keep_their_places() {
    let changes: [(&str, Change); 9] = [
        ("no watch has shown the node", |world| {
            world.nodes.push(node("a2", "a"));
        }),
        ("it runs", |world| {
            world.pod["spec"]["nodeName"] = "a1".into();
        }),
        ("it is another Pod", |world| {
            world.pod["metadata"]["uid"] = "other".into();
        }),
        ("it is terminating", |world| {
            world.pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }),
        ("it is gated", |world| {
            world.pod["spec"]["schedulingGates"] = json!([{"name": "g"}]);
        }),
        ("a user has moved it", |world| {
            world.pps["status"]["podStates"]["w-0"]["nodeTopologyLabels"]["zone"] = "b".into();
        }),
        ("the requirement has no end", |world| {
            world.pps["spec"]["requiredPersistentTopology"] = json!({"nodeTopologyKeys": ["zone"]});
        }),
        ("the other node is full", |world| {
            world.nodes[0]["status"]["allocatable"]["pods"] = "1".into();
            world
                .others
                .push(json!({"metadata": {"name": "x", "namespace": "other"},
                "spec": {"nodeName": "b1", "containers": []}, "status": {"phase": "Running"}}));
        }),
        ("there is no other node", |world| world.nodes.clear()),
    ];
    for (why, change) in changes {
        let (mut worker, world, requests) = falling_back(World::new());
        change(&mut world.lock().unwrap());
        assert!(wait(&mut worker).await, "{why}");
        assert_eq!(*requests.lock().unwrap(), [Value::Null; 0], "{why}");
    }
}

#[tokio::test]
async fn a_home_that_comes_back_during_the_judgement_keeps_the_place() {
    let world = World {
        during_judgement: Some(|world| {
            world.during_judgement = Some(|world| world.nodes.push(node("a2", "a")));
        }),
        ..World::new()
    };
    let (mut worker, _, requests) = falling_back(world);
    assert!(wait(&mut worker).await);
    assert_eq!(*requests.lock().unwrap(), [Value::Null; 0]);
}

/// Perhaps the node is at a limit that is not judged. The first times it is no news.
#[tokio::test]
async fn a_home_that_could_take_the_pod_again_and_again_is_reported() {
    let mut world = World::new();
    world.nodes.push(node("a2", "a"));
    let (mut worker, _, requests) = falling_back(world);
    let start = Instant::now();
    let mut notices_after = Vec::new();
    for second in (0..=900).step_by(5) {
        worker.follow_fallbacks(start + Duration::from_secs(second));
        if worker.requests.count() > 0 {
            let done = worker.requests.next_outcome().await.unwrap();
            worker.done(done.unwrap());
            notices_after.push(notices(&mut worker));
        }
    }
    let silent = REFUSALS_THAT_LAST as usize;
    assert!(notices_after[..silent].iter().all(Vec::is_empty));
    let [(Reason::FallbackBlocked, message)] = &notices_after[silent][..] else {
        panic!("{notices_after:?}");
    };
    let words = "see in the Pod's events why the scheduler does not use node a2";
    assert!(message.starts_with(words), "{message}");
    assert_eq!(*requests.lock().unwrap(), [Value::Null; 0]);
}

/// The node of the other zone has room for one Pod.
#[tokio::test]
async fn two_pods_are_not_given_the_same_room() {
    let mut world = World::new();
    world.nodes[0]["status"]["allocatable"]["pods"] = "1".into();
    let second_state = world.pps["status"]["podStates"]["w-0"].clone();
    world.pps["status"]["podStates"]["w-1"] = second_state.clone();
    let (mut worker, world, requests) = falling_back(world);
    let first = worker.recorder.fallback_candidates().remove(0);
    assert!(wait(&mut worker).await);
    assert_eq!(requests.lock().unwrap().len(), 3);
    let second = FallbackCandidate {
        pod: NamespacedName::new("n", "w-1"),
        uid: "uid-w-1".into(),
        state: serde_json::from_value(second_state).unwrap(),
        ..first
    };
    let metadata = json!({"name": "w-1", "uid": "uid-w-1"});
    json_patch::merge(&mut world.lock().unwrap().pod["metadata"], &metadata);
    let writer = worker.term.writer.clone();
    let Outcome::Fallback { result, .. } = writer.fall_back(Box::new(second), None).await else {
        panic!("another outcome");
    };
    let kept = FallbackResult::Kept(Refusal::NoNodeCouldTake);
    assert_eq!(result.unwrap(), kept);
    assert_eq!(requests.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_place_is_given_up_only_if_claims_and_volumes_can_be_read() {
    let mut with_claim = World::new();
    with_claim.pod["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-w-0"}}]);
    let not_found = refusal(404, "NotFound", "no such claim");
    let broken = refusal(500, "InternalError", "etcd is away");
    for (answer, word) in [
        (with_claim.claim.clone(), "get on persistentvolumeclaims"),
        (
            broken,
            "cannot read persistentvolumeclaims: 500 InternalError: etcd is away",
        ),
        (not_found, "PersistentVolumeClaim data-w-0 is not bound"),
    ] {
        let world = World {
            claim: answer,
            pod: with_claim.pod.clone(),
            ..World::new()
        };
        let (mut worker, _, requests) = falling_back(world);
        assert!(wait(&mut worker).await);
        assert!(requests.lock().unwrap().is_empty());
        let notices = notices(&mut worker);
        let [(Reason::FallbackBlocked, message)] = &notices[..] else {
            panic!("{notices:?}")
        };
        assert!(
            message.contains(word) && message.contains("Pod w-0"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_sidecar_that_may_not_evict_says_so_and_reads_nothing() {
    let (mut worker, world, _) = falling_back(World::new());
    worker.evicts_pending_pods = false;
    assert!(!wait(&mut worker).await);
    assert_eq!(world.lock().unwrap().reads, 0);
    let notices = notices(&mut worker);
    let [(Reason::FallbackBlocked, message)] = &notices[..] else {
        panic!("{notices:?}")
    };
    assert!(
        message.starts_with("start the sidecar with --evict-pending-pods"),
        "{message}"
    );
}

#[tokio::test]
async fn the_state_of_a_pod_that_gets_a_node_in_that_moment_is_written_back() {
    let world = World {
        is_bound_at_eviction: true,
        ..World::new()
    };
    let before = world.pps["status"].clone();
    let (mut worker, world, requests) = falling_back(world);
    assert!(wait(&mut worker).await);
    assert_eq!(
        requests.lock().unwrap().len(),
        4,
        "a question, a state, an eviction and a state"
    );
    assert_eq!(world.lock().unwrap().pps["status"], before);
    assert_eq!(notices(&mut worker), []);
}

#[tokio::test]
async fn the_compact_form_is_kept_when_a_place_is_given_up_or_written_back() {
    let mut pps = World::new().pps;
    let states = edit::states(&pps).unwrap();
    pps["status"] = edit::compact_status();
    let packed = edit::merge(&pps, &states, false).unwrap().edit.unwrap();
    pps = patched(&pps, &packed.body).unwrap();
    pps["status"]["targetUID"] = "uid-w".into();
    let kept = PodState {
        annotations: states["w-0"].annotations.clone(),
        ..PodState::default()
    };
    for (is_bound_at_eviction, after) in [(false, &kept), (true, &states["w-0"])] {
        let world = World {
            pps: pps.clone(),
            is_bound_at_eviction,
            ..World::new()
        };
        let (mut worker, world, requests) = falling_back(world);
        assert!(wait(&mut worker).await);
        let is_json_patch = requests.lock().unwrap()[1].is_array();
        assert!(
            is_json_patch,
            "a merge patch loses states where the form is pruned"
        );
        let world = world.lock().unwrap();
        let status = &world.pps["status"];
        assert_eq!(edit::states(&world.pps).unwrap()["w-0"], *after, "{status}");
        assert_eq!(status["podStates"], Value::Null, "{status}");
        assert_eq!(world.evictions, 2);
    }
}

/// It is not known whether the eviction was carried out; the Pod says so.
#[tokio::test]
async fn a_pod_that_got_a_node_although_its_eviction_was_not_answered_keeps_its_state() {
    let world = World {
        is_bound_at_eviction: true,
        eviction_refusal: (504, "Timeout"),
        ..World::new()
    };
    let before = world.pps["status"].clone();
    let (mut worker, world, _) = falling_back(world);
    assert!(wait(&mut worker).await);
    assert_eq!(world.lock().unwrap().pps["status"], before);
    assert_eq!(notices(&mut worker), []);
}

#[tokio::test]
async fn a_pod_that_its_user_exempts_before_the_eviction_keeps_its_state() {
    let world = World {
        after_write: Some(|world| {
            world.pod["metadata"]["annotations"]["kruise.io/record-persistent-pod-state"] =
                "false".into();
            world.pod["metadata"]["resourceVersion"] = "8".into();
        }),
        ..World::new()
    };
    let before = world.pps["status"].clone();
    let (mut worker, world, requests) = falling_back(world);
    assert!(wait(&mut worker).await);
    assert_eq!(world.lock().unwrap().pps["status"], before);
    let written = requests.lock().unwrap().len();
    assert_eq!(written, 4, "a question, a state, an eviction and a state");
    assert_eq!(notices(&mut worker), []);
}

#[tokio::test]
async fn a_spec_that_changes_during_the_judgement_keeps_the_place() {
    let changes: [Change; 3] = [
        |world| {
            world.pps["spec"]["requiredPersistentTopology"]["fallbackAfterSeconds"] = 600.into();
        },
        |world| {
            world.pps["spec"]["requiredPersistentTopology"]["nodeTopologyKeys"] =
                json!(["zone", "rack"]);
        },
        |world| world.pps["spec"]["requiredPersistentTopology"] = Value::Null,
    ];
    for change in changes {
        let world = World {
            during_judgement: Some(change),
            ..World::new()
        };
        let before = world.pps["status"].clone();
        let (mut worker, world, requests) = falling_back(world);
        assert!(wait(&mut worker).await);
        assert!(world.lock().unwrap().during_judgement.is_none(), "judged");
        assert_eq!(world.lock().unwrap().pps["status"], before);
        assert!(requests.lock().unwrap().is_empty());
    }
}

/// Another Pod of the workload is recorded in that moment.
#[tokio::test]
async fn a_state_is_written_back_although_the_object_changes_meanwhile() {
    let world = World {
        is_bound_at_eviction: true,
        later_refusals: vec![(409, "Conflict"); 2],
        ..World::new()
    };
    let before = world.pps["status"].clone();
    let (mut worker, world, _) = falling_back(world);
    assert!(wait(&mut worker).await);
    assert_eq!(world.lock().unwrap().pps["status"], before);
    assert_eq!(world.lock().unwrap().status_writes, 4);
}

/// As long as nobody knows whether its state was written back, no other Pod may follow.
#[tokio::test]
async fn a_state_that_cannot_be_written_back_counts_as_given_up() {
    let world = World {
        is_bound_at_eviction: true,
        later_refusals: vec![(500, "InternalError")],
        ..World::new()
    };
    let (mut worker, world, _) = falling_back(world);
    let start = Instant::now();
    for second in (0..=WAIT).step_by(5) {
        worker.follow_fallbacks(start + Duration::from_secs(second));
    }
    let done = worker.requests.next_outcome().await.unwrap().unwrap();
    let Outcome::Fallback { result, .. } = done else {
        panic!("no fallback")
    };
    assert!(
        matches!(result, Err(FallbackFailure::Unknown(_))),
        "{result:?}"
    );
    assert_eq!(world.lock().unwrap().status_writes, 2);
}

#[tokio::test]
async fn no_place_is_given_up_for_a_pod_that_must_not_be_evicted() {
    let world = World {
        may_evict: false,
        ..World::new()
    };
    let before = world.pps.clone();
    let (mut worker, world, requests) = falling_back(world);
    assert!(wait(&mut worker).await);
    assert_eq!(requests.lock().unwrap().len(), 1, "only asked");
    assert_eq!(world.lock().unwrap().pps, before);
    let notices = notices(&mut worker);
    let [(Reason::FallbackBlocked, message)] = &notices[..] else {
        panic!("{notices:?}")
    };
    assert!(message.contains("pods \"w-0\" is forbidden"), "{message}");
}

/// Its leader was killed between the write and the eviction.
#[tokio::test]
async fn a_pod_that_requires_what_is_no_longer_recorded_is_evicted_at_once() {
    let mut given_up = World::new();
    given_up.pps["status"]["podStates"]["w-0"] = json!({"annotations": {"ip": "10.0.0.1"}});
    let (mut worker, world, requests) = falling_back(given_up);
    worker.follow_fallbacks(Instant::now());
    let done = worker.requests.next_outcome().await.unwrap().unwrap();
    worker.done(done);
    let writes = requests.lock().unwrap().clone();
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert_eq!(writes[0]["kind"], "Eviction");
    assert_eq!(
        world.lock().unwrap().pps["metadata"]["resourceVersion"],
        "6"
    );
    assert_eq!(notices(&mut worker)[0].0, Reason::PodEvicted);
    // A node that could take it as it is.
    let mut given_up = World::new();
    given_up.pps["status"]["podStates"]["w-0"] = json!({"annotations": {"ip": "10.0.0.1"}});
    given_up.nodes.push(node("a1", "a"));
    let (mut worker, _, requests) = falling_back(given_up);
    worker.follow_fallbacks(Instant::now());
    worker.requests.next_outcome().await.unwrap().unwrap();
    assert!(requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn no_other_pod_follows_as_long_as_nobody_knows_what_was_written() {
    let (mut worker, world, _) = falling_back(World::new());
    let second = {
        let mut world = world.lock().unwrap();
        let mut second = world.pod.clone();
        second["metadata"]["name"] = "w-1".into();
        second["metadata"]["uid"] = "uid-w-1".into();
        world.pps["status"]["podStates"]["w-1"] = world.pps["status"]["podStates"]["w-0"].clone();
        second
    };
    let fact = pps_recorder::facts::object_fact(
        serde_json::from_value({
            let mut pps = world.lock().unwrap().pps.clone();
            pps["metadata"]["resourceVersion"] = "7".into();
            pps
        })
        .unwrap(),
    );
    worker.apply(Observation::PersistentPodStates(Update::Apply(
        NamespacedName::new("n", "w"),
        Box::new(fact),
    )));
    report_pod(&mut worker, &second);
    let start = Instant::now();
    for second in (0..=WAIT).step_by(5) {
        worker.follow_fallbacks(start + Duration::from_secs(second));
    }
    assert_eq!(worker.requests.count(), 1, "one at a time");
    let Outcome::Fallback { candidate, .. } =
        worker.requests.next_outcome().await.unwrap().unwrap()
    else {
        panic!("no fallback")
    };
    assert_eq!(&*candidate.pod.name, "w-0");
    let unknown = Failure::Other {
        message: "no answer".into(),
        retry_after: Duration::ZERO,
    };
    worker.on_fallback(&candidate, Err(FallbackFailure::Unknown(unknown)));
    worker.follow_fallbacks(start + Duration::from_secs(WAIT + 5));
    assert_eq!(worker.requests.count(), 0);
    for second in (WAIT + 10..=2 * WAIT + 5).step_by(5) {
        worker.follow_fallbacks(start + Duration::from_secs(second));
    }
    assert_eq!(worker.requests.count(), 1, "one period later");
}

/// An older definition, or OpenKruise's, drops the field.
#[tokio::test]
async fn an_end_that_the_definition_has_no_field_for_is_answered_with_an_event_and_a_condition() {
    let mut asking = annotated_workload("zone");
    asking["metadata"]["annotations"]["kruise.io/required-persistent-topology-fallback-after-seconds"] =
        "600".into();
    let read = asking.clone();
    let (client, requests) = api_server_with_reads(
        move |_| list(std::slice::from_ref(&read)),
        |_| {
            (
                200,
                json!({"metadata": {}, "spec": {"requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]}}}),
            )
        },
    );
    let generated = json!({
        "metadata": {"name": "w", "namespace": "n", "uid": "uid-1", "resourceVersion": "6", "generation": 1,
            "labels": {"app.kubernetes.io/managed-by": "pps-sidecar"},
            "managedFields": [{"manager": "pps-sidecar", "operation": "Update", "apiVersion": "apps.kruise.io/v1alpha1",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:requiredPersistentTopology": {}}}}],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w", "uid": "uid-w", "controller": true}]},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]},
        },
    });
    let fact = pps_recorder::facts::object_fact(serde_json::from_value(generated).unwrap());
    let key = NamespacedName::new("n", "w");
    let update = Update::Apply(key.clone(), Box::new(fact));
    let mut worker = worker(client, [Observation::PersistentPodStates(update)]);
    report_workload(
        &mut worker,
        Update::Apply(key.clone(), stateful_set(&asking)),
    );
    let notices = write_generated_pps(&mut worker).await;
    let [(Reason::InvalidAnnotation, message)] = &notices[..] else {
        panic!("{notices:?}")
    };
    assert!(message.contains("lacks fallbackAfterSeconds"), "{message}");
    let write = worker
        .recorder
        .decide_status(&key, "2026-01-01T00:00:00Z")
        .write
        .unwrap();
    let condition = &write.patch["status"]["conditions"][0];
    assert_eq!(condition["reason"], "FallbackBlocked");
    assert_eq!(
        write_generated_pps(&mut worker).await,
        [],
        "it is not written again at once"
    );
    assert_eq!(requests.lock().unwrap().len(), 1);
}
