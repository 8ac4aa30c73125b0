//! What it costs to read Pods from a real API server, by encoding: lists and watches by hand, in turns. And what the
//! writes of a first start cost at least.

pub(crate) mod worker;
pub(crate) mod writes;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use pps_e2e::cluster::SIDECAR;
use pps_e2e::control_plane::program;
use procfs::process::Process;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::sleep;

use self::worker::{Form, Method, ReadingReport};
use crate::meter::{cpu, memory};
use crate::report::{count, table};
use crate::sidecar::layout::ClusterLayout;
use crate::sidecar::{PodPatch, TestBed, mebibytes, patch_pods};

const ROUNDS: usize = 2;
/// How many irrelevant changes each watch shows.
const CHANGES: usize = 2_000;

const LAYOUT: ClusterLayout = ClusterLayout { namespace: "bench", workloads: 1_000, pods: 10, ready: true };

/// One row.
struct Lane {
    title: &'static str,
    /// Without a form, nothing is read: what is left is the cost of the changes.
    read: Option<(Method, Form)>,
    /// Sums of all rounds.
    received: u64,
    served: f64,
    server_growth: u64,
    used: f64,
    seconds: f64,
    growth: u64,
    refusal: Option<String>,
}

pub(crate) async fn measure() -> Result<Vec<(&'static str, String)>> {
    let test_bed = TestBed::prepare(LAYOUT).await?;
    let lanes = [
        ("JSON", Method::Pages, Form::Json),
        ("JSON, gzip", Method::Pages, Form::JsonGzip),
        ("protobuf", Method::Pages, Form::Protobuf),
        ("protobuf, gzip", Method::Pages, Form::ProtobufGzip),
        ("metadata only, JSON", Method::Pages, Form::Metadata),
        ("metadata only, protobuf, gzip", Method::Pages, Form::MetadataProtobufGzip),
        ("streamed list, JSON", Method::Stream, Form::Json),
        ("streamed list, protobuf", Method::Stream, Form::Protobuf),
    ];
    let mut lists = lanes.map(|(title, method, form)| Lane::new(title, Some((method, form))));
    for round in 0..ROUNDS {
        for lane in &mut lists {
            eprintln!("  round {round}: {}", lane.title);
            lane.take_turn(&test_bed).await?;
        }
    }
    let list = table(
        &[
            "10,000 Pods",
            "bytes received",
            "CPU of API server and etcd",
            "growth of API server",
            "CPU",
            "growth",
            "time",
        ],
        lists.iter().map(Lane::list_row),
    );
    let mut watches = [
        Lane::new("no watch", None),
        Lane::new("JSON", Some((Method::Watch, Form::Json))),
        Lane::new("protobuf", Some((Method::Watch, Form::Protobuf))),
        Lane::new("metadata only, JSON", Some((Method::Watch, Form::Metadata))),
        Lane::new("metadata only, protobuf", Some((Method::Watch, Form::MetadataProtobufGzip))),
    ];
    for round in 0..ROUNDS {
        for lane in &mut watches {
            eprintln!("  round {round}: watch, {}", lane.title);
            lane.watch(&test_bed).await?;
        }
    }
    let watch = table(
        &["2,000 irrelevant changes", "bytes received", "CPU of API server and etcd", "CPU"],
        watches.iter().map(Lane::watch_row),
    );
    Ok(vec![("reading lists", list), ("reading watches", watch)])
}

impl Lane {
    fn new(title: &'static str, read: Option<(Method, Form)>) -> Self {
        Self {
            title,
            read,
            received: 0,
            served: 0.0,
            server_growth: 0,
            used: 0.0,
            seconds: 0.0,
            growth: 0,
            refusal: None,
        }
    }

    async fn take_turn(&mut self, test_bed: &TestBed) -> Result<()> {
        let Some((method, form)) = self.read.filter(|_| self.refusal.is_none()) else { return Ok(()) };
        // The garbage of the last turn is collected meanwhile.
        sleep(Duration::from_secs(2)).await;
        let servers = test_bed.servers()?;
        reset_peak(&servers[0])?;
        let served = servers.iter().map(cpu).sum::<Result<f64>>()?;
        let (_, received) = test_bed.proxy.bytes();
        let (resident, _) = memory(&servers[0])?;
        let mut reader = Reader::start(test_bed, method, form, LAYOUT.all_pods())?;
        match reader.finish().await? {
            Ok(report) => self.add(report),
            Err(refusal) => {
                self.refusal = Some(refusal);
                return Ok(());
            }
        }
        self.received += test_bed.proxy.bytes().1 - received;
        self.served += servers.iter().map(cpu).sum::<Result<f64>>()? - served;
        self.server_growth += memory(&servers[0])?.1.saturating_sub(resident);
        eprintln!(
            "    so far: {} bytes, servers {:.2} s, reader {:.2} s and {}",
            self.received,
            self.served,
            self.used,
            mebibytes(self.growth)
        );
        Ok(())
    }

