//! Wrong command lines, and clusters that cannot be reached.

use std::net::TcpListener;

use pps_e2e::{plugin::Plugin, scratch::Scratch};
use serde_json::json;

#[tokio::test]
async fn without_a_cluster_a_command_says_how_to_name_one() {
    let plugin = Plugin::without_cluster();
    for args in [&["check"][..], &["check", "--skip-registry"]] {
        let answer = plugin.run(args).await.unwrap();
        assert_eq!(answer.exit_code, 2, "{args:?}: {answer:?}");
        assert!(
            answer.stderr.starts_with("error: no cluster is configured"),
            "{answer:?}"
        );
        assert_eq!(answer.stdout, "");
    }
}

/// Every command that needs a cluster.
const COMMANDS: [&[&str]; 7] = [
    &["status"],
    &["explain", "db-0"],
    &["simulate", "--drain", "node-0"],
    &["move", "db-0", "--anywhere", "--yes"],
    &["forget", "db-0", "--yes"],
    &["export"],
    &["check"],
];

#[tokio::test]
async fn every_command_names_the_api_server_that_it_cannot_reach() {
    // Nobody listens on a port that was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let server = format!("https://{free}");
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "prod",
        "clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}]});
    let file = Scratch::file("unreachable", kubeconfig.to_string()).unwrap();
    let plugin = Plugin::new(file.path());
    let why = "Connection refused (os error 111)";
    let expected =
        format!("error: cannot reach the API server at {server} (context prod): {why}\n");
    for args in COMMANDS {
        let answer = plugin.run(args).await.unwrap();
        assert_eq!(
            (answer.exit_code, answer.stderr.as_str()),
            (2, expected.as_str()),
            "{args:?}"
        );
        assert_eq!(answer.stdout, "", "{args:?}");
    }
}
