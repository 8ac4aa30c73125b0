//! Pages of a list.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::super::encoding::Encoded;
use super::super::object::{Malformed, describe};
use super::super::protobuf::{Damaged, Fields, open};
use super::PageMetadata;

/// An object takes more bytes than this, so a page of more and smaller items is none, and needs no memory for them.
const SMALLEST_OBJECT: usize = 16;

/// One page of a list.
#[derive(Debug)]
pub struct Page<'a> {
    metadata: PageMetadata,
    items: Items<'a>,
}

/// The objects of a page, unread.
#[derive(Debug)]
enum Items<'a> {
    Json(Vec<&'a RawValue>),
    /// The list, in which they are one kind of fields.
    Protobuf(Fields<'a>),
}

impl<'a> Page<'a> {
    /// Reads a page. Fails if it is no list, or if its place in time is unknown, so that it could not be watched from.
    pub fn read(page: Encoded<'a>) -> Result<Self, Malformed> {
        let page = match page {
            Encoded::Json(text) => Self::read_json(text).map_err(|error| Malformed(describe(&error)))?,
            Encoded::Protobuf(bytes) => Self::read_message(open(bytes)?)?,
        };
        if page.resource_version().is_empty() {
            return Err(Malformed("the list has no resource version".into()));
        }
        Ok(page)
    }

    fn read_json(text: &'a str) -> serde_json::Result<Self> {
        let mut json = serde_json::Deserializer::from_str(text);
        let page = JsonPage { most: text.len() / SMALLEST_OBJECT }.deserialize(&mut json)?;
        json.end()?;
        Ok(page)
    }

    fn read_message(message: &'a [u8]) -> Result<Self, Damaged> {
        let mut metadata = PageMetadata::default();
        for field in Fields::of(message) {
            match field? {
                (1, value) => {
                    for field in value.fields()? {
                        match field? {
                            (2, value) => metadata.resource_version = value.some_text()?,
                            (3, value) => metadata.continue_token = value.some_text()?,
                            _ => {}
                        }
                    }
                }
                (2, value) => drop(value.bytes()?),
                _ => {}
            }
        }
        Ok(Self { metadata, items: Items::Protobuf(Fields::of(message)) })
    }

    pub fn resource_version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }

    /// The token that gives the next page; none for the last one.
    pub fn continue_token(&self) -> Option<&str> {
        self.metadata.continue_token.as_deref().filter(|token| !token.is_empty())
    }

    pub fn items(&self) -> Box<dyn Iterator<Item = Encoded<'a>> + Send + '_> {
        match &self.items {
            Items::Json(items) => Box::new(items.iter().map(|item| Encoded::Json(item.get()))),
            Items::Protobuf(fields) => Box::new(fields.clone().filter_map(|field| match field {
                Ok((2, value)) => value.bytes().ok().map(Encoded::Protobuf),
                _ => None,
            })),
        }
    }
}

/// Reads a page of JSON.
struct JsonPage {
    most: usize,
}

impl<'de> DeserializeSeed<'de> for JsonPage {
    type Value = Page<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for JsonPage {
    type Value = Page<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let (mut metadata, mut items) = (PageMetadata::default(), Vec::new());
        while let Some(name) = fields.next_key::<Cow<'de, str>>()? {
            match &*name {
                "metadata" => metadata = fields.next_value()?,
                "items" => items = fields.next_value_seed(JsonItems { most: self.most })?,
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Page { metadata, items: Items::Json(items) })
    }
}

/// Reads at most this many objects, or null.
struct JsonItems {
    most: usize,
}

impl<'de> DeserializeSeed<'de> for JsonItems {
    type Value = Vec<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for JsonItems {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("objects")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut objects: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = objects.next_element()? {
            if items.len() >= self.most {
                return Err(A::Error::invalid_length(items.len(), &self));
            }
            items.push(item);
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::protobuf::tests::{envelope, message};
    use super::*;

    #[test]
    fn reads_a_page_whose_objects_are_nested_deeper_than_the_parser_follows() {
        let deep = format!("{}1{}", "[".repeat(2000), "]".repeat(2000));
        let text = format!(
            r#"{{"kind": "List", "metadata": {{"resourceVersion": "7", "continue": "t"}}, "items": [{deep}, {{}}]}}"#
        );
        let page = Page::read(Encoded::Json(&text)).unwrap();
        assert_eq!((page.resource_version(), page.continue_token()), ("7", Some("t")));
        assert_eq!(page.items().collect::<Vec<_>>(), [Encoded::Json(&deep), Encoded::Json("{}")]);
        let last = Page::read(Encoded::Json(
            r#"{"metadata": {"resourceVersion": "7", "continue": ""}, "items": null}"#,
        ))
        .unwrap();
        assert_eq!((last.continue_token(), last.items().count()), (None, 0));
        assert!(Page::read(Encoded::Json(r#"{"metadata": {}, "items": []}"#)).is_err());
        assert!(Page::read(Encoded::Json("<html>")).is_err());
    }

    #[test]
    fn reads_a_page_of_protobuf_whose_objects_are_damaged() {
        let list = message(&[(1, &message(&[(2, b"7"), (3, b"t")])), (2, b"\xff\xff"), (2, b"")]);
        let page = envelope(&list);
        let page = Page::read(Encoded::Protobuf(&page)).unwrap();
        assert_eq!((page.resource_version(), page.continue_token()), ("7", Some("t")));
        let expected = [Encoded::Protobuf(b"\xff\xff"), Encoded::Protobuf(b"")];
        assert_eq!(page.items().collect::<Vec<_>>(), expected);
        let cut_short = &list[..list.len() - 1];
        for other in [envelope(cut_short), envelope(&message(&[(2, b"")])), b"{}".to_vec(), Vec::new()] {
            assert!(Page::read(Encoded::Protobuf(&other)).is_err(), "{other:?}");
        }
    }

    #[test]
    fn refuses_a_page_of_more_items_than_objects_have_room_in_it() {
        let page = |count: usize, item: &str| {
            let items = vec![item; count].join(",");
            let text = format!(r#"{{"metadata": {{"resourceVersion": "7"}}, "items": [{items}]}}"#);
            Page::read(Encoded::Json(&text)).map(|page| page.items().count())
        };
        assert_eq!(page(10_000, r#"{"metadata":{"name":"a"}}"#), Ok(10_000));
        let refusal = page(10_000, "1").unwrap_err();
        assert!(refusal.0.starts_with("expected objects at"), "{refusal}");
    }
}
