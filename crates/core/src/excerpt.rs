//! The fields of a Pod that an injection reads and changes. All others stay text: they cost nothing
//! to parse or to write, and cannot change, whatever they are.

use serde::de::Error as _;
use serde_json::value::RawValue;
use serde_json::{Error, Map, Value};

use crate::json::to_text;
use crate::pick::pick_with_nulls;

/// How the keys begin that `serde_json` gives to the text of a number and to a text that is parsed
/// later. It would read a map with such a key as that number or text.
const PRIVATE_KEY: &[u8] = b"\"$serde_json::private::";

/// How deep a Pod can be nested: a host that reads the answer stops at 128, with the answer around
/// the Pod.
const MAX_DEPTH: i32 = 126;

/// A Pod's text, and its parsed fields: `metadata.annotations`, `spec.affinity`,
/// `spec.nodeSelector` and `spec.topologySpreadConstraints`.
///
/// ```
/// use pps_core::excerpt::Excerpt;
/// use serde_json::json;
///
/// let pod = r#"{"metadata": {"name": "web-0"}, "spec": {"some": 1.00, "affinity": {}}}"#;
/// let mut excerpt = Excerpt::read(pod)?;
/// assert_eq!(excerpt.pod, json!({"metadata": {}, "spec": {"affinity": {}}}));
///
/// excerpt.pod["metadata"]["annotations"] = json!({"a": "b"});
/// excerpt.pod["spec"]["affinity"]["c"] = json!({});
/// let changed = r#"{"metadata": {"annotations":{"a":"b"},"name": "web-0"}, "spec": {"some": 1.00, "affinity": {"c":{}}}}"#;
/// assert_eq!(excerpt.into_text(), changed);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug)]
pub struct Excerpt<'j> {
    /// The Pod with the parsed fields only.
    pub pod: Value,
    text: &'j str,
    metadata: Part<'j>,
    spec: Part<'j>,
}

/// One of the Pod's fields, and the one in it that can be changed.
#[derive(Debug)]
struct Part<'j> {
    name: &'static str,
    text: Option<&'j RawValue>,
    field_name: &'static str,
    field: Option<&'j RawValue>,
}

impl<'j> Excerpt<'j> {
    /// Parses the fields of a Pod that an injection reads or changes.
    pub fn read(text: &'j str) -> Result<Self, Error> {
        check(text)?;
        let [metadata, spec] = pick_with_nulls(text, ["metadata", "spec"])?;
        let mut pod = Map::new();
        let metadata = Part::read(&mut pod, "metadata", metadata, ["annotations", "", ""])?;
        let fields = ["affinity", "nodeSelector", "topologySpreadConstraints"];
        let spec = Part::read(&mut pod, "spec", spec, fields)?;
        Ok(Self {
            pod: Value::Object(pod),
            text,
            metadata,
            spec,
        })
    }

    /// The Pod's text with what is now in `metadata.annotations` and `spec.affinity`.
    pub fn into_text(self) -> String {
        let (mut first, mut second) = (
            self.metadata.edit(self.text, &self.pod),
            self.spec.edit(self.text, &self.pod),
        );
        if second.start < first.start {
            std::mem::swap(&mut first, &mut second);
        }
        let mut text =
            String::with_capacity(self.text.len() + first.by.len() + second.by.len() + 2);
        text.push_str(&self.text[..first.start]);
        first.apply(
            &self.text[first.end..second.start],
            second.is_field,
            &mut text,
        );
        second.apply(&self.text[second.end..], false, &mut text);
        text
    }
}

