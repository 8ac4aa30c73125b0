//! Instructions of the policy's native build: the same however busy the machine is, so that a change of a
//! few per cent shows.

use std::env;
use std::hint::black_box;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::de::IgnoredAny;

use crate::evaluation::native;
use crate::fixture::{Answers, Case, Owner, Recorded};
use crate::report::{count, table, times};

/// What is counted, by name.
fn cases() -> Vec<(&'static str, Case)> {
    let default = Case::default;
    vec![
        ("of a ReplicaSet: not ours", Case { owner: Owner::ReplicaSet, ..default() }),
        ("of a StatefulSet without PPS", Case { recorded: Recorded::Nothing, ..default() }),
        ("with a state, 10 Pods recorded", default()),
        ("with a state, 10,000 Pods recorded", Case { states: 10_000, ..default() }),
        (
            "with a state, 10,000 Pods recorded, host without masks",
            Case { states: 10_000, without_masks: true, ..default() },
        ),
        ("with a state, PPS under another name", Case { recorded: Recorded::ByHand, ..default() }),
        (
            "with a state, PPS under another name among 1,000",
            Case { recorded: Recorded::ByHand, others: 999, ..default() },
        ),
    ]
}

/// A table of all cases, each counted in a process of its own.
pub(crate) fn counts() -> Result<String> {
    let mut rows = Vec::new();
    for (name, case) in cases() {
        let [skip, all] = [counted(name, "skip")?, counted(name, "evaluate")?];
        let ratio = all as f64 / skip as f64;
        rows.push(vec![name.to_owned(), count(case.payload().len()), count(skip), count(all), times(ratio)]);
    }
    let header = ["Pod", "request, bytes", "skip the request as JSON", "evaluate it", "÷ skip"];
    Ok(table(&header, rows))
}

fn counted(case: &str, what: &str) -> Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg("--toggle-collect=*the_counted_part*")
        .arg(env::current_exe()?)
        .args(["count", what, case])
        .output()
        .context("cannot run valgrind; it is in Debian's package valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    match collected {
        Some(instructions) if output.status.success() && instructions > 0 => Ok(instructions),
        _ => bail!("callgrind counted nothing ({}):\n{text}", output.status),
    }
}

/// The process that is counted.
pub(crate) fn run(what: &str, name: &str) -> Result<()> {
    let (_, case) = cases().into_iter().find(|(known, _)| *known == name).context("no such case")?;
    let (payload, host) = (case.payload(), case.host());
    // The host prepares its answers.
    black_box(native(&payload, &host));
    black_box(the_counted_part(what == "evaluate", &payload, &host));
    Ok(())
}

#[inline(never)]
fn the_counted_part(evaluate: bool, payload: &[u8], host: &Answers) -> usize {
    if evaluate {
        native(payload, host).len()
    } else {
        usize::from(serde_json::from_slice::<IgnoredAny>(payload).is_ok())
    }
}
