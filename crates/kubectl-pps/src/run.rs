//! The commands: each reads, lets [`decide`](crate::decide) decide, shows, asks and writes.

mod answers;
mod export;
mod forget;
mod import;
mod move_pod;
mod states;

use std::collections::BTreeSet;

use pps_check::read::Right;

use crate::args::{Cli, Command, Connection, candidates, script};
use crate::cluster::Client;
use crate::cluster::read::{Wanted, get, read};
use crate::decide::command_line::CommandLine;
use crate::render::Terminal;
use crate::snapshot::{Namespaces, Node, Snapshot};
use crate::{Failure, Outcome};

pub async fn run(cli: &Cli, terminal: &Terminal) -> Result<Outcome, Failure> {
    Box::pin(command(cli, terminal))
        .await
        .map_err(|failure| match failure {
            Failure::NoDefinition => failure.with(&commands(&cli.connection, "").check()),
            failure => failure,
        })
}

async fn command(cli: &Cli, terminal: &Terminal) -> Result<Outcome, Failure> {
    let connection = &cli.connection;
    match &cli.command {
        Command::Check(args) => Box::pin(answers::check(args, connection, terminal)).await,
        Command::Explain(args) => Box::pin(answers::explain(args, connection, terminal)).await,
        Command::Complete(args) => terminal
            .print(&candidates(&args.words))
            .map(|()| Outcome::Well),
        Command::Completion(args) => terminal.print(&script(&args.shell)).map(|()| Outcome::Well),
        Command::Export(args) => export::run(args, connection, terminal).await,
        Command::Forget(args) => forget::run(args, connection, terminal).await,
        Command::Import(args) => import::run(args, connection, terminal).await,
        Command::Move(args) => move_pod::run(args, connection, terminal).await,
        Command::Simulate(args) => Box::pin(answers::simulate(args, connection, terminal)).await,
        Command::Status(args) => Box::pin(answers::status(args, connection, terminal)).await,
    }
}

fn namespaces(is_all: bool, namespace: &str) -> Namespaces {
    if is_all {
        Namespaces::All
    } else {
        Namespaces::One(namespace.to_owned())
    }
}

fn commands(connection: &Connection, namespace: &str) -> CommandLine {
    let own_namespace = connection.namespace.is_none().then(|| namespace.to_owned());
    CommandLine {
        own_namespace,
        flags: connection.flags(),
    }
}

/// Reads a cluster, and once more each node that a Pod is bound to and the list lacks: the node may
/// be newer than the list. A node that is still not in the snapshot is gone.
async fn read_confirmed(
    client: &Client,
    of: &Namespaces,
    wanted: Wanted<'_>,
) -> Result<Snapshot, Failure> {
    let mut snapshot = Box::pin(read(client, of, wanted)).await?;
    confirm_nodes(client, &mut snapshot).await?;
    Ok(snapshot)
}

async fn confirm_nodes(client: &Client, snapshot: &mut Snapshot) -> Result<(), Failure> {
    let Snapshot {
        pods,
        nodes: Some(nodes),
        namespaces,
        ..
    } = snapshot
    else {
        return Ok(());
    };
    let concerned = pods
        .iter()
        .filter(|pod| namespaces.contains(pod.namespace()));
    let bound: BTreeSet<&str> = concerned.filter_map(|pod| pod.node()).collect();
    let missing: Vec<&str> = bound
        .into_iter()
        .filter(|node| !nodes.contains_key(*node))
        .collect();
    for name in missing {
        // A user who may list nodes may not be allowed to get one.
        let path = format!("/api/v1/nodes?fieldSelector=metadata.name%3D{name}");
        let list = get(client, Right::new("list", "", "nodes"), &path).await?;
        let list = list.filter(|list| list["items"].is_array());
        let list = list.ok_or_else(|| Failure::Unreadable(format!("cannot read node {name}")))?;
        nodes.extend(Node::read(list["items"][0].clone()).map(|node| (name.to_owned(), node)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::cluster::tests::serve;
    use crate::snapshot::Pod;

    #[tokio::test]
    async fn a_pod_is_stranded_only_if_its_node_is_gone_for_certain() {
        let mut snapshot = Snapshot::empty(Namespaces::All);
        let pod = json!({"metadata": {"name": "db-0", "namespace": "prod"}, "spec": {"nodeName": "node-9"}});
        snapshot.pods = Pod::read(pod).into_iter().collect();
        let mut of = async |status: u16, list: serde_json::Value| {
            let client = serve(move |request| match request {
                "GET /api/v1/nodes?fieldSelector=metadata.name%3Dnode-9" => (status, list.clone()),
                other => panic!("{other}"),
            });
            snapshot.nodes = Some(BTreeMap::new());
            confirm_nodes(&client, &mut snapshot)
                .await
                .map(|()| snapshot.is_stranded(&snapshot.pods[0]))
        };
        assert_eq!(of(200, json!({"items": []})).await, Ok(true));
        assert_eq!(
            of(200, json!({"items": [{"metadata": {"name": "node-9"}}]})).await,
            Ok(false)
        );
        for (status, answer) in [(403, json!({})), (404, json!({})), (200, json!({}))] {
            assert!(
                of(status, answer).await.is_err(),
                "nothing is done on a guess"
            );
        }
    }
}
