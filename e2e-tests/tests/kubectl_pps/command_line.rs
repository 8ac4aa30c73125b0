//! Wrong command lines, and clusters that cannot be reached.

use pps_e2e::plugin::Plugin;

#[tokio::test]
async fn without_a_cluster_a_command_says_how_to_name_one() {
    let plugin = Plugin::without_cluster();
    for args in [&["check"][..], &["check", "--skip-registry"]] {
        let answer = plugin.run(args).await.unwrap();
        assert_eq!(answer.exit_code, 2, "{args:?}: {answer:?}");
        assert!(answer.stderr.starts_with("error: no cluster is configured"), "{answer:?}");
        assert_eq!(answer.stdout, "");
    }
}
