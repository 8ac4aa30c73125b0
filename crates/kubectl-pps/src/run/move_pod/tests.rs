//! What a move does when the cluster changes under it.

use std::sync::mpsc::{Receiver, channel};

use pps_core::PodState;
use serde_json::{Value, json};

use super::*;
use crate::args::Consent;
use crate::cluster::Client;
use crate::cluster::tests::serve;
use crate::snapshot::{Node, Pod, Pps, Workload};

const POD: &str = "GET /api/v1/namespaces/prod/pods/db-0";
const OBJECT: &str = "GET /apis/apps.kruise.io/v1alpha1/namespaces/prod/persistentpodstates/db";

fn pod(node: &str) -> Value {
    json!({
        "metadata": {"name": "db-0", "namespace": "prod", "uid": "uid-0", "resourceVersion": "5",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s", "controller": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "c"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn object(states: &Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
        "metadata": {"name": "db", "namespace": "prod", "uid": "uid-p", "resourceVersion": "9"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"},
            "requiredPersistentTopology": {"nodeTopologyKeys": ["kubernetes.io/hostname"]}},
        "status": {"podStates": states},
    })
}

/// A Pod on this node. The cluster has two nodes, and no node-9.
fn snapshot(node: &str) -> Snapshot {
    let mut snapshot = Snapshot::empty(Namespaces::One("prod".into()));
    snapshot.pods = Pod::read(pod(node)).into_iter().collect();
    snapshot.pps = Pps::read(object(&json!({}))).into_iter().collect();
    let set = json!({"metadata": {"name": "db", "namespace": "prod", "uid": "s"},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}});
    snapshot.workloads = Workload::read(set, "apps/v1").into_iter().collect();
    let nodes = ["node-1", "node-2"].map(|name| {
        let node = json!({"metadata": {"name": name}, "status": {"allocatable": {"pods": "9"}}});
        (name.to_owned(), Node::read(node).unwrap())
    });
    snapshot.nodes = Some(nodes.into());
    snapshot
}

/// The command that moves the Pod anywhere.
fn anywhere() -> Move {
    Move {
        pods: vec!["db-0".into()],
        node: None,
        all_namespaces: false,
        to: None,
        anywhere: true,
        any: Vec::new(),
        drop_annotations: false,
        force: false,
        timeout: Duration::from_mins(1),
        consent: Consent {
            dry_run: false,
            yes: true,
        },
    }
}

/// Does this with the move of the Pod of a snapshot.
async fn with_move<T>(
    client: Client,
    args: &Move,
    snapshot: &Snapshot,
    act: impl AsyncFnOnce(&Job<'_>, &PodMove) -> T,
) -> T {
    let terminal = Terminal::of_process();
    let namespaces = Namespaces::One("prod".into());
    let job = Job {
        args,
        client: &client,
        terminal: &terminal,
        commands: CommandLine::default(),
        namespaces,
    };
    let one = job
        .decide(snapshot, &NamespacedName::new("prod", "db-0"))
        .unwrap();
    act(&job, &one.expect("a move")).await
}

/// Waits for the successor of the Pod on this node.
async fn wait(client: Client, node: &str, timeout: Duration) -> Result<Outcome, Failure> {
    let snapshot = snapshot(node);
    let wait = async |job: &Job<'_>, one: &PodMove| {
        Steps::new(job, &snapshot, one, None).wait(timeout).await
    };
    with_move(client, &anywhere(), &snapshot, wait).await
}

/// The end of a wait for a new Pod with these states, one after the other.
async fn recorded(
    ready: &'static str,
    states: &[Value],
    timeout: Duration,
) -> Result<Outcome, Failure> {
    let mut states = states.to_vec();
    let client = serve(move |request| match request {
        POD => {
            let mut pod = pod("node-2");
            pod["metadata"]["uid"] = "uid-new".into();
            pod["status"]["conditions"][0]["status"] = ready.into();
            (200, pod)
        }
        OBJECT => {
            let now = if states.len() > 1 {
                states.remove(0)
            } else {
                states[0].clone()
            };
            (200, object(&now))
        }
        other => panic!("{other}"),
    });
    wait(client, "node-1", timeout).await
}

#[tokio::test]
async fn a_moved_pod_is_waited_for_until_it_is_ready_and_recorded() {
    let given_up = json!({"db-0": PodState::default()});
    let again = json!({"db-0": {"nodeName": "node-2"}});
    let states = [given_up.clone(), given_up.clone(), again.clone()];
    assert_eq!(
        recorded("True", &states, Duration::from_mins(1)).await,
        Ok(Outcome::Well)
    );
    for (ready, state) in [("True", given_up), ("False", again)] {
        let ended = recorded(ready, &[state], Duration::ZERO).await;
        assert!(
            matches!(ended, Err(Failure::Refused(_))),
            "{ready}: {ended:?}"
        );
    }
}

