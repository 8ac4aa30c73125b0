//! Sentences and commands in the width of the terminal.

use std::fmt::Write as _;

use super::{Role, Style, printable, wrap};

/// The width of a line where the terminal does not say how wide it is.
const WIDTH: usize = 100;

/// Lines that are put together.
#[derive(Clone, Debug)]
pub(super) struct Text {
    style: Style,
    width: usize,
    lines: String,
}

impl Text {
    pub(super) fn new(style: Style) -> Self {
        Self { style, width: style.width.unwrap_or(WIDTH), lines: String::new() }
    }

    pub(super) fn into_lines(self) -> String {
        self.lines
    }

    /// Lines that are made already.
    pub(super) fn push(&mut self, lines: &str) {
        self.lines.push_str(lines);
    }

    /// A sentence. Its lines but the first one are indented below what it begins with.
    pub(super) fn sentence(&mut self, begin: &str, role: Option<Role>, sentence: &str) {
        let indent = begin.chars().count();
        let room = self.width.saturating_sub(indent).max(20);
        for (index, line) in wrap(&printable(sentence), room).iter().enumerate() {
            let begin = if index == 0 { begin.to_owned() } else { " ".repeat(indent) };
            let line = role.map_or_else(|| line.clone(), |role| self.style.paint(role, line));
            let _ = writeln!(self.lines, "{begin}{line}");
        }
    }

    /// A sentence after a word with a colour.
    pub(super) fn marked(&mut self, role: Role, word: &str, sentence: &str) {
        let indent = word.chars().count() + 1;
        let room = self.width.saturating_sub(indent).max(20);
        for (index, line) in wrap(&printable(sentence), room).iter().enumerate() {
            let begin = if index == 0 { self.style.paint(role, word) + " " } else { " ".repeat(indent) };
            let _ = writeln!(self.lines, "{begin}{line}");
        }
    }

    /// A sentence with the next command, which is never broken: it may be copied.
    pub(super) fn command(&mut self, begin: &str, sentence: &str, command: &str) {
        let (sentence, command) = (printable(sentence), printable(command));
        let painted = self.style.paint(Role::Strong, &command);
        let indent = begin.chars().count();
        if indent + sentence.chars().count() + command.chars().count() + 2 <= self.width {
            let _ = writeln!(self.lines, "{begin}{sentence}: {painted}");
            return;
        }
        self.sentence(begin, None, &format!("{sentence}:"));
        let _ = writeln!(self.lines, "{}  {painted}", " ".repeat(indent));
    }

    /// A title.
    pub(super) fn title(&mut self, title: &str) {
        let _ = writeln!(self.lines, "\n{}", self.style.paint(Role::Strong, title));
    }
}
