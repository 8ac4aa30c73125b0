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

/// All tables.
pub(crate) async fn measure(is_small: bool) -> Result<Vec<(&'static str, String)>> {
    let mut bed = Bed::start(&Settings::read()?).await?;
    let correctness = correctness::compare(&mut bed).await?;
    let [mut ready, mut start, mut admission] = [(); 3].map(|()| Comparison::default());
    let workloads: &[usize] = if is_small { &[1_000] } else { &[1_000, 2_000] };
    for turn in 1..=TURNS {
        for product in Product::ALL {
            eprintln!("  turn {turn} of {TURNS}, {}: 1,000 Pods become Ready", product.title());
            recording::measure_becoming_ready(&mut bed, product, &mut ready).await?;
        }
    }
    for turn in 1..=TURNS {
        for &workloads in workloads {
            for product in Product::ALL {
                eprintln!("  turn {turn} of {TURNS}, {}: {workloads} PPS × 10 Pods", product.title());
                let with_changes = workloads == 1_000;
                recording::measure_start(&mut bed, product, workloads, with_changes, &mut start).await?;
            }
        }
    }
    for turn in 1..=TURNS {
        for product in [Product::OpenKruiseLifted, Product::Ours] {
            eprintln!("  turn {turn} of {TURNS}, {}: admission", product.title());
            admission::measure(&mut bed, product, &mut admission).await?;
        }
    }
    let webhooks = [Product::OpenKruiseLifted, Product::Ours];
    Ok(vec![
        ("OpenKruise: becoming ready", ready.table("1,000 Pods of one StatefulSet", &Product::ALL)),
        ("OpenKruise: starting", start.table("all Ready, none recorded", &Product::ALL)),
        ("OpenKruise: admission", admission.table("admission of one Pod", &webhooks)),
        ("OpenKruise: correctness", correctness),
    ])
}
