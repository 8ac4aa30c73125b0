//! `pps-publish` fails with exit code 1 and one sentence that says why and what to do.

use std::{fs, os::unix::process::ExitStatusExt, path::Path, process::Output};

use pps_e2e::{
    control_plane::free_port,
    registry::{
        Publisher, Registry, RegistryOptions,
        publish::{run, static_sidecar_path},
    },
    repository::policy_path,
    supervisor::Supervisor,
};

#[track_caller]
pub(super) fn assert_refused(output: &Output, sentence: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.into_raw(), 1 << 8, "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let last = said.trim_end().lines().last().unwrap_or_default();
    assert!(
        last.starts_with("pps-publish: ") && last.contains(sentence),
        "expected {sentence:?}:\n{said}"
    );
}

async fn push_policy(publisher: &Publisher, reference: &str) -> Output {
    let module = policy_path();
    publisher
        .run(&["policy", "--module", module.to_str().unwrap(), reference])
        .await
        .unwrap()
}

#[tokio::test]
async fn explains_rejected_credentials() {
    let (_supervisor, registry) = super::start(super::with_password()).await;
    let host = registry.host();
    let reference = format!("{host}/policy:v1");
    let good = Publisher::to(&registry);

    let wrong = registry
        .docker_config_with("wrong", "pusher", "not this")
        .unwrap();
    let output = push_policy(
        &Publisher {
            docker_config: wrong.clone(),
            ..good.clone()
        },
        &reference,
    )
    .await;
    let file = wrong.join("config.json");
    assert_refused(
        &output,
        &format!(
            "{host} rejects user \"pusher\": run `docker login {host}`, or correct the password \
             in {}",
            file.display()
        ),
    );

    let missing = wrong.join("nothing here");
    let output = push_policy(
        &Publisher {
            docker_config: missing,
            ..good.clone()
        },
        &reference,
    )
    .await;
    assert_refused(
        &output,
        &format!("{host} requires a login: run `docker login {host}`"),
    );

    fs::write(&file, "{").unwrap();
    let output = push_policy(
        &Publisher {
            docker_config: wrong,
            ..good
        },
        &reference,
    )
    .await;
    assert_refused(
        &output,
        &format!("cannot get the password for {host} from {}", file.display()),
    );
}

#[tokio::test]
async fn explains_certificate_and_scheme_mismatches() {
    let supervisor = Supervisor::start().unwrap();
    let secure = RegistryOptions {
        tls: true,
        name: "secure".to_owned(),
        ..RegistryOptions::default()
    };
    let secure = Registry::start(&supervisor, secure).await.unwrap();
    let other = RegistryOptions {
        tls: true,
        name: "other".to_owned(),
        ..RegistryOptions::default()
    };
    let other = Registry::start(&supervisor, other).await.unwrap();
    let plain = Registry::start(&supervisor, RegistryOptions::default())
        .await
        .unwrap();
    let with = |access: &[&str]| Publisher {
        docker_config: secure.docker_config(),
        access: access.iter().map(|&text| text.to_owned()).collect(),
    };
    let file = |path: &Path| path.to_str().unwrap().to_owned();
    let (authority, stranger) = (file(secure.ca().unwrap()), file(other.ca().unwrap()));
    let closed = format!("127.0.0.1:{}", free_port().unwrap());
    let name = format!("localhost.example:{}", free_port().unwrap());
    let (secure, plain) = (secure.host(), plain.host());
    for (host, access, sentence) in [
        (
            secure,
            vec![],
            format!(
                "the certificate of {secure} is signed by an unknown authority: pass the \
                 authority's certificate with --ca-file"
            ),
        ),
        (
            secure,
            vec!["--ca-file", &stranger],
            format!("the certificate of {secure} is signed by an unknown authority"),
        ),
        (secure, vec!["--plain-http"], "HTTPS server".to_owned()),
        (
            plain,
            vec![],
            format!("{plain} does not speak HTTPS: use --plain-http if you trust the network"),
        ),
        (
            &closed,
            vec!["--plain-http"],
            "(Connection refused".to_owned(),
        ),
        (
            &closed,
            vec!["--ca-file", &authority],
            "(Connection refused".to_owned(),
        ),
        (
            &name,
            vec!["--plain-http"],
            "(failed to lookup address".to_owned(),
        ),
        (
            secure,
            vec!["--ca-file", "/nowhere.pem"],
            "--ca-file: cannot read /nowhere.pem: No such file".to_owned(),
        ),
        (
            secure,
            vec!["--ca-file", "/etc/hostname"],
            "--ca-file: /etc/hostname has no certificate".to_owned(),
        ),
    ] {
        assert_refused(
            &push_policy(&with(&access), &format!("{host}/policy:v1")).await,
            &sentence,
        );
    }
}

#[tokio::test]
async fn explains_files_and_references_that_cannot_be_pushed() {
    let folder = Supervisor::start().unwrap();
    let sidecar = static_sidecar_path().unwrap();
    let own = std::env::current_exe().unwrap();
    let (own, sidecar, policy) = (
        own.to_str().unwrap(),
        sidecar.to_str().unwrap(),
        policy_path(),
    );
    let policy = policy.to_str().unwrap();
    // The static sidecar, with the header of another processor.
    let foreign = folder.folder().join("foreign");
    let mut bytes = fs::read(sidecar).unwrap();
    bytes[18..20].copy_from_slice(&243_u16.to_le_bytes());
    fs::write(&foreign, &bytes).unwrap();
    let short = folder.folder().join("short");
    fs::write(&short, &bytes[..40]).unwrap();
    let (foreign, short) = (foreign.to_str().unwrap(), short.to_str().unwrap());
    let to = "127.0.0.1:1/repository:v1";
    for (args, sentence) in [
        (
            ["image", "--binary", own, to],
            "not a static executable: build it with hack/build-release.sh",
        ),
        (
            ["image", "--binary", foreign, to],
            "only amd64 and arm64 are supported, not ELF machine 243",
        ),
        (
            ["image", "--binary", short, to],
            "not a complete 64-bit Linux executable (ELF)",
        ),
        (
            ["image", "--binary", policy, to],
            "not a Linux executable (ELF)",
        ),
        (
            ["image", "--binary", "/nowhere", to],
            "cannot read /nowhere: No such file",
        ),
        (["policy", "--module", sidecar, to], "not a Wasm module"),
        (
            ["policy", "--module", "/nowhere", to],
            "cannot read /nowhere: No such file",
        ),
        (
            ["policy", "--module", policy, "Registry/Policy"],
            "\"Registry/Policy\" is not a reference: use registry/repository:tag",
        ),
        (
            ["policy", "--module", policy, "policy:v1"],
            "\"policy:v1\" has no registry: use registry/repository:tag",
        ),
    ] {
        assert_refused(&run(&args, &[]).await.unwrap(), sentence);
    }
}
