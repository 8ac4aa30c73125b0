//! Every command for kwctl in docs/publishing.md, run unchanged, prints what the document shows.
//!
//! kwctl is the one that `KWCTL` names, or the one on the PATH; without it the test is skipped. A
//! block after `<!-- needs: cluster -->` gets a control plane, one after `<!-- needs: registry -->`
//! a registry. With `UPDATE` set, the test prints the output of each command.

use std::{
    env, fs,
    net::{TcpListener, TcpStream},
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use kube::api::{Patch, PatchParams};
use pps_e2e::{
    cluster::Cluster,
    control_plane::ADMIN,
    kubewarden::find_kwctl,
    programs::Group,
    report,
    repository::{policy_path, repository_file},
    scratch::Scratch,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use crate::support::require_jq;

/// Matches anything in the output: within a line any part of it, on a line of its own any number of
/// lines.
const ANYTHING: &str = "…";
/// The registry address in the document.
const REGISTRY: &str = "localhost:5000";

/// Commands that run in the same environment.
#[derive(Debug, Default, PartialEq)]
struct Block {
    needs: Option<String>,
    /// Each with the lines that it prints.
    commands: Vec<(String, Vec<String>)>,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut needs = None;
    let mut is_inside = false;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("<!-- needs: ") {
            needs = rest.strip_suffix(" -->").map(str::to_owned);
        } else if line == "```console" {
            is_inside = true;
            blocks.push(Block {
                needs: needs.take(),
                commands: Vec::new(),
            });
        } else if line.starts_with("```") {
            // Readers take any block for tested.
            assert!(
                is_inside && line == "```",
                "only console blocks are tested: {line}"
            );
            is_inside = false;
        } else if is_inside {
            let commands = &mut blocks.last_mut().unwrap().commands;
            match line.strip_prefix("$ ") {
                Some(command) => commands.push((command.to_owned(), Vec::new())),
                None => commands
                    .last_mut()
                    .expect("a command comes first")
                    .1
                    .push(line.to_owned()),
            }
        }
    }
    blocks
}

/// Whether a line matches the line in the document.
fn is_line(line: &str, expected: &str) -> bool {
    let Some((start, rest)) = expected.split_once(ANYTHING) else {
        return line == expected;
    };
    line.strip_prefix(start).is_some_and(|line| {
        line.char_indices()
            .any(|(index, _)| is_line(&line[index..], rest))
            || is_line("", rest)
    })
}

/// Whether lines match the lines in the document.
pub(crate) fn is_output(lines: &[&str], expected: &[&str]) -> bool {
    match expected.split_first() {
        None => lines.is_empty(),
        Some((&ANYTHING, rest)) => (0..=lines.len()).any(|index| is_output(&lines[index..], rest)),
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, lines)| is_line(line, first) && is_output(lines, rest)),
    }
}

