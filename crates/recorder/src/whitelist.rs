//! The kinds of workloads that a ConfigMap lists in addition to the built-in ones.

use std::fmt;

use pps_core::json::null_as_default;
use pps_core::owner::has_stable_names;
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Map, Value, from_str, from_value};

use crate::names::NamesPath;

pub const CONFIG_MAP: &str = "kruise-configuration";
pub const KEY: &str = "PPS_Watch_Custom_Workload_WhiteList";
/// A valid list, for error messages.
const EXAMPLE: &str = r#"{"workloads":[{"group":"example.io","kind":"Database"}]}"#;
/// How many characters of an error a message repeats: the error may repeat a whole value.
const MAX_ERROR: usize = 200;
/// How many kinds a list may have: each is a watch.
const MAX_KINDS: usize = 256;

/// A listed kind of workload.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Entry {
    #[serde(default, deserialize_with = "null_as_default")]
    pub group: String,
    /// The version to watch. If it is not set or not served, the sidecar watches the stored
    /// version.
    pub version: Option<String>,
    pub kind: String,
    /// Where a workload lists the names of its Pods, if it does.
    #[serde(rename = "namespath", default, deserialize_with = "names_path")]
    pub names_path: Option<NamesPath>,
}

impl Entry {
    /// OpenKruise's StatefulSet, which is part of every list.
    pub fn openkruise_stateful_set() -> Self {
        Self {
            group: "apps.kruise.io".into(),
            version: None,
            kind: "StatefulSet".into(),
            names_path: None,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whitelist {
    /// The listed kinds, each once, without the built-in one.
    pub entries: Vec<Entry>,
    /// Sentences for users about items that do not count.
    pub refusals: Vec<String>,
}

/// Reads a list; the error says why it is rejected as a whole. An empty text is an empty list.
/// Field names match in any letter case, as in Go, and unknown fields are skipped.
pub fn parse(text: &str) -> Result<Whitelist, String> {
    if text.trim().is_empty() {
        return Ok(Whitelist::default());
    }
    let mut fields = from_str(text)
        .map(in_lower_case)
        .map_err(|error| malformed("the list", &error))?;
    let workloads = match fields.remove("workloads") {
        Some(workloads) => from_value::<Option<Vec<Value>>>(workloads)
            .map_err(|error| malformed("workloads", &error))?,
        None if fields.values().all(Value::is_null) => None,
        None => return Err(malformed("workloads", &"the field is missing")),
    };
    let workloads = workloads.unwrap_or_default();
    if workloads.len() > MAX_KINDS {
        let count = workloads.len();
        return Err(malformed(
            "workloads",
            &format!("{count} kinds; list at most {MAX_KINDS}"),
        ));
    }
    let mut whitelist = Whitelist::default();
    for (index, workload) in workloads.into_iter().enumerate() {
        let path = format!("workloads[{index}]");
        let entry = from_value(workload)
            .and_then(|fields| Entry::deserialize(Value::Object(in_lower_case(fields))));
        let Entry {
            group,
            version,
            kind,
            names_path,
        } = entry.map_err(|error| malformed(&path, &error))?;
        let entry = Entry {
            group: group.trim().to_owned(),
            version: version
                .map(|version| version.trim().to_owned())
                .filter(|version| !version.is_empty()),
            kind: kind.trim().to_owned(),
            names_path,
        };
        if entry.kind.is_empty() {
            return Err(malformed(&path, &"the kind is empty"));
        }
        if entry.group.contains('/') {
            return Err(malformed(
                &path,
                &"the version belongs in the field version, not in group",
            ));
        }
        whitelist.add(entry, &path);
    }
    Ok(whitelist)
}

impl Whitelist {
    /// Adds an entry, unless its kind cannot be watched or is listed already.
    fn add(&mut self, entry: Entry, path: &str) {
        let Entry { group, kind, .. } = &entry;
        let mut known = self.entries.iter();
        let known = known.find(|known| known.group == *group && known.kind == *kind);
        if group.is_empty() {
            self.refusals.push(format!(
                "{KEY}: {path} names {kind} without a group; name its group or remove it: no kind \
                 of the core group gives its Pods stable names"
            ));
        } else if !has_stable_names(&format!("{group}/v1"), kind) {
            self.refusals.push(format!(
                "{KEY}: {path} names {kind} of {group}; remove it: its Pods get new names each \
                 time, so their states cannot be recorded"
            ));
        } else if let Some(known) = known {
            if *known != entry {
                self.refusals.push(format!(
                    "{KEY}: {path} names {kind} of {group} again, with another version or \
                     namesPath; remove one of the two items: the first one counts"
                ));
            }
        } else if (group.as_str(), kind.as_str()) != ("apps", "StatefulSet") {
            self.entries.push(entry);
        }
    }
}

/// An empty path is none.
fn names_path<'de, D: Deserializer<'de>>(field: D) -> Result<Option<NamesPath>, D::Error> {
    let text = Option::<String>::deserialize(field)?.unwrap_or_default();
    match text.trim() {
        "" => Ok(None),
        path => path.parse().map(Some).map_err(D::Error::custom),
    }
}

fn in_lower_case(fields: Map<String, Value>) -> Map<String, Value> {
    fields
        .into_iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect()
}

fn malformed(path: &str, error: &dyn fmt::Display) -> String {
    let error: String = error.to_string().chars().take(MAX_ERROR).collect();
    format!("{KEY}: {path}: {error}; example: {EXAMPLE}")
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn entry(group: &str, version: Option<&str>, kind: &str) -> Entry {
        Entry {
            group: group.into(),
            version: version.map(Into::into),
            kind: kind.into(),
            names_path: None,
        }
    }

    #[test]
    fn reads_field_names_in_any_letter_case() {
        let list = r#"{"Workloads":[{"GROUP":"a.io","Kind":"A"},{"group":"b.io","version":"v2","kind":" B ","resource":1},
            {"group":"a.io","version":"v1","kind":"A"}],"comment":null}"#;
        let expected = [entry("a.io", None, "A"), entry("b.io", Some("v2"), "B")];
        assert_eq!(parse(list).unwrap().entries, expected);
    }

    #[test]
    fn says_that_another_item_of_a_listed_kind_does_not_count() {
        let list = r#"{"workloads":[{"group":"a.io","kind":"A"},{"group":"b.io","kind":"A"},{"group":"a.io","kind":"A"},
            {"group":"a.io","kind":"A","namesPath":"status.names"},{"group":"a.io","kind":"A","version":"v1"}]}"#;
        let whitelist = parse(list).unwrap();
        let expected = [entry("a.io", None, "A"), entry("b.io", None, "A")];
        assert_eq!(whitelist.entries, expected);
        let [path, version] = &whitelist.refusals[..] else {
            panic!("{whitelist:?}");
        };
        let words = "workloads[3] names A of a.io again, with another version or namesPath; remove";
        assert!(path.contains(words), "{path}");
        assert!(version.contains("workloads[4] names A of a.io again"));
    }

    #[test]
    fn reads_where_a_workload_lists_its_pods() {
        let list = r#"{"workloads":[{"group":"a.io","kind":"A","NamesPath":" status.instanceNames "},
            {"group":"a.io","kind":"B","namesPath":""},{"group":"a.io","kind":"C","namesPath":null}]}"#;
        let paths: Vec<Option<String>> = parse(list)
            .unwrap()
            .entries
            .iter()
            .map(|entry| entry.names_path.as_ref().map(ToString::to_string))
            .collect();
        assert_eq!(paths, [Some("status.instanceNames".into()), None, None]);
    }

    #[test]
    fn accepts_an_empty_list() {
        for list in [
            "",
            " \n",
            "{}",
            r#"{"workloads":[]}"#,
            r#"{"workloads":null}"#,
        ] {
            assert_eq!(parse(list), Ok(Whitelist::default()), "{list}");
        }
    }

    #[test]
    fn names_what_is_malformed_with_an_example() {
        for (list, words) in [
            ("{", "the list: EOF"),
            ("[]", "the list: invalid type: sequence"),
            (r#"{"workload":[]}"#, "workloads: the field is missing"),
            (
                r#"{"workloads":{"group":"g"}}"#,
                "workloads: invalid type: map, expected a sequence",
            ),
            (
                r#"{"workloads":["a"]}"#,
                r#"workloads[0]: invalid type: string "a""#,
            ),
            (
                r#"{"workloads":[{"group":"g","kind":"K"},{"group":"g"}]}"#,
                "workloads[1]: missing field `kind`",
            ),
            (
                r#"{"workloads":[{"group":"g","kind":""}]}"#,
                "workloads[0]: the kind is empty",
            ),
            (
                r#"{"workloads":[{"group":5,"kind":"K"}]}"#,
                "workloads[0]: invalid type: integer `5`",
            ),
            (
                r#"{"workloads":[{"group":"g/v1","kind":"K"}]}"#,
                "the version belongs in the field version",
            ),
            (
                r#"{"workloads":[{"group":"g","kind":"K","namesPath":"spec.pods[0].metadata.name"}]}"#,
                r#"workloads[0]: namesPath: no field or [*] at "[0].metadata.name"; write fields and [*] below spec. or status., such as spec.pods[*].metadata.name or status.instanceNames; example"#,
            ),
            (
                r#"{"workloads":[{"group":"g","kind":"K","namesPath":["spec.pods"]}]}"#,
                "workloads[0]: invalid type: sequence, expected a string",
            ),
        ] {
            let message = parse(list).unwrap_err();
            assert!(message.contains(words), "{message}");
            assert!(
                message.contains(KEY) && message.ends_with(EXAMPLE),
                "{message}"
            );
        }
        let long = format!(r#"{{"workloads":"{}"}}"#, "x".repeat(5000));
        assert!(parse(&long).unwrap_err().len() < 400);
    }

    #[test]
    fn refuses_a_list_with_too_many_kinds() {
        let list = |count: usize| {
            let kinds: Vec<String> = (0..count)
                .map(|n| format!(r#"{{"group":"a.io","kind":"K{n}"}}"#))
                .collect();
            parse(&format!(r#"{{"workloads":[{}]}}"#, kinds.join(",")))
        };
        assert_eq!(list(MAX_KINDS).unwrap().entries.len(), MAX_KINDS);
        let error = list(50_000).unwrap_err();
        assert!(error.contains("50000 kinds; list at most 256"), "{error}");
    }

    #[test]
    fn refuses_kinds_without_stable_names_and_accepts_the_others() {
        let list = r#"{"workloads":[{"group":"apps","kind":"Deployment"},{"kind":"ReplicationController"},
            {"group":"apps.kruise.io","kind":"CloneSet"},{"group":"a.io","kind":"A"},{"group":"apps","kind":"StatefulSet"}]}"#;
        let whitelist = parse(list).unwrap();
        assert_eq!(whitelist.entries, [entry("a.io", None, "A")]);
        assert_eq!(whitelist.refusals.len(), 3);
        for (refusal, word) in
            whitelist
                .refusals
                .iter()
                .zip(["Deployment", "ReplicationController", "CloneSet"])
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
            let name = prop_oneof!["[a-z]{0,3}", "(?i)workloads|group|version|kind|namesPath"];
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
                prop_assert!(malformed.len() < 2000);
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
            let message = parse(&json!({"workloads": list}).to_string()).unwrap_err();
            let path = format!("workloads[{before}]");
            prop_assert!(message.contains(&path), "{}", message);
        }
    }
}
