//! `unpin`: ends what `pin` began. Shows the difference, asks, writes.

use super::subject::{Done, Subject, Task};
use crate::args::{Connection, Unpin};
use crate::cluster::Wanted;
use crate::decide::pin::{still_waiting, unpin};
use crate::print::{Terminal, printable};
use crate::{Failure, Outcome};

pub(super) async fn run(
    args: &Unpin,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    let subject = Subject::find(connection, &args.workload).await?;
    let (world, snapshot) = subject.read(Wanted { pods: true, ..Wanted::default() }).await?;
    let mut plan = unpin(&world).map_err(Failure::Refused)?;
    plan.notes.extend(still_waiting(&world, &snapshot.pods));
    if plan.changes.is_empty() {
        let nothing = format!("nothing pins the Pods of {}", world.workload_name());
        let told: Vec<&str> =
            [&nothing].into_iter().chain(&plan.warnings).chain(&plan.notes).map(String::as_str).collect();
        terminal.print(&format!("{}\n", printable(&told.join("; "))))?;
        return Ok(Outcome::Well);
    }
    let result = Done { text: "no longer pinned", reason: "Unpinned", action: "Unpin" };
    let task = Task { plan: &plan, world: &world, decide: &unpin, result };
    let is_done = subject.carry_out(&task, args.consent, terminal).await?;
    Ok(if is_done || args.consent.dry_run { Outcome::Well } else { Outcome::NotWell })
}
