//! What a Pod that has landed got back of what was recorded, and whether it is recorded again.

use std::collections::BTreeMap;
use std::net::IpAddr;

use pps_core::PodState;

use crate::decide::hand::Hand;
use crate::snapshot::Pod;

/// Whether the node of a Pod is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// It is, or nobody wants it to be.
    Done,
    /// It is once the Pod is Ready.
    NotReady,
    /// It should be: the sidecar is late, or does not run.
    Late,
}

impl Record {
    /// Reads it from the Pod and its recorded state.
    pub fn of(pod: &Pod, state: Option<&PodState>) -> Self {
        if pod.is_exempt() || state.is_some_and(|state| !state.node_name.is_empty()) {
            Self::Done
        } else if pod.is_ready() && !pod.is_terminating() {
            Self::Late
        } else {
            Self::NotReady
        }
    }
}

/// That a Pod is not recorded after so many seconds.
pub fn not_recorded(pod: &str, seconds: u64, hand: &Hand) -> String {
    format!("Pod {pod} is not recorded after {seconds} s; to find out why it is not: {}", hand.check())
}

/// Whether what is recorded names an address, which a Pod has only when it starts.
pub fn has_address(recorded: &BTreeMap<String, String>) -> bool {
    recorded.values().any(|value| !addresses(value).is_empty())
}

/// What became of the recorded annotations: lines, and whether each is as it should be. A network plugin may take no notice
/// of an annotation, and write another one.
pub fn brought_back(recorded: &BTreeMap<String, String>, pod: &Pod) -> Vec<(bool, String)> {
    let mut lines = Vec::new();
    for (key, value) in recorded {
        lines.push(match pod.annotation(key) {
            Some(now) if now == value => (true, format!("annotation injected again: {key}: {value}")),
            Some(now) => (false, format!("annotation {key} is {now}, and not {value} as recorded")),
            None => (false, format!("annotation {key} is not there; recorded was {value}")),
        });
    }
    let wanted: Vec<IpAddr> = recorded.values().flat_map(|value| addresses(value)).collect();
    let ips = pod.ips();
    let is_wanted = |ip: &String| ip.parse().is_ok_and(|ip| wanted.contains(&ip));
    let is_said =
        |ip: &String| lines.iter().any(|(is_as_recorded, line)| !is_as_recorded && line.contains(ip));
    if !wanted.is_empty() && !ips.is_empty() && !ips.iter().any(|ip| is_wanted(ip) || is_said(ip)) {
        let wanted: Vec<String> = wanted.iter().map(IpAddr::to_string).collect();
        lines.push((
            false,
            format!("its address is {}, and not {} as recorded", ips.join(", "), wanted.join(", ")),
        ));
    }
    lines
}

/// The addresses in a value, which may be a list in several formats. Those of a MAC or a version are none.
fn addresses(value: &str) -> Vec<IpAddr> {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == '.' || c == ':';
    value.split(|c: char| !is_part(c)).filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(annotations: &serde_json::Value, ip: &str) -> Pod {
        Pod::read(json!({"metadata": {"name": "db-0", "namespace": "prod", "annotations": annotations},
            "status": {"podIP": ip}}))
        .unwrap()
    }

    #[test]
    fn what_was_not_brought_back_is_said() {
        let recorded = BTreeMap::from([("cni/ip".to_owned(), "10.0.0.7".to_owned())]);
        let lines =
            |annotations: serde_json::Value, ip: &str| brought_back(&recorded, &pod(&annotations, ip));
        let injected = (true, "annotation injected again: cni/ip: 10.0.0.7".to_owned());
        let address = (false, "its address is 10.0.0.9, and not 10.0.0.7 as recorded".to_owned());
        for ip in ["10.0.0.7", ""] {
            assert_eq!(lines(json!({"cni/ip": "10.0.0.7"}), ip), std::slice::from_ref(&injected), "{ip}");
        }
        assert_eq!(lines(json!({"cni/ip": "10.0.0.7"}), "10.0.0.9"), [injected, address]);
        let other = (false, "annotation cni/ip is 10.0.0.9, and not 10.0.0.7 as recorded".to_owned());
        assert_eq!(lines(json!({"cni/ip": "10.0.0.9"}), "10.0.0.9"), [other]);
        let none = (false, "annotation cni/ip is not there; recorded was 10.0.0.7".to_owned());
        assert_eq!(lines(json!({}), "10.0.0.7"), [none]);
    }

    #[test]
    fn a_ready_pod_is_recorded_sooner_or_later() {
        let at = |node: &str| PodState { node_name: node.into(), ..PodState::default() };
        let of = |annotations: serde_json::Value, ready: &str, state: Option<&PodState>| {
            let mut object = pod(&annotations, "").object().clone();
            object["status"]["conditions"] = json!([{"type": "Ready", "status": ready}]);
            Record::of(&Pod::read(object).unwrap(), state)
        };
        assert_eq!(of(json!({}), "True", Some(&at("node-1"))), Record::Done);
        assert_eq!(of(json!({}), "False", Some(&at("node-1"))), Record::Done, "nothing was given up");
        for state in [None, Some(&at(""))] {
            assert_eq!(of(json!({}), "True", state), Record::Late);
            assert_eq!(of(json!({}), "False", state), Record::NotReady);
            assert_eq!(of(json!({pps_core::RECORD_ANNOTATION: "false"}), "True", state), Record::Done);
        }
        assert_eq!(
            not_recorded("db-0", 10, &Hand::default()),
            "Pod db-0 is not recorded after 10 s; to find out why it is not: kubectl pps check"
        );
    }

    #[test]
    fn addresses_are_found_in_lists_and_nowhere_else() {
        let has = |value: &str| has_address(&[("a".to_owned(), value.to_owned())].into());
        assert!(
            has("10.0.0.7") && has("fd00::7") && has(r#"["10.0.0.7","fd00::7"]"#) && has("10.0.0.7,fd00::7")
        );
        assert!(!has("") && !has("x") && !has("1.2.3") && !has("0a:58:0a:00:00:07") && !has("vlan-7"));
        assert_eq!(addresses("10.0.0.7/24"), ["10.0.0.7".parse::<IpAddr>().unwrap()]);
    }
}
