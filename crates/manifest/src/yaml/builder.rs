//! Makes documents of the parser's events.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, StrInput, Tag};
use serde_json::{Map, Value};

use super::document::{Document, EXPANSION, MAX_DEPTH, MAX_EXPANDED, NODE_COST, YamlError};
use super::positions::{Children, Place, Positions};
use super::resolve::{Scalar, key_text, resolve};

pub(super) struct Builder<'a> {
    source: Parser<'a, StrInput<'a>>,
    lines: Vec<&'a str>,
    /// The place that was looked for last. A line may have a megabyte: JSON has no others.
    last: Cell<Cursor>,
    /// What has an anchor, and what it costs to repeat it.
    anchors: HashMap<usize, (Document, usize)>,
    expanded: usize,
    max_expanded: usize,
}

type Spanned<'a> = (Event<'a>, Place);

/// A place in a line, in all units.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    line: usize,
    characters: usize,
    bytes: usize,
    units: usize,
}

impl<'a> Builder<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            source: Parser::new_from_str(text),
            lines: text.split('\n').collect(),
            last: Cell::default(),
            anchors: HashMap::new(),
            expanded: 0,
            // A large file may say much, but not by aliases.
            max_expanded: MAX_EXPANDED.max(text.len().saturating_mul(EXPANSION)),
        }
    }

    pub(super) fn next(&mut self) -> Result<Spanned<'a>, YamlError> {
        match self.source.next_event() {
            Some(Ok((event, span))) => Ok((event, self.place(span.start))),
            Some(Err(error)) => Err(self.explain(&error)),
            None => Ok((Event::StreamEnd, Place::START)),
        }
    }

    /// Reads the document that begins with this event.
    pub(super) fn document(&mut self, first: Spanned<'a>) -> Result<Document, YamlError> {
        self.anchors.clear();
        self.value(first, MAX_DEPTH)
    }

    fn value(&mut self, (event, start): Spanned<'a>, depth: usize) -> Result<Document, YamlError> {
        let before = self.expanded;
        let (anchor, document) = match event {
            Event::Alias(anchor) => return self.repeat(anchor, start),
            Event::Scalar(text, style, anchor, tag) => {
                self.spend(text.len(), start)?;
                (
                    anchor,
                    Document { value: scalar(&text, style, tag.as_deref(), start)?, positions: leaf(start) },
                )
            }
            Event::SequenceStart(anchor, _) => (anchor, self.sequence(start, descend(depth, start)?)?),
            Event::MappingStart(anchor, _) => (anchor, self.mapping(start, descend(depth, start)?)?),
            _ => return Err(wrong(start, "a value is missing here")),
        };
        if anchor > 0 {
            let cost = self.expanded - before;
            self.spend(cost, start)?;
            self.anchors.insert(anchor, (document.clone(), cost));
        }
        Ok(document)
    }

    fn sequence(&mut self, start: Place, depth: usize) -> Result<Document, YamlError> {
        self.spend(0, start)?;
        let (mut values, mut items) = (Vec::new(), Vec::new());
        loop {
            let next = self.next()?;
            if next.0 == Event::SequenceEnd {
                let positions = Positions { start, children: Children::Items(items) };
                return Ok(Document { value: Value::Array(values), positions });
            }
            let item = self.value(next, depth)?;
            values.push(item.value);
            items.push(item.positions);
        }
    }

    fn mapping(&mut self, start: Place, depth: usize) -> Result<Document, YamlError> {
        self.spend(0, start)?;
        let (mut values, mut fields) = (Map::new(), BTreeMap::new());
        let mut given = HashSet::new();
        loop {
            let (event, key_start) = self.next()?;
            if event == Event::MappingEnd {
                let positions = Positions { start, children: Children::Fields(fields) };
                return Ok(Document { value: Value::Object(values), positions });
            }
            let is_merge = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<");
            let key = self.value((event, key_start), depth)?;
            let next = self.next()?;
            let document = self.value(next, depth)?;
            if is_merge {
                merge(document, key_start, &mut values, &mut fields)?;
                continue;
            }
            let Some(key) = key_text(key.value) else {
                return Err(wrong(key_start, "a key must be a string: quote it"));
            };
            if !given.insert(key.clone()) {
                let message =
                    format!("the key {} is there twice in the same object: remove one", shown(&key));
                return Err(wrong(key_start, &message));
            }
            fields.insert(key.clone(), Positions { start: key_start, ..document.positions });
            values.insert(key, document.value);
        }
    }

    fn repeat(&mut self, anchor: usize, start: Place) -> Result<Document, YamlError> {
        let Some((document, cost)) = self.anchors.get(&anchor) else {
            return Err(wrong(
                start,
                "this alias is part of what it stands for, or of another document: write the value here",
            ));
        };
        let (document, cost) = (document.clone(), *cost);
        self.spend(cost, start)?;
        // What is wrong with it is at its anchor, where it can be changed.
        Ok(document)
    }

    /// Counts a value. A few lines with aliases can stand for gigabytes.
    fn spend(&mut self, bytes: usize, place: Place) -> Result<(), YamlError> {
        self.expanded += bytes + NODE_COST;
        if self.expanded > self.max_expanded {
            return Err(wrong(place, "there is too much up to here, aliases included: remove some of it"));
        }
        Ok(())
    }

    fn place(&self, marker: Marker) -> Place {
        let line = marker.line().max(1);
        let last = self.last.get();
        let Cursor { mut characters, mut bytes, mut units, .. } =
            if last.line == line && last.characters <= marker.col() { last } else { Cursor::default() };
        let rest = self.lines.get(line - 1).and_then(|text| text.get(bytes..)).unwrap_or_default();
        for character in rest.chars().take(marker.col() - characters) {
            (characters, bytes, units) =
                (characters + 1, bytes + character.len_utf8(), units + character.len_utf16());
        }
        self.last.set(Cursor { line, characters, bytes, units });
        Place { line, column: units + 1 }
    }

    /// The parser's error, with a hint for what most often causes it.
    fn explain(&self, error: &ScanError) -> YamlError {
        let place = self.place(*error.marker());
        if error.info() == "recursion limit exceeded" {
            return too_deep(place);
        }
        let line = self.lines.get(place.line - 1).copied().unwrap_or_default();
        let hint = if line.trim_start_matches(' ').starts_with('\t') {
            ": indent with spaces, not with tabs"
        } else {
            ""
        };
        wrong(place, &format!("this is not valid YAML: {}{hint}", error.info()))
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>, start: Place) -> Result<Value, YamlError> {
    let tag = tag.map(|tag| if tag.is_yaml_core_schema() { tag.suffix.as_str() } else { "str" });
    let tag = tag.or((style != ScalarStyle::Plain).then_some("str"));
    match resolve(text, tag) {
        Scalar::Value(value) => Ok(value),
        Scalar::NotJson => Err(wrong(
            start,
            &format!("{} is no number that JSON can hold: quote it or change it", shown(text)),
        )),
        Scalar::NotOfTag => {
            Err(wrong(start, &format!("{} does not fit its tag: remove the tag", shown(text))))
        }
    }
}

