//! Upgrades to the next version and back while Pods are replaced, and removal as the documents say.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

use pps_e2e::{
    cluster::{Cluster, real_nodes::ip_annotation},
    install::{Installation, Published},
    kubewarden::stand_in::Webhook,
    manifests::render::files_below,
    registry::{
        Publisher,
        foreign::{FOREIGN, NATIVE},
    },
    scratch::Scratch,
    sidecar::NAMESPACE,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::VERSION;
use crate::{
    docs_pages::{page::Command::Script, shell::Shell},
    support::{HOSTNAME, Pool, TIMEOUT, list, note, places, serving, spread_over_nodes},
};

/// The version to which the release is upgraded.
const NEXT: &str = "99.0.0";
/// What the API server answers to a StatefulSet's controller that has not seen yet that the Pod
/// exists.
const EXISTS: &str = "The POST operation against Pod could not be completed at this time";
/// All objects of an installation, but for the CRD and the namespace.
const LABEL: &str = "app.kubernetes.io/name=persistent-pod-state";
const KINDS: &str = "clusteradmissionpolicies,policyservers,mutatingwebhookconfigurations,\
                     validatingwebhookconfigurations,clusterroles,clusterrolebindings,roles,\
                     rolebindings,serviceaccounts,deployments,services,configmaps,networkpolicies,\
                     poddisruptionbudgets,flowschemas,prioritylevelconfigurations,jobs";

/// Pushes the same code as the next version, with digests of its own.
pub(super) async fn push_next(installation: &Installation, dist: &Path, work: &Path) -> Published {
    let (publisher, host) = (
        Publisher::to(&installation.registry),
        installation.registry.host(),
    );
    let changed = |name: &str, end: &[u8]| {
        let file = work.join(format!("next-{name}"));
        fs::write(&file, [&fs::read(dist.join(name)).unwrap(), end].concat()).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    };
    // A section of a module that engines ignore, and what the loader of an executable does not
    // read.
    let module = changed("policy.wasm", b"\0\x05\x04next");
    let programs = [NATIVE, FOREIGN]
        .map(|processor| changed(&format!("pps-sidecar-linux-{processor}"), b"next"));
    let [native, foreign] = &programs;
    let publisher = publisher
        .with("PPS_VERSION", NEXT)
        .with("PPS_POLICY_WASM", module)
        .with_sidecars(native, foreign);
    let registry = format!("{host}/pps");
    let policy = publisher.policy(&registry).await.unwrap();
    let sidecar = publisher.images(&registry).await.unwrap();
    Published { policy, sidecar }
}

/// A copy of the chart that the shell installs, as the next version.
pub(super) fn next_chart(chart: &Path, copy: PathBuf) -> PathBuf {
    for file in files_below(chart).unwrap() {
        let mut text = fs::read_to_string(&file).unwrap();
        if file.ends_with("Chart.yaml") {
            let next = text.replace(&format!("ersion: {VERSION}"), &format!("ersion: {NEXT}"));
            assert_ne!(next, text);
            text = next;
        }
        let target = copy.join(file.strip_prefix(chart).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, text).unwrap();
    }
    copy
}

/// Two StatefulSets whose Pods need their nodes and addresses.
pub(super) async fn run_workloads(cluster: &Cluster) -> Pool<'_> {
    let pool = Pool::on_real_nodes(cluster, "shop").await;
    let apart = spread_over_nodes(&json!({"matchLabels": {"app": "db"}}));
    let db = serving("shop", "db", 3)
        .template(&apart)
        .persistent(HOSTNAME, "", ip_annotation());
    let web = serving("shop", "web", 1).persistent(HOSTNAME, "", ip_annotation());
    for set in [db, web] {
        cluster.run_stateful_set(&set).await.unwrap();
        pool.recorded(&set.name, &set.name).await;
    }
    pool
}

/// Waits until both sidecars run that image, and no other one is left.
pub(super) async fn run_image(
    cluster: &Cluster,
    installation: &Installation,
    published: &Published,
) {
    let (_, digest) = published.sidecar.split_once('@').unwrap();
    wait_for(
        &format!("two sidecars of {digest}"),
        TIMEOUT * 2,
        async || {
            let pods = json!(installation.sidecars(cluster).await?);
            let images =
                list(&pods).map(|pod| pod["status"]["containerStatuses"][0]["imageID"].to_string());
            let images: Vec<String> = images.collect();
            let all = images.len() == 2 && images.iter().all(|image| image.contains(digest));
            Ok(Progress::when(all, (), format!("{images:?}")))
        },
    )
    .await
    .unwrap();
    installation.wait_available(cluster).await.unwrap();
}

