//! `docs/redis.md`: a Redis Cluster on real nodes whose members and clients know addresses alone.
//! The page's commands are run as they are printed, and its manifest without the PersistentPodState
//! runs beside it.

mod client;
mod manifest;

use std::{collections::BTreeSet, ffi::OsString, fs, time::Duration};

use pps_e2e::{
    cluster::{Cluster, real_nodes},
    control_plane::ADMIN,
    plugin,
    programs::Group,
    scratch::Scratch,
    wait::{Progress, wait_for},
};

use self::client::Client;
use crate::{
    docs_pages::{
        page::{Block, Page},
        shell::Shell,
    },
    support::{TIMEOUT, note},
};

/// The StatefulSet, its PersistentPodState, and the namespace of the page.
const REDIS: &str = "redis";
/// The namespace without a PersistentPodState.
const PLAIN: &str = "plain";
const MEMBERS: usize = 6;
/// Stands for what a reader does while a node is drained. Until a replica has taken over from a
/// master, it takes as long as the other members need to miss the one that was there, and to be
/// whole without it. Afterwards it takes no time, so that members come back before they are missed.
const MAINTENANCE: &str = "\
[ ! -e taken-over ] || exit 0
ask() { kubectl exec statefulset/redis -- redis-cli cluster \"$1\"; }
until ask nodes | grep ',fail '; do sleep 0.5; done
if ask nodes | grep 'master,fail '; then touch taken-over; fi
until ask info | grep cluster_state:ok; do sleep 0.5; done
";

#[tokio::test]
async fn a_redis_cluster_keeps_its_addresses_and_stays_whole() {
    if !real_nodes::available("a_redis_cluster_keeps_its_addresses_and_stays_whole") {
        return;
    }
    let cluster = Cluster::builder().product().real_nodes(6);
    let cluster = cluster.start().await.unwrap();
    manifest::provide_volumes(&cluster, [REDIS, PLAIN]).await;

    let mut blocks = Page::read("docs/redis.md").blocks.into_iter();
    let mut next = |count: usize| blocks.by_ref().take(count).collect::<Vec<Block>>();
    let [install, drains, outage, repair] = [next(2), next(3), next(1), next(usize::MAX)];
    let mut reader = Reader::new(&cluster, REDIS).await;
    let mut other = Reader::new(&cluster, PLAIN).await;
    tokio::join!(reader.run(&install), other.run(&install));
    let [addresses, plain] = [reader.addresses().await, other.addresses().await];
    let [client, plain_client] = [Client::new(&addresses), Client::new(&plain)];
    tokio::join!(client.writes(), plain_client.writes());

    let mut longest = Duration::ZERO;
    tokio::select! {
        () = client.go_on(&mut longest) => {}
        () = reader.run(&drains) => {}
    }
    note(&format!(
        "all nodes were drained; the client waited at most {longest:.1?}"
    ));
    assert!(reader.folder.path().join("taken-over").exists());
    assert_eq!(reader.addresses().await, addresses);
    assert_eq!(client.reachable().await, addresses);
    client.writes().await;
    let moved = other.addresses().await;
    assert!(moved.is_disjoint(&plain), "{moved:?}, before: {plain:?}");
    assert_eq!(plain_client.reachable().await, BTreeSet::new());
    // The members have told each other.
    other.wait_for_state("ok").await;
    Client::new(&moved).writes().await;

    other.delete_all().await;
    reader.run(&outage).await;
    assert_eq!(reader.addresses().await, addresses);
    client.writes().await;
    let again = other.addresses().await;
    assert!(again.is_disjoint(&moved), "{again:?}, before: {moved:?}");
    // They have had as long as the others.
    other.wait_for_state("fail").await;
    assert_eq!(other.known().await, moved);
    other.run(&repair).await;
    other.wait_for_state("ok").await;
}

/// Somebody who does what the page says, in one of the namespaces.
struct Reader<'a> {
    cluster: &'a Cluster,
    namespace: &'static str,
    shell: Shell,
    folder: Scratch,
}

