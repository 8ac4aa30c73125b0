//! Makes documents of the parser's events.

use std::collections::{BTreeMap, HashMap, HashSet};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, StrInput, Tag};
use serde_json::{Map, Value};

use super::positions::{Children, Place, Positions};
use super::resolve::{Scalar, key_text, resolve};
use super::{Document, MAX_DEPTH, YamlError};

/// What all documents may hold after aliases have been replaced, in bytes of text and `NODE_COST` for each value.
const MAX_EXPANDED: usize = 8 << 20;
const NODE_COST: usize = 16;
/// The same for a large text, for each of its bytes.
const EXPANSION: usize = 4;

pub(super) struct Builder<'a> {
    text: &'a str,
    source: Parser<'a, StrInput<'a>>,
    /// What has an anchor, and what it costs to repeat it.
    anchors: HashMap<usize, (Document, usize)>,
    expanded: usize,
}

type Spanned<'a> = (Event<'a>, Place);

impl<'a> Builder<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, source: Parser::new_from_str(text), anchors: HashMap::new(), expanded: 0 }
    }

    pub(super) fn documents(mut self) -> Result<Vec<Document>, YamlError> {
        let mut documents = Vec::new();
        loop {
            match self.next()?.0 {
                Event::StreamEnd => return Ok(documents),
                Event::DocumentStart(_) => {
                    self.anchors.clear();
                    let first = self.next()?;
                    let document = self.value(first, MAX_DEPTH)?;
                    if !document.value.is_null() {
                        documents.push(document);
                    }
                }
                _ => {}
            }
        }
    }

    fn next(&mut self) -> Result<Spanned<'a>, YamlError> {
        match self.source.next_event() {
            Some(Ok((event, span))) => Ok((event, place(span.start))),
            Some(Err(error)) => Err(self.explain(&error)),
            None => Ok((Event::StreamEnd, Place::default())),
        }
    }

    fn value(&mut self, (event, start): Spanned<'a>, depth: usize) -> Result<Document, YamlError> {
        let before = self.expanded;
        let (anchor, document) = match event {
            Event::Alias(anchor) => return self.repeat(anchor, start),
            Event::Scalar(text, style, anchor, tag) => {
                self.spend(text.len(), start)?;
                let value = scalar(&text, style, tag.as_deref(), start)?;
                (anchor, Document { value, positions: Positions { start, children: Children::None } })
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
                let key = shown(&key);
                let message = format!("the key {key} is there twice in the same object: remove one");
                return Err(wrong(key_start, &message));
            }
            fields.insert(key.clone(), Positions { start: key_start, ..document.positions });
            values.insert(key, document.value);
        }
    }

    /// The value of an alias. Its positions are those at its anchor, where it can be changed.
    fn repeat(&mut self, anchor: usize, start: Place) -> Result<Document, YamlError> {
        let Some((document, cost)) = self.anchors.get(&anchor).cloned() else {
            let message =
                "this alias is part of what it stands for, or of another document: write the value here";
            return Err(wrong(start, message));
        };
        self.spend(cost, start)?;
        Ok(document)
    }

    /// Counts a value. A few lines with aliases can stand for gigabytes; a large file may say much, but not by aliases.
    fn spend(&mut self, bytes: usize, place: Place) -> Result<(), YamlError> {
        self.expanded += bytes + NODE_COST;
        if self.expanded > MAX_EXPANDED.max(self.text.len().saturating_mul(EXPANSION)) {
            return Err(wrong(place, "there is too much up to here, aliases included: remove some of it"));
        }
        Ok(())
    }

    /// The parser's error, with a hint for what most often causes it.
    fn explain(&self, error: &ScanError) -> YamlError {
        let place = place(*error.marker());
        if error.info() == "recursion limit exceeded" {
            return too_deep(place);
        }
        let line = self.text.split('\n').nth(place.line - 1).unwrap_or_default();
        let has_tab = line.trim_start_matches(' ').starts_with('\t');
        let hint = if has_tab { ": indent with spaces, not with tabs" } else { "" };
        wrong(place, &format!("this is not valid YAML: {}{hint}", error.info()))
    }
}

fn place(marker: Marker) -> Place {
    Place { line: marker.line().max(1), column: marker.col() + 1 }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>, start: Place) -> Result<Value, YamlError> {
    let tag = tag.map(|tag| if tag.is_yaml_core_schema() { tag.suffix.as_str() } else { "str" });
    let tag = tag.or((style != ScalarStyle::Plain).then_some("str"));
    let why = match resolve(text, tag) {
        Scalar::Value(value) => return Ok(value),
        Scalar::NotJson => "is no number that JSON can hold: quote it or change it",
        Scalar::NotOfTag => "does not fit its tag: remove the tag",
    };
    Err(wrong(start, &format!("{} {why}", shown(text))))
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

fn wrong(place: Place, message: &str) -> YamlError {
    YamlError { place, message: message.to_owned() }
}

/// A text of the user in a message.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    if short.len() == text.len() { format!("{short:?}") } else { format!("{short:?}…") }
}
