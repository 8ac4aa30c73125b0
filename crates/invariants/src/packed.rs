//! The text of a bucket of the compact form, read by the product and by an independent reader.

use std::collections::BTreeMap;

use pps_core::packed::{Bucket, Row, find, read_bucket, write_bucket};
use serde_json::{Map, Value, json};

/// Names of Pods: with dots, without ordinals, and with ordinals at the limits of buckets.
const PODS: [&str; 16] = [
    "web-0",
    "web-99",
    "web-100",
    "web-102399",
    "web-102400",
    "web-4294967295",
    "web-4294967296",
    "web-007",
    "web.eu-7",
    "web.0",
    "a.b.c",
    "web",
    "queue-x7k2p",
    "wéb-1",
    "web-1 \n",
    "",
];

/// The first byte selects a Pod, and the bytes after it are the text of its bucket. It is read as
/// this module reads it, or refused: by the sidecar, which reads all of it, and by the policy,
/// which reads the line of one Pod.
pub fn check(data: &[u8]) {
    let Some((choice, text)) = data.split_first() else {
        return;
    };
    let pod = PODS[usize::from(*choice) % PODS.len()];
    let text = &*String::from_utf8_lossy(text);
    let bucket = Bucket::of(pod);
    assert_eq!(bucket.to_string(), bucket_of(pod), "{pod:?}");
    assert_eq!(Bucket::parse(&bucket_of(pod)), Some(bucket));
    let expected = Table::read(text).map(|table| table.states(pod));
    let (all, one) = match &expected {
        Some((all, one)) => (all.as_ref(), one.as_ref()),
        None => (None, None),
    };
    let read = read_bucket(bucket, text).ok().map(|states| json!(states));
    assert_eq!(read.as_ref(), all, "{text:?}");
    let found = find(bucket, text, pod).ok().map(|state| json!(state));
    assert_eq!(found.as_ref(), one, "{pod:?} in {text:?}");
    if let Ok(states) = read_bucket(bucket, text) {
        let rows: Vec<Row<'_>> = states
            .iter()
            .map(|(pod, state)| Row::of(pod, state))
            .collect();
        let again = write_bucket(&rows);
        assert_eq!(read_bucket(bucket, &again), Ok(states), "{again:?}");
    }
}

/// The name of the bucket of a Pod.
fn bucket_of(pod: &str) -> String {
    let digits = pod.rsplit_once('-').map_or("", |(_, digits)| digits);
    // Without a sign and leading zeros.
    if let Some(number) = digits
        .parse::<u32>()
        .ok()
        .filter(|number| number.to_string() == digits)
    {
        return format!("ordinals-{}", number / 100 % 1024 * 100);
    }
    let mut hash: u32 = 2_166_136_261;
    for byte in pod.as_bytes() {
        hash = (hash ^ u32::from(*byte)).wrapping_mul(16_777_619);
    }
    format!("hash-{}", hash % 64)
}

/// The state of a Pod in a status as the host sends it, in either form. `None` if the policy must
/// not read it.
pub(crate) fn state_of(status: &Value, pod: &str) -> Option<Value> {
    let (states, packed) = (&status["podStates"], &status["packed"]);
    let buckets = &packed["buckets"];
    let is_map_or_missing = |value: &Value| matches!(value, Value::Null | Value::Object(_));
    if !is_map_or_missing(status) || !is_map_or_missing(states) {
        return None;
    }
    if !states[pod].is_null() || packed.is_null() {
        return Some(states[pod].clone());
    }
    if packed["version"].as_i64() != Some(1) || !is_map_or_missing(buckets) {
        return None;
    }
    match &buckets[bucket_of(pod)] {
        Value::Null => Some(Value::Null),
        bucket => Table::read(bucket.as_str()?)?.states(pod).1,
    }
}

/// Whether an object says that it has the compact form and does not show it, or as many states in
/// the other form as it counts.
pub(crate) fn hides_states(object: &Value) -> bool {
    let status = &object["status"];
    let shown = status["podStates"].as_object().map_or(0, Map::len);
    let shows_all = status["recorded"]
        .as_u64()
        .is_some_and(|count| shown > 0 && count <= shown as u64);
    let managers = object["metadata"]["managedFields"].as_array();
    let is_compact = managers
        .into_iter()
        .flatten()
        .any(|manager| manager["fieldsV1"]["f:status"].get("f:packed").is_some());
    is_compact && status["packed"].is_null() && !shows_all
}

