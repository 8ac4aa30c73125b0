//! Which PolicyServer runs the policies: the one that the values name, never changed behind the
//! user's back, and moved as deploy/README.md says. Kubewarden's controller refuses to change
//! `spec.policyServer` here as there.

mod upgrades;

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use pps_e2e::{
    cluster::Cluster,
    kubewarden::{Controller, IMAGE, NAMESPACE},
    manifests::render::{render_chart, render_kustomize},
    programs::Group,
    repository::repository_file,
    scratch::Scratch,
};
use serde_json::{Value, json};

use crate::{
    chart::release::Release,
    support::{self, require_jq},
};

const DEDICATED: &str = "persistent-pod-state";
const POLICY: &str = "persistent-pod-state";
/// What the document calls a copy of the policy.
const COPY: &str = "persistent-pod-state-copy";

fn shared() -> Value {
    let policy = json!({"policyServer": "default", "policyServerServiceAccount": "policy-server"});
    json!({"policyServer": {"create": false}, "policy": policy})
}

fn kubewardens(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "policies.kubewarden.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "policies.kubewarden.io/v1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// Each ClusterAdmissionPolicy with its PolicyServer.
async fn policies(cluster: &Cluster) -> BTreeMap<String, String> {
    let kind = kubewardens("ClusterAdmissionPolicy", "clusteradmissionpolicies");
    let policies: Api<DynamicObject> = Api::all_with(cluster.client(), &kind);
    let policies = policies.list(&ListParams::default()).await.unwrap();
    let server = |policy: &DynamicObject| {
        policy.data["spec"]["policyServer"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    policies
        .iter()
        .map(|policy| (policy.name_any(), server(policy)))
        .collect()
}

fn is_active(policy: &DynamicObject) -> bool {
    let conditions = policy.data["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == "PolicyActive" && condition["status"] == "True")
}

/// Says of each policy that it is active, two seconds after it was created, as Kubewarden's
/// controller does. Never returns.
async fn activate_policies(policies: Api<DynamicObject>) {
    let condition = json!({"type": "PolicyActive", "status": "True", "reason": "PolicyActive", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let patch =
        Patch::Merge(json!({"status": {"policyStatus": "active", "conditions": [condition]}}));
    let mut seen: BTreeMap<Option<String>, Instant> = BTreeMap::new();
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        for policy in policies
            .list(&ListParams::default())
            .await
            .into_iter()
            .flatten()
        {
            let since = *seen.entry(policy.uid()).or_insert_with(Instant::now);
            if since.elapsed() > Duration::from_secs(2) && !is_active(&policy) {
                // It may be gone by now.
                drop(
                    policies
                        .patch_status(&policy.name_any(), &PatchParams::default(), &patch)
                        .await,
                );
            }
        }
    }
}

/// The API server asks the policy about Pods, or its copy.
async fn assert_active(cluster: &Cluster, when: &str) {
    let kind = kubewardens("ClusterAdmissionPolicy", "clusteradmissionpolicies");
    let policies: Api<DynamicObject> = Api::all_with(cluster.client(), &kind);
    let policies = policies.list(&ListParams::default()).await.unwrap();
    let active: Vec<String> = policies
        .iter()
        .filter(|one| is_active(one))
        .map(ResourceExt::name_any)
        .collect();
    assert!(
        active.iter().any(|name| name == POLICY || name == COPY),
        "{when}: only {active:?} are active"
    );
}

async fn may_look_up(cluster: &Cluster, namespace: &str, account: &str) -> bool {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
        "spec": {"user": format!("system:serviceaccount:{namespace}:{account}"), "resourceAttributes":
            {"group": "apps.kruise.io", "resource": "persistentpodstates", "verb": "get", "namespace": "any"}}});
    let reviews: Api<k8s_openapi::api::authorization::v1::SubjectAccessReview> =
        Api::all(cluster.client());
    let review = serde_json::from_value(review).unwrap();
    reviews
        .create(&PostParams::default(), &review)
        .await
        .unwrap()
        .status
        .unwrap()
        .allowed
}

/// A policy is in force, and the PolicyServer of each exists and may look up PersistentPodStates.
async fn assert_in_force(cluster: &Cluster, when: &str) {
    let servers: Api<DynamicObject> = Api::all_with(
        cluster.client(),
        &kubewardens("PolicyServer", "policyservers"),
    );
    let policies = policies(cluster).await;
    assert!(
        policies.keys().any(|name| name.starts_with(POLICY)),
        "{when}: {policies:?}"
    );
    for (policy, server) in policies {
        let server = servers
            .get(&server)
            .await
            .unwrap_or_else(|error| panic!("{when}: {policy}: {error}"));
        let account = server.data["spec"]["serviceAccountName"].as_str().unwrap();
        assert!(
            may_look_up(cluster, NAMESPACE, account).await,
            "{when}: {policy} with {account}"
        );
    }
}

fn render(values: &Value) -> Result<Vec<Value>> {
    let file = Scratch::file("values.yaml", values.to_string())?;
    render_chart("any", "any", Some(file.path()))
}

/// The accounts that may look up PersistentPodStates, as `namespace/name`.
fn accounts(objects: &[Value]) -> Vec<String> {
    let bindings = objects
        .iter()
        .filter(|object| object["roleRef"]["name"] == "pps-policy");
    let account = |binding: &Value| {
        let [namespace, name] =
            ["namespace", "name"].map(|field| binding["subjects"][0][field].as_str().unwrap());
        format!("{namespace}/{name}")
    };
    bindings.map(account).collect()
}

#[test]
fn values_name_what_belongs_to_kubewarden() {
    let defaults = render(&json!({})).unwrap();
    let image = |objects: &[Value]| {
        let servers = objects
            .iter()
            .filter(|object| object["kind"] == "PolicyServer");
        servers
            .map(|server| server["spec"]["image"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(image(&defaults), [IMAGE]);
    assert_eq!(
        accounts(&defaults),
        [format!("{NAMESPACE}/policy-server-persistent-pod-state")]
    );
    let newer =
        json!({"repository": "ghcr.io/kubewarden/adm-controller/policy-server", "tag": "v1.37.0"});
    let own = json!({"policyServer": {"namespace": "cattle-kubewarden-system", "image": newer}});
    let own = render(&own).unwrap();
    assert_eq!(
        image(&own),
        ["ghcr.io/kubewarden/adm-controller/policy-server:v1.37.0"]
    );
    assert_eq!(
        accounts(&own),
        ["cattle-kubewarden-system/policy-server-persistent-pod-state"]
    );
    let shared = render(&shared()).unwrap();
    assert_eq!(image(&shared), Vec::<String>::new());
    assert_eq!(accounts(&shared), [format!("{NAMESPACE}/policy-server")]);
}

#[test]
fn helm_names_the_missing_value_and_the_command_that_shows_it() {
    let theirs = json!({"policyServer": {"create": false}, "policy": {"policyServer": "theirs"}});
    for (values, field, command) in [
        (
            theirs,
            "policy.policyServerServiceAccount is empty",
            "kubectl get policyserver theirs -o",
        ),
        (
            json!({"policyServer": {"create": false}}),
            "name one of the cluster's in policy.policyServer",
            "kubectl get policyservers",
        ),
    ] {
        let error = format!("{:#}", render(&values).expect_err(field));
        assert!(error.contains(field) && error.contains(command), "{error}");
    }
}

#[tokio::test]
async fn the_policies_stay_in_force() {
    require_jq();
    let cluster = Cluster::builder().without_crd().start().await.unwrap();
    let _kubewarden = Controller::install(&cluster).await.unwrap();
    support::run_in_turn(scenarios![&cluster;
        upgrades::policies_keep_their_role_and_their_server_until_they_are_gone,
        the_documented_sequence_moves_the_policies_with_helm,
        the_documented_sequence_moves_the_policies_with_kubectl,
    ])
    .await
    .unwrap();
}

/// A PolicyServer of the cluster keeps the role while the policies leave it.
fn arriving() -> Value {
    json!({"policy": {"formerPolicyServers": [{"name": "default", "serviceAccount": "policy-server"}]}})
}

/// The chart's own PolicyServer stays while the policies leave it.
fn leaving() -> Value {
    json!({"policy": {"policyServer": "default", "policyServerServiceAccount": "policy-server"}})
}

#[test]
fn values_keep_both_policy_servers_while_policies_move() {
    for (values, server) in [(arriving(), DEDICATED), (leaving(), "default")] {
        let objects = render(&values).unwrap();
        let both = ["policy-server", "policy-server-persistent-pod-state"];
        assert_eq!(
            accounts(&objects),
            both.map(|account| format!("{NAMESPACE}/{account}"))
        );
        assert!(
            objects
                .iter()
                .any(|object| object["kind"] == "PolicyServer")
        );
        let mut policies = objects
            .iter()
            .filter(|object| object["kind"] == "ClusterAdmissionPolicy");
        assert!(policies.all(|policy| policy["spec"]["policyServer"] == server));
    }
}

/// The commands of a section of deploy/README.md.
fn commands(section: &str) -> Vec<String> {
    let text = fs::read_to_string(repository_file("deploy/README.md")).unwrap();
    let (_, rest) = text.split_once(&format!("## {section}\n")).unwrap();
    let block = rest
        .split("```console\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    block
        .split("$ ")
        .filter(|command| !command.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Runs a command of the document with kubectl as the administrator.
async fn shell(cluster: &Cluster, command: &str) -> Result<()> {
    let kubectl = Group::Kubernetes.program("kubectl").unwrap();
    let path = format!(
        "{}:{}",
        kubectl.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let output = tokio::process::Command::new("bash")
        .args(["-euo", "pipefail", "-c", command])
        .env("PATH", path)
        .env("HOME", cluster.control_plane.folder())
        .env(
            "KUBECONFIG",
            cluster.control_plane.kubeconfig_for("admin").unwrap(),
        )
        .output()
        .await?;
    if !output.status.success() {
        bail!("{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Whether each command of the document is run once, or as if someone was interrupted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Once,
    /// Repeats each command, and begins again in the middle.
    Again,
}

/// Follows the document. `change` is what replaces the command that installs.
async fn follow(cluster: &Cluster, run: Run, change: impl AsyncFn()) {
    let kind = kubewardens("ClusterAdmissionPolicy", "clusteradmissionpolicies");
    let controller = tokio::spawn(activate_policies(Api::all_with(cluster.client(), &kind)));
    let commands = commands("Another PolicyServer");
    let [copy, delete, install, finish] = &commands[..] else {
        panic!("four commands are expected: {commands:?}")
    };
    assert!(
        install.starts_with("make manifests") && install.contains("| kubectl apply -f -"),
        "{install}"
    );
    let in_force = async |when: &str| {
        assert_in_force(cluster, when).await;
        assert_active(cluster, when).await;
    };
    shell(
        cluster,
        "kubectl wait clusteradmissionpolicies --all --for=condition=PolicyActive",
    )
    .await
    .unwrap();
    let times = if run == Run::Again { 2 } else { 1 };
    for command in [copy, delete] {
        for _ in 0..times {
            shell(cluster, command).await.unwrap();
            in_force(command).await;
        }
    }
    let names: Vec<String> = policies(cluster).await.into_keys().collect();
    assert_eq!(names, [COPY, "persistent-pod-state-validation-copy"]);
    if run == Run::Again {
        let error = format!("{:#}", shell(cluster, copy).await.unwrap_err());
        assert!(error.contains("no objects passed to apply"), "{error}");
        shell(cluster, delete).await.unwrap();
        in_force("begun again").await;
    }

    change().await;
    in_force(install).await;
    for _ in 0..times {
        shell(cluster, finish).await.unwrap();
        in_force(finish).await;
    }
    let names: Vec<String> = policies(cluster).await.into_keys().collect();
    assert_eq!(names, [POLICY, "persistent-pod-state-validation"]);
    controller.abort();
}

async fn the_documented_sequence_moves_the_policies_with_helm(cluster: &Cluster) {
    let release = Release::new(cluster);
    // Without the sequence: Kubewarden refuses, and the policies stay in force where they are.
    let refused = async |values: Value| {
        let error = format!("{:#}", release.try_run("upgrade", values).unwrap_err());
        assert!(error.contains("the field is immutable"), "{error}");
        assert_in_force(cluster, "after the refused upgrade").await;
    };
    release.run("install", shared());
    refused(json!({})).await;
    follow(cluster, Run::Again, async || {
        drop(release.run("upgrade", arriving()));
    })
    .await;
    assert!(
        policies(cluster)
            .await
            .values()
            .all(|server| server == DEDICATED)
    );
    // Nothing runs on the former one any more.
    release.run("upgrade", json!({}));
    assert!(!may_look_up(cluster, NAMESPACE, "policy-server").await);

    refused(shared()).await;
    follow(cluster, Run::Once, async || {
        drop(release.run("upgrade", leaving()));
    })
    .await;
    assert!(
        policies(cluster)
            .await
            .values()
            .all(|server| server == "default")
    );
    release.run("upgrade", shared());
    assert!(!may_look_up(cluster, NAMESPACE, "policy-server-persistent-pod-state").await);
    let servers = cluster
        .control_plane
        .kubectl(&["get", "policyservers", "--output=name"])
        .await
        .unwrap();
    assert_eq!(servers.lines().count(), 1, "{servers}");
    release.run("uninstall", json!({}));
}

async fn the_documented_sequence_moves_the_policies_with_kubectl(cluster: &Cluster) {
    let apply = async |folder: &str| {
        let objects = render_kustomize(folder).unwrap();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let file = Scratch::file("objects.json", list.to_string()).unwrap();
        // The CRD is too large for the annotation of a client-side apply in some versions; the
        // server's is the same here.
        cluster
            .control_plane
            .kubectl(&["apply", "-f", &file.argument()])
            .await
    };
    let overlay = "deploy/overlays/shared-policy-server";
    apply("deploy").await.unwrap();
    for (folder, server) in [(overlay, "default"), ("deploy", DEDICATED)] {
        // Without the sequence: Kubewarden refuses, and the policies stay in force where they are.
        let error = apply(folder).await.unwrap_err();
        assert!(
            format!("{error:#}").contains("the field is immutable"),
            "{error:#}"
        );
        assert_in_force(cluster, "after an overlay was applied in passing").await;
        follow(cluster, Run::Once, async || {
            drop(apply(folder).await.unwrap());
        })
        .await;
        assert!(
            policies(cluster).await.values().all(|used| used == server),
            "{folder}"
        );
    }
}
