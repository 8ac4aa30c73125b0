//! A push that fails ends with one sentence that names registry and repository, and what to do.

use std::{path::Path, process::Output};

use pps_e2e::{
    control_plane::free_port,
    registry::{Publisher, Registry, RegistryOptions},
    supervisor::Supervisor,
};

use super::VERSION;

#[track_caller]
fn assert_refused(output: &Output, sentence: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let last = said.trim_end().lines().last().unwrap_or_default();
    assert!(
        last.starts_with("error: ") && last.contains(sentence),
        "expected {sentence:?}:\n{said}"
    );
}

async fn push(publisher: &Publisher, part: &'static str, registry: &str) -> Output {
    let publisher = publisher.clone().with("PARTS", part);
    publisher.run("hack/publish.sh", &[registry]).await.unwrap()
}

#[tokio::test]
async fn explains_rejected_credentials() {
    let (_supervisor, registry) = super::start(super::with_password()).await;
    let host = registry.host();
    let good = Publisher::to(&registry);
    let wrong = registry
        .docker_config_with("wrong", "pusher", "not this")
        .unwrap();
    let missing = wrong.join("nothing here");
    for folder in [wrong, missing] {
        let publisher = Publisher {
            docker_config: folder.clone(),
            ..good.clone()
        };
        for (part, repository) in [
            (
                "policy",
                format!("policies/persistent-pod-state:v{VERSION}"),
            ),
            ("chart", "charts/persistent-pod-state".to_owned()),
        ] {
            let output = push(&publisher, part, &format!("{host}/pps")).await;
            assert_refused(
                &output,
                &format!(
                    "{host}/pps/{repository}: {host} refuses this user: run docker login {host}, \
                     or correct the login in {}/config.json",
                    folder.display()
                ),
            );
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!said.contains("not this"), "{said}");
        }
    }
}

#[tokio::test]
async fn explains_certificates_schemes_and_names() {
    let supervisor = Supervisor::start().unwrap();
    let start = async |name: &str, tls| {
        let options = RegistryOptions {
            tls,
            name: name.to_owned(),
            ..RegistryOptions::default()
        };
        Registry::start(&supervisor, options).await.unwrap()
    };
    let (secure, other) = (start("secure", true).await, start("other", true).await);
    let plain = start("plain", false).await;
    let file = |path: &Path| path.to_str().unwrap().to_owned();
    let (authority, stranger) = (file(secure.ca().unwrap()), file(other.ca().unwrap()));
    let closed = format!("127.0.0.1:{}", free_port().unwrap());
    let anonymous = Publisher::to(&secure);
    let (secure, plain) = (secure.host(), plain.host());
    let untrusted = format!("the certificate of {secure} is not trusted: pass its authority's");
    for (registry, access, sentence) in [
        (secure, vec![], untrusted.as_str()),
        (secure, vec!["--ca-file", &stranger], &untrusted),
        (secure, vec!["--plain-http"], "leave out --plain-http"),
        (plain, vec![], "has no TLS: pass ARGS=--plain-http"),
        (&closed, vec!["--plain-http"], "cannot be reached: correct"),
        (&closed, vec!["--ca-file", &authority], "cannot be reached"),
        (secure, vec!["--ca-file", "/nowhere"], "no readable PEM"),
        (
            secure,
            vec!["--ca-file", "/etc/hostname"],
            "no readable PEM",
        ),
        ("", vec![], "no registry given: add REGISTRY="),
        ("pps", vec![], "REGISTRY is pps: use a host and a path"),
        ("https://r.example", vec![], "without https://"),
        (plain, vec!["--wrong"], "unknown arguments --wrong"),
    ] {
        let publisher = Publisher {
            access: access.iter().map(|&text| text.to_owned()).collect(),
            ..anonymous.clone()
        };
        assert_refused(&push(&publisher, "policy", registry).await, sentence);
    }
}
