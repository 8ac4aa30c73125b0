//! A release under another owner names only that owner: whoever installs it pulls nothing from
//! anywhere else. The owner of registry and repository is stated once, in Cargo.toml.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::{collections::BTreeMap, env, fs, path::Path, process::Command};

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

/// Copies the checkout, changes the owner there, and changes it back.
#[test]
fn one_command_changes_the_owner_in_every_file_and_back() {
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

    let (done, said) = set_owner(&copy, &[&old_registry, old]);
    assert!(done, "{said}");
    for (file, text) in files(&copy) {
        assert!(before[&file] == text, "{file} is not as it was");
    }
    fs::remove_dir_all(copy).unwrap();
}

#[test]
fn an_owner_that_cannot_be_is_refused_before_any_file_changes() {
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
