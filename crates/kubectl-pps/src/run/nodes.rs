//! Whether nodes exist: nothing is done because of a list that may be late.

use kube::Client;
use pps_check::read::Right;

use crate::Failure;
use crate::cluster::read::get;
use crate::snapshot::{Node, Snapshot};

/// Reads a node; none if it does not exist.
///
/// # Errors
///
/// If it cannot be read. The text names a missing right.
pub(super) async fn read(client: &Client, name: &str) -> Result<Option<Node>, Failure> {
    let path = format!("/api/v1/nodes/{name}");
    let failure = match get(client, Right::new("get", "", "nodes").named(name), &path).await {
        Ok(object) => return Ok(object.and_then(Node::read)),
        Err(failure) => failure,
    };
    // A user who may list nodes, but not get them, may list this one.
    let path = format!("/api/v1/nodes?fieldSelector=metadata.name%3D{name}");
    let list = get(client, Right::new("list", "", "nodes"), &path).await.map_err(|_| failure)?;
    let first = list.and_then(|list| list["items"].get(0).cloned());
    Ok(first.and_then(Node::read))
}

/// Reads each node again that a Pod is bound to and that is not in the list: it may be newer than the list. What is not in
/// the list then is gone.
///
/// # Errors
///
/// If one cannot be read.
pub(super) async fn confirm(client: &Client, snapshot: &mut Snapshot) -> Result<(), Failure> {
    let Snapshot { pods, nodes, scope, .. } = snapshot;
    let Some(nodes) = nodes else { return Ok(()) };
    let concerned = pods.iter().filter(|pod| scope.contains(pod.namespace()));
    let mut missing: Vec<&str> = concerned.filter_map(|pod| pod.node()).collect();
    missing.retain(|node| !nodes.contains_key(*node));
    missing.sort_unstable();
    missing.dedup();
    for name in missing {
        if let Some(node) = read(client, name).await? {
            nodes.insert(name.to_owned(), node);
        }
    }
    Ok(())
}

/// Whether a node exists; none if that cannot be found out.
pub(super) async fn exists(client: &Client, snapshot: &Snapshot, name: &str) -> Option<bool> {
    if snapshot.node(name).is_some() {
        return Some(true);
    }
    read(client, name).await.ok().map(|node| node.is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::stub::serve;
    use crate::snapshot::{Pod, Scope};

    const NODE: &str = "GET /api/v1/nodes/node-9";
    const LIST: &str = "GET /api/v1/nodes?fieldSelector=metadata.name%3Dnode-9";

    /// Nobody may get node-9, and a list of it is answered so.
    fn without_get(status: u16, items: &Value) -> Client {
        let list = json!({"metadata": {}, "items": items});
        serve(move |request| match request {
            NODE => (403, json!({})),
            LIST => (status, list.clone()),
            other => panic!("{other}"),
        })
    }

    #[tokio::test]
    async fn a_user_who_may_only_list_nodes_learns_whether_one_is_gone() {
        let node = json!([{"metadata": {"name": "node-9"}}]);
        let there = read(&without_get(200, &node), "node-9").await.unwrap();
        assert_eq!(there.map(|node| node.name().to_owned()), Some("node-9".to_owned()));
        assert_eq!(read(&without_get(200, &json!([])), "node-9").await, Ok(None));
        let Err(failure) = read(&without_get(403, &json!([])), "node-9").await else {
            panic!("it is not known")
        };
        assert_eq!(failure.to_string(), "you have no permission to get nodes node-9");
    }

    #[tokio::test]
    async fn a_pod_is_stranded_only_if_its_node_is_gone_for_certain() {
        let mut snapshot = Snapshot::empty(Scope::All);
        let pod = json!({"metadata": {"name": "db-0", "namespace": "prod"}, "spec": {"nodeName": "node-9"}});
        snapshot.pods = Pod::read(pod).into_iter().collect();
        snapshot.nodes = Some(std::collections::BTreeMap::new());
        let mut of = async |client: Client| {
            snapshot.nodes = snapshot.nodes.take().map(|_| std::collections::BTreeMap::new());
            confirm(&client, &mut snapshot).await.map(|()| snapshot.is_stranded(&snapshot.pods[0]))
        };
        assert_eq!(of(without_get(200, &json!([]))).await, Ok(true));
        assert_eq!(of(without_get(200, &json!([{"metadata": {"name": "node-9"}}]))).await, Ok(false));
        assert!(of(without_get(403, &json!([]))).await.is_err(), "nothing is done on a guess");
    }
}
