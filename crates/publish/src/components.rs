//! What is compiled into a program. `cargo tree` says which packages, with the features of this very program;
//! `cargo metadata` says what is known of them.
//!
//! What only runs while it is built (build scripts, procedural macros, tests) is no part of the program, and is
//! left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::{Metadata, MetadataCommand, Package};

/// Name and version; two versions of one package are two components.
pub(crate) type Id = (String, String);

/// The packages of a program.
#[derive(Debug)]
pub(crate) struct Components {
    /// The program's own package.
    pub(crate) root: Package,
    /// All others, sorted.
    pub(crate) packages: BTreeMap<Id, Package>,
    /// Who uses what, the root included.
    pub(crate) uses: BTreeMap<Id, BTreeSet<Id>>,
}

/// The packages that are compiled into a package for a target.
pub(crate) fn of(source: &Path, package: &str, target: &str) -> Result<Components> {
    let (root, uses) = parse(&tree(source, package, target)?)?;
    let metadata = metadata(source, target)?;
    let find = |(name, version): &Id| {
        let is_it = |package: &&Package| *package.name == *name && package.version.to_string() == *version;
        metadata
            .packages
            .iter()
            .find(is_it)
            .cloned()
            .with_context(|| format!("cargo metadata lacks {name} {version}"))
    };
    let mut packages = BTreeMap::new();
    for id in uses.keys().filter(|id| **id != root) {
        packages.insert(id.clone(), find(id)?);
    }
    Ok(Components { root: find(&root)?, packages, uses })
}

fn metadata(source: &Path, target: &str) -> Result<Metadata> {
    let mut command = MetadataCommand::new();
    command.current_dir(source);
    command.other_options(["--locked", "--filter-platform", target].map(str::to_owned));
    command.exec().context("cannot tell the packages")
}

fn tree(source: &Path, package: &str, target: &str) -> Result<String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(source)
        .args(["tree", "--locked", "--package", package, "--target", target])
        .args(["--edges", "normal,no-proc-macro", "--prefix", "depth", "--format", "{p}"])
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Reads lines such as `2serde v1.0.229 (*)`: depth, name, version, and remarks. What a package uses is listed once.
fn parse(tree: &str) -> Result<(Id, BTreeMap<Id, BTreeSet<Id>>)> {
    let mut uses: BTreeMap<Id, BTreeSet<Id>> = BTreeMap::new();
    let mut path: Vec<Id> = Vec::new();
    let mut root = None;
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let strange = || format!("cargo tree says {line:?}");
        let name_at = line.find(|character: char| !character.is_ascii_digit()).with_context(strange)?;
        let depth: usize = line[..name_at].parse().with_context(strange)?;
        let mut words = line[name_at..].split(' ');
        let name = words.next().with_context(strange)?;
        let version = words.next().and_then(|word| word.strip_prefix('v')).with_context(strange)?;
        let id = (name.to_owned(), version.to_owned());
        ensure!(depth <= path.len(), strange());
        path.truncate(depth);
        uses.entry(id.clone()).or_default();
        match path.last() {
            Some(user) => {
                uses.entry(user.clone()).or_default().insert(id.clone());
            }
            None if root.is_none() => root = Some(id.clone()),
            None => bail!(strange()),
        }
        path.push(id);
    }
    Ok((root.context("cargo tree says nothing")?, uses))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str, version: &str) -> Id {
        (name.to_owned(), version.to_owned())
    }

    #[test]
    fn a_tree_says_who_uses_what() {
        let tree = "0app v0.1.0 (/somewhere)\n1a v1.0.0\n2b v2.0.0+deprecated\n1b v1.0.0\n1c v3.0.0\n2a v1.0.0 (*)\n\n";
        let (root, uses) = parse(tree).unwrap();
        assert_eq!(root, id("app", "0.1.0"));
        let of = |name, version| uses[&id(name, version)].iter().cloned().collect::<Vec<_>>();
        assert_eq!(of("app", "0.1.0"), [id("a", "1.0.0"), id("b", "1.0.0"), id("c", "3.0.0")]);
        assert_eq!(of("a", "1.0.0"), [id("b", "2.0.0+deprecated")]);
        assert_eq!(of("b", "1.0.0"), []);
        assert_eq!(of("c", "3.0.0"), [id("a", "1.0.0")]);
        assert_eq!(uses.len(), 5);
    }

    #[test]
    fn what_is_no_tree_is_an_error() {
        for tree in
            ["", "0app", "app v1.0.0", "1app v1.0.0", "0app v1.0.0\n2b v1.0.0", "0a v1.0.0\n0b v1.0.0", "7"]
        {
            assert!(parse(tree).is_err(), "{tree:?}");
        }
    }

    #[test]
    fn the_policys_packages_are_those_of_wasm() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let components = of(&source, crate::policy::PACKAGE, crate::policy::TARGET).unwrap();
        let names: BTreeSet<&str> = components.packages.keys().map(|(name, _)| name.as_str()).collect();
        assert_eq!(components.root.name.as_str(), crate::policy::PACKAGE);
        for there in ["kubewarden-policy-sdk", "pps-core", "serde_json", "wapc-guest"] {
            assert!(names.contains(there), "{there} is not in {names:?}");
        }
        // Of the sidecar, of tests and build scripts, of another feature of pps-core, a procedural macro.
        for other in ["kube", "proptest", "yaml_serde", "schemars", "serde_derive"] {
            assert!(!names.contains(other), "{other} is in {names:?}");
        }
    }
}
