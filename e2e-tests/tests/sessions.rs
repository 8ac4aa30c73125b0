//! The golden corpus as kwctl sessions: each lists the host calls that a case expects, with their
//! answers.
//!
//! The sessions are generated from `testdata/cases` at test time. `e2e-tests/sessions` keeps only
//! those that `e2e.bats` and `docs/publishing.md` use. The kwctl that `KWCTL` names or that is on
//! the PATH replays all of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests may"
)]

#[path = "support/cases.rs"]
mod cases;
#[path = "support/session.rs"]
mod session;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Context, Result, ensure};
use pps_corpus::{Case, Outcome};
use pps_e2e::{
    kubewarden::{find_kwctl, stand_in::AdmissionResponse},
    report,
    repository::{policy_path, repository_file},
    scratch::Scratch,
};

use cases::outcome_of;
use session::{is_for_kwctl, session};

/// How many kwctl processes run at once. Each one first waits for Sigstore's keys from the network.
const AT_ONCE: usize = 8;
const WITH_KWCTL: &str = "set KWCTL=… to run it";

/// The cases that kwctl can run.
fn cases_for_kwctl() -> Vec<Case> {
    pps_corpus::cases()
        .unwrap()
        .into_iter()
        .filter(is_for_kwctl)
        .collect()
}

/// The cases whose sessions `e2e.bats` and `docs/publishing.md` use.
fn shown() -> BTreeSet<String> {
    let read = |path: &str| fs::read_to_string(repository_file(path)).unwrap();
    let (bats, document) = (read("e2e.bats"), read("docs/publishing.md"));
    let played = bats
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("play "));
    let played = played.filter_map(|arguments| arguments.split(' ').next());
    let named = document
        .split("e2e-tests/sessions/")
        .skip(1)
        .filter_map(|rest| rest.split_once(".yml"));
    let shown: BTreeSet<String> = played
        .chain(named.map(|(name, _)| name))
        .map(str::to_owned)
        .collect();
    assert!(
        shown.len() > 5 && shown.contains("rule-07-denied"),
        "{shown:?}"
    );
    shown
}

#[test]
fn kept_sessions_are_those_shown_and_match_the_corpus() {
    let folder = repository_file("e2e-tests/sessions");
    let shown = shown();
    let wanted: BTreeMap<String, String> = cases_for_kwctl()
        .iter()
        .filter(|case| shown.contains(&case.name))
        .map(|case| (format!("{}.yml", case.name), session(case).unwrap()))
        .collect();
    assert_eq!(
        wanted.len(),
        shown.len(),
        "not every case that is shown exists: {shown:?}"
    );
    if env::var_os("UPDATE").is_some_and(|value| value == "1") {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        for (name, content) in &wanted {
            fs::write(folder.join(name), content).unwrap();
        }
        return;
    }
    let kept: BTreeMap<String, String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (
                path.file_name().unwrap().to_str().unwrap().to_owned(),
                fs::read_to_string(path).unwrap(),
            )
        })
        .collect();
    let different: Vec<&String> = wanted
        .keys()
        .chain(kept.keys())
        .filter(|&name| wanted.get(name) != kept.get(name))
        .collect();
    assert!(
        different.is_empty(),
        "e2e-tests/sessions differs from testdata/cases: {different:?}.\nTo update it: UPDATE=1 \
         cargo test -p pps-e2e --test sessions"
    );
}

#[test]
fn kwctl_gives_the_answer_of_the_corpus_for_each_session() {
    let Some(kwctl) = find_kwctl() else {
        return report::skipped(
            "kwctl_gives_the_answer_of_the_corpus_for_each_session",
            WITH_KWCTL,
        );
    };
    let folder = Scratch::folder("sessions").unwrap();
    check_all(|case| {
        let path = folder.path().join(format!("{}.yml", case.name));
        fs::write(&path, session(case)?)?;
        replay_with_kwctl(&kwctl, case, &path)
    });
}

/// Runs all cases, several at once, and compares each outcome with what the corpus expects.
fn check_all(run: impl Fn(&Case) -> Result<Outcome> + Sync) {
    let cases = cases_for_kwctl();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = run(case).and_then(|outcome| case.check_answer(&outcome)) {
                        failures
                            .lock()
                            .unwrap()
                            .push(format!("{}: {error:#}", case.name));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} of {} sessions differ:\n\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n\n")
    );
    report::note(&format!("{} sessions", cases.len()));
}

fn replay_with_kwctl(kwctl: &PathBuf, case: &Case, session: &Path) -> Result<Outcome> {
    let request = pps_corpus::folder().join(&case.name).join("request.json");
    let mut command = Command::new(kwctl);
    command.args([
        "run",
        "--allow-context-aware",
        "--replay-host-capabilities-interactions",
    ]);
    command.arg(session).arg("--request-path").arg(request);
    if !case.settings.is_null() {
        command.args(["--settings-json", &case.settings.to_string()]);
    }
    let output = command
        .arg(policy_path())
        .output()
        .with_context(|| kwctl.display().to_string())?;
    let (answer, log) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    // kwctl also exits with 0 when the session does not fit.
    for sign in [
        "Replay error",
        "the list of recorded responses is empty",
        "have not been replayed",
    ] {
        ensure!(!log.contains(sign), "kwctl: {sign}\n{log}");
    }
    let response: AdmissionResponse =
        serde_json::from_str(&answer).with_context(|| format!("not an answer: {answer}\n{log}"))?;
    outcome_of(response)
}
