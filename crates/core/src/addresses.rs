//! The addresses of Pods, and those in recorded annotations.

use std::net::IpAddr;

use serde_json::Value;

/// A Pod's addresses, the primary one first: those in `status.podIPs`, else `status.podIP`. Empty
/// texts are none.
pub fn pod_ips<'a>(
    listed: impl IntoIterator<Item = &'a str>,
    single: Option<&'a str>,
) -> Vec<String> {
    let listed = listed.into_iter().filter(|ip| !ip.is_empty());
    let ips: Vec<String> = listed.map(str::to_owned).collect();
    if !ips.is_empty() {
        return ips;
    }
    single
        .filter(|ip| !ip.is_empty())
        .map(str::to_owned)
        .into_iter()
        .collect()
}

/// The [addresses](pod_ips) in a Pod's `status`.
pub fn read_pod_ips(status: &Value) -> Vec<String> {
    let listed = status["podIPs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item["ip"].as_str());
    pod_ips(listed, status["podIP"].as_str())
}

/// The addresses in the value of an annotation: a JSON list, or a list with commas, each with or
/// without the length of a prefix. None if anything else is in it: such a value says no more than
/// that an address is part of something.
pub fn addresses_in(value: &str) -> Vec<IpAddr> {
    let listed: Vec<String> = serde_json::from_str(value).unwrap_or_else(|_| {
        value
            .split(',')
            .map(|item| item.trim().to_owned())
            .collect()
    });
    listed
        .iter()
        .map(|item| parse_address(item))
        .collect::<Option<_>>()
        .unwrap_or_default()
}

/// An address, with or without the length of a prefix.
fn parse_address(text: &str) -> Option<IpAddr> {
    text.split('/').next()?.parse().ok()
}

/// Whether a Pod has another value of a recorded annotation, or, if the value is addresses, none of
/// them.
pub fn differs(recorded: &str, own: Option<&str>, ips: &[String]) -> bool {
    let addresses = addresses_in(recorded);
    let ips: Vec<IpAddr> = ips.iter().filter_map(|ip| ip.parse().ok()).collect();
    match own.filter(|own| !own.is_empty()) {
        Some(own) if own != recorded => true,
        _ => {
            !addresses.is_empty() && !ips.is_empty() && !addresses.iter().any(|ip| ips.contains(ip))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pods_single_address_counts_only_without_a_list() {
        for (status, expected) in [
            (json!({}), &[][..]),
            (json!({"podIP": "", "podIPs": [{"ip": ""}, {}]}), &[]),
            (
                json!({"podIP": "10.0.0.7", "podIPs": [{"ip": ""}]}),
                &["10.0.0.7"],
            ),
            (
                json!({"podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}, {"ip": "fd00::7"}]}),
                &["10.0.0.7", "fd00::7"],
            ),
        ] {
            assert_eq!(read_pod_ips(&status), expected, "{status}");
        }
    }

    #[test]
    fn addresses_are_read_from_a_list_and_from_nothing_else() {
        let texts = |value| {
            addresses_in(value)
                .iter()
                .map(IpAddr::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(texts("10.0.0.7"), ["10.0.0.7"]);
        assert_eq!(texts("10.0.0.7/24, fd00::7"), ["10.0.0.7", "fd00::7"]);
        assert_eq!(texts(r#"["10.0.0.7","fd00::7"]"#), ["10.0.0.7", "fd00::7"]);
        for other in [
            "",
            "pool-a",
            "0a:58:0a:10:00:07",
            "10.0.0",
            "10.0.0.300",
            "[]x",
            "10.0.0.1,pool",
            "vlan-7",
        ] {
            assert_eq!(texts(other), [""; 0], "{other}");
        }
    }
}