/// Deletes all Pods of `db` at once, and lets `web` grow, be rolled out and shrink, again and again
/// until the change is complete, and once more. Every Pod that comes again has its place, and none
/// is refused.
pub(super) async fn while_pods_are_replaced<T>(
    pool: Pool<'_>,
    change: impl Future<Output = T>,
) -> T {
    let complete = AtomicBool::new(false);
    let replace = Box::pin(async {
        let before = places(&pool.ready("db", 3).await);
        let mut rounds = 0;
        loop {
            let last = complete.load(Relaxed);
            let (db, ()) = tokio::join!(
                pool.recreate("db", &["db-0", "db-1", "db-2"]),
                grow_and_shrink(pool)
            );
            assert_eq!(places(&db), before);
            rounds += 1;
            if last {
                return rounds;
            }
        }
    });
    let (rounds, result) = tokio::join!(replace, async {
        let result = change.await;
        complete.store(true, Relaxed);
        result
    });
    for name in ["db", "web"] {
        let mut refusals = pool.events(name, "FailedCreate").await.unwrap();
        refusals.retain(|refusal| !refusal.contains(EXISTS));
        assert_eq!(refusals, [""; 0]);
        pool.recorded(name, name).await;
    }
    note(&format!("all Pods were replaced {rounds} times meanwhile"));
    result
}

/// A new Pod is recorded, comes back, and is forgotten when it goes.
async fn grow_and_shrink(pool: Pool<'_>) {
    static REVISION: AtomicU32 = AtomicU32::new(0);
    pool.scale("web", 2).await;
    let before = places(&pool.ready("web", 2).await);
    pool.recorded("web", "web").await;
    let revision = REVISION.fetch_add(1, Relaxed).to_string();
    assert_eq!(places(&pool.roll_out("web", &revision).await), before);
    pool.scale("web", 1).await;
    pool.wait_for_entries("web", &["web-0"]).await;
}

/// Removes what was applied, but for the CRD, and hands the CRD over to the quick start's release.
pub(super) async fn remove_applied(cluster: &Cluster, objects: &[Value], webhook: &Webhook) {
    let kubectl = async |args: &[&str]| cluster.control_plane.kubectl(args).await.unwrap();
    delete_policies(cluster, webhook).await;
    let all = Scratch::file(
        "all.json",
        json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string(),
    );
    kubectl(&[
        "delete",
        "--filename",
        &all.unwrap().argument(),
        "--selector",
        LABEL,
    ])
    .await;
    assert_eq!(
        kubectl(&[
            "get",
            KINDS,
            "--all-namespaces",
            "--selector",
            LABEL,
            "--output=name"
        ])
        .await,
        ""
    );
    let crd = ["crd", "persistentpodstates.apps.kruise.io"];
    // These tests apply on the server, where they also own `webhook: null`; `kubectl apply` does not,
    // and helm would refuse to share the field.
    let nobody = r#"[{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]"#;
    kubectl(&[&["patch"], &crd[..], &["--type=json", "--patch", nobody]].concat()).await;
    let name = "meta.helm.sh/release-name=persistent-pod-state";
    let namespace = format!("meta.helm.sh/release-namespace={NAMESPACE}");
    kubectl(&[&["annotate", "--overwrite"], &crd[..], &[name, &namespace]].concat()).await;
    kubectl(
        &[
            &["label", "--overwrite"],
            &crd[..],
            &["app.kubernetes.io/managed-by=Helm"],
        ]
        .concat(),
    )
    .await;
}

/// Removes the release. The CRD with all objects, the namespace and the Lease remain.
pub(super) async fn uninstall(cluster: &Cluster, shell: &mut Shell, webhook: &Webhook) {
    let kubectl = async |args: &[&str]| cluster.control_plane.kubectl(args).await.unwrap();
    delete_policies(cluster, webhook).await;
    let command = format!("helm uninstall persistent-pod-state --namespace {NAMESPACE}");
    shell.run(&Script(command)).await.unwrap();
    let selector = ["--selector", LABEL, "--output=name"];
    let left = kubectl(&[&["get", KINDS, "--all-namespaces"], &selector[..]].concat()).await;
    assert_eq!(left, "");
    let lease = [
        "get",
        "lease",
        "pps-sidecar",
        "--namespace",
        NAMESPACE,
        "--output=name",
    ];
    assert_eq!(
        kubectl(&lease).await.trim(),
        "lease.coordination.k8s.io/pps-sidecar"
    );
}

/// Kubewarden's controller, which does not run here, removes the webhooks.
async fn delete_policies(cluster: &Cluster, webhook: &Webhook) {
    let delete = [
        "delete",
        "clusteradmissionpolicies",
        "--selector",
        LABEL,
        "--wait",
    ];
    cluster.control_plane.kubectl(&delete).await.unwrap();
    webhook.unregister(&cluster.client()).await.unwrap();
}
