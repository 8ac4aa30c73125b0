//! Which annotations may be injected into a Pod.
//!
//! Some never are, because their writer treats them as its own state. An administrator can allow or
//! deny any other. The rules are applied twice: when a PPS names a key, and when a Pod is about to
//! get it.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::json::{null_as_default, shorten};
use crate::names::is_annotation_key;

/// The annotation that the policy writes on a Pod it has changed; its value is the name of the PPS.
pub const INJECTED_ANNOTATION: &str = "kruise.io/injected-persistent-pod-state";

/// The annotation of a Pod that says whether the Pod is recorded, see [`forbids_recording`].
pub const RECORD_ANNOTATION: &str = "kruise.io/record-persistent-pod-state";

/// The annotation of a Pod that a client is moving, beside [`RECORD_ANNOTATION`]. Its value says
/// whether the Pod was `recorded` or `exempt` before.
pub const MOVE_ANNOTATION: &str = "kruise.io/persistent-pod-state-move";

/// The label of a namespace that decides whether the namespace is in scope.
pub const INJECTION_LABEL: &str = "persistent-pod-state/injection";

/// The label selector of the namespaces in scope, unless an administrator chooses another one. It
/// is also what `kubectl label namespace NAME` needs.
pub const DEFAULT_NAMESPACE_SELECTOR: &str = "persistent-pod-state/injection=enabled";

/// Whether the value of [`RECORD_ANNOTATION`] says that the Pod is not recorded: the recorded state
/// of its name stays unchanged, also while the Pod is Ready. Without this, nobody could change the
/// recorded state of a running Pod before it is created again.
pub fn forbids_recording(value: &str) -> bool {
    value == "false"
}

/// Annotations that are never injected. Their writer treats them as its own state: a Pod that is
/// created with one of them would, for example, claim an address that the CNI has not assigned to
/// it. A `*` at the beginning stands for one or more characters. The second part is the key to list
/// instead, with the same characters in place of `*`.
pub const NEVER_INJECTED: &[(&str, Option<&str>)] = &[
    // Kube-OVN has one for each provider of a network: ovn, or <network>.<namespace>.ovn, with
    // .<interface> after it for a Pod that has several in one network. It takes a network with
    // allocated=true for configured.
    (
        "*.kubernetes.io/allocated",
        Some("*.kubernetes.io/ip_address"),
    ),
    ("*.kubernetes.io/routed", None),
    // Kube-OVN does not configure a NAT gateway's Pod that has it.
    ("ovn.kubernetes.io/vpc_nat_gw_init", None),
    // OVN-Kubernetes passes the addresses that it has allocated to the nodes in it.
    ("k8s.ovn.org/pod-networks", None),
    // What Multus has done, in its present and in its older spelling. Others read it as the Pod's
    // addresses.
    (
        "k8s.v1.cni.cncf.io/network-status",
        Some("k8s.v1.cni.cncf.io/networks"),
    ),
    (
        "k8s.v1.cni.cncf.io/networks-status",
        Some("k8s.v1.cni.cncf.io/networks"),
    ),
    // Calico takes these for the Pod's addresses until its status has some; the last one is that of
    // the AWS VPC CNI.
    (
        "cni.projectcalico.org/podIP",
        Some("cni.projectcalico.org/ipAddrs"),
    ),
    (
        "cni.projectcalico.org/podIPs",
        Some("cni.projectcalico.org/ipAddrs"),
    ),
    ("cni.projectcalico.org/containerID", None),
    ("vpc.amazonaws.com/pod-ips", None),
    // AWS's VPC resource controller takes these for the interface or the address that it has given
    // to the Pod, and its own webhook refuses a new Pod that has the first one.
    ("vpc.amazonaws.com/pod-eni", None),
    ("vpc.amazonaws.com/PrivateIPv4Address", None),
    // GKE's network plugin says in it which addresses it has given to the Pod in further networks.
    ("networking.gke.io/pod-ips", None),
    (INJECTED_ANNOTATION, None),
    (RECORD_ANNOTATION, None),
    (MOVE_ANNOTATION, None),
];

