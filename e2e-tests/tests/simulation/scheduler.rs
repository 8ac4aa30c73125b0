//! The real scheduler takes a node that the simulation would take in the same cluster.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use pps_e2e::{
    cluster::Cluster,
    wait::{Progress, wait_for},
};
use pps_scheduler::{NodeView, Placement, select};
use serde_json::{Value, json};

use super::{
    notice::{Fact, scheduler_knows},
    world::{self, NAME, POOL},
};
use crate::support::{Random, note};

const PODS: usize = 10;

/// Nodes, and Pods that start on them one after the other. Some belong to a `StatefulSet`.
///
/// The controller manager must not run: it takes from these Pods, which have other names than the
/// `StatefulSet` would give them, the reference to their owner.
pub(super) async fn places_pods(cluster: &Cluster, namespace: &'static str) {
    let mut random = Random::of(namespace);
    cluster.namespace(namespace).await.unwrap();
    let nodes = world::nodes(&mut random, namespace);
    for node in &nodes {
        super::live::create_node(cluster, node).await;
    }
    let mut owner = world::stateful_set(&mut random, namespace);
    owner["spec"]["replicas"] = json!(0);
    let owner = cluster.apply_objects(&[owner]).await.unwrap().remove(0);
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": NAME, "controller": true,
        "uid": owner.metadata.uid});
    let last = nodes.last().unwrap()["metadata"]["name"].as_str().unwrap();
    scheduler_knows(cluster, namespace, last, Fact::Exists).await;
    let (mut chosen, mut possible, mut pending) = (0, 0, 0);
    for index in 0..PODS {
        let template = world::stateful_set(&mut random, namespace)["spec"]["template"].take();
        let selector = (random.below(2) == 0).then(|| json!({"matchLabels": {"app": NAME}}));
        let mut pod = template;
        pod["metadata"]["name"] = json!(format!("pod-{index}-x"));
        if selector.is_some() {
            pod["metadata"]["ownerReferences"] = json!([owner]);
        } else {
            // No StatefulSet selects it.
            pod["metadata"]["labels"]["app"] = json!("alone");
        }
        let (nodes, pods) = snapshot(cluster, namespace).await;
        let api = cluster.pods_api(namespace);
        let created = api
            .create(
                &PostParams::default(),
                &serde_json::from_value(pod).unwrap(),
            )
            .await
            .unwrap();
        let pod = serde_json::to_value(&created).unwrap();
        let node = decided(cluster, &created).await;
        let views: Vec<NodeView> = nodes
            .iter()
            .map(|node| NodeView {
                node,
                pods: on(&pods, node["metadata"]["name"].as_str().unwrap()),
            })
            .collect();
        let placement = Placement {
            pod: &pod,
            before: None,
            selector: selector.as_ref(),
            volumes: None,
        };
        let found = select(&placement, &views);
        let text = || {
            format!(
                "{namespace}: took {node:?}\n{found:#?}\n{pod}\n{}",
                json!([nodes, pods])
            )
        };
        let fits = found
            .verdicts
            .iter()
            .filter(|verdict| verdict.exclusions.is_empty());
        let fits: Vec<&String> = fits.map(|verdict| &verdict.node).collect();
        if let Ok(node) = &node {
            assert!(fits.contains(&node), "{}", text());
            assert!(found.may_land_on.contains(node), "{}", text());
            chosen += 1;
            possible += found.may_land_on.len();
        } else {
            assert!(
                fits.is_empty() && found.may_land_on.is_empty(),
                "{}",
                text()
            );
            pending += 1;
            // The scheduler would try it again, perhaps while it decides about the next one.
            // Nothing has changed since it decided, so the Pod has no node, and is gone at once.
            api.delete(&created.name_any(), &DeleteParams::default())
                .await
                .unwrap();
        }
    }
    note(&format!(
        "{namespace}: {chosen} Pods took one of {possible} possible nodes, {pending} stayed \
         Pending"
    ));
}

/// The Nodes of one place and the Pods on them, as the API shows them.
async fn snapshot(cluster: &Cluster, namespace: &str) -> (Vec<Value>, Vec<Value>) {
    let params = ListParams::default().labels(&format!("{POOL}={namespace}"));
    let nodes: Vec<Node> = cluster.nodes.api().list(&params).await.unwrap().items;
    let pods: Vec<Pod> = cluster
        .pods_api(namespace)
        .list(&ListParams::default())
        .await
        .unwrap()
        .items;
    (
        nodes.iter().map(|node| json!(node)).collect(),
        pods.iter().map(|pod| json!(pod)).collect(),
    )
}

fn on<'a>(pods: &'a [Value], node: &str) -> Vec<&'a Value> {
    pods.iter()
        .filter(|pod| pod["spec"]["nodeName"] == node)
        .collect()
}

/// Waits until the scheduler has taken a node, or has said why it takes none.
pub(super) async fn decided(cluster: &Cluster, pod: &Pod) -> Result<String, String> {
    let name = pod.name_any();
    let api = cluster.pods_api(&pod.namespace().unwrap());
    wait_for(
        &format!("the scheduler to decide about {name}"),
        Duration::from_mins(2),
        async || {
            let pod = api.get(&name).await?;
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            let said = super::live::unschedulable(&pod).map(str::to_owned);
            let decision = node.map(Ok).or(said.map(Err));
            Ok(decision.map_or_else(|| Progress::Waiting("nothing".to_owned()), Progress::Done))
        },
    )
    .await
    .unwrap()
}
