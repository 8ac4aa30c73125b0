//! The terminal, or the pipe, that the program runs in: its colours, its width, and its user.

use std::io::{self, BufRead, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Effects, Style as Ansi};
use pps_core::on_one_line;

use crate::args::Consent;
use crate::{Failure, Outcome};

/// What a text means, and so how it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Good,
    /// Worth a look.
    Warning,
    /// Wrong.
    Bad,
    /// What counts most.
    Strong,
    Dim,
}

impl Role {
    pub fn ansi(self) -> Ansi {
        match self {
            Self::Good => AnsiColor::Green.on_default(),
            Self::Warning => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
            Self::Strong => Ansi::new().effects(Effects::BOLD),
            Self::Dim => Ansi::new().effects(Effects::DIMMED),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether colours are used.
    pub has_color: bool,
    /// Columns; none if lines may have any length.
    pub width: Option<usize>,
}

impl Style {
    pub const PLAIN: Self = Self {
        has_color: false,
        width: None,
    };

    pub fn paint(&self, role: Role, text: &str) -> String {
        if self.has_color && !text.is_empty() {
            let ansi = role.ansi();
            format!("{ansi}{text}{ansi:#}")
        } else {
            text.to_owned()
        }
    }

    /// A text of any length after a word such as `error:`.
    fn labelled(&self, role: Role, label: &str, text: &str) -> String {
        let lines: Vec<String> = text.lines().map(on_one_line).collect();
        format!("{} {}", self.paint(role, label), lines.join("\n"))
    }
}

const MIN_WIDTH: usize = 60;

/// What follows after the user was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    GoOn,
    /// The command ends so, without a change.
    End(Outcome),
}

/// Where the program's output goes, and where answers come from.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    output: Style,
    errors: Style,
    is_interactive: bool,
}

impl Terminal {
    pub fn of_process() -> Self {
        let stdout = io::stdout().is_terminal();
        let stderr = io::stderr().is_terminal();
        let width = terminal_size::terminal_size()
            .map(|(columns, _)| usize::from(columns.0).max(MIN_WIDTH));
        Self {
            output: Style {
                has_color: AutoStream::choice(&io::stdout()) != ColorChoice::Never,
                width: width.filter(|_| stdout),
            },
            errors: Style {
                has_color: AutoStream::choice(&io::stderr()) != ColorChoice::Never,
                width: width.filter(|_| stderr),
            },
            is_interactive: io::stdin().is_terminal() && stderr,
        }
    }

    pub fn style(&self) -> Style {
        self.output
    }

    /// Writes the answer. Whoever reads it may stop early: `kubectl pps status | head`.
    pub fn print(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        match stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
        {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Unreadable(
                format!("cannot write the output: {error}"),
            )),
            _ => Ok(()),
        }
    }

    /// Writes a line that is not part of the answer: progress, or a note.
    pub fn say(&self, line: &str) {
        // Without a standard error there is no way to report the failure.
        let _ = writeln!(io::stderr(), "{line}");
    }

    /// Writes what the user should know beside the answer.
    pub fn note(&self, text: &str) {
        self.say(&self.errors.labelled(Role::Warning, "note:", text));
    }

    pub fn error(&self, text: &str) {
        self.say(&self.errors.labelled(Role::Bad, "error:", text));
    }

    /// Whether the user, or the command line, agrees to the change. `outcome` is that of a dry run.
    pub fn ask(
        &self,
        question: &str,
        consent: Consent,
        outcome: Outcome,
    ) -> Result<Answer, Failure> {
        if consent.dry_run {
            self.say("dry run: nothing was changed");
            return Ok(Answer::End(outcome));
        }
        if consent.yes {
            return Ok(Answer::GoOn);
        }
        if !self.is_interactive {
            return Err(Failure::Usage(
                "there is no terminal to ask on: add --yes to do it, or --dry-run to see it only; \
                 nothing was changed"
                    .into(),
            ));
        }
        let mut stderr = io::stderr();
        let asked = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
        let mut answer = String::new();
        let read = asked.and_then(|()| io::stdin().lock().read_line(&mut answer));
        if read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
            return Ok(Answer::GoOn);
        }
        self.say("nothing was changed");
        Ok(Answer::End(Outcome::NotWell))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_used_only_where_they_are_wanted_and_end_where_the_text_does() {
        let coloured = Style {
            has_color: true,
            width: None,
        };
        assert_eq!(coloured.paint(Role::Bad, "no"), "\u{1b}[31mno\u{1b}[0m");
        assert_eq!(coloured.paint(Role::Bad, ""), "");
        assert_eq!(Style::PLAIN.paint(Role::Bad, "no"), "no");
    }

    #[test]
    fn a_note_has_no_control_characters_and_is_not_cut() {
        let note = |text: &str| Style::PLAIN.labelled(Role::Warning, "note:", text);
        assert_eq!(note("a\u{1b}[2J\n- b"), "note: a\u{fffd}[2J\n- b");
        let pods: Vec<String> = (0..500).map(|number| format!("shop/db-{number}")).collect();
        assert_eq!(note(&pods.join(", ")).split_whitespace().count(), 501);
    }
}
