//! A sidecar that the chart installs for one namespace: its account can do nothing in another.

use pps_e2e::{
    cluster::Cluster,
    manifests::render::render_chart,
    scratch::Scratch,
    sidecar::{NAMESPACE, SidecarOptions},
};
use serde_json::{Value, json};

use super::permissions;
use crate::support::{HOSTNAME, Pool, SOON, TIMEOUT, homes, list, wait_for_review};

const APART: &str = "apart";
/// The account of the sidecar. The names of the chart's objects differ from those of the cluster's
/// other sidecar.
pub(crate) const ACCOUNT: &str = "system:serviceaccount:persistent-pod-state:one-sidecar-apart";

fn chart() -> Vec<Value> {
    let values = json!({"fullnameOverride": "one", "namespaces": [APART]});
    let file = Scratch::file("one-namespace.yaml", values.to_string()).unwrap();
    render_chart("one", NAMESPACE, Some(file.path())).unwrap()
}

pub(crate) async fn records_with_rights_in_one_namespace_alone(cluster: &Cluster) {
    let pool = Pool::new(cluster, APART, 3, 1).await;
    let objects = chart();
    let is_right = |object: &&Value| {
        object["apiVersion"] == "rbac.authorization.k8s.io/v1"
            && object["metadata"]["labels"]["app.kubernetes.io/component"] == "sidecar"
    };
    let rights: Vec<Value> = objects.iter().filter(is_right).cloned().collect();
    cluster.apply_objects(&rights).await.unwrap();
    let of_namespace = [
        ("list", "", "pods", ""),
        ("watch", "apps", "statefulsets", ""),
        ("create", "apps.kruise.io", "persistentpodstates", ""),
        ("patch", "apps.kruise.io", "persistentpodstates", "status"),
    ];
    for (namespace, granted) in [(APART, true), ("default", false), ("", false)] {
        for (verb, group, resource, subresource) in of_namespace {
            let attributes = json!({"verb": verb, "group": group, "resource": resource,
                "subresource": subresource, "namespace": namespace});
            wait_for_review(cluster, ACCOUNT, &attributes, granted).await;
        }
    }

    let deployment = objects
        .iter()
        .find(|object| object["kind"] == "Deployment")
        .unwrap();
    let args = list(&deployment["spec"]["template"]["spec"]["containers"][0]["args"]);
    let args = args.map(|arg| arg.as_str().unwrap().to_owned());
    let args: Vec<String> = args
        .filter(|arg| !arg.starts_with("--admin-address"))
        .collect();
    assert_eq!(
        args[..2],
        ["--namespace=apart", "--lease-name=one-sidecar-apart"]
    );
    let options = SidecarOptions {
        name: APART.to_owned(),
        user: ACCOUNT.to_owned(),
        args,
        ..SidecarOptions::default()
    };
    let sidecar = cluster.run_sidecar(options).unwrap();
    sidecar.wait_leading(TIMEOUT).await.unwrap();

    let web = pool.stateful_set("web", 2).persistent("", HOSTNAME, "");
    let pods = cluster.run_stateful_set(&web).await.unwrap();
    pool.recorded("web", "web").await;
    // The scheduler prefers the third node.
    pool.load_all(homes(&pods).values()).await;
    assert_eq!(
        homes(&pool.recreate("web", &["web-0", "web-1"]).await),
        homes(&pods)
    );
    // The workload and the Pod are read again before a state is dropped.
    pool.scale("web", 1).await;
    pool.wait_for_entries("web", &["web-0"]).await;
    sidecar.wait_ready(TIMEOUT).await.unwrap();

    permissions::assert_used_as_granted_by(cluster, ACCOUNT, &[]);
    let refused = cluster
        .control_plane
        .kubectl_as(ACCOUNT, &["get", "pods", "--namespace=default"])
        .await;
    assert!(format!("{:#}", refused.unwrap_err()).contains("forbidden"));
    sidecar.terminate(SOON).await.unwrap();
}
