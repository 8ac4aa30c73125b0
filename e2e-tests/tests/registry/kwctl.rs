//! The real kwctl, where there is one: named by `KWCTL`, or on the PATH.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use pps_e2e::{
    cluster::policy_path, oci::digest, publish::Publisher, registry::Registry, supervisor::Supervisor,
};

use super::all_kinds;

fn kwctl() -> Option<PathBuf> {
    if let Some(named) = env::var_os("KWCTL").filter(|named| !named.is_empty()) {
        return Some(named.into());
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join("kwctl")).find(|path| path.is_file())
}

fn run(kwctl: &Path, registry: &Registry, home: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(kwctl);
    command.args(args).env("DOCKER_CONFIG", registry.docker_config()).env("XDG_CACHE_HOME", home);
    command.env("HOME", home).current_dir(home).output().unwrap()
}

#[tokio::test]
async fn kwctl_takes_what_was_pushed() {
    let Some(kwctl) = kwctl() else {
        eprintln!("skipped: there is no kwctl on the PATH or in KWCTL");
        return;
    };
    let supervisor = Supervisor::start().unwrap();
    let module = digest(&fs::read(policy_path()).unwrap());
    for options in all_kinds() {
        let home = supervisor.folder().join(format!("{}-home", options.name));
        fs::create_dir(&home).unwrap();
        let registry = Registry::start(&supervisor, options).await.unwrap();
        let reference = format!("{}/policies/persistent-pod-state:v1", registry.host());
        let pushed = Publisher::to(&registry).policy(&reference).await.unwrap();
        let sources = registry.sources().unwrap();
        let sources = sources.to_str().unwrap();
        for (index, from) in [reference, pushed.clone()].iter().enumerate() {
            let file = format!("policy-{index}.wasm");
            let uri = format!("registry://{from}");
            let output =
                run(&kwctl, &registry, &home, &["pull", "--sources-path", sources, "-o", &file, &uri]);
            assert!(output.status.success(), "{output:?}");
            assert_eq!(digest(&fs::read(home.join(&file)).unwrap()), module, "{from}");
        }
        // What kwctl would push is what was pushed, but for what is said of its origin.
        let uri = format!("registry://{}/by-kwctl:v1", registry.host());
        let policy = policy_path();
        let policy = fs::canonicalize(policy).unwrap();
        let output = run(
            &kwctl,
            &registry,
            &home,
            &["push", "--sources-path", sources, policy.to_str().unwrap(), &uri],
        );
        assert!(output.status.success(), "{output:?}");
        let reader = pps_e2e::oci::Reader::of(&registry).unwrap();
        let ours = reader.manifest(&pushed).await.unwrap();
        let theirs = kwctls_manifest(&reader, &format!("{}/by-kwctl:v1", registry.host())).await;
        assert_eq!(theirs.0, ours.config.unwrap().digest);
        assert_eq!(theirs.1, ours.layers[0].digest);
        for (key, value) in theirs.2 {
            assert_eq!(ours.annotations.get(&key), Some(&value), "{key}");
        }
    }
}

/// The digests of the configuration and of the layer, and the annotations; kwctl names no media type.
async fn kwctls_manifest(
    reader: &pps_e2e::oci::Reader,
    reference: &str,
) -> (String, String, std::collections::BTreeMap<String, String>) {
    let manifest = reader.manifest(reference).await.unwrap();
    (manifest.config.unwrap().digest, manifest.layers[0].digest.clone(), manifest.annotations)
}
