//! Reads a bucket.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::Split;

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

/// The lines of a bucket. Nothing is kept of what is read, so that a bucket takes no more memory than its text,
/// whatever is in it.
struct Table<'a> {
    head: &'a str,
    lines: Split<'a, char>,
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
    Name,
    Label,
    Annotation,
}

struct Row<'a> {
    number: usize,
    columns: Split<'a, char>,
    cells: Split<'a, char>,
}

impl<'a> Table<'a> {
    fn read(text: &'a str) -> Result<Self, String> {
        let mut lines = text.strip_suffix('\n').ok_or("its end is missing")?.split('\n');
        let (count, head) = lines.next().and_then(|line| line.split_once(' ')).unwrap_or_default();
        let mut columns = 0;
        for word in head.split(' ') {
            Column::read(columns, word).ok_or("line 1 cannot be read")?;
            columns += 1;
        }
        if columns < 2 {
            return Err("line 1 cannot be read".into());
        }
        let rows = lines.clone().count();
        if count.parse() != Ok(rows) {
            return Err(format!("{rows} lines follow the first one, which says {count}"));
        }
        Ok(Self { head, lines })
    }

    fn rows(&self) -> impl Iterator<Item = Result<Row<'a>, String>> {
        let head = self.head;
        self.lines.clone().enumerate().map(move |(at, line)| {
            let row = Row { number: at + 2, columns: head.split(' '), cells: line.split(' ') };
            if row.cells.clone().count() == row.columns.clone().count() {
                Ok(row)
            } else {
                Err(row.error("has another number of columns than line 1"))
            }
        })
    }
}

impl<'a> Column<'a> {
    fn read(at: usize, word: &'a str) -> Option<Self> {
        let (kind, rest) = match (at, word.strip_prefix(LABEL)) {
            (0 | 1, _) => (Kind::Name, word),
            (_, Some(rest)) => (Kind::Label, rest),
            (_, None) => (Kind::Annotation, word.strip_prefix(ANNOTATION)?),
        };
        let (key, affixes) = if kind == Kind::Name { ("", rest) } else { rest.split_once('=')? };
        let (prefix, suffix) = affixes.split_once('*').unwrap_or((affixes, ""));
        Some(Self { kind, key: unescape(key)?, prefix: unescape(prefix)?, suffix: unescape(suffix)? })
    }

    fn value(&self, cell: &str) -> Option<String> {
        Some([&*self.prefix, &*read_cell(cell)?, &*self.suffix].concat())
    }
}

impl<'a> Row<'a> {
    fn error(&self, reason: &str) -> String {
        format!("line {} {reason}", self.number)
    }

    /// Each column with the Pod's cell.
    fn cells(&self) -> impl Iterator<Item = (Option<Column<'a>>, &'a str)> {
        let columns = self.columns.clone().enumerate().map(|(at, word)| Column::read(at, word));
        columns.zip(self.cells.clone())
    }

    fn name(&self, at: usize) -> Result<String, String> {
        let name = self.cells().nth(at).and_then(|(column, cell)| column?.value(cell));
        name.ok_or_else(|| self.error("cannot be read"))
    }

    fn pod(&self) -> Result<String, String> {
        self.name(0)
    }

    fn state(&self) -> Result<PodState, String> {
        let mut state = PodState { node_name: self.name(1)?, ..PodState::default() };
        for (column, cell) in self.cells().skip(2).filter(|(_, cell)| *cell != ABSENT) {
            let unreadable = || self.error("cannot be read");
            let column = column.ok_or_else(unreadable)?;
            let is_label = column.kind == Kind::Label;
            let value = match cell {
                SAME_AS_NODE if is_label => Some(state.node_name.clone()),
                _ => column.value(cell),
            };
            let map = if is_label { &mut state.node_topology_labels } else { &mut state.annotations };
            if map.insert(column.key.into_owned(), value.ok_or_else(unreadable)?).is_some() {
                return Err(self.error("has two values of one key"));
            }
        }
        Ok(state)
    }
}
