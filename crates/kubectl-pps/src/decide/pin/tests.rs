//! What is written, and what is not.

use std::collections::BTreeMap;

use clap::Parser;
use pps_core::TargetReference;
use pps_core::generate::{FIELD_MANAGER, MANAGED_BY_LABEL, read_request};
use serde_json::{Map, Value, json};

use super::*;
use crate::args::{Cli, Command};
use crate::decide::hand::Hand;
use crate::print::Style;
use crate::snapshot::{Node, Scope, Snapshot, Unseen};

fn ask(args: &[&str]) -> Result<Ask, String> {
    let line = ["kubectl-pps", "pin", "db"].iter().chain(args);
    let Command::Pin(args) = Cli::try_parse_from(line).unwrap().command else { panic!("no pin") };
    Ask::read(&args)
}

fn target() -> TargetReference {
    TargetReference { api_version: "apps/v1".into(), kind: "StatefulSet".into(), name: "db".into() }
}

fn world(annotations: &Value, pps: Vec<Value>) -> World {
    let workload = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "shop", "uid": "w-1", "resourceVersion": "7", "annotations": annotations},
        "spec": {"replicas": 3},
    });
    World { workload, target: target(), pps, hand: Hand { context: Some("blue".into()), ..Hand::default() } }
}

fn pps(name: &str, spec: &Value, is_generated: bool) -> Value {
    let mut object = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
        "metadata": {"name": name, "namespace": "shop", "uid": "p-1", "resourceVersion": "9"},
        "spec": {"targetRef": target()},
        "status": {"podStates": {"db-0": {"nodeName": "node-1"}, "db-1": {"nodeName": "node-2"}}},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    if is_generated {
        object["metadata"]["labels"] = json!({MANAGED_BY_LABEL: FIELD_MANAGER});
        object["metadata"]["managedFields"] =
            json!([{"manager": FIELD_MANAGER, "fieldsV1": {"f:spec": {"f:requiredPersistentTopology": {}}}}]);
    }
    object
}

const ZONE: &str = "topology.kubernetes.io/zone";

fn required(keys: &[&str]) -> Value {
    json!({"requiredPersistentTopology": {"nodeTopologyKeys": keys}})
}

fn shown(plan: &Plan) -> String {
    let differences = plan
        .changes
        .iter()
        .map(|change| Style::PLAIN.difference(&change.before, &change.after, ["before", "after"]));
    differences.collect()
}

#[test]
fn short_names_are_labels_that_every_cluster_has() {
    let ask = ask(&[
        "--required",
        "zone,example.io/rack",
        "--required",
        "zone",
        "--preferred",
        "hostname=50",
        "--preferred",
        "region,zone",
        "--annotation",
        "a.io/ip=PodIPsCSV",
        "--annotation",
        "b.io/mac",
    ])
    .unwrap();
    assert_eq!(ask.required, [ZONE, "example.io/rack"]);
    let preferred: Vec<(i32, Vec<&str>)> = ask
        .preferred
        .iter()
        .map(|term| (term.weight, term.preference.node_topology_keys.iter().map(String::as_str).collect()))
        .collect();
    assert_eq!(
        preferred,
        [(50, vec!["kubernetes.io/hostname"]), (100, vec!["topology.kubernetes.io/region", ZONE])]
    );
    assert_eq!(
        json!(ask.annotations),
        json!([{"key": "a.io/ip", "valueFrom": "PodIPsCSV"}, {"key": "b.io/mac"}])
    );
}

#[test]
fn a_wrong_wish_is_refused_before_anything_is_read() {
    for (args, word) in [
        (&["--preferred", "zone=0"][..], "from 1 to 100"),
        (&["--preferred", "zone=much"], "from 1 to 100"),
        (&["--required", "zone,,"], "empty key"),
        (&["--annotation", "a=Bogus"], "PodIPsJSON"),
        (&["--annotation", ""], "name an annotation"),
    ] {
        let error = ask(args).unwrap_err();
        assert!(error.contains(word), "{args:?}: {error}");
    }
}

