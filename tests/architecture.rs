//! The invariants of ARCHITECTURE.md that the compiler does not check.
//!
//! These tests read the source as the compiler does: comments, strings and test modules do not count.
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests may panic")]

#[path = "architecture/circles.rs"]
mod circles;
#[path = "architecture/mentions.rs"]
mod mentions;
#[path = "architecture/modules.rs"]
mod modules;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proc_macro2::{Group, TokenStream, TokenTree};

use self::circles::circles;
use self::modules::{Code, Crate};

const POLICY: &str = "src/lib.rs";
const CORE: &str = "crates/core/src/lib.rs";
const CHECK: &str = "crates/check/src/lib.rs";
const PLUGIN: [&str; 2] = ["crates/kubectl-pps/src/lib.rs", "crates/kubectl-pps/src/main.rs"];
const SIMULATION: &str = "crates/simulation/src/lib.rs";
const MANIFEST: &str = "crates/manifest/src/lib.rs";
const PLAYGROUND: &str = "crates/playground/src/lib.rs";
const SIDECAR: [&str; 2] = ["crates/sidecar/src/lib.rs", "crates/sidecar/src/main.rs"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn load(crate_root: &str) -> Crate {
    Crate::load(crate_root, &|path| fs::read_to_string(root().join(path)).ok())
}

/// The files of these crates for which the predicate holds.
fn files_where(crate_roots: &[&str], predicate: impl Fn(&str, &Code) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (file, code) in crate_roots.iter().flat_map(|crate_root| load(crate_root).code()) {
        if predicate(&file, &code) {
            found.push(file);
        }
    }
    found.sort();
    found
}

/// The crates that a manifest always depends on.
fn dependencies(manifest: &str) -> Vec<String> {
    let manifest = fs::read_to_string(root().join(manifest)).unwrap();
    let dependencies = manifest.split("[dependencies]\n").nth(1).unwrap().split("\n[").next().unwrap();
    dependencies
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !line.contains("optional = true"))
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect()
}

/// The files of a crate that know the time, the file system, the network or the process.
fn impure_files(crate_root: &str) -> Vec<String> {
    files_where(&[crate_root], |_, code| {
        let modules =
            ["std::time", "std::fs", "std::net", "std::thread", "std::env", "std::process", "std::io"];
        let macros = ["print", "println", "eprint", "eprintln", "dbg"];
        // Only the type of an address: it does not reach the network.
        let is_value = |name: &str| mentions::is_within(name, "std::net::IpAddr");
        let names_module = code
            .all_names()
            .any(|name| modules.iter().any(|module| mentions::is_within(name, module)) && !is_value(name));
        code.is_async || names_module || code.names_any(&macros)
    })
}

#[test]
fn core_depends_on_serde_only() {
    assert_eq!(dependencies("crates/core/Cargo.toml"), ["serde", "serde_json"]);
}

#[test]
fn core_has_no_clock_and_no_io() {
    assert_eq!(impure_files(CORE), Vec::<String>::new());
}

#[test]
fn simulation_depends_on_the_policy_and_core_only() {
    let product = ["persistent-pod-state-policy", "pps-core"];
    assert_eq!(dependencies("crates/simulation/Cargo.toml"), [product, ["serde", "serde_json"]].concat());
}

#[test]
fn simulation_has_no_clock_and_no_io() {
    assert_eq!(impure_files(SIMULATION), Vec::<String>::new());
    assert!(files_where(&[SIMULATION], |_, _| true).len() > 20);
}

#[test]
fn what_reads_and_writes_manifests_has_no_clock_no_io_and_no_browser() {
    let product = ["persistent-pod-state-policy", "pps-core"];
    let others = ["saphyr-parser", "serde", "serde_json"];
    assert_eq!(dependencies("crates/manifest/Cargo.toml"), [&product[..], &others].concat());
    assert_eq!(impure_files(MANIFEST), Vec::<String>::new());
    assert!(files_where(&[MANIFEST], |_, _| true).len() > 8);
}

/// What runs in the page can compute, and cannot send anything anywhere: it has no bindings to the browser, and calls only
/// the function that it is given.
#[test]
fn the_playground_has_no_way_to_send_anything() {
    let product = ["persistent-pod-state-policy", "pps-manifest", "pps-simulation"];
    let others = ["serde_json", "wasm-bindgen"];
    assert_eq!(dependencies("crates/playground/Cargo.toml"), [&product[..], &others].concat());
    assert_eq!(impure_files(PLAYGROUND), Vec::<String>::new());
    assert!(files_where(&[PLAYGROUND], |_, _| true).len() > 4);
    let bindings = fs::read_to_string(root().join("crates/playground/src/bindings.rs")).unwrap();
    let imported: Vec<&str> =
        bindings.split("extern \"C\" {").skip(1).filter_map(|block| block.split("fn ").nth(1)).collect();
    assert!(matches!(&imported[..], [call] if call.starts_with("call(")), "{imported:?}");
}

