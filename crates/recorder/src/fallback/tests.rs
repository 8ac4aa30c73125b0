use pps_admission::{apply, plan};
use pps_core::AnnotationRules;
use pps_core::json::list;
use pps_scheduler::Exclusion;
use serde_json::json;

use super::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

fn node(name: &str, zone: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {HOST: name, ZONE: zone}},
        "spec": {},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    })
}

fn cordoned(name: &str, zone: &str) -> Value {
    let mut node = node(name, zone);
    node["spec"] = json!({"unschedulable": true, "taints": [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]});
    node
}

/// A Pod of a StatefulSet that asks for this much CPU.
fn running(name: &str, on: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "n"},
        "spec": {"nodeName": on, "priority": 0,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Running"},
    })
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "w"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}})
}

fn spec(keys: &[&str]) -> Spec {
    serde_json::from_value(json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "w"},
        "requiredPersistentTopology": {"nodeTopologyKeys": keys, "fallbackAfterSeconds": 30},
    }))
    .unwrap()
}

/// `w-0` was recorded on a1 in zone a, and waits with this requirement.
fn waiting(keys: &[&str], template: &Value, nodes: &[Value]) -> Case {
    let spec = spec(keys);
    let state: PodState = serde_json::from_value(
        json!({"nodeName": "a1", "nodeTopologyLabels": {HOST: "a1", ZONE: "a"}}),
    )
    .unwrap();
    let mut pod = template.clone();
    pod["metadata"]["name"] = "w-0".into();
    pod["metadata"]["namespace"] = "n".into();
    pod["metadata"]["annotations"] = json!({"kruise.io/injected-persistent-pod-state": "w"});
    pod["metadata"]["labels"]["controller-revision-hash"] = "w-1".into();
    pod["spec"]["priority"] = 0.into();
    let plan = plan("w", &spec, &state, &AnnotationRules::default());
    apply(&plan, &mut pod).unwrap();
    let mut case = Case::new(Question::GiveUp, "w", spec, state, pod);
    case.workload = Some(json!({
        "metadata": {"name": "w"}, "spec": {"template": template, "replicas": 1},
        "status": {"currentRevision": "w-1", "updateRevision": "w-1"},
    }));
    for node in nodes {
        case.add_node(node);
    }
    case
}

/// The judgement, after the Pods of the nodes in question were read, and how many these were.
fn judged(case: &mut Case, pods: &[Value]) -> (Judgement, usize) {
    for read in 0.. {
        let Judgement::Read(nodes) = case.judge() else {
            return (case.judge(), read);
        };
        assert!(!nodes.is_empty(), "it would never end");
        for node in nodes {
            let on: Vec<&Value> = pods
                .iter()
                .filter(|pod| pod["spec"]["nodeName"] == *node)
                .collect();
            case.set_pods(&node, on);
        }
    }
    unreachable!()
}

/// What is given up, and what stays recorded.
fn given_up(case: &mut Case, pods: &[Value]) -> (Vec<String>, Value) {
    match judged(case, pods).0 {
        Judgement::GiveUp { given_up, kept, .. } => {
            let labels = given_up.labels.iter();
            let labels = labels.map(|label| format!("{}={}", label.key, label.value));
            (labels.collect(), json!(kept))
        }
        other => panic!("{other:?}"),
    }
}