/// A bucket as this module reads it.
struct Table<'a> {
    columns: Vec<(&'a str, String, [String; 2])>,
    rows: Vec<(String, Vec<&'a str>)>,
}

impl<'a> Table<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        let mut head = lines.next()?.split(' ');
        let count: usize = head.next()?.parse().ok()?;
        let mut columns = Vec::new();
        for (at, word) in head.enumerate() {
            let (kind, word) = if at < 2 {
                ("", word)
            } else {
                word.split_once(':')?
            };
            let (key, word) = if at < 2 {
                ("", word)
            } else {
                word.split_once('=')?
            };
            if at >= 2 && kind != "label" && kind != "annotation" {
                return None;
            }
            let (prefix, suffix) = word.split_once('*').unwrap_or((word, ""));
            let affixes = [decode(prefix)?, decode(suffix)?];
            if affixes.iter().any(|affix| affix.len() > 256) {
                return None;
            }
            columns.push((kind, decode(key)?, affixes));
        }
        let mut table = Self {
            columns,
            rows: Vec::new(),
        };
        for line in lines {
            let cells: Vec<&str> = line.split(' ').collect();
            if cells.len() != table.columns.len() {
                return None;
            }
            table.rows.push((table.value(0, cells.first()?)?, cells));
        }
        (table.columns.len() >= 2 && table.rows.len() == count).then_some(table)
    }

    /// The value of a cell that has one of its own.
    fn value(&self, at: usize, cell: &str) -> Option<String> {
        let [prefix, suffix] = &self.columns[at].2;
        let middle = match cell {
            "" | "-" | "=" => return None,
            "%" => String::new(),
            _ => decode(cell)?,
        };
        Some(format!("{prefix}{middle}{suffix}"))
    }

    fn state(&self, cells: &[&str]) -> Option<Value> {
        let node = self.value(1, cells[1])?;
        let mut maps = BTreeMap::from([("label", Map::new()), ("annotation", Map::new())]);
        for (at, cell) in cells
            .iter()
            .enumerate()
            .skip(2)
            .filter(|(_, cell)| **cell != "-")
        {
            let (kind, key, _) = &self.columns[at];
            // No longer name is repeated.
            let value = if *cell == "=" && *kind == "label" && node.len() <= 256 {
                node.clone()
            } else {
                self.value(at, cell)?
            };
            if maps
                .get_mut(kind)?
                .insert(key.clone(), value.into())
                .is_some()
            {
                return None;
            }
        }
        // As a state is serialized: without what is empty.
        let mut state = Map::new();
        if !node.is_empty() {
            state.insert("nodeName".into(), node.into());
        }
        for (kind, field) in [
            ("label", "nodeTopologyLabels"),
            ("annotation", "annotations"),
        ] {
            if let Some(map) = maps.remove(kind).filter(|map| !map.is_empty()) {
                state.insert(field.into(), map.into());
            }
        }
        Some(state.into())
    }

    /// All states, if all of them can be read and belong into the bucket of `pod`; and that of
    /// `pod`.
    fn states(&self, pod: &str) -> (Option<Value>, Option<Value>) {
        let mut all = Some(Map::new());
        let mut one = Some(Value::Null);
        for (name, cells) in &self.rows {
            let state = self.state(cells);
            if name == pod {
                one = one.filter(Value::is_null).and_then(|_| state.clone());
            }
            let fits = bucket_of(name) == bucket_of(pod);
            all = all
                .filter(|all| fits && !all.contains_key(name))
                .and_then(|mut all| {
                    all.insert(name.clone(), state?);
                    Some(all)
                });
        }
        (all.map(Value::from), one)
    }
}

/// A word of printable ASCII, in which `%` and two digits stand for a byte.
fn decode(word: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = word.as_bytes();
    while let [byte, after @ ..] = rest {
        match (byte, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                bytes.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
                rest = after;
            }
            (b'%', _) => return None,
            (b'!'..=b'~', _) => {
                bytes.push(*byte);
                rest = after;
            }
            _ => return None,
        }
    }
    String::from_utf8(bytes).ok()
}
