//! Reads a bucket.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::Split;

use super::bucket::Bucket;
use super::damaged::Damaged;
use super::text::{ABSENT, ANNOTATION, LABEL, SAME_AS_NODE, is_short, read_cell, unescape};

use crate::limits::MAX_UNPACKED_LENGTH;
use crate::pps::PodState;

/// The state of one Pod in the text of its bucket.
pub fn find(bucket: Bucket, text: &str, pod: &str) -> Result<Option<PodState>, Damaged> {
    find_row(text, pod).map_err(|reason| Damaged::at(bucket, reason))
}

fn find_row(text: &str, pod: &str) -> Result<Option<PodState>, String> {
    let mut found = None;
    for row in Table::read(text)?.rows() {
        let row = row?;
        if row.is_of(pod)? && found.replace(row.state()?).is_some() {
            return Err(row.error("repeats a Pod"));
        }
    }
    Ok(found)
}

/// All states in the text of a bucket.
pub fn read_bucket(bucket: Bucket, text: &str) -> Result<BTreeMap<String, PodState>, Damaged> {
    let mut states = BTreeMap::new();
    read_states(bucket, text, &mut 0, |pod, state| {
        states.insert(pod, state).is_none()
    })?;
    Ok(states)
}

/// Reads the states in the text of a bucket one at a time, so that they are never in memory
/// together, unless `take` keeps them. It returns whether it had no state of the Pod before.
/// `length` is that of the states that were read from the other buckets of the object; those of
/// this one are added.
pub fn read_states(
    bucket: Bucket,
    text: &str,
    length: &mut usize,
    take: impl FnMut(String, PodState) -> bool,
) -> Result<(), Damaged> {
    read_rows(bucket, text, length, take).map_err(|reason| Damaged::at(bucket, reason))
}

fn read_rows(
    bucket: Bucket,
    text: &str,
    length: &mut usize,
    mut take: impl FnMut(String, PodState) -> bool,
) -> Result<(), String> {
    for row in Table::read(text)?.rows() {
        let row = row?;
        let pod = row.name(0)?;
        if Bucket::of(&pod) != bucket {
            return Err(row.error("has a Pod that belongs into another bucket"));
        }
        let state = row.state()?;
        *length += pod.len() + length_of(&state);
        if *length > MAX_UNPACKED_LENGTH {
            return Err(format!(
                "the object's states have more than {MAX_UNPACKED_LENGTH} bytes"
            ));
        }
        if !take(pod, state) {
            return Err(row.error("repeats a Pod"));
        }
    }
    Ok(())
}

fn length_of(state: &PodState) -> usize {
    let maps = [&state.node_topology_labels, &state.annotations];
    let pairs: usize = maps
        .into_iter()
        .flatten()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    state.node_name.len() + pairs
}

/// A bucket whose first line has been read, once for all lines: it may be as long as all of them.
/// The other lines are read one at a time.
struct Table<'a> {
    columns: Vec<Column<'a>>,
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

struct Row<'t, 'a> {
    number: usize,
    columns: &'t [Column<'a>],
    cells: Split<'a, char>,
}

impl<'a> Table<'a> {
    fn read(text: &'a str) -> Result<Self, String> {
        let mut lines = text
            .strip_suffix('\n')
            .ok_or("its end is missing")?
            .split('\n');
        let (count, head) = lines
            .next()
            .and_then(|line| line.split_once(' '))
            .unwrap_or_default();
        let columns: Option<Vec<Column<'_>>> = head
            .split(' ')
            .enumerate()
            .map(|(at, word)| Column::read(at, word))
            .collect();
        let columns = columns
            .filter(|columns| columns.len() >= 2)
            .ok_or("line 1 cannot be read")?;
        let rows = lines.clone().count();
        // What is there is not repeated: it may be no number, and secret.
        let count: usize = count
            .parse()
            .map_err(|_| "line 1 does not begin with a number")?;
        if count != rows {
            return Err(format!(
                "{rows} lines follow the first one, which says {count}"
            ));
        }
        Ok(Self { columns, lines })
    }

