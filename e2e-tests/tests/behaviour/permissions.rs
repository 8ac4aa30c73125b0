//! The permissions that the deployment grants the sidecar, and those that it uses according to the
//! audit log.

use std::collections::{BTreeSet, HashSet};

use pps_e2e::{
    cluster::{Cluster, SIDECAR},
    control_plane::program,
    manifests,
    repository::repository_file,
};
use serde_json::Value;

use crate::support::list;

/// API group, resource (with its subresource) and verb.
pub(crate) type Permission = (String, String, String);

/// A permission, and the names of the objects to which it is limited.
pub(crate) type Grant = (Permission, Value);

/// The role that the sidecar needs in addition to evict Pods.
pub(crate) const EVICTION: &str = "deploy/components/evict-pending-pods/rbac.yaml";

/// The roles of the sidecar, with the one for evictions.
pub(crate) fn roles() -> Vec<Value> {
    let files = ["deploy/base/rbac.yaml", EVICTION]
        .map(|file| manifests::read(&repository_file(file)).unwrap());
    let is_role = |one: &Value| {
        ["ClusterRole", "Role"]
            .iter()
            .any(|kind| one["kind"] == *kind)
            && ["pps-sidecar", "pps-sidecar-evict-pending-pods"]
                .iter()
                .any(|name| one["metadata"]["name"] == *name)
    };
    files.into_iter().flatten().filter(is_role).collect()
}

/// What the deployment grants the sidecar.
pub(crate) fn grants() -> Vec<Grant> {
    roles().iter().flat_map(of_role).collect()
}

/// The granted permissions, without object names.
fn granted() -> BTreeSet<Permission> {
    grants()
        .into_iter()
        .map(|(permission, _)| permission)
        .collect()
}

/// What a role grants.
pub(crate) fn of_role(role: &Value) -> Vec<Grant> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut grants = Vec::new();
    for rule in list(&role["rules"]) {
        for group in list(&rule["apiGroups"]) {
            for resource in list(&rule["resources"]) {
                let grant = |verb| {
                    (
                        (text(group), text(resource), text(verb)),
                        rule["resourceNames"].clone(),
                    )
                };
                grants.extend(list(&rule["verbs"]).map(grant));
            }
        }
    }
    grants
}

/// Every request of the sidecar in the audit log, once.
pub(crate) fn requests(cluster: &Cluster) -> Vec<Value> {
    requests_of(cluster, SIDECAR)
}

/// Every write of a user except to the Lease, which is renewed all the time.
pub(crate) fn writes(cluster: &Cluster, user: &str) -> Vec<Value> {
    let verbs = ["create", "update", "patch", "delete"];
    let is_write = |event: &Value| verbs.iter().any(|verb| event["verb"] == *verb);
    let requests = requests_of(cluster, user).into_iter();
    requests
        .filter(|event| is_write(event) && event["objectRef"]["resource"] != "leases")
        .collect()
}

/// The verbs of all requests of a user for a resource in the audit log.
pub(crate) fn verbs_of(cluster: &Cluster, user: &str, resource: &str) -> BTreeSet<String> {
    let requests = requests_of(cluster, user).into_iter();
    let requests = requests.filter(|event| event["objectRef"]["resource"] == resource);
    requests
        .map(|event| event["verb"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Every request of a user that was refused for lack of a permission.
pub(crate) fn forbidden(cluster: &Cluster, user: &str) -> Vec<Value> {
    requests_with(cluster, user, "\"code\":403")
}

/// Every request of a user in the audit log, once.
pub(crate) fn requests_of(cluster: &Cluster, user: &str) -> Vec<Value> {
    requests_with(cluster, user, "")
}

/// The events whose line contains this text. Most lines are of other users, and to parse all takes
/// long.
fn requests_with(cluster: &Cluster, user: &str, part: &str) -> Vec<Value> {
    let log = cluster.control_plane.audit_log();
    let name = format!("\"username\":{}", Value::from(user));
    let lines = log
        .lines()
        .filter(|line| line.contains(&name) && line.contains(part));
    let events = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut seen = HashSet::new();
    // A watch has one event when its response starts and another when it ends.
    let first =
        |event: &Value| seen.insert(event["auditID"].as_str().unwrap_or_default().to_owned());
    events
        .filter(|event| event["user"]["username"] == user)
        .filter(first)
        .collect()
}

/// Asserts that no request was refused, and that none needed a permission that the deployment does
/// not grant.
pub(crate) fn assert_used_as_granted(cluster: &Cluster) {
    assert_used_as_granted_with(cluster, &[]);
}

/// Like [`assert_used_as_granted`], where further kinds (API group and resource) may be listed and
/// watched.
pub(crate) fn assert_used_as_granted_with(cluster: &Cluster, kinds: &[(&str, &str)]) {
    assert_used_as_granted_by(cluster, SIDECAR, kinds);
}

/// Like [`assert_used_as_granted_with`], for a sidecar that runs as another user.
pub(crate) fn assert_used_as_granted_by(cluster: &Cluster, user: &str, kinds: &[(&str, &str)]) {
    let mut granted = granted();
    for (group, resource) in kinds {
        let permission =
            |verb: &str| ((*group).to_owned(), (*resource).to_owned(), verb.to_owned());
        granted.extend(["list", "watch"].map(permission));
    }
    let requests = requests_of(cluster, user);
    let mut used = BTreeSet::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for event in &requests {
        let code = event["responseStatus"]["code"].as_i64();
        // An API server that has just started does not know the roles yet. It gives no reason then,
        // or that there is none of this name.
        let reason = text(&event["annotations"]["authorization.k8s.io/reason"]);
        let starting = (reason.is_empty() || reason.contains(" not found")) && restarted(cluster);
        assert!(
            !matches!(code, Some(401 | 403)) || starting,
            "refused: {event}"
        );
        let object = &event["objectRef"];
        if object.is_null() {
            continue;
        }
        let subresource = object["subresource"]
            .as_str()
            .map(|name| format!("/{name}"))
            .unwrap_or_default();
        used.insert((
            text(&object["apiGroup"]),
            text(&object["resource"]) + &subresource,
            text(&event["verb"]),
        ));
    }
    let all = std::env::var_os("PPS_E2E_ONLY").is_none();
    assert!(
        !all || (requests.len() > 10 && used.len() > 5),
        "{} requests, {used:?}",
        requests.len()
    );
    let beyond: Vec<_> = used.difference(&granted).collect();
    assert!(beyond.is_empty(), "used but not granted: {beyond:?}");
    let idle: Vec<_> = granted.difference(&used).collect();
    println!(
        "{} requests of the sidecar; granted but not used here: {idle:?}",
        requests.len()
    );
}

/// Whether the API server was restarted.
fn restarted(cluster: &Cluster) -> bool {
    cluster
        .control_plane
        .supervisor()
        .log(program::API_SERVER)
        .matches("Serving securely on")
        .count()
        > 1
}
