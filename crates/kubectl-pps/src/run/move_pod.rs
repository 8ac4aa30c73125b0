//! `move`: moves a Pod.
//!
//! Each step leaves the cluster in a state from which the same command goes on: the annotation and the state are as they
//! shall be already, and a Pod that is gone is created again with that state.

mod wait;

use std::fmt::Write as _;

use kube::Client;
use pps_check::facts::Right;
use pps_core::PodState;
use pps_core::RECORD_ANNOTATION;
use pps_core::edit::{Edit, set_state};
use pps_core::packed::recorded_state;
use serde_json::{Value, json};

use super::rights;
use super::states::{Address, TRIES, publish};
use super::status::hand;
use crate::args::{Connection, Move};
use crate::cluster::connect;
use crate::cluster::read::{Wanted, get, read};
use crate::cluster::write::{self, Note, Write, WriteError};
use crate::decide::hand::Hand;
use crate::decide::relocate::{
    Decision, Destination, Present, Relocation, Removal, Request, decide, describe,
};
use crate::print::{Role, Terminal, printable};
use crate::snapshot::{Pod, Scope};
use crate::{Failure, Outcome};

pub(super) async fn run(
    args: &Move,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    let connected = connect(connection).await?;
    let (client, namespace) = (&connected.client, connected.namespace.as_str());
    let wanted = Wanted { pods: true, nodes: true, other_pods: true, workloads: true, volumes: true };
    let snapshot = Box::pin(read(client, &Scope::Namespace(namespace.to_owned()), wanted)).await?;
    let to = args.to.as_deref().map(Destination::Node);
    let request = Request {
        namespace,
        pod: &args.pod,
        destination: to.or(args.anywhere.then_some(Destination::Anywhere)),
        drop_annotations: args.drop_annotations,
    };
    let relocation = match decide(&snapshot, &request)? {
        Decision::Move(relocation) => *relocation,
        Decision::Done(text) => {
            terminal.print(&(printable(&text) + "\n"))?;
            return Ok(Outcome::Well);
        }
    };
    let head = format!("Move Pod {} in namespace {namespace}", args.pod);
    let mut plan = terminal.style().paint(Role::Strong, &printable(&head)) + "\n";
    for (title, text) in relocation.plan() {
        let _ = writeln!(plan, "  {title:<10}{}", printable(&text));
    }
    terminal.print(&plan)?;
    let note = |text: &str| terminal.say(&terminal.style_of_errors().note(text));
    relocation.notes().iter().for_each(|text| note(text));
    if let Some(obstacle) = relocation.obstacle() {
        if !args.force {
            return Err(Failure::Refused(format!(
                "{obstacle}\nnothing was changed; --force changes what is recorded all the same"
            )));
        }
        obstacle.lines().for_each(note);
    }
    let mover = Mover {
        client,
        terminal,
        hand: hand(connection, namespace),
        address: Address::of(&snapshot, namespace, &relocation.pps),
        relocation: &relocation,
    };
    mover.check().await?;
    if args.consent.dry_run {
        return Ok(Outcome::Well);
    }
    if !terminal.ask(&format!("Move Pod {}?", args.pod), args.consent)? {
        terminal.say("nothing was changed");
        return Ok(Outcome::NotWell);
    }
    mover.write().await?;
    if relocation.present.as_ref().is_some_and(|present| present.removal == Removal::Stay) {
        let node = args.to.as_deref().unwrap_or_default();
        let text = printable(&format!("Pod {} stays on {node}, and is recorded again", args.pod));
        terminal.print(&(text + "\n"))?;
        return Ok(Outcome::Well);
    }
    mover.wait(args.timeout).await
}

struct Mover<'a> {
    client: &'a Client,
    terminal: &'a Terminal,
    /// How the commands are written that an answer names.
    hand: Hand,
    address: Address,
    relocation: &'a Relocation,
}

