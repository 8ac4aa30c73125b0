//! Where the parts of a document are in its text.

use std::collections::BTreeMap;

use serde::Serialize;

/// A place in a text: line and column, both from 1. Columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

impl Default for Place {
    fn default() -> Self {
        Self { line: 1, column: 1 }
    }
}

/// The places of a value and of everything in it.
#[derive(Clone, Debug, Default)]
pub struct Positions {
    /// The place of the value's key, if it has one, else of the value.
    pub(super) start: Place,
    pub(super) children: Children,
}

#[derive(Clone, Debug, Default)]
pub(super) enum Children {
    #[default]
    None,
    Items(Vec<Positions>),
    Fields(BTreeMap<String, Positions>),
}

impl Positions {
    /// Where a field is: `spec.template.spec.containers[0].name`. If there is no such field, where
    /// the innermost value that should have it begins. Keys may have dots in them.
    pub fn find(&self, path: &str) -> Place {
        match &self.children {
            Children::None => self.start,
            Children::Items(items) => {
                let index = path.strip_prefix('[').and_then(|rest| rest.split_once(']'));
                let found = index.and_then(|(index, rest)| {
                    Some((items.get(index.parse::<usize>().ok()?)?, rest))
                });
                found.map_or(self.start, |(item, rest)| item.find(rest))
            }
            Children::Fields(fields) => {
                let path = path.strip_prefix('.').unwrap_or(path);
                // The longest key: `a.b` before `a`.
                let found = fields
                    .iter()
                    .filter_map(|(key, positions)| {
                        Some((key.len(), positions, rest_after(path, key)?))
                    })
                    .max_by_key(|(length, ..)| *length);
                found.map_or(self.start, |(_, positions, rest)| positions.find(rest))
            }
        }
    }
}

/// The rest of a path whose first segment is this key: plain, or in brackets, quoted or not.
fn rest_after<'a>(path: &'a str, key: &str) -> Option<&'a str> {
    if let Some(bracketed) = path.strip_prefix('[') {
        let quote = bracketed.starts_with('"');
        let rest = bracketed
            .strip_prefix('"')
            .unwrap_or(bracketed)
            .strip_prefix(key)?;
        return rest.strip_prefix(if quote { "\"]" } else { "]" });
    }
    let rest = path.strip_prefix(key)?;
    (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
}
