use super::*;
use crate::snapshot::Node;

fn options() -> Options {
    Options { default_namespace: "default".into(), ..Options::default() }
}

fn pps(namespace: &str, name: &str, states: &Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
        "metadata": {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "7",
                     "ownerReferences": [{"uid": "w"}]},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name},
                 "requiredPersistentTopology": {"nodeTopologyKeys": ["zone"]}},
        "status": {"podStates": states, "targetUID": "w"},
    })
}

fn state(node: &str) -> Value {
    json!({"nodeName": node, "nodeTopologyLabels": {"zone": "a"}, "annotations": {"ip": "10.0.0.7"}})
}

fn ready_pod(namespace: &str, name: &str) -> Pod {
    Pod::read(json!({
        "metadata": {"name": name, "namespace": namespace, "uid": "p"}, "spec": {"nodeName": "n"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }))
    .unwrap()
}

fn entries(object: &Value) -> Vec<Entry> {
    read(&object.to_string(), &options()).unwrap().entries
}

fn plan_with(file: &Value, cluster: &[Value], pods: &[Pod], overwrite: bool) -> Vec<Plan> {
    let cluster: Vec<Pps> = cluster.iter().map(|object| Pps::read(object.clone()).unwrap()).collect();
    let known =
        Known { pps: &cluster, pods: Some(pods), workloads: &[], api_version: "apps.kruise.io/v1alpha1" };
    plan(&entries(file), known, overwrite)
}

#[test]
fn a_missing_object_is_created_without_what_belongs_to_another_cluster() {
    let plans = plan_with(&pps("prod", "db", &json!({"db-0": state("n1")})), &[], &[], false);
    let Action::Create { object, is_compact: false } = &plans[0].action else { panic!("{plans:?}") };
    assert_eq!(object["metadata"], json!({"name": "db", "namespace": "prod"}));
    assert!(object.get("status").is_none());
    assert_eq!(plans[0].added(), 1);
}

#[test]
fn both_spellings_are_read_and_the_one_of_the_cluster_is_written() {
    let mut newer = pps("prod", "db", &json!({}));
    newer["apiVersion"] = "apps.kruise.io/v1beta1".into();
    newer["spec"]["requiredPersistentTopology"] = json!({"keys": ["zone"]});
    newer["spec"]["preferredPersistentTopology"] = json!([{"weight": 5, "preference": {"keys": ["host"]}}]);
    let entry = &entries(&newer)[0];
    let older = entry.object("apps.kruise.io/v1alpha1");
    assert_eq!(older["spec"]["requiredPersistentTopology"], json!({"nodeTopologyKeys": ["zone"]}));
    let written = entry.object("apps.kruise.io/v1beta1");
    assert_eq!(written["spec"], newer["spec"]);
}

#[test]
fn a_state_that_the_cluster_has_stays_unless_it_may_be_overwritten() {
    let file = pps("prod", "db", &json!({"db-0": state("n1"), "db-1": state("n2")}));
    let cluster = [pps("prod", "db", &json!({"db-0": state("other")}))];
    let plans = plan_with(&file, &cluster, &[], false);
    assert_eq!((plans[0].added(), plans[0].replaced()), (1, 0));
    assert_eq!(plans[0].kept.iter().collect::<Vec<_>>(), ["db-0"]);
    let plans = plan_with(&file, &cluster, &[], true);
    assert_eq!((plans[0].added(), plans[0].replaced()), (1, 1));
    assert!(plans[0].kept.is_empty());
}

#[test]
fn the_state_of_a_ready_pod_is_never_replaced() {
    let file = pps("prod", "db", &json!({"db-0": state("n1")}));
    let cluster = [pps("prod", "db", &json!({"db-0": state("other")}))];
    let plans = plan_with(&file, &cluster, &[ready_pod("prod", "db-0")], true);
    assert_eq!(plans[0].action, Action::Nothing);
    assert_eq!(plans[0].ready.iter().collect::<Vec<_>>(), ["db-0"]);
    let plans = plan_with(&file, &cluster, &[ready_pod("test", "db-0")], true);
    assert_eq!(plans[0].replaced(), 1);
}

#[test]
fn pods_that_were_created_without_what_is_imported_are_kept_in_mind() {
    let pod = |name: &str, spec: Value, metadata: Value| {
        let mut pod = json!({"metadata": {"name": name, "namespace": "prod", "uid": "p"}, "spec": spec});
        json_patch::merge(&mut pod["metadata"], &metadata);
        Pod::read(pod).unwrap()
    };
    let on = |node: &str| json!({"nodeName": node});
    let pods = [
        pod("db-0", on("n9"), json!({})),
        pod("db-1", on("n1"), json!({})),
        pod("db-2", json!({}), json!({})),
        pod("db-3", on("n9"), json!({"annotations": {pps_core::RECORD_ANNOTATION: "false"}})),
        pod("db-4", on("n9"), json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})),
        pod("db-5", on("n9"), json!({"namespace": "test"})),
        ready_pod("prod", "db-6"),
        pod("db-7", json!({}), json!({})),
    ];
    let states: serde_json::Map<_, _> =
        (0..7).map(|ordinal| (format!("db-{ordinal}"), state("n1"))).collect();
    let plans = plan_with(&pps("prod", "db", &states.into()), &[], &pods, false);
    assert_eq!(plans[0].unready, BTreeMap::from([("db-0".to_owned(), "n9".to_owned())]));
    assert_eq!(plans[0].pending, BTreeSet::from(["db-2".to_owned()]));
    assert_eq!(plans[0].changes.len(), 6, "they are imported all the same");
    // What stays is not imported.
    let cluster = [pps("prod", "db", &json!({"db-0": state("other"), "db-2": state("n1")}))];
    let file = pps("prod", "db", &json!({"db-0": state("n1"), "db-2": state("n1")}));
    let plans = plan_with(&file, &cluster, &pods, false);
    assert_eq!((plans[0].unready.len(), plans[0].pending.len()), (0, 0));
}

