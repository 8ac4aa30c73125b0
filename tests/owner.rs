//! The owner of registry and repository is stated once, in Cargo.toml, and nothing claims what is
//! not so yet: that something is published, or that this is a project of Kubewarden.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::Path,
    process::Command,
};

use persistent_pod_state_policy::METADATA;
use serde_json::Value;

/// The names under which everything is published, after the registry.
const NAMES: [&str; 3] = [
    "/persistent-pod-state-sidecar",
    "/policies/persistent-pod-state",
    "/charts/persistent-pod-state",
];
/// Registries of users, in documents and tests.
const REGISTRIES_OF_USERS: [&str; 7] = [
    "registry.internal",
    "localhost:5000",
    "registry.example",
    "r.example",
    "mirror.example",
    "localhost:5001/pps",
    "kind-registry:5000/pps",
];
/// What a page says at its top until there is a release.
const UNPUBLISHED: &str = "Nothing is published yet";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn repository() -> &'static str {
    env!("CARGO_PKG_REPOSITORY")
}

fn registry() -> String {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let value = manifest
        .lines()
        .find_map(|line| line.strip_prefix("registry = \"")?.strip_suffix('"'));
    value.unwrap().to_owned()
}

/// The text files of a checkout, by their path in it.
fn files(root: &Path) -> BTreeMap<String, String> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            let own = path.file_name().unwrap().to_str().unwrap();
            if own.starts_with("target") || own == "dist" || own == ".git" {
                continue;
            }
            if path.is_dir() {
                walk(root, &path, found);
            } else if let Ok(text) = fs::read_to_string(&path) {
                found.insert(name, text);
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut found);
    found
}

/// The registry before each name of something that is published, such as `ghcr.io/owner`,
/// `$REGISTRY` or `{host}`. Paths and URLs of the repository have none.
fn registries(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for name in NAMES {
        for (at, _) in text.match_indices(name) {
            let after = text[at + name.len()..].chars().next().unwrap_or(' ');
            let is_separator = |c: char| c.is_whitespace() || "\"'`(<|=,".contains(c);
            let start = text[..at]
                .rfind(is_separator)
                .map_or(0, |before| before + 1);
            let whole = &text[start..at];
            let bare = ["registry://", "oci://", "docker://"]
                .iter()
                .find_map(|scheme| whole.strip_prefix(scheme));
            let first = bare.unwrap_or(whole).split('/').next().unwrap_or_default();
            let is_host =
                first.contains(['.', ':']) && !first.starts_with('.') && !first.ends_with(':');
            let is_variable = first.contains(['$', '{']) && !first.contains("_DIR");
            if !after.is_ascii_alphanumeric() && !"-_/".contains(after) && (is_host || is_variable)
            {
                found.push(bare.unwrap_or(whole));
            }
        }
    }
    found
}

/// The URLs of repositories of this product.
fn repositories(text: &str) -> Vec<&str> {
    let name = "/persistent-pod-state-policy";
    let urls = text.match_indices(name).filter_map(|(at, _)| {
        let start = text[..at].rfind("https://")?;
        let url = &text[start..at + name.len()];
        (!url.contains(char::is_whitespace)).then_some(url)
    });
    urls.collect()
}

/// The files that name another owner, each with what it names.
fn strangers(files: &BTreeMap<String, String>, registry: &str, repository: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (file, text) in files
        .iter()
        .filter(|(file, _)| *file != "tests/owner.rs" && *file != "CHANGELOG.md")
    {
        let other = |named: &&&str| {
            **named != registry
                && !named.contains(['$', '{'])
                && !REGISTRIES_OF_USERS.contains(*named)
        };
        found.extend(
            registries(text)
                .iter()
                .filter(other)
                .map(|named| format!("{file}: {named}")),
        );
        let other = repositories(text)
            .into_iter()
            .filter(|named| *named != repository);
        found.extend(other.map(|named| format!("{file}: {named}")));
    }
    found
}

