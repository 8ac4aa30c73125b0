//! The addresses of Pods, as a network plugin assigns them.

use core::net::IpAddr;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Addresses of one node: its range has two bytes.
const RANGE: u32 = 0xfffe;

#[derive(Debug, Default)]
pub(crate) struct Addresses {
    ranges: BTreeMap<String, (u32, u32)>,
}

impl Addresses {
    /// The next free address of a node's range. As with `host-local`, an address that was just given back is not the
    /// next one.
    pub(crate) fn assign(&mut self, node: &str, is_taken: impl Fn(&str) -> bool) -> String {
        let count = u32::try_from(self.ranges.len()).unwrap_or(0);
        let (range, assigned) = self.ranges.entry(node.to_owned()).or_insert((count + 1, 0));
        for _ in 0..RANGE {
            *assigned = *assigned % RANGE + 1;
            let address = format!("10.{}.{}.{}", *range % 256, *assigned / 256, *assigned % 256);
            if !is_taken(&address) {
                return address;
            }
        }
        String::new()
    }
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Csv,
    Json,
}

/// A network plugin, as `docs/fixed-ip.md` describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plugin {
    pub(crate) name: &'static str,
    prefix: &'static str,
    pub(crate) asks: &'static str,
    form: Form,
}

const PLUGINS: [Plugin; 3] = [
    Plugin {
        name: "kube-ovn",
        prefix: "ovn.kubernetes.io/",
        asks: "ovn.kubernetes.io/ip_address",
        form: Form::Csv,
    },
    Plugin {
        name: "Calico",
        prefix: "cni.projectcalico.org/",
        asks: "cni.projectcalico.org/ipAddrs",
        form: Form::Json,
    },
    Plugin { name: "Antrea", prefix: "ipam.antrea.io/", asks: "ipam.antrea.io/pod-ips", form: Form::Csv },
];

pub(crate) fn plugin_of<'a>(keys: impl Iterator<Item = &'a str>) -> Option<Plugin> {
    let of = |key: &str| PLUGINS.iter().position(|plugin| key.starts_with(plugin.prefix));
    keys.filter_map(of).min().and_then(|index| PLUGINS.get(index).copied())
}

impl Plugin {
    /// The addresses that a Pod asks for.
    ///
    /// # Errors
    ///
    /// The annotation's value, if the plugin could not read it.
    pub(crate) fn requested<'a>(&self, annotations: &'a Value) -> Result<Vec<String>, &'a str> {
        let Some(text) = annotations[self.asks].as_str().filter(|text| !text.is_empty()) else {
            return Ok(Vec::new());
        };
        let addresses: Vec<String> = match self.form {
            Form::Csv => text.split(',').map(|address| address.trim().to_owned()).collect(),
            Form::Json => serde_json::from_str(text).map_err(|_| text)?,
        };
        let is_valid = (1..=2).contains(&addresses.len())
            && addresses.iter().all(|address| address.parse::<IpAddr>().is_ok());
        if is_valid { Ok(addresses) } else { Err(text) }
    }

    pub(crate) fn annotate(&self, ips: &[String], annotations: &mut Map<String, Value>) {
        match self.name {
            "kube-ovn" => {
                annotations.insert(self.asks.into(), ips.join(",").into());
                annotations.insert("ovn.kubernetes.io/allocated".into(), "true".into());
                let mac = annotations.entry("ovn.kubernetes.io/mac_address");
                mac.or_insert_with(|| mac_of(ips).into());
            }
            "Calico" => {
                let with_length = |ip: &String| format!("{ip}/{}", if ip.contains(':') { 128 } else { 32 });
                let all: Vec<String> = ips.iter().map(with_length).collect();
                let first = all.first().cloned().unwrap_or_default();
                annotations.insert("cni.projectcalico.org/podIP".into(), first.into());
                annotations.insert("cni.projectcalico.org/podIPs".into(), all.join(",").into());
            }
            _ => {}
        }
    }
}

fn mac_of(ips: &[String]) -> String {
    let bytes = match ips.first().and_then(|ip| ip.parse::<IpAddr>().ok()) {
        Some(IpAddr::V4(address)) => address.octets().to_vec(),
        Some(IpAddr::V6(address)) => address.octets()[12..].to_vec(),
        None => vec![0; 4],
    };
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("00:00:{}", hex.join(":"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_node_has_a_range_and_an_address_is_not_assigned_twice_in_a_row() {
        let mut addresses = Addresses::default();
        let free = |_: &str| false;
        assert_eq!(addresses.assign("a", free), "10.1.0.1");
        assert_eq!(addresses.assign("b", free), "10.2.0.1");
        assert_eq!(addresses.assign("a", free), "10.1.0.2");
        assert_eq!(addresses.assign("a", |ip| ip == "10.1.0.3"), "10.1.0.4");
        assert_eq!(addresses.assign("a", |_| true), "");
    }

    #[test]
    fn a_plugin_reads_its_own_form_only() {
        let calico = plugin_of(["x", "cni.projectcalico.org/ipAddrs"].into_iter()).unwrap();
        let requested = |text: &str| {
            calico.requested(&json!({"cni.projectcalico.org/ipAddrs": text})).map_err(str::to_owned)
        };
        assert_eq!(requested(r#"["10.0.0.7","fd00::7"]"#).unwrap(), ["10.0.0.7", "fd00::7"]);
        for wrong in ["10.0.0.7", "[]", r#"["10.0.0.7/32"]"#, r#"["10.0.0.7","10.0.0.8","10.0.0.9"]"#] {
            assert_eq!(requested(wrong), Err(wrong.to_owned()));
        }
        assert_eq!(requested("").unwrap(), [""; 0]);
    }

    #[test]
    fn kube_ovn_writes_the_annotation_that_it_reads_and_calico_does_not() {
        let mut annotations = Map::new();
        let ips = ["10.0.0.7".to_owned()];
        plugin_of(["ovn.kubernetes.io/ip_address"].into_iter()).unwrap().annotate(&ips, &mut annotations);
        assert_eq!(annotations["ovn.kubernetes.io/ip_address"], "10.0.0.7");
        assert_eq!(annotations["ovn.kubernetes.io/mac_address"], "00:00:0A:00:00:07");
        let mut annotations = Map::new();
        plugin_of(["cni.projectcalico.org/ipAddrs"].into_iter()).unwrap().annotate(&ips, &mut annotations);
        assert_eq!(annotations["cni.projectcalico.org/podIPs"], "10.0.0.7/32");
        assert!(!annotations.contains_key("cni.projectcalico.org/ipAddrs"));
    }
}