    async fn watch(&mut self, test_bed: &TestBed) -> Result<()> {
        let mut reader = match self.read {
            Some((method, form)) => {
                let mut reader = Reader::start(test_bed, method, form, CHANGES)?;
                reader.wait_until_open().await?;
                Some(reader)
            }
            None => None,
        };
        sleep(Duration::from_secs(2)).await;
        let servers = test_bed.servers()?;
        let served = servers.iter().map(cpu).sum::<Result<f64>>()?;
        let (_, received) = test_bed.proxy.bytes();
        let pods: Vec<usize> = (0..CHANGES).map(|change| change * LAYOUT.all_pods() / CHANGES).collect();
        // Another value each time, or nothing would change.
        let value = format!("{:?}", std::time::SystemTime::now());
        let patch = PodPatch::Object(json!({"metadata": {"annotations": {"example.com/heartbeat": value}}}));
        let client = test_bed.control_plane.client();
        patch_pods(client, LAYOUT, &pods, Some(400), &patch).await?;
        if let Some(reader) = &mut reader {
            match reader.finish().await? {
                Ok(report) => self.add(report),
                Err(refusal) => self.refusal = Some(refusal),
            }
        }
        self.received += test_bed.proxy.bytes().1 - received;
        self.served += servers.iter().map(cpu).sum::<Result<f64>>()? - served;
        eprintln!(
            "    so far: {} bytes, servers {:.2} s, reader {:.2} s",
            self.received, self.served, self.used
        );
        Ok(())
    }

    fn add(&mut self, report: ReadingReport) {
        self.used += report.cpu;
        self.seconds += report.seconds;
        self.growth += report.growth;
    }

    fn list_row(&self) -> Vec<String> {
        if let Some(refusal) = &self.refusal {
            eprintln!("  {}: {refusal}", self.title);
            return [self.title, "not served", "", "", "", "", ""].map(str::to_owned).to_vec();
        }
        let rounds = ROUNDS as f64;
        vec![
            self.title.to_owned(),
            count(self.received / ROUNDS as u64),
            format!("{:.2} s", self.served / rounds),
            mebibytes(self.server_growth / ROUNDS as u64),
            format!("{:.2} s", self.used / rounds),
            mebibytes(self.growth / ROUNDS as u64),
            format!("{:.2} s", self.seconds / rounds),
        ]
    }

    fn watch_row(&self) -> Vec<String> {
        if let Some(refusal) = &self.refusal {
            eprintln!("  {}: {refusal}", self.title);
        }
        let rounds = ROUNDS as f64;
        vec![
            self.title.to_owned(),
            count(self.received / ROUNDS as u64),
            format!("{:.2} s", self.served / rounds),
            if self.read.is_some() { format!("{:.2} s", self.used / rounds) } else { String::new() },
        ]
    }
}

/// A process that reads.
struct Reader {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Reader {
    fn start(test_bed: &TestBed, method: Method, form: Form, objects: usize) -> Result<Self> {
        let kubeconfig = test_bed.proxy.kubeconfig(&test_bed.control_plane, SIDECAR)?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg("run-reading")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--method", &name(&method), "--form", &name(&form), "--count", &objects.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().context("no standard output")?).lines();
        Ok(Self { child, lines })
    }

    async fn wait_until_open(&mut self) -> Result<()> {
        let line = self.lines.next_line().await?;
        ensure!(line.is_some(), "the watch was not opened");
        Ok(())
    }

    /// Waits for the end: a report, or that it failed.
    async fn finish(&mut self) -> Result<Result<ReadingReport, String>> {
        let mut last = String::new();
        while let Some(line) = self.lines.next_line().await? {
            last = line;
        }
        let status = self.child.wait().await?;
        if !status.success() {
            return Ok(Err(status.to_string()));
        }
        Ok(Ok(serde_json::from_str(&last)?))
    }
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Measures the peak of a process from now on.
fn reset_peak(process: &Process) -> Result<()> {
    let path = Path::new("/proc").join(process.pid().to_string()).join("clear_refs");
    fs::write(path, "5").with_context(|| format!("cannot reset the peak of {}", program::API_SERVER))
}
