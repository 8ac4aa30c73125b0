//! Nodes that stop working, and come back.

use std::time::Instant;

use kube::api::DeleteParams;
use pps_e2e::{
    cluster::real_nodes,
    install::installed_policies,
    kubewarden,
    programs::Group,
    sidecar::NAMESPACE,
    supervisor::Spec,
    wait::{Progress, wait_for},
};
use serde_json::json;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

use super::{RECOVERY, Stage};
use crate::{
    install::{self, deployment},
    support::{HOSTNAME, note, places, spread_over_nodes},
};

/// Nothing is deleted: the Pods start again under their UIDs, with their addresses, from the images
/// on the node. On a node that lacks the image the standby waits for the registry, and the leader
/// records meanwhile.
pub(super) async fn a_reboot_while_the_registry_is_gone(stage: &Stage<'_>) {
    let before = stage.pods().await;
    let [_, (standby, node)] = stage.sidecars().await;
    let pod = before
        .values()
        .find(|pod| pod.node.as_ref() == Some(&node))
        .unwrap()
        .name
        .clone();
    let status =
        async || stage.pool().pod_json(&pod).await["status"]["containerStatuses"][0].take();
    let restarts = status().await["restartCount"].as_u64();
    let supervisor = stage.cluster.control_plane.supervisor();
    supervisor.kill("registry").await.unwrap();
    stage.nodes().reboot(&node).await.unwrap();
    wait_for(
        &format!("the container of {pod} to start again"),
        RECOVERY,
        async || {
            let status = status().await;
            let again = status["restartCount"].as_u64() > restarts && status["ready"] == true;
            Ok(Progress::when(again, (), status))
        },
    )
    .await
    .unwrap_or_else(|error| panic!("{error:#}\n{}", stage.nodes().log(&node, "kubelet")));
    stage.are_back(&places(&before)).await;
    let after = stage.pods().await;
    assert!(
        before.iter().all(|(name, pod)| after[name].uid == pod.uid),
        "{before:?} {after:?}"
    );

    remove_sidecars_image(stage, &node);
    let others: Vec<&str> = stage
        .nodes()
        .names()
        .filter(|other| *other != node)
        .collect();
    for other in &others {
        stage.cluster.nodes.cordon(other).await.unwrap();
    }
    stage
        .cluster
        .pods_api(NAMESPACE)
        .delete(&standby, &DeleteParams::default())
        .await
        .unwrap();
    wait_for("the standby to wait for its image", RECOVERY, async || {
        let pods = stage.installation.sidecars(stage.cluster).await?;
        let waiting = json!(pods).to_string();
        let reasons = ["ErrImagePull", "ImagePullBackOff"];
        Ok(Progress::when(
            reasons.iter().any(|reason| waiting.contains(reason)),
            (),
            waiting,
        ))
    })
    .await
    .unwrap();
    for other in others {
        stage.cluster.nodes.uncordon(other).await.unwrap();
    }
    stage.pool().recreate("db", &[&pod]).await;
    stage.pool().recorded("db", "db").await;
    let config = supervisor
        .folder()
        .join("registry/config.yml")
        .display()
        .to_string();
    let program = Group::Tests.program("registry").unwrap();
    let args = vec!["serve".to_owned(), config];
    supervisor
        .spawn(Spec {
            name: "registry".to_owned(),
            program,
            args,
            env: Vec::new(),
        })
        .unwrap();
    stage.are_back(&places(&before)).await;
}

fn remove_sidecars_image(stage: &Stage<'_>, node: &str) {
    let all = install::images(stage.cluster, node, &["ls", "--quiet"]);
    let image = all
        .lines()
        .find(|image| image.contains("sidecar"))
        .expect("the node has the sidecar's image");
    install::images(stage.cluster, node, &["rm", image]);
}

/// Kubernetes does not see the Pods of nodes without network or power, and deletes none of them at
/// once. If a user deletes one, it terminates until its node is back, and the next one returns.
pub(super) async fn a_cut_network_and_a_loss_of_power(stage: &Stage<'_>) {
    let before = stage.places().await;
    let leaders_node = stage.leaders_node().await;
    let others: Vec<_> = before
        .iter()
        .filter(|(_, (node, _))| *node != leaders_node)
        .collect();
    let [(first, (cut, _)), (second, (dark, _))] = others[..] else {
        panic!("{before:?}")
    };
    stage.nodes().disconnect(cut).unwrap();
    stage.nodes().power_off(dark).await.unwrap();
    for node in [cut, dark] {
        stage.nodes().wait_ready(node, false).await.unwrap();
    }
    assert!(stage.pods().await.values().all(|pod| !pod.terminating));
    let old = stage
        .cluster
        .delete_pods("shop", "db", &[first, second])
        .await
        .unwrap();
    let pods = stage.pods().await;
    assert!(
        [first, second].iter().all(|pod| pods[*pod].terminating),
        "{pods:?}"
    );
    stage.nodes().connect(cut).unwrap();
    stage.nodes().power_on(dark).unwrap();
    for pod in [first, second] {
        stage.replaced(&old[pod]).await;
    }
    stage.are_back(&before).await;
}

