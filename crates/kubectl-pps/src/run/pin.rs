//! `pin`: has Pods recorded and brought back. Shows the difference, asks, writes.

use std::fmt::Write as _;
use std::time::Duration;

use pps_check::facts::Right;
use pps_core::pps::{API_VERSION, GROUP, PLURAL};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use super::workload;
use crate::args::{Connection, Consent, Pin};
use crate::cluster::write::{Note, Write, WriteError, publish, send};
use crate::cluster::{Connected, Wanted, connect, read};
use crate::decide::pin::{self, Ask, Plan, Resource, Step, World, warn_of_missing_labels};
use crate::print::{Role, Terminal, printable};
use crate::snapshot::{Scope, Snapshot};
use crate::{Failure, Outcome};

/// How long the sidecar may take to generate an object.
const GENERATION: Duration = Duration::from_secs(30);

pub(super) async fn run(
    args: &Pin,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    let ask = Ask::read(args).map_err(Failure::Usage)?;
    let subject = Subject::find(connect(connection).await?, &args.workload).await?;
    let (world, snapshot) = subject.read().await?;
    let mut plan = pin::plan(&ask, &world).map_err(Failure::Refused)?;
    plan.warnings.extend(missing_labels(&ask, &world, &snapshot));
    if world.target.kind != "StatefulSet" {
        plan.notes.push(format!(
            "the sidecar records a {} only if the list of custom kinds has it: docs/custom-kinds.md",
            world.target.kind
        ));
    }
    let complete = std::mem::take(&mut plan.complete);
    if plan.changes.is_empty() && complete.is_empty() {
        terminal.print(&format!("{} is pinned like this already\n", printable(&world.workload_name())))?;
        return Ok(Outcome::Well);
    }
    if !complete.is_empty() {
        plan.notes.push(format!(
            "the generated PersistentPodState then gets {}",
            complete.iter().map(|(field, value)| format!("{field}: {value}")).collect::<Vec<_>>().join(", ")
        ));
    }
    let is_done = subject.carry_out(plan, &world, args.consent, terminal, "pinned").await?;
    if is_done && !complete.is_empty() {
        subject.complete(&complete, terminal).await?;
    }
    Ok(if is_done || args.consent.dry_run { Outcome::Well } else { Outcome::NotWell })
}

/// The workload, and where it is.
pub(super) struct Subject {
    connected: Connected,
    resource: Resource,
    workload: Value,
}

impl Subject {
    pub(super) async fn find(connected: Connected, text: &str) -> Result<Self, Failure> {
        let (resource, workload) = workload::find(&connected.client, &connected.namespace, text).await?;
        Ok(Self { connected, resource, workload })
    }

    /// What is to be known for a decision.
    pub(super) async fn read(&self) -> Result<(World, Snapshot), Failure> {
        let namespace = &self.connected.namespace;
        let wanted = Wanted { pods: true, nodes: true, ..Wanted::default() };
        let snapshot =
            Box::pin(read::read(&self.connected.client, &Scope::Namespace(namespace.clone()), wanted))
                .await?;
        // Whether there is an object decides what is written.
        if let Some(unseen) = snapshot.unseen.iter().find(|unseen| unseen.what.contains(PLURAL)) {
            return Err(Failure::Unreadable(unseen.to_string()));
        }
        let name = self.workload["metadata"]["name"].as_str().unwrap_or_default();
        let target = pps_core::TargetReference {
            api_version: self.resource.api_version(),
            kind: self.resource.kind.clone(),
            name: name.to_owned(),
        };
        let names = [name.to_owned(), format!("{name}-{}", target.kind.to_lowercase())];
        let mut pps = Vec::new();
        for object in &snapshot.pps {
            let concerns =
                object.target().is_same_workload(&target) || names.iter().any(|one| one == object.name());
            if concerns {
                let right = Right::new("get", GROUP, PLURAL).named(object.name()).within(namespace);
                let path = format!(
                    "/apis/{}/namespaces/{namespace}/{PLURAL}/{}",
                    version_of(object.object()),
                    object.name()
                );
                pps.extend(read::get(&self.connected.client, right, &path).await?);
            }
        }
        Ok((World { workload: self.workload.clone(), target, pps }, snapshot))
    }

