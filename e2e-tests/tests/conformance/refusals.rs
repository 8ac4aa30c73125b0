//! What the script refuses before it changes anything.

use pps_e2e::{
    cluster::Cluster, control_plane::User, kubewarden::Controller, manifests,
    repository::repository_file,
};
use serde_json::json;

use super::script::{NAME, Script};

#[tokio::test]
async fn the_script_refuses_what_it_could_harm() {
    const NOBODY: &str = "nobody";
    let builder = Cluster::builder()
        .without_crd()
        .nodes(2, 1)
        .user(User::new(NOBODY));
    let cluster = builder.start().await.unwrap();
    let apply = async |object| cluster.apply_objects(&[object]).await.unwrap();
    let values = repository_file("e2e-tests/values/required.yaml");
    let script = || Script::of(&cluster).set("VALUES", values.to_str().unwrap());

    script()
        .set("CONTEXT", "other")
        .is_refused("CONTEXT is other")
        .await;
    script().is_refused("there is no Kubewarden").await;
    let _controller = Controller::install(&cluster).await.unwrap();
    let nobody = cluster.control_plane.kubeconfig_for(NOBODY).unwrap();
    Script::with(&nobody)
        .is_refused("you are its administrator")
        .await;

    Script::of(&cluster).is_refused("Set REGISTRY").await;
    script()
        .set("VALUES", "absent.yaml")
        .is_refused("VALUES names absent.yaml")
        .await;
    script()
        .set("PATIENCE", "long")
        .is_refused("PATIENCE is long")
        .await;
    script()
        .set("NODE", "absent")
        .is_refused("use one of node-0 node-1")
        .await;
    cluster
        .control_plane
        .kubectl(&["cordon", "node-0"])
        .await
        .unwrap();
    script()
        .set("NODE", "node-0")
        .is_refused("kubectl uncordon node-0")
        .await;
    script()
        .set("NODE", "node-1")
        .is_refused("the only node")
        .await;

    apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}})).await;
    script()
        .is_refused("the namespace pps-conformance exists")
        .await;
    cluster
        .control_plane
        .kubectl(&["delete", "namespace", NAME])
        .await
        .unwrap();
    manifests::apply_file(&cluster.client(), &repository_file("deploy/base/crd.yaml"))
        .await
        .unwrap();
    script()
        .is_refused("To delete it would delete all recorded states")
        .await;
    // It took no cluster for its own, and removes nothing.
    let ended = Script::of(&cluster).argument("--clean-up").run().await;
    assert_eq!(ended.code, Some(0), "{}", ended.printed);
    assert!(
        ended.printed.contains("nothing to remove"),
        "{}",
        ended.printed
    );
}
