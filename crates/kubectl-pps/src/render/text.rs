//! Sentences, commands and tables in the width of the terminal.

use std::fmt::{self, Write as _};

use comfy_table::{Attribute, CellAlignment, Color, ContentArrangement, presets};
use pps_recorder::facts::NamespacedName;

use super::{Role, Style, printable, wrap};
use crate::decide::placement::Landing;
use crate::snapshot::Namespaces;

/// The width of a line where the terminal does not say how wide it is.
const WIDTH: usize = 100;
const ALL: usize = 6;
const SOME: usize = 3;

/// `node-1`, `node-1 and node-2`, `node-1, node-2, node-3 and 7 others`.
pub fn list(names: &[String], conjunction: &str) -> String {
    match names {
        [] => String::new(),
        [name] => name.clone(),
        [rest @ .., last] if names.len() <= ALL => {
            format!("{} {conjunction} {last}", rest.join(", "))
        }
        _ => format!(
            "{} {conjunction} {} others",
            names[..SOME].join(", "),
            names.len() - SOME
        ),
    }
}

/// `1 Pod`, `2 Pods`.
pub fn count(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

#[derive(Clone, Debug)]
pub(super) struct Text {
    style: Style,
    width: usize,
    lines: String,
}

impl Text {
    pub(super) fn new(style: Style) -> Self {
        Self {
            style,
            width: style.width.unwrap_or(WIDTH),
            lines: String::new(),
        }
    }

    pub(super) fn into_lines(self) -> String {
        self.lines
    }

    pub(super) fn push(&mut self, lines: &str) {
        self.lines.push_str(lines);
    }

    /// A sentence. Its further lines are indented by the width of `begin`.
    pub(super) fn sentence(&mut self, begin: &str, role: Option<Role>, sentence: &str) {
        self.add(begin, begin, role, sentence);
    }

    pub(super) fn marked(&mut self, role: Role, word: &str, sentence: &str) {
        self.add(
            &format!("{word} "),
            &(self.style.paint(role, word) + " "),
            None,
            sentence,
        );
    }

    fn add(&mut self, begin: &str, painted: &str, role: Option<Role>, sentence: &str) {
        let indent = begin.chars().count();
        let room = self.width.saturating_sub(indent).max(20);
        for (index, line) in wrap(&printable(sentence), room).iter().enumerate() {
            let begin = if index == 0 {
                painted.to_owned()
            } else {
                " ".repeat(indent)
            };
            let line = role.map_or_else(|| line.clone(), |role| self.style.paint(role, line));
            let _ = writeln!(self.lines, "{begin}{line}");
        }
    }

    /// A sentence with the next command. The command is never broken, so that it can be copied.
    pub(super) fn command(&mut self, begin: &str, sentence: &str, command: &str) {
        let sentence = printable(sentence);
        let command = printable(command);
        let painted = self.style.paint(Role::Strong, &command);
        let indent = begin.chars().count();
        if indent + sentence.chars().count() + command.chars().count() + 2 <= self.width {
            let _ = writeln!(self.lines, "{begin}{sentence}: {painted}");
            return;
        }
        self.sentence(begin, None, &format!("{sentence}:"));
        let _ = writeln!(self.lines, "{}  {painted}", " ".repeat(indent));
    }

    /// The first line of an answer.
    pub(super) fn heading(&mut self, heading: &str) {
        self.push(&(self.style.paint(Role::Strong, &printable(heading)) + "\n"));
    }

    pub(super) fn title(&mut self, title: &str) {
        let _ = writeln!(self.lines, "\n{}", self.style.paint(Role::Strong, title));
    }

    /// A line of a list of values: `  from      node-1`.
    pub(super) fn value(&mut self, name: &str, value: &str) {
        self.sentence(&format!("  {name:<10}"), None, value);
    }
}

/// `not moved: db-0, db-1`: names all Pods, since nothing else names them. None without Pods.
pub(super) fn with_pods(
    text: &str,
    pods: &[NamespacedName],
    namespaces: &Namespaces,
) -> Option<String> {
    let names: Vec<String> = pods
        .iter()
        .map(|pod| match namespaces {
            Namespaces::All => pod.to_string(),
            Namespaces::One(_) => pod.name.to_string(),
        })
        .collect();
    (!names.is_empty()).then(|| format!("{text}: {}", names.join(", ")))
}

/// A text of a table, and how it is shown. A text that is empty is shown as `-`.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    role: Option<Role>,
}

impl Cell {
    pub fn plain(text: impl Into<String>) -> Self {
        Self::new(text, None)
    }

    pub fn new(text: impl Into<String>, role: impl Into<Option<Role>>) -> Self {
        Self {
            text: text.into(),
            role: role.into(),
        }
    }

    fn shown(&self) -> comfy_table::Cell {
        let cell = if self.text.is_empty() {
            comfy_table::Cell::new("-")
        } else {
            comfy_table::Cell::new(printable(&self.text))
        };
        match self.role {
            Some(Role::Good) => cell.fg(Color::DarkGreen),
            Some(Role::Warning) => cell.fg(Color::DarkYellow),
            Some(Role::Bad) => cell.fg(Color::DarkRed),
            Some(Role::Strong) => cell.add_attribute(Attribute::Bold),
            Some(Role::Dim) => cell.add_attribute(Attribute::Dim),
            None => cell,
        }
    }
}

/// A table without lines, with a header in capitals.
#[derive(Clone, Debug)]
pub struct Table(comfy_table::Table);

