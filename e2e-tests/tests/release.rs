//! The output of `make release`.

use std::{
    collections::BTreeSet,
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use nix::unistd::geteuid;
use pps_e2e::{
    cluster::Cluster,
    control_plane::ADMIN,
    manifests::{
        self,
        render::{REQUIRED, helm, render_chart, render_kustomize},
    },
    programs::Group,
    registry::{
        digest,
        foreign::{self, NATIVE},
    },
    report,
    repository::{policy_path, repository_file},
    supervisor::Supervisor,
};
use serde_json::{Value, json};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The program that this variable names.
fn built(variable: &str) -> Option<PathBuf> {
    env::var_os(variable)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// What stands in for the plugin says its version: to compress a debug build takes seconds.
fn plugin_or_stand_in(folder: &Path) -> PathBuf {
    built("PPS_STATIC_PLUGIN").unwrap_or_else(|| {
        let program = folder.join("stand-in-plugin");
        let script = format!("#!/bin/sh\n[ \"$1\" = --version ] && echo kubectl-pps {VERSION}\n");
        write_program(&program, script.as_bytes());
        program
    })
}

fn write_program(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn release(dist: &Path, tag: &str) -> Output {
    let folder = dist.parent().unwrap();
    fs::create_dir_all(folder).unwrap();
    // Without release builds it names a debug build, which takes seconds to compress.
    let sidecar = built("PPS_STATIC_SIDECAR").filter(|_| built("PPS_STATIC_PLUGIN").is_some());
    Command::new(repository_file("hack/release.sh"))
        .env("DIST", dist)
        .env("TAG", tag)
        .env("PPS_POLICY_WASM", policy_path())
        .env(
            "PPS_STATIC_SIDECAR",
            sidecar.unwrap_or_else(|| foreign::stand_in(folder, NATIVE).unwrap()),
        )
        .env(
            "PPS_FOREIGN_SIDECAR",
            foreign::sidecar_or_stand_in(folder).unwrap(),
        )
        .env("PPS_STATIC_PLUGIN", plugin_or_stand_in(folder))
        .env(
            "PPS_FOREIGN_PLUGIN",
            foreign::sidecar_or_stand_in(folder).unwrap(),
        )
        .output()
        .unwrap()
}

fn digest_sums(dist: &Path) -> String {
    fs::read_to_string(dist.join("SHA256SUMS")).unwrap()
}

#[test]
fn release_is_complete_and_reproducible() {
    // Used for its temporary folder.
    let supervisor = Supervisor::start().unwrap();
    let dist = supervisor.folder().join("dist");
    let made = release(&dist, "");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );

    let files: BTreeSet<String> = fs::read_dir(&dist)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    let chart = format!("persistent-pod-state-{VERSION}.tgz");
    for name in [
        "artifacthub-pkg.yml",
        "artifacthub-repo.yml",
        "README.md",
        "policy.wasm",
        "install.yaml",
        "RELEASE_NOTES.md",
        &chart,
    ] {
        assert!(files.contains(name), "{name} is not in {files:?}");
    }
    for architecture in ["amd64", "arm64"] {
        let name = format!("pps-sidecar-linux-{architecture}");
        let program = fs::read(dist.join(&name)).unwrap();
        assert_eq!(foreign::architecture_of(&program).unwrap(), architecture);
        lists_components(&dist, &name, &["kube", "ring"], &["wapc-guest", "proptest"]);
        let plugin = format!("kubectl-pps-linux-{architecture}");
        lists_components(
            &dist,
            &plugin,
            &["kube", "clap"],
            &["wapc-guest", "proptest"],
        );
    }
    the_plugin_can_be_installed(&dist, supervisor.folder());
    let sums = digest_sums(&dist);
    let summed: BTreeSet<&str> = sums
        .lines()
        .map(|line| line.split_once("  ").unwrap().1)
        .collect();
    assert_eq!(
        summed,
        files
            .iter()
            .map(String::as_str)
            .filter(|name| *name != "SHA256SUMS")
            .collect()
    );
    let check = Command::new("sha256sum")
        .args(["--check", "--quiet", "SHA256SUMS"])
        .current_dir(&dist)
        .status();
    assert!(check.unwrap().success());

    // The manifests and the chart are those that other tests check.
    let objects = |name: &str| manifests::read(&dist.join(name)).unwrap();
    assert_eq!(objects("install.yaml"), render_kustomize("deploy").unwrap());
    for overlay in fs::read_dir(repository_file("deploy/overlays")).unwrap() {
        let name = overlay.unwrap().file_name().into_string().unwrap();
        let rendered = render_kustomize(&format!("deploy/overlays/{name}")).unwrap();
        assert_eq!(objects(&format!("install-{name}.yaml")), rendered);
    }
    let packed = dist.join(chart);
    let required = repository_file(REQUIRED).display().to_string();
    let arguments = [
        "template",
        "pps",
        packed.to_str().unwrap(),
        "--namespace",
        "persistent-pod-state",
    ];
    let rendered = helm(&[&arguments[..], &["--values", &required]].concat());
    let unpacked = render_chart("pps", "persistent-pod-state", None).unwrap();
    assert_eq!(manifests::parse(&rendered.unwrap()).unwrap(), unpacked);

    lists_components(
        &dist,
        "policy",
        &["wapc-guest", "serde_json"],
        &["kube", "tokio"],
    );
    assert!(
        !fs::read_to_string(dist.join("RELEASE_NOTES.md"))
            .unwrap()
            .trim()
            .is_empty()
    );

    let again = supervisor.folder().join("again");
    assert!(release(&again, "").status.success());
    assert_eq!(digest_sums(&again), sums);
}

/// The software bill of materials names what is compiled in, and not what other programs have.
fn lists_components(dist: &Path, name: &str, present: &[&str], absent: &[&str]) {
    let list = fs::read(dist.join(format!("{name}-sbom.cdx.json"))).unwrap();
    let list: Value = serde_json::from_slice(&list).unwrap();
    assert_eq!(list["bomFormat"], "CycloneDX", "{name}");
    let components = list["components"].as_array().unwrap();
    let has = |name: &&&str| components.iter().any(|one| one["name"] == **name);
    assert_eq!(present.iter().filter(has).count(), present.len(), "{name}");
    assert_eq!(absent.iter().filter(has).count(), 0, "{name}");
}

/// As krew does it: the archive that the manifest names, checked and unpacked; then kubectl finds
/// the program.
fn the_plugin_can_be_installed(dist: &Path, folder: &Path) {
    let manifest = manifests::read(&dist.join("pps.yaml")).unwrap().remove(0);
    let platforms = manifest["spec"]["platforms"].as_array().unwrap();
    assert_eq!(platforms.len(), 2);
    for platform in platforms {
        let labels = &platform["selector"]["matchLabels"];
        let (os, architecture) = (
            labels["os"].as_str().unwrap(),
            labels["arch"].as_str().unwrap(),
        );
        let name = format!("kubectl-pps-{VERSION}-{os}-{architecture}.tar.gz");
        let uri = platform["uri"].as_str().unwrap();
        assert!(
            uri.starts_with("https://") && uri.ends_with(&format!("/download/v{VERSION}/{name}")),
            "{uri}"
        );
        let archive = fs::read(dist.join(&name)).unwrap();
        assert_eq!(
            format!("sha256:{}", platform["sha256"].as_str().unwrap()),
            digest(&archive)
        );
        let installed = folder.join(architecture);
        fs::create_dir_all(&installed).unwrap();
        let unpacked = Command::new("tar")
            .args(["--extract", "--gzip", "--file"])
            .arg(dist.join(&name))
            .current_dir(&installed)
            .status();
        assert!(unpacked.unwrap().success());
        for file in [
            "LICENSE",
            "kubectl-pps.1",
            "kubectl_complete-pps",
            platform["bin"].as_str().unwrap(),
        ] {
            assert!(installed.join(file).is_file(), "{file}");
        }
    }
    let path = format!(
        "{}:{}",
        folder.join(NATIVE).display(),
        std::env::var("PATH").unwrap()
    );
    let kubectl = Group::Kubernetes.program("kubectl").unwrap();
    let answer = Command::new(kubectl)
        .args(["pps", "--version"])
        .env("PATH", path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(said.contains(VERSION), "{answer:?}");
}

/// glibc's name service is modules of the system, and of another version they end a static program.
#[tokio::test]
async fn the_plugin_looks_up_names_where_no_other_file_is() {
    let Some(built) = built("PPS_STATIC_PLUGIN").filter(|_| geteuid().is_root()) else {
        let remedy =
            "run make release-tests as root, which builds the plugin and sets PPS_STATIC_PLUGIN";
        return report::skipped("the_plugin_looks_up_names_where_no_other_file_is", remedy);
    };
    let program = fs::read(built).unwrap();
    let glibc = b"/etc/nsswitch.conf";
    assert!(
        !program.windows(glibc.len()).any(|bytes| bytes == glibc),
        "the plugin has glibc inside"
    );

    let cluster = Cluster::builder().product().start().await.unwrap();
    let control_plane = &cluster.control_plane;
    let (name, root) = (
        "kubernetes.default.svc",
        control_plane.folder().join("root"),
    );
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/hosts"), format!("127.0.0.1 {name}\n")).unwrap();
    write_program(&root.join("kubectl-pps"), &program);
    fs::write(root.join("ca.crt"), control_plane.authority()).unwrap();
    let kubeconfig = fs::read(control_plane.kubeconfig_for(ADMIN).unwrap()).unwrap();
    let mut kubeconfig: Value = serde_json::from_slice(&kubeconfig).unwrap();
    let server = control_plane.url().replace("127.0.0.1", name);
    kubeconfig["clusters"][0]["cluster"] =
        json!({"server": server, "certificate-authority": "/ca.crt"});
    fs::write(root.join("kubeconfig"), kubeconfig.to_string()).unwrap();
    let mut status = Command::new("/usr/sbin/chroot");
    let status = status
        .arg(&root)
        .args(["/kubectl-pps", "status", "--all-namespaces"]);
    let answer = status
        .env_clear()
        .env("KUBECONFIG", "/kubeconfig")
        .output()
        .unwrap();
    assert!(answer.status.success(), "{answer:?}");
}

#[test]
fn refuses_a_tag_that_is_not_the_version() {
    let supervisor = Supervisor::start().unwrap();
    let dist = supervisor.folder().join("dist");
    let refused = release(&dist, "v9.9.9");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success());
    assert!(
        said.contains(&format!(
            "the tag is v9.9.9, but the version in Cargo.toml is {VERSION}"
        )),
        "{said}"
    );
    assert!(!dist.exists());
}
