//! What was pushed is signed and verified with a throw-away key, as the documents say.

use std::{fs, process::Command};

use pps_e2e::{
    kubewarden::{find_kwctl, write_trust_config},
    registry::{
        Publisher,
        foreign::{FOREIGN, NATIVE, stand_in},
        publish::{cosign, sign, throw_away_key},
    },
    report,
};

#[tokio::test]
async fn signatures_verify_with_the_key_that_made_them_only() {
    let (supervisor, registry) = super::start(super::with_password()).await;
    let [native, foreign] = [NATIVE, FOREIGN].map(|of| stand_in(supervisor.folder(), of).unwrap());
    let publisher = Publisher::to(&registry).with_sidecars(&native, &foreign);
    let references = publisher.push(&format!("{}/pps", registry.host())).await;
    let references = references.unwrap();

    let dist = supervisor.folder().join("dist");
    fs::create_dir(&dist).unwrap();
    fs::write(dist.join("SHA256SUMS"), "").unwrap();
    let list = r#"{"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1}"#;
    for name in [
        "policy",
        "pps-sidecar-linux-amd64",
        "pps-sidecar-linux-arm64",
    ] {
        fs::write(dist.join(format!("{name}-sbom.cdx.json")), list).unwrap();
    }
    let (keys, stranger) = (throw_away_key().unwrap(), throw_away_key().unwrap());
    let verify = |keys: &std::path::Path, more: &[&str], reference: &str| {
        let key = keys.join("cosign.pub");
        let key = [
            "verify",
            "--insecure-ignore-tlog",
            "--key",
            key.to_str().unwrap(),
        ];
        let output = cosign(&[&key[..], more, &[reference]].concat())
            .unwrap()
            .env("SSL_CERT_FILE", registry.ca().unwrap())
            .env("DOCKER_CONFIG", registry.docker_config())
            .output();
        output.unwrap().status.success()
    };
    let older = &["--new-bundle-format=false"][..];
    assert!(!verify(keys.path(), &[], &references[0]), "not signed yet");

    sign(&registry, &dist, &references, keys.path()).unwrap();
    assert_eq!(references.len(), 3);
    for reference in &references {
        for format in [&[], older] {
            assert!(verify(keys.path(), format, reference), "{reference}");
            assert!(!verify(stranger.path(), format, reference), "{reference}");
        }
    }
    let Some(kwctl) = find_kwctl() else {
        return report::skipped("signatures: kwctl verify", "set KWCTL=… to run it");
    };
    let trust = write_trust_config(supervisor.folder()).unwrap();
    for (keys, verifies) in [(&keys, true), (&stranger, false)] {
        let output = Command::new(&kwctl)
            .args(["verify", &format!("registry://{}", references[0])])
            .arg("--verification-key")
            .arg(keys.path().join("cosign.pub"))
            .arg("--sigstore-trust-config")
            .arg(&trust)
            .arg("--sources-path")
            .arg(registry.sources().unwrap())
            .env("DOCKER_CONFIG", registry.docker_config())
            .output()
            .unwrap();
        assert_eq!(output.status.success(), verifies, "{output:?}");
    }
}
