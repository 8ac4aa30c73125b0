//! Writes a bucket.

use std::collections::{BTreeMap, BTreeSet};

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
        Self {
            pod,
            node: &state.node_name,
            labels: pairs(&state.node_topology_labels),
            annotations: pairs(&state.annotations),
        }
    }
}

fn pairs(map: &BTreeMap<String, String>) -> Pairs<'_> {
    map.iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect()
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

impl<'a> Cell<'a> {
    fn value(self) -> Option<&'a str> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::SameAsNode => None,
        }
    }
}

struct Column<'a> {
    cells: Vec<Cell<'a>>,
    /// Bytes at the beginning of each value that stand in the first line.
    prefix_length: usize,
    /// Bytes at the end of each value that stand in the first line.
    suffix_length: usize,
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
        let values: Vec<&str> = cells.iter().filter_map(|cell| cell.value()).collect();
        let Affixes { prefix, suffix } = Affixes::of(&values);
        let prefix = if is_short(prefix) { prefix } else { "" };
        let suffix = if is_short(suffix) { suffix } else { "" };
        text.push(' ');
        text.push_str(kind);
        if let Some(key) = key {
            escape(key, SPECIAL, text);
            text.push('=');
        }
        escape(prefix, SPECIAL, text);
        if prefix.is_empty() || values.iter().any(|value| value.len() > prefix.len()) {
            text.push('*');
            escape(suffix, SPECIAL, text);
        }
        Self {
            prefix_length: prefix.len(),
            suffix_length: suffix.len(),
            cells,
        }
    }

    fn write(&self, row: usize, text: &mut String) {
        match self.cells[row] {
            Cell::Absent => text.push_str(ABSENT),
            Cell::SameAsNode => text.push_str(SAME_AS_NODE),
            Cell::Value(value) => {
                let end = value.len() - self.suffix_length;
                write_cell(&value[self.prefix_length..end], text);
            }
        }
    }
}

/// What all values begin and end with: all of it if they are equal, else whole words.
struct Affixes<'a> {
    prefix: &'a str,
    suffix: &'a str,
}

impl<'a> Affixes<'a> {
    fn of(values: &[&'a str]) -> Self {
        let Some(first) = values.first() else {
            return Self {
                prefix: "",
                suffix: "",
            };
        };
        if values.iter().all(|value| value == first) {
            return Self {
                prefix: first,
                suffix: "",
            };
        }
        let prefix = words_prefix(first, values);
        let rests: Vec<&str> = values.iter().map(|value| &value[prefix..]).collect();
        let suffix = words_suffix(&first[prefix..], &rests);
        Self {
            prefix: &first[..prefix],
            suffix: &first[first.len() - suffix..],
        }
    }
}

/// The length of the whole words that all values begin with. They end with a separator, which is
/// never inside a character.
fn words_prefix(first: &str, values: &[&str]) -> usize {
    let lengths = values
        .iter()
        .map(|value| equal_bytes(first.bytes(), value.bytes()));
    let common = lengths.min().unwrap_or_default();
    first.as_bytes()[..common]
        .iter()
        .rposition(|byte| is_separator(*byte))
        .map_or(0, |last| last + 1)
}

/// The length of the whole words that all values end with. They begin with a separator.
fn words_suffix(first: &str, values: &[&str]) -> usize {
    let lengths = values
        .iter()
        .map(|value| equal_bytes(first.bytes().rev(), value.bytes().rev()));
    let common = lengths.min().unwrap_or_default();
    first.as_bytes()[first.len() - common..]
        .iter()
        .position(|byte| is_separator(*byte))
        .map_or(0, |start| common - start)
}

fn is_separator(byte: u8) -> bool {
    byte.is_ascii() && !byte.is_ascii_alphanumeric()
}

/// How many bytes are equal from the beginning.
fn equal_bytes(one: impl Iterator<Item = u8>, other: impl Iterator<Item = u8>) -> usize {
    one.zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}
