//! Writes a bucket.

use std::collections::BTreeSet;

use super::text::{ABSENT, ANNOTATION, LABEL, SAME_AS_NODE, SPECIAL, escape, is_short, write_cell};
use crate::pps::PodState;

/// Pairs of key and value, sorted by key, without repeats.
type Pairs<'a> = Vec<(&'a str, &'a str)>;

/// The state of one Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row<'a> {
    /// Name of the Pod.
    pub pod: &'a str,
    /// Name of the node.
    pub node: &'a str,
    /// The node's values of the topology keys, sorted by key, without repeats.
    pub labels: Pairs<'a>,
    /// The Pod's annotations, sorted by key, without repeats.
    pub annotations: Pairs<'a>,
}

impl<'a> Row<'a> {
    /// The row of a state.
    pub fn of(pod: &'a str, state: &'a PodState) -> Self {
        let [labels, annotations] = [&state.node_topology_labels, &state.annotations].map(|map| {
            map.iter()
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect()
        });
        Self {
            pod,
            node: &state.node_name,
            labels,
            annotations,
        }
    }
}

/// The text of a bucket with these states. The same states in another order give the same text.
///
/// ```
/// use pps_core::packed::{Row, write_bucket};
///
/// let row = |pod, node, zone| Row { pod, node, labels: vec![("zone", zone)], annotations: vec![] };
/// let rows = [row("web-10", "node-7", "eu-1a"), row("web-2", "node-31", "eu-1a")];
/// assert_eq!(write_bucket(&rows), "2 web-* node-* label:zone=eu-1a\n2 31 %\n10 7 %\n");
/// ```
pub fn write_bucket(rows: &[Row<'_>]) -> String {
    let mut rows: Vec<&Row<'_>> = rows.iter().collect();
    // So that 2 comes before 10.
    rows.sort_unstable_by_key(|row| (row.pod.len(), row.pod));
    let mut text = rows.len().to_string();
    let mut columns = vec![
        Column::new(
            "",
            None,
            rows.iter().map(|row| Cell::Value(row.pod)),
            &mut text,
        ),
        Column::new(
            "",
            None,
            rows.iter().map(|row| Cell::Value(row.node)),
            &mut text,
        ),
    ];
    for key in keys(rows.iter().map(|row| &row.labels)) {
        let cells = rows.iter().map(|row| match value(&row.labels, key) {
            Some(value) if value == row.node && is_short(value) => Cell::SameAsNode,
            cell => cell.map_or(Cell::Absent, Cell::Value),
        });
        columns.push(Column::new(LABEL, Some(key), cells, &mut text));
    }
    for key in keys(rows.iter().map(|row| &row.annotations)) {
        let cells = rows
            .iter()
            .map(|row| value(&row.annotations, key).map_or(Cell::Absent, Cell::Value));
        columns.push(Column::new(ANNOTATION, Some(key), cells, &mut text));
    }
    for row in 0..rows.len() {
        let mut separator = '\n';
        for column in &columns {
            text.push(separator);
            column.write(row, &mut text);
            separator = ' ';
        }
    }
    text.push('\n');
    text
}

fn keys<'a>(rows: impl Iterator<Item = &'a Pairs<'a>>) -> BTreeSet<&'a str> {
    rows.flatten().map(|(key, _)| *key).collect()
}

fn value<'a>(pairs: &Pairs<'a>, key: &str) -> Option<&'a str> {
    let at = pairs.binary_search_by_key(&key, |(key, _)| key).ok()?;
    Some(pairs[at].1)
}

#[derive(Clone, Copy)]
enum Cell<'a> {
    Absent,
    SameAsNode,
    Value(&'a str),
}

struct Column<'a> {
    cells: Vec<Cell<'a>>,
    /// Bytes at the beginning and at the end of each value that stand in the first line.
    common: (usize, usize),
}

impl<'a> Column<'a> {
    /// A column. The first line says what its values have in common.
    fn new(
        kind: &str,
        key: Option<&str>,
        cells: impl Iterator<Item = Cell<'a>>,
        text: &mut String,
    ) -> Self {
        let cells: Vec<Cell<'a>> = cells.collect();
        let values = || {
            cells.iter().filter_map(|cell| match cell {
                Cell::Value(value) => Some(*value),
                Cell::Absent | Cell::SameAsNode => None,
            })
        };
        let [prefix, suffix] = <[&str; 2]>::from(affixes(values))
            .map(|affix| if is_short(affix) { affix } else { "" });
        text.push(' ');
        text.push_str(kind);
        if let Some(key) = key {
            escape(key, SPECIAL, text);
            text.push('=');
        }
        escape(prefix, SPECIAL, text);
        if values().any(|value| value.len() > prefix.len()) || prefix.is_empty() {
            text.push('*');
            escape(suffix, SPECIAL, text);
        }
        let common = (prefix.len(), suffix.len());
        Self { cells, common }
    }

    fn write(&self, row: usize, text: &mut String) {
        match self.cells[row] {
            Cell::Absent => text.push_str(ABSENT),
            Cell::SameAsNode => text.push_str(SAME_AS_NODE),
            Cell::Value(value) => {
                write_cell(&value[self.common.0..value.len() - self.common.1], text);
            }
        }
    }
}

/// What all values begin and end with: all of it if they are equal, else whole words.
fn affixes<'a, I: Iterator<Item = &'a str>>(values: impl Fn() -> I) -> (&'a str, &'a str) {
    let Some(first) = values().next() else {
        return ("", "");
    };
    if values().all(|value| value == first) {
        return (first, "");
    }
    let bytes = first.as_bytes();
    let length = |value: &str| {
        bytes
            .iter()
            .zip(value.as_bytes())
            .take_while(|(one, other)| one == other)
            .count()
    };
    let prefix = values().map(length).min().unwrap_or_default();
    let is_separator = |byte: u8| byte.is_ascii() && !byte.is_ascii_alphanumeric();
    // Cut after a separator, which is never inside a character.
    let prefix = bytes[..prefix]
        .iter()
        .rposition(|byte| is_separator(*byte))
        .map_or(0, |last| last + 1);
    let length = |value: &str| {
        let rest = bytes[prefix..]
            .iter()
            .rev()
            .zip(value.as_bytes()[prefix..].iter().rev());
        rest.take_while(|(one, other)| one == other).count()
    };
    let suffix = values().map(length).min().unwrap_or_default();
    let end = &bytes[bytes.len() - suffix..];
    let suffix = end
        .iter()
        .position(|byte| is_separator(*byte))
        .map_or(0, |start| suffix - start);
    (&first[..prefix], &first[first.len() - suffix..])
}
