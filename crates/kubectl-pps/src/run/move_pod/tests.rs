//! What a move does when the cluster changes under it.

use pps_core::PodState;
use serde_json::{Value, json};

use super::*;
use crate::args::{ColorChoice, Consent};
use crate::cluster::stub::serve;
use crate::decide::relocate::mark;
use crate::snapshot::{Pps, Workload};

const POD: &str = "GET /api/v1/namespaces/prod/pods/db-0";
const NODE: &str = "GET /api/v1/nodes/node-9";
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
    let mut snapshot = Snapshot::empty(Scope::Namespace("prod".into()));
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
        consent: Consent { dry_run: false, yes: true },
    }
}

/// Does this with the move of the Pod on this node, which goes anywhere.
async fn with_mover<T>(client: Client, node: &str, act: impl AsyncFnOnce(&Job<'_>, &Mover<'_>) -> T) -> T {
    with_snapshot(client, &anywhere(), &snapshot(node), act).await
}

async fn with_snapshot<T>(
    client: Client,
    args: &Move,
    snapshot: &Snapshot,
    act: impl AsyncFnOnce(&Job<'_>, &Mover<'_>) -> T,
) -> T {
    let terminal = Terminal::of_process(ColorChoice::Never);
    let (scope, reached) = (Scope::Namespace("prod".into()), Cell::default());
    let job =
        Job { args, client: &client, terminal: &terminal, hand: Hand::default(), scope, node: None, reached };
    let pod = ("prod".to_owned(), "db-0".to_owned());
    let Ok(Decision::Move(relocation)) = decide(snapshot, &job.goal().of(&pod)) else { panic!("no move") };
    act(&job, &Mover::new(&job, snapshot, &relocation, &[])).await
}

#[tokio::test]
async fn a_node_that_comes_back_while_its_pod_is_waited_for_is_named() {
    let mut looks = 0;
    let client = serve(move |request| match request {
        POD => (200, pod("node-9")),
        NODE => {
            looks += 1;
            if looks == 1 { (404, json!({})) } else { (200, json!({"metadata": {"name": "node-9"}})) }
        }
        other => panic!("{other}"),
    });
    let waited = with_mover(client, "node-9", async |job, mover| mover.wait(job.args.timeout).await).await;
    assert_eq!(
        waited,
        Err(Failure::Refused(
            "node node-9 has come back, and Pod db-0 is still on it; to call the move off, so that it is recorded again: kubectl pps \
             move db-0 --to node-9 -n prod; to evict it: run the same command again"
                .into()
        ))
    );
}

/// How a wait for the record ends, if it may take so long.
async fn recorded(ready: &'static str, states: &[Value], timeout: Duration) -> Outcome {
    let mut states = states.to_vec();
    let client = serve(move |request| match request {
        POD => {
            let mut pod = pod("node-1");
            pod["status"]["conditions"][0]["status"] = ready.into();
            (200, pod)
        }
        OBJECT => {
            let now = if states.len() > 1 { states.remove(0) } else { states[0].clone() };
            (200, object(&now))
        }
        other => panic!("{other}"),
    });
    with_mover(client, "node-2", async |_, mover| mover.wait_for_record(timeout).await).await
}

#[tokio::test]
async fn a_pod_that_has_moved_is_waited_for_until_it_is_recorded() {
    let given_up = json!({"db-0": PodState::default()});
    let again = json!({"db-0": {"nodeName": "node-1"}});
    let states = [given_up.clone(), given_up.clone(), again];
    assert_eq!(recorded("True", &states, Duration::from_mins(1)).await, Outcome::Well);
    assert_eq!(recorded("True", std::slice::from_ref(&given_up), Duration::ZERO).await, Outcome::NotWell);
    assert_eq!(recorded("False", &[given_up], Duration::ZERO).await, Outcome::Well, "it is recorded later");
}

#[tokio::test]
async fn an_interrupt_asks_whether_the_pod_was_removed() {
    let mut ending = pod("node-1");
    ending["metadata"]["deletionTimestamp"] = "2026-11-23T00:00:00Z".into();
    for (status, now, expected) in
        [(200, ending, true), (404, json!({}), true), (200, pod("node-1"), false), (403, json!({}), false)]
    {
        let client = serve(move |_| (status, now.clone()));
        let removed = async |job: &Job<'_>, mover: &Mover<'_>| {
            let before = job.has_removed(mover.relocation).await;
            job.reached.set(Reached::Written);
            (before, job.has_removed(mover.relocation).await)
        };
        assert_eq!(with_mover(client, "node-1", removed).await, (false, expected), "{status}");
    }
}

