//! The syntax of names in Kubernetes, by the API server's own rules; and what is made from names.

use std::str::FromStr;

/// The node label that at most one node has with a given value.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// Whether a text can be an object's `apiVersion`, such as `v1` or `apps/v1`.
pub fn is_api_version(text: &str) -> bool {
    match text.split_once('/') {
        Some((group, version)) => is_dns_subdomain(group) && is_dns_label(version),
        None => is_dns_label(text),
    }
}

/// Whether a text can be the kind of an object.
pub fn is_kind(text: &str) -> bool {
    is_dns_label(&text.to_ascii_lowercase())
        && !text.starts_with(|first: char| first.is_ascii_digit())
}

/// Whether a text can be the key of an annotation. The API server validates it in lower case,
/// unlike the key of a label.
pub fn is_annotation_key(text: &str) -> bool {
    is_label_key(&text.to_ascii_lowercase())
}

/// Whether a text can be the key of a label: `name`, or `prefix/name`.
pub fn is_label_key(text: &str) -> bool {
    let (prefix, name) = text
        .split_once('/')
        .map_or((None, text), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_dns_subdomain)
        && name.len() <= 63
        && consists_of(name, |byte| byte.is_ascii_alphanumeric(), b"-_.")
}

/// Whether a text can be the value of a label.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty()
        || (text.len() <= 63 && consists_of(text, |byte| byte.is_ascii_alphanumeric(), b"-_."))
}

/// Whether a terminal obeys or hides a character: control characters, and characters without a
/// width or with an effect on the direction of text.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// A number without a sign and leading zeros, as Kubernetes writes it at the end of a Pod's name.
pub fn number<N: FromStr>(text: &str) -> Option<N> {
    let is_number =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_number { text.parse().ok() } else { None }
}

/// The hash FNV-1a with 32 bits: the standard library's hashers may change between versions.
pub fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u32 {
    let add = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    bytes.into_iter().fold(0x811c_9dc5, add)
}

/// A text on one line, with U+FFFD for [hidden](is_hidden) characters.
pub fn on_one_line(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace(is_hidden, "\u{fffd}")
}

/// Whether a text can be the name of a workload, or of a PersistentPodState.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253
        && text
            .split('.')
            .all(|label| consists_of(label, is_lower_case, b"-"))
}

fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && consists_of(text, is_lower_case, b"-")
}

fn is_lower_case(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether a text has only such characters and separators, and begins and ends with such a
/// character.
fn consists_of(text: &str, is_ordinary: fn(u8) -> bool, separators: &[u8]) -> bool {
    let is_end = |byte: Option<u8>| byte.is_some_and(is_ordinary);
    is_end(text.bytes().next())
        && is_end(text.bytes().next_back())
        && text
            .bytes()
            .all(|byte| is_ordinary(byte) || separators.contains(&byte))
}

/// The replacement of a deprecated label that Kubernetes no longer sets on new nodes.
pub fn successor_of(topology_key: &str) -> Option<&'static str> {
    Some(match topology_key {
        "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
        "beta.kubernetes.io/arch" => "kubernetes.io/arch",
        "beta.kubernetes.io/os" => "kubernetes.io/os",
        "beta.kubernetes.io/instance-type" => "node.kubernetes.io/instance-type",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_the_label_keys_that_the_api_server_accepts() {
        for good in [
            "a",
            "A.b_c-9",
            "example.io/A",
            "1.2/3",
            &"a".repeat(63),
            &format!("{}/b", "a".repeat(253)),
        ] {
            assert!(is_label_key(good), "{good}");
        }
        for bad in [
            "",
            "/",
            "a/",
            "/a",
            "a/b/c",
            "-a",
            "a-",
            "a b",
            "A.io/a",
            "a..b/c",
            "ä",
            &"a".repeat(64),
            &format!("{}/b", "a".repeat(254)),
        ] {
            assert!(!is_label_key(bad), "{bad}");
        }
    }

    #[test]
    fn accepts_the_versions_and_kinds_that_the_api_server_accepts() {
        for good in ["v1", "apps/v1", "apps.kruise.io/v1beta1"] {
            assert!(is_api_version(good), "{good}");
        }
        for bad in ["", "/", "/v1", "apps/", "a/b/c", "Apps/v1", "apps/v 1"] {
            assert!(!is_api_version(bad), "{bad}");
        }
        assert!(is_kind("StatefulSet") && !is_kind("7Set") && !is_kind("Stateful Set"));
    }
}
