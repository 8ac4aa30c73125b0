//! The workflows for continuous integration and releases. They run elsewhere; these tests compare them with the
//! repository.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::{collections::BTreeSet, fs, path::PathBuf};

use serde_json::Value;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Each step of each job, and each job that calls a workflow, with its file and job name.
fn steps() -> Vec<(String, Value)> {
    let mut steps = Vec::new();
    for file in fs::read_dir(path(".github/workflows")).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let workflow: Value = yaml_serde::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        for (job, definition) in workflow["jobs"].as_object().unwrap() {
            let at = format!("{name}: {job}");
            match definition["steps"].as_array() {
                Some(all) => steps.extend(all.iter().map(|step| (at.clone(), step.clone()))),
                None => steps.push((at, definition.clone())),
            }
        }
    }
    steps
}

#[test]
fn workflows_use_pinned_actions_and_run_existing_commands() {
    let makefile = fs::read_to_string(path("Makefile")).unwrap();
    let targets: BTreeSet<&str> =
        makefile.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect();
    let (mut actions, mut commands) = (0, BTreeSet::new());
    for (at, step) in steps() {
        if let Some(action) = step["uses"].as_str() {
            actions += 1;
            let pinned = action.split_once('@').is_some_and(|(_, version)| {
                version.len() == 40 && version.bytes().all(|byte| byte.is_ascii_hexdigit())
            });
            let local = action.strip_prefix("./").is_some_and(|file| path(file).is_file());
            assert!(pinned || local, "{at}: pin {action} to a commit, or use a file of the repository");
        }
        for command in step["run"].as_str().unwrap_or_default().split(['\n', ';', '|', '&']).map(str::trim) {
            if let Some(rest) = command.strip_prefix("make ") {
                let target = rest.split(' ').next().unwrap();
                assert!(targets.contains(target), "{at}: the Makefile has no target {target}");
                commands.insert(target.to_owned());
            }
            if command.starts_with(".ci/") || command.starts_with("hack/") {
                assert!(path(command).is_file(), "{at}: the repository has no {command}");
                commands.insert(command.to_owned());
            }
        }
    }
    let expected = [".ci/run", "publish", "release", "release-tests"].map(str::to_owned);
    assert_eq!((actions > 5, commands), (true, expected.into()));
}
