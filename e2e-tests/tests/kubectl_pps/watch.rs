//! `watch`: what changes while it does.

use std::time::Duration;

use pps_e2e::cluster::Cluster;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

use super::answers::{assert_exit, plugin};
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
    expect(&["web-0", "Pending"]).await;
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
    let user = plugin(cluster, "admin");
    let answer = user.run(&["watch", "web", "-n", "watch-ready", "--until-ready", "1s"]).await.unwrap();
    assert_exit(&answer, 1);
    assert!(answer.stderr.contains("not all Pods are Ready in time"), "{}", answer.stderr);
    let args = ["watch", "web", "-n", "watch-ready", "--until-ready", "1m"];
    let waits = user.run(&args);
    let uncordoned = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        cluster.nodes.uncordon("watch-ready-0").await.unwrap();
    };
    let (answer, ()) = tokio::join!(waits, uncordoned);
    assert_exit(&answer.unwrap(), 0);
}
