use serde_json::{Value, json};

use super::super::pod_affinity::PodAffinity;
use super::super::read::{Candidate, Node, Pod};
use super::super::resources::Images;
use super::super::scores::{normalized, stretched};
use super::super::{node_affinity, resources, spread, taints};
use super::{HOSTNAME, Nodes, ZONE, empty, node, pod, requesting, with_amounts};

/// Parses and scores.
fn scores(pod: &Value, nodes: &Nodes, score: impl Fn(&Candidate, &[Node]) -> Vec<i64>) -> Vec<i64> {
    let views = super::views(nodes);
    let parsed: Vec<Node> = views
        .iter()
        .map(|view| Node::of(view.node, view.pods.iter().copied()))
        .collect();
    score(
        &Candidate {
            spec: &pod["spec"],
            pod: Pod::of(pod),
        },
        &parsed,
    )
}

fn each(nodes: &[Node], score: impl Fn(&Node) -> i64) -> Vec<i64> {
    nodes.iter().map(score).collect()
}

fn amounts(cpu: u32, memory: u32) -> Value {
    json!({"cpu": format!("{cpu}m"), "memory": memory})
}

/// From kube-scheduler's `TestLeastAllocatedScoringStrategy`.
#[test]
fn least_allocated_prefers_nodes_of_which_little_is_in_use() {
    let least = |pod: &Value, nodes: &Nodes| {
        scores(pod, nodes, |pod, nodes| {
            each(nodes, |node| resources::least_allocated(&pod.pod, node))
        })
    };
    let of_sizes = |first: Value, second: Value| -> Vec<Value> {
        vec![
            with_amounts("node1", &first),
            with_amounts("node2", &second),
        ]
    };
    let same = || of_sizes(amounts(4000, 10000), amounts(4000, 10000));
    let different = || of_sizes(amounts(4000, 10000), amounts(6000, 10000));
    let new = requesting(&[amounts(1000, 2000), amounts(2000, 3000)]);
    assert_eq!(least(&requesting(&[]), &empty(same())), [100, 100]);
    assert_eq!(least(&new, &empty(different())), [37, 50]);
    let cpu_only = requesting(&[amounts(1000, 0), amounts(2000, 0)]);
    let both = requesting(&[amounts(1000, 2000), amounts(2000, 3000)]);
    let of_sizes = of_sizes(amounts(10000, 20000), amounts(10000, 20000));
    let running: Nodes = of_sizes
        .into_iter()
        .zip([vec![cpu_only.clone()], vec![cpu_only, both]])
        .collect();
    assert_eq!(least(&requesting(&[]), &running), [85, 57]);
}

#[test]
fn a_container_without_requests_counts_as_100m_and_200_mi() {
    let nodes = empty(vec![with_amounts(
        "n",
        &json!({"cpu": "1", "memory": "1000Mi"}),
    )]);
    let found = scores(&requesting(&[json!({})]), &nodes, |pod, nodes| {
        each(nodes, |node| resources::least_allocated(&pod.pod, node))
    });
    assert_eq!(found, [i64::midpoint(90, 80)]);
}

#[test]
fn a_resource_that_is_limited_for_the_whole_pod_has_no_default() {
    let nodes = empty(vec![with_amounts(
        "n",
        &json!({"cpu": "1", "memory": "1000Mi"}),
    )]);
    let mut new = requesting(&[json!({}), json!({})]);
    new["spec"]["resources"] = json!({"limits": {"cpu": "500m", "memory": "500Mi"}});
    let least = scores(&new, &nodes, |pod, nodes| {
        each(nodes, |node| resources::least_allocated(&pod.pod, node))
    });
    assert_eq!(least, [50]);
}

/// From kube-scheduler's `TestNodeResourcesBalancedAllocation` of each version.
#[test]
fn balanced_allocation_prefers_nodes_of_which_as_much_cpu_as_memory_is_in_use() {
    let both = |pod: &Value, nodes: &Nodes| {
        [resources::balanced, resources::balanced_in_1_36].map(|balanced| {
            scores(pod, nodes, |pod, nodes| {
                each(nodes, |node| balanced(&pod.pod, node))
            })
        })
    };
    let nodes = empty(vec![
        with_amounts("node1", &amounts(4000, 10000)),
        with_amounts("node2", &amounts(6000, 10000)),
    ]);
    let new = requesting(&[amounts(1000, 2000), amounts(2000, 3000)]);
    // 50 + (50 + 87 - 100) / 2 and 50 + (50 + 100 - 100) / 2
    assert_eq!(both(&new, &nodes), [[87, 100], [68, 75]]);
    assert_eq!(
        both(&requesting(&[json!({})]), &nodes),
        [[100, 100], [0, 0]]
    );
}

