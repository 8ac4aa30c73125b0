//! `watch`: the table of `status`, again whenever something changes.

use std::fmt::Write as _;
use std::pin::pin;
use std::time::Duration;

use futures::future::LocalBoxFuture;
use futures::{FutureExt, StreamExt};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::status::{WANTED, hand, scope};
use crate::args::{Connection, Watch};
use crate::cluster::read::{read, read_lists};
use crate::cluster::watch::{News, watch};
use crate::cluster::{connect, now};
use crate::decide::changes::{changes, waiting};
use crate::decide::hand::Hand;
use crate::decide::status::{Status, status};
use crate::print::screen::{Screen, style_for};
use crate::print::{self, Role, Terminal, printable};
use crate::snapshot::{KRUISE_WORKLOADS, Live, Scope, Snapshot, Unseen, WORKLOADS};
use crate::{Failure, Outcome};

/// How long changes are gathered before they are shown.
const PAUSE: Duration = Duration::from_millis(300);
/// How often everything is read again where a watch is not allowed, or has failed.
const POLL: Duration = Duration::from_secs(5);
/// About a hundred years.
const NEVER: Duration = Duration::from_hours(24 * 365 * 100);

/// What is shown, and to whom.
struct Show<'a> {
    args: &'a Watch,
    terminal: &'a Terminal,
    scope: Scope,
    hand: Hand,
    screen: Screen,
    shown: Option<Status>,
    /// Why it is not known whether this is how it is now.
    lost: Option<String>,
    /// Whether that was said.
    is_loss_told: bool,
    notes: Vec<String>,
}

pub(super) async fn run(
    args: &Watch,
    connection: &Connection,
    terminal: &Terminal,
) -> Result<Outcome, Failure> {
    let connected = connect(connection).await?;
    let scope = scope(args.all.all_namespaces, &connected.namespace);
    let first = Box::pin(read(&connected.client, &scope, WANTED)).await?;
    let mut show = Show {
        args,
        terminal,
        scope: scope.clone(),
        hand: hand(connection, &connected.namespace),
        screen: Screen::default(),
        shown: None,
        lost: None,
        is_loss_told: false,
        notes: Vec::new(),
    };
    let answer = status(&first, args.workload.as_deref(), &show.hand)?;
    show.notes.clone_from(&answer.unseen);
    // Without workloads it is not known whether a rollout goes on.
    let is_of_workloads = |one: &Unseen| matches!(one.resource(), WORKLOADS | KRUISE_WORKLOADS);
    let knows_workloads = !first.relevant_unseen().any(is_of_workloads);
    // The first poll installs the handler. The first frame says that Ctrl-C ends the command, so it must not come before.
    let mut interrupted = pin!(tokio::signal::ctrl_c());
    if interrupted.as_mut().now_or_never().is_some() {
        return Ok(Outcome::Well);
    }
    show.update(answer)?;
    let unread: Vec<String> = first.unseen.iter().map(|unseen| unseen.list().to_owned()).collect();
    let mut news = watch(&connected.client, &scope, &first);
    let mut live = Live::new(first);
    let deadline = Instant::now() + args.until_ready.unwrap_or(NEVER);
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut is_changed, mut is_polled, mut polled) = (false, false, Instant::now());
    // A poll may take minutes, and the interrupt must not wait for it, nor get lost.
    let mut poll: Option<LocalBoxFuture<Result<Snapshot, Failure>>> = None;
    loop {
        if let Some(shown) = show.shown.as_ref().filter(|_| args.until_ready.is_some())
            && waiting(shown).is_none()
        {
            return Ok(if knows_workloads { Outcome::Well } else { Outcome::Incomplete });
        }
        tokio::select! {
            one = news.next() => match one {
                Some(News::Report(watched, report)) => {
                    is_changed |= live.apply(watched, report);
                }
                Some(News::Forbidden(watched)) => {
                    let note = format!("you may not watch {watched}, so everything is read again each {POLL:?}");
                    if !show.notes.contains(&note) {
                        show.note(note);
                    }
                    is_polled = true;
                }
                Some(News::Lost(why)) => {
                    is_changed = true;
                    show.lost = Some(why);
                }
                None => return Err(Failure::Unreadable("the API server ends all watches".into())),
            },
            read = finished(&mut poll) => {
                poll = None;
                (is_changed, polled) = (true, Instant::now());
                // A list that failed this time is not a list of nothing.
                let read = read.and_then(|snapshot| match newly_unread(&snapshot, &unread) {
                    Some(why) => Err(Failure::Unreadable(why)),
                    None => Ok(snapshot),
                });
                match read {
                    Ok(snapshot) => {
                        // What the former watches have missed is known again, and they may be silent for long.
                        if show.lost.take().is_some() {
                            news = watch(&connected.client, &scope, &snapshot);
                        }
                        live = Live::new(snapshot);
                    }
                    Err(failure) => show.lost = Some(failure.to_string()),
                }
            }
            _ = ticks.tick() => {
                if (is_polled || show.lost.is_some()) && poll.is_none() && polled.elapsed() > POLL {
                    poll = Some(Box::pin(read_lists(&connected.client, &scope, WANTED)));
                }
                let is_resized = terminal.is_terminal() && show.screen.is_of_another_size(terminal.size());
                if is_changed || is_resized {
                    is_changed = false;
                    match status(&live.snapshot(), args.workload.as_deref(), &show.hand) {
                        Ok(answer) => show.update(answer)?,
                        // It was deleted meanwhile.
                        Err(failure) => show.gone(&failure)?,
                    }
                }
            },
            () = sleep_until(deadline) => {
                terminal.say(&terminal.style_of_errors().error(&show.late(args.until_ready.unwrap_or(NEVER))));
                return Ok(Outcome::NotWell);
            }
            _ = &mut interrupted => return Ok(Outcome::Well),
        }
    }
}