/// The answers of an API server that has this. Nothing may be written.
fn api(snapshot: &Snapshot, request: &str) -> (u16, Value) {
    let list = |items: Vec<Value>| (200, json!({"metadata": {}, "items": items}));
    let objects = |pods: &[Pod]| pods.iter().map(|pod| pod.object().clone()).collect();
    let (path, _) = request.split_once('?').unwrap_or((request, ""));
    match path.rsplit('/').next().unwrap_or_default() {
        "db-0" if path == POD => (200, snapshot.pods[0].object().clone()),
        "pods" if path.starts_with("GET ") => list(objects(&snapshot.pods)),
        "persistentpodstates" => list(
            snapshot
                .pps
                .iter()
                .map(|pps| pps.object().clone())
                .collect(),
        ),
        "statefulsets" if path.contains("/apps/v1/") => list(
            snapshot
                .workloads
                .iter()
                .map(|set| set.object().clone())
                .collect(),
        ),
        "nodes" => {
            let nodes = snapshot.nodes.iter().flat_map(|nodes| nodes.values());
            list(nodes.map(|node| node.object().clone()).collect())
        }
        "persistentvolumes" | "persistentvolumeclaims" => list(Vec::new()),
        _ if request == OBJECT => (200, snapshot.pps[0].object().clone()),
        _ if request.starts_with("PATCH ") && request.contains("dryRun=All") => {
            (200, json!({"status": {"packed": {}}}))
        }
        _ if path.contains("kruise.io") => (404, json!({})),
        _ => panic!("{request}"),
    }
}

/// Moves `db-0` with an API server that has this, and answers other requests like that.
async fn moved(
    snapshot: &Snapshot,
    mut other: impl FnMut(&str) -> Option<(u16, Value)> + Send + 'static,
) -> (Result<Outcome, Failure>, Receiver<String>) {
    let now = snapshot.clone();
    let (sender, requests) = channel();
    let client = serve(move |request| {
        sender.send(request.to_owned()).unwrap();
        other(request).unwrap_or_else(|| api(&now, request))
    });
    let act = async |job: &Job<'_>, one: &PodMove| job.move_all(std::slice::from_ref(one)).await;
    (
        with_move(client, &anywhere(), snapshot, act).await,
        requests,
    )
}

#[tokio::test]
async fn nothing_is_changed_before_the_api_server_has_agreed_to_the_eviction() {
    let two = json!({"message": "This pod has more than one PodDisruptionBudget", "code": 500});
    let answer = move |request: &str| request.contains("/eviction?").then(|| (500, two.clone()));
    let (ended, requests) = moved(&snapshot("node-1"), answer).await;
    assert!(matches!(ended, Err(Failure::Refused(_))), "{ended:?}");
    let is_written =
        |request: &String| request.starts_with("PATCH ") && !request.contains("dryRun=All");
    assert_eq!(requests.try_iter().find(is_written), None);
}

#[tokio::test]
async fn a_pod_that_is_created_again_before_it_is_marked_is_not_evicted() {
    let mut again = pod("node-1");
    again["metadata"]["uid"] = "uid-again".into();
    let mut is_checked = false;
    let answer = move |request: &str| {
        let is_rehearsal = request.contains("/eviction?");
        is_checked |= is_rehearsal;
        match request {
            _ if is_rehearsal => Some((201, json!({}))),
            POD if is_checked => Some((200, again.clone())),
            _ if is_checked && request.contains("/pods?") => {
                Some((200, json!({"metadata": {}, "items": [again.clone()]})))
            }
            _ => None,
        }
    };
    let (ended, requests) = moved(&snapshot("node-1"), answer).await;
    assert!(matches!(ended, Err(Failure::Refused(_))), "{ended:?}");
    let is_eviction =
        |request: &String| request.contains("/eviction?") && !request.contains("dryRun=All");
    assert_eq!(requests.try_iter().find(is_eviction), None);
}

/// Two Ready and recorded Pods of one workload.
fn pair() -> Snapshot {
    let mut pair = snapshot("node-1");
    let mut second = pod("node-1");
    second["metadata"]["name"] = "db-1".into();
    second["metadata"]["uid"] = "uid-1".into();
    pair.pods.extend(Pod::read(second));
    let states = json!({"db-0": {"nodeName": "node-1"}, "db-1": {"nodeName": "node-1"}});
    pair.pps = Pps::read(object(&states)).into_iter().collect();
    let mut set = pair.workloads[0].object().clone();
    set["spec"]["replicas"] = 2.into();
    pair.workloads = Workload::read(set, "apps/v1").into_iter().collect();
    pair
}

#[tokio::test]
async fn a_pod_that_has_to_be_left_alone_does_not_hold_up_the_others_of_its_node() {
    for (node, asked) in [(Some("node-1"), 2), (None, 1)] {
        let (pair, now) = (pair(), pair());
        let (sender, requests) = channel();
        let client = serve(move |request| {
            sender.send(request.to_owned()).unwrap();
            match request {
                _ if request.contains("/eviction?") => (500, json!({"message": "no", "code": 500})),
                "GET /api/v1/namespaces/prod/pods/db-1" => (200, now.pods[1].object().clone()),
                _ => api(&now, request),
            }
        });
        let args = Move {
            node: node.map(Into::into),
            ..anywhere()
        };
        let act = async |job: &Job<'_>, one: &PodMove| {
            let second = job
                .decide(&pair, &NamespacedName::new("prod", "db-1"))
                .unwrap();
            job.move_all(&[one.clone(), second.expect("a move")]).await
        };
        let ended = with_move(client, &args, &pair, act).await;
        assert_eq!(ended == Ok(Outcome::NotWell), node.is_some(), "{ended:?}");
        assert_eq!(
            requests
                .try_iter()
                .filter(|request| request.contains("/eviction?"))
                .count(),
            asked
        );
    }
}