#[test]
fn annotations_ask_for_what_the_command_line_asks_for_and_others_stay() {
    let ask =
        ask(&["--required", "zone", "--preferred", "hostname", "--annotation", "a.io/ip=PodIPsJSON,b.io/x"]);
    let world =
        world(&json!({"team": "data", "kubectl.kubernetes.io/last-applied-configuration": "{}"}), Vec::new());
    let plan = plan(&ask.unwrap(), &world).unwrap();
    assert_eq!(
        shown(&plan),
        "\
--- before
+++ after
@@ -3,5 +3,9 @@
 metadata:
   name: db
   annotations:
+    kruise.io/auto-generate-persistent-pod-state: \"true\"
+    kruise.io/persistent-pod-annotations: a.io/ip=PodIPsJSON,b.io/x
+    kruise.io/preferred-persistent-topology: kubernetes.io/hostname
+    kruise.io/required-persistent-topology: topology.kubernetes.io/zone
     team: data
   namespace: shop
"
    );
    let [Change { step: Step::PatchWorkload { patch }, .. }] = plan.changes.as_slice() else {
        panic!("{plan:?}")
    };
    assert_eq!(
        (&patch["metadata"]["uid"], &patch["metadata"]["resourceVersion"]),
        (&json!("w-1"), &json!("7"))
    );
    let written: BTreeMap<String, String> =
        serde_json::from_value(patch["metadata"]["annotations"].clone()).unwrap();
    assert_eq!(written.len(), 4);
    let request = read_request(&target(), &written).unwrap().unwrap();
    assert_eq!(request.spec.required_keys().collect::<Vec<_>>(), [ZONE]);
}

#[test]
fn what_is_not_named_stays_and_what_is_there_is_not_written_again() {
    let annotations = json!({
        "kruise.io/auto-generate-persistent-pod-state": "true",
        "kruise.io/required-persistent-topology": ZONE,
        "kruise.io/persistent-pod-annotations": "a.io/ip",
    });
    let generated = || vec![pps("db", &required(&[ZONE]), true)];
    let same = plan(&ask(&["--required", "zone"]).unwrap(), &world(&annotations, generated())).unwrap();
    assert_eq!((same.changes.as_slice(), same.by.as_str()), (&[][..], "its annotations"));
    let own = vec![pps("mine", &required(&[ZONE]), false)];
    let same = plan(&ask(&["--required", "zone", "--object"]).unwrap(), &world(&Value::Null, own)).unwrap();
    assert_eq!((same.changes.as_slice(), same.by.as_str()), (&[][..], "PersistentPodState mine"));
    let changed = plan(&ask(&["--required", "region"]).unwrap(), &world(&annotations, generated())).unwrap();
    let [Change { step: Step::PatchWorkload { patch }, .. }] = changed.changes.as_slice() else {
        panic!("{changed:?}")
    };
    let expected = json!({"kruise.io/required-persistent-topology": "topology.kubernetes.io/region"});
    assert_eq!(patch["metadata"]["annotations"], expected);
}

#[test]
fn what_no_annotation_can_ask_for_goes_into_the_generated_object() {
    let ask = ask(&["--required", "zone", "--retention", "Retain", "--on-node-deletion", "Forget"]).unwrap();
    let first = plan(&ask, &world(&Value::Null, Vec::new())).unwrap();
    assert_eq!(first.changes.len(), 1);
    assert!(first.notes[0].ends_with("kubectl pps status db -n shop --context blue"), "{first:?}");
    assert_eq!(
        Value::Object(first.complete),
        json!({"persistentPodStateRetentionPolicy": "Retain", "nodeDeletionPolicy": "Forget"})
    );
    let annotated = json!({
        "kruise.io/auto-generate-persistent-pod-state": "true", "kruise.io/required-persistent-topology": ZONE,
    });
    let world = world(&annotated, vec![pps("db", &required(&[ZONE]), true)]);
    let second = plan(&ask, &world).unwrap();
    assert_eq!(second.complete, Map::new());
    let [Change { step: Step::PatchPps { name, patch }, .. }] = second.changes.as_slice() else {
        panic!("{second:?}")
    };
    assert_eq!((name.as_str(), &patch["metadata"]), ("db", &json!({"uid": "p-1", "resourceVersion": "9"})));
    assert_eq!(generated(&world).as_deref(), Some("db"));
}

