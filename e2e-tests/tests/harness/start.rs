//! Control planes start, enforce permissions and survive restarts.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, api::ListParams};
use pps_e2e::{
    cluster::Cluster,
    control_plane::{ControlPlane, Options, program},
    supervisor::Supervisor,
    wait::{Progress, wait_for},
};

pub(super) async fn nodes_and_permissions_are_as_described(cluster: &Cluster) {
    let nodes = cluster
        .nodes
        .api()
        .list(&ListParams::default())
        .await
        .unwrap();
    let zones: Vec<_> = nodes
        .items
        .iter()
        .map(|node| node.metadata.labels.clone().unwrap())
        .collect();
    assert_eq!(zones.len(), 3);
    assert_eq!(zones[2]["topology.kubernetes.io/zone"], "zone-0");

    let control_plane = &cluster.control_plane;
    let names = control_plane
        .kubectl(&["get", "namespaces", "-o", "name"])
        .await
        .unwrap();
    assert!(names.contains("namespace/default"), "{names}");

    let nobody: Api<ConfigMap> =
        Api::namespaced(control_plane.client_for("nobody").unwrap(), "default");
    let refused = nobody.list(&ListParams::default()).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains(r#"User "nobody" cannot list resource "configmaps""#),
        "{refused}"
    );
    let refused = control_plane
        .kubectl_as("nobody", &["get", "configmaps"])
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("Forbidden"), "{refused}");
    assert!(control_plane.client_for("stranger").is_err());

    let account = control_plane
        .client_for_service_account("default", "robot")
        .await
        .unwrap();
    let refused = Api::<Namespace>::all(account)
        .list(&ListParams::default())
        .await
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("system:serviceaccount:default:robot"),
        "{refused}"
    );
    assert!(
        control_plane
            .audit_log()
            .contains("system:serviceaccount:default:robot")
    );
}

#[tokio::test]
async fn a_program_that_ends_during_the_start_is_started_again() {
    let supervisor = Arc::new(Supervisor::start().unwrap());
    let kill = async {
        while !supervisor
            .status(program::API_SERVER)
            .is_ok_and(|status| status.running)
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        supervisor.kill(program::API_SERVER).await.unwrap()
    };
    let options = Options {
        controllers: false,
        ..Options::default()
    };
    let (killed, started) = tokio::join!(kill, ControlPlane::start(supervisor.clone(), options));
    let control_plane = started.unwrap();
    assert_ne!(
        supervisor.status(program::API_SERVER).unwrap().pid,
        killed.pid
    );
    control_plane
        .kubectl(&["get", "namespace", "default"])
        .await
        .unwrap();
}

#[tokio::test]
async fn timeout_reports_what_was_seen_last() {
    let error = wait_for::<(), _>("rain", Duration::from_millis(30), async || {
        Ok(Progress::Waiting("sunshine".to_owned()))
    })
    .await
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "waited 30ms for rain; last seen: sunshine"
    );
}
