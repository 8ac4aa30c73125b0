use serde_json::{Value, json};

use super::super::{Caveat, Exclusion, ExclusionKind, Placement, RequiredBy, select};
use super::{
    HOSTNAME, Nodes, ZONE, empty, node, pod, requesting, selection, texts, views, with_amounts,
};

/// Why the Pod cannot run on the only node.
fn reasons(spec: &Value, node: Value) -> Vec<String> {
    let selection = selection(&pod(spec), &empty(vec![node]));
    texts(&selection)
}

fn required(terms: &Value) -> Value {
    let required = json!({"nodeSelectorTerms": terms});
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
}

#[test]
fn a_cordoned_node_takes_only_pods_that_tolerate_it() {
    let cordoned = json!({"metadata": {"name": "n"}, "spec": {"unschedulable": true}});
    assert_eq!(reasons(&json!({}), cordoned.clone()), ["n: cordoned"]);
    let tolerant = json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "operator": "Exists"}]});
    assert!(reasons(&tolerant, cordoned.clone()).is_empty());
    let other = json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoExecute"}]});
    assert_eq!(reasons(&other, cordoned).len(), 1);
}

#[test]
fn taints_keep_out_pods_that_do_not_tolerate_them() {
    let taint = |value: &str, effect: &str| json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": "dedicated", "value": value, "effect": effect}]}});
    for (toleration, value, effect, tolerated) in [
        (json!({}), "user1", "NoSchedule", false),
        (
            json!({"key": "dedicated", "value": "user1", "effect": "NoSchedule"}),
            "user1",
            "NoSchedule",
            true,
        ),
        (
            json!({"key": "dedicated", "operator": "Equal", "value": "user2"}),
            "user1",
            "NoSchedule",
            false,
        ),
        (
            json!({"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}),
            "user1",
            "NoSchedule",
            true,
        ),
        (
            json!({"key": "foo", "operator": "Exists", "effect": "NoSchedule"}),
            "bar",
            "NoSchedule",
            false,
        ),
        (
            json!({"key": "dedicated", "value": "user1", "effect": "NoExecute"}),
            "user1",
            "NoSchedule",
            false,
        ),
        (
            json!({"key": "dedicated", "value": "user1"}),
            "user1",
            "NoExecute",
            true,
        ),
        (json!({"operator": "Exists"}), "user1", "NoExecute", true),
        (
            json!({"key": "dedicated", "operator": "Gt", "value": "1"}),
            "2",
            "NoExecute",
            false,
        ),
        (json!({"key": "other"}), "user1", "PreferNoSchedule", true),
    ] {
        let reasons = reasons(&json!({"tolerations": [toleration]}), taint(value, effect));
        assert_eq!(
            reasons.is_empty(),
            tolerated,
            "{toleration} {value} {effect}"
        );
        let sentence = format!("n: the Pod does not tolerate the taint dedicated={value}:{effect}");
        assert!(tolerated || reasons == [sentence], "{reasons:?}");
    }
}

#[test]
fn every_pod_tolerates_for_a_while_that_a_node_is_not_ready() {
    let tainted = |effect: &str| json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": effect}]}});
    assert!(reasons(&json!({}), tainted("NoExecute")).is_empty());
    assert_eq!(
        reasons(&json!({}), tainted("NoSchedule")),
        ["n: the Pod does not tolerate the taint node.kubernetes.io/not-ready:NoSchedule"]
    );
}

#[test]
fn a_pod_with_a_node_name_runs_there_and_nowhere_else() {
    let cordoned = json!({"metadata": {"name": "n"}, "spec": {"unschedulable": true}});
    assert!(reasons(&json!({"nodeName": "n"}), cordoned.clone()).is_empty());
    assert_eq!(
        reasons(&json!({"nodeName": "m"}), cordoned),
        ["n: the Pod's spec.nodeName is m"]
    );
}

#[test]
fn a_node_selector_requires_each_label() {
    let spec = json!({"nodeSelector": {"disk": "ssd", "gpu": ""}});
    assert!(
        reasons(
            &spec,
            node("n", &json!({"disk": "ssd", "gpu": "", "more": "x"}))
        )
        .is_empty()
    );
    assert_eq!(
        reasons(&spec, node("n", &json!({"disk": "hdd"}))),
        [
            "n: disk is hdd, the Pod's nodeSelector requires ssd",
            "n: the label gpu is missing, the Pod's nodeSelector requires \"\""
        ]
    );
}

#[test]
fn a_requirement_without_a_node_says_what_the_operator_asks_for() {
    let general = |operator: &str, values: &[&str]| {
        let (by, key) = (RequiredBy::Affinity, "disk".to_owned());
        let wanted = values.iter().map(|value| (*value).to_owned()).collect();
        Exclusion::Label {
            by,
            key,
            operator: operator.to_owned(),
            wanted,
            found: Some("ssd".into()),
        }
        .in_general()
    };
    for (operator, values, text) in [
        ("In", &["hdd"][..], "the Pod requires disk hdd"),
        ("In", &[""], "the Pod requires disk \"\""),
        ("In", &["a", "b"], "the Pod requires disk to be one of a, b"),
        ("NotIn", &["ssd"], "the Pod requires disk not to be ssd"),
        (
            "NotIn",
            &["ssd", "b"],
            "the Pod requires disk to be none of ssd, b",
        ),
        ("Exists", &[], "the Pod requires the label disk"),
        (
            "DoesNotExist",
            &[],
            "the Pod requires that the label disk is absent",
        ),
        ("Gt", &["4"], "the Pod requires disk to be more than 4"),
    ] {
        assert_eq!(general(operator, values), text);
    }
}

/// From kube-scheduler's `TestNodeAffinity`.
#[test]
fn operators_of_the_node_affinity_match_as_in_kubernetes() {
    let labels = json!({"foo": "bar", "gpu": "4", "name": "n"});
    let expression = |operator: &str, key: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    for (term, expected) in [
        (expression("In", "foo", &["bar", "value2"]), true),
        (expression("In", "foo", &["value1", "value2"]), false),
        (expression("In", "missing", &["bar"]), false),
        (expression("NotIn", "foo", &["value1"]), true),
        (expression("NotIn", "foo", &["bar"]), false),
        (expression("NotIn", "missing", &["bar"]), true),
        (expression("Exists", "foo", &[]), true),
        (expression("Exists", "missing", &[]), false),
        (expression("DoesNotExist", "missing", &[]), true),
        (expression("DoesNotExist", "foo", &[]), false),
        (expression("Gt", "gpu", &["3"]), true),
        (expression("Gt", "gpu", &["4"]), false),
        (expression("Lt", "gpu", &["5"]), true),
        (expression("Lt", "foo", &["5"]), false),
        (expression("Gt", "gpu", &["three"]), false),
        (expression("In", "foo", &[]), false),
        (expression("NotIn", "foo", &[]), false),
        (expression("Exists", "foo", &["bar"]), false),
        (expression("in", "foo", &["bar"]), false),
        (json!({}), false),
        (json!({"matchExpressions": []}), false),
        (
            json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}),
            true,
        ),
        (
            json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}),
            false,
        ),
        (
            json!({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["m"]}]}),
            true,
        ),
        (
            json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n", "m"]}]}),
            false,
        ),
        (
            json!({"matchFields": [{"key": "spec.x", "operator": "In", "values": ["n"]}]}),
            false,
        ),
    ] {
        let found = reasons(&required(&json!([term])), node("n", &labels));
        assert_eq!(found.is_empty(), expected, "{term}: {found:?}");
        // Terms are alternatives.
        let either = json!([term, expression("In", "foo", &["bar"])]);
        assert!(
            reasons(&required(&either), node("n", &labels)).is_empty(),
            "{term}"
        );
        // The parts of a term are not.
        let mut both = term.clone();
        if let Some(all) = both["matchExpressions"].as_array_mut() {
            all.push(json!({"key": "x", "operator": "Exists"}));
        }
        if both["matchExpressions"].is_array() {
            assert!(
                !reasons(&required(&json!([both])), node("n", &labels)).is_empty(),
                "{term}"
            );
        }
    }
    assert!(
        !reasons(&required(&json!([])), node("n", &labels)).is_empty(),
        "no term matches nothing"
    );
    assert!(!reasons(&required(&json!(null)), node("n", &labels)).is_empty());
}

