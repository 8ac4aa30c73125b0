//! `watch`: what changes while it does.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use pps_e2e::cluster::Cluster;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

use super::answers::{assert_exit, plugin, until};
use crate::support::{HOSTNAME, Pool, TIMEOUT, homes};

pub(super) async fn prints_a_line_for_each_change(cluster: &Cluster) {
    let pool = Pool::new(cluster, "watch", 2, 2).await;
    let web = pool.stateful_set("web", 1).persistent(HOSTNAME, "", "");
    let node = homes(&cluster.run_stateful_set(&web).await.unwrap())["web-0"].clone();
    pool.recorded("web", "web").await;
    let mut child = plugin(cluster, "admin").start(&["watch", "web", "-n", "watch"]).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = Vec::new();
    let mut expect = async |words: &[&str]| loop {
        let line = timeout(TIMEOUT, lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("no line with {words:?} in {seen:?}")).unwrap().unwrap();
        seen.push(line.clone());
        if words.iter().all(|word| line.contains(word)) {
            assert_eq!(line.as_bytes()[10], b'T', "begins with the time: {line}");
            assert!(!line.contains('\u{1b}'), "{line:?}");
            break;
        }
    };
    expect(&["web-0 Ready, on", &node]).await;
    cluster.nodes.cordon(&node).await.unwrap();
    cluster.delete_pods("watch", "web", &["web-0"]).await.unwrap();
    expect(&["web-0 deleted"]).await;
    expect(&["web-0 created", "Pending"]).await;
    cluster.nodes.uncordon(&node).await.unwrap();
    expect(&["web-0", "-> Ready"]).await;
}

pub(super) async fn draws_a_table_on_a_terminal(cluster: &Cluster) {
    let pool = Pool::new(cluster, "watch-terminal", 1, 1).await;
    cluster.run_stateful_set(&pool.stateful_set("web", 1).persistent(HOSTNAME, "", "")).await.unwrap();
    pool.recorded("web", "web").await;
    let user = plugin(cluster, "admin");
    let args = ["watch", "-n", "watch-terminal", "--until-ready", "1m"];
    let answer = user.run_on_terminal(&args, 80, "").await.unwrap();
    assert_exit(&answer, 0);
    assert!(answer.stdout.contains("POD") && answer.stdout.contains("\u{1b}[K"), "{:?}", answer.stdout);
    // Ctrl-C ends it, and the terminal is as it was.
    let answer = user.type_after(&["watch", "-n", "watch-terminal"], "Ctrl-C ends", "\u{3}").await.unwrap();
    assert_exit(&answer, 0);
    assert!(!answer.stdout.contains("\u{1b}[?"), "no mode of the terminal is changed: {:?}", answer.stdout);
}

pub(super) async fn waits_until_all_pods_are_ready(cluster: &Cluster) {
    let pool = Pool::new(cluster, "watch-ready", 1, 1).await;
    cluster.nodes.cordon("watch-ready-0").await.unwrap();
    cluster.create_stateful_set(&pool.stateful_set("web", 1).persistent(HOSTNAME, "", "")).await.unwrap();
    pool.wait_for_object("web", "the object", TIMEOUT, |_| true).await;
    until(&pool, &["status"], 1, |text| text.contains("web-0 is Pending")).await;
    let user = plugin(cluster, "admin");
    let answer = user.run(&["watch", "web", "-n", "watch-ready", "--until-ready", "1s"]).await.unwrap();
    assert_exit(&answer, 1);
    for words in [
        "error: after 1s the rollout is not finished: web-0 is Pending",
        "to see why: kubectl pps explain web-0 -n watch-ready",
    ] {
        assert!(answer.stderr.contains(words), "{words:?} is not in {}", answer.stderr);
    }
    let args = ["watch", "web", "-n", "watch-ready", "--until-ready", "1m"];
    let waits = user.run(&args);
    let uncordoned = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        cluster.nodes.uncordon("watch-ready-0").await.unwrap();
    };
    let (answer, ()) = tokio::join!(waits, uncordoned);
    assert_exit(&answer.unwrap(), 0);
}

/// The workload has no PersistentPodState: its Pods are watched all the same.
pub(super) async fn waits_until_a_rollout_is_finished(cluster: &Cluster) {
    let pool = Pool::new(cluster, "watch-rollout", 2, 2).await;
    cluster.run_stateful_set(&pool.stateful_set("web", 3)).await.unwrap();
    let user = plugin(cluster, "admin");
    let api = cluster.stateful_sets("watch-rollout");
    let change = async |revision: &str, strategy: &str, partition: Option<u8>| {
        let rolling = partition.map(|partition| json!({"partition": partition}));
        let strategy = json!({"type": strategy, "rollingUpdate": rolling});
        let template = json!({"metadata": {"annotations": {"revision": revision}}});
        let patch = Patch::Merge(json!({"spec": {"updateStrategy": strategy, "template": template}}));
        api.patch("web", &PatchParams::default(), &patch).await.unwrap();
    };
    let revisions = async || -> Vec<String> {
        let pods = cluster.pods_api("watch-rollout").list(&ListParams::default()).await.unwrap();
        pods.items.iter().map(|pod| pod.annotations()["revision"].clone()).collect()
    };
    let args = ["watch", "web", "-n", "watch-rollout", "--until-ready", "1m"];

    change("1", "RollingUpdate", None).await;
    assert_exit(&user.run(&args).await.unwrap(), 0);
    assert_eq!(revisions().await, ["1", "1", "1"]);

    change("2", "RollingUpdate", Some(2)).await;
    assert_exit(&user.run(&args).await.unwrap(), 0);
    assert_eq!(revisions().await, ["1", "1", "2"]);

    change("3", "OnDelete", None).await;
    assert_exit(&user.run(&args).await.unwrap(), 0);
    assert_eq!(revisions().await, ["1", "1", "2"]);
}
