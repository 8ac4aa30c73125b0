//! The real kwctl pulls what `hack/publish.sh` pushed. Skipped without kwctl.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use pps_e2e::{
    kubewarden::find_kwctl,
    registry::{Publisher, Reader, Registry, digest},
    report,
    repository::policy_path,
    supervisor::Supervisor,
};

use super::{VERSION, all_kinds};

fn run(kwctl: &Path, registry: &Registry, home: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(kwctl);
    command
        .args(args)
        .env("DOCKER_CONFIG", registry.docker_config())
        .env("XDG_CACHE_HOME", home);
    command
        .env("HOME", home)
        .current_dir(home)
        .output()
        .unwrap()
}

#[tokio::test]
async fn pulls_what_was_pushed() {
    let Some(kwctl) = find_kwctl() else {
        return report::skipped("kwctl::pulls_what_was_pushed", "set KWCTL=… to run it");
    };
    let supervisor = Supervisor::start().unwrap();
    let module = digest(&fs::read(policy_path()).unwrap());
    for options in all_kinds() {
        let home = supervisor.folder().join(format!("{}-home", options.name));
        fs::create_dir(&home).unwrap();
        let registry = Registry::start(&supervisor, options).await.unwrap();
        let publisher = Publisher::to(&registry);
        let pushed = publisher.policy(registry.host()).await.unwrap();
        let reference = format!(
            "{}/policies/persistent-pod-state:v{VERSION}",
            registry.host()
        );
        let sources = registry.sources().unwrap();
        let sources = sources.to_str().unwrap();
        for (index, from) in [reference, pushed.clone()].iter().enumerate() {
            let file = format!("policy-{index}.wasm");
            let uri = format!("registry://{from}");
            let output = run(
                &kwctl,
                &registry,
                &home,
                &["pull", "--sources-path", sources, "-o", &file, &uri],
            );
            assert!(output.status.success(), "{output:?}");
            assert_eq!(
                digest(&fs::read(home.join(&file)).unwrap()),
                module,
                "{from}"
            );
        }
        // kwctl pushes the same, except for annotations about the origin.
        let uri = format!("registry://{}/by-kwctl:v1", registry.host());
        let policy = policy_path();
        let policy = fs::canonicalize(policy).unwrap();
        let output = run(
            &kwctl,
            &registry,
            &home,
            &[
                "push",
                "--sources-path",
                sources,
                policy.to_str().unwrap(),
                &uri,
            ],
        );
        assert!(output.status.success(), "{output:?}");
        let reader = registry.reader().unwrap();
        let ours = reader.manifest(&pushed).await.unwrap();
        let theirs = kwctls_manifest(&reader, &format!("{}/by-kwctl:v1", registry.host())).await;
        assert_eq!(theirs.0, ours.config.unwrap().digest);
        assert_eq!(theirs.1, ours.layers[0].digest);
        for (key, value) in theirs.2 {
            assert_eq!(ours.annotations.get(&key), Some(&value), "{key}");
        }
    }
}

/// The digests of configuration and layer, and the annotations, of a manifest that kwctl pushed
/// without a media type.
async fn kwctls_manifest(
    reader: &Reader,
    reference: &str,
) -> (String, String, std::collections::BTreeMap<String, String>) {
    let manifest = reader.manifest(reference).await.unwrap();
    (
        manifest.config.unwrap().digest,
        manifest.layers[0].digest.clone(),
        manifest.annotations,
    )
}
