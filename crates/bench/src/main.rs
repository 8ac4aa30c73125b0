//! `make bench`: what PersistentPodState costs. Prints the tables of docs/benchmarks.md.

#![allow(clippy::cast_precision_loss, reason = "figures for people have a few digits")]

mod calls;
mod evaluation;
mod fixture;
mod growth;
mod instructions;
mod lookup;
mod meter;
mod report;
mod sample;
mod sidecar;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand, ValueEnum};
use pps_e2e::kubewarden::stand_in::PolicyModule;
use pps_e2e::repository::policy_path;

/// Measures what PersistentPodState costs, and prints tables in Markdown.
///
/// What is compared is measured in turns within one run, so that the ratios hold on a busy machine, too;
/// the times themselves are this machine's.
#[derive(Debug, Parser)]
#[command(name = "pps-bench", version, args_conflicts_with_subcommands = true)]
struct Args {
    /// What to measure; everything if nothing is named.
    parts: Vec<Part>,
    /// Puts the tables into this file, between comments that name them.
    #[arg(long)]
    write: Option<PathBuf>,
    /// Leaves out what takes longest: 10,000 objects with 100,000 Pods.
    #[arg(long)]
    small: bool,
    #[command(subcommand)]
    process: Option<Process>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The policy's size, and the time it takes to compile it.
    Size,
    /// One evaluation: native against Wasm, and where the time goes.
    Evaluation,
    /// With recorded Pods, objects in the namespace, and the Pod's size.
    Growth,
    /// Host calls by kind of Pod.
    Calls,
    /// Instructions of the native build, with callgrind.
    Instructions,
    /// The look-up on a real API server.
    Lookup,
    /// The sidecar beside a real API server.
    Sidecar,
}

/// Processes that it starts itself.
#[derive(Debug, Subcommand)]
enum Process {
    #[command(hide = true)]
    Count { what: String, case: String },
    #[command(hide = true)]
    LookUp(lookup::worker::Task),
}

fn main() -> Result<()> {
    let args = Args::parse();
    match &args.process {
        Some(Process::Count { what, case }) => return instructions::run(what, case),
        Some(Process::LookUp(task)) => return lookup::worker::run(task),
        None => {}
    }
    let parts = if args.parts.is_empty() { Part::value_variants() } else { &args.parts };
    for part in parts {
        eprintln!("measure: {part:?}");
        for (name, text) in measure(*part, !args.small)? {
            println!("{name}:\n\n{text}\n");
            if let Some(file) = &args.write {
                report::write(file, name, &text)?;
            }
        }
    }
    Ok(())
}

fn measure(part: Part, large: bool) -> Result<Vec<(&'static str, String)>> {
    let path = policy_path();
    let wasm = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let module = || PolicyModule::load(&wasm);
    Ok(match part {
        Part::Size => vec![("size", size(&wasm))],
        Part::Evaluation => {
            let module = module()?;
            vec![
                ("native and Wasm", evaluation::against_native(&module)?),
                ("parts in the host", evaluation::parts_in_host(&module)?),
                ("parts in the policy", evaluation::parts_in_policy()?),
            ]
        }
        Part::Growth => {
            let module = module()?;
            vec![
                ("recorded Pods", growth::recorded_pods(&module)?),
                ("objects in the namespace", growth::objects_in_namespace(&module)?),
                ("size of the Pod", growth::pod_size(&module)?),
            ]
        }
        Part::Calls => vec![("host calls", calls::by_kind_of_pod(&module()?)?)],
        Part::Instructions => vec![("instructions", instructions::counts()?)],
        Part::Sidecar => tokio::runtime::Runtime::new()?.block_on(sidecar::measure(large))?,
        Part::Lookup => {
            let runtime = tokio::runtime::Runtime::new()?;
            let (well, trouble) = runtime.block_on(lookup::measure())?;
            vec![("look-up", well), ("look-up in trouble", trouble)]
        }
    })
}

fn size(wasm: &[u8]) -> String {
    let rows = [vec![report::count(wasm.len()), report::millis(evaluation::compilation(wasm))]];
    report::table(&["policy.wasm, bytes", "compile it, once"], rows)
}