/// From kube-scheduler's `TestNodeAffinityPriority`.
#[test]
fn preferred_node_affinity_is_scaled_to_100() {
    let term = |weight: u32, labels: &Value| {
        let expressions: Vec<Value> = labels
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| json!({"key": key, "operator": "In", "values": [value]}))
            .collect();
        json!({"weight": weight, "preference": {"matchExpressions": expressions}})
    };
    let preferred = json!([term(2, &json!({"foo": "bar"})), term(4, &json!({"key": "value"})),
        term(5, &json!({"foo": "bar", "key": "value", "az": "az1"})), {"weight": 9, "preference": {}}]);
    let new = pod(
        &json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}),
    );
    let nodes = empty(vec![
        node("node1", &json!({"foo": "bar"})),
        node("node5", &json!({"foo": "bar", "key": "value", "az": "az1"})),
        node("node2", &json!({"key": "value"})),
    ]);
    let found = scores(&new, &nodes, |pod, nodes| {
        stretched(&each(nodes, |node| {
            node_affinity::preference(pod.spec, node)
        }))
    });
    assert_eq!(found, [18, 100, 36]);
}

/// From kube-scheduler's `TestTaintTolerationScore`.
#[test]
fn fewer_taints_that_are_not_tolerated_are_better() {
    let taint = |key: &str, effect: &str| json!({"key": key, "value": "arm64", "effect": effect});
    let tainted =
        |name: &str, taints: Value| json!({"metadata": {"name": name}, "spec": {"taints": taints}});
    let new =
        pod(&json!({"tolerations": [{"key": "cpu-type", "operator": "Equal", "value": "arm64"}]}));
    let nodes = empty(vec![
        tainted("node0", json!([])),
        tainted("node1", json!([taint("cpu-type", "PreferNoSchedule")])),
        tainted("node2", json!([taint("a", "PreferNoSchedule")])),
        tainted(
            "node3",
            json!([
                taint("a", "PreferNoSchedule"),
                taint("b", "PreferNoSchedule")
            ]),
        ),
    ]);
    let found = scores(&new, &nodes, |pod, nodes| {
        each(nodes, |node| taints::avoided(pod.spec, node))
    });
    assert_eq!(found, [0, 0, 1, 2]);
}

fn foo() -> Value {
    json!({"metadata": {"labels": {"foo": ""}}})
}

/// Nodes with these labels and as many Pods.
fn counted(nodes: &[(Value, usize)]) -> Nodes {
    let one = |(index, (labels, pods)): (usize, &(Value, usize))| {
        let mut labels = labels.clone();
        labels[HOSTNAME] = json!(format!("node-{index}"));
        (node(&format!("node-{index}"), &labels), vec![foo(); *pods])
    };
    nodes.iter().enumerate().map(one).collect()
}

fn spread_scores(
    new: &Value,
    selector: Option<&Value>,
    nodes: &Nodes,
    candidates: usize,
) -> Vec<i64> {
    scores(new, nodes, |pod, nodes| {
        let feasible: Vec<&Node> = nodes.iter().take(candidates).collect();
        spread::scores(pod, selector, nodes, &feasible)
    })
}

/// From kube-scheduler's `TestPodTopologySpreadScore`: "system defaulting, nodes don't have zone,
/// pods match service".
#[test]
fn pods_of_a_controller_are_spread_over_nodes_without_zones() {
    let nodes = counted(&[4, 3, 2, 1].map(|pods| (json!({}), pods)));
    let selector = json!({"matchLabels": {"foo": ""}});
    assert_eq!(
        spread_scores(&foo(), Some(&selector), &nodes, 4),
        [44, 66, 77, 100]
    );
    for nothing in [json!({}), json!(null), json!({"matchLabels": {}})] {
        assert_eq!(
            spread_scores(&foo(), Some(&nothing), &nodes, 4),
            [0; 4],
            "{nothing}"
        );
    }
}

/// "one constraint on zone, 3 out of 4 nodes are candidates" and "one constraint on node, 3 out of
/// 4 nodes are candidates"
#[test]
fn preferred_spread_counts_pods_of_the_whole_domain() {
    let new = |key: &str| {
        let mut pod = foo();
        pod["spec"] = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"foo": ""}}}]});
        pod
    };
    let zone = |name: &str, pods: usize| (json!({"zone": name}), pods);
    let nodes = counted(&[
        zone("zone1", 4),
        zone("zone1", 2),
        zone("zone2", 1),
        zone("zone2", 3),
    ]);
    assert_eq!(spread_scores(&new("zone"), None, &nodes, 3), [75, 75, 100]);
    assert_eq!(
        spread_scores(&new(HOSTNAME), None, &nodes, 3),
        [33, 83, 100]
    );
}