impl Table {
    pub fn new(style: Style, header: &[&str]) -> Self {
        let mut inner = comfy_table::Table::new();
        inner
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .force_no_tty();
        if style.has_color {
            inner.enforce_styling().style_text_only();
        }
        match style.width {
            // The last column has padding, which is removed.
            Some(width) => inner.set_width(
                u16::try_from(width.max(40))
                    .unwrap_or(u16::MAX)
                    .saturating_add(2),
            ),
            None => inner.set_content_arrangement(ContentArrangement::Disabled),
        };
        inner.set_header(
            header
                .iter()
                .map(|title| comfy_table::Cell::new(title).set_alignment(CellAlignment::Left)),
        );
        for column in inner.column_iter_mut() {
            column.set_padding((0, 2));
        }
        Self(inner)
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<_> = cells.into_iter().map(|cell| cell.shown()).collect();
        self.0.add_row(cells);
    }

    pub fn render(&self) -> String {
        self.0
            .lines()
            .map(|line| line.trim_end().to_owned() + "\n")
            .collect()
    }
}

impl Landing {
    /// `would probably start on node-2; node-0 and node-1 could take it too`: the words after "it",
    /// with this verb.
    pub fn would(&self, verb: &str) -> String {
        match self.only() {
            _ if self.is_nowhere() => "would be Pending: no node could take it".to_owned(),
            Some(node) => format!("would {verb} {node}, the only node that could take it"),
            None => format!("would probably {verb} {}", self.best_and_rest()),
        }
    }

    fn best_and_rest(&self) -> String {
        let best = list(self.favourites(), "or");
        if self.others().is_empty() {
            best
        } else {
            format!("{best}; {} could take it too", list(self.others(), "and"))
        }
    }
}

/// After a word such as "start": `probably on node-2; node-0 and node-1 could take it too`.
impl fmt::Display for Landing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.only() {
            _ if self.is_nowhere() => f.write_str("nowhere: no node could take it"),
            Some(node) => write!(f, "on {node}, the only node that could take it"),
            None => write!(f, "probably on {}", self.best_and_rest()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_six_names_are_all_named_and_more_are_counted() {
        let names: Vec<String> = (0..9).map(|number| format!("n{number}")).collect();
        assert_eq!(list(&names[..0], "and"), "");
        assert_eq!(list(&names[..1], "and"), "n0");
        assert_eq!(list(&names[..2], "or"), "n0 or n1");
        assert_eq!(list(&names[..6], "and"), "n0, n1, n2, n3, n4 and n5");
        assert_eq!(list(&names, "and"), "n0, n1, n2 and 6 others");
    }

    #[test]
    fn columns_are_as_wide_as_their_texts() {
        let mut table = Table::new(Style::PLAIN, &["POD", "NODE"]);
        table.row([Cell::plain("db-0"), Cell::new("node-1", Role::Good)]);
        table.row([Cell::plain("a-long-name-0"), Cell::plain("")]);
        assert_eq!(
            table.render(),
            "POD            NODE\ndb-0           node-1\na-long-name-0  -\n"
        );
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_text_is_lost() {
        for has_color in [false, true] {
            let mut table = Table::new(
                Style {
                    has_color,
                    width: Some(60),
                },
                &["POD", "ADVICE"],
            );
            let advice =
                "free capacity or bring the node back, or move the Pod to another node with move";
            table.row([
                Cell::new("db-0", Role::Bad),
                Cell::new(advice, Role::Warning),
            ]);
            table.row([Cell::plain("x".repeat(90)), Cell::plain("short")]);
            let text = table.render();
            for line in text.lines() {
                let visible = line
                    .replace("\u{1b}[38;5;1m", "")
                    .replace("\u{1b}[38;5;3m", "")
                    .replace("\u{1b}[39m", "");
                assert!(visible.chars().count() <= 60, "{line:?}");
            }
            for word in advice.split(' ') {
                assert!(text.contains(word), "{word}: {text}");
            }
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let style = Style {
            has_color: false,
            width: Some(60),
        };
        let becomes = "ip=10.0.0.7, without a node (PersistentPodState db); its node is recorded \
                       again once it is Ready";
        let mut text = Text::new(style);
        text.heading("Move Pod db-0");
        text.value("from", "node-1");
        text.value("becomes", becomes);
        assert_eq!(
            text.into_lines(),
            "Move Pod db-0\n  from      node-1\n  becomes   ip=10.0.0.7, without a node \
             (PersistentPodState\n            db); its node is recorded again once it is Ready\n"
        );
    }

    #[test]
    fn nodes_are_named_up_to_six_and_counted_beyond() {
        let names = |nodes: &[&str]| -> Vec<String> {
            nodes.iter().map(|node| (*node).to_owned()).collect()
        };
        let would = |best: &[&str], others: &[&str]| {
            Landing::new(names(best), names(others)).would("start on")
        };
        assert_eq!(
            would(&["a"], &["b", "c"]),
            "would probably start on a; b and c could take it too"
        );
        assert_eq!(would(&["a", "b"], &[]), "would probably start on a or b");
        assert_eq!(
            would(&["a"], &["a"]),
            "would start on a, the only node that could take it"
        );
        assert_eq!(
            Landing::default().would("start on"),
            "would be Pending: no node could take it"
        );
        let many: Vec<String> = (0..1000).map(|number| format!("n{number}")).collect();
        let tied = Landing::new(many.clone(), Vec::new()).to_string();
        assert_eq!(tied, "probably on n0, n1, n2 or 997 others");
        let others = Landing::new(vec!["x".into()], many[..7].to_vec()).to_string();
        assert_eq!(
            others,
            "probably on x; n0, n1, n2 and 4 others could take it too"
        );
    }
}
