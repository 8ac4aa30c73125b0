//! Pages that are larger than the sidecar takes.

use super::*;

/// The value of a parameter of the query.
fn number(path: &str, parameter: &str) -> Option<usize> {
    let (_, value) = path.split_once(&format!("{parameter}="))?;
    value.split('&').next()?.parse().ok()
}

#[test]
fn lists_all_pods_although_those_of_one_namespace_are_too_large_for_one_page() {
    const PODS: usize = 45;
    // 1.1 MB in etcd. Go writes "<" with six characters.
    let large = "\\u003c".repeat(1_100_000);
    let api = Api::start(move |_, path| match path {
        _ if is_watch(path) => Answer::silence(),
        _ if path.contains("/pods") => {
            let first = number(path, "continue").unwrap_or(0);
            let end = (first + number(path, "limit").unwrap()).min(PODS);
            let pods: Vec<String> = (first..end)
                .map(|n| format!(r#"{{"metadata":{{"name":"p{n}","namespace":"n","uid":"u{n}","resourceVersion":"5"}},"spec":{{"containers":[{{"name":"{large}"}}]}}}}"#))
                .collect();
            Answer::list(10, &pods, &if end < PODS { end.to_string() } else { String::new() })
        }
        _ => empty(path),
    });
    let sidecar = Sidecar::start(&api, &["--leader-election", "false"]);
    sidecar.wait_ready();
    api::wait_for("all Pods", || {
        sidecar.get("/metrics").contains(&format!("tracked_objects{{resource=\"pods\"}} {PODS}"))
    });
    assert!(api.count(&["GET", "/pods?"]) < PODS, "more than one object in most pages");
    assert!(!sidecar.log().contains("retrying"), "no failure: {}", sidecar.log());
}
