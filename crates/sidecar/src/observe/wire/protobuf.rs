//! Kubernetes' protobuf, read like the JSON of the same object: a table names the fields that are
//! used. What is not needed is neither copied nor looked into. A generated reader would refuse an
//! object because of one string that is no UTF-8, which JSON shows with replacements, and would
//! need types and conversions of its own.
//!
//! The numbers of fields are part of the API of Kubernetes: no version changes them.

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::malformed::Malformed;

pub(super) const MAGIC: &[u8] = b"k8s\0";

/// How many items a list may have: each takes hundreds of times its memory for a moment, and
/// whoever creates an object chooses how many there are.
const MAX_ITEMS: usize = 10_000;

/// The fields of a message that are read: the number, the name in JSON, and the type.
pub(super) type Schema = &'static [(u64, &'static str, Kind)];

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A string. An empty one is left out, as in JSON.
    Text,
    Number,
    Flag,
    /// A time, in whole seconds. The zero time, which JSON shows as null, is left out.
    Time,
    Message(Schema),
    Limited(usize, Schema),
    /// The number of bytes of the message that these fields lead to.
    Size(&'static [u64]),
    List(&'static Kind),
    Map,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    /// A string, bytes or a message.
    Bytes(&'a [u8]),
    /// A number of four or eight bytes, which no field that is read has.
    Fixed,
}

/// The fields of a message, one after the other, borrowed from the bytes in which they arrived.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

fn damaged() -> Malformed {
    Malformed("the protobuf is damaged".into())
}

/// Reads the fields that are in this schema, by way of the JSON of the same object. The error shows
/// no value, which may be secret.
pub(super) fn read<'a, T: Deserialize<'a>>(message: &[u8], schema: Schema) -> Result<T, Malformed> {
    T::deserialize(object(message, schema)?).map_err(|_| damaged())
}

fn object(message: &[u8], schema: Schema) -> Result<Json, Malformed> {
    let mut object = Map::new();
    for (number, name, kind) in schema {
        if let Some(value) = field(message, *number, *kind)? {
            object.insert((*name).to_owned(), value);
        }
    }
    Ok(object.into())
}

/// A field of this message, or the list or map that all fields of this number are; `None` if JSON
/// would not show it.
fn field(message: &[u8], number: u64, kind: Kind) -> Result<Option<Json>, Malformed> {
    let Some(last) = Fields(message).find(number)? else {
        return Ok(None);
    };
    let all = Fields(message)
        .flatten()
        .filter(|(found, _)| *found == number)
        .map(|(_, value)| value);
    let is_shown = match kind {
        Kind::List(kind) => {
            let list = all
                .take(MAX_ITEMS + 1)
                .map(|value| json(value, *kind))
                .collect::<Result<Vec<_>, _>>()?;
            return if list.len() > MAX_ITEMS {
                Err(damaged())
            } else {
                Ok(Some(list.into()))
            };
        }
        Kind::Map => {
            let part = |entry: Value<'_>, number| {
                Fields(entry.bytes()?)
                    .find(number)?
                    .unwrap_or(Value::Bytes(&[]))
                    .text()
            };
            let entries = all.map(|entry| Ok((part(entry, 1)?, part(entry, 2)?.into())));
            return entries
                .collect::<Result<Map<_, _>, _>>()
                .map(|map| Some(map.into()));
        }
        Kind::Text => !last.bytes()?.is_empty(),
        Kind::Time => Fields(last.bytes()?).find(1)?.is_some(),
        Kind::Limited(most, _) => last.bytes()?.len() <= most,
        _ => true,
    };
    is_shown.then(|| json(last, kind)).transpose()
}

fn json(value: Value<'_>, kind: Kind) -> Result<Json, Malformed> {
    match (kind, value) {
        (Kind::Text, value) => value.text().map(Json::from),
        // Negative ones have ten bytes.
        (Kind::Number, Value::Number(number)) => Ok(number.cast_signed().into()),
        (Kind::Flag, Value::Number(number)) => Ok((number != 0).into()),
        (Kind::Time, Value::Bytes(time)) => match Fields(time).find(1)? {
            // A time that cannot be shown is a time.
            Some(Value::Number(seconds)) => Ok(Timestamp::from_second(seconds.cast_signed())
                .map_or_else(|_| seconds.to_string(), |time| time.to_string())
                .into()),
            _ => Err(damaged()),
        },
        (Kind::Message(schema) | Kind::Limited(_, schema), Value::Bytes(message)) => {
            object(message, schema)
        }
        (Kind::Size(path), Value::Bytes(mut bytes)) => {
            for number in path {
                bytes = Fields(bytes)
                    .find(*number)?
                    .unwrap_or(Value::Bytes(&[]))
                    .bytes()?;
            }
            Ok(bytes.len().into())
        }
        _ => Err(damaged()),
    }
}

/// What is in the envelope around each answer, and around each object of a watch.
pub(super) fn open(envelope: &[u8]) -> Result<&[u8], Malformed> {
    let fields = envelope.strip_prefix(MAGIC).map(Fields);
    let fields = fields
        .ok_or_else(|| Malformed("it does not begin like protobuf of an API server".into()))?;
    let mut raw = &[][..];
    for field in fields {
        match field? {
            (2, value) => raw = value.bytes()?,
            // It may be encoded once more, or be something else. The API server never does that
            // with what is read here.
            (3 | 4, value) if !value.bytes()?.is_empty() => return Err(damaged()),
            _ => {}
        }
    }
    Ok(raw)
}

impl<'a> Fields<'a> {
    fn read(&mut self) -> Result<(u64, Value<'a>), Malformed> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(damaged()),
        };
        Ok((key >> 3, value))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for (index, byte) in self.0.iter().take(10).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.0 = &self.0[index + 1..];
                return Ok(number);
            }
        }
        Err(damaged())
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let split = usize::try_from(length)
            .ok()
            .and_then(|length| self.0.split_at_checked(length));
        let (taken, rest) = split.ok_or_else(damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The last value of the field with this number.
    pub(super) fn find(self, number: u64) -> Result<Option<Value<'a>>, Malformed> {
        let mut last = None;
        for field in self {
            let (found, value) = field?;
            last = if found == number { Some(value) } else { last };
        }
        Ok(last)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Value<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8], Malformed> {
        if let Self::Bytes(bytes) = self {
            Ok(bytes)
        } else {
            Err(damaged())
        }
    }

    /// A string. Each byte that is no UTF-8 is replaced, as the API server does in JSON.
    fn text(self) -> Result<String, Malformed> {
        let mut text = String::new();
        for chunk in self.bytes()?.utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
        }
        Ok(text)
    }
}

#[cfg(test)]
pub(super) mod tests;
