//! The workload that is pinned or unpinned: reads what decides, shows a plan, asks, and writes it.

use std::fmt::Write as _;

use pps_check::facts::Right;
use pps_core::pps::{API_VERSION, GROUP, PLURAL};
use serde_json::Value;

use super::status::hand;
use super::workload;
use crate::Failure;
use crate::args::{Connection, Consent};
use crate::cluster::write::{Note, Write, WriteError, publish, send};
use crate::cluster::{Connected, Wanted, connect, read};
use crate::decide::hand::Hand;
use crate::decide::pin::{Change, Plan, Resource, Step, World};
use crate::print::{Role, Terminal, printable};
use crate::snapshot::{Pps, Scope, Snapshot};

/// How often a change that meets another writer's is made again.
const RETRIES: usize = 5;

/// A plan, and how it was made.
pub(super) struct Task<'a> {
    pub(super) plan: &'a Plan,
    pub(super) world: &'a World,
    pub(super) decide: &'a dyn Fn(&World) -> Result<Plan, String>,
    pub(super) result: Done,
}

/// What is said when it is done.
pub(super) struct Done {
    /// `pinned`
    pub(super) text: &'static str,
    /// What is printed of it as soon as all is written.
    pub(super) printed: &'static str,
    /// The reason of the Event.
    pub(super) reason: &'static str,
    /// The action of the Event.
    pub(super) action: &'static str,
}

/// The workload, and where it is.
pub(super) struct Subject {
    pub(super) connected: Connected,
    pub(super) hand: Hand,
    resource: Resource,
    workload: Value,
}

impl Subject {
    pub(super) async fn find(connection: &Connection, text: &str) -> Result<Self, Failure> {
        let connected = connect(connection).await?;
        let hand = hand(connection, &connected.namespace);
        let (resource, workload) = workload::find(&connected.client, &connected.namespace, text).await?;
        Ok(Self { connected, hand, resource, workload })
    }

    /// What is to be known for a decision, and more if it is wanted.
    pub(super) async fn read(&self, wanted: Wanted) -> Result<(World, Snapshot), Failure> {
        let namespace = &self.connected.namespace;
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
        let world = World { workload: self.workload.clone(), target, pps, hand: self.hand.clone() };
        Ok((world, snapshot))
    }

    /// The PersistentPodStates of the namespace, as far as one right to list them shows.
    pub(super) async fn list(&self) -> Result<Vec<Pps>, Failure> {
        let scope = Scope::Namespace(self.connected.namespace.clone());
        let snapshot = Box::pin(read::read(&self.connected.client, &scope, Wanted::default())).await?;
        match snapshot.unseen.iter().find(|unseen| unseen.what.contains(PLURAL)) {
            Some(unseen) => Err(Failure::Unreadable(unseen.to_string())),
            None => Ok(snapshot.pps),
        }
    }

    /// The same, read again. Another workload of the same name is none.
    async fn read_again(&self) -> Result<World, Failure> {
        let name = self.workload["metadata"]["name"].as_str().unwrap_or_default();
        let found =
            workload::get(&self.connected.client, &self.resource, &self.connected.namespace, name).await?;
        let is_same = |workload: &Value| workload["metadata"]["uid"] == self.workload["metadata"]["uid"];
        let Some(workload) = found.filter(is_same) else {
            return Err(Failure::Refused(format!("{name} was deleted meanwhile; run the command again")));
        };
        let (world, _) = self.read(Wanted::default()).await?;
        Ok(World { workload, ..world })
    }

    /// Shows a plan, asks and writes. Returns whether it was done.
    pub(super) async fn carry_out(
        &self,
        task: &Task<'_>,
        consent: Consent,
        terminal: &Terminal,
    ) -> Result<bool, Failure> {
        let Task { plan, world, result, .. } = task;
        terminal.print(&show(plan, terminal))?;
        if let Some(step) = &plan.rehearsal
            && let Err(WriteError::Refused(text)) = self.send(step, world, true).await
        {
            return Err(Failure::Refused(text));
        }
        for change in &plan.changes {
            self.apply(change, task, true).await?;
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
            self.apply(change, task, false).await.map_err(|failure| after(done, failure))?;
        }
        let what: Vec<&str> = plan.changes.iter().map(|change| change.what.as_str()).collect();
        let message = format!(
            "{} is {}: {} changed with kubectl-pps",
            world.workload_name(),
            result.text,
            what.join(" and ")
        );
        let note = Note { about: &world.workload, reason: result.reason, action: result.action, message };
        if let Err(error) = publish(&self.connected.client, &note, &crate::cluster::now()).await {
            let failure: Failure = error.into();
            terminal.say(&terminal.style_of_errors().note(&format!("no Event was left: {failure}")));
        }
        terminal.print(&format!("{} is {}\n", printable(&world.workload_name()), result.printed))?;
        Ok(true)
    }

    /// Makes one change. The controller of the workload and the sidecar write the same objects all the time: after a conflict
    /// everything is read again, and the change is made if it is still exactly the one that was shown.
    async fn apply(&self, change: &Change, task: &Task<'_>, dry_run: bool) -> Result<(), Failure> {
        let mut answer = self.send(&change.step, task.world, dry_run).await;
        for _ in 0..RETRIES {
            let Err(WriteError::Conflict(text)) = answer else { break };
            let world = self.read_again().await?;
            let again = (task.decide)(&world).map_err(Failure::Refused)?;
            let Some(same) = again.changes.iter().find(|one| one.is_same(change)) else {
                return Err(WriteError::Conflict(text).into());
            };
            answer = self.send(&same.step, &world, dry_run).await;
        }
        Ok(answer?)
    }

    /// Sends one write.
    pub(super) async fn send(&self, step: &Step, world: &World, dry_run: bool) -> Result<(), WriteError> {
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
}

/// A failure after some writes were done.
pub(super) fn after(done: usize, failure: Failure) -> Failure {
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
