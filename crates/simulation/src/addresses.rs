//! The addresses of Pods, as a network plugin assigns them.

use core::net::IpAddr;
use std::collections::BTreeMap;

use serde_json::Value;

/// Addresses of one node: its range has two bytes.
const RANGE: u32 = 0xfffe;

#[derive(Debug, Default)]
pub(crate) struct Addresses {
    by_node: BTreeMap<String, NodeRange>,
}

/// The range of one node: `10.<number>.0.0/16`.
#[derive(Debug)]
struct NodeRange {
    number: u32,
    /// The address that was assigned last.
    last: u32,
}

impl NodeRange {
    fn next(&mut self) -> String {
        self.last = self.last % RANGE + 1;
        let [range, high, low] = [self.number % 256, self.last / 256, self.last % 256];
        format!("10.{range}.{high}.{low}")
    }
}

impl Addresses {
    /// The next free address of a node's range. As with `host-local`, an address that was just
    /// given back is not the next one.
    pub(crate) fn assign(&mut self, node: &str, is_taken: impl Fn(&str) -> bool) -> String {
        let count = u32::try_from(self.by_node.len()).unwrap_or(0);
        let range = self.by_node.entry(node.to_owned()).or_insert(NodeRange {
            number: count + 1,
            last: 0,
        });
        for _ in 0..RANGE {
            let address = range.next();
            if !is_taken(&address) {
                return address;
            }
        }
        String::new()
    }
}

/// A network plugin, as `docs/fixed-ip.md` describes it.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) name: &'static str,
    prefix: &'static str,
    /// The annotation by which a Pod asks for addresses.
    pub(crate) asks: &'static str,
}

const KUBE_OVN: &str = "kube-ovn";
const CALICO: &str = "Calico";
const PLUGINS: [Plugin; 3] = [
    Plugin {
        name: KUBE_OVN,
        prefix: "ovn.kubernetes.io/",
        asks: "ovn.kubernetes.io/ip_address",
    },
    Plugin {
        name: CALICO,
        prefix: "cni.projectcalico.org/",
        asks: "cni.projectcalico.org/ipAddrs",
    },
    Plugin {
        name: "Antrea",
        prefix: "ipam.antrea.io/",
        asks: "ipam.antrea.io/pod-ips",
    },
];

impl Plugin {
    /// The plugin whose annotations are among these.
    pub(crate) fn of<'a>(keys: impl Iterator<Item = &'a str>) -> Option<&'static Self> {
        let indices = keys.filter_map(|key| {
            let mut plugins = PLUGINS.iter();
            plugins.position(|plugin| key.starts_with(plugin.prefix))
        });
        indices.min().map(|index| &PLUGINS[index])
    }

    /// The addresses that a Pod asks for. The error is the annotation's value, if the plugin cannot
    /// read it.
    pub(crate) fn requested<'a>(&self, pod: &'a Value) -> Result<Vec<String>, &'a str> {
        let Some(text) = pod["metadata"]["annotations"][self.asks]
            .as_str()
            .filter(|text| !text.is_empty())
        else {
            return Ok(Vec::new());
        };
        let addresses: Vec<String> = if self.name == CALICO {
            serde_json::from_str(text).map_err(|_| text)?
        } else {
            text.split(',')
                .map(|address| address.trim().to_owned())
                .collect()
        };
        let is_valid = (1..=2).contains(&addresses.len())
            && addresses
                .iter()
                .all(|address| address.parse::<IpAddr>().is_ok());
        if is_valid { Ok(addresses) } else { Err(text) }
    }

    /// Writes the addresses of a Pod into the annotation that the plugin reads, as kube-ovn does.
    pub(crate) fn annotate(&self, ips: &[String], pod: &mut Value) {
        if self.name == KUBE_OVN {
            pod["metadata"]["annotations"][self.asks] = ips.join(",").into();
        }
    }
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
        let calico = Plugin::of(["x", "cni.projectcalico.org/ipAddrs"].into_iter()).unwrap();
        let requested = |text: &str| {
            let pod = json!({"metadata": {"annotations": {"cni.projectcalico.org/ipAddrs": text}}});
            calico.requested(&pod).map_err(str::to_owned)
        };
        assert_eq!(
            requested(r#"["10.0.0.7","fd00::7"]"#).unwrap(),
            ["10.0.0.7", "fd00::7"]
        );
        for wrong in [
            "10.0.0.7",
            "[]",
            r#"["10.0.0.7/32"]"#,
            r#"["10.0.0.7","10.0.0.8","10.0.0.9"]"#,
        ] {
            assert_eq!(requested(wrong), Err(wrong.to_owned()));
        }
        assert_eq!(requested("").unwrap(), [""; 0]);
    }

    #[test]
    fn kube_ovn_writes_the_annotation_that_it_reads_and_calico_does_not() {
        for (key, expected) in [
            ("ovn.kubernetes.io/ip_address", json!("10.0.0.7")),
            ("cni.projectcalico.org/ipAddrs", json!(null)),
        ] {
            let mut pod = json!({"metadata": {}});
            Plugin::of([key].into_iter())
                .unwrap()
                .annotate(&["10.0.0.7".to_owned()], &mut pod);
            assert_eq!(pod["metadata"]["annotations"][key], expected);
        }
    }
}
