//! Which annotations a Pod may be given: the product's rules, written down a second time.
//!
//! The checks compare the product with this module, so it must not call the product.

use serde_json::Value;

/// The annotation that the policy adds to a Pod that it changes.
pub const MARKER: &str = "kruise.io/injected-persistent-pod-state";

/// Annotations that no Pod may be given, whatever the settings allow. Of those that exist once for
/// each network, there are two examples.
pub const NEVER_INJECTED: [&str; 17] = [
    "ovn.kubernetes.io/allocated",
    "net1.shop.ovn.kubernetes.io/allocated",
    "net1.shop.ovn.eth1.kubernetes.io/routed",
    "ovn.kubernetes.io/vpc_nat_gw_init",
    "k8s.ovn.org/pod-networks",
    "k8s.v1.cni.cncf.io/network-status",
    "k8s.v1.cni.cncf.io/networks-status",
    "vpc.amazonaws.com/pod-ips",
    "vpc.amazonaws.com/pod-eni",
    "vpc.amazonaws.com/PrivateIPv4Address",
    "networking.gke.io/pod-ips",
    "cni.projectcalico.org/podIP",
    "cni.projectcalico.org/podIPs",
    "cni.projectcalico.org/containerID",
    "kruise.io/injected-persistent-pod-state",
    "kruise.io/record-persistent-pod-state",
    "kruise.io/persistent-pod-state-move",
];

/// Whether no Pod may be given this annotation, whatever the settings allow.
pub fn is_never_injected(key: &str) -> bool {
    let of_a_network = ["allocated", "routed"].iter().any(|name| {
        let end = format!(".kubernetes.io/{name}");
        key.len() > end.len() && key.ends_with(&end)
    });
    of_a_network || NEVER_INJECTED.contains(&key)
}

/// What the settings allow and deny: keys, and starts of keys that end with `*`.
#[derive(Debug, Default)]
pub struct Rules {
    /// If set, only these are allowed.
    pub allow: Option<Vec<String>>,
    /// Denied, even if they are allowed.
    pub deny: Vec<String>,
}

impl Rules {
    /// Whether a Pod must not be given this annotation.
    pub fn forbid(&self, key: &str) -> bool {
        let matches_any =
            |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, key));
        is_never_injected(key)
            || matches_any(&self.deny)
            || self.allow.as_ref().is_some_and(|allow| !matches_any(allow))
    }
}

fn matches(pattern: &str, key: &str) -> bool {
    let start = pattern.trim_end_matches('*');
    key == start || (start != pattern && key.starts_with(start))
}

/// The text of a valid pattern. Before the slash, if there is one, it has a DNS name in lower or
/// upper case; after it, a name of at most 63 characters. A final `*` stands for one or more
/// characters.
pub fn pattern(value: &Value) -> Option<&str> {
    let text = value.as_str()?;
    let whole = text
        .strip_suffix('*')
        .map_or_else(|| text.to_owned(), |start| format!("{start}x"));
    let (domain, name) = match whole.split_once('/') {
        Some((domain, name)) => (Some(domain.to_ascii_lowercase()), name),
        None => (None, whole.as_str()),
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric();
    let is_word = |text: &str, separators: &str| {
        text.starts_with(is_plain)
            && text.ends_with(is_plain)
            && text.chars().all(|c| is_plain(c) || separators.contains(c))
    };
    let is_domain =
        |domain: String| domain.len() <= 253 && domain.split('.').all(|label| is_word(label, "-"));
    (is_word(name, "-_.") && name.len() <= 63 && domain.is_none_or(is_domain)).then_some(text)
}