    /// Shows a plan, asks and writes. Returns whether it was done.
    pub(super) async fn carry_out(
        &self,
        plan: Plan,
        world: &World,
        consent: Consent,
        terminal: &Terminal,
        result: &str,
    ) -> Result<bool, Failure> {
        terminal.print(&show(&plan, terminal))?;
        if let Some(step) = &plan.rehearsal
            && let Err(WriteError::Refused(text)) = self.send(step, world, true).await
        {
            return Err(Failure::Refused(text));
        }
        for change in &plan.changes {
            self.send(&change.step, world, true).await?;
        }
        if consent.dry_run {
            terminal.say("dry run: the API server would accept it; nothing was changed");
            return Ok(false);
        }
        if plan.changes.is_empty() {
            return Ok(true);
        }
        if !terminal.ask("Write this?", consent)? {
            terminal.say("nothing was changed");
            return Ok(false);
        }
        for (done, change) in plan.changes.iter().enumerate() {
            self.send(&change.step, world, false).await.map_err(|error| after(done, error.into()))?;
        }
        let what: Vec<&str> = plan.changes.iter().map(|change| change.what.as_str()).collect();
        let message =
            format!("{} is {result}: {} changed by kubectl pps", world.workload_name(), what.join(" and "));
        let action = if result == "pinned" { ("Pinned", "Pin") } else { ("Unpinned", "Unpin") };
        let note = Note { about: &world.workload, reason: action.0, action: action.1, message };
        if let Err(error) = publish(&self.connected.client, &note, &crate::cluster::now()).await {
            let failure: Failure = error.into();
            terminal.say(&terminal.style_of_errors().note(&format!("no Event was left: {failure}")));
        }
        terminal.print(&format!("{} is {result}\n", printable(&world.workload_name())))?;
        Ok(true)
    }

    /// Sends one write.
    async fn send(&self, step: &Step, world: &World, dry_run: bool) -> Result<(), WriteError> {
        let namespace = &self.connected.namespace;
        let workload = world.target.name.as_str();
        let pps_right = |verb, name: &str| Right::new(verb, GROUP, PLURAL).named(name).within(namespace);
        let pps_path = |object: Option<&Value>, name: &str| {
            let version = object.map_or(API_VERSION, version_of);
            format!("/apis/{version}/namespaces/{namespace}/{PLURAL}/{name}")
        };
        let object = |name: &str| world.pps.iter().find(|object| object["metadata"]["name"] == name);
        let write = match step {
            Step::PatchWorkload { patch } => Write::merge_patch(
                workload::right("patch", &self.resource, namespace, workload),
                self.resource.path(namespace, workload),
                patch.clone(),
            ),
            Step::PatchPps { name, patch } => {
                Write::merge_patch(pps_right("patch", name), pps_path(object(name), name), patch.clone())
            }
            Step::CreatePps { body } => {
                let right = Right::new("create", GROUP, PLURAL).within(namespace);
                let path = format!("/apis/{API_VERSION}/namespaces/{namespace}/{PLURAL}");
                Write::create(right, path, body.clone())
            }
            Step::DeletePps { name, uid, resource_version } => {
                Write::delete(pps_right("delete", name), pps_path(object(name), name), uid, resource_version)
            }
        };
        let write = if dry_run { write.as_dry_run() } else { write };
        send(&self.connected.client, write).await.map(|_| ())
    }

    /// Sets fields of the object that the sidecar generates, as soon as it is there.
    async fn complete(&self, fields: &Map<String, Value>, terminal: &Terminal) -> Result<(), Failure> {
        terminal.say("waiting for the sidecar to generate the PersistentPodState …");
        let deadline = Instant::now() + GENERATION;
        loop {
            let (world, _) = self.read().await?;
            if let Some(name) = pin::generated(&world) {
                let Some(step) = pin::set_fields(&world, &name, fields) else { return Ok(()) };
                match self.send(&step, &world, false).await {
                    Ok(()) => {
                        terminal
                            .say(&format!("PersistentPodState {} has these fields now", printable(&name)));
                        return Ok(());
                    }
                    // The sidecar records at the same time.
                    Err(WriteError::Conflict(_)) => {}
                    Err(error) => return Err(after(1, error.into())),
                }
            }
            if Instant::now() > deadline {
                return Err(Failure::Refused(format!(
                    "the annotations are written, but the sidecar has generated no PersistentPodState within {} s: see kubectl pps check, then run the same command again",
                    GENERATION.as_secs()
                )));
            }
            sleep(Duration::from_millis(500)).await;
        }
    }
}

/// A failure after some writes were done.
fn after(done: usize, failure: Failure) -> Failure {
    if done == 0 {
        return failure;
    }
    let text =
        format!("{failure}; what was shown before this was written: run the same command again to finish");
    match failure {
        Failure::Usage(_) | Failure::Unreadable(_) => Failure::Unreadable(text),
        Failure::Refused(_) => Failure::Refused(text),
    }
}

fn version_of(object: &Value) -> &str {
    object["apiVersion"].as_str().filter(|version| version.starts_with(GROUP)).unwrap_or(API_VERSION)
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

/// The differences, and what the user has to know.
fn show(plan: &Plan, terminal: &Terminal) -> String {
    let style = terminal.style();
    let mut text = String::new();
    for change in &plan.changes {
        let before = if change.before.is_null() { "does not exist" } else { "as it is" };
        let after = if change.after.is_null() { "is deleted" } else { "as it will be" };
        let titles = [format!("{}, {before}", change.what), format!("{}, {after}", change.what)];
        text.push_str(&style.difference(&change.before, &change.after, [&titles[0], &titles[1]]));
    }
    for warning in &plan.warnings {
        let _ = writeln!(text, "{} {}", style.paint(Role::Warning, "warning:"), printable(warning));
    }
    for note in &plan.notes {
        let _ = writeln!(text, "{}", style.note(note));
    }
    text
}
