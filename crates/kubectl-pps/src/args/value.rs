//! Values on the command line.

/// The name of a Kubernetes object, such as a Pod or a node.
pub(super) fn name(text: &str) -> Result<String, String> {
    if pps_core::is_dns_subdomain(text) {
        Ok(text.to_owned())
    } else {
        Err("use the name of a Kubernetes object: lowercase letters, digits, - and .".into())
    }
}

/// The name of a Pod, which may be written as kubectl takes it: `pod/NAME`.
pub(super) fn pod(text: &str) -> Result<String, String> {
    name(crate::decide::workload_name::pod_name(text))
}

/// A duration: `90s`, `2m`, `1h`, or seconds.
pub(super) fn duration(text: &str) -> Result<std::time::Duration, String> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "s"),
    };
    let factor = match unit {
        "h" => 3600,
        "m" => 60,
        _ => 1,
    };
    let seconds = number.parse::<u32>().ok().map(|number| u64::from(number) * factor);
    seconds.map(std::time::Duration::from_secs).ok_or_else(|| "use a duration such as 90s, 2m or 1h".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit_or_is_in_seconds() {
        for (text, seconds) in [("90s", 90), ("2m", 120), ("1h", 3600), ("5", 5), ("0", 0)] {
            assert_eq!(duration(text).unwrap().as_secs(), seconds, "{text}");
        }
        for text in ["", "m", "-1s", "1d", "1.5h", "99999999999s", "1 m"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_pod_may_be_written_as_kubectl_takes_it() {
        for text in ["db-0", "pod/db-0", "pods/db-0", "po/db-0", "Pod/db-0"] {
            assert_eq!(pod(text).as_deref(), Ok("db-0"), "{text}");
        }
        for text in ["sts/db-0", "pod/", "pod/a/b", "pod"] {
            assert_eq!(pod(text).is_ok(), text == "pod", "{text}");
        }
    }

    #[test]
    fn a_name_is_that_of_an_object() {
        assert_eq!(name("db-0").as_deref(), Ok("db-0"));
        for text in ["", "Db", "a/b", "-a", "a b", "ä"] {
            assert!(name(text).is_err(), "{text}");
        }
    }
}
