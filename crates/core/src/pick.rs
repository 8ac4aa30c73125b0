//! Reads single fields of a large JSON text, and leaves all others unread.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Error;
use serde_json::value::RawValue;

/// What is in each path; `None` if it is missing or `null`.
type Fields<'j, const N: usize> = [Option<&'j RawValue>; N];

/// Reads fields by their paths, such as `metadata.name`, in one pass.
pub fn pick<'j, const N: usize>(json: &'j str, paths: [&str; N]) -> Result<Fields<'j, N>, Error> {
    let mut found = [None; N];
    pick_all(json, &paths, &mut found, None)?;
    drop_nulls(&mut found);
    Ok(found)
}

/// Reads fields as [`pick`] does; one that is `null` is there.
pub(crate) fn pick_with_nulls<'j, const N: usize>(
    json: &'j str,
    paths: [&str; N],
) -> Result<Fields<'j, N>, Error> {
    let mut found = [None; N];
    pick_all(json, &paths, &mut found, None)?;
    Ok(found)
}

fn drop_nulls(fields: &mut [Option<&RawValue>]) {
    for field in fields {
        if field.is_some_and(|field| field.get() == "null") {
            *field = None;
        }
    }
}

/// Reads fields of one field, such as `metadata`, and nothing after it.
pub(crate) fn pick_within<'j, const N: usize>(
    json: &'j str,
    field: &str,
    paths: [&str; N],
) -> Result<Fields<'j, N>, Error> {
    let mut found = [None; N];
    pick_all(json, &paths, &mut found, Some(field))?;
    drop_nulls(&mut found);
    Ok(found)
}

/// Reads a string that was picked; one that is missing is empty.
pub fn read_picked(field: Option<&RawValue>) -> Result<String, Error> {
    field.map_or_else(
        || Ok(String::new()),
        |field| serde_json::from_str(field.get()),
    )
}

// Not generic, so that it is compiled once for any number of paths.
fn pick_all<'j>(
    json: &'j str,
    paths: &[&str],
    found: &mut [Option<&'j RawValue>],
    last: Option<&str>,
) -> Result<(), Error> {
    let mut json = serde_json::Deserializer::from_str(json);
    let mut has_stopped = false;
    let picker = Picker {
        paths,
        found,
        parent: "",
        last,
        has_stopped: &mut has_stopped,
    };
    let result = json.deserialize_map(picker).and_then(|()| json.end());
    // The parser reports that it has not come to the end.
    if has_stopped { Ok(()) } else { result }
}

/// Reads one object.
struct Picker<'p, 'j> {
    paths: &'p [&'p str],
    found: &'p mut [Option<&'j RawValue>],
    /// What all paths of this object begin with, such as `metadata.`.
    parent: &'p str,
    /// The field after which nothing has to be read.
    last: Option<&'p str>,
    has_stopped: &'p mut bool,
}

impl<'j> DeserializeSeed<'j> for Picker<'_, 'j> {
    type Value = ();

    fn deserialize<D: Deserializer<'j>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_option(self)
    }
}

impl<'j> Visitor<'j> for Picker<'_, 'j> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'j>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'j>>(self, mut object: A) -> Result<(), A::Error> {
        let Self {
            paths,
            found,
            parent,
            last,
            has_stopped,
        } = self;
        while let Some(step) = object.next_key_seed(Key {
            paths,
            parent,
            last,
        })? {
            match step {
                Step::Read(index) if found[index].is_some() => {
                    return Err(A::Error::custom(format_args!(
                        "{} is repeated",
                        paths[index]
                    )));
                }
                Step::Read(index) => {
                    found[index] = Some(object.next_value()?);
                }
                Step::Enter { parent, is_last } => {
                    object.next_value_seed(Picker {
                        paths,
                        found,
                        parent,
                        last: None,
                        has_stopped,
                    })?;
                    if is_last {
                        *has_stopped = true;
                        return Ok(());
                    }
                }
                Step::Skip => drop(object.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// What to do with a field.
enum Step<'p> {
    Read(usize),
    Enter { parent: &'p str, is_last: bool },
    Skip,
}

/// Reads the name of a field.
struct Key<'p> {
    paths: &'p [&'p str],
    parent: &'p str,
    last: Option<&'p str>,
}

impl<'j, 'p> DeserializeSeed<'j> for Key<'p> {
    type Value = Step<'p>;

    fn deserialize<D: Deserializer<'j>>(self, name: D) -> Result<Step<'p>, D::Error> {
        name.deserialize_str(self)
    }
}

impl<'p> Visitor<'_> for Key<'p> {
    type Value = Step<'p>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Step<'p>, E> {
        let end = self.parent.len() + name.len();
        for (index, path) in self.paths.iter().enumerate() {
            let is_whole = path.len() == end;
            // Most names of a request end elsewhere than the fields of the paths.
            if !is_whole && path.as_bytes().get(end) != Some(&b'.') {
                continue;
            }
            let rest = path
                .strip_prefix(self.parent)
                .and_then(|path| path.strip_prefix(name));
            // A dot separates the fields in a path.
            if rest.is_none() || name.is_empty() || name.contains('.') {
                continue;
            }
            if is_whole {
                return Ok(Step::Read(index));
            }
            return Ok(Step::Enter {
                parent: &path[..=end],
                is_last: self.last == Some(name),
            });
        }
        Ok(Step::Skip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<const N: usize>(json: &str, paths: [&str; N]) -> Option<[Option<String>; N]> {
        pick(json, paths)
            .ok()
            .map(|found| found.map(|field| field.map(|field| field.get().to_owned())))
    }

    #[test]
    fn reads_the_fields_of_a_path_and_nothing_else() {
        let json = r#"{"a": {"b": [1, {}], "c": {"d": "e"}, "b.x": 1}, "a.b": 2, "ab": {"b": 3}, "f": 1.50}"#;
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            texts(json, ["a.b", "a.c.d", "f"]),
            Some([text("[1, {}]"), text("\"e\""), text("1.50")])
        );
        assert_eq!(
            texts(json, ["a.b.x", "b", "a.c.x"]).map(|found| found.len()),
            None,
            "a.b is a list"
        );
        assert_eq!(texts(json, ["b", "a.c.x", "d"]), Some([None, None, None]));
        assert_eq!(texts(r#"{"\u0061": {"b": 1}}"#, ["a.b"]), Some([text("1")]));
    }

    #[test]
    fn null_counts_as_missing_on_any_level_but_the_outermost() {
        assert_eq!(
            texts(r#"{"a": null, "b": {"c": null}}"#, ["a.x", "b.c"]),
            Some([None, None])
        );
        assert_eq!(texts("null", ["a"]), None);
    }

    #[test]
    fn refuses_what_is_no_object_or_repeats_a_field() {
        for json in [
            "",
            "[]",
            "7",
            r#"{"a": 7}"#,
            r#"{"a": {"b": 1, "b": 2}}"#,
            r#"{"a": {}} x"#,
            r#"{"a": {}"#,
        ] {
            assert_eq!(texts(json, ["a.b"]), None, "{json}");
        }
    }

    #[test]
    fn reads_nothing_after_the_last_field_if_that_is_said() {
        let json = r#"{"x": 1, "a": {"b": 1}, and so on"#;
        assert_eq!(
            pick_within(json, "a", ["a.b"]).unwrap()[0].unwrap().get(),
            "1"
        );
        assert!(pick(json, ["a.b"]).is_err());
        assert!(pick_within(r#"{"x": 1, and so on"#, "a", ["a.b"]).is_err());
    }
}
