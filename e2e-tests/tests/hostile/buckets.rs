//! Buckets of the compact form that no sidecar writes.

use serde_json::{Value, json};

use super::cases::{HostileCase, NO_OBJECT, Verdict};

const MEGABYTE: usize = 1 << 20;
/// The state of the Pod that asks, as a column for each key of the spec, and as a line.
const COLUMNS: &str = "web-* node-1 label:zone=* label:host=* annotation:ip=*";
const LINE: &str = "0 % a h 10.0.0.7\n";

pub(super) fn all() -> Vec<HostileCase> {
    let holding = |name: &str, verdict: Verdict, bucket: Value| {
        HostileCase::new(name, verdict).with_object(|object| {
            object["status"] = json!({"packed": {"version": 1, "buckets": {"ordinals-0": bucket}}});
        })
    };
    let damaged = |name: &str, text: String| holding(name, NO_OBJECT, text.into());
    let changed = |name: &str, text: String| holding(name, Verdict::Changed, text.into());
    let of_version = |version: Value| {
        HostileCase::new(&format!("version {version} of the compact form"), NO_OBJECT).with_object(
            |object| object["status"] = json!({"packed": {"version": version, "buckets": {}}}),
        )
    };
    let numbered =
        |line: fn(usize) -> String, count: usize| (1..=count).map(line).collect::<String>();
    let cells = |cell: &str, count: usize| cell.repeat(count);
    let columns =
        |column: fn(usize) -> String, count: usize| (0..count).map(column).collect::<String>();
    let many_columns = columns(|at| format!(" annotation:key-{at}=*"), 1000);
    let columns_of_the_node = |count: usize| columns(|at| format!(" label:{at}="), count);
    let ending_with = |length: usize| {
        let (end, lines) = (
            "x".repeat(length),
            numbered(|pod| format!("{pod} % a h 1\n"), 999),
        );
        format!(
            "1000 web-* node-1 label:zone=* label:host=* annotation:ip=*{end}\n0 % a h 1\n{lines}"
        )
    };
    let mut cases = vec![
        damaged(
            "a bucket of two megabytes in one line",
            "x".repeat(2 * MEGABYTE),
        ),
        damaged(
            "a bucket whose first line is a million blanks",
            format!("1{}\n0 %\n", " ".repeat(MEGABYTE)),
        ),
        damaged(
            "a bucket whose last line is a million blanks",
            format!("1 {COLUMNS}\n{}\n", " ".repeat(MEGABYTE)),
        ),
        damaged(
            "a bucket of two million empty lines",
            "\n".repeat(2 * MEGABYTE),
        ),
        damaged(
            "a bucket with a megabyte of digits for its number of Pods",
            format!("{} {COLUMNS}\n{LINE}", "9".repeat(MEGABYTE)),
        ),
        damaged(
            "a bucket with half an escape",
            format!("1 {COLUMNS}\n0 % a h {}%4\n", "%41".repeat(300_000)),
        ),
        damaged(
            "a bucket with bytes that are not UTF-8",
            format!("1 {COLUMNS}\n0 % a h {}\n", "%FF".repeat(300_000)),
        ),
        changed(
            "an annotation of a megabyte of escapes",
            format!("1 {COLUMNS}\n0 % a h {}\n", "%C3%A9".repeat(150_000)),
        ),
        changed("a bucket of 50,000 Pods", {
            format!(
                "50001 {COLUMNS}\n{LINE}{}",
                numbered(|pod| format!("{pod} % a h 10.0.0.7\n"), 50_000)
            )
        }),
        damaged("a bucket of 50,000 Pods and the first one again", {
            format!(
                "50002 {COLUMNS}\n{LINE}{}{LINE}",
                numbered(|pod| format!("{pod} % a h 10.0.0.7\n"), 50_000)
            )
        }),
        changed("a bucket of 1,000 columns and 1,000 Pods", {
            let line = |pod: usize| format!("{pod} % a h 10.0.0.7{}\n", " -".repeat(1000));
            let lines: String = (0..1000).map(line).collect();
            format!("1000 {COLUMNS}{many_columns}\n{lines}")
        }),
        changed("a bucket of 100,000 columns", {
            let columns = columns(|at| format!(" annotation:{at}=*"), 100_000);
            format!(
                "1 {COLUMNS}{columns}\n{}{}\n",
                LINE.trim_end(),
                cells(" a", 100_000)
            )
        }),
        damaged("200,000 columns of one key", {
            format!(
                "1 {COLUMNS}{}\n{}{}\n",
                " label:a=*".repeat(100_000),
                LINE.trim_end(),
                cells(" a", 100_000)
            )
        }),
        // Each Pod would be as large as the first line.
        damaged("200,000 Pods whose names begin with a megabyte", {
            format!(
                "200000 {}* n\n{}",
                "x".repeat(MEGABYTE),
                "a %\n".repeat(200_000)
            )
        }),
        damaged(
            "1,000 Pods whose values end with a megabyte",
            ending_with(MEGABYTE),
        ),
        damaged(
            "1,000 Pods whose values end with one byte too many",
            ending_with(257),
        ),
        changed(
            "1,000 Pods whose values end with as much as can be repeated",
            ending_with(256),
        ),
        // Each label would be as large as the node's name.
        damaged("50,000 labels that are a node's name of a megabyte", {
            let node = "x".repeat(MEGABYTE);
            format!(
                "1 web-0 *{}\n% {node}{}\n",
                columns_of_the_node(50_000),
                cells(" =", 50_000)
            )
        }),
        holding("a number for a bucket", NO_OBJECT, 7.into()),
        holding(
            "a list for a bucket",
            NO_OBJECT,
            vec!["web-0"; 100_000].into(),
        ),
    ];
    cases.extend(
        [
            json!(2),
            json!(0),
            json!(-1),
            json!("1"),
            json!(1.5),
            json!([1]),
            json!(u64::MAX),
            Value::Null,
        ]
        .map(of_version),
    );
    // Each beginning of a bucket.
    let text = format!("2 {COLUMNS}\n{LINE}1 % a h 10.0.0.8\n");
    cases.extend(
        (0..text.len())
            .map(|end| damaged(&format!("a bucket truncated at {end}"), text[..end].into())),
    );
    cases
}