#[test]
fn an_object_for_another_workload_is_refused() {
    let file = pps("prod", "db", &json!({"db-0": state("n1")}));
    let mut other = pps("prod", "db", &json!({}));
    other["spec"]["targetRef"]["name"] = "web".into();
    let mut same_target = pps("prod", "mine", &json!({}));
    same_target["spec"]["targetRef"]["name"] = "db".into();
    let mut alias = pps("prod", "db", &json!({}));
    alias["spec"]["targetRef"] =
        json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "name": "mine"});
    for (cluster, word) in
        [(other, "it is for StatefulSet web"), (same_target, "already the target"), (alias, "alias")]
    {
        let plans = plan_with(&file, &[cluster], &[], true);
        let Action::Refuse(why) = &plans[0].action else { panic!("{plans:?}") };
        assert!(why.contains(word), "{why}");
        assert!(plans[0].changes.is_empty());
    }
}

#[test]
fn the_second_object_of_a_file_for_one_workload_is_refused() {
    let mut second = pps("prod", "mine", &json!({}));
    second["spec"]["targetRef"]["name"] = "db".into();
    let list = json!({"kind": "List", "apiVersion": "v1", "items": [pps("prod", "db", &json!({})), second]});
    let plans = plan_with(&list, &[], &[], false);
    assert!(matches!(plans[0].action, Action::Create { .. }));
    assert!(matches!(&plans[1].action, Action::Refuse(why) if why.contains("db")), "{plans:?}");
}

#[test]
fn a_write_that_would_replace_something_else_than_was_shown_is_not_made() {
    let file = pps("prod", "db", &json!({"db-0": state("n1"), "db-1": state("n2")}));
    let before = pps("prod", "db", &json!({"db-0": state("other")}));
    let plan = plan_with(&file, std::slice::from_ref(&before), &[], true).remove(0);
    assert_eq!(next_write(&before, &plan, true).unwrap().unwrap().0.changes.len(), 2);
    let moved = pps("prod", "db", &json!({"db-0": state("third")}));
    assert!(next_write(&moved, &plan, true).unwrap_err().contains("has changed meanwhile"));
    let partly = pps("prod", "db", &json!({"db-0": state("n1")}));
    assert_eq!(next_write(&partly, &plan, true).unwrap().unwrap().0.changes.len(), 1);
    let all = pps("prod", "db", &json!({"db-0": state("n1"), "db-1": state("n2")}));
    assert!(next_write(&all, &plan, true).unwrap().is_none());
}