impl<'a> Reader<'a> {
    async fn new(cluster: &'a Cluster, namespace: &'static str) -> Self {
        let folder = Scratch::folder(namespace).unwrap();
        let file = |name: &str| folder.path().join(name);
        fs::write(file("redis.yaml"), manifest::text(namespace == REDIS)).unwrap();
        fs::write(file("maintenance.sh"), MAINTENANCE).unwrap();
        // A copy: the page changes its namespace.
        let kubeconfig = file("kubeconfig");
        fs::copy(
            cluster.control_plane.kubeconfig_for(ADMIN).unwrap(),
            &kubeconfig,
        )
        .unwrap();
        let path = plugin::search_path(&[Group::Kubernetes.folder().unwrap()]).unwrap();
        let variables: [(&str, OsString); 2] = [("PATH", path), ("KUBECONFIG", kubeconfig.into())];
        let replacements = [
            ("namespace redis", format!("namespace {namespace}")),
            ("# Update the node.", "bash -eu maintenance.sh".to_owned()),
        ];
        let replacements = replacements.map(|(from, to)| (from.to_owned(), to)).into();
        let shell = Shell::start(folder.path(), &variables, replacements).await;
        Self {
            cluster,
            namespace,
            shell,
            folder,
        }
    }

    async fn run(&mut self, blocks: &[Block]) {
        assert!(!blocks.is_empty(), "the page has fewer blocks");
        for block in blocks {
            note(&format!("{}: docs/redis.md:{}", self.namespace, block.line));
            for command in &block.commands {
                let ran = self.shell.run(command).await;
                ran.unwrap_or_else(|problem| panic!("docs/redis.md:{}: {problem}", block.line));
            }
        }
    }

    /// The addresses of all Pods, once each runs.
    async fn addresses(&self) -> BTreeSet<String> {
        let what = format!("addresses of all Pods of {}", self.namespace);
        let pods = self
            .cluster
            .wait_for_pods(self.namespace, REDIS, &what, TIMEOUT, |pods| {
                pods.len() == MEMBERS
                    && pods
                        .values()
                        .all(|pod| pod.ip.is_some() && !pod.terminating)
            });
        let pods = pods.await.unwrap();
        pods.into_values().filter_map(|pod| pod.ip).collect()
    }

    /// Deletes all Pods at once, and waits until there are others.
    async fn delete_all(&self) {
        let pods = self.cluster.pods(self.namespace, REDIS).await.unwrap();
        let names: Vec<&str> = pods.keys().map(String::as_str).collect();
        let deleted = self.cluster.delete_pods(self.namespace, REDIS, &names);
        let before = deleted.await.unwrap();
        let what = format!("other Pods of {}", self.namespace);
        let replaced = self
            .cluster
            .wait_for_pods(self.namespace, REDIS, &what, TIMEOUT, |pods| {
                pods.len() == MEMBERS && pods.values().all(|pod| before[&pod.name].uid != pod.uid)
            });
        replaced.await.unwrap();
    }

    /// What a member answers to a command.
    async fn ask(&self, member: usize, command: &[&str]) -> anyhow::Result<String> {
        let pod = format!("{REDIS}-{member}");
        let start = [
            "exec",
            "--namespace",
            self.namespace,
            &pod,
            "--",
            "redis-cli",
        ];
        let kubectl = &self.cluster.control_plane;
        kubectl.kubectl(&[&start, command].concat()).await
    }

    /// Waits until each member says that of its cluster.
    async fn wait_for_state(&self, state: &str) {
        let expected = format!("cluster_state:{state}");
        for member in 0..MEMBERS {
            let what = format!("{expected} from member {member} of {}", self.namespace);
            wait_for(&what, TIMEOUT, async || {
                let answer = self.ask(member, &["cluster", "info"]).await?;
                Ok(Progress::when(answer.contains(&expected), (), answer))
            })
            .await
            .unwrap();
        }
    }

    /// The addresses at which members look for each other.
    async fn known(&self) -> BTreeSet<String> {
        let mut known = BTreeSet::new();
        for member in 0..MEMBERS {
            let answer = self.ask(member, &["cluster", "nodes"]).await.unwrap();
            let others = answer.lines().filter(|line| !line.contains("myself"));
            let address = |line: &str| Some(line.split(' ').nth(1)?.split_once(':')?.0.to_owned());
            known.extend(others.filter_map(address));
        }
        known
    }
}
