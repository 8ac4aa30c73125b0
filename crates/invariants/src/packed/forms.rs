//! The same states in each form.

use std::collections::BTreeMap;

use arbitrary::{Arbitrary, Result, Unstructured};
use pps_core::PodState;
use pps_core::packed::{Bucket, Row, read_bucket, recorded_state, write_bucket};
use serde_json::{Map, Value, json};

use super::{PODS, assert_answers, bucket_of, state_of};

type States = BTreeMap<String, PodState>;

/// The policy gives a Pod the same, whatever form its state has, and whether the host applies masks. So do the readers of
/// core.
pub(super) fn check(seed: &[u8]) {
    let mut u = Unstructured::new(seed);
    let Ok((states, older, pods)) = generate(&mut u) else { return };
    for pod in pods {
        let state = json!(states.get(&pod));
        for (form, status) in forms(&states, &older, &pod) {
            assert_eq!(state_of(&status, &pod).as_ref(), Some(&state), "{form}: {pod:?} in {status}");
            let read = recorded_state(&status, &pod);
            assert_eq!(read.as_ref().ok(), Some(&states.get(&pod).cloned()), "{form}: {read:?}");
            assert_answers(&pod, &status, Some(&state));
        }
    }
}

/// The states, older ones of some of the Pods, and the Pods that ask: those that have a state, and another one.
fn generate(u: &mut Unstructured) -> Result<(States, States, Vec<String>)> {
    let (mut states, mut older) = (States::new(), States::new());
    for _ in 0..u.int_in_range(1..=6)? {
        let pod = name(u)?;
        states.insert(pod.clone(), state(u)?);
        older.insert(pod, state(u)?);
    }
    let mut pods: Vec<String> = states.keys().cloned().collect();
    let other = name(u)?;
    if !states.contains_key(&other) {
        pods.push(other);
    }
    Ok((states, older, pods))
}

fn name(u: &mut Unstructured) -> Result<String> {
    Ok(match u.int_in_range(0..=7)? {
        0..=3 => (*u.choose(&PODS)?).to_owned(),
        4 => format!("web-{}", u32::arbitrary(u)?),
        5 => format!("web.eu-{}", u8::arbitrary(u)?),
        6 => format!("web-{}", u.int_in_range(95..=105)?),
        _ => String::arbitrary(u)?,
    })
}

fn state(u: &mut Unstructured) -> Result<PodState> {
    Ok(PodState {
        node_name: text(u)?,
        node_topology_labels: map(u, &["zone", "host", "rack", "a"])?,
        annotations: map(u, &["ip", "a"])?,
    })
}

fn map(u: &mut Unstructured, keys: &[&str]) -> Result<BTreeMap<String, String>> {
    let mut map = BTreeMap::new();
    for key in keys {
        if bool::arbitrary(u)? {
            map.insert((*key).to_owned(), text(u)?);
        }
    }
    if u.ratio(1, 8)? {
        map.insert(String::arbitrary(u)?, text(u)?);
    }
    Ok(map)
}

fn text(u: &mut Unstructured) -> Result<String> {
    const TEXTS: [&str; 14] = [
        "",
        "-",
        "=",
        "%",
        "%2D",
        "*",
        " ",
        "\n",
        "node-1",
        "node-2.example",
        "10.0.0.7",
        "é-é",
        "\u{85}\u{2028}",
        "label:a=b",
    ];
    if u.ratio(1, 8)? { String::arbitrary(u) } else { Ok((*u.choose(&TEXTS)?).to_owned()) }
}

/// A status for each form in which these states can be stored.
fn forms(states: &States, older: &States, pod: &str) -> Vec<(&'static str, Value)> {
    let plain = json!(states);
    let some = |keep: bool| -> States {
        let chosen = states.iter().filter(|(name, _)| (bucket_of(name) == bucket_of(pod)) == keep);
        chosen.map(|(name, state)| (name.clone(), state.clone())).collect()
    };
    vec![
        ("plain", json!({"podStates": plain})),
        ("compact", json!({"packed": packed(states)})),
        ("compact, and an emptied podStates", json!({"podStates": {}, "packed": packed(states)})),
        ("both, in the middle of a move", json!({"podStates": plain, "packed": packed(states)})),
        ("newer plain states beside older compact ones", {
            let older = older.iter().filter(|(name, _)| *name != pod || states.contains_key(*name));
            let older = older.map(|(name, state)| (name.clone(), state.clone())).collect();
            json!({"podStates": plain, "packed": packed(&older)})
        }),
        ("some in one form, the others in the other", {
            json!({"podStates": some(true), "packed": packed(&some(false))})
        }),
        ("some in the other form, the others in the one", {
            json!({"podStates": some(false), "packed": packed(&some(true))})
        }),
        ("an entry that is null", {
            let mut plain = Map::new();
            plain.insert(pod.to_owned(), Value::Null);
            json!({"podStates": plain, "packed": packed(states)})
        }),
    ]
}

fn packed(states: &States) -> Value {
    let mut buckets: BTreeMap<Bucket, Vec<Row<'_>>> = BTreeMap::new();
    for (pod, state) in states {
        buckets.entry(Bucket::of(pod)).or_default().push(Row::of(pod, state));
    }
    let mut texts = Map::new();
    for (bucket, rows) in buckets {
        let text = write_bucket(&rows);
        let read = read_bucket(bucket, &text).unwrap();
        assert!(read.len() == rows.len() && read.iter().all(|(pod, state)| states.get(pod) == Some(state)));
        texts.insert(bucket.to_string(), text.into());
    }
    json!({"version": 1, "buckets": texts})
}
