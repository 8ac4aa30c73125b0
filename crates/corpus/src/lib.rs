//! The golden corpus: one folder per case in `testdata/cases`, with the same answer whatever runs
//! the policy.
//!
//! A case holds the request, the cluster's objects and the expected answer:
//!
//! | file | content |
//! |---|---|
//! | `request.json` | the `request` of an AdmissionReview |
//! | `pps.json` | the PersistentPodState objects of the cluster, a list |
//! | `settings.json` | the policy's settings; `null` if the file is missing |
//! | `host.json` | how the host deviates from a normal one, see [`HostQuirks`]; optional |
//! | `expected.json` | the answer, see [`Expected`] |
//!
//! A runner is one way to run the policy: as a library, as a Wasm module, in a cluster. It answers
//! the policy's host calls with [`Case::host`], collects the results in an [`Outcome`], and calls
//! [`Case::check`].

mod host;
pub mod scope;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

pub use host::{FakeHost, HostQuirks};

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name of its folder.
    pub name: String,
    /// The `request` of an AdmissionReview.
    pub request: Value,
    /// The policy's settings.
    pub settings: Value,
    /// The PersistentPodState objects of the cluster.
    pub objects: Vec<Value>,
    /// How the host deviates from a normal one.
    pub quirks: HostQuirks,
    /// The expected answer.
    pub expected: Expected,
}

/// What a case expects. A missing field means that there must be none: no patch, no warning, no
/// audit annotation, no host call, no log entry.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// What the case shows.
    pub about: String,
    /// Whether the request is accepted.
    pub accepted: bool,
    /// The JSON patch that the API server gets.
    #[serde(default)]
    pub patch: Vec<Value>,
    /// The full texts of the warnings.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The HTTP status of a rejection.
    #[serde(default)]
    pub code: Option<u16>,
    /// Substrings of the message of a rejection.
    #[serde(default)]
    pub message: Vec<String>,
    /// The host calls in order, by operation: the fields of their payload that differ between
    /// cases.
    #[serde(default)]
    pub host_calls: Vec<BTreeMap<String, Value>>,
    /// The audit annotations.
    #[serde(default)]
    pub audit: BTreeMap<String, String>,
    /// A substring of each log entry, in order; all of them are warnings.
    #[serde(default)]
    pub log: Vec<String>,
}

/// What a runner got from the policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Whether the request was accepted.
    pub accepted: bool,
    /// The JSON patch.
    pub patch: Vec<Value>,
    /// The warnings.
    pub warnings: Vec<String>,
    /// The HTTP status of a rejection.
    pub code: Option<u16>,
    /// The message of a rejection.
    pub message: Option<String>,
    /// The audit annotations.
    pub audit: BTreeMap<String, String>,
    /// Operation and payload of each host call.
    pub host_calls: Vec<(String, Value)>,
    /// Messages of the log entries.
    pub log: Vec<String>,
}

/// The folder of the corpus.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cases")
}

/// Reads all cases, sorted by name.
pub fn cases() -> Result<Vec<Case>> {
    let folder = folder();
    let entries =
        fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    ensure!(!paths.is_empty(), "{} is empty", folder.display());
    paths.iter().map(|path| Case::read(path)).collect()
}

/// Runs all cases with one runner; returns their number, or an error with everything that differs.
///
/// Each changed object is submitted a second time, which must change nothing.
pub fn run(mut runner: impl FnMut(&Case) -> Result<Outcome>) -> Result<usize> {
    let cases = cases()?;
    let mut failures = Vec::new();
    for case in &cases {
        if let Err(error) = check_with(case, &mut runner) {
            failures.push(format!("{}: {error:#}", case.name));
        }
    }
    if !failures.is_empty() {
        bail!(
            "{} of {} cases differ:\n\n{}",
            failures.len(),
            cases.len(),
            failures.join("\n\n")
        );
    }
    Ok(cases.len())
}

fn check_with(case: &Case, runner: &mut impl FnMut(&Case) -> Result<Outcome>) -> Result<()> {
    let outcome = runner(case)?;
    case.check(&outcome)?;
    if !outcome.patch.is_empty() {
        let mut again = case.clone();
        let patch: json_patch::Patch = serde_json::from_value(outcome.patch.into())?;
        json_patch::patch(&mut again.request["object"], &patch)
            .context("the patch does not fit the object")?;
        let outcome = runner(&again).context("on its own output")?;
        ensure!(
            outcome.accepted,
            "refuses its own output: {:?}",
            outcome.message
        );
        ensure!(
            outcome.patch.is_empty(),
            "changes its own output: {}",
            pretty(&outcome.patch.into())
        );
    }
    Ok(())
}