#[test]
fn a_reason_says_what_was_found_what_is_required_and_whether_it_was_injected() {
    let own =
        json!({"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}]});
    let mut injected = own.clone();
    let zone = json!({"key": ZONE, "operator": "In", "values": ["a"]});
    injected["matchExpressions"]
        .as_array_mut()
        .unwrap()
        .push(zone.clone());
    let before = pod(&required(&json!([own])));
    let after = pod(&required(&json!([injected])));
    let alone = pod(&required(&json!([{"matchExpressions": [zone]}])));
    let without = pod(&json!({}));
    let nodes: Nodes = empty(vec![
        node("node-1", &json!({"disk": "ssd", ZONE: "a"})),
        node("node-2", &json!({"disk": "ssd", ZONE: "b"})),
        node("node-3", &json!({"disk": "hdd", ZONE: "a"})),
        node("node-4", &json!({})),
    ]);
    let reasons = |before: &serde_json::Value, after: &serde_json::Value| -> Vec<(String, bool)> {
        let placement = Placement {
            pod: after,
            before: Some(before),
            selector: None,
            volumes: None,
        };
        let selection = select(&placement, &views(&nodes));
        let all = selection
            .verdicts
            .iter()
            .flat_map(|verdict| &verdict.exclusions);
        let from_pps = all.map(|one| {
            assert_eq!(one.kind(), ExclusionKind::RequiredAffinity);
            one.from_pps()
        });
        texts(&selection).into_iter().zip(from_pps).collect()
    };
    let expected = [
        (
            "node-2: topology.kubernetes.io/zone is b, the Pod's recorded state requires a",
            true,
        ),
        (
            "node-3: disk is hdd, the Pod requires one of ssd, nvme",
            false,
        ),
        (
            "node-4: the label disk is missing, the Pod requires one of ssd, nvme",
            false,
        ),
        (
            "node-4: the label topology.kubernetes.io/zone is missing, the Pod's recorded state \
             requires a",
            true,
        ),
    ];
    assert_eq!(
        reasons(&before, &after),
        expected.map(|(text, injected)| (text.to_owned(), injected))
    );
    let expected = [expected[0], expected[3]];
    assert_eq!(
        reasons(&without, &alone),
        expected.map(|(text, injected)| (text.to_owned(), injected))
    );
    assert!(
        reasons(&after, &after)
            .iter()
            .all(|(_, injected)| !injected)
    );
}

#[test]
fn of_several_terms_those_count_that_led_to_the_node_before_the_injection() {
    let term = |key: &str| json!({"key": key, "operator": "Exists"});
    let zone = json!({"key": ZONE, "operator": "In", "values": ["a"]});
    let before = pod(&required(
        &json!([{"matchExpressions": [term("x")]}, {"matchExpressions": [term("y")]}]),
    ));
    let after = pod(&required(
        &json!([{"matchExpressions": [term("x"), zone]}, {"matchExpressions": [term("y"), zone]}]),
    ));
    let nodes = empty(vec![node("n", &json!({"y": "", ZONE: "b"}))]);
    let placement = Placement {
        pod: &after,
        before: Some(&before),
        selector: None,
        volumes: None,
    };
    let selection = select(&placement, &views(&nodes));
    assert_eq!(
        texts(&selection),
        ["n: topology.kubernetes.io/zone is b, the Pod's recorded state requires a"]
    );
}

#[test]
fn a_node_takes_as_many_pods_as_it_says() {
    let two = with_amounts("n", &json!({"pods": "2"}));
    let full: Nodes = vec![(two, vec![pod(&json!({})), pod(&json!({}))])];
    let selection = selection(&pod(&json!({})), &full);
    assert_eq!(texts(&selection), ["n: 2 Pods run there, and it takes 2"]);
}

#[test]
fn a_node_that_does_not_say_how_many_pods_it_takes_takes_110() {
    let with =
        |count: usize| -> Nodes { vec![(node("n", &json!({})), vec![pod(&json!({})); count])] };
    assert!(texts(&selection(&pod(&json!({})), &with(109))).is_empty());
    assert_eq!(
        texts(&selection(&pod(&json!({})), &with(110))),
        ["n: 110 Pods run there, and it takes 110"]
    );
}

/// From kube-scheduler's `TestEnoughRequests`.
#[test]
fn requests_of_containers_are_added_and_the_largest_init_container_counts() {
    let node = with_amounts(
        "n",
        &json!({"cpu": "10m", "memory": "20", "pods": 32, "example.com/aaa": 5}),
    );
    let init = |requests: Value, init: &[Value]| {
        let mut pod = requesting(&[requests]);
        pod["spec"]["initContainers"] = init
            .iter()
            .map(|requests| json!({"resources": {"requests": requests}}))
            .collect();
        pod
    };
    let amounts = |cpu: u32, memory: u32| json!({"cpu": format!("{cpu}m"), "memory": memory});
    for (new, running, expected) in [
        (requesting(&[]), amounts(10, 20), vec![]),
        (
            requesting(&[amounts(1, 1)]),
            amounts(10, 20),
            vec![
                "n: 0 of 10m cpu is free, the Pod requests 1m",
                "n: 0 of 20 memory is free, the Pod requests 1",
            ],
        ),
        (
            init(amounts(1, 1), &[amounts(3, 1)]),
            amounts(8, 19),
            vec!["n: 2m of 10m cpu is free, the Pod requests 3m"],
        ),
        (
            init(amounts(1, 1), &[amounts(3, 1), amounts(2, 1)]),
            amounts(8, 19),
            vec!["n: 2m of 10m cpu is free, the Pod requests 3m"],
        ),
        (
            init(amounts(1, 1), &[amounts(1, 1)]),
            amounts(9, 19),
            vec![],
        ),
        (
            requesting(&[amounts(1, 1), amounts(1, 1)]),
            amounts(8, 18),
            vec![],
        ),
        (requesting(&[amounts(5, 1)]), amounts(5, 19), vec![]),
        (
            requesting(&[json!({"example.com/aaa": 3}), json!({"example.com/aaa": 3})]),
            amounts(0, 0),
            vec!["n: 5 of 5 example.com/aaa is free, the Pod requests 6"],
        ),
        (
            requesting(&[json!({"example.com/bbb": 1})]),
            amounts(0, 0),
            vec!["n: 0 of 0 example.com/bbb is free, the Pod requests 1"],
        ),
    ] {
        let nodes: Nodes = vec![(node.clone(), vec![requesting(&[running])])];
        assert_eq!(texts(&selection(&new, &nodes)), expected, "{new}");
    }
}

#[test]
fn init_containers_that_keep_running_count_beside_the_containers() {
    let always = json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}});
    let once = json!({"resources": {"requests": {"cpu": "2"}}});
    let mut new = requesting(&[json!({"cpu": "1"})]);
    new["spec"]["initContainers"] = json!([always, once]);
    let fits = |cpu: &str| {
        texts(&selection(
            &new,
            &empty(vec![with_amounts("n", &json!({"cpu": cpu}))]),
        ))
        .is_empty()
    };
    assert!(fits("3") && !fits("2900m"));
}

