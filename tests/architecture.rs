//! What ARCHITECTURE.md promises and cargo cannot hold: cargo already decides which crate may know
//! which.
//!
//! These tests read the source as text: without comments, and without the tests at the end of a
//! file.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules of the standard library that reach a clock or the world around the process.
const IMPURE: [&str; 10] = [
    "std::time",
    "std::fs",
    "std::net::Tcp",
    "std::thread",
    "std::env",
    "std::process",
    "std::io",
    "async ",
    "println!",
    "dbg!",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The product code of a file: without comments and without its tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let is_tests = |rest: &&str| rest.lines().next().is_some_and(|line| line.ends_with('{'));
    let tests = text
        .split("#[cfg(test)]\nmod ")
        .skip(1)
        .find(is_tests)
        .map_or(0, str::len);
    text[..text.len() - tests]
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The product files below a folder, with their code. Paths are relative to the root.
fn files(folder: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for path in rust_files(&root().join(folder)) {
        let name = path
            .strip_prefix(root())
            .unwrap()
            .to_string_lossy()
            .into_owned();
        if !name.contains("/tests/") && !name.ends_with("/tests.rs") {
            found.insert(name, code(&path));
        }
    }
    assert!(!found.is_empty(), "{folder} has no source");
    found
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir()
            && !name.starts_with('.')
            && !name.starts_with("target")
            && name != "testdata"
        {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The files below a folder whose code contains one of these.
fn files_with(folder: &str, words: &[&str]) -> Vec<String> {
    let has = |code: &String| words.iter().any(|word| code.contains(word));
    files(folder)
        .into_iter()
        .filter(|(_, code)| has(code))
        .map(|(file, _)| file)
        .collect()
}

#[test]
fn decisions_have_no_clock_no_io_and_no_cluster() {
    let pure = [
        "core",
        "admission",
        "recorder",
        "scheduler",
        "simulation",
        "manifest",
        "playground",
    ];
    let timed = ["std::time"].as_slice();
    for name in pure {
        let folder = format!("crates/{name}/src");
        // The recorder computes with times that it is given.
        let words: Vec<&str> = IMPURE
            .into_iter()
            .filter(|word| name != "recorder" || !timed.contains(word))
            .collect();
        assert_eq!(files_with(&folder, &words), Vec::<String>::new());
        assert_eq!(
            files_with(&folder, &["Instant::now", "SystemTime"]),
            Vec::<String>::new()
        );
        let manifest =
            fs::read_to_string(root().join(format!("crates/{name}/Cargo.toml"))).unwrap();
        for client in ["\nkube ", "\nkube=", "\ntokio", "\nhttp"] {
            assert!(
                !manifest.contains(client),
                "crates/{name} depends on {}",
                client.trim()
            );
        }
    }
    for folder in [
        "crates/kubectl-pps/src/decide",
        "crates/kubectl-pps/src/snapshot",
        "crates/check/src/rules",
    ] {
        let words = [
            &IMPURE[..],
            &["kube::api", "kube::client", "kube::Client", "tokio::"],
        ]
        .concat();
        assert_eq!(files_with(folder, &words), Vec::<String>::new());
    }
}

#[test]
fn one_file_makes_host_calls() {
    assert_eq!(
        files_with("src", &["host_call", "host_capabilities"]),
        ["src/host.rs"]
    );
    assert_eq!(
        files_with("crates/admission/src", &["host.call("]),
        ["crates/admission/src/lookup.rs"]
    );
}

#[test]
fn one_crate_writes_to_the_api_server() {
    let requests = [
        "Request::builder()",
        "Request::delete",
        "Request::patch",
        "Request::post",
        "Request::put",
        "DeleteParams",
        "EvictParams",
        "PatchParams",
        "PostParams",
        "kube::runtime",
        "kube_runtime",
    ];
    for (folder, expected) in [
        ("crates/api/src", &["crates/api/src/write.rs"][..]),
        ("crates/check/src", &[]),
        ("crates/kubectl-pps/src", &[]),
        ("crates/sidecar/src", &[]),
    ] {
        assert_eq!(files_with(folder, &requests), expected, "{folder}");
    }
    // What a write means is decided in few places.
    let writes = ["Write::", "event::publish"];
    let sidecar = [
        "lead.rs",
        "write.rs",
        "write/events.rs",
        "write/fallback.rs",
    ];
    assert_eq!(
        files_with("crates/sidecar/src", &writes),
        sidecar.map(|file| format!("crates/sidecar/src/{file}"))
    );
    // The check only has the API server answer a review.
    assert_eq!(
        files_with("crates/check/src", &writes),
        Vec::<String>::new()
    );
}

/// An administrator may set the wall clock. The sidecar reads it only for people: when the Lease
/// was renewed, when a condition changed, and when an Event happened.
#[test]
fn the_wall_clock_is_only_read_for_timestamps() {
    let clocks = ["SystemTime", "Timestamp::now", "Zoned::now"];
    let places = ["lead.rs", "run/worker/wall_clock.rs"];
    assert_eq!(
        files_with("crates/sidecar/src", &clocks),
        places.map(|file| format!("crates/sidecar/src/{file}"))
    );
    assert_eq!(
        files_with("crates/api/src", &clocks),
        ["crates/api/src/event.rs"]
    );
}

/// The files of a crate form layers: none imports itself through others. A module and its parent
/// are one place.
#[test]
fn the_files_of_a_crate_have_no_import_circles() {
    for folder in fs::read_dir(root().join("crates")).unwrap() {
        let folder = folder.unwrap().path().join("src");
        let name = folder
            .strip_prefix(root())
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let files = files(&name);
        let module = |file: &str| {
            file[name.len() + 1..]
                .trim_end_matches(".rs")
                .replace('/', "::")
        };
        let modules: BTreeSet<String> = files.keys().map(|file| module(file)).collect();
        let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (file, code) in &files {
            let own = module(file);
            let is_below = |a: &str, b: &str| a == b || a.starts_with(&format!("{b}::"));
            let is_apart = |other: &String| !is_below(other, &own) && !is_below(&own, other);
            let named = paths(&own, code)
                .iter()
                .filter_map(|path| innermost(&modules, path))
                .collect::<Vec<_>>();
            imports.insert(own.clone(), named.into_iter().filter(is_apart).collect());
        }
        // Take away modules that import no remaining one, until none is left.
        while let Some(module) = imports
            .iter()
            .find(|(_, named)| named.iter().all(|named| !imports.contains_key(named)))
            .map(|(module, _)| module.clone())
        {
            imports.remove(&module);
        }
        assert!(
            imports.is_empty(),
            "{name}: import circles among {imports:?}"
        );
    }
}

/// The paths in the code of a module, from the root of the crate. A group gives one for each of its
/// members.
fn paths(own: &str, code: &str) -> Vec<String> {
    let parent = own.rsplit_once("::").map_or("", |(parent, _)| parent);
    let mut found = Vec::new();
    for (word, base) in [("crate::", ""), ("super::", parent)] {
        for path in code.split(word).skip(1) {
            let group = path
                .strip_prefix('{')
                .and_then(|group| group.split('}').next());
            let members = group.map_or_else(|| vec![path], |group| group.split(',').collect());
            found.extend(
                members
                    .iter()
                    .map(|member| format!("{base}::{}", member.trim())),
            );
        }
    }
    found
}

/// The module that a path such as `a::b::Type` leads to.
fn innermost(modules: &BTreeSet<String>, path: &str) -> Option<String> {
    let path = path.trim_start_matches("::");
    let end = path
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':')
        .unwrap_or(path.len());
    let mut path = &path[..end];
    loop {
        if let Some(module) = modules.get(path) {
            return Some(module.clone());
        }
        path = path.rsplit_once("::")?.0;
    }
}

/// What runs in the page can compute, and cannot send anything anywhere: it calls only the function
/// that it is given.
#[test]
fn the_playground_has_no_way_to_send_anything() {
    let bindings = fs::read_to_string(root().join("crates/playground/src/bindings.rs")).unwrap();
    let imported: Vec<&str> = bindings
        .split("extern \"C\" {")
        .skip(1)
        .filter_map(|block| block.split("fn ").nth(1))
        .collect();
    assert!(
        matches!(&imported[..], [call] if call.starts_with("call(")),
        "{imported:?}"
    );
    assert_eq!(
        files_with("crates/playground/src", &["web_sys", "js_sys"]),
        Vec::<String>::new()
    );
}
