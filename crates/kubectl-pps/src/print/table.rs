//! Tables as kubectl prints them.

use comfy_table::{Cell, CellAlignment, ContentArrangement, presets};

use super::{Role, Style, printable};

/// A table without lines, with a header in capitals.
#[derive(Clone, Debug)]
pub struct Table {
    style: Style,
    inner: comfy_table::Table,
}

impl Table {
    /// An empty table.
    pub fn new(style: Style, header: &[&str]) -> Self {
        let mut inner = comfy_table::Table::new();
        inner.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        match style.width {
            // The last column has padding, which is removed.
            Some(width) => {
                inner.set_width(u16::try_from(width.max(40)).unwrap_or(u16::MAX).saturating_add(2))
            }
            None => inner.set_content_arrangement(ContentArrangement::Disabled),
        };
        inner.set_header(header.iter().map(|title| Cell::new(title).set_alignment(CellAlignment::Left)));
        for column in inner.column_iter_mut() {
            column.set_padding((0, 2));
        }
        Self { style, inner }
    }

    /// Adds a row. A text that is empty is shown as `-`.
    pub fn row(&mut self, cells: &[(&str, Option<Role>)]) {
        let cell = |(text, role): &(&str, Option<Role>)| {
            let text = if text.is_empty() { "-".to_owned() } else { printable(text) };
            Cell::new(match role {
                Some(role) => self.style.paint(*role, &text),
                None => text,
            })
        };
        let cells: Vec<Cell> = cells.iter().map(cell).collect();
        self.inner.add_row(cells);
    }

    /// Its lines, each with its end.
    pub fn render(&self) -> String {
        self.inner.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_texts() {
        let mut table = Table::new(Style::PLAIN, &["POD", "NODE"]);
        table.row(&[("db-0", None), ("node-1", Some(Role::Good))]);
        table.row(&[("a-long-name-0", None), ("", None)]);
        assert_eq!(table.render(), "POD            NODE\ndb-0           node-1\na-long-name-0  -\n");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_text_is_lost() {
        for has_color in [false, true] {
            let mut table = Table::new(Style { has_color, width: Some(60) }, &["POD", "ADVICE"]);
            let advice = "free capacity or bring the node back, or move the Pod to another node with move";
            table.row(&[("db-0", Some(Role::Bad)), (advice, Some(Role::Warning))]);
            table.row(&[(&"x".repeat(90), None), ("short", None)]);
            let text = table.render();
            for line in text.lines() {
                let visible =
                    line.replace("\u{1b}[31m", "").replace("\u{1b}[33m", "").replace("\u{1b}[0m", "");
                assert!(visible.chars().count() <= 60, "{line:?}");
            }
            for word in advice.split(' ') {
                assert!(text.contains(word), "{word}: {text}");
            }
        }
    }
}
