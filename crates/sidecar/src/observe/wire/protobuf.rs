//! Protobuf on the wire: the fields of a message, one after the other, borrowed from the bytes in which they arrived.
//! What is not needed is neither copied nor looked into. A generated reader would refuse an object because of one string
//! that is no UTF-8, which JSON shows with replacements, and keep a place for each element of a list before it can be
//! known how many there are.
//!
//! The numbers of fields are part of the API of Kubernetes: no version changes them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::metadata::some_time;
use super::object::{Malformed, Read};

/// The first bytes of an envelope.
pub(super) const MAGIC: &[u8] = b"k8s\0";

/// The bytes are no message, or not the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged;

/// The fields of a message.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a>(&'a [u8]);

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    /// A string, bytes or a message.
    Bytes(&'a [u8]),
    /// A number of four or eight bytes, which no field that is read has.
    Fixed,
}

impl From<Damaged> for Malformed {
    fn from(_: Damaged) -> Self {
        Self("the protobuf is damaged".into())
    }
}

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn read(&mut self) -> Result<(u64, Value<'a>), Damaged> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(usize::try_from(length).map_err(|_| Damaged)?)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(Damaged),
        };
        Ok((key >> 3, value))
    }

    fn varint(&mut self) -> Result<u64, Damaged> {
        let mut number = 0;
        for (index, byte) in self.0.iter().take(10).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.0 = &self.0[index + 1..];
                return Ok(number);
            }
        }
        Err(Damaged)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Damaged)?;
        self.0 = rest;
        Ok(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Damaged>;

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
    pub(super) fn number(self) -> Result<u64, Damaged> {
        if let Self::Number(number) = self { Ok(number) } else { Err(Damaged) }
    }

    /// An `int32` or `int64`. Negative ones have ten bytes.
    pub(super) fn signed(self) -> Result<i64, Damaged> {
        Ok(self.number()?.cast_signed())
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], Damaged> {
        if let Self::Bytes(bytes) = self { Ok(bytes) } else { Err(Damaged) }
    }

    /// A string. Each byte that is no UTF-8 is replaced, as the API server does in JSON.
    pub(super) fn text(self) -> Result<String, Damaged> {
        let mut text = String::new();
        for chunk in self.bytes()?.utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
        }
        Ok(text)
    }

    /// A string, or nothing if it is empty, which JSON leaves out.
    pub(super) fn some_text(self) -> Result<Option<String>, Damaged> {
        self.text().map(|text| Some(text).filter(|text| !text.is_empty()))
    }

    pub(super) fn fields(self) -> Result<Fields<'a>, Damaged> {
        self.bytes().map(Fields)
    }

    /// A time in Unix seconds; nothing for the zero time, which JSON shows as null.
    pub(super) fn seconds(self) -> Result<Option<i64>, Damaged> {
        let mut seconds = None;
        for field in self.fields()? {
            if let (1, value) = field? {
                seconds = Some(value.signed()?);
            }
        }
        Ok(seconds)
    }
}

/// What is in the envelope around each answer, and around each object of a watch.
pub(super) fn open(envelope: &[u8]) -> Result<&[u8], Malformed> {
    let fields = envelope.strip_prefix(MAGIC).map(Fields);
    let fields =
        fields.ok_or_else(|| Malformed("it does not begin like protobuf of an API server".into()))?;
    Ok(raw(fields)?)
}

fn raw(envelope: Fields<'_>) -> Result<&[u8], Damaged> {
    let mut raw = &[][..];
    for field in envelope {
        match field? {
            (2, value) => raw = value.bytes()?,
            // It may be encoded once more, or be something else. The API server never does that with what is read here.
            (3 | 4, value) if !value.bytes()?.is_empty() => return Err(Damaged),
            _ => {}
        }
    }
    Ok(raw)
}

/// Reads as much of an object as possible: its metadata if the rest cannot be read.
pub(super) fn read<'a, O>(
    message: &'a [u8],
    whole: impl FnOnce(&'a [u8]) -> Result<O, Damaged>,
) -> Result<Read<O>, Malformed> {
    match whole(message) {
        Ok(object) => Ok(Read::Whole(object)),
        Err(damaged) => {
            let metadata = metadata_of(message);
            let metadata = metadata.map_err(|_| Malformed("metadata: the protobuf is damaged".into()))?;
            Ok(Read::Metadata(Box::new(metadata), Malformed::from(damaged).0))
        }
    }
}

/// The metadata of an object, whatever follows it. It is the first field of every object.
fn metadata_of(message: &[u8]) -> Result<ObjectMeta, Damaged> {
    for field in Fields(message) {
        if let (1, value) = field? {
            let fields = value.fields()?;
            return metadata(fields.clone()).or_else(|_| identity(fields));
        }
    }
    Err(Damaged)
}

