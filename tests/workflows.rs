//! The workflows for continuous integration and releases. They run elsewhere; these tests compare
//! them with the repository.
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

/// Each step of each job, and each job that calls a workflow, with its file and job name.
fn steps() -> Vec<(String, Value)> {
    let mut steps = Vec::new();
    for file in fs::read_dir(path(".github/workflows")).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let workflow: Value = yaml_serde::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        for (job, definition) in workflow["jobs"].as_object().unwrap() {
            let at = format!("{name}: {job}");
            match definition["steps"].as_array() {
                Some(all) => steps.extend(all.iter().map(|step| (at.clone(), step.clone()))),
                None => steps.push((at, definition.clone())),
            }
        }
    }
    steps
}

#[test]
fn workflows_use_pinned_actions_and_run_existing_commands() {
    let makefile = fs::read_to_string(path("Makefile")).unwrap();
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name)
        .collect();
    let (mut actions, mut commands) = (0, BTreeSet::new());
    for (at, step) in steps() {
        if let Some(action) = step["uses"].as_str() {
            actions += 1;
            let pinned = action.split_once('@').is_some_and(|(_, version)| {
                version.len() == 40 && version.bytes().all(|byte| byte.is_ascii_hexdigit())
            });
            let local = action
                .strip_prefix("./")
                .is_some_and(|file| path(file).is_file());
            assert!(
                pinned || local,
                "{at}: pin {action} to a commit, or use a file of the repository"
            );
        }
        for command in step["run"]
            .as_str()
            .unwrap_or_default()
            .split(['\n', ';', '|', '&'])
            .map(str::trim)
        {
            if let Some(rest) = command.strip_prefix("make ") {
                let target = rest.split(' ').next().unwrap();
                assert!(
                    targets.contains(target),
                    "{at}: the Makefile has no target {target}"
                );
                commands.insert(target.to_owned());
            }
            if command.starts_with(".ci/") || command.starts_with("hack/") {
                let script = command.split(' ').next().unwrap();
                assert!(
                    path(script).is_file(),
                    "{at}: the repository has no {script}"
                );
                commands.insert(script.to_owned());
            }
        }
    }
    let expected = [
        ".ci/run",
        "emulated-tests",
        "hack/pack-kubectl-pps.sh",
        "hack/sign.sh",
        "publish",
        "test",
        "tested-release",
    ]
    .map(str::to_owned);
    assert_eq!((actions > 5, commands), (true, expected.into()));
}

/// The script of the only step of the release whose script contains the text.
fn step_with(text: &str) -> String {
    let found: Vec<String> = steps()
        .iter()
        .filter(|(at, _)| at.starts_with("release.yml: "))
        .filter_map(|(_, step)| {
            step["run"]
                .as_str()
                .filter(|script| script.contains(text))
                .map(str::to_owned)
        })
        .collect();
    let [script] = found.as_slice() else {
        panic!("{} steps contain {text}", found.len())
    };
    script.clone()
}

