//! `kubectl pps` in a large cluster: time, CPU time and memory, beside `kubectl get`, which reads the same Pods.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pps_e2e::control_plane::ADMIN;
use procfs::process::Process;
use tokio::process::Command;
use tokio::time::sleep;

use crate::meter::{cpu, memory};
use crate::report::{count, ratio, table};
use crate::sidecar::layout::ClusterLayout;
use crate::sidecar::{TestBed, mebibytes};

const ROUNDS: usize = 3;
/// How often a process is looked at, to see its peak before it ends.
const GLANCE: Duration = Duration::from_millis(5);

/// One command, and what it took in all rounds.
struct Lane {
    title: &'static str,
    program: PathBuf,
    args: Vec<String>,
    seconds: Vec<f64>,
    cpu: Vec<f64>,
    peak: u64,
}

pub(crate) async fn measure(is_small: bool) -> Result<Vec<(&'static str, String)>> {
    let sizes: &[usize] = if is_small { &[100] } else { &[100, 1_000] };
    let mut rows = Vec::new();
    for &workloads in sizes {
        rows.extend(measure_at(workloads).await?);
    }
    let header = ["", "PPS × 10 Pods", "time", "÷ kubectl get", "CPU", "peak memory"];
    Ok(vec![("the plugin", table(&header, rows))])
}

async fn measure_at(workloads: usize) -> Result<Vec<Vec<String>>> {
    eprintln!("  {workloads} PPS × 10 Pods");
    let layout = ClusterLayout { namespace: "bench", workloads, pods: 10, ready: true };
    let test_bed = TestBed::prepare(layout).await?;
    let mut sidecar = test_bed.start_sidecar()?;
    sidecar.wait_until_recorded(layout.all_pods()).await?;
    drop(sidecar);

    let plugin = std::env::current_exe()?.with_file_name("kubectl-pps");
    ensure!(plugin.is_file(), "run `make bench`: {} is not built", plugin.display());
    let kubectl = test_bed.control_plane.binaries().path("kubectl")?;
    let kubeconfig = test_bed.control_plane.kubeconfig_for(ADMIN)?;
    let lane = |title, program: &PathBuf, args: &str| Lane {
        title,
        program: program.clone(),
        args: args.split(' ').map(str::to_owned).collect(),
        seconds: Vec::new(),
        cpu: Vec::new(),
        peak: 0,
    };
    let mut lanes = [
        lane("`kubectl get pods,pps -A -o json`", &kubectl, "get pods,pps -A -o json"),
        lane("`kubectl pps status -A`", &plugin, "status -A"),
        lane("`kubectl pps status -A -o json`", &plugin, "status -A -o json"),
        lane("`kubectl pps explain db-7-3`", &plugin, "explain db-7-3 -n bench"),
        lane("`kubectl pps simulate --drain worker-7`", &plugin, "simulate --drain worker-7 -n bench"),
        lane("`kubectl pps export -A`", &plugin, "export -A"),
    ];
    for _ in 0..ROUNDS {
        for lane in &mut lanes {
            lane.take_turn(&kubeconfig).await?;
        }
    }
    let [reference, ..] = &lanes;
    let reference = median(&reference.seconds);
    Ok(lanes
        .iter()
        .map(|lane| {
            let seconds = median(&lane.seconds);
            vec![
                lane.title.to_owned(),
                count(workloads),
                format!("{seconds:.2} s"),
                ratio(seconds / reference),
                format!("{:.2} s", median(&lane.cpu)),
                mebibytes(lane.peak),
            ]
        })
        .collect())
}

impl Lane {
    async fn take_turn(&mut self, kubeconfig: &PathBuf) -> Result<()> {
        let started = Instant::now();
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let process = Process::new(i32::try_from(child.id().context("it has ended")?)?)?;
        let (mut used, mut peak) = (0.0, 0);
        let status = loop {
            if let (Ok(cpu), Ok((_, memory))) = (cpu(&process), memory(&process)) {
                (used, peak) = (cpu, memory);
            }
            if let Some(status) = child.try_wait()? {
                break status;
            }
            sleep(GLANCE).await;
        };
        // 1 says that something in the cluster is not well.
        ensure!(matches!(status.code(), Some(0 | 1)), "{} {}: {status}", self.title, self.args.join(" "));
        self.seconds.push(started.elapsed().as_secs_f64());
        self.cpu.push(used);
        self.peak = self.peak.max(peak);
        eprintln!("    {}: {:.2} s, {}", self.title, started.elapsed().as_secs_f64(), mebibytes(peak));
        Ok(())
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
