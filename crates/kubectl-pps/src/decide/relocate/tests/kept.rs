//! Which recorded values a move keeps, and which it gives up.

use super::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const RACK: &str = "example.io/rack";

/// The Pod runs on node-1 in zone a, and requires these labels.
fn requiring(keys: &[&str]) -> Snapshot {
    let labels = json!({HOST: "node-1", ZONE: "a", RACK: "r1"});
    let labels: Value =
        keys.iter().filter_map(|key| Some(((*key).to_owned(), labels.get(key)?.clone()))).collect();
    let mut object = pps(&json!({"db-0": {"nodeName": "node-1", "nodeTopologyLabels": labels}}));
    object["spec"]["requiredPersistentTopology"] = json!({"nodeTopologyKeys": keys});
    snapshot(&[pod("db-0", Some("node-1"), Some("node-1"))], &[object])
}

fn change(snapshot: &mut Snapshot, node: &str, patch: &Value) {
    let mut object = snapshot.node(node).unwrap().object().clone();
    json_patch::merge(&mut object, patch);
    snapshot.nodes.as_mut().unwrap().insert(node.into(), Node::read(object).unwrap());
}

fn cordon(snapshot: &mut Snapshot, nodes: &[&str]) {
    for node in nodes {
        change(snapshot, node, &json!({"spec": {"unschedulable": true}}));
    }
}

fn may_land_on(relocation: &Relocation) -> Vec<String> {
    let landing = relocation.forecast.as_ref().unwrap().landing();
    let mut all = [landing.favourites(), landing.others()].concat();
    all.sort();
    all
}

#[test]
fn a_pod_that_goes_anywhere_stays_in_its_zone() {
    let anywhere = request(Some(Destination::Anywhere));
    for keys in [&[ZONE, HOST][..], &[ZONE]] {
        let moved = relocation(&requiring(keys), &anywhere);
        assert_eq!(after(&moved), json!({"nodeTopologyLabels": {ZONE: "a"}}), "{keys:?}");
        assert_eq!(may_land_on(&moved), ["node-1", "node-2"], "{keys:?}");
        assert_eq!(moved.obstacle(), None);
    }
}

#[test]
fn a_required_value_is_given_up_only_by_name() {
    let mut full = requiring(&[ZONE, HOST]);
    cordon(&mut full, &["node-1", "node-2"]);
    let anywhere = request(Some(Destination::Anywhere));
    let refused = relocation(&full, &anywhere);
    let obstacle = refused.obstacle().unwrap();
    let expected = "no node with zone=a can take Pod db-0, and --any zone gives that up:\n- ";
    assert!(obstacle.starts_with(expected), "{obstacle}");
    let title = |relocation: &Relocation| relocation.plan().into_iter().find(|line| line.0 == "gives up");
    assert_eq!(title(&refused), None);
    for word in ["zone", ZONE] {
        let words = [word.to_owned()];
        let moved = relocation(&full, &Request { any: &words, ..anywhere });
        assert_eq!((after(&moved), moved.obstacle()), (json!({}), None), "{word}");
        assert_eq!(may_land_on(&moved), ["node-3"]);
        assert_eq!(title(&moved).unwrap().1, "zone=a, which is required now");
    }
    // A user who names a node of another zone has given the zone up.
    let there = relocation(&full, &request(Some(Destination::Node("node-3"))));
    assert_eq!(title(&there).unwrap().1, "zone=a, which is required now");
    assert_eq!(title(&relocation(&full, &request(Some(Destination::Node("node-2"))))), None);
    // The same of a Pod that its controller is about to create.
    full.pods.clear();
    assert!(relocation(&full, &anywhere).obstacle().unwrap().starts_with(expected));
}

#[test]
fn as_few_values_as_possible_are_to_be_given_up() {
    let anywhere = request(Some(Destination::Anywhere));
    let mut world = requiring(&[ZONE, RACK, HOST]);
    change(&mut world, "node-2", &json!({"metadata": {"labels": {RACK: "r2"}}}));
    change(&mut world, "node-3", &json!({"metadata": {"labels": {RACK: "r3"}}}));
    cordon(&mut world, &["node-1"]);
    let first = |world: &Snapshot| {
        relocation(world, &anywhere).obstacle().unwrap().lines().next().unwrap().to_owned()
    };
    assert_eq!(first(&world), "no node with rack=r1 can take Pod db-0, and --any rack gives that up:");
    cordon(&mut world, &["node-2"]);
    let both = "no node with rack=r1 and zone=a can take Pod db-0, and --any rack --any zone gives that up:";
    assert_eq!(first(&world), both);
    cordon(&mut world, &["node-3"]);
    assert_eq!(first(&world), "no node can take Pod db-0:", "it would not help");
}

#[test]
fn a_word_that_names_no_label_or_several_is_refused() {
    let words = ["zone".to_owned()];
    let zone = Request { any: &words, ..request(Some(Destination::Anywhere)) };
    let other = "failure-domain.beta.kubernetes.io/zone";
    let two = requiring(&[ZONE, other, HOST]);
    let error = decide(&two, &zone).unwrap_err();
    let expected = format!("--any zone may mean {other} or {ZONE}: write the whole key");
    assert_eq!((error.exit_code(), error.to_string()), (2, expected));
    let world = requiring(&[HOST]);
    let error = require_keys(&world, &words).unwrap_err();
    let expected = format!("no PersistentPodState names the node label zone; named are: {HOST}");
    assert_eq!((error.exit_code(), error.to_string()), (2, expected));
    assert_eq!(require_keys(&two, &words), Ok(()));
    assert_eq!(require_keys(&world, &[]), Ok(()));
    // One that governs nothing names none, either.
    let mut other = two.pps[0].object().clone();
    other["metadata"]["name"] = json!("later");
    let mut beside = world.clone();
    beside.pps.extend(Pps::read(other));
    assert!(require_keys(&beside, &words).is_err());
    // What could not be read is not denied.
    let what = "list persistentpodstates.apps.kruise.io in namespace prod".to_owned();
    let unread = Failure::Unreadable(format!("you have no permission to {what}"));
    let unseen = vec![Unseen { what, is_forbidden: true, why: String::new() }];
    let blind = Snapshot { pps: Vec::new(), unseen, ..world };
    assert_eq!(require_keys(&blind, &words), Err(unread));
}
