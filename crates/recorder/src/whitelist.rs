//! The kinds of workloads that a ConfigMap lists in addition to the built-in ones.

use std::fmt;

use serde_json::{Map, Value};

use pps_core::owner::has_stable_names;
use pps_core::to_text;

pub const CONFIG_MAP: &str = "kruise-configuration";
pub const KEY: &str = "PPS_Watch_Custom_Workload_WhiteList";
/// A valid list, for error messages.
const EXAMPLE: &str = r#"{"workloads":[{"group":"example.io","kind":"Database"}]}"#;
/// How many characters of an invalid value an error message repeats.
const MAX_VALUE: usize = 100;
/// How many kinds a list may have: each is a watch.
const MAX_KINDS: usize = 256;

/// A listed kind of workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub group: String,
    /// The version to watch. If it is not set or not served, the sidecar watches the API server's preferred
    /// version.
    pub version: Option<String>,
    pub kind: String,
}

impl Entry {
    /// OpenKruise's StatefulSet, which is part of every list.
    pub fn openkruise_stateful_set() -> Self {
        Self { group: "apps.kruise.io".into(), version: None, kind: "StatefulSet".into() }
    }

    /// Whether this is the StatefulSet of Kubernetes, which is always watched.
    fn is_built_in(&self) -> bool {
        self.group == "apps" && self.kind == "StatefulSet"
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whitelist {
    /// The listed kinds, each once, without the built-in one.
    pub entries: Vec<Entry>,
    /// Sentences for users about listed kinds that cannot be watched.
    pub refusals: Vec<String>,
}

/// Why a list is rejected as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    Json(String),
    Field {
        /// The field, such as `workloads[1].kind`.
        path: String,
        /// Its value as JSON, if it is not missing.
        value: Option<String>,
        /// What to do about it.
        remedy: &'static str,
    },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "{KEY} is not valid JSON: {error}")?,
            Self::Field { path, value: Some(value), remedy } => {
                write!(f, "{KEY}: {path} is {value}: {remedy}")?;
            }
            Self::Field { path, value: None, remedy } => write!(f, "{KEY}: {path} is missing: {remedy}")?,
        }
        write!(f, "; example: {EXAMPLE}")
    }
}

impl std::error::Error for Malformed {}

/// Reads a list. An empty text is an empty list. Field names match in any letter case, as in Go, and unknown
/// fields are skipped.
pub fn parse(text: &str) -> Result<Whitelist, Malformed> {
    if text.trim().is_empty() {
        return Ok(Whitelist::default());
    }
    let list: Value = serde_json::from_str(text).map_err(|error| Malformed::Json(error.to_string()))?;
    let Value::Object(fields) = &list else {
        return Err(wrong("the list", &list, "it must be an object with the field workloads"));
    };
    let workloads = match field(fields, "", "workloads")? {
        Some(Value::Array(workloads)) => workloads.as_slice(),
        Some(other) => return Err(wrong("workloads", other, "it must be a list")),
        None if fields.is_empty() || fields.values().all(Value::is_null) => &[],
        None => return Err(missing("workloads".into(), "list the kinds in it")),
    };
    if workloads.len() > MAX_KINDS {
        let path = format!("workloads, with {} kinds,", workloads.len());
        return Err(wrong(&path, &Value::Array(workloads[..1].into()), "list at most 256 kinds"));
    }
    let mut whitelist = Whitelist::default();
    for (index, workload) in workloads.iter().enumerate() {
        let path = format!("workloads[{index}]");
        let Value::Object(fields) = workload else {
            return Err(wrong(&path, workload, "it must be an object with the fields group and kind"));
        };
        let entry = Entry {
            group: text_of(fields, &path, "group")?.unwrap_or_default(),
            version: text_of(fields, &path, "version")?,
            kind: text_of(fields, &path, "kind")?
                .ok_or_else(|| missing(format!("{path}.kind"), "name the kind, such as Database"))?,
        };
        if entry.group.contains('/') {
            let remedy = "write the group alone; the version belongs in the field version";
            return Err(wrong(&format!("{path}.group"), &Value::from(entry.group), remedy));
        }
        add(&mut whitelist, entry, &path);
    }
    Ok(whitelist)
}