#[test]
fn annotations_pin_nothing_until_an_object_has_what_they_ask_for() {
    let asked = ask(&["--required", "zone", "--annotation", "a.io/ip"]).unwrap();
    let expected = plan(&asked, &world(&Value::Null, Vec::new())).unwrap().expected.unwrap();
    let of = |objects: &[Value]| {
        let objects: Vec<_> =
            objects.iter().filter_map(|object| crate::snapshot::Pps::read(object.clone())).collect();
        Generated::of(&expected, &target(), &objects)
    };
    let mut spec = required(&[ZONE]);
    let before = pps("db", &spec, true);
    spec["persistentPodAnnotations"] = json!([{"key": "a.io/ip"}]);
    spec["persistentPodStateRetentionPolicy"] = json!("Retain");
    let done = pps("db", &spec, true);
    let mut terminating = done.clone();
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut others = done.clone();
    others["spec"]["targetRef"]["name"] = json!("web");
    assert_eq!(of(&[others.clone(), terminating]), Generated::Missing);
    assert_eq!(of(&[before.clone(), others.clone()]), Generated::Other("db".into()));
    assert_eq!(of(&[before, others, done]), Generated::Done);

    let hand = Hand { context: Some("blue".into()), ..Hand::default() };
    assert_eq!(Generated::Done.problem(30, &hand), None);
    assert_eq!(
        Generated::Missing.problem(30, &hand).unwrap(),
        "the annotations are written, but there is no PersistentPodState after 30 s, so nothing is recorded or injected: the \
         sidecar generates it once it runs; to find out why it does not: kubectl pps check --context blue"
    );
    assert_eq!(
        Generated::Other("db".into()).problem(30, &hand).unwrap(),
        "the annotations are written, but PersistentPodState db does not have what they ask for after 30 s: the sidecar changes \
         it once it runs; to find out why it does not: kubectl pps check --context blue"
    );
    let own = vec![pps("mine", &required(&["old"]), false)];
    assert_eq!(plan(&asked, &world(&Value::Null, own)).unwrap().expected, None, "it is changed at once");
}

#[test]
fn several_preferences_need_an_object() {
    for args in [&["--preferred", "zone", "--preferred", "hostname"][..], &["--preferred", "zone=50"]] {
        let error = plan(&ask(args).unwrap(), &world(&Value::Null, Vec::new())).unwrap_err();
        assert!(error.contains("--object"), "{error}");
        let with_object = [args, &["--object"]].concat();
        let plan = plan(&ask(&with_object).unwrap(), &world(&Value::Null, Vec::new())).unwrap();
        assert!(matches!(plan.changes[0].step, Step::CreatePps { .. }), "{plan:?}");
    }
}

#[test]
fn an_object_that_a_user_wrote_is_changed_and_keeps_its_other_fields() {
    let spec = json!({
        "requiredPersistentTopology": {"keys": ["old"]}, "persistentPodStateRetentionPolicy": "WhenDeleted",
    });
    let world = world(&Value::Null, vec![pps("db", &spec, false)]);
    let plan = plan(&ask(&["--required", "zone", "--preferred", "hostname=20"]).unwrap(), &world).unwrap();
    assert_eq!(
        shown(&plan),
        "\
--- before
+++ after
@@ -5,9 +5,14 @@
   namespace: shop
 spec:
   persistentPodStateRetentionPolicy: WhenDeleted
+  preferredPersistentTopology:
+  - preference:
+      keys:
+      - kubernetes.io/hostname
+    weight: 20
   requiredPersistentTopology:
     keys:
-    - old
+    - topology.kubernetes.io/zone
   targetRef:
     apiVersion: apps/v1
     kind: StatefulSet
"
    );
}

