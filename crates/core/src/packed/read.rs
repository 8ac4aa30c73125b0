//! Reads a bucket.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::text::{ABSENT, ANNOTATION, LABEL, SAME_AS_NODE, read_cell, unescape};
use super::{Bucket, Damaged};
use crate::pps::PodState;

/// The state of one Pod in the text of its bucket.
///
/// # Errors
///
/// If the text is damaged anywhere but in a value of another Pod.
pub fn find(bucket: Bucket, text: &str, pod: &str) -> Result<Option<PodState>, Damaged> {
    let damaged = |reason| Damaged::at(bucket, reason);
    let table = Table::read(text).map_err(damaged)?;
    let mut found = None;
    for row in table.rows() {
        let row = row.map_err(damaged)?;
        if row.pod().map_err(damaged)? == pod && found.replace(row.state().map_err(damaged)?).is_some() {
            return Err(damaged(row.error("repeats a Pod")));
        }
    }
    Ok(found)
}

/// All states in the text of a bucket.
///
/// # Errors
///
/// If the text is damaged, or has a Pod that belongs into another bucket.
pub fn read_bucket(bucket: Bucket, text: &str) -> Result<BTreeMap<String, PodState>, Damaged> {
    let damaged = |reason| Damaged::at(bucket, reason);
    let table = Table::read(text).map_err(damaged)?;
    let mut states = BTreeMap::new();
    for row in table.rows() {
        let row = row.map_err(damaged)?;
        let pod = row.pod().map_err(damaged)?;
        if Bucket::of(&pod) != bucket {
            return Err(damaged(row.error("has a Pod that belongs into another bucket")));
        }
        if states.insert(pod, row.state().map_err(damaged)?).is_some() {
            return Err(damaged(row.error("repeats a Pod")));
        }
    }
    Ok(states)
}

/// A bucket whose first line has been read.
struct Table<'a> {
    columns: Vec<Column<'a>>,
    rows: Vec<&'a str>,
}

/// What the first line says of a column.
struct Column<'a> {
    kind: Kind,
    key: Cow<'a, str>,
    prefix: Cow<'a, str>,
    suffix: Cow<'a, str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pod,
    Node,
    Label,
    Annotation,
}

struct Row<'t, 'a> {
    columns: &'t [Column<'a>],
    line: usize,
    cells: Vec<&'a str>,
}

impl<'a> Table<'a> {
    fn read(text: &'a str) -> Result<Self, String> {
        let mut rows: Vec<&str> = text.strip_suffix('\n').ok_or("its end is missing")?.split('\n').collect();
        let mut words = rows.remove(0).split(' ');
        let count = words.next().unwrap_or_default();
        let columns: Option<Vec<Column<'_>>> =
            words.enumerate().map(|(at, word)| Column::read(at, word)).collect();
        let columns = columns.filter(|columns| columns.len() >= 2).ok_or("line 1 cannot be read")?;
        if count.parse() != Ok(rows.len()) {
            return Err(format!("{} lines follow the first one, which says {count}", rows.len()));
        }
        Ok(Self { columns, rows })
    }

    fn rows(&self) -> impl Iterator<Item = Result<Row<'_, 'a>, String>> {
        self.rows.iter().enumerate().map(|(at, line)| {
            let row = Row { columns: &self.columns, line: at + 2, cells: line.split(' ').collect() };
            if row.cells.len() == row.columns.len() {
                Ok(row)
            } else {
                Err(row.error("has another number of columns than line 1"))
            }
        })
    }
}

impl<'a> Column<'a> {
    fn read(at: usize, word: &'a str) -> Option<Self> {
        let (kind, rest) = match at {
            0 => (Kind::Pod, word),
            1 => (Kind::Node, word),
            _ => match word.strip_prefix(LABEL) {
                Some(rest) => (Kind::Label, rest),
                None => (Kind::Annotation, word.strip_prefix(ANNOTATION)?),
            },
        };
        let (key, affixes) = if at < 2 { ("", rest) } else { rest.split_once('=')? };
        let (prefix, suffix) = affixes.split_once('*').unwrap_or((affixes, ""));
        Some(Self { kind, key: unescape(key)?, prefix: unescape(prefix)?, suffix: unescape(suffix)? })
    }

    fn value(&self, cell: &str) -> Option<String> {
        Some([&*self.prefix, &*read_cell(cell)?, &*self.suffix].concat())
    }
}

impl Row<'_, '_> {
    fn error(&self, reason: &str) -> String {
        format!("line {} {reason}", self.line)
    }

    fn value(&self, at: usize) -> Result<String, String> {
        self.columns[at].value(self.cells[at]).ok_or_else(|| self.error("cannot be read"))
    }

    fn pod(&self) -> Result<String, String> {
        self.value(0)
    }

    fn state(&self) -> Result<PodState, String> {
        let mut state = PodState { node_name: self.value(1)?, ..PodState::default() };
        for (at, column) in self.columns.iter().enumerate().skip(2) {
            let map = match column.kind {
                Kind::Label => &mut state.node_topology_labels,
                _ => &mut state.annotations,
            };
            let value = match self.cells[at] {
                ABSENT => continue,
                SAME_AS_NODE if column.kind == Kind::Label => state.node_name.clone(),
                _ => self.value(at)?,
            };
            if map.insert(column.key.to_string(), value).is_some() {
                return Err(self.error("has two values of one key"));
            }
        }
        Ok(state)
    }
}
