//! What the scripts of a release make and sign: the plugin for krew, and the signatures that users
//! verify.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Another process writes the script, for this one could not always run it then ("Text file busy"):
/// what other tests start at the same time holds the open file for a moment.
fn write_script(file: &Path, commands: &str) {
    let write = r#"printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod +x "$1""#;
    let status = Command::new("sh")
        .args(["-c", write, "sh"])
        .arg(file)
        .arg(commands)
        .status()
        .unwrap();
    assert!(status.success(), "{}", file.display());
}

/// What krew's own validation demands of a manifest, and that each archive has the program that
/// krew links.
#[test]
fn the_manifest_for_krew_names_each_platform_and_its_program() {
    let folder = env::temp_dir().join(format!("pps-krew-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("program"), "a program").unwrap();
    let pack = |args: &[&str]| {
        let done = Command::new(path("hack/pack-kubectl-pps.sh"))
            .args(args)
            .current_dir(&folder)
            .output();
        let done = done.unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    let (program, to) = (folder.join("program"), folder.to_str().unwrap());
    let platforms = [
        "linux-amd64",
        "linux-arm64",
        "darwin-amd64",
        "darwin-arm64",
        "windows-amd64",
    ];
    let platforms = BTreeSet::from(platforms.map(str::to_owned));
    for platform in &platforms {
        pack(&[program.to_str().unwrap(), platform, to]);
    }
    pack(&["--krew", to]);

    let manifest: Value =
        yaml_serde::from_str(&fs::read_to_string(folder.join("pps.yaml")).unwrap()).unwrap();
    assert_eq!(
        manifest["apiVersion"],
        "krew.googlecontainertools.github.com/v1alpha2"
    );
    assert_eq!(
        (&manifest["kind"], &manifest["metadata"]["name"]),
        (&"Plugin".into(), &"pps".into())
    );
    assert_eq!(
        manifest["spec"]["version"],
        concat!("v", env!("CARGO_PKG_VERSION"))
    );
    // krew-index refuses longer ones, and such that end with a full stop.
    let short = manifest["spec"]["shortDescription"].as_str().unwrap();
    assert!(
        short.len() <= 50 && !short.contains('\n') && !short.ends_with('.'),
        "{short}"
    );
    let mut named = BTreeSet::new();
    for entry in manifest["spec"]["platforms"].as_array().unwrap() {
        let keys: BTreeSet<&str> = entry
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(keys, BTreeSet::from(["bin", "selector", "sha256", "uri"]));
        let labels = &entry["selector"]["matchLabels"];
        let [system, processor] = ["os", "arch"].map(|label| labels[label].as_str().unwrap());
        assert_eq!(labels.as_object().unwrap().len(), 2);
        assert!(
            named.insert(format!("{system}-{processor}")),
            "{system} {processor} is named twice"
        );
        let uri = entry["uri"].as_str().unwrap();
        let archive = folder.join(uri.rsplit('/').next().unwrap());
        let hash = Command::new("sha256sum")
            .arg(&archive)
            .output()
            .unwrap()
            .stdout;
        assert!(
            hash.starts_with(entry["sha256"].as_str().unwrap().as_bytes()),
            "{uri}"
        );
        let suffix = if system == "windows" { ".exe" } else { "" };
        let program = &format!("kubectl-pps{suffix}");
        assert_eq!(entry["bin"], **program);
        let files = Command::new("tar")
            .args(["--list", "--file"])
            .arg(&archive)
            .output()
            .unwrap()
            .stdout;
        let files = String::from_utf8(files).unwrap();
        for file in [program.as_str(), "LICENSE", "kubectl-pps.1"] {
            let listed =
                |line: &str| line.split(' ').next().unwrap().trim_start_matches("./") == file;
            assert!(files.lines().any(listed), "{uri} has no {file}: {files}");
        }
    }
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(named, platforms);
}

/// What `hack/sign.sh` tells cosign, line by line. A program in place of cosign writes down its
/// arguments.
fn sign(
    folder: &Path,
    args: &[&str],
    references: &str,
    variables: &[(&str, &str)],
) -> (bool, String, String) {
    let (cosign, calls) = (folder.join("cosign"), folder.join("calls"));
    write_script(
        &cosign,
        &format!("echo \"$@\" >>{}\ncat >/dev/null", calls.display()),
    );
    let _ = fs::remove_file(&calls);
    let list = folder.join("references.txt");
    fs::write(&list, references).unwrap();
    let output = Command::new(path("hack/sign.sh"))
        .arg(folder)
        .args(args)
        .env_remove("GITHUB_WORKFLOW_REF")
        .envs(variables.iter().copied())
        .env("COSIGN", &cosign)
        .stdin(Stdio::from(fs::File::open(&list).unwrap()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let calls = fs::read_to_string(&calls)
        .unwrap_or_default()
        .replace(folder.to_str().unwrap(), "DIST");
    (output.status.success(), calls, said)
}

#[test]
fn everything_pushed_is_signed_attested_and_verified() {
    let folder = env::temp_dir().join(format!("pps-sign-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for name in [
        "policy",
        "pps-sidecar-linux-amd64",
        "pps-sidecar-linux-arm64",
        "kubectl-pps-linux-amd64",
    ] {
        fs::write(folder.join(format!("{name}-sbom.cdx.json")), "{}").unwrap();
    }
    let digest = format!("@sha256:{}", "0".repeat(64));
    let [policy, sidecar, chart] = [
        "policies/persistent-pod-state",
        "persistent-pod-state-sidecar",
        "charts/persistent-pod-state",
    ]
    .map(|name| format!("r.example/a/{name}{digest}"));
    let references = format!("some output\n{policy}\n{sidecar}\n{chart}\n");
    let workflow = [
        ("GITHUB_SERVER_URL", "https://github.example"),
        (
            "GITHUB_WORKFLOW_REF",
            "o/n/.github/workflows/release.yml@refs/tags/v1",
        ),
    ];

    let (done, calls, said) = sign(&folder, &[], &references, &workflow);
    assert!(done, "{said}");
    let verify = "--certificate-identity https://github.example/o/n/.github/workflows/release.yml@refs/tags/v1 \
                  --certificate-oidc-issuer https://token.actions.githubusercontent.com";
    // Kubewarden's programs read the older format alone.
    let signed = |reference: &str| {
        [
            format!("sign --yes --new-bundle-format=false --use-signing-config=false {reference}"),
            format!("verify --new-bundle-format=false {verify} {reference}"),
            format!("sign --yes {reference}"),
            format!("verify {verify} {reference}"),
        ]
        .join("\n")
    };
    let attested = |name: &str, reference: &str| {
        [
            format!(
                "attest --yes --type cyclonedx --predicate DIST/{name}-sbom.cdx.json {reference}"
            ),
            format!("verify-attestation {verify} --type cyclonedx {reference}"),
        ]
        .join("\n")
    };
    let expected = [
        signed(&policy),
        attested("policy", &policy),
        signed(&sidecar),
        attested("pps-sidecar-linux-amd64", &sidecar),
        attested("pps-sidecar-linux-arm64", &sidecar),
        signed(&chart),
        "sign-blob --yes --bundle DIST/SHA256SUMS.sigstore DIST/SHA256SUMS".to_owned(),
        format!("verify-blob {verify} --bundle DIST/SHA256SUMS.sigstore DIST/SHA256SUMS"),
    ];
    assert_eq!(calls, expected.join("\n") + "\n");

    // The tests of the registry sign with a key, and verify with the real cosign.
    let key = folder.join("own.key");
    fs::write(&key, "").unwrap();
    for (args, list, refusal) in [
        (
            vec![],
            references.as_str(),
            "works only in GitHub Actions: pass --key",
        ),
        (
            vec!["--key", "/nowhere"],
            &references,
            "--key names /nowhere, which does not exist",
        ),
        (
            vec!["--key", key.to_str().unwrap()],
            "r.example/a:v1\n",
            "no reference with a digest on stdin",
        ),
    ] {
        let (done, calls, said) = sign(&folder, &args, list, &[]);
        assert!(
            !done && calls.is_empty() && said.contains(refusal),
            "{said}"
        );
    }
    fs::remove_dir_all(folder).unwrap();
}
