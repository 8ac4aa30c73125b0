//! Facts about the policy that are stated in several files must agree.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

#[path = "metadata/chart.rs"]
mod chart;
#[path = "metadata/values.rs"]
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use persistent_pod_state_policy::METADATA;
use pps_admission::Settings;
use pps_core::pps::{API_VERSIONS, KIND};
use serde::Serialize;
use serde_json::{Value, json};

/// The package for <https://artifacthub.io>, with its fields in the order in which kwctl writes
/// them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Package<'a> {
    version: &'a str,
    name: &'a str,
    display_name: &'a str,
    created_at: String,
    description: &'a str,
    #[serde(rename = "logoURL")]
    logo_url: Value,
    license: &'a str,
    #[serde(rename = "homeURL")]
    home_url: &'a str,
    containers_images: Value,
    keywords: Vec<&'a str>,
    links: Value,
    install: String,
    maintainers: Value,
    provider: Value,
    recommendations: Value,
    changes: Vec<chart::Change>,
    screenshots: Value,
    annotations: BTreeMap<&'a str, String>,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
const HEADER: &str = "\
# Kubewarden Artifacthub Package config
#
# Nothing is published yet: see docs/publishing.md.
#
# Generated from policy-metadata.yml, Chart.yaml, CHANGELOG.md, Cargo.toml and questions-ui.yml: do not \
                      edit.
# To regenerate: UPDATE=1 cargo test --test metadata
";

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn is_update() -> bool {
    env::var_os("UPDATE").is_some_and(|value| value == "1")
}

fn yaml(text: &str) -> Value {
    yaml_serde::from_str(text).unwrap()
}

fn metadata() -> Value {
    serde_json::from_slice(METADATA).unwrap()
}

fn package(metadata: &Value, questions: &str, created_at: String) -> String {
    let of = |key: &str| {
        metadata["annotations"][key]
            .as_str()
            .unwrap_or_else(|| panic!("{key} is missing"))
    };
    let url = of("io.kubewarden.policy.ociUrl");
    let image = format!("{url}:v{VERSION}");
    let registry = url.strip_suffix("/policies/persistent-pod-state").unwrap();
    let source = of("io.kubewarden.policy.source");
    let (logo_url, screenshots) = chart::pictures();
    let (maintainer, email) = of("io.kubewarden.policy.author")
        .trim_end_matches('>')
        .split_once(" <")
        .unwrap();
    let package = Package {
        version: VERSION,
        name: of("io.kubewarden.policy.title"),
        display_name: of("io.artifacthub.displayName"),
        created_at,
        description: of("io.kubewarden.policy.description"),
        logo_url,
        license: of("io.kubewarden.policy.license"),
        home_url: of("io.kubewarden.policy.url"),
        containers_images: json!([{"name": "policy", "image": image}]),
        keywords: of("io.artifacthub.keywords")
            .split(',')
            .map(str::trim)
            .collect(),
        links: json!([
            {"name": "policy", "url": format!("{source}/releases/download/v{VERSION}/policy.wasm")},
            {"name": "source", "url": source},
        ]),
        install: format!(
            "The policy needs the sidecar that records where Pods run. The chart installs both, and a PolicyServer of their own with \
             the image of yours:\n\
             ```console\n\
             image=\"$(kubectl get policyserver default -o jsonpath='{{.spec.image}}')\"\n\
             helm upgrade --install persistent-pod-state oci://{registry}/charts/persistent-pod-state --version {VERSION} \\\n  \
             --namespace persistent-pod-state --create-namespace \\\n  \
             --set image.repository={registry}/persistent-pod-state-sidecar --set policy.module.repository={url} \\\n  \
             --set policyServer.image.repository=\"${{image%:*}}\" --set policyServer.image.tag=\"${{image##*:}}\"\n\
             ```\n\
             [All values]({source}/blob/main/charts/persistent-pod-state/README.md#values), and \
             [kustomize]({source}/blob/main/deploy/README.md)\n"
        ),
        maintainers: json!([{"name": maintainer, "email": email}]),
        provider: json!({"name": maintainer}),
        recommendations: json!([{"url": "https://artifacthub.io/packages/helm/kubewarden/admission-controller"}]),
        changes: chart::changes(),
        screenshots,
        annotations: BTreeMap::from([
            ("kubewarden/mutation", metadata["mutating"].to_string()),
            (
                "kubewarden/contextAwareResources",
                yaml_of(&metadata["contextAwareResources"]),
            ),
            ("kubewarden/rules", yaml_of(&metadata["rules"])),
            ("kubewarden/questions-ui", questions.to_owned()),
            (
                "kubewarden/resources",
                of("io.artifacthub.resources").to_owned(),
            ),
        ]),
    };
    format!("{HEADER}{}", yaml_of(&package))
}

