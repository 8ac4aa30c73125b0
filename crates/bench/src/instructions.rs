//! Counts the instructions of the policy's native build. The count does not depend on the machine's load, so
//! a change of a few per cent shows.

use std::env;
use std::hint::black_box;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::de::IgnoredAny;

use crate::admission::form::Form;
use crate::evaluation::evaluate_natively;
use crate::fixture::{CachedHost, Case, Owner, Recording};
use crate::report::{count, ratio, table};

/// What a counted process does with the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Skips it as JSON: the least that any reader must do.
    Skip,
    Evaluate,
}

/// The cases, by name.
fn cases() -> Vec<(&'static str, Case)> {
    let default = Case::default;
    vec![
        ("of a ReplicaSet: ignored", Case { owner: Owner::ReplicaSet, ..default() }),
        ("of a StatefulSet without a PPS", Case { recording: Recording::None, ..default() }),
        ("with a state, 10 Pods recorded", default()),
        ("with a state, 10,000 Pods recorded", Case { states: 10_000, ..default() }),
        (
            "with a state, 10,000 Pods recorded, compact",
            Case { states: 10_000, form: Form::Compact, ..default() },
        ),
        (
            "with a state, 10,000 Pods recorded, host without field masks",
            Case { states: 10_000, ignores_masks: true, ..default() },
        ),
        ("with a state, PPS of another name", Case { recording: Recording::OtherName, ..default() }),
    ]
}

/// A table of all cases. Callgrind counts each in a process of its own.
pub(crate) fn count_all() -> Result<String> {
    let mut rows = Vec::new();
    for (name, case) in cases() {
        let [skip, evaluate] = [count_case(name, Mode::Skip)?, count_case(name, Mode::Evaluate)?];
        let relative = ratio(evaluate as f64 / skip as f64);
        rows.push(vec![name.to_owned(), count(case.payload().len()), count(skip), count(evaluate), relative]);
    }
    let header = ["Pod", "request, bytes", "skip it as JSON", "evaluate it", "÷ skip"];
    Ok(table(&header, rows))
}

fn count_case(case: &str, mode: Mode) -> Result<u64> {
    let mode = mode.to_possible_value().context("the mode has no name")?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg("--toggle-collect=*run_counted*")
        .arg(env::current_exe()?)
        .args(["run-instructions", mode.get_name(), case])
        .output()
        .context("cannot run valgrind: install it, on Debian from the package valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    match collected {
        Some(instructions) if output.status.success() && instructions > 0 => Ok(instructions),
        _ => bail!("callgrind counted no instructions ({}):\n{text}", output.status),
    }
}

/// The process that callgrind observes.
pub(crate) fn run(mode: Mode, name: &str) -> Result<()> {
    let case = cases().into_iter().find(|(known, _)| *known == name);
    let (_, case) = case.with_context(|| format!("there is no case {name:?}"))?;
    let (payload, host) = (case.payload(), case.host());
    // The first evaluation fills the host's cache.
    black_box(evaluate_natively(&payload, &host));
    black_box(run_counted(mode, &payload, &host));
    Ok(())
}

#[inline(never)]
fn run_counted(mode: Mode, payload: &[u8], host: &CachedHost) -> usize {
    match mode {
        Mode::Skip => usize::from(serde_json::from_slice::<IgnoredAny>(payload).is_ok()),
        Mode::Evaluate => evaluate_natively(payload, host).len(),
    }
}
