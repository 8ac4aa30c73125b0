//! Plays `docs/break-glass.md`: each block of commands runs unchanged, with the kubectl of the
//! control plane, in the situation for which the document has it.
//!
//! Kubewarden's controller does not run here, as if it were down too. What it does later, the test
//! does: it removes the finalizer of a deleted policy, and says that a policy is active.

mod fail_open;
mod gitops;
mod with_helm;
mod zone;

use std::{ffi::OsString, fs, path::PathBuf, process::Stdio, time::Duration};

use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use pps_e2e::{
    cluster::{Cluster, StatefulSetSpec},
    control_plane::ADMIN,
    install::installed_policies,
    kubewarden::{self, policy_server},
    manifests::render::render_kustomize,
    plugin,
    programs::Group,
    report,
    repository::repository_file,
    wait::{Progress, wait_for},
};
use serde_json::json;

use crate::support::{
    HOSTNAME, TIMEOUT, WHILE,
    installed::{ACCOUNT, Home, Installed},
    require_jq, wait_for_permission,
};

/// The blocks of the document. A sequence below plays each of them.
const BLOCKS: [&str; 22] = [
    "one-namespace",
    "retry",
    "keep",
    "ignore",
    "all-namespaces",
    "pause Argo CD",
    "pause Flux",
    "install",
    "install with Helm",
    "one-namespace-back",
    "active",
    "away",
    "away without the plugin",
    "return",
    "record",
    "resume Argo CD",
    "resume Flux",
    "may-it",
    "grant",
    "registry",
    "definition",
    "status",
];
/// Kubewarden's finalizer on its policies.
const FINALIZER: &str = "kubewarden.io/finalizer";

fn document() -> String {
    fs::read_to_string(repository_file("docs/break-glass.md")).unwrap()
}

/// The named blocks of commands. Lines that do not begin with `$ ` continue a command.
fn blocks(text: &str) -> Vec<(String, Vec<String>)> {
    let mut blocks: Vec<(String, Vec<String>)> = Vec::new();
    let (mut name, mut is_inside) = (None, false);
    for line in text.lines() {
        let line = line.trim_start();
        if let Some(rest) = line.strip_prefix("<!-- played: ") {
            name = rest.strip_suffix(" -->").map(str::to_owned);
        } else if line == "```console" {
            is_inside = true;
            blocks.push((
                name.take().expect("each block of commands has a name"),
                Vec::new(),
            ));
        } else if line.starts_with("```") {
            is_inside = false;
        } else if is_inside {
            let commands = &mut blocks.last_mut().unwrap().1;
            if let Some(command) = line.strip_prefix("$ ") {
                commands.push(command.to_owned());
            } else {
                let command = commands.last_mut().expect("a command comes first");
                command.push('\n');
                command.push_str(line);
            }
        }
    }
    blocks
}

/// The commands of a block of the document.
fn commands(block: &str) -> Vec<String> {
    let mut blocks = blocks(&document()).into_iter();
    blocks
        .find(|(name, _)| name == block)
        .map(|(_, commands)| commands)
        .unwrap()
}

#[test]
fn every_block_of_the_document_is_played() {
    let text = document();
    let names: Vec<String> = blocks(&text).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, BLOCKS);
    assert!(!text.contains("```sh"), "only console blocks are played");
}

#[test]
fn commands_may_have_several_lines() {
    let text = "<!-- played: a -->\n  ```console\n  $ b |\n      c\n  $ d\n  ```\n";
    assert_eq!(
        blocks(text),
        [("a".to_owned(), vec!["b |\nc".to_owned(), "d".to_owned()])]
    );
}

/// A reader of the document, at work in a folder.
struct Reader {
    folder: PathBuf,
    kubeconfig: PathBuf,
    path: OsString,
}

impl Reader {
    fn new(cluster: &Cluster) -> Self {
        let control_plane = &cluster.control_plane;
        let folder = control_plane.folder().join("break-glass");
        // The document names this file of a checkout. JSON is valid YAML.
        let definition = "deploy/base/crd.yaml";
        fs::create_dir_all(folder.join("deploy/base")).unwrap();
        fs::copy(repository_file(definition), folder.join(definition)).unwrap();
        let folders = [
            plugin::folder().unwrap(),
            Group::Kubernetes.folder().unwrap(),
        ];
        Self {
            folder,
            kubeconfig: control_plane.kubeconfig_for(ADMIN).unwrap(),
            path: plugin::search_path(&folders).unwrap(),
        }
    }

