//! Makes documents of the parser's events.

use std::collections::BTreeMap;

use granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError, StrInput, Tag, options};
use serde_json::{Map, Value};

use super::positions::{Children, Place, Positions};
use super::resolve::{Scalar, key_text, resolve};
use super::{Document, MAX_DEPTH, YamlError};

pub(super) struct Builder<'a> {
    text: &'a str,
    source: Parser<'a, StrInput<'a>>,
}

/// An event of the parser, and where it begins.
struct Spanned<'a> {
    event: Event<'a>,
    start: Place,
}

impl<'a> Builder<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let options = options! { emit_comments: false };
        Self {
            text,
            source: Parser::new_from_str_with_options(text, options),
        }
    }

    pub(super) fn documents(mut self) -> Result<Vec<Document>, YamlError> {
        let mut documents = Vec::new();
        loop {
            match self.next()?.event {
                Event::StreamEnd => return Ok(documents),
                Event::DocumentStart(..) => {
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
            Some(Ok((event, span))) => Ok(Spanned {
                event,
                start: place(span.start),
            }),
            Some(Err(error)) => Err(self.explain(&error)),
            None => Ok(Spanned {
                event: Event::StreamEnd,
                start: Place::default(),
            }),
        }
    }

    fn value(&mut self, first: Spanned<'a>, depth: usize) -> Result<Document, YamlError> {
        let start = first.start;
        match first.event {
            // A few lines with aliases can stand for gigabytes.
            Event::Alias(_) => Err(wrong(start, "aliases are not read: write the value here")),
            Event::Scalar(text, style, _, tag) => {
                let value = scalar(&text, style, tag.as_deref(), start)?;
                Ok(Document {
                    value,
                    positions: Positions {
                        start,
                        children: Children::None,
                    },
                })
            }
            Event::SequenceStart(..) => self.sequence(start, descend(depth, start)?),
            Event::MappingStart(..) => self.mapping(start, descend(depth, start)?),
            _ => Err(wrong(start, "a value is missing here")),
        }
    }

    fn sequence(&mut self, start: Place, depth: usize) -> Result<Document, YamlError> {
        let mut values = Vec::new();
        let mut items = Vec::new();
        loop {
            let next = self.next()?;
            if next.event == Event::SequenceEnd {
                let positions = Positions {
                    start,
                    children: Children::Items(items),
                };
                return Ok(Document {
                    value: Value::Array(values),
                    positions,
                });
            }
            let item = self.value(next, depth)?;
            values.push(item.value);
            items.push(item.positions);
        }
    }

    fn mapping(&mut self, start: Place, depth: usize) -> Result<Document, YamlError> {
        let mut values = Map::new();
        let mut fields = BTreeMap::new();
        loop {
            let next = self.next()?;
            let key_start = next.start;
            if next.event == Event::MappingEnd {
                let positions = Positions {
                    start,
                    children: Children::Fields(fields),
                };
                return Ok(Document {
                    value: Value::Object(values),
                    positions,
                });
            }
            if matches!(&next.event, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<")
            {
                return Err(wrong(key_start, "<< is not read: write the fields here"));
            }
            let key = self.value(next, depth)?;
            let next = self.next()?;
            let document = self.value(next, depth)?;
            let Some(key) = key_text(key.value) else {
                return Err(wrong(key_start, "a key must be a string: quote it"));
            };
            if values.contains_key(&key) {
                let key = shown(&key);
                let message =
                    format!("the key {key} is there twice in the same object: remove one");
                return Err(wrong(key_start, &message));
            }
            fields.insert(
                key.clone(),
                Positions {
                    start: key_start,
                    ..document.positions
                },
            );
            values.insert(key, document.value);
        }
    }

    /// The parser's error, with a hint at the most frequent cause.
    fn explain(&self, error: &ScanError) -> YamlError {
        let place = place(*error.marker());
        if error.info() == "recursion limit exceeded" {
            return too_deep(place);
        }
        let line = self
            .text
            .split('\n')
            .nth(place.line - 1)
            .unwrap_or_default();
        let has_tab = line.trim_start_matches(' ').starts_with('\t');
        let hint = if has_tab {
            ": indent with spaces, not with tabs"
        } else {
            ""
        };
        // In Kubernetes a node is something else.
        let info = error.info().replace("parsing a node", "parsing a value");
        let info = info
            .replace("parsing node", "parsing a value")
            .replace("node content", "content");
        wrong(place, &format!("this is not valid YAML: {info}{hint}"))
    }
}

fn place(marker: Marker) -> Place {
    Place {
        line: marker.line().max(1),
        column: marker.col() + 1,
    }
}

fn scalar(
    text: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
    start: Place,
) -> Result<Value, YamlError> {
    let tag = tag.map(|tag| tag.core_suffix().unwrap_or("str"));
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

fn too_deep(place: Place) -> YamlError {
    wrong(
        place,
        &format!("this is nested more than {MAX_DEPTH} deep: make it flatter"),
    )
}

fn wrong(place: Place, message: &str) -> YamlError {
    YamlError {
        place,
        message: message.to_owned(),
    }
}

fn shown(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    if short.len() == text.len() {
        format!("{short:?}")
    } else {
        format!("{short:?}…")
    }
}