/// Whether an annotation key must never be injected, see [`NEVER_INJECTED`].
pub fn is_never_injected(key: &str) -> bool {
    forbid_always(key).is_some()
}

fn forbid_always(key: &str) -> Option<Forbidden<'_>> {
    NEVER_INJECTED.iter().find_map(|(never, instead)| {
        let family = match never.strip_prefix('*') {
            Some(end) => key.strip_suffix(end).filter(|start| !start.is_empty())?,
            None if key == *never => "",
            None => return None,
        };
        let instead = instead.map(|instead| (family, instead.trim_start_matches('*')));
        Some(Forbidden::NeverInjected { instead })
    })
}

/// One annotation key, or all keys with a prefix: `cni.projectcalico.org/*`. The case of letters
/// counts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern(String);

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| {
            format!(
                "{:?} can match no annotation, expected a key, or a prefix that ends in *, such as \
                 cni.projectcalico.org/*",
                shorten(&text)
            )
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Pattern {
    /// Reads a pattern; `None` if it could match no annotation key.
    pub fn parse(text: &str) -> Option<Self> {
        let can_match = match text.strip_suffix('*') {
            Some(prefix) => is_annotation_key(&format!("{prefix}a")),
            None => is_annotation_key(text),
        };
        can_match.then(|| Self(text.into()))
    }

    fn matches(&self, key: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(prefix) => key.starts_with(prefix),
            None => key == self.0,
        }
    }
}

/// The annotations that an administrator allows and denies. By default all are allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnotationRules {
    /// If set, only these are allowed; an empty list allows none.
    pub allow: Option<Vec<Pattern>>,
    /// Denied, even if they are in `allow`.
    pub deny: Vec<Pattern>,
}

// Not derived: that would read a list by position, and an empty one, by which an administrator
// means to allow none, would allow all.
impl<'de> Deserialize<'de> for AnnotationRules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        struct Lists {
            allow: Option<Vec<Pattern>>,
            #[serde(deserialize_with = "null_as_default")]
            deny: Vec<Pattern>,
        }

        struct RulesVisitor;

        impl<'de> Visitor<'de> for RulesVisitor {
            type Value = AnnotationRules;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with allow or deny, such as {\"allow\": []} to allow none")
            }

            fn visit_map<A: MapAccess<'de>>(self, lists: A) -> Result<AnnotationRules, A::Error> {
                let Lists { allow, deny } = Lists::deserialize(MapAccessDeserializer::new(lists))?;
                Ok(AnnotationRules { allow, deny })
            }
        }

        deserializer.deserialize_any(RulesVisitor)
    }
}

impl AnnotationRules {
    /// Why an annotation must not be injected; `None` if it may be.
    pub fn forbid<'a>(&'a self, key: &'a str) -> Option<Forbidden<'a>> {
        let always = forbid_always(key);
        if always.is_some() {
            return always;
        }
        if let Some(Pattern(pattern)) = self.deny.iter().find(|pattern| pattern.matches(key)) {
            return Some(Forbidden::Denied { pattern });
        }
        let is_left_out = self
            .allow
            .as_ref()
            .is_some_and(|allow| !allow.iter().any(|pattern| pattern.matches(key)));
        is_left_out.then_some(Forbidden::NotAllowed)
    }
}

/// Why an annotation must not be injected. Displayed with what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden<'a> {
    /// It is one of [`NEVER_INJECTED`].
    NeverInjected {
        /// The key to list instead, if there is one: its beginning and its end.
        instead: Option<(&'a str, &'static str)>,
    },
    /// The administrator denies it.
    Denied {
        /// The pattern that matches it.
        pattern: &'a str,
    },
    /// The administrator allows others only.
    NotAllowed,
}

