//! Where the parts of a document are in its text.

use std::collections::BTreeMap;

use serde::Serialize;

/// A place in a text: line and column, both from 1. Columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Default for Place {
    fn default() -> Self {
        Self { line: 1, column: 1 }
    }
}

/// Where a value and everything in it is.
#[derive(Clone, Debug, Default)]
pub struct Positions {
    /// Of the value. If it has a key: of the key, where people look.
    pub(super) start: Place,
    pub(super) children: Children,
}

#[derive(Clone, Debug, Default)]
pub(super) enum Children {
    #[default]
    None,
    /// By index.
    Items(Vec<Positions>),
    /// By key.
    Fields(BTreeMap<String, Positions>),
}

impl Positions {
    /// Where the value begins.
    pub fn start(&self) -> Place {
        self.start
    }

    /// Where a field is: `spec.template.spec.containers[0].name`. If there is no such field, where the innermost value that
    /// should have it begins. Keys may have dots in them.
    pub fn find(&self, path: &str) -> Place {
        match &self.children {
            Children::None => self.start,
            Children::Items(items) => {
                let index = path.strip_prefix('[').and_then(|rest| rest.split_once(']'));
                let found =
                    index.and_then(|(index, rest)| Some((items.get(index.parse::<usize>().ok()?)?, rest)));
                found.map_or(self.start, |(item, rest)| item.find(rest))
            }
            Children::Fields(fields) => {
                let path = path.strip_prefix('.').unwrap_or(path);
                // The longest key: `a.b` before `a`.
                let found = fields
                    .iter()
                    .filter_map(|(key, positions)| Some((key.len(), positions, rest_after(path, key)?)))
                    .max_by_key(|(length, ..)| *length);
                found.map_or(self.start, |(_, positions, rest)| positions.find(rest))
            }
        }
    }
}

/// What remains of a path after its first segment, if that is this key: as it is, or in brackets, quoted or not.
fn rest_after<'a>(path: &'a str, key: &str) -> Option<&'a str> {
    if let Some(bracketed) = path.strip_prefix('[') {
        let quote = bracketed.starts_with('"');
        let rest = bracketed.strip_prefix('"').unwrap_or(bracketed).strip_prefix(key)?;
        return rest.strip_prefix(if quote { "\"]" } else { "]" });
    }
    let rest = path.strip_prefix(key)?;
    (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
}