#[test]
fn what_another_writer_recorded_meanwhile_stays_without_overwrite() {
    let file = pps("prod", "db", &json!({"db-0": state("n1"), "db-1": state("n2")}));
    let plan = plan_with(&file, &[], &[], false).remove(0);
    let recorded = pps("prod", "db", &json!({"db-0": state("recorded")}));
    let (edit, _) = next_write(&recorded, &plan, false).unwrap().unwrap();
    assert_eq!(edit.changes.keys().collect::<Vec<_>>(), ["db-1"]);
}

#[test]
fn states_that_are_too_large_for_the_plain_form_are_packed() {
    let states: serde_json::Map<String, Value> =
        (0..14_000).map(|pod| (format!("db-{pod}"), state(&format!("node-{pod}.example.com")))).collect();
    let plans = plan_with(&pps("prod", "db", &states.into()), &[], &[], false);
    assert!(matches!(&plans[0].action, Action::Create { is_compact: true, .. }), "{:?}", plans[0].action);
    let created = pps("prod", "db", &json!({}));
    let (edit, is_compact) = next_write(&created, &plans[0], false).unwrap().unwrap();
    assert!(is_compact);
    assert!(edit.body["status"]["packed"]["buckets"].as_object().unwrap().len() > 130);
    assert_eq!(edit.body["metadata"], json!({"uid": "u", "resourceVersion": "7"}));
    assert!(!keeps_compact_form(&edit.body, &json!({"status": {}})));
    assert!(keeps_compact_form(&edit.body, &edit.body));
}

#[test]
fn namespaces_are_chosen_and_keys_dropped() {
    let list = json!({"kind": "List", "apiVersion": "v1", "items": [
        pps("one", "db", &json!({"db-0": state("n1")})), pps("two", "db", &json!({}))]});
    let both = Options { namespace: Some("new".into()), ..options() };
    let flaws = read(&list.to_string(), &both).unwrap_err();
    assert!(flaws[0].message.contains("--from-namespace"), "{flaws:?}");
    let one =
        Options { from_namespace: Some("one".into()), drop_keys: vec!["zone".into(), "ip".into()], ..both };
    let file = read(&list.to_string(), &one).unwrap();
    assert_eq!((file.entries.len(), file.others), (1, 1));
    assert_eq!(file.entries[0].namespace, "new");
    assert_eq!(json!(file.entries[0].states), json!({"db-0": {"nodeName": "n1"}}));
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_line() {
    let head = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: apps.kruise.io/v1alpha1\n  kind: PersistentPodState\n";
    let spec = "  spec:\n    targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}\n    requiredPersistentTopology:\n      nodeTopologyKeys: [zone]\n";
    let nested = "[".repeat(200);
    let bomb = format!("a: &a [{}]\n{}", "x,".repeat(2000), (0..30).map(|_| "- *a\n").collect::<String>());
    for (text, line, word) in [
        (String::new(), 1, "no object"),
        ("kind: Pod\napiVersion: v1\n".into(), 1, "this is v1 Pod"),
        ("42".into(), 1, "no object"),
        (format!("{head}  metadata: {{name: Db}}\n{spec}"), 6, "metadata.name"),
        (format!("{head}  metadata: {{name: db}}\n  spec: {{}}\n"), 7, "targetRef"),
        (format!("{head}  metadata: {{name: db}}\n{spec}  status:\n    podStates: 7\n"), 11, "podStates"),
        (
            format!("{head}  metadata: {{name: db}}\n{spec}  status:\n    packed: {{version: 9}}\n"),
            11,
            "version",
        ),
        ("a: b\n- c".into(), 2, ""),
        (nested, 1, ""),
        (bomb, 2, ""),
        ("\u{0}\u{1}".into(), 1, ""),
    ] {
        let flaws = read(&text, &options()).unwrap_err();
        assert!(flaws[0].message.contains(word), "{flaws:?}");
        assert_eq!(flaws[0].place.line, line, "{flaws:?} {}", &text[..text.len().min(300)]);
    }
}

#[test]
fn an_alias_is_left_out() {
    let mut alias = pps("prod", "db-1234", &json!({}));
    alias["spec"] = json!({"targetRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState", "name": "db"}});
    let file = read(&alias.to_string(), &options()).unwrap();
    assert_eq!((file.entries.len(), file.aliases), (0, 1));
}