fn refused(case: &mut Case, pods: &[Value]) -> Refusal {
    match judged(case, pods).0 {
        Judgement::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_whose_zone_is_gone_gives_up_the_zone() {
    let mut case = waiting(&[ZONE], &template(), &[node("b1", "b")]);
    let labels = vec![format!("{ZONE}=a")];
    assert_eq!(given_up(&mut case, &[]), (labels, json!({})));
}

#[test]
fn the_zone_stays_as_long_as_one_of_its_nodes_could_take_the_pod() {
    let nodes = [cordoned("a1", "a"), node("a2", "a"), node("b1", "b")];
    let mut case = waiting(&[ZONE, HOST], &template(), &nodes);
    let kept = json!({"nodeTopologyLabels": {ZONE: "a"}});
    assert_eq!(given_up(&mut case, &[]), (vec![], kept));
    // That node is full, as only its Pods show.
    let mut case = waiting(&[ZONE, HOST], &template(), &nodes);
    let full = [running("x", "a2", "3")];
    assert_eq!(given_up(&mut case, &full).0, [format!("{ZONE}=a")]);
}

#[test]
fn a_pod_whose_home_could_take_it_keeps_its_place() {
    let nodes = [node("a1", "a"), node("b1", "b")];
    let mut case = waiting(&[HOST], &template(), &nodes);
    let home = Refusal::HomeTakesIt { node: "a1".into() };
    assert_eq!(refused(&mut case, &[]), home);
    // It would make room for the Pod.
    let mut case = waiting(&[HOST], &template(), &nodes);
    case.pod["spec"]["priority"] = 100.into();
    assert_eq!(refused(&mut case, &[running("x", "a1", "3")]), home);
    // And where no Pod is less important, the Pod falls back.
    let mut case = waiting(&[HOST], &template(), &nodes);
    assert_eq!(
        given_up(&mut case, &[running("x", "a1", "3")]),
        (vec![], json!({"nodeTopologyLabels": {ZONE: "a"}}))
    );
}

#[test]
fn a_pod_that_no_other_node_could_take_keeps_its_place() {
    for others in [vec![], vec![cordoned("b1", "b")], vec![node("b1", "b")]] {
        let nodes = [vec![cordoned("a1", "a")], others].concat();
        let mut case = waiting(&[ZONE], &template(), &nodes);
        let full = [running("x", "b1", "3")];
        assert_eq!(refused(&mut case, &full), Refusal::NoNodeCouldTake);
    }
    // The template requires the zone itself.
    let mut own = template();
    own["spec"]["nodeSelector"] = json!({ZONE: "a"});
    let mut case = waiting(&[ZONE], &own, &[node("b1", "b")]);
    assert_eq!(refused(&mut case, &[]), Refusal::NoNodeCouldTake);
    let required = json!({"nodeSelectorTerms": [
        {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}]});
    let mut own = template();
    own["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        required;
    let mut case = waiting(&[ZONE, HOST], &own, &[cordoned("a1", "a"), node("b1", "b")]);
    assert_eq!(refused(&mut case, &[]), Refusal::NoNodeCouldTake);
}

#[test]
fn a_pod_whose_volume_pins_it_keeps_its_place() {
    let mut own = template();
    own["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-w-0"}}]);
    let claim = json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data-w-0", "namespace": "n"},
        "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}});
    let volume = |zone: &str| {
        let terms =
            json!([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]);
        json!({"kind": "PersistentVolume", "metadata": {"name": "v"},
            "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}})
    };
    let of = |volume: &Value| {
        let mut case = waiting(&[ZONE, HOST], &own, &[cordoned("a1", "a"), node("b1", "b")]);
        assert_eq!(case.claims(), ["data-w-0".to_owned()].into());
        case.volumes = Volumes::of([&claim, volume]);
        case
    };
    let pinned = Refusal::PinnedByVolume {
        claim: "data-w-0".into(),
    };
    assert_eq!(refused(&mut of(&volume("a")), &[]), pinned);
    assert_eq!(
        given_up(&mut of(&volume("b")), &[]).0,
        [format!("{ZONE}=a")]
    );
    // Nothing is known of the volume.
    let mut case = of(&volume("b"));
    case.volumes = Volumes::default();
    let unknown = Refusal::NotJudged(Caveat::Claim("data-w-0".into()));
    assert_eq!(refused(&mut case, &[]), unknown);
    // Or the claim is not bound.
    let mut pending = claim.clone();
    pending["status"]["phase"] = "Pending".into();
    case.volumes = Volumes::of([&pending]);
    assert_eq!(refused(&mut case, &[]), unknown);
}

#[test]
fn what_is_not_simulated_speaks_against_a_fallback() {
    for (field, value, caveat) in [
        ("schedulerName", json!("other"), Caveat::OtherScheduler),
        (
            "volumes",
            json!([{"name": "v", "csi": {}}]),
            Caveat::Volumes,
        ),
        (
            "runtimeClassName",
            json!("gvisor"),
            Caveat::Field("runtimeClassName"),
        ),
    ] {
        let mut own = template();
        own["spec"][field] = value;
        let mut case = waiting(&[ZONE], &own, &[node("b1", "b")]);
        assert_eq!(refused(&mut case, &[]), Refusal::NotJudged(caveat));
    }
}

#[test]
fn the_next_pod_is_judged_as_its_controller_would_make_it() {
    // The Pod is too large for its home, and its user has made the template smaller.
    let nodes = [node("a1", "a"), node("b1", "b")];
    let mut large = template();
    large["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "5".into();
    let mut case = waiting(&[ZONE], &large, &nodes);
    case.workload.as_mut().unwrap()["spec"]["template"] = template();
    assert_eq!(
        refused(&mut case, &[]),
        Refusal::NoNodeCouldTake,
        "its own template"
    );
    case.workload.as_mut().unwrap()["status"]["updateRevision"] = "w-2".into();
    let home = Refusal::HomeTakesIt { node: "a1".into() };
    assert_eq!(refused(&mut case, &[]), home);
}

/// The Pod was made from a template that had none of this.
#[test]
fn the_limits_of_a_changed_template_count() {
    let nodes = [cordoned("a1", "a"), node("b1", "b")];
    let changed = |change: &Value| {
        let mut case = waiting(&[ZONE], &template(), &nodes);
        let workload = case.workload.as_mut().unwrap();
        add_fields(&mut workload["spec"]["template"]["spec"], change);
        workload["status"]["updateRevision"] = "w-2".into();
        case
    };
    let mut case = changed(&json!({"schedulerName": "other"}));
    let other = Refusal::NotJudged(Caveat::OtherScheduler);
    assert_eq!(refused(&mut case, &[]), other);
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "shared"}}]);
    let mut case = changed(&json!({"volumes": volumes}));
    assert_eq!(case.claims(), ["shared".to_owned()].into());
    let unread = Refusal::NotJudged(Caveat::Claim("shared".into()));
    assert_eq!(refused(&mut case, &[]), unread);
    let near = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": ZONE, "labelSelector": {}, "namespaceSelector": {}}]}});
    let mut case = changed(&json!({"affinity": near}));
    let near = Refusal::NotJudged(Caveat::PodAffinityFields);
    assert_eq!(refused(&mut case, &[]), near);
    // An admission webhook has added this to the Pod, and will add it to the next one.
    let mut case = changed(&json!({"priority": 0}));
    case.pod["spec"]["nodeSelector"] = json!({"pool": "own"});
    assert_eq!(refused(&mut case, &[]), Refusal::NoNodeCouldTake);
}