#[test]
fn a_limit_without_a_request_is_the_request() {
    let new = pod(&json!({"containers": [{"resources": {"limits": {"memory": "2Gi"}}}]}));
    let nodes = empty(vec![with_amounts("n", &json!({"memory": "1Gi"}))]);
    assert_eq!(
        texts(&selection(&new, &nodes)),
        ["n: 1Gi of 1Gi memory is free, the Pod requests 2Gi"]
    );
}

/// From Kubernetes' `PodRequests`.
#[test]
fn amounts_for_the_whole_pod_replace_those_of_its_containers_and_overhead_is_added() {
    let node = with_amounts("n", &json!({"cpu": "4", "memory": "4Gi"}));
    for (resources, overhead, used) in [
        (json!({"requests": {"cpu": "3"}}), json!(null), 3000),
        (json!({"requests": {"cpu": "500m"}}), json!(null), 500),
        (
            json!({"requests": {"memory": "1Gi"}}),
            json!({"cpu": "250m"}),
            1250,
        ),
        (json!({"limits": {"cpu": "3"}}), json!(null), 1000),
        (
            json!({"limits": {"cpu": "3"}, "requests": {"cpu": "2"}}),
            json!({"cpu": "1"}),
            3000,
        ),
    ] {
        let mut running = requesting(&[json!({"cpu": "1"})]);
        running["spec"]["resources"] = resources.clone();
        running["spec"]["overhead"] = overhead;
        let nodes: Nodes = vec![(node.clone(), vec![running])];
        let found = selection(&requesting(&[json!({"cpu": "4"})]), &nodes);
        let [Exclusion::Insufficient { free, .. }] = &found.verdicts[0].exclusions[..] else {
            panic!("{resources}: {found:?}")
        };
        assert_eq!(4000 - free, used, "{resources}");
    }
    // Nothing of a container says how much: the limit does.
    let limited = pod(&json!({"containers": [{}], "resources": {"limits": {"cpu": "5"}}}));
    let found = selection(&limited, &empty(vec![node]));
    assert_eq!(texts(&found), ["n: 4 of 4 cpu is free, the Pod requests 5"]);
    assert_eq!(found.caveats, []);
}