/// What identifies an object whose other metadata is damaged.
fn identity(fields: Fields<'_>) -> Result<ObjectMeta, Damaged> {
    let mut metadata = ObjectMeta::default();
    for field in fields {
        match field? {
            (1, value) => metadata.name = value.some_text()?,
            (3, value) => metadata.namespace = value.some_text()?,
            (5, value) => metadata.uid = value.some_text()?,
            (6, value) => metadata.resource_version = value.some_text()?,
            (9, _) => metadata.deletion_timestamp = Some(some_time()),
            _ => {}
        }
    }
    Ok(metadata)
}

/// The metadata that is used here, without labels.
pub(super) fn metadata(fields: Fields<'_>) -> Result<ObjectMeta, Damaged> {
    let mut metadata = ObjectMeta::default();
    let (mut annotations, mut owners) = (BTreeMap::new(), Vec::new());
    for field in fields {
        match field? {
            (1, value) => metadata.name = value.some_text()?,
            (3, value) => metadata.namespace = value.some_text()?,
            (5, value) => metadata.uid = value.some_text()?,
            (6, value) => metadata.resource_version = value.some_text()?,
            (7, value) => metadata.generation = Some(value.signed()?),
            (9, value) => metadata.deletion_timestamp = value.seconds()?.map(|_| some_time()),
            (12, value) => annotations.extend([entry(value.fields()?)?]),
            (13, value) => owners.push(owner(value.fields()?)?),
            _ => {}
        }
    }
    metadata.annotations = Some(annotations).filter(|annotations| !annotations.is_empty());
    metadata.owner_references = Some(owners).filter(|owners| !owners.is_empty());
    Ok(metadata)
}

/// The labels in the metadata of an object.
pub(super) fn labels(fields: Fields<'_>) -> Result<BTreeMap<String, String>, Damaged> {
    let mut labels = BTreeMap::new();
    for field in fields {
        if let (11, value) = field? {
            labels.extend([entry(value.fields()?)?]);
        }
    }
    Ok(labels)
}

/// An entry of a map from strings to strings.
fn entry(fields: Fields<'_>) -> Result<(String, String), Damaged> {
    let mut entry = (String::new(), String::new());
    for field in fields {
        match field? {
            (1, value) => entry.0 = value.text()?,
            (2, value) => entry.1 = value.text()?,
            _ => {}
        }
    }
    Ok(entry)
}