/// Why something could not be read that could be read at the beginning.
fn newly_unread(snapshot: &Snapshot, unread: &[String]) -> Option<String> {
    let is_new = |unseen: &&Unseen| !unread.iter().any(|list| list == unseen.list());
    snapshot.unseen.iter().find(is_new).map(ToString::to_string)
}

/// The result of a poll; never, if there is none.
async fn finished<T>(poll: &mut Option<LocalBoxFuture<'_, T>>) -> T {
    match poll {
        Some(poll) => poll.await,
        None => std::future::pending().await,
    }
}

impl Show<'_> {
    /// Something that holds from now on: a part of each frame on a terminal, else a line.
    fn note(&mut self, note: String) {
        if !self.terminal.is_terminal() {
            self.terminal.say(&self.terminal.style_of_errors().note(&note));
        }
        self.notes.push(note);
    }

    fn update(&mut self, answer: Status) -> Result<(), Failure> {
        if self.terminal.is_terminal() {
            let size = self.terminal.size();
            let style = style_for(self.terminal.style(), size);
            let mut text = print::status::status(&answer, style, false, self.scope == Scope::All);
            text.push('\n');
            for note in &self.notes {
                text.push_str(&(style.note(note) + "\n"));
            }
            if let Some(why) = &self.lost {
                let sentence = format!("connection lost, trying again: {}", printable(why));
                text.push_str(&(style.paint(Role::Bad, &sentence) + "\n"));
            }
            let end = match self.args.until_ready {
                Some(_) => "ends when the rollout is finished and all Pods are Ready",
                None => "Ctrl-C ends",
            };
            if let Some(waiting) = waiting(&answer).filter(|_| self.args.until_ready.is_some()) {
                text.push_str(&(printable(&format!("waiting: {}", waiting.text)) + "\n"));
            }
            let time = now();
            let time = time.get(11..19).unwrap_or_default();
            text.push_str(&(style.paint(Role::Dim, &format!("{time} UTC; {end}")) + "\n"));
            let frame = self.screen.draw(&text, size);
            self.terminal.print(&frame)?;
        } else {
            if self.shown.is_none() {
                for note in &self.notes {
                    self.terminal.say(&self.terminal.style_of_errors().note(note));
                }
            }
            let note = match &self.lost {
                Some(why) if !self.is_loss_told => Some(format!("connection lost, trying again: {why}")),
                None if self.is_loss_told => Some("connected again".to_owned()),
                _ => None,
            };
            self.is_loss_told = self.lost.is_some();
            if let Some(note) = note {
                self.terminal.say(&self.terminal.style_of_errors().note(&note));
            }
            let time = now();
            let time = time.get(..19).unwrap_or_default();
            let mut text = String::new();
            for change in changes(self.shown.as_ref(), &answer) {
                let namespace =
                    if self.scope == Scope::All { format!("{}/", change.namespace) } else { String::new() };
                let change = printable(&format!("{namespace}{} {}", change.pod, change.text));
                let _ = writeln!(text, "{time}Z {change}");
            }
            self.terminal.print(&text)?;
        }
        self.shown = Some(answer);
        Ok(())
    }

    /// What is said when the time is over.
    fn late(&self, after: Duration) -> String {
        let Some(waiting) = self.shown.as_ref().and_then(waiting) else {
            return format!("after {after:?} there is no such workload");
        };
        let text = format!("after {after:?} the rollout is not finished: {}", waiting.text);
        match waiting.pod {
            Some(row) => {
                let command = self.hand.pps(&format!("explain {}", row.pod), &row.namespace);
                format!("{text}\nto see why: {command}")
            }
            None => text,
        }
    }

    fn gone(&mut self, failure: &Failure) -> Result<(), Failure> {
        if self.shown.take().is_some() {
            let text = printable(&failure.to_string()) + "\n";
            let text = if self.terminal.is_terminal() {
                self.screen.draw(&text, self.terminal.size())
            } else {
                text
            };
            self.terminal.print(&text)?;
        }
        Ok(())
    }
}
