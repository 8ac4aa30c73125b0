//! Lists the packages that are compiled into a program. `cargo tree` lists the packages for the features of
//! this program; `cargo metadata` describes them.
//!
//! Packages that only run during the build (build scripts, procedural macros, tests) are not part of the
//! program and are left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::{Metadata, MetadataCommand, Package};

/// Name and version: two versions of a package are two components.
pub(crate) type PackageKey = (String, String);

/// The packages of a program.
#[derive(Debug)]
pub(crate) struct Components {
    /// The program's own package.
    pub(crate) root: Package,
    /// All others.
    pub(crate) packages: BTreeMap<PackageKey, Package>,
    /// The direct dependencies of each package, including the root.
    pub(crate) dependencies: BTreeMap<PackageKey, BTreeSet<PackageKey>>,
}

/// Lists the packages that are compiled into a package for a target.
pub(crate) fn list(source: &Path, package: &str, target: &str) -> Result<Components> {
    let (root, dependencies) = parse_tree(&run_tree(source, package, target)?)?;
    let metadata = run_metadata(source, target)?;
    let find = |(name, version): &PackageKey| {
        let is_it = |package: &&Package| *package.name == *name && package.version.to_string() == *version;
        metadata
            .packages
            .iter()
            .find(is_it)
            .cloned()
            .with_context(|| format!("cargo metadata lacks {name} {version}"))
    };
    let mut packages = BTreeMap::new();
    for id in dependencies.keys().filter(|id| **id != root) {
        packages.insert(id.clone(), find(id)?);
    }
    Ok(Components { root: find(&root)?, packages, dependencies })
}

fn run_metadata(source: &Path, target: &str) -> Result<Metadata> {
    let mut command = MetadataCommand::new();
    command.current_dir(source);
    command.other_options(["--locked", "--filter-platform", target].map(str::to_owned));
    command.exec().context("cannot describe the packages")
}

fn run_tree(source: &Path, package: &str, target: &str) -> Result<String> {
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

/// Parses lines such as `2serde v1.0.229 (*)`: depth, name, version, remarks. The dependencies of a package
/// are listed only the first time.
fn parse_tree(tree: &str) -> Result<(PackageKey, BTreeMap<PackageKey, BTreeSet<PackageKey>>)> {
    let mut dependencies: BTreeMap<PackageKey, BTreeSet<PackageKey>> = BTreeMap::new();
    let mut path: Vec<PackageKey> = Vec::new();
    let mut root = None;
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let unexpected = || format!("unexpected line of cargo tree: {line:?}");
        let name_at = line.find(|character: char| !character.is_ascii_digit()).with_context(unexpected)?;
        let depth: usize = line[..name_at].parse().with_context(unexpected)?;
        let mut words = line[name_at..].split(' ');
        let name = words.next().with_context(unexpected)?;
        let version = words.next().and_then(|word| word.strip_prefix('v')).with_context(unexpected)?;
        let id = (name.to_owned(), version.to_owned());
        ensure!(depth <= path.len(), unexpected());
        path.truncate(depth);
        dependencies.entry(id.clone()).or_default();
        match path.last() {
            Some(dependent) => {
                dependencies.entry(dependent.clone()).or_default().insert(id.clone());
            }
            None if root.is_none() => root = Some(id.clone()),
            None => bail!(unexpected()),
        }
        path.push(id);
    }
    Ok((root.context("cargo tree printed nothing")?, dependencies))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, version: &str) -> PackageKey {
        (name.to_owned(), version.to_owned())
    }

    #[test]
    fn parses_the_direct_dependencies_of_each_package() {
        let tree = "0app v0.1.0 (/somewhere)\n1a v1.0.0\n2b v2.0.0+deprecated\n1b v1.0.0\n1c v3.0.0\n2a v1.0.0 (*)\n\n";
        let (root, dependencies) = parse_tree(tree).unwrap();
        assert_eq!(root, key("app", "0.1.0"));
        let of = |name, version| dependencies[&key(name, version)].iter().cloned().collect::<Vec<_>>();
        assert_eq!(of("app", "0.1.0"), [key("a", "1.0.0"), key("b", "1.0.0"), key("c", "3.0.0")]);
        assert_eq!(of("a", "1.0.0"), [key("b", "2.0.0+deprecated")]);
        assert_eq!(of("b", "1.0.0"), []);
        assert_eq!(of("c", "3.0.0"), [key("a", "1.0.0")]);
        assert_eq!(dependencies.len(), 5);
    }

    #[test]
    fn refuses_anything_that_is_not_a_tree() {
        for tree in
            ["", "0app", "app v1.0.0", "1app v1.0.0", "0app v1.0.0\n2b v1.0.0", "0a v1.0.0\n0b v1.0.0", "7"]
        {
            assert!(parse_tree(tree).is_err(), "{tree:?}");
        }
    }

    #[test]
    fn lists_only_packages_that_are_compiled_into_the_wasm_module() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let components = list(&source, crate::policy::PACKAGE, crate::policy::TARGET).unwrap();
        let names: BTreeSet<&str> = components.packages.keys().map(|(name, _)| name.as_str()).collect();
        assert_eq!(components.root.name.as_str(), crate::policy::PACKAGE);
        for present in ["pps-core", "serde_json", "wapc-guest"] {
            assert!(names.contains(present), "{present} is not in {names:?}");
        }
        // Used only by the sidecar, tests, build scripts and another feature of pps-core; the last is a
        // procedural macro.
        for absent in ["kube", "kubewarden-policy-sdk", "proptest", "yaml_serde", "schemars", "serde_derive"]
        {
            assert!(!names.contains(absent), "{absent} is in {names:?}");
        }
    }
}