#[test]
fn capacity_counts_where_allocatable_is_missing() {
    let new = requesting(&[json!({"cpu": "2"})]);
    let one = json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1"}}});
    assert!(!texts(&selection(&new, &empty(vec![one]))).is_empty());
    assert!(texts(&selection(&new, &empty(vec![node("n", &json!({}))]))).is_empty());
}

fn affinity(kind: &str, terms: &Value) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

#[test]
fn required_anti_affinity_keeps_pods_apart_in_both_directions() {
    let apart = affinity(
        "podAntiAffinity",
        &json!([{"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": HOSTNAME}]),
    );
    let plain = json!({});
    let nodes = |running: &Value| -> Nodes {
        vec![
            (
                node("node-1", &json!({HOSTNAME: "node-1"})),
                vec![pod(running)],
            ),
            (node("node-2", &json!({HOSTNAME: "node-2"})), vec![]),
        ]
    };
    for (new, running, reason) in [
        (
            &apart,
            &plain,
            "node-1: a Pod runs at kubernetes.io/hostname node-1 that the Pod must not be near",
        ),
        (
            &plain,
            &apart,
            "node-1: a Pod runs at kubernetes.io/hostname node-1 that must not be near this Pod",
        ),
    ] {
        let selection = selection(&pod(new), &nodes(running));
        assert_eq!(texts(&selection), [reason]);
        assert_eq!(selection.may_land_on, ["node-2"]);
    }
    let mut elsewhere = pod(&plain);
    elsewhere["metadata"]["namespace"] = json!("other");
    let nodes: Nodes = vec![(
        node("node-1", &json!({HOSTNAME: "node-1"})),
        vec![elsewhere],
    )];
    assert!(texts(&selection(&pod(&apart), &nodes)).is_empty());
}