impl<'j> Part<'j> {
    /// Reads a part of a Pod, and parses these fields of it into `pod`. Only the first can be
    /// changed.
    fn read(
        pod: &mut Map<String, Value>,
        name: &'static str,
        text: Option<&'j RawValue>,
        fields: [&'static str; 3],
    ) -> Result<Self, Error> {
        let mut part = Self {
            name,
            text,
            field_name: fields[0],
            field: None,
        };
        let Some(text) = text else { return Ok(part) };
        let value = if is_object(text) {
            let found = pick_with_nulls(text.get(), fields)?;
            let mut object = Map::new();
            for (name, field) in fields.into_iter().zip(found) {
                let Some(field) = field else { continue };
                // The text of the others stays, however this reads it.
                let value = if name == part.field_name {
                    parse(field)?
                } else {
                    serde_json::from_str(field.get()).unwrap_or_default()
                };
                object.insert(name.to_owned(), value);
            }
            part.field = found[0];
            Value::Object(object)
        } else {
            parse(text)?
        };
        pod.insert(name.to_owned(), value);
        Ok(part)
    }

    /// How to write what `pod` has in the field that can be changed.
    fn edit(&self, text: &str, pod: &Value) -> Edit {
        let part = &pod[self.name];
        let Some(value) = part.get(self.field_name) else {
            return Edit::default();
        };
        match (self.text, self.field) {
            (_, Some(before)) => Edit::replace(text, before, value),
            (Some(before), None) if is_object(before) => {
                Edit::insert(text, before.get(), self.field_name, value)
            }
            (Some(before), None) => Edit::replace(text, before, part),
            (None, None) => Edit::insert(text, text.trim_ascii_start(), self.name, part),
        }
    }
}

fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

/// Fails if a text is nested too deep, or has half a surrogate pair. What is skipped is not parsed,
/// which would notice.
fn check(text: &str) -> Result<(), Error> {
    let (mut depth, mut is_text) = (0_i32, false);
    let mut bytes = text.as_bytes();
    while let [byte, rest @ ..] = bytes {
        bytes = rest;
        match byte {
            b'"' => is_text = !is_text,
            // JSON has it only in strings.
            b'\\' => {
                bytes = match bytes {
                    [
                        b'u',
                        b'D' | b'd',
                        b'8' | b'9' | b'A' | b'B' | b'a' | b'b',
                        _,
                        _,
                        b'\\',
                        b'u',
                        b'D' | b'd',
                        b'C'..=b'F' | b'c'..=b'f',
                        rest @ ..,
                    ] => rest,
                    [
                        b'u',
                        b'D' | b'd',
                        b'8' | b'9' | b'A'..=b'F' | b'a'..=b'f',
                        ..,
                    ] => {
                        return Err(Error::custom("it has half a surrogate pair"));
                    }
                    [_, rest @ ..] => rest,
                    [] => bytes,
                }
            }
            b'{' | b'[' if !is_text => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(Error::custom("it is nested more than 126 deep"));
                }
            }
            b'}' | b']' if !is_text => depth -= 1,
            _ => {}
        }
    }
    Ok(())
}

/// Parses a value, unless it would be changed by that.
fn parse(value: &RawValue) -> Result<Value, Error> {
    let text = value.get().as_bytes();
    if has_private_key(text) || has_needless_escape(text) {
        let message = "it has a field $serde_json::private::…, which no field of a Pod can be \
                       called, or a letter as \\u0041";
        return Err(Error::custom(message));
    }
    serde_json::from_str(value.get())
}

/// Whether a text has a key of `serde_json`'s own. In a value the quote before such a text would be
/// escaped, or no colon would follow.
fn has_private_key(mut text: &[u8]) -> bool {
    // Not `contains`, whose search would add 0.6 KB to the Wasm module.
    while let [_, rest @ ..] = text {
        // Two bytes are cheaper to compare than all of them, at each place of a large Pod.
        if let [b'"', b'$', ..] = text
            && let Some(mut name) = text.strip_prefix(PRIVATE_KEY)
        {
            while let [b'a'..=b'z' | b'A'..=b'Z', rest @ ..] = name {
                name = rest;
            }
            if let [b'"', rest @ ..] = name
                && rest.trim_ascii_start().first() == Some(&b':')
            {
                return true;
            }
        }
        text = rest;
    }
    false
}

/// Whether a text has a printable character as a number, which could hide a name from a search. No
/// server writes other ones so than quotes, the backslash and what HTML reserves.
fn has_needless_escape(mut text: &[u8]) -> bool {
    while let [byte, rest @ ..] = text {
        text = rest;
        if *byte == b'\\' {
            if let [b'u', b'0', b'0', high @ b'2'..=b'7', low, ..] = text
                && !matches!(
                    (high, low.to_ascii_lowercase()),
                    (b'2', b'2' | b'6' | b'7') | (b'3', b'c' | b'e') | (b'5', b'c') | (b'7', b'f')
                )
            {
                return true;
            }
            text = text.get(1..).unwrap_or_default();
        }
    }
    false
}

/// A change of a text. By default, none.
#[derive(Default)]
struct Edit {
    /// Where the replaced bytes begin and end.
    start: usize,
    end: usize,
    by: String,
    /// Whether it inserts a field at the beginning of an object.
    is_field: bool,
}

impl Edit {
    /// Replaces a value, which is a part of the text.
    fn replace(text: &str, before: &RawValue, value: &Value) -> Self {
        let start = offset(text, before.get());
        Self {
            start,
            end: start + before.get().len(),
            by: to_text(value),
            is_field: false,
        }
    }

    /// Inserts a field at the beginning of an object, which is a part of the text.
    fn insert(text: &str, object: &str, name: &str, value: &Value) -> Self {
        let start = offset(text, object) + 1;
        Self {
            start,
            end: start,
            by: ["\"", name, "\":", &to_text(value)].concat(),
            is_field: true,
        }
    }

    /// Writes the edit and what follows it; says whether another field follows if that is empty.
    fn apply(&self, rest: &str, is_field_next: bool, text: &mut String) {
        text.push_str(&self.by);
        let next = rest.trim_ascii_start();
        if self.is_field && !next.starts_with('}') && (!next.is_empty() || is_field_next) {
            text.push(',');
        }
        text.push_str(rest);
    }
}

/// Where a part of a text begins.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr() as usize - text.as_ptr() as usize
}
