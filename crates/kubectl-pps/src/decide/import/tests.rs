use pps_core::edit::compact_status;
use serde_json::json;

use super::*;
use crate::snapshot::{Namespaces, Node, Pod, Workload};

fn options() -> Options {
    Options {
        default_namespace: "default".into(),
        ..Options::default()
    }
}

fn pps(namespace: &str, name: &str, states: &Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
        "metadata": {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "7",
                     "ownerReferences": [{"uid": "w"}]},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name},
                 "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"], "fallbackAfterSeconds": 600}},
        "status": {"podStates": states, "targetUID": "w"},
    })
}

fn state(node: &str) -> Value {
    json!({"nodeName": node, "nodeTopologyLabels": {"zone": "a"}, "annotations": {"ip": "10.0.0.7"}})
}

fn ready_pod(namespace: &str, name: &str) -> Pod {
    Pod::read(json!({
        "metadata": {"name": name, "namespace": namespace, "uid": "p", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name.rsplit_once('-').unwrap().0, "uid": "u",
                "controller": true}]},
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }))
    .unwrap()
}

fn entries(objects: &[Value]) -> Vec<Entry> {
    read(objects, &options()).unwrap()
}

fn known(pps: &[Value], pods: &[Pod], workloads: &[Workload]) -> Snapshot {
    let pps = pps
        .iter()
        .map(|object| Pps::read(object.clone()).unwrap())
        .collect();
    Snapshot {
        pps,
        pods: pods.to_vec(),
        workloads: workloads.to_vec(),
        ..Snapshot::empty(Namespaces::All)
    }
}

fn plan_with(file: &Value, cluster: &[Value], pods: &[Pod], overwrite: bool) -> Plan {
    plan(
        &entries(std::slice::from_ref(file)),
        &known(cluster, pods, &[]),
        overwrite,
    )
    .remove(0)
}

fn added(plan: &Plan) -> usize {
    plan.changes.len() - plan.replaced()
}

fn names<const N: usize>(pods: [&str; N]) -> BTreeSet<String> {
    pods.map(str::to_owned).into()
}

#[test]
fn a_missing_object_is_created_without_what_belongs_to_another_cluster() {
    let plan = plan_with(
        &pps("prod", "db", &json!({"db-0": state("n1")})),
        &[],
        &[],
        false,
    );
    let Action::Create(object) = &plan.action else {
        panic!("{plan:?}")
    };
    assert_eq!(
        object["metadata"],
        json!({"name": "db", "namespace": "prod"})
    );
    let topology = &object["spec"]["requiredPersistentTopology"];
    assert_eq!(topology["fallbackAfterSeconds"], 600);
    assert!(object.get("status").is_none());
    assert_eq!(added(&plan), 1);
}

#[test]
fn a_state_that_the_cluster_has_stays_unless_it_may_be_overwritten() {
    let file = pps(
        "prod",
        "db",
        &json!({"db-0": state("n1"), "db-1": state("n2")}),
    );
    let cluster = [pps("prod", "db", &json!({"db-0": state("other")}))];
    let plan = plan_with(&file, &cluster, &[], false);
    let note =
        "prod/db: the cluster has other states of db-0, which stay; --overwrite replaces them";
    assert_eq!(crate::render::import::notes(&plan), [note]);
    assert_eq!(
        (added(&plan), plan.replaced(), plan.kept),
        (1, 0, names(["db-0"]))
    );
    let plan = plan_with(&file, &cluster, &[], true);
    assert_eq!(
        crate::render::import::notes(&plan),
        ["prod/db: replaces db-0: other -> n1"]
    );
    assert_eq!(
        (added(&plan), plan.replaced(), plan.kept),
        (1, 1, names([]))
    );
}

#[test]
fn the_state_of_a_ready_pod_is_never_replaced() {
    let file = pps("prod", "db", &json!({"db-0": state("n1")}));
    let cluster = [pps("prod", "db", &json!({"db-0": state("other")}))];
    let plan = plan_with(&file, &cluster, &[ready_pod("prod", "db-0")], true);
    assert_eq!(
        (plan.action, plan.ready),
        (Action::Nothing, names(["db-0"]))
    );
    let plan = plan_with(&file, &cluster, &[ready_pod("test", "db-0")], true);
    assert_eq!(plan.replaced(), 1);
}