impl Case {
    fn read(folder: &Path) -> Result<Self> {
        let quirks = read_optional(&folder.join("host.json"))?.unwrap_or_default();
        Ok(Self {
            name: folder
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            request: read(&folder.join("request.json"))?,
            settings: read_optional(&folder.join("settings.json"))?.unwrap_or_default(),
            objects: read(&folder.join("pps.json"))?,
            quirks,
            expected: read(&folder.join("expected.json"))?,
        })
    }

    /// What PolicyServer passes to the policy.
    pub fn payload(&self) -> Value {
        json!({"request": self.request, "settings": self.settings})
    }

    /// A host that answers from the case's objects.
    pub fn host(&self) -> FakeHost {
        FakeHost::new(self.objects.clone(), self.quirks.clone())
    }

    /// Compares an outcome with what is expected.
    ///
    /// # Errors
    ///
    /// What differs.
    pub fn check(&self, outcome: &Outcome) -> Result<()> {
        self.check_answer(outcome)?;
        ensure_equal(
            "the host calls",
            &json!(outcome.host_calls),
            &json!(self.expected_calls()),
        )?;
        let log = &self.expected.log;
        ensure!(
            outcome.log.len() == log.len()
                && outcome
                    .log
                    .iter()
                    .zip(log)
                    .all(|(entry, piece)| entry.contains(piece.as_str())),
            "the log {:?} should contain {log:?}",
            outcome.log
        );
        Ok(())
    }

    /// Compares only the answer, for a runner that sees neither host calls nor the log.
    ///
    /// # Errors
    ///
    /// What differs.
    pub fn check_answer(&self, outcome: &Outcome) -> Result<()> {
        let expected = &self.expected;
        ensure_equal(
            "the verdicts",
            &json!({"accepted": outcome.accepted, "code": outcome.code}),
            &json!({"accepted": expected.accepted, "code": expected.code}),
        )
        .with_context(|| format!("message: {:?}", outcome.message))?;
        let message = outcome.message.as_deref().unwrap_or_default();
        ensure!(
            message.is_empty() == expected.message.is_empty()
                && expected
                    .message
                    .iter()
                    .all(|piece| message.contains(piece.as_str())),
            "the message {message:?} should contain {:?}",
            expected.message
        );
        ensure_equal(
            "the patches",
            &outcome.patch.clone().into(),
            &expected.patch.clone().into(),
        )?;
        self.check_paths(&outcome.patch)?;
        ensure_equal(
            "the warnings",
            &json!(outcome.warnings),
            &json!(expected.warnings),
        )?;
        ensure_equal(
            "the audit annotations",
            &json!(outcome.audit),
            &json!(expected.audit),
        )
    }

    /// The full payload of each expected host call.
    pub fn expected_calls(&self) -> Vec<(String, Value)> {
        let calls = self.expected.host_calls.iter().flatten();
        calls
            .map(|(operation, differing)| {
                let mut payload = json!({
                    "api_version": "apps.kruise.io/v1alpha1",
                    "kind": "PersistentPodState",
                    "namespace": self.request["namespace"],
                    "disable_cache": true,
                });
                for (field, value) in differing.as_object().into_iter().flatten() {
                    payload[field] = value.clone();
                }
                (operation.clone(), payload)
            })
            .collect()
    }

    /// Checks that a patch only adds, below two paths; it may replace null.
    fn check_paths(&self, patch: &[Value]) -> Result<()> {
        for operation in patch {
            let path = operation["path"].as_str().unwrap_or_default();
            ensure!(
                ["/metadata/annotations", "/spec/affinity"]
                    .iter()
                    .any(|allowed| path.starts_with(allowed)),
                "the patch touches {path}"
            );
            let was_null = self.request["object"]
                .pointer(path)
                .is_some_and(Value::is_null);
            ensure!(
                operation["op"] == "add" || (operation["op"] == "replace" && was_null),
                "the patch does more than add: {operation}"
            );
        }
        Ok(())
    }
}

fn ensure_equal(what: &str, actual: &Value, expected: &Value) -> Result<()> {
    ensure!(
        actual == expected,
        "{what} differ\n  expected: {}\n  actual:   {}",
        pretty(expected),
        pretty(actual)
    );
    Ok(())
}

/// The JSON patch between two objects, computed as PolicyServer does.
pub fn diff(before: &Value, after: &Value) -> Result<Vec<Value>> {
    let patch = json_patch::diff(before, after);
    patch
        .0
        .iter()
        .map(|operation| serde_json::to_value(operation).map_err(Into::into))
        .collect()
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("cannot parse {}", path.display()))
}

fn read_optional<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    if path.exists() {
        read(path).map(Some)
    } else {
        Ok(None)
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