/// `db` with a second Pod.
fn pair(second: Value) -> Snapshot {
    let mut pair = snapshot("node-1");
    let mut set = pair.workloads[0].object().clone();
    set["spec"]["replicas"] = 2.into();
    pair.workloads = Workload::read(set, "apps/v1").into_iter().collect();
    pair.pods.extend(Pod::read(second));
    pair.pps = Pps::read(object(&json!({"db-1": {"nodeName": "node-2"}}))).into_iter().collect();
    pair
}

fn second(ready: &str) -> Value {
    let mut second = pod("node-2");
    second["metadata"]["name"] = "db-1".into();
    second["metadata"]["uid"] = "uid-1".into();
    second["status"]["conditions"][0]["status"] = ready.into();
    second
}

/// The answers of an API server that has this. Nothing may be written.
fn api(snapshot: &Snapshot, request: &str) -> (u16, Value) {
    let list = |items: Vec<Value>| (200, json!({"metadata": {}, "items": items}));
    let objects = |pods: &[Pod]| pods.iter().map(|pod| pod.object().clone()).collect();
    let (path, _) = request.split_once('?').unwrap_or((request, ""));
    if let Some(name) = path.strip_prefix("GET /api/v1/namespaces/prod/pods/") {
        let pod = snapshot.pods.iter().find(|pod| pod.name() == name);
        return pod.map_or((404, json!({})), |pod| (200, pod.object().clone()));
    }
    match path.rsplit('/').next().unwrap_or_default() {
        "pods" if path.starts_with("GET ") => list(objects(&snapshot.pods)),
        "persistentpodstates" => list(vec![object(&json!({"db-1": {"nodeName": "node-2"}}))]),
        "statefulsets" if path.contains("/apps/v1/") => {
            list(snapshot.workloads.iter().map(|set| set.object().clone()).collect())
        }
        "nodes" => {
            let nodes = snapshot.nodes.iter().flat_map(|nodes| nodes.values());
            list(nodes.map(|node| node.object().clone()).collect())
        }
        "persistentvolumes" | "persistentvolumeclaims" => list(Vec::new()),
        _ if path.contains("kruise.io") => (404, json!({})),
        _ => panic!("{request}"),
    }
}

#[tokio::test]
async fn one_pod_waits_until_the_others_of_its_workload_are_ready() {
    let (down, up) = (pair(second("False")), pair(second("True")));
    let server = |snapshot: &Snapshot| {
        let snapshot = snapshot.clone();
        serve(move |request| api(&snapshot, request))
    };
    let at_once = Move { timeout: Duration::ZERO, ..anywhere() };
    let held_up = async |job: &Job<'_>, mover: &Mover<'_>| {
        let step = job.step(mover.relocation, &[], true, false).await;
        let Ok(Step::HeldUp(why)) = step else { panic!("it is its turn") };
        why
    };
    assert_eq!(
        with_snapshot(server(&down), &at_once, &down, held_up).await,
        "Pod db-1 is not Ready after 0 s, and Pod db-0 of the same StatefulSet was left alone until it is"
    );
    let has_waited = async |job: &Job<'_>, mover: &Mover<'_>| {
        let Ok(Ok((_, _, has_waited))) = job.turn(mover.relocation, &[], true).await else {
            panic!("it is not its turn")
        };
        has_waited
    };
    let by_force = Move { force: true, ..at_once };
    assert!(!with_snapshot(server(&down), &by_force, &down, has_waited).await);
    assert!(!with_snapshot(server(&up), &anywhere(), &up, has_waited).await);
    // It becomes Ready meanwhile.
    let (mut reads, before, after) = (0, down.clone(), up);
    let client = serve(move |request| {
        reads += usize::from(request.starts_with("GET /api/v1/namespaces/prod/pods/db-1"));
        api(if reads == 0 { &before } else { &after }, request)
    });
    assert!(with_snapshot(client, &anywhere(), &down, has_waited).await);
}

#[tokio::test]
async fn a_node_that_nobody_knows_is_a_mistake() {
    let args = Move { pods: Vec::new(), node: Some("node-x".into()), ..anywhere() };
    let of_node = async |status: u16, node: &str| {
        let client = serve(move |_| (status, json!({"metadata": {"name": "node"}})));
        let terminal = Terminal::of_process(ColorChoice::Never);
        let scope = Scope::Namespace("prod".into());
        let job = Job {
            args: &args,
            client: &client,
            terminal: &terminal,
            hand: Hand::default(),
            scope,
            node: None,
            reached: Cell::default(),
        };
        let mut world = snapshot("node-1");
        world.pps = Pps::read(object(&json!({"db-7": {"nodeName": "node-8"}}))).into_iter().collect();
        job.of_node(&world, node, &select(&world, node).unwrap()).await.map(Outcome::exit_code)
    };
    let Err(Failure::Usage(text)) = of_node(404, "node-x").await else { panic!("nobody knows it") };
    assert_eq!(
        text,
        "no recorded state names node-x, and there is no node node-x; similar names: node-1, node-2"
    );
    assert_eq!(of_node(404, "node-8").await, Ok(0), "a state names it, of a Pod that nobody wants");
    assert_eq!(of_node(200, "node-x").await, Ok(0));
    assert_eq!(of_node(403, "node-x").await, Ok(2), "whether it exists is not known");
}