#[test]
fn a_new_object_takes_a_free_name_and_the_policy_decides_whether_it_is_right() {
    let other = json!({
        "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"targetRef": {"apiVersion": "a.io/v1", "kind": "Database", "name": "db"}},
    });
    let asked = ask(&["--required", "zone", "--object"]).unwrap();
    let plan_of = |pps| plan(&asked, &world(&Value::Null, pps));
    let name = |plan: Plan| plan.changes[0].after["metadata"]["name"].clone();
    assert_eq!(name(plan_of(Vec::new()).unwrap()), "db");
    assert_eq!(name(plan_of(vec![other]).unwrap()), "db-statefulset");
    let mut deployment = world(&Value::Null, Vec::new());
    deployment.target.kind = "Deployment".into();
    for wish in [&asked, &ask(&["--required", "zone"]).unwrap()] {
        let error = plan(wish, &deployment).unwrap_err();
        assert!(
            error.contains("PersistentPodState db is refused: spec.targetRef.kind is \"Deployment\""),
            "{error}"
        );
    }
    for (args, word) in [
        (&["--required", "no key", "--object"][..], "use a node label key"),
        (&["--required", "no key"], "is no label key"),
        (&["--annotation", "ovn.kubernetes.io/allocated"], "can never be injected"),
        (&["--annotation", "ovn.kubernetes.io/allocated", "--object"], "can never be persisted"),
    ] {
        let error = plan(&ask(args).unwrap(), &world(&Value::Null, Vec::new())).unwrap_err();
        assert!(error.contains(word), "{args:?}: {error}");
    }
}