fn yaml_of(value: &impl Serialize) -> String {
    yaml_serde::to_string(value).unwrap()
}

fn check_package() {
    let name = "artifacthub-pkg.yml";
    let committed = fs::read_to_string(path(name)).unwrap_or_default();
    let before = yaml(&committed);
    let update = is_update();
    let mut created_at = before["createdAt"].as_str().unwrap_or_default().to_owned();
    if update && before["version"] != VERSION {
        let now = Command::new("date")
            .args(["-u", "+%Y-%m-%dT%H:%M:%SZ"])
            .output()
            .unwrap();
        String::from_utf8(now.stdout)
            .unwrap()
            .trim()
            .clone_into(&mut created_at);
    }
    let generated = package(&metadata(), &read("questions-ui.yml"), created_at);
    if update {
        fs::write(path(name), generated).unwrap();
        return;
    }
    assert!(
        committed == generated,
        "{name} is out of date with policy-metadata.yml, Chart.yaml, CHANGELOG.md, Cargo.toml or \
         questions-ui.yml.\nTo regenerate: UPDATE=1 cargo test --test metadata"
    );
}

/// The texts before each mention of this product's version.
const BEFORE_VERSION: [&str; 10] = [
    "io.kubewarden.policy.version: ",
    "/persistent-pod-state-sidecar:v",
    "/policies/persistent-pod-state:v",
    "/charts/persistent-pod-state --version ",
    "?ref=v",
    // In the examples for Argo CD and Flux.
    "targetRevision: ",
    "ref:\n    tag: ",
    // In Hauler's manifest.
    "/charts\n    version: ",
    "/releases/download/v",
    "/kubectl-pps-",
];
/// The same for a `Chart.yaml`.
const BEFORE_CHART_VERSION: [&str; 3] = [
    "/persistent-pod-state-sidecar:v",
    "\nversion: ",
    "\nappVersion: ",
];

/// The texts before each mention of Kubewarden's version, which follows the image of its
/// PolicyServer.
const BEFORE_KUBEWARDEN: [&str; 5] = [
    "adm-controller/policy-server:v",
    "adm-controller/policy-server, tag: v",
    "adm-controller/policy-server\n    tag: v",
    "adm-controller/policy-server\n        tag: v",
    "adm-controller/policy-server\n            tag: v",
];
/// The file that names it for all others.
const KUBEWARDEN: &str = "deploy/base/kubewarden.yaml";

/// Replaces each version in the text that follows one of these; returns the text and the number of
/// versions.
fn replace_versions(text: &str, before: &[&str], version: &str) -> (String, usize) {
    let (mut changed, mut count) = (text.to_owned(), 0);
    for before in before {
        let mut done = String::new();
        let mut rest = changed.as_str();
        while let Some((head, tail)) = rest.split_once(before) {
            let end = tail.find(|c: char| !c.is_ascii_alphanumeric() && !".-+".contains(c));
            let old = &tail[..end.unwrap_or(tail.len())];
            // The version may be followed by a platform, and may end a sentence.
            let old = old
                .split_once("-linux-")
                .map_or(old, |(version, _)| version);
            let old = old.trim_end_matches(['.', '-', '+']);
            done.extend([head, before, version]);
            rest = &tail[old.len()..];
            count += 1;
        }
        done.push_str(rest);
        changed = done;
    }
    (changed, count)
}

/// One test, since with UPDATE=1 its parts read and write the same files.
#[test]
fn all_files_name_one_version_and_generated_ones_are_up_to_date() {
    check_versions();
    check_kubewarden_versions();
    check_chart_files();
    chart::check_changes();
    chart::check_hauler();
    check_package();
}

/// To change the version, edit Cargo.toml and run this with UPDATE=1.
fn check_versions() {
    let mut named = BTreeSet::new();
    let mut files = ["README.md", "policy-metadata.yml"]
        .map(str::to_owned)
        .to_vec();
    for folder in ["deploy", "charts", "docs"] {
        files.extend(files_below(&path(folder)));
    }
    for file in files {
        let Ok(text) = fs::read_to_string(path(&file)) else {
            continue;
        };
        let is_chart = file.ends_with("/Chart.yaml");
        let before = if is_chart {
            &BEFORE_CHART_VERSION[..]
        } else {
            &BEFORE_VERSION[..]
        };
        let (expected, count) = replace_versions(&text, before, VERSION);
        if count > 0 {
            named.insert(file.clone());
        }
        if expected != text && is_update() {
            fs::write(path(&file), expected).unwrap();
            continue;
        }
        assert!(
            expected == text,
            "{file} names another version than Cargo.toml. To update it: UPDATE=1 cargo test \
             --test metadata"
        );
    }
    for file in [
        "policy-metadata.yml",
        "docs/publishing.md",
        "charts/persistent-pod-state/Chart.yaml",
        "charts/persistent-pod-state/README.md",
        "charts/persistent-pod-state/files/cluster-admission-policy.yaml",
        "charts/persistent-pod-state/files/cluster-admission-policy-validation.yaml",
        "deploy/README.md",
        "deploy/hauler.yaml",
        "deploy/base/cluster-admission-policy.yaml",
        "deploy/base/cluster-admission-policy-validation.yaml",
        CUSTOM_WORKLOADS,
        "deploy/base/deployment.yaml",
        "docs/examples/argo-cd.yaml",
        "docs/examples/flux.yaml",
    ] {
        assert!(named.contains(file), "{file} names no version");
    }
}

