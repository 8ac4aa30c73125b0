//! The pages of docs/ that are organised by task and symptom: their commands are run as they are
//! printed.
//!
//! One control plane, on which the product is installed as the quick start says, with the harness
//! in place of kind. A block after `<!-- not run: … -->` is not run, see [`NOT_HERE`].

pub(crate) mod page;
pub(crate) mod scenes;
pub(crate) mod shell;

use std::{fs, path::Path};

use pps_e2e::{
    cluster::Cluster, control_plane::ADMIN, install::Installation, kubewarden::Controller,
    manifests::render, plugin, programs::Group, report, repository::repository_file,
    scratch::Scratch,
};

use page::Page;
use scenes::Stage;
use shell::Shell;

use crate::support::require_jq;

/// The pages whose commands are run, in this order.
const PAGES: [&str; 5] = [
    "docs/quick-start.md",
    "docs/local-volumes.md",
    "docs/troubleshooting.md",
    "docs/drains-and-autoscalers.md",
    "docs/operations.md",
];
/// Why blocks are not run, and the programs that they need: a machine without network and
/// containers has none.
const NOT_HERE: [(&str, &[&str]); 5] = [
    ("kind", &["docker", "kind"]),
    ("k3d", &["k3d"]),
    ("its chart is in another repository", &["helm"]),
    (
        "the test pushes to a registry of its own",
        &["make publish"],
    ),
    ("velero", &["velero"]),
];

#[test]
fn only_commands_that_cannot_run_here_are_left_out() {
    let mut used: Vec<&str> = Vec::new();
    for page in PAGES.map(Page::read) {
        for block in &page.blocks {
            let Some(why) = &block.not_run else { continue };
            let at = format!("{}:{}", page.path, block.line);
            let (why, programs) = NOT_HERE
                .iter()
                .find(|(known, _)| known == why)
                .unwrap_or_else(|| panic!("{at}: {why} is no known reason why a block is not run"));
            for command in &block.commands {
                let uses = |program: &&str| {
                    command
                        .text()
                        .lines()
                        .any(|line| line.trim_start().starts_with(*program))
                };
                assert!(
                    programs.iter().any(uses),
                    "{at}: run it, it needs none of {programs:?}"
                );
            }
            used.push(*why);
        }
    }
    for (why, _) in NOT_HERE {
        assert!(
            used.contains(&why),
            "no block is left out because of: {why}"
        );
    }
}

#[tokio::test]
async fn commands_of_the_pages_do_what_they_show() {
    require_jq();
    let mut cluster = Cluster::builder()
        .without_crd()
        .nodes(3, 1)
        .start()
        .await
        .unwrap();
    let _controller = Controller::install(&cluster).await.unwrap();
    let installation = Installation::publish(&cluster).await.unwrap();
    let scratch = Scratch::folder("pages").unwrap();
    let shell = start_shell(&cluster, &installation, scratch.path()).await;
    let mut stage = Stage {
        cluster: &mut cluster,
        installation,
        shell,
    };
    let mut problems = Vec::new();
    for page in PAGES.map(Page::read) {
        for block in page.blocks.iter().filter(|block| block.not_run.is_none()) {
            let at = format!("{}:{}", page.path, block.line);
            report::note(&at);
            if let Err(problem) = stage.play(block).await {
                report::note(&problem);
                problems.push(format!("{at}: {problem}"));
                // What comes later needs what comes first.
                assert!(problems.len() < 3, "{}", problems.join("\n\n"));
            }
        }
    }
    assert!(
        problems.is_empty(),
        "{} blocks do not work:\n\n{}",
        problems.len(),
        problems.join("\n\n")
    );
}

/// The reader's shell, in a folder with what scenes need, where the checkout's chart and plugin are
/// installed from a registry without TLS.
async fn start_shell(cluster: &Cluster, installation: &Installation, folder: &Path) -> Shell {
    let (registry, _) = installation.published.sidecar.split_once('/').unwrap();
    let registries = [
        "localhost:5001/pps",
        "kind-registry:5000/pps",
        "kind-registry:5000",
    ];
    let replacements = registries
        .map(|name| (name.to_owned(), registry.to_owned()))
        .to_vec();
    let chart = repository_file(render::CHART);
    start_shell_with(
        cluster,
        folder,
        &chart,
        &plugin::folder().unwrap(),
        replacements,
    )
    .await
}

/// The same, with a chart and the folder of a plugin.
pub(crate) async fn start_shell_with(
    cluster: &Cluster,
    folder: &Path,
    chart: &Path,
    plugin: &Path,
    mut replacements: Vec<(String, String)>,
) -> Shell {
    let control_plane = &cluster.control_plane;
    fs::write(folder.join("workload.sh"), scenes::workload()).unwrap();
    fs::write(folder.join("volume.yaml"), scenes::volume()).unwrap();

    let kubeconfig = control_plane.kubeconfig_for(ADMIN).unwrap();
    let folders = [
        Group::Kubernetes.folder().unwrap(),
        Group::Publish.folder().unwrap(),
        plugin.to_owned(),
    ];
    let path = plugin::search_path(&folders).unwrap();
    let variables = [("PATH", path), ("KUBECONFIG", kubeconfig.into_os_string())];

    replacements.push((
        "charts/persistent-pod-state".to_owned(),
        chart.display().to_string(),
    ));
    Shell::start(folder, &variables, replacements).await
}