/// The leader and one of two PolicyServer replicas are lost with their node, which stays away until
/// the standby leads. Pods of other nodes are re-created as before. Until Kubernetes has noticed
/// the loss, some requests to create a Pod wait.
pub(super) async fn the_loss_of_the_leaders_and_a_policy_servers_node(stage: &Stage<'_>) {
    let before = stage.places().await;
    let [(leader, node), _] = stage.sidecars().await;
    let (cluster, webhook) = (stage.cluster, stage.cluster.webhook().unwrap());
    let listener = TcpListener::bind((stage.nodes().address(), 0))
        .await
        .unwrap();
    let own = listener.local_addr().unwrap();
    let relay = tokio::spawn(relay(
        listener,
        webhook.url().trim_start_matches("https://").to_owned(),
    ));
    // What a Pod passes on, the stand-in answers.
    let pass_on = format!("exec nc -ll -p 8443 -e nc {} {}", own.ip(), own.port());
    let labels = json!({"app": "policy-server"});
    let mut template = spread_over_nodes(&json!({"matchLabels": labels}));
    let other = stage.nodes().names().find(|other| *other != node).unwrap();
    let here = json!([{"key": HOSTNAME, "operator": "In", "values": [node, other]}]);
    template["spec"]["affinity"]["nodeAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": here}]}});
    json_patch::merge(
        &mut template,
        &json!({"metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [
        {"name": "main", "image": real_nodes::IMAGE, "command": ["sh", "-c", pass_on]}]}}),
    );
    let metadata = json!({"namespace": kubewarden::NAMESPACE, "name": "policy-server"});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata,
        "spec": {"selector": labels, "ports": [{"port": 443, "targetPort": 8443, "protocol": "TCP"}]}});
    cluster.apply_objects(&[deployment, service]).await.unwrap();
    cluster
        .wait_ready(kubewarden::NAMESPACE, "policy-server", 2, RECOVERY)
        .await
        .unwrap();
    for policy in installed_policies(cluster).await.unwrap() {
        let kind = if policy.is_mutating() {
            "mutating"
        } else {
            "validating"
        };
        let service = json!({"namespace": kubewarden::NAMESPACE, "name": "policy-server",
            "path": format!("/validate/{}", policy.id())});
        let client = json!({"webhooks": [{"name": policy.webhook_name(),
            "clientConfig": {"url": null, "service": service}}]});
        let patch = [
            "patch",
            &format!("{kind}webhookconfiguration"),
            &policy.id(),
            "--patch",
            &client.to_string(),
        ];
        cluster.control_plane.kubectl(&patch).await.unwrap();
    }

    stage.nodes().power_off(&node).await.unwrap();
    let lost = Instant::now();
    let recreate = async || {
        let (pod, _) = stage.node_without(&node).await;
        let again = stage.pool().recreate("db", &[&pod]).await;
        assert_eq!(places(&again)[&pod], before[&pod]);
    };
    recreate().await;
    note(&format!(
        "a Pod was re-created {:.1?} after a PolicyServer was lost",
        lost.elapsed()
    ));
    deployment::other_leader(stage.cluster, stage.installation, &leader).await;
    note(&format!(
        "the standby leads {:.1?} after the leader's node was lost",
        lost.elapsed()
    ));
    recreate().await;
    stage.nodes().power_on(&node).unwrap();
    stage.nodes().wait_ready(&node, true).await.unwrap();
    stage.are_back(&before).await;
    webhook.unregister(&cluster.client()).await.unwrap();
    webhook.register(&cluster.client()).await.unwrap();
    let delete = [
        "delete",
        "deployment",
        "policy-server",
        "--cascade=foreground",
    ];
    cluster
        .control_plane
        .kubectl(&[&["-n", kubewarden::NAMESPACE], &delete[..]].concat())
        .await
        .unwrap();
    relay.abort();
}

async fn relay(listener: TcpListener, server: String) {
    while let Ok((mut client, _)) = listener.accept().await {
        let server = server.clone();
        tokio::spawn(async move {
            let mut server = TcpStream::connect(server).await?;
            copy_bidirectional(&mut client, &mut server).await
        });
    }
}

/// Somebody deletes the Node of a machine without power. The Pod that needs this node waits until
/// one of that name comes. The Pod that prefers it moves, and stays where it then is.
pub(super) async fn a_deleted_node_that_comes_back(stage: &Stage<'_>) {
    let before = stage.places().await;
    let (pod, node) = stage.node_without(&stage.leaders_node().await).await;
    stage.nodes().power_off(&node).await.unwrap();
    stage.nodes().wait_ready(&node, false).await.unwrap();
    stage.cluster.nodes.delete(&node).await.unwrap();
    let old = stage.pods().await.remove(&pod).unwrap();
    // None or several, if this is not the first time.
    let mut caches = stage.cluster.pods("shop", "cache").await.unwrap();
    caches.retain(|_, cache| cache.node.as_ref() == Some(&node));
    let mut force = vec!["delete", "pod", "-n", "shop", "--force", &pod];
    force.extend(caches.keys().map(String::as_str));
    stage.cluster.control_plane.kubectl(&force).await.unwrap();
    let moved = stage
        .cluster
        .wait_ready("shop", "cache", 3, RECOVERY)
        .await
        .unwrap();
    assert!(
        moved
            .values()
            .all(|cache| cache.node.as_ref() != Some(&node)),
        "{moved:?}"
    );
    stage.pool().recorded("cache", "cache").await;
    let waiting = stage.replaced(&old).await;
    assert_eq!((waiting.node, waiting.ready), (None, false));
    let recorded = stage.pool().states("db").await;
    assert_eq!(
        recorded[&pod]["nodeName"], node,
        "the state must be kept meanwhile"
    );
    stage.nodes().power_on(&node).unwrap();
    stage.nodes().wait_ready(&node, true).await.unwrap();
    stage.are_back(&before).await;
    assert_eq!(
        places(&stage.pool().ready("cache", 3).await),
        places(&moved)
    );
}
