//! The terminal, or the pipe, that the program runs in.

use std::io::{self, BufRead, IsTerminal, Write};

use super::{Style, size};
use crate::Failure;
use crate::args::{ColorChoice, Consent};

/// The narrowest terminal for which tables are made.
const MIN_WIDTH: usize = 60;

/// Where the program's output goes, and where answers come from.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    output: Style,
    errors: Style,
    is_interactive: bool,
}

impl Terminal {
    /// That of this process.
    pub fn of_process(color: ColorChoice) -> Self {
        let (stdout, stderr) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let has_color = |is_terminal| match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
                let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
                is_terminal && !is_set("NO_COLOR") && !is_dumb
            }
        };
        let width = size::columns().map(|columns| columns.max(MIN_WIDTH));
        Self {
            output: Style { has_color: has_color(stdout), width: width.filter(|_| stdout) },
            errors: Style { has_color: has_color(stderr), width: width.filter(|_| stderr) },
            is_interactive: io::stdin().is_terminal() && stderr,
        }
    }

    /// The style of the output.
    pub fn style(&self) -> Style {
        self.output
    }

    /// The style of messages.
    pub fn style_of_errors(&self) -> Style {
        self.errors
    }

    /// Writes the answer. Whoever reads it may stop early: `kubectl pps status | head`.
    ///
    /// # Errors
    ///
    /// If it cannot be written: the disk is full.
    pub fn print(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::Unreadable(format!("cannot write the output: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// Writes a line that is not part of the answer: progress, or a note.
    pub fn say(&self, line: &str) {
        // Nobody is left to be told.
        let _ = writeln!(io::stderr(), "{line}");
    }

    /// Asks, unless the command line has answered already. False: the user says no.
    ///
    /// # Errors
    ///
    /// If there is nobody to ask.
    pub fn ask(&self, question: &str, consent: Consent) -> Result<bool, Failure> {
        if consent.yes {
            return Ok(true);
        }
        if !self.is_interactive {
            return Err(Failure::Usage(
                "there is no terminal to ask on: add --yes to do it, or --dry-run to see it only; nothing was changed"
                    .into(),
            ));
        }
        let mut stderr = io::stderr();
        let asked = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
        let mut answer = String::new();
        let read = asked.and_then(|()| io::stdin().lock().read_line(&mut answer));
        Ok(read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }
}
