//! The invariants of ARCHITECTURE.md that the compiler does not see.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Rust files below a folder that hold one of these texts.
fn files_with(folder: &str, texts: &[&str]) -> Vec<String> {
    let mut found: Vec<String> = rust_files(&root().join(folder))
        .into_iter()
        .filter(|path| {
            let code = fs::read_to_string(path).unwrap();
            texts.iter().any(|text| code.contains(text))
        })
        .map(|path| path.strip_prefix(root()).unwrap().display().to_string())
        .collect();
    found.sort();
    found
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

#[test]
fn core_has_no_dependency_but_serde() {
    let manifest = fs::read_to_string(root().join("crates/core/Cargo.toml")).unwrap();
    let dependencies = manifest.split("[dependencies]\n").nth(1).unwrap().split("\n[").next().unwrap();
    let always: Vec<&str> = dependencies
        .lines()
        .filter(|line| !line.is_empty() && !line.contains("optional = true"))
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(always, ["serde", "serde_json"]);
}

#[test]
fn core_has_no_clock_and_no_io() {
    let impure = ["std::time", "std::fs", "std::net", "std::thread", "std::env", "async fn", "println!"];
    assert_eq!(files_with("crates/core/src", &impure), Vec::<String>::new());
}

#[test]
fn one_place_makes_host_calls() {
    assert_eq!(files_with("src", &["wapc_guest::host_call", "host_capabilities"]), ["src/cluster.rs"]);
}

#[test]
fn one_place_writes_to_the_api_server() {
    let writes = ["Patch::", "PatchParams", "PostParams", "DeleteParams", "patch_status"];
    // The Lease, which is no part of the product's data, has a place of its own.
    let places = ["crates/sidecar/src/lease.rs", "crates/sidecar/src/write.rs"];
    assert_eq!(files_with("crates/sidecar/src", &writes), places);
}

/// Somebody may set the clock on the wall. It says when something was, for people to read, and decides
/// nothing.
#[test]
fn the_clock_on_the_wall_is_only_read_to_tell_the_time() {
    let clocks = ["SystemTime", "Timestamp::now", "ClockId::Realtime", "UNIX_EPOCH"];
    let places = ["crates/sidecar/src/lease.rs", "crates/sidecar/src/run/writing.rs"];
    assert_eq!(files_with("crates/sidecar/src", &clocks), places);
    // When the Lease was taken and renewed, and when a condition changed.
    let looks = places.map(|place| {
        let code = fs::read_to_string(root().join(place)).unwrap();
        clocks.iter().map(|clock| code.matches(clock).count()).sum::<usize>()
    });
    assert_eq!(looks, [1, 1]);
}

#[test]
fn the_index_knows_no_cluster_and_no_clock() {
    let outside = ["kube::", "tokio::", "std::time", "async fn", ".await"];
    let mut files = files_with("crates/sidecar/src/index", &outside);
    files.extend(
        files_with("crates/sidecar/src", &outside).into_iter().filter(|path| path.ends_with("/index.rs")),
    );
    assert_eq!(files, Vec::<String>::new());
}
