//! What is read, where it is, and what is refused.
#![allow(clippy::unwrap_used, reason = "tests may")]

use std::time::Instant;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn value(text: &str) -> Value {
    parse_one(text).unwrap().value
}

fn error(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

/// The values are those that `kubectl annotate --local -o json` showed, in version 1.32.
#[test]
fn scalars_are_what_kubernetes_takes_them_for() {
    for (text, expected) in [
        ("yes", json!(true)),
        ("On", json!(true)),
        ("n", json!(false)),
        ("OFF", json!(false)),
        ("oN", json!("oN")),
        ("~", json!(null)),
        ("", json!(null)),
        ("NULL", json!(null)),
        ("nUll", json!("nUll")),
        ("1", json!(1)),
        ("-0", json!(0)),
        ("+7", json!(7)),
        ("010", json!(8)),
        ("0o10", json!(8)),
        ("0x1F", json!(31)),
        ("0b101", json!(5)),
        ("-0b11", json!(-3)),
        ("1_000", json!(1000)),
        ("08", json!(8)),
        ("0x", json!("0x")),
        ("9223372036854775808", json!(9_223_372_036_854_776_000_u64)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("1.5", json!(1.5)),
        ("1.0", json!(1)),
        (".5", json!(0.5)),
        ("1.", json!(1)),
        ("1e3", json!(1000)),
        ("1e21", json!(1e21)),
        ("1e-7", json!(1e-7)),
        ("1e400", json!("1e400")),
        ("1.2.3", json!("1.2.3")),
        ("10Gi", json!("10Gi")),
        ("1e", json!("1e")),
        ("2024-01-02", json!("2024-01-02")),
        ("12:30:45", json!("12:30:45")),
        ("--", json!("--")),
        ("+", json!("+")),
        ("'1'", json!("1")),
        ("\"yes\"", json!("yes")),
        ("!!str 1", json!("1")),
        ("!!int \"1\"", json!(1)),
        ("!!float 1", json!(1)),
        ("|\n  1\n", json!("1\n")),
        ("0xfffffffffffffffff", json!("0xfffffffffffffffff")),
        ("12345678901234567.8", json!(12_345_678_901_234_568_u64)),
        ("0.000001", json!(0.000_001)),
        ("0.0000001", json!(1e-7)),
        ("99999999999999999999", json!(1e20)),
        ("-99999999999999999999", json!(-1e20)),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
    for text in [".inf", "-.INF", ".nan", "!!int a", "!!bool 1", "!!null x"] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn keys_are_strings_whatever_they_are_in_yaml() {
    assert_eq!(
        value("1: a\ntrue: b\n1.50: d\n"),
        json!({"1": "a", "true": "b", "1.5": "d"})
    );
    for text in ["? [a]\n: b\n", "? {}\n: b\n", "? ~\n: b\n"] {
        assert_eq!(
            error(text),
            "line 1, column 3: a key must be a string: quote it"
        );
    }
}

#[test]
fn a_field_is_where_its_key_is_and_an_item_where_it_begins() {
    let text = "metadata:\n  labels:\n    a.b/c: x\n    a: y\nspec:\n  list:\n  - name: one\n  - \
                {name: zwei, \"ü😀\": 1}\n";
    let positions = parse_one(text).unwrap().positions;
    for (path, line, column) in [
        ("", 1, 1),
        ("metadata.labels.a.b/c", 3, 5),
        ("metadata.labels[a.b/c]", 3, 5),
        ("metadata.labels[\"a.b/c\"]", 3, 5),
        ("metadata.labels.a", 4, 5),
        ("spec.list[0].name", 7, 5),
        ("spec.list[1]", 8, 5),
        ("spec.list[1].ü😀", 8, 18),
        // What is missing is reported where it should be.
        ("spec.list[7].name", 6, 3),
        ("spec.none.below", 5, 1),
        ("nonsense[[[", 1, 1),
    ] {
        assert_eq!(positions.find(path), Place { line, column }, "{path}");
    }
}

#[test]
fn documents_are_separate_and_empty_ones_do_not_count() {
    let documents = parse("---\n# nothing\n---\na: 1\n---\n---\nb: &x 2\n...\n").unwrap();
    let values: Vec<&Value> = documents.iter().map(|document| &document.value).collect();
    assert_eq!(values, [&json!({"a": 1}), &json!({"b": 2})]);
    assert_eq!(parse("").unwrap().len(), 0);
    assert_eq!(
        parse_one("a: 1\n---\nb: 2\n").unwrap_err().to_string(),
        "line 4, column 1: there is a second document: keep one, and remove the line ---"
            .replace("line 4", "line 3")
    );
}

#[test]
fn aliases_and_merges_are_refused() {
    assert_eq!(value("a: &x {b: 1}\n"), json!({"a": {"b": 1}}));
    assert_eq!(
        error("a: &x 1\nb: *x\n"),
        "line 2, column 4: aliases are not read: write the value here"
    );
    assert_eq!(
        error("a: {<<: {b: 1}}"),
        "line 1, column 5: << is not read: write the fields here"
    );
    assert_eq!(value("\"<<\": 1"), json!({"<<": 1}));
}

#[test]
fn json_is_read_as_other_programs_write_it() {
    for text in [
        "{\n\t\"a\": [1,\t2],\n\t\"b\": {\"c\":\"d\"}\n}\n",
        "{\r\n  \"a\": [1, 2],\r\n  \"b\": {\"c\": \"d\"}\r\n}\r\n",
        "{\"a\":[1,2],\"b\":{\"c\":\"\\u0064\"}}",
    ] {
        assert_eq!(
            value(text),
            json!({"a": [1, 2], "b": {"c": "d"}}),
            "{text:?}"
        );
    }
    for (text, expected) in [
        (r#"{"a": "\/ \u00e4 \" \\ \t"}"#, "/ ä \" \\ \t"),
        (r#"{"a": "\ud83d\ude00"}"#, "😀"),
        (r#"{"a": "\\ud83d \uD83D\uDE00"}"#, "\\ud83d 😀"),
        (r#"{"a": "a: b # c"}"#, "a: b # c"),
    ] {
        assert_eq!(value(text)["a"], expected, "{text}");
    }
}

#[test]
fn line_ends_of_windows_are_line_ends() {
    let text = "a: 1\r\nb:\r\n- x\r\n- |\r\n  one\r\n  two\r\n---\r\nc: d\r\n";
    let documents = parse(text).unwrap();
    assert_eq!(
        documents[0].value,
        json!({"a": 1, "b": ["x", "one\ntwo\n"]})
    );
    assert_eq!(documents[1].value, json!({"c": "d"}));
    assert_eq!(
        documents[1].positions.find("c"),
        Place { line: 8, column: 1 }
    );
}

#[test]
fn what_is_no_yaml_is_explained_with_its_place() {
    for (text, start) in [
        ("a: b: c\n", "line 1, column 5: this is not valid YAML: "),
        ("a:\n\tb: 1\n", "line 2, column "),
        (
            "a: [1, 2\n",
            "line 1, column 4: this is not valid YAML: unclosed bracket",
        ),
        ("a: 'x\n", "line "),
        (
            r#"{"a": "\ud83d\ude00", "a": 2}"#,
            "line 1, column 23: the key \"a\" is there twice in the same object: remove one",
        ),
        (
            "a: 1\na: 2\n",
            "line 2, column 1: the key \"a\" is there twice in the same object: remove one",
        ),
        ("a: *b\n", "line 1, column 4: "),
        ("a: @b\n", "line 1, column 4: "),
    ] {
        let error = error(text);
        assert!(error.starts_with(start), "{text:?}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    assert!(
        error("a:\n\tb: 1\n").ends_with("indent with spaces, not with tabs"),
        "{}",
        error("a:\n\tb: 1\n")
    );
}

#[test]
fn a_text_costs_no_more_than_its_limits_allow() {
    let cases = [
        ("[".repeat(100_000), "nested more than 64 deep"),
        ("a: ".repeat(1000), "this is not valid YAML"),
        ("- ".repeat(100_000), "nested more than 64 deep"),
        ("{a: ".repeat(100_000), "nested more than 64 deep"),
        ("? ".repeat(100_000), "nested more than 64 deep"),
        ("x".repeat(MAX_BYTES + 1), "at most 1048576 are read"),
    ];
    for (text, expected) in cases {
        let start = Instant::now();
        let error = error(&text);
        assert!(error.contains(expected), "{text:.20}…: {error:.200}");
        assert!(
            start.elapsed().as_secs() < 20,
            "{text:.20}… took {:?}",
            start.elapsed()
        );
    }
    // JSON in one line, as programs write it.
    let pods: Vec<String> = (0..20_000)
        .map(|pod| format!("\"db-{pod}\": {{\"nodeName\": \"ü{pod}\"}}"))
        .collect();
    let start = Instant::now();
    let document = parse_one(&format!("{{{}}}", pods.join(", "))).unwrap();
    assert!(
        start.elapsed().as_secs() < 20,
        "one line took {:?}",
        start.elapsed()
    );
    assert_eq!(
        document.positions.find("db-1"),
        Place {
            line: 1,
            column: 30
        }
    );
    let deep = format!("{}1{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    assert!(parse(&deep).is_ok());
}

/// As far as both read the same version of YAML, that is.
#[test]
fn the_repositorys_manifests_are_read_as_by_another_parser() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut read = 0;
    let mut folders = vec![
        root.join("deploy"),
        root.join("testdata"),
        root.join(".github"),
    ];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "yaml")
            {
                let text = std::fs::read_to_string(&path).unwrap();
                let ours: Vec<Value> = parse(&text)
                    .unwrap()
                    .into_iter()
                    .map(|document| document.value)
                    .collect();
                let others: Vec<Value> = yaml_serde::Deserializer::from_str(&text)
                    .map(|document| serde::Deserialize::deserialize(document).unwrap())
                    .filter(|value: &Value| !value.is_null())
                    .collect();
                assert_eq!(ours, others, "{}", path.display());
                read += 1;
            }
        }
    }
    assert!(read > 20, "only {read} files");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[-a:?#&*!|>'\"%@,\\[\\]{}<~ \\n\\t0-9.😀]{0,80}") {
        if let Err(error) = parse(&text) {
            let lines = text.split('\n').count();
            prop_assert!((1..=lines + 1).contains(&error.place.line) && error.place.column >= 1, "{error}");
        }
    }

    #[test]
    fn no_path_is_too_strange_to_be_looked_for(path in "[a.\\[\\]\"0-9]{0,20}") {
        let positions = parse_one("a: {a.a: [1, {a: 2}], 0: {a: 1}}").unwrap().positions;
        prop_assert_eq!(positions.find(&path).line, 1);
    }
}