#[test]
fn a_generated_object_is_not_replaced_and_one_that_goes_is_waited_for() {
    let asked = ask(&["--required", "zone", "--object"]).unwrap();
    let error = plan(&asked, &world(&Value::Null, vec![pps("db", &required(&[ZONE]), true)])).unwrap_err();
    assert_eq!(
        error,
        "StatefulSet db is pinned by its annotations, from which PersistentPodState db is generated: to change what they ask for, \
         leave out --object; to have an object of your own instead, run this first, which says how to keep a copy of what is \
         recorded: kubectl pps unpin db -n shop --context blue"
    );
    // Before the sidecar has generated it.
    let annotations = json!({"kruise.io/auto-generate-persistent-pod-state": " true"});
    let error = plan(&asked, &world(&annotations, Vec::new())).unwrap_err();
    let begin = "StatefulSet db is pinned by its annotations, from which the sidecar generates a PersistentPodState: ";
    assert!(error.starts_with(begin), "{error}");
    let mut custom = world(&annotations, Vec::new());
    custom.target.api_version = "a.io/v1".into();
    custom.target.kind = "Database".into();
    let error = plan(&asked, &custom).unwrap_err();
    assert!(error.ends_with("kubectl pps unpin database.a.io/db -n shop --context blue"), "{error}");
    let mut going = pps("db", &required(&[ZONE]), false);
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let error = plan(&asked, &world(&Value::Null, vec![going])).unwrap_err();
    assert!(error.contains("is being deleted"), "{error}");
    // A copy of a generated object that a user applies has only its label.
    let mut copy = pps("db", &required(&[ZONE]), true);
    copy["metadata"]["managedFields"] = json!([{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]);
    let plan = plan(&ask(&["--required", "region"]).unwrap(), &world(&Value::Null, vec![copy])).unwrap();
    assert!(matches!(plan.changes[0].step, Step::PatchPps { .. }), "{plan:?}");
}

#[test]
fn unpin_removes_annotations_first_and_then_the_objects_of_users() {
    let annotations = json!({
        "team": "data",
        "kruise.io/auto-generate-persistent-pod-state": "true",
        "kruise.io/required-persistent-topology": ZONE,
    });
    let plan = unpin(&world(&annotations, vec![pps("mine", &required(&[ZONE]), false)])).unwrap();
    let [first, second] = plan.changes.as_slice() else { panic!("{plan:?}") };
    let Step::PatchWorkload { patch } = &first.step else { panic!("{first:?}") };
    assert_eq!(
        patch["metadata"]["annotations"],
        json!({"kruise.io/auto-generate-persistent-pod-state": null, "kruise.io/required-persistent-topology": null})
    );
    let deleted = Step::DeletePps { name: "mine".into(), uid: "p-1".into(), resource_version: "9".into() };
    assert_eq!(second.step, deleted);
    assert!(plan.warnings[0].contains("the recorded states of 2 Pods"), "{plan:?}");
    let export = "run this first: kubectl pps export mine -f FILE -n shop --context blue";
    assert!(plan.warnings[0].ends_with(export), "{plan:?}");
}

#[test]
fn a_change_is_still_the_same_unless_it_means_something_else() {
    let plan_of = |annotations: &Value, version: &str, states: &[&str]| {
        let mut object = pps("mine", &required(&[ZONE]), false);
        object["metadata"]["resourceVersion"] = version.into();
        object["status"]["podStates"] =
            states.iter().map(|pod| ((*pod).to_owned(), json!({"nodeName": "n"}))).collect();
        unpin(&world(annotations, vec![object])).unwrap()
    };
    let auto = json!({"kruise.io/auto-generate-persistent-pod-state": "true"});
    let shown = plan_of(&auto, "9", &["db-0"]);
    let same = |other: &Plan| shown.changes.iter().zip(&other.changes).all(|(one, other)| one.is_same(other));
    let newer = plan_of(&auto, "10", &["db-0"]);
    assert!(same(&newer) && newer != shown);
    assert!(!same(&plan_of(&auto, "10", &["db-0", "db-1"])));
    let other = json!({"kruise.io/auto-generate-persistent-pod-state": "true", "team": "data"});
    assert!(!same(&plan_of(&other, "9", &["db-0"])));
}

#[test]
fn unpin_leaves_a_generated_object_to_the_sidecar_and_says_what_is_lost() {
    let annotations = json!({"kruise.io/auto-generate-persistent-pod-state": "true"});
    let generated = pps("db", &required(&[ZONE]), true);
    let plan = unpin(&world(&annotations, vec![generated.clone()])).unwrap();
    assert_eq!(plan.changes.len(), 1);
    assert!(
        plan.warnings[0].contains("the sidecar then deletes PersistentPodState db")
            && plan.warnings[0].contains("the recorded states of 2 Pods"),
        "{plan:?}"
    );
    let orphan = unpin(&world(&Value::Null, vec![generated.clone()])).unwrap();
    assert_eq!(orphan.changes, []);
    assert!(orphan.warnings[0].contains("annotations that are gone"), "{orphan:?}");
    assert!(orphan.warnings[0].ends_with("kubectl pps check --context blue"), "{orphan:?}");
    let mut protected = generated;
    protected["metadata"]["labels"]["policy.kruise.io/delete-protection"] = json!("Always");
    let error = unpin(&world(&annotations, vec![protected])).unwrap_err();
    assert!(error.contains("is protected by its label"), "{error}");
    assert_eq!(unpin(&world(&Value::Null, Vec::new())).unwrap(), Plan::default());
}

#[test]
fn a_workload_is_named_as_kubectl_names_it() {
    for (text, kind, group) in [
        ("db", None, None),
        ("sts/db", Some("sts"), None),
        ("StatefulSet/db", Some("statefulset"), None),
        ("statefulset.apps.kruise.io/db", Some("statefulset"), Some("apps.kruise.io")),
        ("databases.v1.a.io/db", Some("databases"), Some("a.io")),
        ("databases.virt.io/db", Some("databases"), Some("virt.io")),
    ] {
        let named = WorkloadName::read(text).unwrap();
        assert_eq!(
            (named.kind.as_deref(), named.group.as_deref(), named.name.as_str()),
            (kind, group, "db"),
            "{text}"
        );
    }
    for text in ["", "/db", "sts/", "sts/a/b", "DB", "sts/\u{1b}[2J"] {
        assert!(WorkloadName::read(text).is_err(), "{text:?}");
    }
    for (text, is_built_in) in [
        ("db", true),
        ("sts/db", true),
        ("sts.apps/db", true),
        ("sts.apps.kruise.io/db", false),
        ("db/db", false),
    ] {
        assert_eq!(WorkloadName::read(text).unwrap().may_be_stateful_set(), is_built_in, "{text}");
    }
}

#[test]
fn a_kind_is_found_by_any_of_its_names_unless_several_groups_have_it() {
    let list = |group_version: &str, plural: &str| {
        json!({"groupVersion": group_version, "resources": [
            {"name": plural, "singularName": "database", "kind": "Database", "shortNames": ["dbs"], "namespaced": true},
            {"name": format!("{plural}/scale"), "kind": "Scale", "namespaced": true},
            {"name": "wides", "kind": "Wide", "namespaced": false},
        ]})
    };
    let one = [list("a.io/v1", "databases")];
    let find = |lists: &[Value], text: &str| find_resource(lists, &WorkloadName::read(text).unwrap());
    for text in ["database/x", "databases/x", "Database/x", "dbs/x", "dbs.a.io/x"] {
        let resource = find(&one, text).unwrap();
        assert_eq!(resource.path("shop", "x"), "/apis/a.io/v1/namespaces/shop/databases/x", "{text}");
    }
    for text in ["wide/x", "scale/x", "dbs.b.io/x", "other/x"] {
        assert!(find(&one, text).is_err(), "{text}");
    }
    let two = [list("a.io/v1", "databases"), list("b.io/v1", "databases")];
    let error = find(&two, "database/x").unwrap_err();
    assert!(error.contains("use databases.a.io/x or databases.b.io/x"), "{error}");
    assert_eq!(find(&two, "database.b.io/x").unwrap().group, "b.io");
}

#[test]
fn labels_that_nodes_lack_are_named_with_the_pods_that_they_concern() {
    let node = |name: &str, labels: Value| {
        (name.to_owned(), Node::read(json!({"metadata": {"name": name, "labels": labels}})).unwrap())
    };
    let nodes = BTreeMap::from([node("n1", json!({"rack": "1"})), node("n2", json!({}))]);
    let pods = [("db-0", "n1"), ("db-1", "n2"), ("db-2", "gone")];
    let warnings = warn_of_missing_labels(["rack", "zoen", "rack"], &pods, &nodes);
    assert_eq!(
        warnings,
        [
            "the label rack is not recorded for db-1: n2 does not have it",
            "no node has the label zoen: check its spelling",
        ]
    );
}

#[test]
fn what_is_recorded_of_a_key_that_is_replaced_is_named_as_lost() {
    let zone = ask(&["--required", "zone"]).unwrap();
    let annotations = json!({
        "kruise.io/auto-generate-persistent-pod-state": "true",
        "kruise.io/required-persistent-topology": "kubernetes.io/hostname",
    });
    for (annotations, is_generated) in [(annotations, true), (json!({}), false)] {
        let world =
            world(&annotations, vec![pps("db", &required(&["kubernetes.io/hostname"]), is_generated)]);
        let replaced = plan(&zone, &world).unwrap();
        let told =
            replaced.warnings.iter().any(|warning| warning.contains("recorded of kubernetes.io/hostname is"));
        assert!(told, "{replaced:?}");
        let added = plan(&ask(&["--required", "hostname,zone"]).unwrap(), &world).unwrap();
        assert_eq!(added.warnings, Vec::<String>::new());
    }
}

#[test]
fn unpin_names_the_pods_that_go_on_waiting() {
    let pod = |name: &str, node: serde_json::Value, owner: &str| {
        crate::snapshot::Pod::read(json!({
            "metadata": {"name": name, "namespace": "shop", "annotations": {"kruise.io/injected-persistent-pod-state": "db"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": owner, "controller": true}]},
            "spec": {"nodeName": node},
        }))
        .unwrap()
    };
    let pods = [
        pod("db-0", json!("node-1"), "w-1"),
        pod("db-1", Value::Null, "w-1"),
        pod("db-2", Value::Null, "w-1"),
        pod("db-3", Value::Null, "other"),
    ];
    let world = world(&Value::Null, Vec::new());
    assert_eq!(
        still_waiting(&world, &pods).unwrap(),
        "2 Pods without a node still wait for what was injected into them; to have them created again without it, once this is \
         done: kubectl delete pod db-1 db-2 -n shop --context blue"
    );
    assert_eq!(still_waiting(&world, &pods[..1]), None);
}

#[test]
fn a_policy_that_drops_recorded_states_is_warned_of() {
    let ask = |policy: &str| ask(&["--required", "hostname", "--retention", policy]).unwrap();
    for is_generated in [false, true] {
        let mut object = pps("db", &required(&["kubernetes.io/hostname"]), is_generated);
        object["spec"]["persistentPodStateRetentionPolicy"] = "WhenDeleted".into();
        let annotations = json!({
            "kruise.io/auto-generate-persistent-pod-state": "true",
            "kruise.io/required-persistent-topology": "kubernetes.io/hostname",
        });
        let mut world = world(&annotations, vec![object]);
        let warnings = |world: &World, policy: &str| plan(&ask(policy), world).unwrap().warnings;
        assert_eq!(warnings(&world, "WhenScaled"), [""; 0], "all Pods are wanted");
        world.workload["spec"]["replicas"] = 1.into();
        assert_eq!(
            warnings(&world, "WhenScaled"),
            [
                "the sidecar then drops the recorded states of db-1, which StatefulSet db does not want now; to keep them in a \
              file, run this first: kubectl pps export db -f FILE -n shop --context blue"
            ]
        );
        assert_eq!(warnings(&world, "Retain"), [""; 0]);
        world.pps[0]["spec"]["persistentPodStateRetentionPolicy"] = "WhenScaled".into();
        assert_eq!(warnings(&world, "WhenScaled"), [""; 0], "they were not kept before");
    }
}

#[test]
fn pods_that_do_not_run_when_another_label_becomes_required_are_named() {
    let spec = required(&["kubernetes.io/hostname"]);
    let annotations = json!({
        "kruise.io/auto-generate-persistent-pod-state": "true",
        "kruise.io/required-persistent-topology": "kubernetes.io/hostname",
    });
    let state =
        |node: &str| json!({"nodeName": node, "nodeTopologyLabels": {"kubernetes.io/hostname": node}});
    let pod = |name: &str, node: Option<&str>, ready: &str| {
        crate::snapshot::Pod::read(json!({
            "metadata": {"name": name, "namespace": "shop",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "w-1", "controller": true}]},
            "spec": {"nodeName": node},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    };
    for is_generated in [false, true] {
        let mut object = pps("db", &spec, is_generated);
        object["status"]["podStates"] =
            json!({"db-0": state("n0"), "db-1": state("n1"), "db-2": state("n2")});
        let world = world(if is_generated { &annotations } else { &Value::Null }, vec![object]);
        let mut snapshot = Snapshot::empty(Scope::Namespace("shop".into()));
        let warning = |snapshot: &Snapshot, args: &[&str]| {
            warn_of_lost_places(&plan(&ask(args).unwrap(), &world).unwrap(), &world, snapshot)
        };
        let zone = ["--required", "zone"];
        let end = "First scale up or wait until they are Ready, or name kubernetes.io/hostname as well; to keep what is recorded \
                   in a file, run this first: kubectl pps export db -f FILE -n shop --context blue";
        let begin = "db-0, db-1 and db-2 do not run, and no topology.kubernetes.io/zone is recorded of them: they start anywhere.";
        assert_eq!(warning(&snapshot, &zone), Some(format!("{begin} {end}")));
        assert_eq!(
            warning(&snapshot, &["--required", "zone,hostname"]),
            None,
            "they are brought back as before"
        );
        assert_eq!(warning(&snapshot, &["--preferred", "zone"]), None, "what is required stays");
        assert_eq!(warning(&snapshot, &["--required", "hostname", "--retention", "Retain"]), None);

        snapshot.pods = vec![
            pod("db-0", Some("n0"), "True"),
            pod("db-1", Some("n1"), "False"),
            pod("db-2", None, "False"),
        ];
        let text = warning(&snapshot, &zone).unwrap();
        let begin = "db-1 and db-2 do not run or are not Ready, and no topology.kubernetes.io/zone is recorded of them: they start";
        assert!(text.starts_with(begin), "{text}");
        snapshot.pods = vec![
            pod("db-0", Some("n0"), "True"),
            pod("db-1", Some("n1"), "True"),
            pod("db-2", None, "False"),
        ];
        let text = warning(&snapshot, &zone).unwrap();
        let begin = "db-2 does not run, and no topology.kubernetes.io/zone is recorded of it: it starts anywhere. First";
        assert!(text.starts_with(begin), "{text}");
        snapshot.pods[2] = pod("db-2", Some("n2"), "True");
        assert_eq!(warning(&snapshot, &zone), None, "the sidecar records the zones");

        snapshot.pods.clear();
        let what = "list pods in namespace shop".into();
        snapshot.unseen.push(Unseen { what, is_forbidden: true, why: String::new() });
        let text = warning(&snapshot, &zone).unwrap();
        let begin = "whether db-0, db-1 and db-2 run is not known, since Pods could not be read; if not, no";
        assert!(text.starts_with(begin), "{text}");
    }
}