fn owner(fields: Fields<'_>) -> Result<OwnerReference, Damaged> {
    let mut owner = OwnerReference::default();
    for field in fields {
        match field? {
            (1, value) => owner.kind = value.text()?,
            (3, value) => owner.name = value.text()?,
            (4, value) => owner.uid = value.text()?,
            (5, value) => owner.api_version = value.text()?,
            (6, value) => owner.controller = Some(value.number()? != 0),
            _ => {}
        }
    }
    Ok(owner)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A message with these fields.
    pub(crate) fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, value) in fields {
            varint(u64::from(*number) << 3 | 2, &mut bytes);
            varint(value.len() as u64, &mut bytes);
            bytes.extend_from_slice(value);
        }
        bytes
    }

    /// A field that is a number.
    pub(crate) fn number(field: u8, value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        varint(u64::from(field) << 3, &mut bytes);
        varint(value, &mut bytes);
        bytes
    }

    /// The envelope around an object.
    pub(crate) fn envelope(message_: &[u8]) -> Vec<u8> {
        let type_meta = message(&[(1, b"v1"), (2, b"Pod")]);
        [MAGIC, &message(&[(1, &type_meta), (2, message_), (3, b""), (4, b"")])].concat()
    }

    fn varint(mut value: u64, bytes: &mut Vec<u8>) {
        while value > 0x7f {
            bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
            value >>= 7;
        }
        bytes.push(u8::try_from(value).unwrap());
    }

    #[test]
    fn reads_each_type_of_field_and_refuses_what_is_cut_short() {
        let mut bytes = message(&[(16, b"text")]);
        bytes.extend(number(2, u64::MAX));
        bytes.extend([3 << 3 | 1, 1, 2, 3, 4, 5, 6, 7, 8, 4 << 3 | 5, 1, 2, 3, 4]);
        let fields: Result<Vec<_>, _> = Fields::of(&bytes).collect();
        let expected =
            [(16, Value::Bytes(b"text")), (2, Value::Number(u64::MAX)), (3, Value::Fixed), (4, Value::Fixed)];
        assert_eq!(fields.unwrap(), expected);
        assert_eq!(Value::Number(u64::MAX).signed(), Ok(-1));
        let whole = [0, 7, 18, 27].into_iter().chain([bytes.len()]).collect::<Vec<_>>();
        for length in 0..=bytes.len() {
            let is_whole = Fields::of(&bytes[..length]).all(|field| field.is_ok());
            assert_eq!(is_whole, whole.contains(&length), "{length}");
        }
        for damaged in [
            &[0xff; 11][..],
            &[1 << 3 | 3],
            &[1 << 3 | 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            assert!(Fields::of(damaged).any(|field| field.is_err()), "{damaged:?}");
        }
    }

    #[test]
    fn reads_the_metadata_that_is_used() {
        let owner = [message(&[(1, b"StatefulSet"), (3, b"w"), (4, b"u"), (5, b"apps/v1")]), number(6, 1)];
        let mut bytes = message(&[
            (1, b"w-0"),
            (2, b"w-"),
            (3, b"n"),
            (4, b""),
            (5, b"uid"),
            (6, b"7"),
            (8, &[]),
            (9, &number(1, 5)),
            (11, &message(&[(1, b"zone"), (2, b"a")])),
            (12, &message(&[(1, b"ip"), (2, b"10.0.\xf0\x9f\xc0")])),
            (13, &owner.concat()),
            (17, b"managed fields are not looked into"),
        ]);
        bytes.extend(number(7, 3));
        let metadata = metadata(Fields::of(&bytes)).unwrap();
        assert_eq!(metadata.name.as_deref(), Some("w-0"));
        assert_eq!(metadata.namespace.as_deref(), Some("n"));
        assert_eq!((metadata.uid.as_deref(), metadata.resource_version.as_deref()), (Some("uid"), Some("7")));
        assert_eq!((metadata.generation, metadata.deletion_timestamp.is_some()), (Some(3), true));
        assert_eq!(
            metadata.annotations.unwrap()["ip"],
            "10.0.\u{fffd}\u{fffd}\u{fffd}",
            "as the API server shows it in JSON"
        );
        let owner = &metadata.owner_references.unwrap()[0];
        assert_eq!((owner.kind.as_str(), owner.api_version.as_str()), ("StatefulSet", "apps/v1"));
        assert_eq!((owner.name.as_str(), owner.uid.as_str(), owner.controller), ("w", "u", Some(true)));
        assert_eq!(
            labels(Fields::of(&bytes)).unwrap(),
            BTreeMap::from([("zone".to_owned(), "a".to_owned())])
        );
    }

    #[test]
    fn the_zero_time_is_no_time_and_the_epoch_is_one() {
        assert_eq!(Value::Bytes(&[]).seconds(), Ok(None));
        let epoch = [number(1, 0), number(2, 0)].concat();
        assert_eq!(Value::Bytes(&epoch).seconds(), Ok(Some(0)));
    }

    #[test]
    fn opens_only_the_envelope_of_a_message() {
        assert_eq!(open(&envelope(b"\x0a\x00")), Ok(&b"\x0a\x00"[..]));
        assert_eq!(open(MAGIC), Ok(&[][..]), "an object without a field");
        let json = [MAGIC, &message(&[(2, b"{}"), (4, b"application/json")])].concat();
        for other in [&json[..], b"", b"k8s", b"{\"kind\": \"Pod\"}", b"k8s\0\x12\x05x"] {
            assert!(open(other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn an_object_with_damaged_metadata_keeps_what_identifies_it() {
        let metadata = message(&[
            (1, b"w-0"),
            (3, b"n"),
            (5, b"u"),
            (6, b"7"),
            (9, b"\xff"),
            (12, b"\xff"),
            (13, b"\x0b"),
        ]);
        let object = message(&[(1, &metadata)]);
        let Read::Metadata(kept, _) = read(&object, |_| Err::<(), _>(Damaged)).unwrap() else { panic!() };
        assert_eq!((kept.name.as_deref(), kept.namespace.as_deref()), (Some("w-0"), Some("n")));
        assert_eq!((kept.uid.as_deref(), kept.resource_version.as_deref()), (Some("u"), Some("7")));
        assert!(kept.deletion_timestamp.is_some());
        for lost in [message(&[(1, &metadata[..metadata.len() - 1])]), message(&[(2, b"")]), Vec::new()] {
            assert!(read(&lost, |_| Err::<(), _>(Damaged)).is_err(), "{lost:?}");
        }
    }

    proptest! {
        #[test]
        fn reads_any_bytes_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Fields::of(&bytes).count();
            let _ = open(&[MAGIC, &bytes].concat());
            let _ = metadata(Fields::of(&bytes));
            let _ = labels(Fields::of(&bytes));
        }
    }
}