    /// Runs the commands of a block. Returns what they print, and whether all of them succeeded.
    async fn run(&self, block: &str) -> (String, bool) {
        self.run_commands(&commands(block)).await
    }

    async fn run_commands(&self, commands: &[String]) -> (String, bool) {
        let (mut printed, mut succeeded) = (String::new(), true);
        for command in commands {
            let output = tokio::process::Command::new("bash")
                .args(["-o", "pipefail", "-c", command])
                .current_dir(&self.folder)
                .env("KUBECONFIG", &self.kubeconfig)
                .env("HOME", &self.folder)
                .env("PATH", &self.path)
                .stdin(Stdio::null())
                .kill_on_drop(true)
                .output();
            let output = tokio::time::timeout(Duration::from_mins(2), output)
                .await
                .unwrap()
                .unwrap();
            succeeded &= output.status.success();
            printed.push_str(&String::from_utf8_lossy(&output.stdout));
            printed.push_str(&String::from_utf8_lossy(&output.stderr));
        }
        (printed, succeeded)
    }

    /// Creates the policies again. The manifests are those that the harness has installed: they
    /// name another registry than `deploy`.
    async fn install(&self, installed: &Installed) {
        let folder = installed
            .cluster
            .control_plane
            .folder()
            .join("installation");
        let objects = render_kustomize(&folder.display().to_string()).unwrap();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        fs::write(self.folder.join("installed.json"), list.to_string()).unwrap();
        let [command] = &commands("install")[..] else {
            panic!("one command is expected")
        };
        let (_, rest) = command
            .split_once("make manifests REGISTRY=registry.example.com/pps")
            .unwrap();
        let (printed, succeeded) = self
            .run_commands(&[format!("cat installed.json {rest}")])
            .await;
        assert!(
            succeeded && printed.contains("clusteradmissionpolicy"),
            "{printed}"
        );
        assert!(
            !printed.contains("deployment"),
            "the sidecar starts too early: {printed}"
        );
    }

    /// Runs a block that has to succeed.
    async fn play(&self, block: &str) -> String {
        let (printed, succeeded) = self.run(block).await;
        assert!(succeeded, "{block}: {printed}");
        printed
    }
}

fn policy_kind() -> ApiResource {
    ApiResource {
        group: "policies.kubewarden.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "policies.kubewarden.io/v1".to_owned(),
        kind: "ClusterAdmissionPolicy".to_owned(),
        plural: "clusteradmissionpolicies".to_owned(),
    }
}

impl Installed {
    fn policies(&self) -> Api<DynamicObject> {
        Api::all_with(self.cluster.client(), &policy_kind())
    }

    /// Kubewarden has a finalizer on each policy.
    async fn finalize_policy(&self) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": [FINALIZER]}}));
        self.policies()
            .patch("persistent-pod-state", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Kubewarden's controller is back: a deleted policy goes.
    async fn release_policy(&self) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        self.policies()
            .patch("persistent-pod-state", &PatchParams::default(), &patch)
            .await
            .unwrap();
        wait_for("the deleted policy to be gone", TIMEOUT, async || {
            let found = self.policies().get_opt("persistent-pod-state").await?;
            Ok(Progress::when(found.is_none(), (), "still there"))
        })
        .await
        .unwrap();
    }

