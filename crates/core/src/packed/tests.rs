use std::collections::BTreeMap;

use proptest::collection::btree_map;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::pps::PodState;

/// Texts that are hard to write into a table.
fn hostile() -> impl Strategy<Value = String> {
    let special = prop_oneof![
        Just(String::new()),
        Just("-".into()),
        Just("=".into()),
        Just("%".into()),
        Just("%2D".into()),
        Just("*".into()),
        Just(" ".into()),
        Just("\n".into()),
        Just("\u{85}\u{2028}\u{feff}".into()),
        Just("label:a=b".into()),
        Just(r#"["10.0.0.7","fd00::7"]"#.into()),
        Just("node-1".into()),
        Just("node-".into()),
        Just("é-é".into()),
    ];
    prop_oneof![
        special,
        "[a-c%*= \\-.]{0,5}",
        any::<String>(),
        "(node|zone)-[0-9]{1,2}(\\.example)?"
    ]
}

fn state() -> impl Strategy<Value = PodState> {
    let map = || btree_map(hostile(), hostile(), 0..4);
    (hostile(), map(), map()).prop_map(|(node_name, node_topology_labels, annotations)| PodState {
        node_name,
        node_topology_labels,
        annotations,
    })
}

fn states() -> impl Strategy<Value = BTreeMap<String, PodState>> {
    let pod = prop_oneof!["[a-b]{1,2}(\\.c)?-[0-9]{1,3}", "[a-b]{1,3}", hostile()];
    btree_map(pod, state(), 0..12)
}

/// The buckets of these states, by name.
fn pack(states: &BTreeMap<String, PodState>) -> BTreeMap<Bucket, String> {
    let mut buckets: BTreeMap<Bucket, Vec<Row<'_>>> = BTreeMap::new();
    for (pod, state) in states {
        buckets
            .entry(Bucket::of(pod))
            .or_default()
            .push(Row::of(pod, state));
    }
    buckets
        .into_iter()
        .map(|(bucket, rows)| (bucket, write_bucket(&rows)))
        .collect()
}

proptest! {
    #[test]
    fn both_forms_hold_the_same_states(states in states()) {
        let buckets = pack(&states);
        let mut unpacked = BTreeMap::new();
        for (bucket, text) in &buckets {
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ' || byte == b'\n'));
            unpacked.extend(read_bucket(*bucket, text).unwrap());
        }
        prop_assert_eq!(&unpacked, &states);
        let plain = json!({"podStates": states});
        for pod in states.keys().map(String::as_str).chain(["a-0", "a", ""]) {
            // What a field mask leaves: the Pod's bucket alone.
            let bucket = Bucket::of(pod);
            let one: BTreeMap<String, &String> = buckets.get(&bucket).map(|text| (bucket.to_string(), text)).into_iter().collect();
            let masked = json!({"packed": {"version": 1, "buckets": one}});
            prop_assert_eq!(recorded_state(&masked, pod), recorded_state(&plain, pod));
        }
    }

    #[test]
    fn a_text_that_was_cut_or_lacks_a_line_is_damaged(states in states(), at in any::<prop::sample::Index>()) {
        for (bucket, text) in pack(&states) {
            let cut = &text[..at.index(text.len())];
            let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
            lines.remove(1 + at.index(lines.len() - 1));
            for damaged in [cut, &lines.concat()] {
                prop_assert!(read_bucket(bucket, damaged).is_err(), "{:?} of {:?}", damaged, text);
                prop_assert!(find(bucket, damaged, "a-0").is_err());
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>(), pod in hostile()) {
        let bucket = Bucket::of(&pod);
        let _ = find(bucket, &text, &pod);
        if let Ok(states) = read_bucket(bucket, &text) {
            let rows: Vec<Row<'_>> = states.iter().map(|(pod, state)| Row::of(pod, state)).collect();
            prop_assert_eq!(read_bucket(bucket, &write_bucket(&rows)), Ok(states.clone()));
        }
    }

    #[test]
    fn every_name_has_a_bucket_that_a_mask_can_name(pod in hostile()) {
        let bucket = Bucket::of(&pod);
        let name = bucket.to_string();
        prop_assert_eq!(Bucket::parse(&name), Some(bucket));
        prop_assert!(!name.contains('.'));
    }
}

#[test]
fn a_bucket_can_be_read_by_people() {
    let states: BTreeMap<String, PodState> = serde_json::from_value(json!({
        "web-0": {"nodeName": "node-37", "nodeTopologyLabels": {"kubernetes.io/hostname": "node-37", "topology.kubernetes.io/zone": "eu-1a"},
            "annotations": {"example.io/ip": "10.16.0.17"}},
        "web-10": {"nodeName": "node-4", "nodeTopologyLabels": {"kubernetes.io/hostname": "node-4", "topology.kubernetes.io/zone": "eu-1b"}},
        "web-2": {"nodeName": "node-12", "nodeTopologyLabels": {"kubernetes.io/hostname": "other", "topology.kubernetes.io/zone": "eu-1a"},
            "annotations": {"example.io/ip": "10.16.0.9"}},
    }))
    .unwrap();
    let [(bucket, text)] = &pack(&states).into_iter().collect::<Vec<_>>()[..] else {
        panic!()
    };
    assert_eq!(bucket.to_string(), "ordinals-0");
    assert_eq!(
        text,
        "3 web-* node-* label:kubernetes.io/hostname=other label:topology.kubernetes.io/zone=eu-* \
         annotation:example.io/ip=10.16.0.*\n0 37 = 1a 17\n2 12 % 1a 9\n10 4 = 1b -\n"
    );
}

#[test]
fn refuses_what_is_damaged_and_says_where() {
    let bucket = Bucket::of("web-0");
    for (text, reason) in [
        ("", "its end is missing"),
        ("1 web-* n\n0 %", "its end is missing"),
        ("1 web-0\n", "line 1 cannot be read"),
        ("1 web-* n x=\n0 %\n", "line 1 cannot be read"),
        ("1 web-* n label:zone\n0 % a\n", "line 1 cannot be read"),
        (
            "2 web-* n\n0 %\n",
            "1 lines follow the first one, which says 2",
        ),
        (
            "1 web-* n\n0 %\n1 %\n",
            "2 lines follow the first one, which says 1",
        ),
        ("one web-* n\n0 %\n", "line 1 does not begin with a number"),
        (
            "1 web-* n label:zone=*\n0 %\n",
            "line 2 has another number of columns than line 1",
        ),
        (
            "1 web-* n label:zone=*\n0 % a b\n",
            "line 2 has another number of columns than line 1",
        ),
        ("2 web-* n\n0 %\n0 %\n", "line 3 repeats a Pod"),
        ("1 web-* n label:zone=*\n0 % %zz\n", "line 2 cannot be read"),
        ("1 web-* n label:zone=*\n0 % %ff\n", "line 2 cannot be read"),
        ("1 web-* n label:zone=*\n0 % é\n", "line 2 cannot be read"),
        ("1 web-* n label:zone=*\n0 - a\n", "line 2 cannot be read"),
        (
            "1 web-* n label:zone=* label:zone=*\n0 % a b\n",
            "line 2 has two values of one key",
        ),
    ] {
        let expected = format!("status.packed.buckets.ordinals-0 is damaged: {reason}");
        assert_eq!(
            read_bucket(bucket, text).unwrap_err().to_string(),
            expected,
            "{text}"
        );
        assert_eq!(
            find(bucket, text, "web-0").unwrap_err().to_string(),
            expected,
            "{text}"
        );
    }
    let elsewhere = read_bucket(bucket, "1 web-* n\n100 %\n")
        .unwrap_err()
        .to_string();
    assert!(
        elsewhere.ends_with("line 2 has a Pod that belongs into another bucket"),
        "{elsewhere}"
    );
}

#[test]
fn reads_no_other_version_and_no_other_shape() {
    let text = "1 web-0 n\n% %\n";
    let read = |packed: serde_json::Value| recorded_state(&json!({"packed": packed}), "web-0");
    assert!(
        read(json!({"version": 1, "buckets": {"ordinals-0": text}}))
            .unwrap()
            .is_some()
    );
    assert_eq!(read(json!({"version": 1})), Ok(None));
    for (packed, message) in [
        (
            json!({"version": 2}),
            "status.packed.version is 2, which this release cannot read",
        ),
        (
            json!({"version": 0}),
            "status.packed.version is 0, which no release writes",
        ),
        (
            json!({"buckets": {"ordinals-0": text}}),
            "status.packed.version is missing",
        ),
        (json!([]), "status.packed is no object"),
        (
            json!({"version": 1, "buckets": {"ordinals-0": 7}}),
            "status.packed.buckets.ordinals-0 is damaged",
        ),
    ] {
        let error = read(packed).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    let error = recorded_state(&json!({"podStates": {"web-0": 7}}), "web-0")
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("status.podStates.web-0: invalid type: integer `7`"),
        "{error}"
    );
}

#[test]
fn a_bucket_stands_for_little_more_than_its_length() {
    let bucket = Bucket::of("x-0");
    let long = "x".repeat(1 << 20);
    let error = |text: &str| read_bucket(bucket, text).unwrap_err().to_string();
    // What the first line repeats has at most 256 bytes, however they are written.
    let texts = |length: usize| {
        let affix = "%78".repeat(length);
        [
            format!("1 {affix}-* n\n0 %\n"),
            format!("1 x-* *{affix}\n0 a\n"),
            format!("1 x-* n label:a={affix}*\n0 % a\n"),
        ]
    };
    for (short, long) in texts(255).into_iter().zip(texts(257)) {
        assert!(
            read_bucket(bucket, &short).is_ok() && find(bucket, &short, "x-0").is_ok(),
            "{short}"
        );
        assert!(error(&long).ends_with("line 1 cannot be read"), "{long}");
        assert!(find(bucket, &long, "x-0").is_err(), "{long}");
    }
    // All that an object's buckets stand for has a limit.
    let (short, rows) = ("x".repeat(256), 30_000);
    let line = |row: usize| format!("{row}-0 % {row}\n");
    let lines: String = (0..rows).map(line).collect();
    let text = format!("{rows} {short}* n annotation:a={short}*{short}\n{lines}");
    let mut length = 0;
    let mut read = || read_states(bucket, &text, &mut length, |_, _| true);
    assert_eq!((read(), read()), (Ok(()), Ok(())));
    assert_eq!(
        read().unwrap_err().to_string(),
        "status.packed.buckets.ordinals-0 is damaged: the object's states have more than 67108864 \
         bytes"
    );
    assert!(error(&format!("1 x-0 * label:a=\n% {long} =\n")).ends_with("line 2 cannot be read"));
    // What the writer puts there can be read, whatever the states are.
    let state = |node: &str| PodState {
        node_name: node.into(),
        node_topology_labels: [("a".into(), long.clone())].into(),
        annotations: [("b".into(), long.clone())].into(),
    };
    let states: BTreeMap<String, PodState> = (0..10)
        .map(|pod| (format!("x-{pod}"), state(&long)))
        .collect();
    let text = pack(&states).remove(&bucket).unwrap();
    assert!(text.len() > 30 << 20 && read_bucket(bucket, &text).as_ref() == Ok(&states));
}

#[test]
fn pod_states_take_precedence() {
    let mut status = json!({
        "podStates": {"web-0": {"nodeName": "new"}, "web-1": null},
        "packed": {"version": 1, "buckets": {"ordinals-0": "2 web-* old\n0 %\n1 %\n"}},
    });
    let node = |status: &Value, pod: &str| recorded_state(status, pod).unwrap().unwrap().node_name;
    assert_eq!(
        (node(&status, "web-0"), node(&status, "web-1")),
        ("new".into(), "old".into())
    );
    status["podStates"]["web-0"] = json!({});
    assert_eq!(node(&status, "web-0"), "");
}

#[test]
fn only_names_as_they_are_written_stand_for_a_bucket() {
    for name in [
        "ordinals-102300",
        "ordinals-0",
        "ordinals-100",
        "hash-0",
        "hash-63",
    ] {
        assert_eq!(
            Bucket::parse(name)
                .map(|bucket| bucket.to_string())
                .as_deref(),
            Some(name)
        );
    }
    for name in [
        "",
        "ordinals-",
        "ordinals-1",
        "ordinals-00",
        "ordinals-+0",
        "ordinals-102400",
        "hash-64",
        "hash-007",
        "other-0",
    ] {
        assert_eq!(Bucket::parse(name), None, "{name}");
    }
    let all: std::collections::BTreeSet<Bucket> = (0..110_000)
        .map(|ordinal| Bucket::of(&format!("w-{ordinal}")))
        .collect();
    assert_eq!(all.len() + 64, Bucket::COUNT);
    for name in ["w-4294967296", "w-007", "w-", "w", "w-1x", ""] {
        assert!(Bucket::of(name).to_string().starts_with("hash-"), "{name}");
    }
}

#[test]
fn a_state_takes_few_bytes() {
    let pods: Vec<String> = (0..1000)
        .map(|ordinal| format!("database-{ordinal}"))
        .collect();
    let states: BTreeMap<String, PodState> = pods.iter().enumerate().map(|(at, pod)| {
        let node = format!("ip-10-0-{}-{}.eu-central-1.compute.internal", at / 200, at % 200);
        let state = json!({"nodeName": node, "nodeTopologyLabels": {"kubernetes.io/hostname": node, "topology.kubernetes.io/zone": format!("eu-central-1{}", ["a", "b", "c"][at % 3])},
            "annotations": {"ovn.kubernetes.io/ip_address": format!("10.16.{}.{}", at / 250, at % 250)}});
        (pod.clone(), serde_json::from_value(state).unwrap())
    }).collect();
    let bytes: usize = pack(&states)
        .iter()
        .map(|(bucket, text)| json!({bucket.to_string(): text}).to_string().len())
        .sum();
    assert!(bytes < 40 * 1000, "{bytes}");
}