#[tokio::test]
async fn a_budget_may_allow_one_eviction_after_the_other() {
    let names = ["db-0", "db-1"].map(|pod| NamespacedName::new("prod", pod));
    for (allowed, planned) in [(1, 2), (0, 0)] {
        let (pair, now) = (pair(), pair());
        let mut evictions = 0;
        let client = serve(move |request| match request {
            _ if request.contains("/eviction?") => {
                evictions += 1;
                let causes =
                    json!([{"reason": "DisruptionBudget", "message": "The budget db needs 1"}]);
                let refusal = json!({"kind": "Status", "code": 429, "message": "no", "details": {"causes": causes}});
                if evictions <= allowed {
                    (201, json!({}))
                } else {
                    (429, refusal)
                }
            }
            "GET /api/v1/namespaces/prod/pods/db-1" => (200, now.pods[1].object().clone()),
            _ => api(&now, request),
        });
        let plan = async |job: &Job<'_>, _: &PodMove| job.plan(&pair, &names).await;
        let Planned { moves, refused } = with_move(client, &anywhere(), &pair, plan).await.unwrap();
        assert_eq!(
            (moves.len(), refused.len()),
            (planned, 2 - planned),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn what_is_in_the_way_is_said_before_the_api_server_is_asked() {
    let names = [NamespacedName::new("prod", "db-0")];
    let mut world = snapshot("node-1");
    let nodes = ["node-1", "node-2"].map(|name| {
        let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {"unschedulable": true}, "status": {"allocatable": {"pods": "9"}}});
        (name.to_owned(), Node::read(node).unwrap())
    });
    world.nodes = Some(nodes.into());
    for (to, why) in [
        (
            None,
            "no node can take Pod db-0:\n- node-1: cordoned\n- node-2: cordoned",
        ),
        (
            Some("node-2"),
            "node node-2 cannot take Pod db-0:\n- node-2: cordoned",
        ),
    ] {
        let args = Move {
            to: to.map(Into::into),
            anywhere: to.is_none(),
            ..anywhere()
        };
        let client = serve(|request| panic!("{request}"));
        let plan = async |job: &Job<'_>, _: &PodMove| job.plan(&world, &names).await;
        let Planned { moves, refused } = with_move(client, &args, &world, plan).await.unwrap();
        assert!(moves.is_empty(), "{moves:?}");
        let expected = format!("{why}\n--force moves Pod db-0 all the same");
        assert_eq!(refused, [Failure::Refused(expected)]);
        assert_eq!(refused[0].exit_code(), 1);
    }
}

/// Moves a Pod that does not exist at the decision, and that this workload creates before its state
/// is written. Returns whether it was deleted.
async fn deletes_latecomer(owner: &str) -> (Result<Outcome, Failure>, bool) {
    let mut gone = pair();
    gone.pods.clear();
    let mut late = pod("node-1");
    late["spec"] = json!({"containers": [{"name": "c"}], "affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}]}]}}}});
    late["status"] = json!({"phase": "Pending"});
    late["metadata"]["uid"] = "uid-late".into();
    late["metadata"]["ownerReferences"][0]["name"] = owner.into();
    late["metadata"]["ownerReferences"][0]["uid"] = owner.into();
    let mut now = gone.clone();
    now.pods.extend(Pod::read(late));
    let (sender, requests) = channel();
    let mut is_deleted = false;
    let client = serve(move |request| match request {
        POD if is_deleted => (200, pod("node-2")),
        _ if request.starts_with("DELETE ") => {
            is_deleted |= !request.contains("dryRun=All");
            sender.send(()).unwrap();
            (200, json!({}))
        }
        _ if request.starts_with("PATCH ") => (200, json!({"status": {"packed": {}}})),
        _ if request.starts_with("POST ") => (201, json!({})),
        _ => api(&now, request),
    });
    let carry_out = async |job: &Job<'_>, one: &PodMove| {
        Steps::new(job, &gone, one, None)
            .carry_out(Duration::from_mins(1))
            .await
    };
    (
        with_move(client, &anywhere(), &gone, carry_out).await,
        requests.try_iter().count() > 0,
    )
}

#[tokio::test]
async fn a_pod_that_is_created_before_its_state_is_written_is_created_again() {
    assert_eq!(deletes_latecomer("db").await, (Ok(Outcome::Well), true));
    let (ended, is_deleted) = deletes_latecomer("stranger").await;
    assert!(ended.is_err() && !is_deleted, "{ended:?}");
}