/// The steps of a move of `db-0` with an API server that has this, and answers other requests like that.
async fn step(
    snapshot: &Snapshot,
    mut other: impl FnMut(&str) -> Option<(u16, Value)> + Send + 'static,
) -> Result<Step, Failure> {
    let now = snapshot.clone();
    let client = serve(move |request| match other(request) {
        Some(answer) => answer,
        None if request == OBJECT => (200, object(&json!({"db-1": {"nodeName": "node-2"}}))),
        None if request.starts_with("PATCH /apis") => (200, json!({"status": {"packed": {}}})),
        None => api(&now, request),
    });
    let by_force = Move { force: true, ..anywhere() };
    let of = async |job: &Job<'_>, mover: &Mover<'_>| {
        // As the Pod before has left it.
        job.reached.set(Reached::Written);
        let step = job.step(mover.relocation, &[], true, false).await;
        assert_ne!(job.reached.get(), Reached::Written);
        step
    };
    with_snapshot(client, &by_force, snapshot, of).await
}

fn left(step: Result<Step, Failure>) -> String {
    match step {
        Ok(Step::Left(why)) => why,
        Err(failure) => panic!("the command ends: {failure}"),
        Ok(_) => panic!("it is not left"),
    }
}

#[tokio::test]
async fn a_pod_whose_eviction_fails_in_the_rehearsal_is_left_and_ends_no_command() {
    let two = json!({"message": "This pod has more than one PodDisruptionBudget", "code": 500});
    let pair = pair(second("True"));
    let step = step(&pair, move |request| request.contains("/eviction?").then(|| (500, two.clone())));
    let why = left(step.await);
    assert!(why.contains("more than one PodDisruptionBudget"), "{why}");
    assert!(why.ends_with("Pod db-0 was left alone: nothing was changed"), "{why}");
}

#[tokio::test]
async fn a_pod_that_is_created_again_between_mark_and_claim_is_decided_again() {
    let mut again = pod("node-1");
    again["metadata"]["uid"] = "uid-again".into();
    let (mut is_marked, mut lists) = (false, 0);
    let pair = pair(second("True"));
    let step = step(&pair, move |request| {
        is_marked |= request.starts_with("PATCH /api/");
        lists += usize::from(is_marked && request.contains("/pods?"));
        match request {
            _ if request.starts_with("PATCH /api/") || request.contains("/eviction?") => {
                Some((201, json!({})))
            }
            POD if is_marked && lists > 0 => Some((200, again.clone())),
            _ if lists > 0 && request.contains("/pods?") => {
                Some((200, json!({"metadata": {}, "items": [again.clone()]})))
            }
            _ => None,
        }
    });
    let why = left(step.await);
    assert_eq!(why, "Pod db-0 has got node node-1 meanwhile: it was left alone");
}

#[tokio::test]
async fn an_interrupt_before_the_state_is_written_takes_the_mark_back() {
    let call_off = Some("kubectl pps move db-0 --to node-1 -n prod".to_owned());
    for (reached, status, writes, left) in [
        (Reached::Nothing, 200, 0, None),
        (Reached::Marked, 200, 1, None),
        (Reached::Marked, 403, 1, call_off.clone()),
        (Reached::Written, 200, 0, call_off),
    ] {
        let mut marked = pod("node-1");
        marked["metadata"]["annotations"] = mark(&Pod::read(marked.clone()).unwrap(), true).unwrap();
        let (sender, written) = std::sync::mpsc::channel();
        let client = serve(move |request| {
            sender.send(request.to_owned()).unwrap();
            if request == POD {
                (200, marked.clone())
            } else {
                (status, json!({"code": status, "message": "no"}))
            }
        });
        let taken = async |job: &Job<'_>, mover: &Mover<'_>| {
            job.reached.set(reached);
            job.take_back(mover.relocation).await
        };
        assert_eq!(with_mover(client, "node-1", taken).await, left, "{reached:?}");
        assert_eq!(written.try_iter().filter(|one| one.starts_with("PATCH ")).count(), writes, "{reached:?}");
    }
}