/// Exclusive nodes are often kept so.
#[test]
fn a_pod_that_may_keep_others_from_its_node_closes_that_node_alone() {
    let mut exclusive = running("tenant-0", "b1", "1");
    exclusive["metadata"]["namespace"] = "tenant".into();
    let foreign =
        json!({"matchExpressions": [{"key": "tenant", "operator": "NotIn", "values": ["t"]}]});
    exclusive["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": HOST, "labelSelector": {}, "namespaceSelector": foreign}]}});
    let mut nodes = vec![cordoned("a1", "a"), node("b1", "b")];
    let mut alone = waiting(&[ZONE], &template(), &nodes);
    let unclear = Refusal::NotJudged(Caveat::AntiAffinityOfOthers);
    assert_eq!(refused(&mut alone, &[exclusive.clone()]), unclear);
    nodes.push(node("b2", "b"));
    let mut case = waiting(&[ZONE], &template(), &nodes);
    given_up(&mut case, &[exclusive.clone()]);
    // At home, it may be all that keeps the Pod away, or nothing.
    exclusive["spec"]["nodeName"] = "a2".into();
    nodes.push(node("a2", "a"));
    let mut case = waiting(&[ZONE], &template(), &nodes);
    assert_eq!(refused(&mut case, &[exclusive]), unclear);
}

#[test]
fn room_that_was_found_for_one_pod_is_not_free_for_the_next() {
    let nodes = [cordoned("a1", "a"), node("b1", "b")];
    let case = || waiting(&[ZONE], &template(), &nodes);
    let coming = |cpu: &str| Successor::new(&running("other-0", "b1", cpu), "b1".into());
    let mut second = case();
    second.set_successors(vec![coming("3")]);
    assert_eq!(refused(&mut second, &[]), Refusal::NoNodeCouldTake);
    // It runs there, and needs its room once.
    let mut third = case();
    third.set_successors(vec![coming("2")]);
    given_up(&mut third, &[running("other-0", "b1", "2")]);
    // It has not come for a minute, or will not be created.
    let successor = coming("2");
    let mut successors = Successors::default();
    let now = std::time::Instant::now();
    successors.add(successor.clone(), now);
    assert_eq!(successors.current(now).len(), 1);
    let later = now + std::time::Duration::from_mins(1);
    assert_eq!(successors.current(later), []);
    successors.add(successor.clone(), later);
    successors.remove(&successor);
    assert_eq!(successors.current(later), []);
}

#[test]
fn only_nodes_in_question_are_read_and_not_too_many() {
    let mut nodes: Vec<Value> = (0..40).map(|n| node(&format!("b{n}"), "b")).collect();
    nodes.push(cordoned("a1", "a"));
    let mut case = waiting(&[ZONE], &template(), &nodes);
    let (judgement, rounds) = judged(&mut case, &[]);
    assert!(matches!(judgement, Judgement::GiveUp { .. }));
    assert_eq!((rounds, case.read.len()), (1, READ_AT_ONCE));
    let zone: Vec<Value> = (0..=MAX_READ_NODES)
        .map(|n| node(&format!("a{n}"), "a"))
        .collect();
    let mut case = waiting(&[ZONE], &template(), &zone);
    assert_eq!(refused(&mut case, &[]), Refusal::TooManyNodes);
}