fn set_owner(root: &Path, args: &[&str]) -> (bool, String) {
    let output = Command::new(root.join("hack/set-owner.sh"))
        .args(args)
        .output()
        .unwrap();
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

fn is_update() -> bool {
    env::var_os("UPDATE").is_some_and(|value| value == "1")
}

#[test]
fn every_file_names_the_owner_of_registry_and_repository_that_cargo_toml_names() {
    if is_update() {
        let (done, said) = set_owner(root(), &[]);
        assert!(done, "{said}");
        return;
    }
    let files = files(root());
    let strangers = strangers(&files, &registry(), repository());
    assert!(
        strangers.is_empty(),
        "these name another owner than Cargo.toml. To change them: hack/set-owner.sh\n{}",
        strangers.join("\n")
    );
    for (file, registries_named) in [
        ("policy-metadata.yml", true),
        ("artifacthub-pkg.yml", true),
        ("charts/persistent-pod-state/Chart.yaml", true),
        ("charts/persistent-pod-state/templates/_helpers.tpl", true),
        ("deploy/base/deployment.yaml", true),
        ("README.md", false),
        ("SECURITY.md", false),
        (".github/ISSUE_TEMPLATE/config.yml", false),
    ] {
        let text = &files[file];
        let named = if registries_named {
            !registries(text).is_empty()
        } else {
            text.contains(repository())
        };
        assert!(named, "{file} names no owner");
    }
}

/// Copies the checkout, changes the owner there, and changes it back.
#[test]
fn one_command_changes_the_owner_in_every_file_and_back() {
    if is_update() {
        return;
    }
    let copy = env::temp_dir().join(format!("pps-owner-{}", std::process::id()));
    let before = files(root());
    for (file, text) in &before {
        let to = copy.join(file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(&to, text).unwrap();
        fs::set_permissions(&to, fs::metadata(root().join(file)).unwrap().permissions()).unwrap();
    }

    // Put together, so that this file does not name them.
    let new_registry = ["ghcr.io", "new-owner", "images"].join("/");
    let new = ["https://github.com", "New-Owner", "pps.mirror"].join("/");
    let (old_registry, old) = (registry(), repository());
    let (new_registry, new) = (new_registry.as_str(), new.as_str());
    let (done, said) = set_owner(&copy, &[new_registry, new]);
    assert!(done, "{said}");
    let after = files(&copy);
    assert_eq!(strangers(&after, new_registry, new), [] as [String; 0]);
    for (file, text) in &after {
        let kept = file == "CHANGELOG.md";
        assert!(kept || !text.contains(old), "{file} still names {old}");
        assert!(
            kept || !text.contains(&format!("{old_registry}/p")),
            "{file} still names {old_registry}"
        );
    }
    assert!(after[".github/CODEOWNERS"].ends_with("\n* @New-Owner/maintainers\n"));
    let cargo = &after["Cargo.toml"];
    assert!(
        cargo.contains(&format!("\nregistry = \"{new_registry}\"\n")),
        "{cargo}"
    );
    assert!(
        cargo.contains(&format!("\nrepository = \"{new}\"\n")),
        "{cargo}"
    );
    let changed = after
        .iter()
        .filter(|(file, text)| before[*file] != **text)
        .count();
    assert!(changed >= 10, "only {changed} files were changed");

    // A file that was forgotten is found, and `hack/set-owner.sh` alone changes it.
    let (done, said) = set_owner(&copy, &[&old_registry, old]);
    assert!(done, "{said}");
    for (file, text) in files(&copy) {
        assert!(before[&file] == text, "{file} is not as it was");
    }
    fs::remove_dir_all(copy).unwrap();
}

#[test]
fn an_owner_that_cannot_be_is_refused_before_any_file_changes() {
    if is_update() {
        return;
    }
    let before = files(root());
    for (args, refusal) in [
        (
            vec!["ghcr.io/Owner", "https://github.com/owner/name"],
            "ghcr.io/Owner is not a registry",
        ),
        (
            vec!["owner", "https://github.com/owner/name"],
            "owner is not a registry",
        ),
        (
            vec!["ghcr.io/owner", "git@github.com:owner/name"],
            "is not the URL of a repository",
        ),
        (
            vec!["ghcr.io/owner", "https://github.com/a b"],
            "is not the URL of a repository",
        ),
        (
            vec!["ghcr.io/owner"],
            "pass the registry and the repository, or nothing",
        ),
    ] {
        let (done, said) = set_owner(root(), &args);
        assert!(!done && said.contains(refusal), "{args:?}: {said}");
    }
    assert!(files(root()) == before);
}

#[test]
fn finds_registries_in_names_of_what_is_published() {
    for (text, wanted) in [
        (
            "image: r.example/a/persistent-pod-state-sidecar:v1",
            vec!["r.example/a"],
        ),
        (
            "\"registry://r.example/policies/persistent-pod-state@sha256:0\"",
            vec!["r.example"],
        ),
        (
            "--set image.repository=$REGISTRY/persistent-pod-state-sidecar",
            vec!["$REGISTRY"],
        ),
        (
            "oci://localhost:5000/x/charts/persistent-pod-state --version 1",
            vec!["localhost:5000/x"],
        ),
        (
            "[chart](../charts/persistent-pod-state/README.md), ../charts/persistent-pod-state",
            vec![],
        ),
        (
            "https://git.example/a/b/charts/persistent-pod-state/files",
            vec![],
        ),
        (
            "policies/persistent-pod-state and r.example/policies/persistent-pod-state-x",
            vec![],
        ),
    ] {
        assert_eq!(registries(text), wanted, "{text}");
    }
}

/// The version's section in the changelog is written for its release.
fn is_released(changelog: &str) -> bool {
    changelog.lines().any(|line| {
        let heading = line
            .strip_prefix("## ")
            .map(|rest| rest.trim_start_matches('['));
        heading.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// Whether a reader needs something published to do what the page says.
fn needs_something_published(text: &str) -> bool {
    let installs = |line: &str| {
        let helm = ["helm install ", "helm upgrade "]
            .iter()
            .any(|command| line.contains(command));
        helm && line.contains("persistent-pod-state") || line.contains("kubectl apply -k deploy")
    };
    !registries(text).is_empty() || text.lines().any(installs)
}

/// The part of a page that is read first: before its first section, and at most 20 lines.
fn top(page: &str) -> String {
    page.lines()
        .take(20)
        .take_while(|line| !line.starts_with("## "))
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn pages_that_name_an_image_or_a_chart_say_at_their_top_that_nothing_is_published() {
    let files = files(root());
    let is_released = is_released(&files["CHANGELOG.md"]);
    let is_page = |file: &str| {
        let is_document = Path::new(file)
            .extension()
            .is_some_and(|ending| ending == "md")
            && !file.starts_with(".github/")
            && !file.contains("testdata/");
        let is_catalogue = file.ends_with("/Chart.yaml") || file == "artifacthub-pkg.yml";
        (is_document || is_catalogue) && file != "CHANGELOG.md"
    };
    let pages = files
        .iter()
        .filter(|(file, text)| is_page(file) && needs_something_published(text));
    let mut found = BTreeSet::new();
    let mut wrong = Vec::new();
    for (file, text) in pages {
        found.insert(file.as_str());
        let says = top(text).contains(UNPUBLISHED);
        if is_released && text.contains(UNPUBLISHED) {
            wrong.push(format!(
                "{file} says {UNPUBLISHED:?}, but CHANGELOG.md has a released version"
            ));
        } else if !is_released && !says {
            wrong.push(format!(
                "{file} must say {UNPUBLISHED:?} before its first section, and how to push one's \
                 own"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for file in [
        "README.md",
        "deploy/README.md",
        "charts/persistent-pod-state/README.md",
        "docs/publishing.md",
    ] {
        assert!(
            found.contains(file),
            "{file} names nothing that is published: {found:?}"
        );
    }
}

#[test]
fn a_page_is_judged_by_what_comes_before_its_first_section() {
    assert!(!is_released("# Changelog\n\n## Unreleased\n"));
    assert!(is_released("## Unreleased\n\n## 0.1.0\n") && is_released("## [0.1.0] - 2027-01-01\n"));
    assert!(needs_something_published(
        "helm install a charts/persistent-pod-state"
    ));
    assert!(needs_something_published(
        "kubectl apply -k deploy/overlays/monitoring"
    ));
    assert!(!needs_something_published(
        "helm upgrade kruise openkruise/kruise"
    ));
    assert!(top("# Title\n\nNothing is published yet.\n").contains(UNPUBLISHED));
    assert!(!top("# Title\n\n## Section\n\nNothing is published yet.\n").contains(UNPUBLISHED));
}

/// Kubewarden's own policies have its names and its logo. kwctl writes `provider: kubewarden` for
/// every policy.
#[test]
fn nothing_says_that_this_is_a_project_of_kubewarden() {
    let metadata: Value = serde_json::from_slice(METADATA).unwrap();
    let of =
        |name: &str| metadata["annotations"][format!("io.kubewarden.policy.{name}")].to_string();
    let chart = fs::read_to_string(root().join("charts/persistent-pod-state/Chart.yaml")).unwrap();
    let chart: Value = yaml_serde::from_str(&chart).unwrap();
    let mut claims: Vec<String> = ["author", "url", "source", "ociUrl"].map(of).into();
    claims.extend(["home", "icon", "sources", "maintainers"].map(|field| chart[field].to_string()));
    for claim in claims {
        assert!(
            !claim.to_lowercase().contains("kubewarden"),
            "{claim} names Kubewarden as the owner"
        );
    }
    for (file, text) in files(root()) {
        let lower = text.to_lowercase();
        for phrase in [
            "official kubewarden policy",
            "part of kubewarden",
            "by the kubewarden",
        ] {
            assert!(
                file == "tests/owner.rs" || !lower.contains(phrase),
                "{file} says {phrase:?}"
            );
        }
    }
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let words = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("not a project of Kubewarden"),
        "README.md does not say whose project it is"
    );
}

/// Files that are made by commands, and others that are not text, are not searched.
#[test]
fn every_folder_of_the_checkout_is_searched() {
    let files = files(root());
    for folder in [
        ".github/",
        "charts/",
        "crates/",
        "deploy/",
        "docs/",
        "e2e-tests/",
        "hack/",
        "src/",
        "tests/",
    ] {
        assert!(
            files.keys().any(|file| file.starts_with(folder)),
            "{folder} is not searched"
        );
    }
    assert!(!files.contains_key("policy.wasm"));
}