fn stateful_set(replicas: u64) -> Workload {
    let object = json!({"metadata": {"name": "db", "namespace": "prod"}, "spec": {"replicas": replicas}});
    Workload::read(object, "apps/v1").unwrap()
}

#[test]
fn a_state_that_the_sidecar_would_drop_at_once_is_not_written() {
    let states = json!({"db-0": state("n1"), "db-1": state("n2"), "db-2": state("n3")});
    let file = pps("prod", "db", &states);
    let plan_of = |cluster: &[Value], pods: &[Pod], replicas: u64| {
        let cluster: Vec<Pps> = cluster.iter().map(|object| Pps::read(object.clone()).unwrap()).collect();
        let workloads = [stateful_set(replicas)];
        let known = Known {
            pps: &cluster,
            pods: Some(pods),
            workloads: &workloads,
            api_version: "apps.kruise.io/v1alpha1",
        };
        plan(&entries(&file), known, false).remove(0)
    };
    let names = |pods: &[&str]| pods.iter().map(|pod| (*pod).to_owned()).collect::<BTreeSet<_>>();
    let empty = pps("prod", "db", &json!({}));
    let all = plan_of(std::slice::from_ref(&empty), &[], 0);
    assert_eq!((all.unwanted.clone(), all.added()), (names(&["db-0", "db-1", "db-2"]), 0), "{all:?}");
    assert!(!all.writes());
    let some = plan_of(std::slice::from_ref(&empty), &[], 2);
    assert_eq!((some.unwanted.clone(), some.added()), (names(&["db-2"]), 2), "{some:?}");
    let created = plan_of(&[], &[], 2);
    assert_eq!((created.unwanted.clone(), created.added()), (names(&["db-2"]), 2), "{created:?}");
    // Its Pod is about to be deleted, and the state goes with it.
    let ends = plan_of(std::slice::from_ref(&empty), &[ready_pod("prod", "db-2")], 2);
    assert_eq!((ends.unwanted.clone(), ends.ready.clone()), (names(&["db-2"]), names(&[])), "{ends:?}");
    // Also if it is there already.
    let recorded = pps("prod", "db", &states);
    let nothing = plan_of(std::slice::from_ref(&recorded), &[], 2);
    assert_eq!((nothing.unwanted.clone(), nothing.writes()), (names(&["db-2"]), false), "{nothing:?}");
    let mut keeps = empty;
    keeps["spec"]["persistentPodStateRetentionPolicy"] = "WhenDeleted".into();
    assert_eq!(plan_of(&[keeps], &[], 0).added(), 3);
    assert_eq!(plan_with(&file, &[], &[], false)[0].added(), 3, "the StatefulSet is created later");
}

mod round_trip {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;
    use crate::args::Form;
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

    fn any_object() -> impl Strategy<Value = (String, BTreeMap<u8, PodState>, bool)> {
        ("[a-z]{1,5}", btree_map(0_u8..120, any_state(), 0..12), any::<bool>())
    }

