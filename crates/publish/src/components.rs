//! Lists the packages that are compiled into a program, as `cargo tree` does for the features of
//! this program.
//!
//! Packages that only run during the build (build scripts, procedural macros, tests) are not part
//! of the program and are left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

/// Name and version: two versions of a package are two components.
pub(crate) type PackageKey = (String, String);

#[derive(Debug, Default)]
pub(crate) struct Package {
    pub(crate) is_own: bool,
    /// Empty if the package names none.
    pub(crate) license: String,
    pub(crate) repository: String,
    pub(crate) dependencies: BTreeSet<PackageKey>,
}

#[derive(Debug)]
pub(crate) struct Components {
    pub(crate) root: PackageKey,
    /// All packages, the program's own among them.
    pub(crate) packages: BTreeMap<PackageKey, Package>,
}

/// Lists the packages that are compiled into a package for a target.
pub(crate) fn list(source: &Path, package: &str, target: &str) -> Result<Components> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(source)
        .args(["tree", "--locked", "--package", package, "--target", target])
        .args([
            "--edges",
            "normal,no-proc-macro",
            "--prefix",
            "depth",
            "--format",
            "{p}\t{l}\t{r}",
        ])
        .output()
        .context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "cargo tree: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    parse_tree(&String::from_utf8_lossy(&output.stdout))
}

/// Parses lines such as `2serde v1.0.229`, a tab, the license, a tab, the repository: the number is
/// the depth. A line that ends with `(*)` repeats a package without its dependencies. The path of
/// an own package follows its version.
fn parse_tree(tree: &str) -> Result<Components> {
    let mut packages: BTreeMap<PackageKey, Package> = BTreeMap::new();
    let mut path: Vec<PackageKey> = Vec::new();
    let mut root = None;
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let unexpected = || format!("unexpected line of cargo tree: {line:?}");
        let columns: Vec<&str> = line.trim_end_matches(" (*)").split('\t').collect();
        let [package, license, repository] = columns[..] else {
            bail!(unexpected())
        };
        let name_at = package
            .find(|character: char| !character.is_ascii_digit())
            .with_context(unexpected)?;
        let depth: usize = package[..name_at].parse().with_context(unexpected)?;
        let mut words = package[name_at..].split(' ');
        let name = words.next().with_context(unexpected)?;
        let version = words
            .next()
            .and_then(|word| word.strip_prefix('v'))
            .with_context(unexpected)?;
        let key = (name.to_owned(), version.to_owned());
        ensure!(depth <= path.len(), unexpected());
        path.truncate(depth);
        let package = packages.entry(key.clone()).or_default();
        package.is_own = words.next().is_some_and(|place| place.starts_with("(/"));
        (package.license, package.repository) = (license.to_owned(), repository.to_owned());
        match path.last() {
            Some(dependent) => {
                packages
                    .entry(dependent.clone())
                    .or_default()
                    .dependencies
                    .insert(key.clone());
            }
            None if root.is_none() => root = Some(key.clone()),
            None => bail!(unexpected()),
        }
        path.push(key);
    }
    Ok(Components {
        root: root.context("cargo tree printed nothing")?,
        packages,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, version: &str) -> PackageKey {
        (name.to_owned(), version.to_owned())
    }

    #[test]
    fn parses_the_direct_dependencies_of_each_package() {
        let tree = "0app v0.1.0 (/somewhere)\tMIT\tr\n1a v1.0.0\tMIT\tr\n2b \
                    v2.0.0+deprecated\t\t\n1b v1.0.0\tMIT\tr\n1c v3.0.0\tMIT\tr\n2a \
                    v1.0.0\tMIT\tr (*)\n\n";
        let Components { root, packages } = parse_tree(tree).unwrap();
        assert_eq!(root, key("app", "0.1.0"));
        let of = |name, version| {
            packages[&key(name, version)]
                .dependencies
                .iter()
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of("app", "0.1.0"),
            [key("a", "1.0.0"), key("b", "1.0.0"), key("c", "3.0.0")]
        );
        assert_eq!(of("a", "1.0.0"), [key("b", "2.0.0+deprecated")]);
        assert_eq!(of("b", "1.0.0"), []);
        assert_eq!(of("c", "3.0.0"), [key("a", "1.0.0")]);
        assert_eq!(packages.len(), 5);
        let a = &packages[&key("a", "1.0.0")];
        assert!(packages[&root].is_own && !a.is_own);
        assert_eq!((a.license.as_str(), a.repository.as_str()), ("MIT", "r"));
    }

    #[test]
    fn refuses_anything_that_is_not_a_tree() {
        assert!(
            parse_tree("0app v1.0.0").is_err(),
            "a line without all columns"
        );
        for tree in [
            "",
            "0app",
            "app v1.0.0",
            "1app v1.0.0",
            "0app v1.0.0\n2b v1.0.0",
            "0a v1.0.0\n0b v1.0.0",
            "7",
        ] {
            let lines: String = tree.lines().flat_map(|line| [line, "\tMIT\tr\n"]).collect();
            assert!(parse_tree(&lines).is_err(), "{tree:?}");
        }
    }

    #[test]
    fn lists_only_packages_that_are_compiled_into_the_wasm_module() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let components = list(&source, crate::policy::PACKAGE, crate::policy::TARGET).unwrap();
        let names: BTreeSet<&str> = components
            .packages
            .keys()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(components.root.0, crate::policy::PACKAGE);
        for present in [
            "pps-core",
            "kubewarden-policy-sdk",
            "serde_json",
            "wapc-guest",
        ] {
            assert!(names.contains(present), "{present} is not in {names:?}");
        }
        // Used only by the sidecar, tests, build scripts and another feature of pps-core; the last
        // is a procedural macro.
        for absent in ["kube", "proptest", "yaml_serde", "schemars", "serde_derive"] {
            assert!(!names.contains(absent), "{absent} is in {names:?}");
        }
    }
}
