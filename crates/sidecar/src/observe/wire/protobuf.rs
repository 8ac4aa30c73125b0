//! Kubernetes' protobuf, read by serde like the JSON of the same object: a table names the fields that are
//! used. What is not needed is neither copied nor looked into. A generated reader would refuse an object
//! because of one string that is no UTF-8, which JSON shows with replacements, and would need types and
//! conversions of its own.
//!
//! The numbers of fields are part of the API of Kubernetes: no version changes them.

use std::borrow::Cow;
use std::fmt::Display;
use std::slice::Iter;

use serde::Deserialize;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::object::Malformed;

pub(super) const MAGIC: &[u8] = b"k8s\0";

/// The fields of a message that are read: the number, the name in JSON, and the type.
pub(super) type Schema = &'static [(u64, &'static str, Kind)];

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A string. An empty one is left out, as in JSON.
    Text,
    Number,
    Flag,
    /// A time, as Unix seconds. The zero time, which JSON shows as null, is left out.
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
pub(super) struct Fields<'a>(&'a [u8]);

/// A field of a known type; the fields of one number, if it is a list or a map.
struct Field<'a> {
    kind: Kind,
    value: Value<'a>,
    /// The number of a list or map, and then the value is the message around it.
    repeated: u64,
}

struct Object<'a> {
    message: &'a [u8],
    schema: Iter<'static, (u64, &'static str, Kind)>,
    value: Option<Field<'a>>,
}

struct Repeated<'a> {
    kind: Kind,
    number: u64,
    fields: Fields<'a>,
    value: Option<Field<'a>>,
}

fn damaged() -> Malformed {
    Malformed("the protobuf is damaged".into())
}

impl Error for Malformed {
    /// The message may have a value in it, which may be secret.
    fn custom<T: Display>(_: T) -> Self {
        damaged()
    }
}

pub(super) fn read<'a, T: Deserialize<'a>>(message: &'a [u8], schema: Schema) -> Result<T, Malformed> {
    T::deserialize(Field { kind: Kind::Message(schema), value: Value::Bytes(message), repeated: 0 })
}

/// What is in the envelope around each answer, and around each object of a watch.
pub(super) fn open(envelope: &[u8]) -> Result<&[u8], Malformed> {
    let fields = envelope.strip_prefix(MAGIC).map(Fields);
    let fields =
        fields.ok_or_else(|| Malformed("it does not begin like protobuf of an API server".into()))?;
    let mut raw = &[][..];
    for field in fields {
        match field? {
            (2, value) => raw = value.bytes()?,
            // It may be encoded once more, or be something else. The API server never does that with what is
            // read here.
            (3 | 4, value) if !value.bytes()?.is_empty() => return Err(damaged()),
            _ => {}
        }
    }
    Ok(raw)
}

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

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
        let split = usize::try_from(length).ok().and_then(|length| self.0.split_at_checked(length));
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
        if let Self::Bytes(bytes) = self { Ok(bytes) } else { Err(damaged()) }
    }

    /// A string. Each byte that is no UTF-8 is replaced, as the API server does in JSON.
    fn text(self) -> Result<Cow<'a, str>, Malformed> {
        let bytes = self.bytes()?;
        if let Ok(text) = str::from_utf8(bytes) {
            return Ok(text.into());
        }
        let mut text = String::new();
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
        }
        Ok(text.into())
    }
}

impl<'a> Field<'a> {
    /// A field of this message; `None` if JSON would not show it.
    fn find(message: &'a [u8], number: u64, kind: Kind) -> Result<Option<Self>, Malformed> {
        let Some(value) = Fields(message).find(number)? else { return Ok(None) };
        if matches!(kind, Kind::List(_) | Kind::Map) {
            return Ok(Some(Self { kind, value: Value::Bytes(message), repeated: number }));
        }
        let is_shown = match kind {
            Kind::Text => !value.bytes()?.is_empty(),
            Kind::Time => Fields(value.bytes()?).find(1)?.is_some(),
            Kind::Limited(most, _) => value.bytes()?.len() <= most,
            _ => true,
        };
        Ok(is_shown.then_some(Self { kind, value, repeated: 0 }))
    }
}

impl<'de> Deserializer<'de> for Field<'de> {
    type Error = Malformed;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        let repeated =
            |kind, message| Repeated { kind, number: self.repeated, fields: Fields(message), value: None };
        match (self.kind, self.value) {
            (Kind::Text, value) => match value.text()? {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            // Negative ones have ten bytes.
            (Kind::Number, Value::Number(number)) => visitor.visit_i64(number.cast_signed()),
            (Kind::Flag, Value::Number(number)) => visitor.visit_bool(number != 0),
            (Kind::Time, Value::Bytes(time)) => match Fields(time).find(1)? {
                Some(Value::Number(seconds)) => visitor.visit_i64(seconds.cast_signed()),
                _ => Err(damaged()),
            },
            (Kind::Message(schema) | Kind::Limited(_, schema), Value::Bytes(message)) => {
                visitor.visit_map(Object { message, schema: schema.iter(), value: None })
            }
            (Kind::Size(path), Value::Bytes(mut bytes)) => {
                for number in path {
                    bytes = Fields(bytes).find(*number)?.unwrap_or(Value::Bytes(&[])).bytes()?;
                }
                visitor.visit_u64(bytes.len() as u64)
            }
            (Kind::List(kind), Value::Bytes(message)) => visitor.visit_seq(repeated(*kind, message)),
            (Kind::Map, Value::Bytes(message)) => visitor.visit_map(repeated(Kind::Text, message)),
            _ => Err(damaged()),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        visitor.visit_some(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Malformed> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq
        tuple tuple_struct map struct enum identifier
    }
}

impl<'de> MapAccess<'de> for Object<'de> {
    type Error = Malformed;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Malformed> {
        for (number, name, kind) in self.schema.by_ref() {
            self.value = Field::find(self.message, *number, *kind)?;
            if self.value.is_some() {
                let name: StrDeserializer<'static, Malformed> = name.into_deserializer();
                return seed.deserialize(name).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Malformed> {
        seed.deserialize(self.value.take().ok_or_else(damaged)?)
    }
}

impl<'a> Repeated<'a> {
    fn next(&mut self) -> Result<Option<Value<'a>>, Malformed> {
        for field in self.fields.by_ref() {
            if let (number, value) = field?
                && number == self.number
            {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

impl<'de> SeqAccess<'de> for Repeated<'de> {
    type Error = Malformed;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Malformed> {
        let element = self.next()?.map(|value| Field { kind: self.kind, value, repeated: 0 });
        element.map(|element| seed.deserialize(element)).transpose()
    }
}

impl<'de> MapAccess<'de> for Repeated<'de> {
    type Error = Malformed;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Malformed> {
        let Some(entry) = self.next()? else { return Ok(None) };
        let part = |number| -> Result<Field<'de>, Malformed> {
            let value = Fields(entry.bytes()?).find(number)?.unwrap_or(Value::Bytes(&[]));
            Ok(Field { kind: self.kind, value, repeated: 0 })
        };
        self.value = Some(part(2)?);
        seed.deserialize(part(1)?).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Malformed> {
        seed.deserialize(self.value.take().ok_or_else(damaged)?)
    }
}

#[cfg(test)]
pub(super) mod tests;