#[test]
fn the_state_of_a_pod_that_nobody_records_is_imported() {
    let file = pps("prod", "db", &json!({"db-0": state("n1")}));
    let with = |change: Value| {
        let mut pod = ready_pod("prod", "db-0").object().clone();
        json_patch::merge(&mut pod, &change);
        let mut world = known(&[], &[Pod::read(pod).unwrap()], &[]);
        let node = Node::read(json!({"metadata": {"name": "n"}})).unwrap();
        world.nodes = Some([("n".to_owned(), node)].into());
        let plan = plan(&entries(std::slice::from_ref(&file)), &world, false).remove(0);
        (added(&plan), plan.ready.len())
    };
    assert_eq!(with(json!({})), (0, 1));
    let exempt = json!({"metadata": {"annotations": {pps_core::RECORD_ANNOTATION: "false"}}});
    let stranded = json!({"spec": {"nodeName": "gone"}});
    let terminating = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    for change in [exempt, stranded, terminating] {
        assert_eq!(with(change.clone()), (1, 0), "{change}");
    }
}

#[test]
fn the_state_of_a_ready_pod_is_replaced_where_nobody_records_it() {
    let file = pps("prod", "db", &json!({"db-0": state("n1")}));
    let mut cluster = pps("prod", "db", &json!({"db-0": state("other")}));
    let plan = |cluster: &Value| {
        plan_with(
            &file,
            std::slice::from_ref(cluster),
            &[ready_pod("prod", "db-0")],
            true,
        )
    };
    assert_eq!(
        (plan(&cluster).replaced(), plan(&cluster).ready.len()),
        (0, 1)
    );
    cluster["status"]["conditions"] = json!([{"type": "Recording", "status": "False", "reason": "NamespaceNotEnabled", "message": "m"}]);
    assert_eq!(
        (plan(&cluster).replaced(), plan(&cluster).ready.len()),
        (1, 0)
    );
}

#[test]
fn of_two_objects_of_a_file_for_one_workload_the_first_is_created() {
    let mut second = pps("prod", "web", &json!({"db-0": state("n2")}));
    second["spec"]["targetRef"] =
        json!({"apiVersion": "apps/v1beta1", "kind": "StatefulSet", "name": "db"});
    let file = [
        pps("prod", "db", &json!({"db-0": state("n1")})),
        second,
        pps("test", "db", &json!({})),
    ];
    let plans = plan(&entries(&file), &known(&[], &[], &[]), false);
    let refused = Action::Refuse(Refusal::SharedTarget("db".into()));
    assert_eq!(
        plans.iter().map(Plan::writes).collect::<Vec<_>>(),
        [true, false, true]
    );
    assert_eq!((&plans[1].action, plans[1].changes.len()), (&refused, 0));
}

#[test]
fn an_object_for_another_workload_is_refused() {
    let file = pps("prod", "db", &json!({"db-0": state("n1")}));
    let mut other = pps("prod", "db", &json!({}));
    other["spec"]["targetRef"]["name"] = "web".into();
    let mut shared = pps("prod", "mine", &json!({}));
    shared["spec"]["targetRef"]["name"] = "db".into();
    let mut alias = pps("prod", "db", &json!({}));
    alias["spec"]["targetRef"] = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "name": "mine"});
    let refusal = |cluster: &Value| {
        let plan = plan_with(&file, std::slice::from_ref(cluster), &[], true);
        assert!(plan.changes.is_empty());
        plan.action
    };
    for other in [&other, &alias] {
        let target = TargetReference::read(&other["spec"]["targetRef"]);
        assert_eq!(refusal(other), Action::Refuse(Refusal::OtherTarget(target)));
    }
    assert_eq!(
        refusal(&shared),
        Action::Refuse(Refusal::SharedTarget("mine".into()))
    );
}

#[test]
fn only_what_was_shown_is_replaced() {
    let file = pps(
        "prod",
        "db",
        &json!({"db-0": state("n1"), "db-1": state("n2")}),
    );
    let before = pps("prod", "db", &json!({"db-0": state("other")}));
    let plan = plan_with(&file, std::slice::from_ref(&before), &[], true);
    let changes = |states: &Value| {
        let edit = next_write(&pps("prod", "db", states), &plan).unwrap();
        edit.map(|edit| edit.changes.into_keys().collect::<BTreeSet<_>>())
            .unwrap_or_default()
    };
    assert_eq!(
        changes(&before["status"]["podStates"]),
        names(["db-0", "db-1"])
    );
    assert_eq!(
        changes(&json!({"db-0": state("third")})),
        names(["db-1"]),
        "another client has recorded it"
    );
    assert_eq!(
        changes(&json!({"db-0": state("n1")})),
        names(["db-1"]),
        "it is written already"
    );
    assert_eq!(
        changes(&json!({"db-0": state("other"), "db-1": state("x")})),
        names(["db-0"])
    );
    assert_eq!(changes(&file["status"]["podStates"]), names([]));
}

