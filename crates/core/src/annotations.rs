//! Which annotations a Pod may be given.
//!
//! Some are never given, because whoever writes them trusts them; of the others an administrator can
//! allow or deny any. That is asked twice: when an object names a key, and when a Pod is to get it.

use std::fmt;

use crate::INJECTED_ANNOTATION;
use crate::validate::is_annotation_key;

/// Annotations that a CNI writes and trusts: a Pod that starts with one of them would claim an address
/// that nobody gave to it. They are never injected. The second part names the key to list instead.
pub const NEVER_INJECTED: &[(&str, Option<&str>)] = &[
    ("ovn.kubernetes.io/allocated", Some("ovn.kubernetes.io/ip_address")),
    ("cni.projectcalico.org/podIP", Some("cni.projectcalico.org/ipAddrs")),
    ("cni.projectcalico.org/podIPs", Some("cni.projectcalico.org/ipAddrs")),
    ("cni.projectcalico.org/containerID", None),
    (INJECTED_ANNOTATION, None),
];

/// Whether an annotation key must never be injected, see [`NEVER_INJECTED`].
pub fn is_never_injected(key: &str) -> bool {
    NEVER_INJECTED.iter().any(|(never, _)| *never == key)
}

/// One annotation key, or all that begin alike: `cni.projectcalico.org/*`. Upper and lower case differ,
/// as they do for whoever reads the annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Reads a pattern; none if no annotation could have such a key.
    pub fn parse(text: &str) -> Option<Self> {
        let is_possible = match text.strip_suffix('*') {
            // What begins so and goes on is a key.
            Some(start) => is_annotation_key(&format!("{start}a")),
            None => is_annotation_key(text),
        };
        is_possible.then(|| Self(text.into()))
    }

    fn matches(&self, key: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(start) => key.starts_with(start),
            None => key == self.0,
        }
    }
}

/// What an administrator allows and denies. By default everything is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnotationRules {
    /// If there is such a list, nothing else is allowed; if it is empty, nothing at all.
    pub allow: Option<Vec<Pattern>>,
    /// Is not allowed, whatever the other list says.
    pub deny: Vec<Pattern>,
}

impl AnnotationRules {
    /// Why a Pod must not be given an annotation; none if it may.
    pub fn forbid(&self, key: &str) -> Option<Forbidden<'_>> {
        if let Some((_, instead)) = NEVER_INJECTED.iter().find(|(never, _)| *never == key) {
            return Some(Forbidden::Trusted { instead: *instead });
        }
        if let Some(Pattern(pattern)) = self.deny.iter().find(|pattern| pattern.matches(key)) {
            return Some(Forbidden::Denied { pattern });
        }
        let is_left_out =
            self.allow.as_ref().is_some_and(|allow| !allow.iter().any(|pattern| pattern.matches(key)));
        is_left_out.then_some(Forbidden::NotAllowed)
    }
}

/// Why a Pod must not be given an annotation, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden<'a> {
    /// Whoever writes it trusts it.
    Trusted {
        /// The key to list instead, if there is one.
        instead: Option<&'static str>,
    },
    /// The administrator denies it.
    Denied {
        /// By this pattern.
        pattern: &'a str,
    },
    /// The administrator allows some, and not this one.
    NotAllowed,
}

impl fmt::Display for Forbidden<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut instead = None;
        match self {
            Self::Trusted { instead: other } => {
                instead = *other;
                f.write_str("whoever writes it trusts it, so it is never given to a Pod")
            }
            Self::Denied { pattern } => {
                write!(f, "the policy's settings.annotations.deny forbids it by \"{pattern}\"")
            }
            Self::NotAllowed => f.write_str("the policy's settings.annotations.allow does not name it"),
        }?;
        match instead {
            Some(instead) => write!(f, "; use \"{instead}\""),
            None => f.write_str("; remove it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(patterns: &[&str]) -> Vec<Pattern> {
        patterns.iter().map(|pattern| Pattern::parse(pattern).unwrap()).collect()
    }

    fn is_forbidden(allow: Option<&[&str]>, deny: &[&str], key: &str) -> bool {
        AnnotationRules { allow: allow.map(patterns), deny: patterns(deny) }.forbid(key).is_some()
    }

    #[test]
    fn a_pattern_is_a_key_or_the_start_of_keys() {
        for good in ["ip", "example.io/ip", "Example.io/IP", "example.io/*", "example.io/ip-*", "exa*", "*"] {
            assert!(Pattern::parse(good).is_some(), "{good}");
        }
        for bad in ["", "/", "/*", "-*", "a/b/*", "a b", "a*b", "*/a", "**", "a/**", "example.io/", "ä*"] {
            assert!(Pattern::parse(bad).is_none(), "{bad}");
        }
        let longest = "a".repeat(63);
        assert!(Pattern::parse(&longest).is_some() && Pattern::parse(&format!("{longest}*")).is_none());
    }

    #[test]
    fn a_start_is_no_more_than_a_start() {
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
            assert_eq!(Pattern::parse(pattern).unwrap().matches(key), matches, "{pattern} {key}");
        }
    }

    #[test]
    fn what_is_denied_is_denied_and_a_list_of_what_is_allowed_is_whole() {
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
    fn what_is_trusted_cannot_be_allowed() {
        for (never, _) in NEVER_INJECTED {
            assert!(is_forbidden(None, &[], never) && is_forbidden(Some(&[never, "*"]), &[], never));
        }
    }

    #[test]
    fn the_setting_that_forbids_is_named() {
        let rules = AnnotationRules { allow: Some(patterns(&["mac"])), deny: patterns(&["ip*"]) };
        for (key, sentence) in [
            ("ip", "the policy's settings.annotations.deny forbids it by \"ip*\"; remove it"),
            ("dns", "the policy's settings.annotations.allow does not name it; remove it"),
            (
                "ovn.kubernetes.io/allocated",
                "whoever writes it trusts it, so it is never given to a Pod; use \"ovn.kubernetes.io/ip_address\"",
            ),
        ] {
            assert_eq!(rules.forbid(key).unwrap().to_string(), sentence);
        }
        assert_eq!(rules.forbid("mac"), None);
    }
}