/// What makes the JavaScript for a module understands only modules of its own version.
#[test]
fn there_is_one_version_of_wasm_bindgen() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    for name in ["wasm-bindgen-shared", "wasm-bindgen-cli-support"] {
        assert_eq!(lock.matches(&format!("\nname = \"{name}\"\n")).count(), 1, "{name}");
    }
}

#[test]
fn one_file_makes_host_calls() {
    let files = files_where(&[POLICY], |_, code| {
        code.names_any(&["wapc_guest::host_call", "kubewarden_policy_sdk::host_capabilities"])
    });
    assert_eq!(files, ["src/cluster.rs"]);
}

#[test]
fn one_file_writes_to_the_api_server_and_one_to_the_lease() {
    let types =
        ["Patch", "PatchParams", "PostParams", "DeleteParams"].map(|name| format!("kube::api::{name}"));
    let types: Vec<&str> = types.iter().map(String::as_str).collect();
    let files = files_where(&SIDECAR, |_, code| {
        code.names_any(&types) || code.methods.iter().any(|method| method == "patch_status")
    });
    assert_eq!(files, ["crates/sidecar/src/lead.rs", "crates/sidecar/src/write.rs"]);
}

/// The check has no Patch and no Delete, and its one POST asks what an account may do.
#[test]
fn the_check_writes_nothing() {
    let requests = ["post", "put", "patch", "delete"].map(|method| format!("http::Request::{method}"));
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    assert_eq!(
        files_where(&[CHECK], |_, code| code.names_any(&requests)),
        ["crates/check/src/gather/reader.rs"]
    );
    let reviews = files_where(&[CHECK], |_, code| code.methods.iter().any(|method| method == "review"));
    assert_eq!(reviews, ["crates/check/src/gather/rights.rs"]);
    let builders = ["kube::api", "kube::Api", "http::Method", "http::request"];
    assert_eq!(files_where(&[CHECK], |_, code| code.names_any(&builders)), Vec::<String>::new());
}

/// Requests of the plugin that are not reads are made in one file. The reader's one POST asks what an account may do.
#[test]
fn one_file_of_the_plugin_writes_to_the_api_server() {
    let clients = ["kube::api", "kube::Api", "kube::runtime::events", "http::Request", "http::Method"];
    let files = files_where(&PLUGIN, |_, code| {
        let requests = ["send", "request", "patch", "delete", "create", "replace"];
        code.names_any(&clients) && code.methods.iter().any(|method| requests.contains(&method.as_str()))
    });
    assert_eq!(files, ["crates/kubectl-pps/src/cluster/write.rs"]);
}

#[test]
fn what_the_plugin_answers_is_decided_without_a_cluster_and_without_a_clock() {
    let decides = |file: &str| {
        ["decide", "snapshot"].iter().any(|part| file.starts_with(&format!("crates/kubectl-pps/src/{part}")))
    };
    let offenders = files_where(&PLUGIN, |file, code| {
        let impure =
            ["kube", "tokio", "http", "std::time", "std::fs", "std::net", "std::env", "std::process"];
        // Only the type of an address: it does not reach the network.
        let is_value = |name: &str| mentions::is_within(name, "std::net::IpAddr");
        let names_any = code
            .all_names()
            .any(|name| impure.iter().any(|module| mentions::is_within(name, module)) && !is_value(name));
        decides(file) && (code.is_async || names_any)
    });
    assert_eq!(offenders, Vec::<String>::new());
    assert!(files_where(&PLUGIN, |file, _| decides(file)).len() > 5);
}

/// A command that is shown must reach the cluster and the namespace that the answer is about.
#[test]
fn every_command_that_the_plugin_shows_is_made_by_the_hand_that_names_cluster_and_namespace() {
    let may = |file: &str| file.ends_with("/decide/hand.rs") || file.contains("/src/args");
    let files = files_where(&PLUGIN, |file, _| !may(file));
    assert!(files.len() > 50, "{files:?}");
    for file in files {
        let text = fs::read_to_string(root().join(&file)).unwrap();
        let code = text.split("#[cfg(test)]\n").next().unwrap();
        let shown: Vec<String> = literals(code.parse().unwrap());
        let commands: Vec<&String> = shown.iter().filter(|text| text.contains("kubectl ")).collect();
        assert!(commands.is_empty(), "{file}: use decide::hand::Hand for {commands:?}");
    }
}

/// The literals of some code, also those in macros, without documentation.
fn literals(code: TokenStream) -> Vec<String> {
    let is_doc = |group: &Group| group.stream().to_string().starts_with("doc =");
    let of = |tree| match tree {
        TokenTree::Literal(literal) => vec![literal.to_string()],
        TokenTree::Group(group) if !is_doc(&group) => literals(group.stream()),
        _ => Vec::new(),
    };
    code.into_iter().flat_map(of).collect()
}