/// Adds an entry, unless its kind cannot be watched or is listed already.
fn add(whitelist: &mut Whitelist, entry: Entry, path: &str) {
    let Entry { group, kind, .. } = &entry;
    if group.is_empty() {
        whitelist.refusals.push(format!(
            "{KEY}: {path} names {kind} without a group; name its group or remove it: no kind of the core group gives its Pods stable names"
        ));
    } else if !has_stable_names(&format!("{group}/v1"), kind) {
        whitelist.refusals.push(format!(
            "{KEY}: {path} names {kind} of {group}; remove it: its Pods get new names each time, so their states cannot be recorded"
        ));
    } else if !entry.is_built_in()
        && !whitelist.entries.iter().any(|known| known.group == *group && known.kind == *kind)
    {
        whitelist.entries.push(entry);
    }
}

/// Finds a field by its name in any letter case. A null counts as missing.
fn field<'a>(fields: &'a Map<String, Value>, path: &str, name: &str) -> Result<Option<&'a Value>, Malformed> {
    let mut found = fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
    let first = found.next().map(|(_, value)| value);
    if let Some((field, value)) = found.next() {
        let path = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
        return Err(wrong(&path, value, "the field is set twice, in two letter cases; remove one"));
    }
    Ok(first.filter(|value| !value.is_null()))
}

fn text_of(fields: &Map<String, Value>, path: &str, name: &str) -> Result<Option<String>, Malformed> {
    match field(fields, path, name)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Some(other) => Err(wrong(&format!("{path}.{name}"), other, "it must be a string")),
    }
}

fn wrong(path: &str, value: &Value, remedy: &'static str) -> Malformed {
    let mut text = to_text(value);
    if text.chars().count() > MAX_VALUE {
        text = text.chars().take(MAX_VALUE).chain(['…']).collect();
    }
    Malformed::Field { path: path.into(), value: Some(text), remedy }
}

