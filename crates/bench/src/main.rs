//! `make bench`: measures what PersistentPodState costs and prints the tables of
//! docs/benchmarks.md.

#![allow(
    clippy::cast_precision_loss,
    reason = "the tables show a few digits only"
)]

mod admission;
mod bed;
mod etcd;
mod evaluation;
mod layout;
mod meter;
mod openkruise;
mod recorder;
mod recording;
mod report;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use pps_e2e::repository::policy_path;

use self::bed::Bed;
use self::openkruise::OpenKruise;
use self::recorder::Product;
use self::report::{Figures, count};

/// Measures what PersistentPodState costs and prints Markdown tables.
///
/// Alternatives are measured in turns within one run, so their ratios hold even on a busy machine.
/// Absolute times depend on the machine.
#[derive(Debug, Parser)]
#[command(name = "pps-bench", version)]
struct Args {
    /// What to measure; everything by default.
    families: Vec<Family>,
    /// Also write each table into this file, between the comments `begin NAME` and `end NAME`.
    #[arg(long)]
    write: Option<PathBuf>,
    /// Only the smallest sizes, once: shows that the measurements work.
    #[arg(long)]
    small: bool,
    /// Another build of the policy, to compare evaluations with.
    #[arg(long, value_name = "policy.wasm")]
    baseline_policy: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Family {
    /// The policy's size, and one evaluation.
    Policy,
    /// One admission, with a real API server; beside OpenKruise if `OPENKRUISE_MANAGER` names its
    /// manager.
    Admission,
    /// The sidecar with a real API server, beside OpenKruise likewise.
    Sidecar,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let families = if args.families.is_empty() {
        Family::value_variants()
    } else {
        &args.families
    };
    for family in families {
        eprintln!("measuring: {family:?}");
        match family {
            Family::Policy => measure_policy(&args)?,
            Family::Admission => Box::pin(measure_admission(&args)).await?,
            Family::Sidecar => Box::pin(measure_sidecar(&args)).await?,
        }
    }
    Ok(())
}

impl Args {
    /// Prints a finished table, and writes it at once, so that a later failure does not lose it.
    fn publish(&self, name: &str, text: &str) -> Result<()> {
        println!("{name}:\n\n{text}\n");
        self.write
            .as_ref()
            .map_or(Ok(()), |file| report::write(file, name, text))
    }

    /// How often each product has its turn.
    fn turns(&self, bed: &Bed) -> usize {
        if self.small || bed.products().len() == 1 {
            1
        } else {
            2
        }
    }

    /// The numbers of Pods that one PPS has recorded.
    fn recorded_pods(&self) -> &'static [usize] {
        if self.small {
            &[10, 100]
        } else {
            &[10, 100, 1_000, 10_000]
        }
    }
}

fn measure_policy(args: &Args) -> Result<()> {
    let wasm = std::fs::read(policy_path())?;
    args.publish("size", &report::dated(&evaluation::measure_size(&wasm)))?;
    if let Some(file) = &args.baseline_policy {
        let baseline = std::fs::read(file).with_context(|| file.display().to_string())?;
        let compared = evaluation::compare_with_baseline(&wasm, &baseline)?;
        // Not for the document: it depends on the file.
        println!("another build:\n\n{compared}\n");
    }
    let compared = evaluation::compare_with_native(&wasm)?;
    args.publish("native and Wasm", &report::dated(&compared))?;
    let by_recorded_pods = evaluation::measure_by_recorded_pods(&wasm, args.recorded_pods())?;
    args.publish("recorded Pods", &report::dated(&by_recorded_pods))
}

async fn measure_admission(args: &Args) -> Result<()> {
    let mut bed = Bed::start(OpenKruise::read_if_configured()?).await?;
    let mut figures = Figures::default();
    for _ in 0..args.turns(&bed) {
        for &product in bed.products() {
            let mut add = |title: &str, what: &str, unit, value| {
                figures.add(product.title(), &format!("{title}: {what}"), unit, value);
            };
            admission::measure(&mut bed, product, args.recorded_pods(), &mut add).await?;
        }
    }
    let table = figures.table("admission of one Pod");
    args.publish("admission", &bed.with_caption(&table).await?)
}

async fn measure_sidecar(args: &Args) -> Result<()> {
    let mut bed = Bed::start(OpenKruise::read_if_configured()?).await?;
    let (mut ready, mut start) = (Figures::default(), Figures::default());
    let workloads = if args.small { 100 } else { 1_000 };
    for _ in 0..args.turns(&bed) {
        for &product in bed.products() {
            eprintln!("  {}", product.title());
            recording::measure_becoming_ready(&mut bed, product, &mut ready).await?;
            let column = product.title();
            recording::measure_start(&mut bed, product, workloads, column, &mut start).await?;
        }
    }
    let table = ready.table("1,000 Pods of one StatefulSet");
    args.publish("becoming ready", &bed.with_caption(&table).await?)?;
    let title = format!("{} PPS × 10, all Ready, none recorded", count(workloads));
    let table = start.table(&title);
    args.publish("starting", &bed.with_caption(&table).await?)?;
    if !args.small {
        let growth = measure_growth(&mut bed, workloads, &start).await?;
        args.publish("growth", &bed.with_caption(&growth).await?)?;
    }
    Ok(())
}

/// The start of the sidecar with fewer and more PPS than the table that `start` is has.
async fn measure_growth(bed: &mut Bed, workloads: usize, start: &Figures) -> Result<String> {
    let mut growth = Figures::default();
    for size in [100, workloads, 10_000] {
        let column = format!("{} PPS × 10", count(size));
        if size == workloads {
            growth.add_column(&column, start, Product::Ours.title());
        } else {
            recording::measure_start(bed, Product::Ours, size, &column, &mut growth).await?;
        }
    }
    Ok(growth.table("all Ready, none recorded"))
}