#[test]
fn required_affinity_leads_to_pods_and_the_first_of_several_may_start_anywhere() {
    let near = |app: &str| {
        pod(&affinity(
            "podAffinity",
            &json!([{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE}]),
        ))
    };
    let nodes: Nodes = vec![
        (node("node-1", &json!({ZONE: "a"})), vec![pod(&json!({}))]),
        (node("node-2", &json!({ZONE: "a"})), vec![]),
        (node("node-3", &json!({ZONE: "b"})), vec![]),
        (node("node-4", &json!({})), vec![]),
    ];
    let found = selection(&near("db"), &nodes);
    assert_eq!(
        texts(&found),
        [
            "node-3: no Pod runs at topology.kubernetes.io/zone b that the Pod requires to be near",
            "node-4: the label topology.kubernetes.io/zone is missing, which the Pod's required \
             Pod affinity names",
        ]
    );
    let empty = empty(nodes.into_iter().map(|(node, _)| node).collect());
    assert_eq!(
        selection(&near("db"), &empty).may_land_on,
        ["node-1", "node-2", "node-3"]
    );
    assert!(selection(&near("other"), &empty).may_land_on.is_empty());
}

/// Labels of namespaces are not known.
#[test]
fn a_term_with_a_namespace_selector_is_a_caveat_and_excludes_no_node() {
    let labelled = json!({"matchLabels": {"team": "a"}});
    let term = |app: &str, namespaces: &Value| {
        let labels = json!({"matchLabels": {"app": app}});
        json!([{"labelSelector": labels, "topologyKey": HOSTNAME, "namespaceSelector": namespaces}])
    };
    let host = |name: &str| node(name, &json!({HOSTNAME: name}));
    let mut elsewhere = pod(&json!({}));
    elsewhere["metadata"]["namespace"] = json!("other");
    let nodes: Nodes = vec![
        (host("node-1"), vec![elsewhere.clone()]),
        (host("node-2"), vec![]),
    ];
    for (app, namespaces, excluded, caveats) in [
        ("db", &labelled, 0, &[Caveat::PodAffinityFields][..]),
        ("other", &labelled, 0, &[Caveat::PodAffinityFields]),
        ("db", &json!({}), 1, &[]),
        ("other", &json!({}), 2, &[]),
    ] {
        let found = selection(
            &pod(&affinity("podAffinity", &term(app, namespaces))),
            &nodes,
        );
        assert_eq!(
            (texts(&found).len(), &found.caveats[..]),
            (excluded, caveats),
            "{app} {namespaces}"
        );
    }
    // Of a Pod that runs, only a term matters that may select the new one.
    for (app, namespaces, excluded, caveats) in [
        ("db", &labelled, 0, &[Caveat::AntiAffinityOfOthers][..]),
        ("other", &labelled, 0, &[]),
        ("db", &json!({}), 1, &[]),
    ] {
        elsewhere["spec"] = affinity("podAntiAffinity", &term(app, namespaces));
        let nodes: Nodes = vec![
            (host("node-1"), vec![elsewhere.clone()]),
            (host("node-2"), vec![]),
        ];
        let found = selection(&pod(&json!({})), &nodes);
        assert_eq!(found.unclear.is_empty(), caveats.is_empty());
        assert!(!found.unclear.contains(&"node-2".to_owned()));
        assert_eq!(
            (texts(&found).len(), &found.caveats[..]),
            (excluded, caveats),
            "{app} {namespaces}"
        );
    }
}