fn descend(depth: usize, place: Place) -> Result<usize, YamlError> {
    depth.checked_sub(1).ok_or_else(|| too_deep(place))
}

/// `<<` replaces what is above it, and what is below it replaces that: so does the reader of Kubernetes. Of a list, the first counts.
fn merge(
    document: Document,
    place: Place,
    values: &mut Map<String, Value>,
    fields: &mut BTreeMap<String, Positions>,
) -> Result<(), YamlError> {
    match (document.value, document.positions.children) {
        (Value::Object(mut map), Children::Fields(mut positions)) => {
            values.append(&mut map);
            fields.append(&mut positions);
            Ok(())
        }
        (Value::Array(list), Children::Items(positions)) if list.iter().all(Value::is_object) => {
            let documents = list.into_iter().zip(positions).rev();
            documents
                .map(|(value, positions)| Document { value, positions })
                .try_for_each(|document| merge(document, place, values, fields))
        }
        _ => Err(wrong(place, "<< needs an object, or a list of objects")),
    }
}

fn too_deep(place: Place) -> YamlError {
    wrong(place, &format!("this is nested more than {MAX_DEPTH} deep: make it flatter"))
}

fn leaf(start: Place) -> Positions {
    Positions { start, children: Children::None }
}

fn wrong(place: Place, message: &str) -> YamlError {
    YamlError { place, message: message.to_owned() }
}

/// A text of the user in a message.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    if short.len() == text.len() { format!("{short:?}") } else { format!("{short:?}…") }
}