/// The PolicyServer has to be of the version of its controller. To change the version that the examples name, edit [`KUBEWARDEN`] and run this with UPDATE=1.
fn check_kubewarden_versions() {
    let deployed = yaml(&read(KUBEWARDEN));
    let image = deployed["data"]["policyServerImage"].as_str().unwrap();
    let (_, version) = image.split_once(BEFORE_KUBEWARDEN[0]).unwrap();
    for file in [
        "README.md",
        "deploy/README.md",
        "docs/publishing.md",
        "docs/examples/argo-cd.yaml",
        "docs/examples/flux.yaml",
        "e2e-tests/values/required.yaml",
        "e2e-tests/src/kubewarden/controller.rs",
    ] {
        let text = read(file);
        assert!(
            !text.contains("ghcr.io/kubewarden/policy-server"),
            "{file} names the repository that Kubewarden 1.36 left"
        );
        let (expected, count) = replace_versions(&text, &BEFORE_KUBEWARDEN, version);
        assert!(
            count > 0,
            "{file} does not name the image of a PolicyServer"
        );
        if expected != text && is_update() {
            fs::write(path(file), expected).unwrap();
            continue;
        }
        assert!(
            expected == text,
            "{file} names another PolicyServer than {KUBEWARDEN}. To update it: UPDATE=1 cargo \
             test --test metadata"
        );
    }
}

fn files_below(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let name = |path: PathBuf| {
        path.strip_prefix(env!("CARGO_MANIFEST_DIR"))
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    entries
        .flat_map(|path| {
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![name(path)]
            }
        })
        .collect()
}

/// A chart can only include files in its own folder, so it has copies of the manifests.
fn check_chart_files() {
    let mut expected = BTreeSet::new();
    for source in [
        "deploy/base/cluster-admission-policy.yaml",
        "deploy/base/cluster-admission-policy-validation.yaml",
        "deploy/base/crd.yaml",
        CUSTOM_WORKLOADS,
        "deploy/components/monitoring/dashboard.json",
        "deploy/components/monitoring/prometheus-rule.yaml",
    ] {
        let copy = format!(
            "charts/persistent-pod-state/files/{}",
            source.rsplit('/').next().unwrap()
        );
        if is_update() {
            fs::copy(path(source), path(&copy)).unwrap();
        }
        assert!(
            read(source) == read(&copy),
            "{copy} differs from {source}. To update it: UPDATE=1 cargo test --test metadata"
        );
        expected.insert(copy);
    }
    assert_eq!(
        files_below(&path("charts/persistent-pod-state/files"))
            .into_iter()
            .collect::<BTreeSet<_>>(),
        expected
    );
}

/// Needs kwctl; set `KWCTL` to its path.
#[test]
fn kwctl_generates_the_same_package() {
    // With UPDATE=1 another test writes the package meanwhile.
    if is_update() {
        return;
    }
    let Some(kwctl) = env::var_os("KWCTL").filter(|named| !named.is_empty()) else {
        eprintln!("skipped: KWCTL is not set");
        return;
    };
    let file = env::temp_dir().join(format!("pps-metadata-{}.yml", std::process::id()));
    fs::write(&file, METADATA).unwrap();
    let output = Command::new(kwctl)
        .args(["scaffold", "artifacthub", "--questions-path"])
        .arg(path("questions-ui.yml"))
        .arg("--metadata-path")
        .arg(&file)
        .output()
        .unwrap();
    fs::remove_file(file).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let normalize = |text: &str| {
        let mut package = yaml(text);
        package["createdAt"] = Value::Null;
        // kwctl knows none of these, and would install the policy without its sidecar.
        for field in [
            "logoURL",
            "changes",
            "screenshots",
            "install",
            "provider",
            "recommendations",
        ] {
            package.as_object_mut().unwrap().remove(field);
        }
        // kwctl links to the module of a release on github.com only.
        let links = package["links"].as_array_mut().unwrap();
        links.retain(|link| link["name"] != "policy");
        // These hold YAML, in which kwctl has its own order of fields.
        for key in ["kubewarden/rules", "kubewarden/contextAwareResources"] {
            let inner = &mut package["annotations"][key];
            *inner = yaml(inner.as_str().unwrap());
        }
        package
    };
    assert_eq!(
        normalize(&read("artifacthub-pkg.yml")),
        normalize(&String::from_utf8(output.stdout).unwrap())
    );
}