    fn rows(&self) -> impl Iterator<Item = Result<Row<'_, 'a>, String>> {
        self.lines.clone().enumerate().map(|(at, line)| {
            let row = Row {
                number: at + 2,
                columns: &self.columns,
                cells: line.split(' '),
            };
            if row.cells.clone().count() == row.columns.len() {
                Ok(row)
            } else {
                Err(row.error("has another number of columns than line 1"))
            }
        })
    }
}

impl<'a> Column<'a> {
    fn read(at: usize, word: &'a str) -> Option<Self> {
        if at < 2 {
            return Self::of(Kind::Name, "", word);
        }
        if let Some(label) = word.strip_prefix(LABEL) {
            let (key, affixes) = label.split_once('=')?;
            return Self::of(Kind::Label, key, affixes);
        }
        let (key, affixes) = word.strip_prefix(ANNOTATION)?.split_once('=')?;
        Self::of(Kind::Annotation, key, affixes)
    }

    fn of(kind: Kind, key: &'a str, affixes: &'a str) -> Option<Self> {
        let (prefix, suffix) = affixes.split_once('*').unwrap_or((affixes, ""));
        Some(Self {
            kind,
            key: unescape(key)?,
            prefix: read_affix(prefix)?,
            suffix: read_affix(suffix)?,
        })
    }

    fn value(&self, cell: &str) -> Option<String> {
        Some([&*self.prefix, &*read_cell(cell)?, &*self.suffix].concat())
    }

    /// Whether a cell has this value. Unlike [`Self::value`] it does not copy what all cells begin
    /// and end with.
    fn has_value(&self, cell: &str, value: &str) -> Option<bool> {
        let cell = read_cell(cell)?;
        let rest = value
            .strip_prefix(&*self.prefix)
            .and_then(|rest| rest.strip_suffix(&*self.suffix));
        Some(rest == Some(&*cell))
    }
}

fn read_affix(word: &str) -> Option<Cow<'_, str>> {
    unescape(word).filter(|affix| is_short(affix))
}

impl<'t, 'a> Row<'t, 'a> {
    fn error(&self, reason: &str) -> String {
        format!("line {} {reason}", self.number)
    }

    /// Each column with the Pod's cell.
    fn cells(&self) -> impl Iterator<Item = (&'t Column<'a>, &'a str)> {
        self.columns.iter().zip(self.cells.clone())
    }

    /// Reads the name of the Pod or the node.
    fn name(&self, at: usize) -> Result<String, String> {
        let name = self
            .cells()
            .nth(at)
            .and_then(|(column, cell)| column.value(cell));
        name.ok_or_else(|| self.error("cannot be read"))
    }

    fn is_of(&self, pod: &str) -> Result<bool, String> {
        let is_same = self
            .cells()
            .next()
            .and_then(|(column, cell)| column.has_value(cell, pod));
        is_same.ok_or_else(|| self.error("cannot be read"))
    }

    fn state(&self) -> Result<PodState, String> {
        let mut state = PodState {
            node_name: self.name(1)?,
            ..PodState::default()
        };
        for (column, cell) in self.cells().skip(2).filter(|(_, cell)| *cell != ABSENT) {
            let is_label = column.kind == Kind::Label;
            let value = match cell {
                SAME_AS_NODE if is_label && is_short(&state.node_name) => {
                    Some(state.node_name.clone())
                }
                _ => column.value(cell),
            };
            let value = value.ok_or_else(|| self.error("cannot be read"))?;
            let map = if is_label {
                &mut state.node_topology_labels
            } else {
                &mut state.annotations
            };
            if map.insert(column.key.to_string(), value).is_some() {
                return Err(self.error("has two values of one key"));
            }
        }
        Ok(state)
    }
}
