//! `make bench`: measures what PersistentPodState costs and prints the tables of docs/benchmarks.md.

#![allow(clippy::cast_precision_loss, reason = "the tables show a few digits only")]

mod admission;
mod calls;
mod evaluation;
mod fixture;
mod growth;
mod instructions;
mod lookup;
mod meter;
mod openkruise;
mod plugin;
mod reading;
mod report;
mod sample;
mod sidecar;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand, ValueEnum};
use pps_e2e::kubewarden::stand_in::PolicyModule;
use pps_e2e::repository::policy_path;

/// Measures what PersistentPodState costs and prints Markdown tables.
///
/// Alternatives are measured in turns within one run, so their ratios hold even on a busy machine. Absolute
/// times depend on the machine.
#[derive(Debug, Parser)]
#[command(name = "pps-bench", version, args_conflicts_with_subcommands = true)]
struct Args {
    /// What to measure; everything by default.
    parts: Vec<Part>,
    /// Also write each table into this file, between the comments `begin NAME` and `end NAME`.
    #[arg(long)]
    write: Option<PathBuf>,
    /// Skip the largest clusters: 10,000 PPS with 100,000 Pods, and 2,000 PPS beside OpenKruise.
    #[arg(long)]
    small: bool,
    /// With the part `admission`, also send so many admissions in a row.
    #[arg(long)]
    admissions: Option<usize>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The policy's size, and how long it takes to compile.
    Size,
    /// One evaluation: native and Wasm, and where the time is spent.
    Evaluation,
    /// How evaluations scale with recorded Pods and the Pod's size.
    Growth,
    /// Host calls, by kind of Pod.
    Calls,
    /// Instructions of the native build, counted by callgrind.
    Instructions,
    /// The lookup against a real API server.
    Lookup,
    /// Admissions through `PolicyServer` (or the stand-in, unless `POLICY_SERVER` names one) and a real API server.
    Admission,
    /// The sidecar with a real API server.
    Sidecar,
    /// What it costs to list and watch Pods, by encoding.
    Reading,
    /// The writes of a first start, and the same ones from a client that does nothing else.
    Writing,
    /// `kubectl pps` in a cluster of 10,000 Pods.
    Plugin,
    /// Beside OpenKruise's manager, in turns on one control plane. Needs `OPENKRUISE_MANAGER`.
    Openkruise,
}

/// Commands, most of them for the program itself: what they measure needs a process of its own.
#[derive(Debug, Subcommand)]
enum Command {
    #[command(hide = true)]
    RunInstructions { mode: instructions::Mode, case: String },
    #[command(hide = true)]
    RunLookups(lookup::worker::LookupArgs),
    #[command(hide = true)]
    RunReading(reading::worker::ReadingArgs),
    #[command(hide = true)]
    ServeStandIn(admission::host::StandInArgs),
    /// Compares two builds of the policy's module in turns.
    CompareModules { first: PathBuf, second: PathBuf },
}

fn main() -> Result<()> {
    let args = Args::parse();
    match &args.command {
        Some(Command::RunInstructions { mode, case }) => return instructions::run(*mode, case),
        Some(Command::RunLookups(args)) => return lookup::worker::run(args),
        Some(Command::RunReading(args)) => return reading::worker::run(args),
        Some(Command::ServeStandIn(args)) => return admission::host::run(args),
        Some(Command::CompareModules { first, second }) => {
            println!("{}", evaluation::compare_modules(&[first.clone(), second.clone()])?);
            return Ok(());
        }
        None => {}
    }
    let parts = if args.parts.is_empty() { Part::value_variants() } else { &args.parts };
    for part in parts {
        if *part == Part::Openkruise && args.parts.is_empty() && !openkruise::is_configured() {
            eprintln!("skipped: {part:?}, because {} is not set", openkruise::MANAGER);
            continue;
        }
        eprintln!("measuring: {part:?}");
        measure(*part, &args, &|name, text| {
            println!("{name}:\n\n{text}\n");
            args.write.as_ref().map_or(Ok(()), |file| report::write(file, name, text))
        })?;
    }
    Ok(())
}

/// Takes the name and the text of a finished table.
type Publish<'a> = &'a dyn Fn(&str, &str) -> Result<()>;

fn measure(part: Part, args: &Args, publish: Publish<'_>) -> Result<()> {
    let path = policy_path();
    let wasm = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let module = || PolicyModule::load(&wasm);
    let tables = match part {
        Part::Size => vec![("size", size_table(&wasm))],
        Part::Evaluation => {
            let module = module()?;
            vec![
                ("native and Wasm", evaluation::compare_with_native(&module)?),
                ("parts in the host", evaluation::split_host_time(&module)?),
                ("parts in the policy", evaluation::split_policy_time()?),
            ]
        }
        Part::Growth => {
            let module = module()?;
            vec![
                ("recorded Pods", growth::measure_by_recorded_pods(&module)?),
                ("size of the Pod", growth::measure_by_pod_size(&module)?),
            ]
        }
        Part::Calls => vec![("host calls", calls::count_by_pod_kind(&module()?)?)],
        Part::Instructions => vec![("instructions", instructions::count_all()?)],
        Part::Reading => tokio::runtime::Runtime::new()?.block_on(reading::measure())?,
        Part::Writing => {
            let table = tokio::runtime::Runtime::new()?.block_on(reading::writes::measure())?;
            vec![("writing at a start", table)]
        }
        Part::Sidecar => tokio::runtime::Runtime::new()?.block_on(sidecar::measure(args.small))?,
        Part::Admission => tokio::runtime::Runtime::new()?.block_on(admission::measure(args.admissions))?,
        Part::Plugin => tokio::runtime::Runtime::new()?.block_on(plugin::measure(args.small))?,
        Part::Openkruise => {
            let runtime = tokio::runtime::Runtime::new()?;
            return runtime.block_on(openkruise::measure(args.small, publish));
        }
        Part::Lookup => {
            let runtime = tokio::runtime::Runtime::new()?;
            let (healthy, failing) = runtime.block_on(lookup::measure())?;
            vec![("lookup", healthy), ("failing lookup", failing)]
        }
    };
    tables.iter().try_for_each(|(name, text)| publish(name, text))
}

fn size_table(wasm: &[u8]) -> String {
    let rows = [vec![report::count(wasm.len()), report::millis(evaluation::compile_time(wasm))]];
    report::table(&["policy.wasm, bytes", "compile, once"], rows)
}
