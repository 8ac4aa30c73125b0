//! The golden corpus as sessions that kwctl plays back: `sessions/<case>.yml` with
//! `testdata/cases/<case>/request.json`.
//!
//! kwctl is the one that `KWCTL` names, or the one on the PATH. Where there is none, the sessions are
//! played back here, under the same rules.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may")]

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Context, Result, bail, ensure};
use pps_corpus::{Case, ERROR_PREFIX, Outcome, read_request};
use pps_e2e::{
    kubewarden::stand_in::{AdmissionResponse, HostCalls, PolicyModule},
    repository::{policy_path, repository_file},
};
use serde::Deserialize;
use serde_json::Value;

/// How many kwctl run at once. Each looks for Sigstore's keys on the network first, and waits.
const AT_ONCE: usize = 8;

fn folder() -> PathBuf {
    repository_file("e2e-tests/sessions")
}

fn cases() -> Vec<Case> {
    pps_corpus::cases().unwrap().into_iter().filter(Case::is_for_kwctl).collect()
}

#[test]
fn the_sessions_are_those_of_the_corpus() {
    let folder = folder();
    let wanted: BTreeMap<String, String> =
        cases().iter().map(|case| (format!("{}.yml", case.name), case.session().unwrap())).collect();
    if env::var_os("UPDATE").is_some_and(|value| value == "1") {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        for (name, content) in &wanted {
            fs::write(folder.join(name), content).unwrap();
        }
        return;
    }
    let read = |name: &String| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let stale: Vec<_> = wanted.iter().filter(|(name, content)| read(name) != **content).collect();
    let stale: Vec<_> = stale.iter().map(|(name, _)| name).collect();
    let there: BTreeSet<String> = fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let wanted: BTreeSet<String> = wanted.keys().cloned().collect();
    assert!(
        stale.is_empty() && there == wanted,
        "e2e-tests/sessions is not what testdata/cases makes: {stale:?}.\n\
         To make it anew: UPDATE=1 cargo test -p pps-e2e --test sessions"
    );
}

