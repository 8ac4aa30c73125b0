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
mod relist;
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
    /// The policy's size, one evaluation, and one admission.
    Policy,
    /// The sidecar with a real API server.
    Sidecar,
    /// Beside OpenKruise's manager, in turns on one control plane. Needs `OPENKRUISE_MANAGER`.
    Openkruise,
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
        // A finished table is published at once, so that a later failure does not lose it.
        let publish = |name: &str, text: String| {
            println!("{name}:\n\n{text}\n");
            args.write
                .as_ref()
                .map_or(Ok(()), |file| report::write(file, name, &text))
        };
        match family {
            Family::Policy => Box::pin(measure_policy(&args, &publish)).await?,
            Family::Sidecar => Box::pin(measure_sidecar(args.small, &publish)).await?,
            Family::Openkruise if args.families.is_empty() && !openkruise::is_configured() => {
                eprintln!("skipped: {} is not set", openkruise::MANAGER);
            }
            Family::Openkruise => Box::pin(measure_openkruise(args.small, &publish)).await?,
        }
    }
    Ok(())
}

/// Takes the name and the text of a finished table.
type Publish<'a> = &'a dyn Fn(&str, String) -> Result<()>;

async fn measure_policy(args: &Args, publish: Publish<'_>) -> Result<()> {
    let sizes: &[usize] = if args.small {
        &[10, 100]
    } else {
        &[10, 100, 1_000, 10_000]
    };
    let wasm = std::fs::read(policy_path())?;
    publish("size", evaluation::measure_size(&wasm))?;
    if let Some(file) = &args.baseline_policy {
        let baseline = std::fs::read(file).with_context(|| file.display().to_string())?;
        let compared = evaluation::compare_with_baseline(&wasm, &baseline)?;
        // Not for the document: it depends on the file.
        println!("another build:\n\n{compared}\n");
    }
    publish("native and Wasm", evaluation::compare_with_native(&wasm)?)?;
    publish(
        "recorded Pods",
        evaluation::measure_by_recorded_pods(&wasm, sizes)?,
    )?;

    let mut bed = Bed::start(None).await?;
    let mut figures = Figures::default();
    admission::measure(
        &mut bed,
        Product::Ours,
        sizes,
        &mut |title, what, unit, value| figures.add(title, what, unit, value),
    )
    .await?;
    publish("admission", figures.table("admission of one Pod"))
}

async fn measure_sidecar(is_small: bool, publish: Publish<'_>) -> Result<()> {
    let mut bed = Bed::start(None).await?;
    let mut figures = Figures::default();
    recording::measure_becoming_ready(&mut bed, Product::Ours, &mut figures).await?;
    publish(
        "becoming ready",
        figures.table("1,000 Pods of one StatefulSet"),
    )?;

    let sizes: &[usize] = if is_small {
        &[100]
    } else {
        &[100, 1_000, 10_000]
    };
    let mut figures = Figures::default();
    for &workloads in sizes {
        let column = format!("{} PPS × 10", count(workloads));
        let changes = [recording::IRRELEVANT, recording::RECORDED];
        recording::measure_start(
            &mut bed,
            Product::Ours,
            workloads,
            &column,
            &changes,
            &mut figures,
        )
        .await?;
    }
    publish("starting", figures.table("all Ready, none recorded"))?;
    let workloads = if is_small { 100 } else { 1_000 };
    publish(
        "relist",
        Box::pin(relist::measure(&mut bed, workloads)).await?,
    )
}

async fn measure_openkruise(is_small: bool, publish: Publish<'_>) -> Result<()> {
    let mut bed = Bed::start(Some(OpenKruise::read()?)).await?;
    let turns = if is_small { 1 } else { 2 };
    let workloads = if is_small { 100 } else { 1_000 };
    let sizes: &[usize] = if is_small {
        &[10]
    } else {
        &[10, 100, 1_000, 10_000]
    };
    let mut ready = Figures::default();
    let mut start = Figures::default();
    let mut admitted = Figures::default();
    for turn in 1..=turns {
        for product in Product::ALL {
            eprintln!("  turn {turn} of {turns}: {}", product.title());
            recording::measure_becoming_ready(&mut bed, product, &mut ready).await?;
            let changes = [recording::IRRELEVANT];
            recording::measure_start(
                &mut bed,
                product,
                workloads,
                product.title(),
                &changes,
                &mut start,
            )
            .await?;
            // The limit of its requests makes no difference to OpenKruise's webhook, which makes
            // none.
            if product == Product::OpenKruiseLifted {
                continue;
            }
            let mut add = |title: &str, what: &str, unit, value| {
                admitted.add(product.title(), &format!("{title}: {what}"), unit, value);
            };
            Box::pin(admission::measure(&mut bed, product, sizes, &mut add)).await?;
        }
    }
    publish(
        "OpenKruise: becoming ready",
        ready.table("1,000 Pods of one StatefulSet"),
    )?;
    publish(
        "OpenKruise: starting",
        start.table(&format!(
            "{} PPS × 10, all Ready, none recorded",
            count(workloads)
        )),
    )?;
    publish(
        "OpenKruise: admission",
        admitted.table("admission of one Pod"),
    )
}
