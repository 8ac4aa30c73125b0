//! `unpin`: ends what `pin` began. Shows the difference, asks, writes.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::subject::{Done, Subject, Task};
use crate::args::{Connection, Unpin};
use crate::cluster::Wanted;
use crate::decide::pin::{self, still_waiting, unpin};
use crate::print::{Terminal, printable};
use crate::{Failure, Outcome};

/// How long the sidecar may take to delete an object that it has generated.
const DELETION: Duration = Duration::from_secs(15);

pub(super) async fn run(
    args: &Unpin,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    let subject = Subject::find(connection, &args.workload).await?;
    let (world, snapshot) = subject.read(Wanted { pods: true, ..Wanted::default() }).await?;
    let mut plan = unpin(&world).map_err(Failure::Refused)?;
    plan.notes.extend(still_waiting(&world, &snapshot.pods));
    let generated = pin::generated(&world);
    if plan.changes.is_empty() {
        if let Some(name) = &generated {
            plan.notes.iter().for_each(|note| terminal.say(&printable(note)));
            return wait_until_gone(&subject, name, terminal).await;
        }
        let nothing = format!("nothing pins the Pods of {}", world.workload_name());
        let told: Vec<&str> =
            [&nothing].into_iter().chain(&plan.warnings).chain(&plan.notes).map(String::as_str).collect();
        terminal.print(&format!("{}\n", printable(&told.join("; "))))?;
        return Ok(Outcome::Well);
    }
    let text = "no longer pinned";
    let printed = if generated.is_some() { "no longer annotated" } else { text };
    let result = Done { text, printed, reason: "Unpinned", action: "Unpin" };
    let task = Task { plan: &plan, world: &world, decide: &unpin, result };
    let is_done = subject.carry_out(&task, args.consent, terminal).await?;
    match generated {
        Some(name) if is_done => wait_until_gone(&subject, &name, terminal).await,
        _ => Ok(if is_done || args.consent.dry_run { Outcome::Well } else { Outcome::NotWell }),
    }
}

/// Waits until the sidecar has deleted the object that it has generated. Until then its states are injected.
async fn wait_until_gone(subject: &Subject, name: &str, terminal: &Terminal) -> Result<Outcome, Failure> {
    let deadline = Instant::now() + DELETION;
    terminal.say(&format!("waiting for the sidecar to delete PersistentPodState {} …", printable(name)));
    loop {
        let (world, _) = subject.read(Wanted::default()).await?;
        if pin::generated(&world).is_none() {
            terminal.print(&format!("{} is no longer pinned\n", printable(&world.workload_name())))?;
            return Ok(Outcome::Well);
        }
        if Instant::now() > deadline {
            return Err(Failure::Refused(format!(
                "the annotations are gone, but PersistentPodState {name} is still there after {} s, and its states are still \
                 injected: the sidecar deletes it once it runs; to find out why it does not: {}",
                DELETION.as_secs(),
                subject.hand.check()
            )));
        }
        sleep(Duration::from_millis(500)).await;
    }
}