fn missing(path: String, remedy: &'static str) -> Malformed {
    Malformed::Field { path, value: None, remedy }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn entry(group: &str, version: Option<&str>, kind: &str) -> Entry {
        Entry { group: group.into(), version: version.map(Into::into), kind: kind.into() }
    }

    #[test]
    fn reads_field_names_in_any_letter_case() {
        let list = r#"{"Workloads":[{"GROUP":"a.io","Kind":"A"},{"group":"b.io","version":"v2","kind":" B ","resource":1},
            {"group":"a.io","version":"v1","kind":"A"}],"comment":null}"#;
        let expected = [entry("a.io", None, "A"), entry("b.io", Some("v2"), "B")];
        assert_eq!(parse(list), Ok(Whitelist { entries: expected.into(), refusals: vec![] }));
    }

    #[test]
    fn accepts_an_empty_list() {
        for list in ["", " \n", "{}", r#"{"workloads":[]}"#, r#"{"workloads":null}"#] {
            assert_eq!(parse(list), Ok(Whitelist::default()), "{list}");
        }
    }

    #[test]
    fn names_a_malformed_field_its_value_and_the_remedy() {
        for (list, words) in [
            ("{", "is not valid JSON: EOF"),
            ("[]", "the list is []"),
            (r#"{"workload":[]}"#, "workloads is missing"),
            (r#"{"workloads":{"group":"g"}}"#, r#"workloads is {"group":"g"}: it must be a list"#),
            (r#"{"workloads":["a"]}"#, r#"workloads[0] is "a""#),
            (r#"{"workloads":[{"group":"g","kind":"K"},{"group":"g"}]}"#, "workloads[1].kind is missing"),
            (r#"{"workloads":[{"group":"g","kind":""}]}"#, "workloads[0].kind is missing"),
            (r#"{"workloads":[{"group":5,"kind":"K"}]}"#, "workloads[0].group is 5: it must be a string"),
            (r#"{"workloads":[{"group":"g/v1","kind":"K"}]}"#, "the version belongs in the field version"),
            (r#"{"workloads":[{"group":"g","Group":"h","kind":"K"}]}"#, "the field is set twice"),
        ] {
            let message = parse(list).unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
            assert!(message.contains(KEY) && message.ends_with(EXAMPLE), "{message}");
        }
        let long = format!(r#"{{"workloads":"{}"}}"#, "x".repeat(5000));
        assert!(parse(&long).unwrap_err().to_string().len() < 400);
    }

    #[test]
    fn refuses_a_list_with_too_many_kinds() {
        let list = |count: usize| {
            let kinds: Vec<String> =
                (0..count).map(|n| format!(r#"{{"group":"a.io","kind":"K{n}"}}"#)).collect();
            parse(&format!(r#"{{"workloads":[{}]}}"#, kinds.join(",")))
        };
        assert_eq!(list(MAX_KINDS).unwrap().entries.len(), MAX_KINDS);
        let error = list(50_000).unwrap_err().to_string();
        assert!(error.contains("workloads, with 50000 kinds,") && error.contains("at most 256"), "{error}");
    }

    #[test]
    fn refuses_kinds_without_stable_names_and_accepts_the_others() {
        let list = r#"{"workloads":[{"group":"apps","kind":"Deployment"},{"kind":"ReplicationController"},
            {"group":"apps.kruise.io","kind":"CloneSet"},{"group":"a.io","kind":"A"},{"group":"apps","kind":"StatefulSet"}]}"#;
        let whitelist = parse(list).unwrap();
        assert_eq!(whitelist.entries, [entry("a.io", None, "A")]);
        assert_eq!(whitelist.refusals.len(), 3);
        for (refusal, word) in
            whitelist.refusals.iter().zip(["Deployment", "ReplicationController", "CloneSet"])
        {
            assert!(refusal.contains(word), "{refusal}");
        }
    }

    /// Any JSON.
    fn anything() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-zA-Z./ ]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            let name = prop_oneof!["[a-z]{0,3}", "(?i)workloads|group|version|kind"];
            let fields = vec((name, inner.clone()), 0..4);
            prop_oneof![
                vec(inner, 0..4).prop_map(Value::from),
                fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn reads_any_text_without_a_panic(text in prop_oneof![".{0,60}", anything().prop_map(|value| value.to_string())]) {
            if let Err(malformed) = parse(&text) {
                prop_assert!(malformed.to_string().len() < 2000);
            }
        }

        #[test]
        fn accepts_valid_kinds_beside_refused_kinds_and_unknown_fields(
            good in vec(("[a-z]{1,5}[.]io", "[A-Z][a-z]{1,5}"), 0..4),
            refused in vec(prop_oneof![Just(("apps", "Deployment")), Just(("", "Thing")), Just(("batch", "Job"))], 0..3),
            unknown in anything(),
        ) {
            let item = |group: &str, kind: &str| json!({"Group": group, "kind": kind, "more": unknown});
            let mut list: Vec<Value> = refused.iter().map(|(group, kind)| item(group, kind)).collect();
            list.extend(good.iter().map(|(group, kind)| item(group, kind)));
            let whitelist = parse(&json!({"workLoads": list, "other": unknown}).to_string()).unwrap();
            prop_assert_eq!(whitelist.refusals.len(), refused.len());
            for (group, kind) in &good {
                let named = |entry: &&Entry| entry.group == *group && entry.kind == *kind;
                prop_assert_eq!(whitelist.entries.iter().filter(named).count(), 1);
            }
        }

        #[test]
        fn names_the_item_that_is_malformed(
            before in 0_usize..4,
            bad in prop_oneof![Just(json!(5)), Just(json!({"group": "a.io"})), Just(json!({"kind": 1, "group": "a.io"}))],
        ) {
            let mut list = vec![json!({"group": "a.io", "kind": "A"}); before];
            list.push(bad);
            let message = parse(&json!({"workloads": list}).to_string()).unwrap_err().to_string();
            let path = format!("workloads[{before}]");
            prop_assert!(message.contains(&path), "{}", message);
        }
    }
}