/// A release names the repository that made it, whatever Cargo.toml says.
#[test]
fn the_release_takes_its_owner_from_the_repository_that_makes_it() {
    let file = env::temp_dir().join(format!("pps-github-env-{}", std::process::id()));
    let done = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &step_with("$GITHUB_ENV")])
        .env("GITHUB_ENV", &file)
        .env("GITHUB_REPOSITORY_OWNER", "Some-Owner")
        .env("GITHUB_REPOSITORY", "Some-Owner/Name")
        .env("GITHUB_SERVER_URL", "https://github.example")
        .status();
    assert!(done.unwrap().success());
    let set = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(
        set,
        "REGISTRY=ghcr.io/some-owner\nREPOSITORY=https://github.example/Some-Owner/Name\n"
    );

    let release = step_with("make tested-release ");
    assert!(
        release.contains(r#"REGISTRY="$REGISTRY" REPOSITORY="$REPOSITORY""#),
        "{release}"
    );
    let publish = step_with("make publish ");
    assert!(
        publish.contains(r#"REGISTRY="$REGISTRY""#) && publish.contains("--revision=$GITHUB_SHA"),
        "{publish}"
    );
    // The files for Artifact Hub come from the release, not from the tag.
    assert!(step_with("artifacthub-pkg.yml").contains("gh release download"));
}

#[test]
fn the_release_is_signed_and_attested_before_it_is_made() {
    let workflow = fs::read_to_string(path(".github/workflows/release.yml")).unwrap();
    let at = |text: &str| {
        workflow
            .find(text)
            .unwrap_or_else(|| panic!("the release has no {text}"))
    };
    let order = [
        "make tested-release",
        "make publish ",
        "hack/sign.sh dist ",
        "actions/attest@",
        "files: |",
    ];
    assert!(order.map(at).is_sorted(), "{order:?}");

    // The digest of each reference that `make publish` prints is attested under the reference's
    // name.
    let folder = env::temp_dir().join(format!("pps-push-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let names = [
        "policies/persistent-pod-state",
        "persistent-pod-state-sidecar",
        "charts/persistent-pod-state",
    ];
    // An owner may be called anything.
    let lines =
        names.map(|name| format!("echo ghcr.io/charts-policies/{name}@sha256:{}", name.len()));
    write_script(&folder.join("make"), &lines.join("\n"));
    let path = format!("{}:{}", folder.display(), env::var("PATH").unwrap());
    let mut push = Command::new("bash");
    let push = push
        .args(["-euo", "pipefail", "-c", &step_with("make publish ")])
        .current_dir(&folder);
    let done = push
        .env("PATH", path)
        .env("GITHUB_OUTPUT", folder.join("out"))
        .env("REGISTRY", "r")
        .env("GITHUB_SHA", "0");
    assert!(done.status().unwrap().success());
    let outputs = fs::read_to_string(folder.join("out")).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let attested = steps().into_iter().map(|(_, step)| step["with"].clone());
    let attested: Vec<Value> = attested
        .filter(|with| with["subject-digest"].is_string())
        .collect();
    assert_eq!(attested.len(), names.len());
    for (name, with) in names.iter().zip(attested) {
        assert_eq!(
            with["subject-name"],
            format!("${{{{ env.REGISTRY }}}}/{name}")
        );
        let digest = with["subject-digest"].as_str().unwrap();
        let output = digest
            .trim_start_matches("${{ steps.push.outputs.")
            .trim_end_matches(" }}");
        assert!(
            outputs.contains(&format!("{output}=sha256:{}\n", name.len())),
            "{outputs}"
        );
        assert_eq!(with["push-to-registry"], true);
    }
}

/// The manifests of a release are rendered by the official programs, each with its digest.
#[test]
fn the_release_renders_with_kustomize_and_helm_by_checksum() {
    let script = step_with("kustomize.tgz");
    let is_digest =
        |word: &str| word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    for program in ["kustomize", "helm"] {
        let archive = format!("{program}.tgz");
        assert!(
            script.contains(&format!("curl -fsSLo {archive} https://")),
            "{script}"
        );
        let checked = script.lines().filter_map(|line| line.split_once("  "));
        assert!(
            checked
                .into_iter()
                .any(|(digest, file)| is_digest(digest) && file == archive),
            "{script}"
        );
        assert!(script.contains(&format!("tar -xzf {archive} ")), "{script}");
    }
    let at = |text: &str| script.find(text).unwrap();
    assert!(
        [
            at("curl "),
            at("sha256sum --check"),
            at("tar "),
            at("GITHUB_PATH")
        ]
        .is_sorted(),
        "{script}"
    );
}

/// The site names the tag and the owner that were released, and is deployed only once the release
/// exists.
#[test]
fn the_release_deploys_the_site_of_its_tag() {
    let workflow: Value =
        yaml_serde::from_str(&fs::read_to_string(path(".github/workflows/release.yml")).unwrap())
            .unwrap();
    assert!(step_with("make tested-release ").contains(r#"TAG="$GITHUB_REF_NAME""#));
    let tested = fs::read_to_string(path("hack/tested-release.sh")).unwrap();
    // Building the release writes the owner into the documents.
    let order = [
        "\nhack/release.sh",
        " release-tests",
        r#" site REVISION="${TAG:-HEAD}""#,
    ];
    assert!(order.map(|text| tested.find(text).unwrap()).is_sorted());
    let steps = workflow["jobs"]["release"]["steps"].as_array().unwrap();
    let at = |text: &str| {
        steps
            .iter()
            .position(|step| step.to_string().contains(text))
            .unwrap()
    };
    assert!(at("make tested-release ") < at("upload-pages-artifact"));
    let folder = steps[at("upload-pages-artifact")]["with"]["path"].as_str();
    let script = fs::read_to_string(path("hack/site.sh")).unwrap();
    assert_eq!(folder, Some("target/site"));
    assert!(script.contains("\nSITE=target/site\n"));
    let pages = &workflow["jobs"]["pages"];
    assert_eq!(pages["needs"], "release");
    assert_eq!(
        pages["if"], workflow["jobs"]["artifacthub"]["if"],
        "a pre-release replaces no site"
    );
    assert_eq!(
        pages["permissions"],
        serde_json::json!({"pages": "write", "id-token": "write"})
    );
}

/// Another version of cosign may write another format by default, which no PolicyServer reads.
#[test]
fn the_release_signs_with_one_version_of_cosign() {
    let installers: Vec<Value> = steps().into_iter().map(|(_, step)| step).collect();
    let installers: Vec<&Value> = installers
        .iter()
        .filter(|step| {
            step["uses"]
                .as_str()
                .is_some_and(|action| action.contains("cosign-installer"))
        })
        .collect();
    assert_eq!(installers.len(), 1);
    let version = installers[0]["with"]["cosign-release"]
        .as_str()
        .unwrap_or("none");
    let documented = fs::read_to_string(path("docs/publishing.md")).unwrap();
    assert!(version.starts_with("v3."), "{version}");
    assert!(
        documented.contains(&format!("cosign {}", &version[1..])),
        "docs/publishing.md names another version"
    );
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
        let (list, program) = if system == "windows" {
            (
                ["python3", "-m", "zipfile", "-l"].as_slice(),
                "kubectl-pps.exe",
            )
        } else {
            (["tar", "--list", "--file"].as_slice(), "kubectl-pps")
        };
        assert_eq!(entry["bin"], program);
        let files = Command::new(list[0])
            .args(&list[1..])
            .arg(&archive)
            .output()
            .unwrap()
            .stdout;
        let files = String::from_utf8(files).unwrap();
        for file in [program, "LICENSE", "kubectl-pps.1"] {
            let listed =
                |line: &str| line.split(' ').next().unwrap().trim_start_matches("./") == file;
            assert!(files.lines().any(listed), "{uri} has no {file}: {files}");
        }
    }
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(named, platforms);
}

/// Commands of the documents call jq, and a fresh Debian has none.
#[test]
fn tests_install_jq_where_it_is_missing() {
    let folder = env::temp_dir().join(format!("pps-jq-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    // All programs of this machine but jq; those that install packages write down their arguments.
    for program in env::split_paths(&env::var_os("PATH").unwrap())
        .filter_map(|at| fs::read_dir(at).ok())
        .flatten()
    {
        let program = program.unwrap();
        let name = program.file_name();
        if !["jq", "dpkg-query", "apt-get", "id"]
            .map(Some)
            .contains(&name.to_str())
        {
            let _ = std::os::unix::fs::symlink(program.path(), folder.join(name));
        }
    }
    let calls = folder.join("calls");
    let apt = format!("echo \"$@\" >>{}", calls.display());
    for (name, line) in [
        ("dpkg-query", "exit 1"),
        ("apt-get", &apt),
        ("id", "echo 0"),
    ] {
        write_script(&folder.join(name), line);
    }
    let make = |arguments: &[&str]| {
        let mut command = Command::new("make");
        let command = command
            .arg("--no-print-directory")
            .args(arguments)
            .current_dir(path(""));
        command
            .env("PATH", &folder)
            .env("PPS_CACHE_DIR", &folder)
            .output()
            .unwrap()
    };
    let made = make(&["jq"]);
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    let installed = fs::read_to_string(&calls).unwrap_or_default();
    // What runs the tests that call it prepares it.
    let recipe = make(&["--dry-run", "jq"]).stdout;
    let recipe = String::from_utf8(recipe).unwrap();
    for target in ["test", "e2e-tests"] {
        let all = String::from_utf8(make(&["--dry-run", target]).stdout).unwrap();
        assert!(
            !recipe.trim().is_empty() && all.contains(recipe.trim()),
            "make {target} does not prepare jq"
        );
    }
    fs::remove_dir_all(&folder).unwrap();
    assert!(made.status.success(), "{said}");
    assert!(
        installed.contains("install -y --no-install-recommends jq"),
        "{installed}"
    );
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
        .env("KWCTL", &cosign)
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
        fs::write(folder.join(format!("{name}-sbom.spdx.json")), "{}").unwrap();
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
        ("GITHUB_REPOSITORY", "o/n"),
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
    let kwctl = format!("verify --github-owner o --github-repo n registry://{policy}");
    let attested = |name: &str, reference: &str| {
        [
            format!(
                "attest --yes --type spdxjson --predicate DIST/{name}-sbom.spdx.json {reference}"
            ),
            format!("verify-attestation {verify} --type spdxjson {reference}"),
        ]
        .join("\n")
    };
    let expected = [
        signed(&policy),
        kwctl,
        attested("policy", &policy),
        signed(&sidecar),
        attested("pps-sidecar-linux-amd64", &sidecar),
        attested("pps-sidecar-linux-arm64", &sidecar),
        signed(&chart),
        "sign-blob --yes --bundle DIST/SHA256SUMS.sigstore DIST/SHA256SUMS".to_owned(),
        format!("verify-blob {verify} --bundle DIST/SHA256SUMS.sigstore DIST/SHA256SUMS"),
    ];
    assert_eq!(calls, expected.join("\n") + "\n");

    // With a key, the same without a workflow.
    let key = folder.join("own.key");
    fs::write(&key, "").unwrap();
    let (done, calls, said) = sign(&folder, &["--key", key.to_str().unwrap()], &references, &[]);
    assert!(done, "{said}");
    let services = calls
        .lines()
        .next()
        .unwrap()
        .strip_prefix("signing-config create --out ")
        .unwrap();
    let verify = "--key DIST/own.pub --insecure-ignore-tlog";
    for call in [
        format!(
            "sign --yes --new-bundle-format=false --use-signing-config=false --key DIST/own.key \
             --tlog-upload=false {policy}"
        ),
        format!("verify --new-bundle-format=false {verify} {policy}"),
        format!("sign --yes --key DIST/own.key --signing-config {services} {policy}"),
        format!("verify {verify} {policy}"),
    ] {
        assert!(calls.contains(&format!("\n{call}\n")), "{call}:\n{calls}");
    }
    assert!(!Path::new(services).exists(), "{services} is left");
    assert!(
        calls.contains(&format!(
            "\nverify --verification-key DIST/own.pub registry://{policy}\n"
        )),
        "{calls}"
    );

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