/// What a command prints, without colours and trailing blanks.
fn run(command: &str, variables: &[(&str, String)]) -> String {
    let output = Command::new("bash")
        .args(["-o", "pipefail", "-c", command])
        .current_dir(repository_file("."))
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Where the document shows an error, the exit code is that of kwctl.
    assert!(
        output.status.success() || command.contains("| grep Error:"),
        "{command}\n{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut plain = String::new();
    for (index, part) in text.split("\u{1b}[").enumerate() {
        plain.push_str(if index == 0 {
            part
        } else {
            part.split_once('m').map_or("", |(_, rest)| rest)
        });
    }
    plain
        .lines()
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .join("\n")
}

/// A program that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A registry, started.
async fn registry(folder: &Path) -> (Running, String) {
    let binary = Group::Tests.program("registry").unwrap();
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let config = folder.join("registry.yml");
    let content = json!({
        "version": 0.1,
        "storage": {"inmemory": {}},
        "http": {"addr": format!("127.0.0.1:{port}")},
    });
    fs::write(&config, content.to_string()).unwrap();
    let mut command = Command::new(binary);
    command
        .arg("serve")
        .arg(config)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let running = Running(command.spawn().unwrap());
    wait_for("the registry", Duration::from_mins(2), async || {
        let answers = TcpStream::connect(("127.0.0.1", port)).is_ok();
        Ok(Progress::when(answers, (), "it does not listen".to_owned()))
    })
    .await
    .unwrap();
    (running, format!("localhost:{port}"))
}

/// A cluster with a recorded state for the workload of the request.
async fn cluster() -> Cluster {
    let cluster = Cluster::builder().start().await.unwrap();
    cluster.namespace("shop").await.unwrap();
    let case = repository_file("testdata/cases/rule-05-pod-without-affinity/pps.json");
    let mut object: Value = serde_json::from_str::<Vec<Value>>(&fs::read_to_string(case).unwrap())
        .unwrap()
        .remove(0);
    let mut status = object["status"].take();
    status["recorded"] = 2.into();
    status["desired"] = 2.into();
    status["conditions"] = json!([{"type": "Recording", "status": "True", "reason": "AllRecorded",
        "message": "at least as many states are recorded as the workload wants Pods", "lastTransitionTime": "2026-01-02T03:04:05Z"}]);
    object.as_object_mut().unwrap().remove("status");
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("creationTimestamp");
    cluster.apply_objects(&[object]).await.unwrap();
    let patch = Patch::Merge(json!({"status": status}));
    cluster
        .pps_api("shop")
        .patch_status("web", &PatchParams::default(), &patch)
        .await
        .unwrap();
    cluster
}

/// What the document says about kwctl.
fn section() -> String {
    let text = fs::read_to_string(repository_file("docs/publishing.md")).unwrap();
    let (_, rest) = text.split_once("\n## Check it with kwctl\n").unwrap();
    rest.split("\n## ").next().unwrap().to_owned()
}

#[tokio::test]
async fn commands_of_the_document_print_what_it_shows() {
    let skip =
        |remedy: &str| report::skipped("commands_of_the_document_print_what_it_shows", remedy);
    let Some(kwctl) = find_kwctl() else {
        return skip("set KWCTL=… to run it");
    };
    require_jq();
    assert_eq!(
        policy_path(),
        repository_file("policy.wasm"),
        "the document names policy.wasm"
    );
    let text = section();
    let scratch = Scratch::folder("kwctl").unwrap();
    let folder = scratch.path().to_owned();
    symlink(fs::canonicalize(kwctl).unwrap(), folder.join("kwctl")).unwrap();
    let mut failures = Vec::new();
    for block in blocks(&text) {
        let mut folders = vec![folder.clone()];
        let mut variables = Vec::new();
        let (mut running_cluster, mut running_registry) = (None, None);
        match block.needs.as_deref() {
            Some("cluster") => {
                let cluster = cluster().await;
                let kubeconfig = cluster.control_plane.kubeconfig_for(ADMIN).unwrap();
                variables.push(("KUBECONFIG", kubeconfig.display().to_string()));
                let kubectl = Group::Kubernetes.program("kubectl").unwrap();
                folders.push(kubectl.parent().unwrap().to_owned());
                running_cluster = Some(cluster);
            }
            Some("registry") => running_registry = Some(registry(&folder).await),
            None => {}
            Some(other) => panic!("unknown need of a block: {other}"),
        }
        folders.extend(env::split_paths(&env::var_os("PATH").unwrap()));
        variables.push((
            "PATH",
            env::join_paths(folders).unwrap().into_string().unwrap(),
        ));
        for (command, expected) in &block.commands {
            let address = running_registry
                .as_ref()
                .map_or(REGISTRY, |(_, address)| address);
            // kwctl does not overwrite an existing file.
            let own = command
                .replace(REGISTRY, address)
                .replace("/tmp/", &format!("{}/", folder.display()));
            let printed = run(&own, &variables).replace(address, REGISTRY);
            if env::var_os("UPDATE").is_some_and(|value| value == "1") {
                eprintln!("$ {command}\n{printed}");
            }
            let lines: Vec<&str> = printed.lines().collect();
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            if !is_output(&lines, &expected) {
                failures.push(format!(
                    "$ {command}\n{printed}\ninstead of\n\n{}\n",
                    expected.join("\n")
                ));
            }
        }
        drop(running_registry);
        if let Some(cluster) = running_cluster {
            cluster.shutdown().await.unwrap();
        }
    }
    assert!(
        failures.is_empty(),
        "{} commands print something different:\n\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn output_matches_up_to_ellipses() {
    assert!(is_output(&["a", "b1c", "d"], &["a", "b…c", "d"]));
    assert!(is_output(&["a", "b", "c"], &["a", "…"]) && is_output(&["a"], &["…", "a", "…"]));
    assert!(is_output(&["took 3 s"], &["took … s"]) && is_output(&["ends"], &["end…"]));
    for (lines, expected) in [
        (vec!["a", "b"], vec!["a"]),
        (vec!["a"], vec!["a", "b"]),
        (vec!["a", "x", "b"], vec!["a", "b"]),
        (vec!["b", "a"], vec!["…", "b"]),
        (vec!["took 3 ms"], vec!["took … s"]),
        (vec!["xend"], vec!["end…"]),
    ] {
        assert!(!is_output(&lines, &expected), "{lines:?} {expected:?}");
    }
}

#[test]
fn blocks_are_parsed_with_their_needs_and_commands() {
    let text = "# T\n```console\n$ a\n1\n$ b\n```\n<!-- needs: cluster -->\n```console\n$ c\n```\n";
    let command = |command: &str, lines: &[&str]| {
        (
            command.to_owned(),
            lines
                .iter()
                .map(|&line| line.to_owned())
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(
        blocks(text),
        [
            Block {
                needs: None,
                commands: vec![command("a", &["1"]), command("b", &[])]
            },
            Block {
                needs: Some("cluster".into()),
                commands: vec![command("c", &[])]
            },
        ]
    );
}