    /// Kubewarden's controller says that the policy is active.
    async fn activate_policy(&self) {
        let condition = json!({"type": "PolicyActive", "status": "True", "reason": "PolicyActive",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let patch =
            Patch::Merge(json!({"status": {"policyStatus": "active", "conditions": [condition]}}));
        self.policies()
            .patch_status("persistent-pod-state", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    async fn wait_for_sidecars(&self, count: usize) {
        wait_for(&format!("{count} sidecars"), TIMEOUT, async || {
            let pods = self.installation.sidecars(&self.cluster).await?.len();
            Ok(Progress::when(pods == count, (), pods))
        })
        .await
        .unwrap();
        if count > 0 {
            self.installation
                .wait_available(&self.cluster)
                .await
                .unwrap();
        }
    }

    /// Asserts that the API server refuses the Pod with a message that begins like this, as the
    /// document says.
    async fn assert_refused(&self, home: &Home, part: &str) {
        let part = format!("create Pod db-0 in StatefulSet db failed error: {part}");
        // After the refusals of a former sequence its controller waits.
        self.retry(&[home.namespace]).await;
        self.refusal(home.namespace, "db", &part).await;
        assert!(
            document().contains(&part),
            "docs/break-glass.md does not say {part:?}"
        );
        tokio::time::sleep(WHILE).await;
        assert_eq!(home.pod(self).await, None);
    }
}

/// The beginnings of the messages, up to what differs from case to case.
const NO_ANSWER: &str = "Internal error occurred: failed calling webhook \
                         \"clusterwide-persistent-pod-state.kubewarden.admission\": ";
const CANNOT_LOOK_UP: &str = "admission webhook \"clusterwide-persistent-pod-state.kubewarden.admission\" denied the \
     request: cannot look up the PersistentPodState of StatefulSet db in namespace shop: ";

#[tokio::test]
async fn each_sequence_of_the_document_leads_back() {
    require_jq();
    let mut installed = Installed::start().await;
    let reader = Reader::new(&installed.cluster);
    let home = installed.run_recorded("shop").await;
    gitops::argo_cd_and_flux_pause(&installed, &reader).await;
    two_commands_let_pods_start(&mut installed, &reader, &home).await;
    zone::pods_in_their_zone_are_where_they_belong(&installed, &reader).await;
    a_label_lets_the_pods_of_a_namespace_start(&mut installed, &reader, &home).await;
    a_missing_permission_is_found_and_granted(&mut installed, &reader, &home).await;
    a_deleted_definition_comes_back_with_what_was_recorded(&mut installed, &reader, &home).await;
    assert_eq!(installed.installation.problems(), Vec::<String>::new());
}

/// The Pods that run elsewhere go back, and the sidecar records again.
async fn go_back(installed: &Installed, reader: &Reader, home: &Home) {
    let away = home.pod(installed).await.unwrap().node.unwrap();
    let line = format!(
        "{}/db-0 belongs to {HOSTNAME}={} and is on {away}",
        home.namespace, home.node
    );
    assert_eq!(
        reader
            .play("away without the plugin")
            .await
            .lines()
            .collect::<Vec<_>>(),
        [line]
    );
    // The plugin ends with 1, as there is something to do.
    let (problems, _) = reader.run("away").await;
    let advice = "db-0 is on a node without the required labels";
    assert!(
        problems.contains(advice) && document().contains("on a node without the required labels"),
        "{problems}"
    );
    reader.play("return").await;
    home.assert_back(installed).await;
    assert_eq!(reader.play("away without the plugin").await, "");
    let (problems, _) = reader.run("away").await;
    assert!(!problems.contains("db-0"), "{problems}");
    reader.play("record").await;
    installed.wait_for_sidecars(2).await;
    home.assert_recorded(installed).await;
}

async fn two_commands_let_pods_start(installed: &mut Installed, reader: &Reader, home: &Home) {
    installed.finalize_policy().await;
    installed.stop_policy_server().await;
    home.delete_pod(installed).await;
    installed.assert_refused(home, NO_ANSWER).await;
    a_registry_starts_without_the_policy_server(installed, reader).await;

    reader.play("keep").await;
    installed.wait_for_sidecars(0).await;
    reader.play("all-namespaces").await;
    reader.play("retry").await;
    home.assert_away(installed).await;
    home.assert_recorded(installed).await;

    installed.release_policy().await;
    reader.install(installed).await;
    installed.wait_for_sidecars(0).await;
    installed.serve(ACCOUNT).await.unwrap();
    installed.activate_policy().await;
    reader.play("active").await;
    go_back(installed, reader, home).await;
}

/// With the scope `OptIn`, in which the namespace has the label with the other value.
async fn a_label_lets_the_pods_of_a_namespace_start(
    installed: &mut Installed,
    reader: &Reader,
    home: &Home,
) {
    installed.label(home.namespace, "enabled").await;
    let all = installed.opt_in().await;
    installed.serve(ACCOUNT).await.unwrap();
    installed.stop_policy_server().await;
    home.delete_pod(installed).await;
    installed.assert_refused(home, NO_ANSWER).await;

    reader.play("one-namespace").await;
    reader.play("retry").await;
    home.assert_away(installed).await;
    // The sidecar runs, and changes nothing in the namespace.
    home.assert_recorded(installed).await;

    reader.play("keep").await;
    installed.wait_for_sidecars(0).await;
    reader.play("one-namespace-back").await;
    installed.serve(ACCOUNT).await.unwrap();
    go_back(installed, reader, home).await;
    installed.set_selector(&all).await;
    installed.serve(ACCOUNT).await.unwrap();
}

async fn a_missing_permission_is_found_and_granted(
    installed: &mut Installed,
    reader: &Reader,
    home: &Home,
) {
    let binding = [
        "delete",
        "clusterrolebinding",
        "pps-policy-persistent-pod-state",
    ];
    installed
        .cluster
        .control_plane
        .kubectl(&binding)
        .await
        .unwrap();
    let user = format!("system:serviceaccount:{}:{ACCOUNT}", kubewarden::NAMESPACE);
    let may = async |may| {
        wait_for_permission(
            &installed.cluster,
            &user,
            "apps.kruise.io",
            "persistentpodstates",
            "get",
            may,
        )
        .await;
    };
    may(false).await;
    home.delete_pod(installed).await;
    installed.assert_refused(home, CANNOT_LOOK_UP).await;

    let (answer, allowed) = reader.run("may-it").await;
    assert!(answer.contains("no") && !allowed, "{answer}");
    reader.play("grant").await;
    may(true).await;
    assert!(reader.play("may-it").await.contains("yes"));
    reader.play("retry").await;
    home.assert_back(installed).await;
}

/// Power is back, and no Pod runs yet. The PolicyServer can only start once the registry runs, from
/// which it pulls its module. That all other Pods start then is tested in `contained`.
async fn a_registry_starts_without_the_policy_server(installed: &Installed, reader: &Reader) {
    let cluster = &installed.cluster;
    cluster
        .create_stateful_set(&StatefulSetSpec::new("registry", "registry", 1))
        .await
        .unwrap();
    installed
        .refusal("registry", "registry", "failed calling webhook")
        .await;
    reader.play("registry").await;
    reader.play("retry").await;
    cluster
        .wait_ready("registry", "registry", 1, TIMEOUT)
        .await
        .unwrap();
}

async fn a_deleted_definition_comes_back_with_what_was_recorded(
    installed: &mut Installed,
    reader: &Reader,
    home: &Home,
) {
    reader.play("keep").await;
    installed.wait_for_sidecars(0).await;
    let definition = ["delete", "crd", "persistentpodstates.apps.kruise.io"];
    installed
        .cluster
        .control_plane
        .kubectl(&definition)
        .await
        .unwrap();
    // Who follows the document from its beginning saves again. There is nothing to save any more.
    let (printed, saved) = reader.run("keep").await;
    assert!(!saved, "{printed}");
    home.delete_pod(installed).await;
    home.assert_away(installed).await;

    reader.play("definition").await;
    reader.play("status").await;
    home.assert_recorded(installed).await;
    go_back(installed, reader, home).await;
}

/// What the document says about a module that cannot be pulled, seen on Kubewarden's own
/// PolicyServer.
#[tokio::test]
async fn the_real_policy_server_ends_if_it_cannot_pull_a_module() {
    let test = "the_real_policy_server_ends_if_it_cannot_pull_a_module";
    if policy_server::executable().is_none() {
        return report::skipped(
            test,
            "set POLICY_SERVER=… (Kubewarden's executable) to run it",
        );
    }
    let mut installed = Installed::start().await;
    let missing = format!(
        "registry://{}:missing",
        installed
            .installation
            .published
            .policy
            .split_once('@')
            .unwrap()
            .0
    );
    let patch = json!({"spec": {"module": missing}}).to_string();
    for policy in installed_policies(&installed.cluster).await.unwrap() {
        let name = policy.id();
        let name = name.trim_start_matches("clusterwide-");
        let patch = [
            "patch",
            "clusteradmissionpolicy",
            name,
            "--type=merge",
            "--patch",
            &patch,
        ];
        installed
            .cluster
            .control_plane
            .kubectl(&patch)
            .await
            .unwrap();
    }
    let error = format!("{:#}", installed.serve(ACCOUNT).await.unwrap_err());
    report::note(&error);
    assert!(error.contains("the PolicyServer ended"), "{error}");
    let part = "Error while downloading policy";
    assert!(error.contains(part) && document().contains(part), "{error}");
}
