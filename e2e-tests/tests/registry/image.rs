//! The sidecar's image, in a registry and as a root file system.

use std::{
    collections::BTreeSet,
    fs,
    net::TcpListener,
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Command, Output},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use nix::unistd::geteuid;
use pps_e2e::{
    control_plane::ServerCertificate,
    registry::{
        ImageConfig, Manifest, Publisher, digest, media_type, publish::static_sidecar_path,
    },
};

use super::{VERSION, provenance};

/// One push for all: to compress the program takes seconds. `registry::policy` tries every kind of
/// registry, and `registry::platforms` a second push.
#[tokio::test]
async fn an_image_can_be_pulled_and_run() {
    let (supervisor, registry) = super::start(super::with_password()).await;
    let (publisher, reader) = (Publisher::to(&registry), registry.reader().unwrap());
    let repository = format!("{}/pps/persistent-pod-state-sidecar", registry.host());
    let registry = format!("{}/pps", registry.host());
    let pushed = publisher.image(&registry).await.unwrap();
    let tagged = reader
        .manifest(&format!("{repository}:v{VERSION}"))
        .await
        .unwrap();
    assert_eq!(pushed, format!("{repository}@{}", tagged.digest));
    let root = supervisor.folder().join("root");
    let config = reader.pull_image(&pushed, &root).await.unwrap();
    has_labels_user_and_exactly_one_file(&tagged, &config, &root);
    runs_as_its_user_with_no_other_files(&config, &root);
}

fn has_labels_user_and_exactly_one_file(manifest: &Manifest, config: &ImageConfig, root: &Path) {
    assert_eq!(manifest.media_type, media_type::MANIFEST);
    assert_eq!(manifest.layers.len(), 1);
    let architecture = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "amd64"
    };
    assert_eq!(
        (config.os.as_str(), config.architecture.as_str()),
        ("linux", architecture)
    );
    assert_eq!(config.user(), "65532:65532");
    assert_eq!(config.entrypoint(), ["/pps-sidecar"]);
    // Builders set it; nothing of it is in the image.
    let is_path = |variable: &String| variable.starts_with("PATH=");
    assert!(config.env().iter().all(is_path), "{:?}", config.env());
    for (key, value) in provenance() {
        assert_eq!(config.labels().get(key), Some(&value), "{key}");
    }
    assert_eq!(
        config.labels()["org.opencontainers.image.created"],
        config.created
    );
    let revision = &config.labels()["org.opencontainers.image.revision"];
    assert!(revision.len() >= 40, "{revision}");

    let files: BTreeSet<_> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(files, BTreeSet::from(["pps-sidecar".into()]));
    let program = root.join("pps-sidecar");
    let built = fs::read(static_sidecar_path().unwrap()).unwrap();
    assert_eq!(digest(&fs::read(&program).unwrap()), digest(&built));
    let file = fs::metadata(program).unwrap();
    assert_eq!(file.mode() & 0o7777, 0o755);
    if geteuid().is_root() {
        assert_eq!((file.uid(), file.gid()), (0, 0));
    }
}

fn runs_as_its_user_with_no_other_files(config: &ImageConfig, root: &Path) {
    let answer = run_in(root, config, "10", &["--version"]);
    assert!(answer.status.success(), "{answer:?}");
    assert_eq!(
        String::from_utf8_lossy(&answer.stdout),
        format!("pps-sidecar {VERSION}\n")
    );

    // Names are resolved as in a Pod, with the files that a kubelet provides. The server accepts
    // but never responds.
    fs::create_dir(root.join("etc")).unwrap();
    fs::write(root.join("etc/hosts"), "127.0.0.1 here.example\n").unwrap();
    fs::write(
        root.join("etc/resolv.conf"),
        "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
    )
    .unwrap();
    let authority = ServerCertificate::generate("unused").unwrap().authority;
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let port = server.local_addr().unwrap().port();
    // The sidecar waits for an answer for three seconds.
    for (host, seconds, is_called) in [("nowhere.example", "2", false), ("here.example", "5", true)]
    {
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "a", "cluster": {
                "server": format!("https://{host}:{port}"),
                "certificate-authority-data": STANDARD.encode(&authority)}}],
            "users": [{"name": "a", "user": {"token": "a"}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "current-context": "a",
        });
        fs::write(root.join("kubeconfig"), kubeconfig.to_string()).unwrap();
        let args = [
            "--kubeconfig",
            "/kubeconfig",
            "--admin-address",
            "127.0.0.1:0",
        ];
        let answer = run_in(root, config, seconds, &args);
        // It retried until `timeout` ended it.
        assert_eq!(answer.status.code(), Some(124), "{host}: {answer:?}");
        assert_eq!(server.accept().is_ok(), is_called, "{host}: {answer:?}");
    }
}

/// Runs the image's program in its root file system, as the image's user where that is possible,
/// for so many seconds at most.
fn run_in(root: &Path, config: &ImageConfig, seconds: &str, args: &[&str]) -> Output {
    let mut command = if geteuid().is_root() {
        let mut command = Command::new("chroot");
        command.arg(format!("--userspec={}", config.user()));
        command
    } else {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "chroot"]);
        command
    };
    command.arg(root).args(config.entrypoint()).args(args);
    let mut limited = Command::new("timeout");
    limited
        .args(["--kill-after=1", seconds])
        .arg(command.get_program())
        .args(command.get_args());
    // PATH is needed to find `timeout` and `chroot`. The program gets no other variable.
    limited
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap()
}
