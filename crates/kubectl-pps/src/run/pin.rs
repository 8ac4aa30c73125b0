//! `pin`: has Pods recorded and brought back. Shows the difference, asks, writes.

use std::time::Duration;

use pps_core::Spec;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use super::subject::{Done, Subject, Task, after};
use crate::args::{Connection, Pin};
use crate::cluster::Wanted;
use crate::cluster::write::WriteError;
use crate::decide::pin::{self, Ask, Generated, World, warn_of_lost_places, warn_of_missing_labels};
use crate::print::{Terminal, printable};
use crate::snapshot::Snapshot;
use crate::{Failure, Outcome};

/// How long the sidecar may take to generate an object.
const GENERATION: Duration = Duration::from_secs(30);
/// For how long nothing is said of waiting: it hardly ever takes longer.
const QUIET: Duration = Duration::from_secs(3);
/// The pause between two reads.
const PERIOD: Duration = Duration::from_millis(500);

pub(super) async fn run(
    args: &Pin,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    let ask = Ask::read(args).map_err(Failure::Usage)?;
    let subject = Subject::find(connection, &args.workload).await?;
    let wanted = Wanted { pods: true, nodes: true, ..Wanted::default() };
    let (world, snapshot) = subject.read(wanted).await?;
    let decide = |world: &World| pin::plan(&ask, world);
    let mut plan = decide(&world).map_err(Failure::Refused)?;
    plan.warnings.extend(missing_labels(&ask, &world, &snapshot));
    plan.warnings.extend(warn_of_lost_places(&plan, &world, &snapshot));
    if world.target.kind != "StatefulSet" {
        plan.notes.push(format!(
            "the sidecar records a {} only if the list of custom kinds has it: docs/custom-kinds.md",
            world.target.kind
        ));
    }
    let complete = std::mem::take(&mut plan.complete);
    if plan.changes.is_empty() && complete.is_empty() {
        if let Some(expected) = &plan.expected {
            wait_until_generated(&subject, expected, &world, terminal).await?;
        }
        let text = format!("{} is pinned like this already, by {}", world.workload_name(), plan.by);
        terminal.print(&format!("{}\n", printable(&text)))?;
        return Ok(Outcome::Well);
    }
    if !complete.is_empty() {
        plan.notes.push(format!(
            "the generated PersistentPodState then gets {}",
            complete.iter().map(|(field, value)| format!("{field}: {value}")).collect::<Vec<_>>().join(", ")
        ));
    }
    let printed = if plan.expected.is_some() { "annotated" } else { "pinned" };
    let result = Done { text: "pinned", printed, reason: "Pinned", action: "Pin" };
    let task = Task { plan: &plan, world: &world, decide: &decide, result };
    let is_done = subject.carry_out(&task, args.consent, terminal).await?;
    if is_done && !complete.is_empty() {
        set_fields(&subject, &complete, terminal).await?;
    }
    if is_done && let Some(expected) = &plan.expected {
        wait_until_generated(&subject, expected, &world, terminal).await?;
        terminal.print(&format!("{} is pinned\n", printable(&world.workload_name())))?;
    }
    Ok(if is_done || args.consent.dry_run { Outcome::Well } else { Outcome::NotWell })
}

/// Sets fields of the object that the sidecar generates, as soon as it is there.
async fn set_fields(
    subject: &Subject,
    fields: &Map<String, Value>,
    terminal: &Terminal,
) -> Result<(), Failure> {
    terminal.say("waiting for the sidecar to generate the PersistentPodState …");
    let deadline = Instant::now() + GENERATION;
    loop {
        let (world, _) = subject.read(Wanted::default()).await?;
        if let Some(name) = pin::generated(&world) {
            let Some(step) = pin::set_fields(&world, &name, fields) else { return Ok(()) };
            match subject.send(&step, &world, false).await {
                Ok(()) => {
                    terminal.say(&format!("PersistentPodState {} has these fields now", printable(&name)));
                    return Ok(());
                }
                // The sidecar records at the same time.
                Err(WriteError::Conflict(_)) => {}
                Err(error) => return Err(after(1, error.into())),
            }
        }
        if Instant::now() > deadline {
            return Err(Failure::Refused(format!(
                "the annotations are written, but the sidecar has generated no PersistentPodState within {} s: find out why, then run the same command again: {}",
                GENERATION.as_secs(),
                subject.hand.check()
            )));
        }
        sleep(PERIOD).await;
    }
}

/// Waits until there is an object that has what the annotations ask for: without one, they pin nothing.
async fn wait_until_generated(
    subject: &Subject,
    expected: &Spec,
    world: &World,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let begin = Instant::now();
    let mut has_said = false;
    loop {
        let is_over = begin.elapsed() >= GENERATION;
        match subject.list().await {
            Ok(objects) => {
                let generated = Generated::of(expected, &world.target, &objects);
                match generated.problem(GENERATION.as_secs(), &subject.hand) {
                    None => return Ok(()),
                    Some(problem) if is_over => return Err(Failure::Refused(problem)),
                    Some(_) => {}
                }
            }
            // A read that fails once ends no wait: the sidecar goes on without this command.
            Err(failure) if is_over => return Err(after(1, failure)),
            Err(_) => {}
        }
        if !has_said && begin.elapsed() >= QUIET {
            terminal.say("waiting for the sidecar to do what the annotations ask for …");
            has_said = true;
        }
        sleep(PERIOD).await;
    }
}

fn missing_labels(ask: &Ask, world: &World, snapshot: &Snapshot) -> Vec<String> {
    let Some(nodes) = &snapshot.nodes else {
        return vec![
            "whether the nodes have these labels is not known: you have no permission to list nodes".into(),
        ];
    };
    let uid = world.workload["metadata"]["uid"].as_str().unwrap_or_default();
    let pods: Vec<(&str, &str)> = snapshot
        .pods
        .iter()
        .filter(|pod| pod.owner().is_some_and(|(_, owner)| owner == uid))
        .filter_map(|pod| Some((pod.name(), pod.node()?)))
        .collect();
    warn_of_missing_labels(ask.label_keys(), &pods, nodes)
}