/// From kube-scheduler's `TestPreferredAffinity`.
#[test]
fn pods_attract_and_repel_each_other() {
    let s1 = |spec: Value| json!({"metadata": {"labels": {"security": "S1"}}, "spec": spec});
    let s2 = || json!({"metadata": {"labels": {"security": "S2"}}});
    let term = |weight: u32, value: &str| {
        json!({"weight": weight, "podAffinityTerm": {"topologyKey": "region",
            "labelSelector": {"matchExpressions": [{"key": "security", "operator": "In", "values": [value]}]}}})
    };
    let preferred = |kind: &str, terms: Value| json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": terms}}});
    let nodes = |running: [Vec<Value>; 3]| -> Nodes {
        let labels = [
            json!({"region": "China"}),
            json!({"region": "India"}),
            json!({"az": "az1"}),
        ];
        labels
            .iter()
            .zip(running)
            .map(|(labels, pods)| (node("n", labels), pods))
            .collect()
    };
    let affinity = |pod: &Value, nodes: &Nodes| {
        scores(pod, nodes, |pod, parsed| {
            let affinity = PodAffinity::of(&pod.pod, parsed);
            each(parsed, |node| affinity.score(node))
        })
    };
    let near_s1 = s1(preferred("podAffinity", json!([term(5, "S1")])));
    assert_eq!(
        affinity(
            &near_s1,
            &nodes([vec![s1(json!({}))], vec![s2()], vec![s1(json!({}))]])
        ),
        [5, 0, 0]
    );
    let apart_from_s1 = s1(preferred("podAntiAffinity", json!([term(5, "S1")])));
    assert_eq!(
        affinity(
            &apart_from_s1,
            &nodes([vec![s1(json!({}))], vec![s2()], vec![]])
        ),
        [-5, 0, 0]
    );
    assert_eq!(normalized(&[-5, 0, 0]), [0, 100, 100]);
    assert_eq!(normalized(&[7, 7]), [0, 0]);
    // In floating point 100 × (29 / 100) is less than 29, and the scheduler cuts it.
    assert_eq!(normalized(&[0, 29, 100]), [0, 28, 100]);
    // Pods that run attract and repel, too.
    let wants_s1 = s1(preferred("podAffinity", json!([term(8, "S1")])));
    assert_eq!(
        affinity(&s1(json!({})), &nodes([vec![wants_s1], vec![], vec![]])),
        [8, 0, 0]
    );
    let required = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        [term(1, "S1")["podAffinityTerm"]]}}});
    assert_eq!(
        affinity(&s1(json!({})), &nodes([vec![s1(required)], vec![], vec![]])),
        [1, 0, 0]
    );
}

/// From kube-scheduler's `TestImageLocalityPriority`.
#[test]
fn nodes_that_have_large_images_are_preferred() {
    const MIB: u64 = 1024 * 1024;
    let having = |images: Value| json!({"metadata": {"name": "n"}, "status": {"images": images}});
    let image = |name: &str, size: u64| json!({"names": [format!("gcr.io/{name}:latest")], "sizeBytes": size * MIB});
    let nodes = empty(vec![
        having(json!([
            image("40", 40),
            image("300", 300),
            image("2000", 2000)
        ])),
        having(json!([image("250", 250), image("10", 10)])),
    ]);
    let new = |images: &[&str]| {
        let containers: Vec<Value> = images
            .iter()
            .map(|image| json!({"image": format!("gcr.io/{image}")}))
            .collect();
        pod(&json!({"containers": containers}))
    };
    let found = |images: &[&str]| {
        scores(&new(images), &nodes, |pod, nodes| {
            let images = Images::of(pod.spec, nodes);
            each(nodes, |node| images.locality(node))
        })
    };
    assert_eq!(found(&["40", "250"]), [0, 5]);
    assert_eq!(found(&["40", "300"]), [7, 0]);
    assert_eq!(found(&["10", "2000"]), [49, 0]);
}

#[test]
fn zones_count_beside_nodes_for_pods_of_a_controller() {
    let zone = |name: &str, pods: usize| (json!({ZONE: name}), pods);
    let nodes = counted(&[zone("a", 1), zone("a", 0), zone("b", 0)]);
    let selector = json!({"matchLabels": {"foo": ""}});
    // Each node has 2 + 4 for the skews; node-0 has ln 5 and ln 4 more, node-1 ln 4. The sum is
    // rounded.
    assert_eq!(
        spread_scores(&foo(), Some(&selector), &nodes, 3),
        [66, 88, 100]
    );
}