#[test]
fn what_the_check_finds_is_decided_without_a_cluster_and_without_a_clock() {
    let reads = |file: &str| {
        ["args.rs", "gather", "registry"]
            .iter()
            .any(|part| file.starts_with(&format!("crates/check/src/{part}")))
    };
    let offenders = files_where(&[CHECK], |file, code| {
        let impure =
            ["kube", "tokio", "http", "std::time", "std::fs", "std::net", "std::env", "std::process"];
        !reads(file) && (code.is_async || code.names_any(&impure))
    });
    assert_eq!(offenders, Vec::<String>::new());
    assert!(files_where(&[CHECK], |file, _| !reads(file)).len() > 8);
}

/// An administrator may set the wall clock. The sidecar reads it only for what people read: when the Lease was renewed,
/// when a condition changed, and in metrics, for how long something has waited.
#[test]
fn the_wall_clock_is_only_read_for_timestamps() {
    let is_wall_clock = |name: &str| {
        ["std::time::SystemTime", "std::time::UNIX_EPOCH", "rustix::time::ClockId::Realtime"]
            .iter()
            .any(|clock| mentions::is_within(name, clock))
            || ["Timestamp::now", "Zoned::now"].iter().any(|reading| name.ends_with(reading))
    };
    let mut readings = Vec::new();
    for (file, code) in SIDECAR.iter().flat_map(|crate_root| load(crate_root).code()) {
        let count = code.names.iter().filter(|name| is_wall_clock(name)).count();
        if count > 0 {
            readings.push((file, count));
        }
    }
    readings.sort();
    let places = ["crates/sidecar/src/lead.rs", "crates/sidecar/src/run/writing.rs"];
    assert_eq!(readings, places.map(|place| (place.to_owned(), 1)));
}

#[test]
fn decisions_know_no_cluster_no_runtime_and_no_clock() {
    let timed = [
        "schedule.rs",
        "missing_nodes.rs",
        "new_nodes.rs",
        "unschedulable.rs",
        "refusals.rs",
        "event_budget.rs",
    ];
    let timed = timed.map(|file| format!("crates/sidecar/src/decide/{file}"));
    let decides =
        |file: &str| file == "crates/sidecar/src/decide.rs" || file.starts_with("crates/sidecar/src/decide/");
    let offenders = files_where(&SIDECAR, |file, code| {
        let knows_time = code.all_names().any(|name| {
            let is_elapsed = ["std::time::Instant", "std::time::Duration"]
                .iter()
                .any(|elapsed| mentions::is_within(name, elapsed));
            mentions::is_within(name, "std::time") && !(is_elapsed && timed.iter().any(|timed| timed == file))
        });
        let clocks = ["kube", "tokio", "futures", "jiff", "rustix"];
        decides(file) && (knows_time || code.is_async || code.names_any(&clocks))
    });
    assert_eq!(offenders, Vec::<String>::new());
    assert!(files_where(&SIDECAR, |file, _| decides(file)).len() > timed.len());
}

#[test]
fn product_crates_have_no_import_circles() {
    let found: Vec<String> = [POLICY, CORE, CHECK, SIMULATION, MANIFEST, PLAYGROUND, SIDECAR[0]]
        .iter()
        .flat_map(|crate_root| circles(load(crate_root).file_imports()))
        .map(|circle| circle.to_string())
        .collect();
    assert!(found.is_empty(), "{} import circles:\n\n{}", found.len(), found.join("\n"));
}

/// Every test, path and folder that ARCHITECTURE.md names in backticks exists.
#[test]
fn architecture_md_names_only_what_exists() {
    let document = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let functions = function_names(root());
    let mut tests = 0;
    for name in document.split('`').skip(1).step_by(2) {
        let is_path =
            name.contains('/') && name.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        let is_relative = is_path && !name.starts_with('/');
        if is_relative {
            let in_sidecar = Path::new("crates/sidecar/src").join(name).with_extension("rs");
            let exists = root().join(name).exists() || root().join(in_sidecar).exists();
            assert!(exists, "{name} does not exist");
        }
        let is_function =
            name.matches('_').count() >= 2 && name.chars().all(|c| c.is_ascii_lowercase() || "_".contains(c));
        if is_function {
            tests += 1;
            assert!(functions.contains(name), "no function is called {name}");
        }
    }
    assert!(tests > 30, "only {tests} tests were found in the document");
}

/// The names of all functions below a folder of this repository, build folders excluded.
fn function_names(folder: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = entry_name(&path);
        let is_source =
            path.is_dir() && !name.starts_with('.') && !name.starts_with("target") && name != "testdata";
        if is_source {
            names.extend(function_names(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let code = fs::read_to_string(&path).unwrap();
            let found = code.split("fn ").skip(1).map(|rest| {
                rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>()
            });
            names.extend(found);
        }
    }
    names
}

fn entry_name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}
