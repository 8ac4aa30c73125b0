//! Whether nodes exist: nothing is done because of a list that may be late.

use kube::Client;
use pps_check::facts::Right;

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
    let items = list.unwrap_or_default()["items"].take();
    let first = items.as_array().and_then(|items| items.first()).cloned();
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

/// Fails if a node exists again that was gone.
///
/// # Errors
///
/// If it does, or if it cannot be read.
pub(super) async fn refuse_if_back(client: &Client, name: &str) -> Result<(), Failure> {
    match read(client, name).await? {
        Some(_) => Err(Failure::Refused(format!(
            "node {name} has come back meanwhile: nothing was changed; run the command again"
        ))),
        None => Ok(()),
    }
}

/// Whether a node exists; none if that cannot be found out.
pub(super) async fn exists(client: &Client, snapshot: &Snapshot, name: &str) -> Option<bool> {
    if snapshot.node(name).is_some() {
        return Some(true);
    }
    read(client, name).await.ok().map(|node| node.is_some())
}