impl fmt::Display for Forbidden<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverInjected { instead } => {
                f.write_str("it can never be persisted; ")?;
                match instead {
                    Some((start, end)) => write!(f, "use \"{start}{end}\"")?,
                    None => f.write_str("remove it")?,
                }
                f.write_str(" (its writer treats it as its own state)")
            }
            Self::Denied { pattern } => write!(
                f,
                "it is denied by \"{pattern}\" in the policy's settings.annotations.deny; remove \
                 it"
            ),
            Self::NotAllowed => {
                f.write_str("it is not in the policy's settings.annotations.allow; remove it")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(patterns: &[&str]) -> Vec<Pattern> {
        patterns
            .iter()
            .map(|pattern| Pattern::parse(pattern).unwrap())
            .collect()
    }

    fn is_forbidden(allow: Option<&[&str]>, deny: &[&str], key: &str) -> bool {
        AnnotationRules {
            allow: allow.map(patterns),
            deny: patterns(deny),
        }
        .forbid(key)
        .is_some()
    }

    #[test]
    fn a_pattern_is_a_key_or_a_prefix() {
        for good in [
            "ip",
            "example.io/ip",
            "Example.io/IP",
            "example.io/*",
            "example.io/ip-*",
            "exa*",
            "*",
        ] {
            assert!(Pattern::parse(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "/",
            "/*",
            "-*",
            "a/b/*",
            "a b",
            "a*b",
            "*/a",
            "**",
            "a/**",
            "example.io/",
            "ä*",
        ] {
            assert!(Pattern::parse(bad).is_none(), "{bad}");
        }
        let longest = "a".repeat(63);
        assert!(
            Pattern::parse(&longest).is_some() && Pattern::parse(&format!("{longest}*")).is_none()
        );
    }

    #[test]
    fn a_pattern_matches_its_key_or_all_keys_with_its_prefix() {
        for (pattern, key, matches) in [
            ("example.io/ip", "example.io/ip", true),
            ("example.io/ip", "example.io/ips", false),
            ("example.io/ip", "Example.io/ip", false),
            ("example.io/*", "example.io/ip", true),
            ("example.io/*", "sub.example.io/ip", false),
            ("example.io/*", "example.iox/ip", false),
            ("example.io/ip*", "example.io/ip", true),
            ("*", "anything", true),
        ] {
            assert_eq!(
                Pattern::parse(pattern).unwrap().matches(key),
                matches,
                "{pattern} {key}"
            );
        }
    }

    #[test]
    fn deny_wins_over_allow_and_allow_forbids_all_others() {
        assert!(!is_forbidden(None, &[], "ip"));
        assert!(is_forbidden(None, &["ip"], "ip"));
        assert!(!is_forbidden(None, &["ip"], "mac"));
        assert!(is_forbidden(Some(&["ip"]), &["ip"], "ip"));
        assert!(is_forbidden(Some(&["*"]), &["i*"], "ip"));
        assert!(!is_forbidden(Some(&["ip"]), &["mac"], "ip"));
        assert!(is_forbidden(Some(&["ip"]), &[], "mac"));
        assert!(is_forbidden(Some(&[]), &[], "ip"));
    }

    #[test]
    fn allow_does_not_override_never_injected() {
        for (never, _) in NEVER_INJECTED {
            let never = never.replace('*', "net1.shop.ovn");
            assert!(
                is_forbidden(None, &[], &never) && is_forbidden(Some(&[&never, "*"]), &[], &never)
            );
        }
    }

    #[test]
    fn a_family_has_any_beginning_but_none() {
        for never in [
            "ovn.kubernetes.io/allocated",
            "a.b.ovn.net1.kubernetes.io/routed",
            "x.kubernetes.io/allocated",
        ] {
            assert!(is_never_injected(never), "{never}");
        }
        for other in [
            "kubernetes.io/allocated",
            ".kubernetes.io/allocated",
            "ovn.kubernetes.io/allocated2",
            "ovn.kubernetes.io/ip_address",
            "ovn.kubernetes.io.example/allocated",
            "allocated",
            "",
        ] {
            assert!(!is_never_injected(other), "{other}");
        }
    }
}
