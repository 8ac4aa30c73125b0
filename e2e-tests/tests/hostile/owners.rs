//! Pods whose owner no API server could have stored: anyone who may create a Pod can name any
//! owner.

use super::cases::{HostileCase, Verdict, alias};

pub(super) fn all() -> Vec<HostileCase> {
    let megabyte = "x".repeat(1 << 20);
    let names = [
        "web?watch=true",
        "web?resourceVersion=999999999999&x=",
        "web/status",
        "../../../../pods",
        "web#",
        "web%3fwatch=true",
        "web ",
        "web\r\nhost: example.com",
        "web\u{0}",
        "wéb",
        "",
        &megabyte,
    ];
    let shown = |name: &str| name.chars().take(40).collect::<String>();
    let owner_of = |name: &str| {
        HostileCase {
            object: Err("a host call".into()),
            ..HostileCase::new(&shown(name), Verdict::Accepted)
        }
        .with_pod(|pod| pod["metadata"]["ownerReferences"][0]["name"] = name.into())
    };
    // The get of the alias' target would succeed.
    let alias_of = |name: &str| {
        let hostile = HostileCase::new(&format!("an alias of {}", shown(name)), Verdict::Accepted);
        HostileCase {
            has_other_name: true,
            alias: Some(alias(name).into()),
            ..hostile
        }
        .with_object(|object| object["metadata"]["name"] = name.into())
    };
    let failing = |field: &str, value: &str| {
        let verdict = Verdict::Rejected(503, "check that the PolicyServer reaches the API server");
        let name =
            format!("an owner whose {field} has a megabyte, and a host that does not answer");
        HostileCase {
            object: Err("timed out".into()),
            ..HostileCase::new(&name, verdict)
        }
        .with_pod(|pod| pod["metadata"]["ownerReferences"][0][field] = value.into())
    };
    let mut cases: Vec<HostileCase> = names
        .iter()
        .flat_map(|name| [owner_of(name), alias_of(name)])
        .collect();
    cases.extend(["kind", "apiVersion", "uid"].map(|field| failing(field, &megabyte)));
    cases
}