    proptest! {
        #[test]
        fn what_was_exported_and_imported_into_an_empty_cluster_is_exported_again(
            objects in vec(any_object(), 1..4),
            as_stored in any::<bool>(),
            as_json in any::<bool>(),
        ) {
            let form = if as_stored { Form::Stored } else { Form::Plain };
            let before: BTreeMap<String, Pps> = objects.into_iter().map(|(name, states, is_compact)| {
                let states = states.into_iter().map(|(pod, state)| (format!("{name}-{pod}"), state)).collect();
                let mut object = pps("prod", &name, &json!(states));
                if is_compact {
                    object["status"] = compact_status(&states).unwrap();
                }
                (name, Pps::read(object).unwrap())
            }).collect();
            let before: Vec<Pps> = before.into_values().collect();
            let first = export(&before, &[], form).list;
            let text = if as_json { first.to_string() } else { pps_manifest::to_yaml(&first) };
            let file = read(&text, &options()).unwrap();
            let known = Known { pps: &[], pods: Some(&[]), workloads: &[], api_version: "apps.kruise.io/v1alpha1" };
            let after: Vec<Pps> = plan(&file.entries, known, false).iter().map(|plan| {
                let Action::Create { object, .. } = &plan.action else { panic!("{plan:?}") };
                let mut object = object.clone();
                object["metadata"]["uid"] = "new".into();
                object["metadata"]["resourceVersion"] = "1".into();
                let written = next_write(&object, plan, false).unwrap();
                if let Some((edit, _)) = written {
                    object["status"] = edit.body["status"].clone();
                }
                Pps::read(object).unwrap()
            }).collect();
            let plain = |objects: &[Pps]| pps_manifest::to_yaml(&export(objects, &[], Form::Plain).list);
            prop_assert_eq!(plain(&before), plain(&after));
        }
    }
}

#[test]
fn states_that_no_node_has_or_that_pin_nothing_are_named() {
    let of = |host: Option<&str>, zone: Option<&str>| {
        let labels = [("kubernetes.io/hostname", host), ("zone", zone)];
        let labels: BTreeMap<_, _> =
            labels.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        json!({"nodeName": "n", "nodeTopologyLabels": labels})
    };
    let with_keys = |name: &str, keys: &[&str], states: Value| {
        let mut object = pps("prod", name, &states);
        object["spec"]["requiredPersistentTopology"]["nodeTopologyKeys"] = json!(keys);
        object
    };
    let host = "kubernetes.io/hostname";
    let node = Node::read(json!({"metadata": {"name": "n0", "labels": {host: "n0", "zone": "a"}}})).unwrap();
    let nodes = BTreeMap::from([("n0".to_owned(), node)]);
    let notes = |file: &Value, cluster: &[Value]| {
        let cluster: Vec<Pps> = cluster.iter().map(|object| Pps::read(object.clone()).unwrap()).collect();
        let known =
            Known { pps: &cluster, pods: None, workloads: &[], api_version: "apps.kruise.io/v1alpha1" };
        let entries = entries(file);
        super::notes(&plan(&entries, known, false), &entries, known, &nodes)
    };
    let file = with_keys(
        "db",
        &[host],
        json!({"db-0": of(Some("n0"), Some("x")), "db-1": of(Some("old-1"), None), "db-2": of(Some("old-2"), None)}),
    );
    let pending = "no node has kubernetes.io/hostname=old-1 or kubernetes.io/hostname=old-2 (2 states): their Pods would be \
                   Pending; --drop-key kubernetes.io/hostname leaves it out";
    assert_eq!(notes(&file, &[]), [pending], "the zone is not required");
    // The object of the cluster counts.
    let cluster = [with_keys("db", &["zone"], json!({}))];
    assert_eq!(
        notes(&file, &cluster),
        [
            "no node has zone=x (1 state): its Pod would be Pending; --drop-key zone leaves it out",
            "2 states do not have zone, which prod/db requires: their Pods start anywhere",
        ]
    );
    let file = with_keys("db", &["zone", host], json!({"db-0": of(None, Some("a"))}));
    assert_eq!(
        notes(&file, &[]),
        [
            "1 state does not have kubernetes.io/hostname, which prod/db requires: its Pod is kept only by what else is required"
        ]
    );
    let same = [with_keys("db", &["zone", host], json!({"db-0": of(None, Some("a"))}))];
    assert_eq!(notes(&file, &same), [""; 0], "nothing is written");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        with_keys("a", &["zone"], json!({"a-0": of(Some("n0"), None)})),
        with_keys("b", &["zone"], json!({"b-0": of(Some("n0"), None)})),
    ]});
    assert_eq!(
        notes(&list, &[]),
        ["2 states do not have zone, which prod/a and prod/b require: their Pods start anywhere"]
    );
}
