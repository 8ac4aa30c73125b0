//! The size of a PPS in the API server's storage.

/// The size below which an object is kept, in bytes. A change of an object reaches the
/// `PolicyServer` with two copies of it, in a request of at most 2 MiB. etcd stores 1.5 MiB by
/// default.
pub const DEFAULT_LIMIT: usize = 1000 * 1024;

/// The size of a Pod's entry in `podStates`, in bytes of JSON, without managed fields. With
/// OpenKruise's schema they list every entry, in about as many bytes.
pub fn entry_size<'a>(
    pod: &str,
    node: &str,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
    annotations: impl Iterator<Item = (&'a str, &'a str)>,
) -> usize {
    let node = if node.is_empty() {
        0
    } else {
        "\"nodeName\":,".len() + text(node)
    };
    // "pod":{…},
    text(pod) + 4 + node + map("nodeTopologyLabels", labels) + map("annotations", annotations)
}

/// The size of a bucket of the compact form, in bytes of JSON.
pub fn bucket_size(bucket: &str, content: &str) -> usize {
    text(bucket) + text(content) + 2
}

/// "name":{…},
fn map<'a>(name: &str, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> usize {
    let pairs: usize = pairs.map(|(key, value)| text(key) + text(value) + 2).sum();
    if pairs == 0 {
        0
    } else {
        text(name) + 4 + pairs - 1
    }
}

/// A string as Go encodes it in JSON.
fn text(text: &str) -> usize {
    2 + text.len() + text.bytes().map(escape_length).sum::<usize>()
}

/// How many bytes Go adds to a byte, to escape it.
fn escape_length(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 1,
        b'<' | b'>' | b'&' | 0..=0x1f => 5,
        _ => 0,
    }
}

/// An object is nearly full from this percentage on.
const NEARLY: usize = 90;
/// An object that is nearly full stays so until it is below this percentage.
const NO_LONGER: usize = 85;
/// The percentage is reported in these steps, so that the condition does not change with every Pod.
const STEP: usize = 5;

/// How full an object is, in percent, if it is nearly full. `was_nearly` is whether it was nearly
/// full before.
pub fn nearly_full(bytes: usize, limit: usize, was_nearly: bool) -> Option<usize> {
    let percent = bytes.saturating_mul(100) / limit.max(1);
    (percent >= if was_nearly { NO_LONGER } else { NEARLY }).then_some(percent / STEP * STEP)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pps::PodState;

    fn size(state: &Value) -> usize {
        let state: PodState = serde_json::from_value(state.clone()).unwrap();
        let [labels, annotations] = [&state.node_topology_labels, &state.annotations].map(|map| {
            map.iter()
                .map(|(key, value)| (key.as_str(), value.as_str()))
        });
        entry_size("w-0", &state.node_name, labels, annotations)
    }

    #[test]
    fn size_of_an_entry_is_that_of_its_json() {
        for entry in [
            json!({}),
            json!({"nodeName": "n"}),
            json!({"nodeName": "n", "annotations": {"ip": "[\"10.0.0.7\"]"}}),
            json!({"nodeName": "n", "nodeTopologyLabels": {"zone": "a", "host": "n"}, "annotations": {"ip": "1"}}),
        ] {
            let length = json!({"w-0": entry}).to_string().len() - 1;
            let estimate = size(&entry);
            assert!(
                (length..length + 2).contains(&estimate),
                "{entry}: {length} {estimate}"
            );
        }
        let table = "1 web-* n\n0 %22\"\n";
        assert_eq!(
            bucket_size("ordinals-0", table),
            json!({"ordinals-0": table}).to_string().len() - 1
        );
        assert_eq!(text("a\"<é"), "\"a\\\"\\u003cé\"".len());
    }

    #[test]
    fn reports_nearly_full_in_steps_and_with_hysteresis() {
        let at = |percent: usize, was: bool| nearly_full(percent * 10, 1000, was);
        assert_eq!(
            (at(89, false), at(90, false), at(94, false)),
            (None, Some(90), Some(90))
        );
        assert_eq!((at(85, true), at(84, true)), (Some(85), None));
        assert_eq!(nearly_full(900 * 1024, DEFAULT_LIMIT, false), Some(90));
        assert!(nearly_full(usize::MAX, 0, false).is_some());
    }
}