#[test]
fn every_session_ends_as_the_corpus_says() {
    let kwctl = kwctl();
    if let Some(path) = &kwctl {
        eprintln!("sessions are played back by {}", path.display());
    } else {
        eprintln!("there is no kwctl on the PATH or in KWCTL: sessions are played back by the test itself");
    }
    let module = PolicyModule::load_file(&policy_path()).unwrap();
    let cases = cases();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let session = folder().join(format!("{}.yml", case.name));
                    let outcome = match &kwctl {
                        Some(kwctl) => through_kwctl(kwctl, case, &session),
                        None => through_own_replay(&module, case, &session),
                    };
                    if let Err(error) = outcome.and_then(|outcome| case.check_answer(&outcome)) {
                        failures.lock().unwrap().push(format!("{}: {error:#}", case.name));
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
    eprintln!("{} sessions", cases.len());
}

/// A test that would not notice a wrong answer proves nothing.
#[test]
fn a_session_that_does_not_fit_is_noticed() {
    let module = PolicyModule::load_file(&policy_path()).unwrap();
    let case = cases().into_iter().find(|case| case.name == "rule-02-found-in-namespace").unwrap();
    let session = fs::read_to_string(folder().join("rule-02-found-in-namespace.yml")).unwrap();
    let last = session.rfind("- type: Exchange").unwrap();
    let broken = [
        session[..last].to_owned(),
        format!("{session}{}", &session[last..]),
        session.replacen("name: \"web\"", "name: \"bew\"", 1),
    ];
    for (index, session) in broken.iter().enumerate() {
        let path = env::temp_dir().join(format!("pps-session-{}-{index}.yml", std::process::id()));
        fs::write(&path, session).unwrap();
        let mut outcomes = vec![through_own_replay(&module, &case, &path)];
        outcomes.extend(kwctl().map(|kwctl| through_kwctl(&kwctl, &case, &path)));
        fs::remove_file(&path).unwrap();
        for outcome in outcomes {
            assert!(outcome.and_then(|outcome| case.check_answer(&outcome)).is_err(), "{session}");
        }
    }
}

fn kwctl() -> Option<PathBuf> {
    if let Some(named) = env::var_os("KWCTL").filter(|named| !named.is_empty()) {
        return Some(named.into());
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join("kwctl")).find(|path| path.is_file())
}

fn through_kwctl(kwctl: &Path, case: &Case, session: &Path) -> Result<Outcome> {
    let request = pps_corpus::folder().join(&case.name).join("request.json");
    let mut command = Command::new(kwctl);
    command.args(["run", "--allow-context-aware", "--replay-host-capabilities-interactions"]);
    command.arg(session).arg("--request-path").arg(request);
    if !case.settings.is_null() {
        command.args(["--settings-json", &case.settings.to_string()]);
    }
    let output = command.arg(policy_path()).output().with_context(|| kwctl.display().to_string())?;
    let (answer, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // Its exit code tells nothing of this.
    for sign in ["Replay error", "the list of recorded responses is empty", "have not been replayed"] {
        ensure!(!log.contains(sign), "kwctl: {sign}\n{log}");
    }
    let response: AdmissionResponse =
        serde_json::from_str(&answer).with_context(|| format!("not an answer: {answer}\n{log}"))?;
    outcome_of(response)
}

#[derive(Deserialize)]
struct Recorded {
    request: String,
    response: Response,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Response {
    Success { payload: String },
    Error { message: String },
}

fn through_own_replay(module: &PolicyModule, case: &Case, session: &Path) -> Result<Outcome> {
    let recorded: VecDeque<Recorded> = yaml_serde::from_str(&fs::read_to_string(session)?)?;
    let recorded = Arc::new(Mutex::new(recorded));
    let mistakes = Arc::new(Mutex::new(Vec::new()));
    let (queue, noted) = (recorded.clone(), mistakes.clone());
    let host: Arc<dyn HostCalls> = Arc::new(move |_: &str, operation: &str, payload: &[u8]| {
        let answer = answer(queue.lock().unwrap().pop_front(), operation, payload);
        let answer = answer.unwrap_or_else(|error| {
            noted.lock().unwrap().push(error.to_string());
            Err(error.to_string())
        });
        answer.map(String::into_bytes).map_err(|error| format!("{ERROR_PREFIX}{error}\n\nStack backtrace:"))
    });
    let evaluation = module.evaluate(&case.request, &case.settings, &host)?;
    let mistakes = mistakes.lock().unwrap().clone();
    ensure!(mistakes.is_empty(), "replay: {mistakes:?}");
    let left = recorded.lock().unwrap().len();
    ensure!(left == 0, "{left} exchanges have not been replayed");
    outcome_of(evaluation.response)
}

/// The recorded answer, if the request is the recorded one.
fn answer(recorded: Option<Recorded>, operation: &str, payload: &[u8]) -> Result<Result<String, String>> {
    let Some(recorded) = recorded else { bail!("the list of recorded responses is empty") };
    let expected = read_request(&recorded.request, |yaml| Ok(yaml_serde::from_str(yaml)?))?;
    let actual: (&str, Value) = (operation, serde_json::from_slice(payload)?);
    ensure!(actual == expected, "unexpected request: {actual:?} in place of {expected:?}");
    Ok(match recorded.response {
        Response::Success { payload } => Ok(payload),
        Response::Error { message } => Err(message),
    })
}

fn outcome_of(response: AdmissionResponse) -> Result<Outcome> {
    let patch = response.decoded_patch();
    ensure!(patch.is_some() == response.patch.is_some(), "not a patch: {:?}", response.patch);
    let patch = match serde_json::to_value(patch)? {
        Value::Array(operations) => operations,
        _ => Vec::new(),
    };
    let status = response.status.unwrap_or_default();
    Ok(Outcome {
        accepted: response.allowed,
        patch,
        warnings: response.warnings.unwrap_or_default(),
        audit: response.audit_annotations.unwrap_or_default(),
        code: status.code,
        message: status.message,
        ..Outcome::default()
    })
}