#[test]
fn states_that_are_too_large_for_the_plain_form_need_the_compact_one() {
    let states: serde_json::Map<String, Value> = (0..14_000)
        .map(|pod| {
            (
                format!("db-{pod}"),
                state(&format!("node-{pod}.example.com")),
            )
        })
        .collect();
    let plan = plan_with(&pps("prod", "db", &states.into()), &[], &[], false);
    assert_eq!(plan.changes.len(), 14_000, "{:?}", plan.action);
    let mut created = pps("prod", "db", &json!({}));
    let blocked = next_write(&created, &plan);
    assert!(
        matches!(blocked, Err(EditError::TooLarge { .. })),
        "{blocked:?}"
    );
    created["status"] = compact_status();
    assert_eq!(
        next_write(&created, &plan).unwrap().unwrap().changes.len(),
        14_000
    );
}

#[test]
fn namespaces_are_chosen_and_keys_dropped() {
    let mut objects = [
        pps("one", "db", &json!({"db-0": state("n1")})),
        pps("two", "db", &json!({})),
    ];
    assert_eq!(entries(&objects).len(), 2);
    let one = Options {
        only: Some("one".into()),
        default_namespace: "one".into(),
        drop_keys: vec!["zone".into(), "ip".into()],
    };
    for _ in 0..2 {
        let entries = read(&objects, &one).unwrap();
        assert_eq!((entries.len(), entries[0].pps.namespace()), (1, "one"));
        assert_eq!(
            json!(entries[0].states),
            json!({"db-0": {"nodeName": "n1"}})
        );
        // An object that names no namespace goes there, too.
        objects[0]["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("namespace");
    }
}

#[test]
fn without_its_host_name_a_state_has_no_node() {
    let host = "kubernetes.io/hostname";
    let of = |labels: Value| json!({"nodeName": "n1", "nodeTopologyLabels": labels});
    let states =
        json!({"db-0": of(json!({host: "n1", "zone": "a"})), "db-1": of(json!({host: "n1"}))});
    let options = Options {
        drop_keys: vec![host.to_owned()],
        ..options()
    };
    let entries = read(&[pps("prod", "db", &states)], &options).unwrap();
    assert_eq!(
        json!(entries[0].states),
        json!({"db-0": {"nodeTopologyLabels": {"zone": "a"}}})
    );
}

#[test]
fn an_object_that_the_policy_would_refuse_is_refused_alone_and_only_if_it_does_not_exist() {
    let states = json!({"db-0": state("n1")});
    let mut invalid = pps("prod", "bad", &states);
    invalid["spec"]["recordingPolicy"] = "Sometimes".into();
    let mut aimless = pps("prod", "aimless", &states);
    aimless["spec"] = json!({});
    let file = [aimless, invalid.clone(), pps("prod", "good", &states)];
    let plans = plan(&entries(&file), &known(&[], &[], &[]), false);
    assert_eq!(
        plans.iter().map(Plan::writes).collect::<Vec<_>>(),
        [false, false, true]
    );
    for (plan, field) in [
        (&plans[0], "spec.targetRef"),
        (&plans[1], "spec.recordingPolicy"),
    ] {
        let Action::Refuse(Refusal::Invalid(violations)) = &plan.action else {
            panic!("{plan:?}")
        };
        assert_eq!(
            (violations[0].path.as_str(), plan.changes.len()),
            (field, 0)
        );
    }
    let notes = crate::render::import::notes(&plans[1]);
    assert!(
        notes[0]
            .starts_with("prod/bad: refused: spec.recordingPolicy is \"Sometimes\": use one of"),
        "{notes:?}"
    );
    // An import does not change the spec that the object in the cluster has.
    let mut existing = invalid.clone();
    existing["status"] = json!({});
    assert_eq!(
        plan_with(&invalid, &[existing], &[], false).action,
        Action::Update
    );
}

#[test]
fn states_for_a_deleted_workload_wait_for_the_next_one() {
    let file = pps("prod", "db", &json!({"db-0": state("n1")}));
    let written = |object: &Value, workloads: &[Workload]| {
        let known = known(std::slice::from_ref(object), &[], workloads);
        let plan = plan(&entries(std::slice::from_ref(&file)), &known, false).remove(0);
        (
            next_write(object, &plan).unwrap().unwrap().body["status"].clone(),
            plan,
        )
    };
    let mut object = pps("prod", "db", &json!({}));
    let (status, plan) = written(&object, &[]);
    assert_eq!(
        status,
        json!({"podStates": {"db-0": state("n1")}, "targetUID": null})
    );
    assert_eq!(crate::render::import::notes(&plan), [""; 0]);
    let set = json!({"metadata": {"name": "db", "namespace": "prod", "uid": "w"}, "spec": {"replicas": 1}});
    let (status, _) = written(&object, &[Workload::read(set, "apps/v1").unwrap()]);
    assert_eq!(status.get("targetUID"), None, "it exists");
    // Another workload was created meanwhile.
    object["status"]["targetUID"] = "next".into();
    let edit = next_write(&object, &plan).unwrap().unwrap();
    assert_eq!(edit.body["status"].get("targetUID"), None);
}

#[test]
fn a_workload_that_is_not_read_is_not_taken_for_deleted() {
    let mut file = pps("prod", "db", &json!({"db-0": state("n1")}));
    file["spec"]["targetRef"] =
        json!({"apiVersion": "example.com/v1", "kind": "StatefulSet", "name": "db"});
    let mut object = file.clone();
    object["status"]["podStates"] = json!({});
    let plan = plan_with(&file, std::slice::from_ref(&object), &[], false);
    assert_eq!((&plan.former_uid, plan.may_be_gone), (&None, true));
    let edit = next_write(&object, &plan).unwrap().unwrap();
    assert_eq!(edit.body["status"].get("targetUID"), None);
    let notes = crate::render::import::notes(&plan);
    assert!(
        notes[0].starts_with("prod/db: if its StatefulSet was deleted, the sidecar drops"),
        "{notes:?}"
    );
}

type IsMeant = fn(&Flaw) -> bool;

#[test]
fn a_file_with_anything_wrong_is_not_used() {
    let good = pps("prod", "good", &json!({}));
    let with = |field: &str, value: Value| {
        let mut object = good.clone();
        *object.pointer_mut(field).unwrap() = value;
        object
    };
    let cases: [(Value, IsMeant); 7] = [
        (json!(42), |flaw| matches!(flaw, Flaw::OtherKind { .. })),
        (json!({"apiVersion": "v1", "kind": "Pod"}), |flaw| {
            matches!(flaw, Flaw::OtherKind { .. })
        }),
        (with("/metadata/name", json!("Db")), |flaw| {
            matches!(
                flaw,
                Flaw::Name {
                    field: "metadata.name",
                    ..
                }
            )
        }),
        (with("/metadata/namespace", json!("a/b")), |flaw| {
            matches!(
                flaw,
                Flaw::Name {
                    field: "metadata.namespace",
                    ..
                }
            )
        }),
        (with("/status", json!({"podStates": 7})), |flaw| {
            matches!(flaw, Flaw::States { .. })
        }),
        (with("/status", json!({"packed": {"version": 9}})), |flaw| {
            matches!(flaw, Flaw::States { .. })
        }),
        (good.clone(), |flaw| matches!(flaw, Flaw::Twice { .. })),
    ];
    for (object, is_meant) in cases {
        let flaws = read(&[good.clone(), object], &options()).unwrap_err();
        assert!(flaws[0].index == 1 && is_meant(&flaws[0].flaw), "{flaws:?}");
    }
    let empty = FlawedObject {
        index: 0,
        flaw: Flaw::Empty,
    };
    assert_eq!(read(&[], &options()), Err(vec![empty]));
}

#[test]
fn an_alias_is_left_out() {
    let mut alias = pps("prod", "db-1234", &json!({}));
    alias["spec"] = json!({"targetRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "name": "db"}});
    assert_eq!(read(&[alias], &options()), Ok(Vec::new()));
}

#[test]
fn a_state_that_the_sidecar_would_drop_at_once_is_not_written() {
    let states = json!({"db-0": state("n1"), "db-1": state("n2"), "db-2": state("n3")});
    let file = pps("prod", "db", &states);
    let plan_of = |cluster: &[Value], pods: &[Pod], replicas: u64| {
        let object = json!({"metadata": {"name": "db", "namespace": "prod"}, "spec": {"replicas": replicas}});
        let known = known(cluster, pods, &[Workload::read(object, "apps/v1").unwrap()]);
        plan(&entries(std::slice::from_ref(&file)), &known, false).remove(0)
    };
    let empty = [pps("prod", "db", &json!({}))];
    let all = plan_of(&empty, &[], 0);
    assert_eq!(
        (&all.unwanted, all.changes.len(), all.writes()),
        (&names(["db-0", "db-1", "db-2"]), 0, false)
    );
    for cluster in [&empty[..], &[]] {
        let some = plan_of(cluster, &[], 2);
        assert_eq!(
            (&some.unwanted, some.changes.len()),
            (&names(["db-2"]), 2),
            "{some:?}"
        );
    }
    // Its Pod is about to be deleted, and the state goes with it.
    let ends = plan_of(&empty, &[ready_pod("prod", "db-2")], 2);
    assert_eq!((ends.unwanted, ends.ready), (names(["db-2"]), names([])));
    // Also if it is there already.
    let nothing = plan_of(&[pps("prod", "db", &states)], &[], 2);
    assert_eq!(
        (&nothing.unwanted, nothing.writes()),
        (&names(["db-2"]), false)
    );
    let [mut keeps] = empty;
    keeps["spec"]["persistentPodStateRetentionPolicy"] = "WhenDeleted".into();
    assert_eq!(plan_of(&[keeps], &[], 0).changes.len(), 3);
    assert_eq!(
        plan_with(&file, &[], &[], false).changes.len(),
        3,
        "the StatefulSet is created later"
    );
}

#[test]
fn required_values_that_no_node_has_are_counted() {
    let host = "kubernetes.io/hostname";
    let of = |node: &str| json!({"nodeName": "n", "nodeTopologyLabels": {host: node, "zone": "x"}});
    let mut file = pps(
        "prod",
        "db",
        &json!({"db-0": of("n0"), "db-1": of("old"), "db-2": of("old")}),
    );
    file["spec"]["requiredPersistentTopology"]["nodeTopologyKeys"] = json!([host]);
    let node = Node::read(json!({"metadata": {"name": "n0", "labels": {host: "n0", "zone": "a"}}}))
        .unwrap();
    let nodes = BTreeMap::from([("n0".to_owned(), node)]);
    let label = |key: &str, value: &str| LabelValue {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let absent =
        |cluster: &[Value]| absent_values(&[plan_with(&file, cluster, &[], false)], &nodes);
    assert_eq!(
        absent(&[]),
        BTreeMap::from([(label(host, "old"), 2)]),
        "zone is not required"
    );
    // The object of the cluster counts, which requires the zone.
    assert_eq!(
        absent(&[pps("prod", "db", &json!({}))]),
        BTreeMap::from([(label("zone", "x"), 3)])
    );
    assert_eq!(
        absent(std::slice::from_ref(&file)),
        BTreeMap::new(),
        "nothing is written"
    );
}

mod round_trip {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;
    use crate::decide::export::export;

    fn any_state() -> impl Strategy<Value = PodState> {
        let labels = btree_map("[a-z]{1,8}(/[a-z]{1,8})?", "[a-z0-9]{1,12}", 0..3);
        let annotations = btree_map("[a-z]{1,8}", "[ -~äö\\n]{0,20}", 0..3);
        ("[a-z]{1,6}(-[0-9]{1,3})?", labels, annotations).prop_map(
            |(node_name, node_topology_labels, annotations)| PodState {
                node_name,
                node_topology_labels,
                annotations,
            },
        )
    }

    proptest! {
        #[test]
        fn what_was_exported_and_imported_into_an_empty_cluster_is_exported_again(
            objects in vec(("[a-z]{1,5}", btree_map(0_u8..120, any_state(), 0..12)), 1..4),
        ) {
            let before: BTreeMap<String, Value> = objects.into_iter().map(|(name, states)| {
                let states: BTreeMap<_, _> =
                    states.into_iter().map(|(pod, state)| (format!("{name}-{pod}"), state)).collect();
                let object = pps("prod", &name, &json!(states));
                (name, object)
            }).collect();
            let before: Vec<Value> = before.into_values().collect();
            let file = export(&before).objects;
            let after: Vec<Value> = plan(&entries(&file), &known(&[], &[], &[]), false).iter().map(|plan| {
                let Action::Create(object) = &plan.action else { panic!("{plan:?}") };
                let mut object = object.clone();
                object["metadata"]["uid"] = "new".into();
                object["metadata"]["resourceVersion"] = "1".into();
                if let Some(edit) = next_write(&object, plan).unwrap() {
                    object["status"] = edit.body["status"].clone();
                }
                object
            }).collect();
            prop_assert_eq!(file, export(&after).objects);
        }
    }
}
