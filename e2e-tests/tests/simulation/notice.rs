//! What the scheduler knows of the Nodes. It hears of a change later than others who watch, and
//! says so only when it is asked.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{DeleteParams, PostParams},
};
use pps_e2e::{
    cluster::Cluster,
    wait::{Progress, wait_for},
};
use serde_json::json;

use super::scheduler::decided;
use crate::support::TIMEOUT;

/// What the scheduler says of a Node that is possible for a Pod but for its room.
const NO_ROOM: &str = "Insufficient cpu";

/// What there is to know of a Node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fact {
    Exists,
    IsCordoned,
    IsDeleted,
}

/// Waits until the scheduler knows this of a Node. Then it also knows of every earlier change of a
/// Node.
///
/// It is asked with a Pod that can only go there, and needs more than any Node has. So the question
/// changes nothing.
pub(crate) async fn scheduler_knows(cluster: &Cluster, namespace: &str, node: &str, fact: Fact) {
    let mut toleration = json!({"operator": "Exists"});
    if matches!(fact, Fact::IsCordoned) {
        // The taint of the worlds' Nodes. A Pod that tolerates everything may go to a cordoned
        // Node.
        toleration["key"] = json!("dedicated");
    }
    let name = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
    let question = json!({"metadata": {"generateName": "question-"}, "spec": {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchFields": name}]}}},
        "tolerations": [toleration],
        "containers": [{"name": "main", "image": "example.invalid/main:1",
            "resources": {"requests": {"cpu": "1000000"}}}]}});
    let question: Pod = serde_json::from_value(question).unwrap();
    let api = cluster.pods_api(namespace);
    wait_for(
        &format!("the scheduler to know that {node} {fact:?}"),
        TIMEOUT,
        async || {
            let pod = api.create(&PostParams::default(), &question).await?;
            let answer = decided(cluster, &pod).await;
            api.delete(&pod.name_any(), &DeleteParams::default())
                .await?;
            let is_possible = answer.as_ref().is_err_and(|why| why.contains(NO_ROOM));
            Ok(Progress::when(
                is_possible == matches!(fact, Fact::Exists),
                (),
                format!("{answer:?}"),
            ))
        },
    )
    .await
    .unwrap();
}