impl Mover<'_> {
    fn pod_path(&self) -> String {
        let Relocation { namespace, pod, .. } = self.relocation;
        format!("/api/v1/namespaces/{namespace}/pods/{pod}")
    }

    fn pod_right(&self, verb: &'static str, resource: &str) -> Right {
        let Relocation { namespace, pod, .. } = self.relocation;
        Right::new(verb, "", resource).named(pod).within(namespace)
    }

    /// The Pod as it is now; none if there is none.
    async fn read_pod(&self) -> Result<Option<Value>, Failure> {
        get(self.client, self.pod_right("get", "pods"), &self.pod_path()).await
    }

    /// Checks the rights, and that a disruption budget allows the eviction, before anything is written.
    async fn check(&self) -> Result<(), Failure> {
        let relocation = self.relocation;
        let mut needed = vec![(self.pod_right("get", "pods"), "see where the Pod goes")];
        if let Some(present) = &relocation.present {
            if present.is_recorded && present.removal == Removal::Evict {
                needed.push((self.pod_right("patch", "pods"), "keep the Pod from being recorded again"));
            }
            match present.removal {
                Removal::Evict => {
                    needed.push((self.pod_right("create", "pods/eviction"), "evict the Pod"));
                }
                Removal::Delete => needed.push((self.pod_right("delete", "pods"), "delete the Pod")),
                Removal::Stay if present.is_left_over => {
                    needed.push((self.pod_right("patch", "pods"), "have the Pod recorded again"));
                }
                Removal::Stay | Removal::None => {}
            }
        }
        let changes = relocation.wish.changes(relocation.before.as_ref());
        if changes {
            needed.push((self.address.right(), "change what is recorded"));
        }
        rights::require(self.client, &needed).await?;
        let removes = |present: &Present| matches!(present.removal, Removal::Evict | Removal::Delete);
        if changes || relocation.present.as_ref().is_some_and(removes) {
            // What cannot be read or written must not be found out after the first write.
            let object = self.address.read_to_write(self.client).await?;
            let after = relocation.wish.state(relocation.before.as_ref());
            set_state(&object, &relocation.pod, after.as_ref())
                .map_err(|error| self.address.refused(&format!("{error}; nothing was changed")))?;
        }
        if let Some(present) = relocation.present.as_ref().filter(|one| one.removal == Removal::Evict) {
            let evict = Write::evict(&relocation.namespace, &relocation.pod, &present.uid).as_dry_run();
            if let Err(WriteError::Disruption(why)) = write::send(self.client, evict).await {
                return Err(Failure::Refused(format!(
                    "a PodDisruptionBudget forbids to evict Pod {} now: {why}\nnothing was changed",
                    relocation.pod
                )));
            }
        }
        Ok(())
    }

    /// Does all that has to be written.
    async fn write(&self) -> Result<(), Failure> {
        let now = self.read_pod().await?.and_then(Pod::read);
        if let Some(what) = self.relocation.overtaken_by(now.as_ref()) {
            return Err(Failure::Refused(format!("{what}: nothing was changed; run the command again")));
        }
        let mut done = Vec::new();
        let result = self.write_all(&mut done).await;
        result.map_err(|failure| so_far(failure, &done))
    }

    /// Does all that has to be written, and notes what was done.
    async fn write_all(&self, done: &mut Vec<&'static str>) -> Result<(), Failure> {
        let present = self.relocation.present.as_ref();
        if let Some(present) = present.filter(|one| one.is_recorded && one.removal == Removal::Evict) {
            self.annotate(&present.uid, &"false".into()).await?;
            done.push("the Pod is annotated, and is not recorded any longer");
        }
        let changed = self.write_state().await?;
        if changed {
            done.push("what is recorded is changed");
        }
        if let Some(present) = present {
            self.remove(&present.uid, present.removal).await?;
            if matches!(present.removal, Removal::Evict | Removal::Delete) {
                done.push("the Pod is being deleted");
            }
            if present.removal == Removal::Stay {
                // The state is as it was: from now on the sidecar keeps it so.
                if present.is_left_over {
                    self.annotate(&present.uid, &Value::Null).await?;
                }
                return Ok(());
            }
        }
        // Another recorder may not know the annotation. What is recorded of the next Pod stays.
        let uid = present.map(|present| present.uid.as_str());
        if changed
            && uid.is_some()
            && self.read_pod().await?.is_none_or(|pod| pod["metadata"]["uid"].as_str() == uid)
        {
            self.write_state().await?;
        }
        Ok(())
    }

    /// Annotates the Pod, so that the sidecar leaves its state alone, or removes the annotation again.
    async fn annotate(&self, uid: &str, value: &Value) -> Result<(), Failure> {
        for _ in 0..TRIES {
            let Some(pod) = self.read_pod().await?.filter(|pod| pod["metadata"]["uid"] == uid) else {
                return Err(Failure::Refused(format!(
                    "Pod {} was created again meanwhile, nothing was changed; run the command again",
                    self.relocation.pod
                )));
            };
            let version = &pod["metadata"]["resourceVersion"];
            let body = json!({"metadata": {
                "uid": uid, "resourceVersion": version, "annotations": {RECORD_ANNOTATION: value},
            }});
            let patch = Write::merge_patch(self.pod_right("patch", "pods"), self.pod_path(), body);
            match write::send(self.client, patch).await {
                Ok(_) => return Ok(()),
                // The kubelet has written its status.
                Err(WriteError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::Refused(format!(
            "other clients change Pod {} all the time, nothing was changed; run the command again",
            self.relocation.pod
        )))
    }

    /// Writes the state, made from what is recorded at that moment. Returns whether it was another one.
    async fn write_state(&self) -> Result<bool, Failure> {
        let Relocation { pod, wish, to, .. } = self.relocation;
        for _ in 0..TRIES {
            let object = self.address.read_to_write(self.client).await?;
            let before =
                recorded_state(&object["status"], pod).map_err(|error| self.address.refused(&error))?;
            if !wish.changes(before.as_ref()) {
                return Ok(false);
            }
            let after = wish.state(before.as_ref());
            let edit: Option<Edit> =
                set_state(&object, pod, after.as_ref()).map_err(|error| self.address.refused(&error))?;
            let Some(edit) = edit else { return Ok(false) };
            match self.address.write(self.client, &edit).await {
                Ok(stored) => {
                    let to = to.as_deref().unwrap_or("any node");
                    self.tell(&stored, to, before.as_ref(), after.as_ref()).await;
                    return Ok(true);
                }
                Err(WriteError::Conflict(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.address.busy())
    }

    async fn tell(&self, stored: &Value, to: &str, before: Option<&PodState>, after: Option<&PodState>) {
        let message = format!(
            "Pod {} is moved to {to} with kubectl-pps: its recorded state was {}, and is {}",
            self.relocation.pod,
            describe(before),
            describe(after)
        );
        let note = Note { about: stored, reason: "PodMoved", action: "Move", message };
        publish(self.client, self.terminal, &note).await;
    }

    /// Evicts or deletes exactly this Pod.
    async fn remove(&self, uid: &str, removal: Removal) -> Result<(), Failure> {
        let Relocation { namespace, pod, .. } = self.relocation;
        for _ in 0..TRIES {
            let write = match removal {
                Removal::None | Removal::Stay => return Ok(()),
                Removal::Evict => Write::evict(namespace, pod, uid),
                Removal::Delete => {
                    let now = self.read_pod().await?.filter(|pod| pod["metadata"]["uid"] == uid);
                    let Some(now) = now else { return Ok(()) };
                    // From this version on it has no node: what gives it one makes another version.
                    if let Some(node) = now["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
                        return Err(Failure::Refused(format!(
                            "Pod {pod} has got node {node} meanwhile, and was not deleted; what is recorded is changed: run the command again"
                        )));
                    }
                    let version = now["metadata"]["resourceVersion"].as_str().unwrap_or_default();
                    Write::delete(self.pod_right("delete", "pods"), self.pod_path(), uid, version)
                }
            };
            match write::send(self.client, write).await {
                Ok(_) | Err(WriteError::NotFound) => return Ok(()),
                // Of an eviction: another Pod has the name already. Of a deletion: the Pod has changed.
                Err(WriteError::Conflict(_)) => {
                    if self.read_pod().await?.is_none_or(|pod| pod["metadata"]["uid"] != uid) {
                        return Ok(());
                    }
                }
                Err(WriteError::Disruption(why)) => {
                    return Err(Failure::Refused(format!(
                        "a PodDisruptionBudget forbids to evict Pod {pod} now: {why}\nwhat is recorded is changed already: run the command again when the budget allows it, or call it off with --to and the node that the Pod is on"
                    )));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::Refused(format!("Pod {pod} changes all the time; run the command again")))
    }
}

/// A failure after something was done says what, and how to go on.
fn so_far(failure: Failure, done: &[&str]) -> Failure {
    if done.is_empty() {
        return failure;
    }
    let more = |text: String| {
        format!(
            "{text}\nDone so far: {}. Run the same command again, and it goes on from here",
            done.join("; ")
        )
    };
    match failure {
        Failure::Usage(text) => Failure::Usage(more(text)),
        Failure::Refused(text) => Failure::Refused(more(text)),
        Failure::Unreadable(text) => Failure::Unreadable(more(text)),
    }
}