/// From kube-scheduler's `TestSingleConstraint`: Pods are spread as 2/1/0/3 over four nodes in two
/// zones.
#[test]
fn required_spread_limits_the_skew() {
    let constraint = |key: &str, skew: u32, more: Value| {
        let mut constraint = json!({"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchExpressions": [{"key": "foo", "operator": "Exists"}]}});
        constraint
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        constraint
    };
    let foo = |spec: Value| json!({"metadata": {"labels": {"foo": ""}}, "spec": spec});
    let nodes: Nodes = [
        ("a", "zone1", 2),
        ("b", "zone1", 1),
        ("x", "zone2", 0),
        ("y", "zone2", 3),
    ]
    .map(|(name, zone, pods)| {
        let node = node(
            &format!("node-{name}"),
            &json!({"zone": zone, "node": format!("node-{name}")}),
        );
        (node, vec![foo(json!({})); pods])
    })
    .into();
    let feasible = |constraints: Value| {
        let new = foo(json!({"topologySpreadConstraints": constraints}));
        let verdicts = selection(&new, &nodes).verdicts;
        let fits = verdicts
            .into_iter()
            .filter(|verdict| verdict.exclusions.is_empty());
        fits.map(|verdict| verdict.node).collect::<Vec<_>>()
    };
    assert_eq!(
        feasible(json!([constraint("zone", 1, json!({}))])),
        ["node-a", "node-b", "node-x", "node-y"]
    );
    assert_eq!(
        feasible(json!([constraint("node", 1, json!({}))])),
        ["node-x"]
    );
    assert_eq!(
        feasible(json!([constraint("node", 2, json!({}))])),
        ["node-b", "node-x"]
    );
    let both = json!([
        constraint("zone", 1, json!({})),
        constraint("node", 1, json!({}))
    ]);
    assert_eq!(feasible(both), ["node-x"]);
    assert_eq!(
        feasible(json!([constraint("zone", 1, json!({"minDomains": 3}))])),
        Vec::<String>::new()
    );
    assert_eq!(
        feasible(json!([constraint("rack", 1, json!({}))])),
        Vec::<String>::new()
    );
}
