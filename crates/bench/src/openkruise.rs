//! Beside OpenKruise: its unmodified manager and our sidecar in turns on one control plane.

mod admission;
mod bed;
mod comparison;
mod correctness;
mod recorder;
mod recording;
mod records;

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use self::bed::Bed;
use self::comparison::Comparison;
use self::recorder::Product;
use crate::Publish;

/// Names the executable of OpenKruise's manager.
pub(crate) const MANAGER: &str = "OPENKRUISE_MANAGER";
/// Names the folder of OpenKruise's definitions, `config/crd/bases` in its repository. By default the folder `crds`
/// beside the manager.
const DEFINITIONS: &str = "OPENKRUISE_CRDS";
/// How many turns each of them has in each measurement.
const TURNS: usize = 2;

/// Where OpenKruise is.
struct Settings {
    manager: PathBuf,
    definitions: PathBuf,
}

impl Settings {
    fn read() -> Result<Self> {
        let manager = path_in(MANAGER).with_context(|| {
            format!(
                "{MANAGER} is not set: build OpenKruise's manager (`make build` in its repository), set {MANAGER} to the \
                 executable, and {DEFINITIONS} to the repository's config/crd/bases"
            )
        })?;
        ensure!(manager.is_file(), "{MANAGER} names {}, which is not a file", manager.display());
        let beside = || manager.parent().unwrap_or(Path::new(".")).join("crds");
        let definitions = path_in(DEFINITIONS).unwrap_or_else(beside);
        ensure!(
            definitions.is_dir(),
            "OpenKruise's definitions are not in {}: set {DEFINITIONS} to the folder config/crd/bases of its repository",
            definitions.display()
        );
        Ok(Self { manager, definitions })
    }
}

fn path_in(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Whether the measurement can be made.
pub(crate) fn is_configured() -> bool {
    path_in(MANAGER).is_some()
}

/// Publishes each table as soon as it is complete.
pub(crate) async fn measure(is_small: bool, publish: Publish<'_>) -> Result<()> {
    let mut bed = Bed::start(&Settings::read()?).await?;
    publish("OpenKruise: correctness", &correctness::compare(&mut bed).await?)?;

    let mut admission = Comparison::default();
    // Its webhook makes no requests, so the limit makes no difference.
    let products = [Product::OpenKruise, Product::Ours];
    for turn in 1..=TURNS {
        for product in products {
            announce(turn, product, "admission");
            admission::measure(&mut bed, product, &mut admission).await?;
        }
    }
    publish("OpenKruise: admission", &admission.table("admission of one Pod", &products))?;

    let mut ready = Comparison::default();
    for turn in 1..=TURNS {
        for product in Product::ALL {
            announce(turn, product, "1,000 Pods become Ready");
            recording::measure_becoming_ready(&mut bed, product, &mut ready).await?;
        }
    }
    publish("OpenKruise: becoming ready", &ready.table("1,000 Pods of one StatefulSet", &Product::ALL))?;

    let mut start = Comparison::default();
    // Changes that do not matter follow the start with fewer Pods.
    let starts: &[(usize, bool)] = if is_small { &[(1_000, true)] } else { &[(1_000, true), (2_000, false)] };
    for &(workloads, with_changes) in starts {
        for turn in 1..=TURNS {
            for product in Product::ALL {
                announce(turn, product, &format!("{workloads} PPS × 10 Pods"));
                recording::measure_start(&mut bed, product, workloads, with_changes, &mut start).await?;
            }
        }
    }
    publish("OpenKruise: starting", &start.table("all Ready, none recorded", &Product::ALL))
}

fn announce(turn: usize, product: Product, what: &str) {
    eprintln!("  turn {turn} of {TURNS}, {}: {what}", product.title());
}