#[test]
fn questions_cover_every_setting_with_its_default() {
    let questions = yaml(&read("questions-ui.yml"));
    let mut asked = BTreeSet::new();
    for question in questions["questions"].as_array().unwrap() {
        let variable = question["variable"].as_str().unwrap();
        // A text in the form, without an input.
        if variable == "description" && question["hide_input"] == true {
            continue;
        }
        let parse = |value: &Value| {
            let nested = variable
                .rsplit('.')
                .fold(value.clone(), |value, field| json!({field: value}));
            Settings::read(&nested)
        };
        assert_eq!(
            parse(&question["default"]),
            Ok(Settings::default()),
            "{variable}"
        );
        let options = match question["type"].as_str().unwrap() {
            "enum" => question["options"].as_array().unwrap().clone(),
            // Rancher's spelling of a list.
            "array[" => vec![
                json!(["example.io/*"]),
                json!(["example.io/ip", "example.io/mac"]),
            ],
            other => panic!("{variable}: {other}"),
        };
        let distinct: Vec<Settings> = options
            .iter()
            .map(|option| parse(option).unwrap())
            .collect();
        assert!(
            options.len() > 1 && distinct[0] != distinct[1],
            "{variable}"
        );
        asked.insert(variable.to_owned());
    }
    let is_asked = |name: &str| {
        asked
            .iter()
            .any(|asked| asked.split('.').zip(name.split('.')).all(|(a, b)| a == b))
    };
    for (wrong, group) in [
        (json!({"?": 1}), ""),
        (json!({"annotations": {"?": 1}}), "annotations."),
    ] {
        let unknown = Settings::read(&wrong).unwrap_err().to_string();
        let (_, known) = unknown.split_once(", expected ").unwrap();
        for field in known.split('`').skip(1).step_by(2) {
            assert!(
                is_asked(&format!("{group}{field}")),
                "questions-ui.yml does not ask for settings.{group}{field}"
            );
        }
    }
}

#[test]
fn context_aware_resources_name_every_version() {
    let expected: Vec<Value> = API_VERSIONS
        .iter()
        .map(|version| json!({"apiVersion": version, "kind": KIND}))
        .collect();
    assert_eq!(metadata()["contextAwareResources"], json!(expected));
}

/// The policies that every installation has.
const POLICIES: [&str; 2] = [
    "deploy/base/cluster-admission-policy.yaml",
    "deploy/base/cluster-admission-policy-validation.yaml",
];
const CUSTOM_WORKLOADS: &str =
    "deploy/components/custom-workloads/cluster-admission-policy-custom-workloads.yaml";

/// Kubewarden refuses a policy that may take longer than the API server waits. One second is left
/// for other requests that hold the workers. The StatefulSet controller's five workers wait so long
/// for a silent PolicyServer, each time.
#[test]
fn the_policies_may_take_less_time_than_the_api_server_waits() {
    for file in POLICIES.into_iter().chain([CUSTOM_WORKLOADS]) {
        let deployed = yaml(&read(file));
        let seconds = |field: &str| deployed["spec"][field].as_u64().unwrap();
        assert_eq!(
            seconds("timeoutEvalSeconds") + 1,
            seconds("timeoutSeconds"),
            "{file}"
        );
        assert!(seconds("timeoutSeconds") <= 4, "{file}");
    }
}

#[test]
fn the_policies_divide_what_the_metadata_ask_for() {
    let metadata = metadata();
    let deployed = POLICIES.map(|file| yaml(&read(file))["spec"].clone());
    let mut rules: Vec<Value> = Vec::new();
    for spec in &deployed {
        rules.extend(spec["rules"].as_array().unwrap().iter().cloned());
        // Both look up PersistentPodStates.
        assert_eq!(
            spec["contextAwareResources"],
            metadata["contextAwareResources"]
        );
        assert_eq!(spec["module"], deployed[0]["module"]);
        assert_eq!(spec["policyServer"], deployed[0]["policyServer"]);
        assert_eq!(spec["settings"], deployed[0]["settings"]);
    }
    assert_eq!(metadata["rules"], json!(rules));
    // Pods are changed and not audited, objects the other way round.
    let fields = ["mutating", "backgroundAudit"];
    let [pods, objects] = deployed
        .each_ref()
        .map(|spec| fields.map(|field| spec[field].as_bool().unwrap()));
    assert_eq!((pods, objects), ([true, false], [false, true]));
    assert_eq!(
        fields.map(|field| metadata[field].as_bool().unwrap()),
        [true, true]
    );
}