#[test]
fn a_pod_that_requires_what_is_no_longer_recorded_is_created_again_where_a_node_could_take_it() {
    let nodes = [cordoned("a1", "a"), node("b1", "b")];
    let mut case = waiting(&[ZONE], &template(), &nodes);
    case.question = Question::CreateAgain;
    assert_eq!(
        refused(&mut case, &[]),
        Refusal::Unchanged,
        "it has what is recorded"
    );
    case.state = PodState::default();
    assert_eq!(judged(&mut case, &[]).0, Judgement::CreateAgain);
    let mut case = waiting(&[ZONE], &template(), &nodes[..1]);
    (case.question, case.state) = (Question::CreateAgain, PodState::default());
    assert_eq!(refused(&mut case, &[]), Refusal::NoNodeCouldTake);
    let mut case = waiting(&[ZONE], &template(), &[node("a1", "a"), node("b1", "b")]);
    (case.question, case.state) = (Question::CreateAgain, PodState::default());
    let home = Refusal::HomeTakesIt { node: "a1".into() };
    assert_eq!(refused(&mut case, &[]), home);
}

#[test]
fn the_scheduler_says_the_same_of_slim_objects() {
    let mut full = running("x", "a1", "3");
    full["spec"]["initContainers"] =
        json!([{"name": "i", "image": "i", "resources": {"requests": {"cpu": "4"}}}]);
    full["spec"]["overhead"] = json!({"cpu": "1"});
    full["metadata"]["managedFields"] = json!([{"manager": "m"}]);
    full["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "w"}}}]}});
    let mut tainted = cordoned("a1", "a");
    tainted["status"]["images"] = json!([{"names": ["c:1"], "sizeBytes": 7}]);
    let mut pod = template();
    pod["metadata"]["namespace"] = "n".into();
    let verdicts = |node: &Value, other: &Value| {
        let placement = Placement {
            pod: &pod,
            before: None,
            selector: None,
            volumes: None,
        };
        let exclusions = select(
            &placement,
            &[NodeView {
                node,
                pods: vec![other],
            }],
        )
        .verdicts;
        exclusions[0].exclusions.clone()
    };
    let exclusions = verdicts(&tainted, &full);
    assert_eq!(verdicts(&slim_node(&tainted), &slim_pod(&full)), exclusions);
    let is_full = |one: &Exclusion| matches!(one, Exclusion::Insufficient { free: -1000, .. });
    assert!(
        exclusions.iter().any(is_full) && exclusions.len() == 4,
        "{exclusions:?}"
    );
    assert_eq!(
        list(&slim_pod(&full)["metadata"]["managedFields"]),
        [Value::Null; 0]
    );
}

#[test]
fn a_pod_whose_template_is_not_known_keeps_its_place() {
    let nodes = [cordoned("a1", "a"), node("b1", "b")];
    let without = json!({"metadata": {"name": "w"}, "spec": {"racks": 3}});
    let held_back = json!({"metadata": {"name": "w"}, "spec": {"template": template(), "replicas": 1,
            "updateStrategy": {"rollingUpdate": {"partition": 1}}},
        "status": {"currentRevision": "w-1", "updateRevision": "w-2"}});
    for workload in [Some(without), Some(held_back), None] {
        let mut case = waiting(&[ZONE], &template(), &nodes);
        case.workload = workload;
        assert_eq!(refused(&mut case, &[]), Refusal::TemplateUnknown);
    }
}

#[test]
fn a_pod_that_asks_about_other_namespaces_keeps_its_place() {
    let nodes = [cordoned("a1", "a"), node("b1", "b")];
    let term = |more: &Value| {
        let mut term = json!({"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "w"}}});
        add_fields(&mut term, more);
        term
    };
    for (more, is_judged) in [
        (json!({}), true),
        (json!({"namespaces": ["n"]}), true),
        (json!({"namespaces": ["n", "db"]}), false),
        (json!({"namespaceSelector": {}}), false),
    ] {
        let mut template = template();
        template["spec"]["affinity"]["podAntiAffinity"] =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": [term(&more)]});
        let mut case = waiting(&[ZONE], &template, &nodes);
        let judgement = judged(&mut case, &[]).0;
        assert_eq!(
            matches!(judgement, Judgement::GiveUp { .. }),
            is_judged,
            "{more}: {judgement:?}"
        );
    }
}

/// Adds the fields of one object to another.
fn add_fields(object: &mut Value, more: &Value) {
    for (field, value) in more.as_object().into_iter().flatten() {
        object[field] = value.clone();
    }
}
