//! The sidecar needs every right that it uses, and has it.

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
pub(crate) type Right = (String, String, String);

/// A right, and the names of the objects that it is limited to.
pub(crate) type Grant = (Right, Value);

/// What the deployment gives the sidecar.
pub(crate) fn grants() -> Vec<Grant> {
    let objects = manifests::read(&repository_file("deploy/base/rbac.yaml")).unwrap();
    let roles = objects.iter().filter(|one| {
        ["ClusterRole", "Role"].iter().any(|kind| one["kind"] == *kind)
            && one["metadata"]["name"] == "pps-sidecar"
    });
    roles.flat_map(of_role).collect()
}

/// The same, whatever objects it is limited to.
fn granted() -> BTreeSet<Right> {
    grants().into_iter().map(|(right, _)| right).collect()
}

/// What a role gives.
pub(crate) fn of_role(role: &Value) -> Vec<Grant> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut rights = Vec::new();
    for rule in list(&role["rules"]) {
        for group in list(&rule["apiGroups"]) {
            for resource in list(&rule["resources"]) {
                let right = |verb| ((text(group), text(resource), text(verb)), rule["resourceNames"].clone());
                rights.extend(list(&rule["verbs"]).map(right));
            }
        }
    }
    rights
}

/// Every request of the sidecar by the audit log, once.
pub(crate) fn requests(cluster: &Cluster) -> Vec<Value> {
    requests_of(cluster, SIDECAR)
}

/// Every write of a user, apart from those of the Lease, which never end.
pub(crate) fn writes(cluster: &Cluster, user: &str) -> Vec<Value> {
    let verbs = ["create", "update", "patch", "delete"];
    let is_write = |event: &Value| verbs.iter().any(|verb| event["verb"] == *verb);
    let requests = requests_of(cluster, user).into_iter();
    requests.filter(|event| is_write(event) && event["objectRef"]["resource"] != "leases").collect()
}

fn requests_of(cluster: &Cluster, user: &str) -> Vec<Value> {
    let log = cluster.control_plane.audit_log();
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut seen = HashSet::new();
    // A watch that goes on has only begun to be answered.
    let first = |event: &Value| seen.insert(event["auditID"].as_str().unwrap_or_default().to_owned());
    events.filter(|event| event["user"]["username"] == user).filter(first).collect()
}

/// No request was refused for want of a right, and none needed a right that the deployment does not
/// give.
pub(crate) fn assert_used_as_granted(cluster: &Cluster) {
    assert_used_as_granted_with(cluster, &[]);
}

/// The same, where more kinds (API group and resource) may be listed and watched.
pub(crate) fn assert_used_as_granted_with(cluster: &Cluster, kinds: &[(&str, &str)]) {
    assert_used_as_granted_by(cluster, SIDECAR, kinds);
}

/// The same for a sidecar that is another user.
pub(crate) fn assert_used_as_granted_by(cluster: &Cluster, user: &str, kinds: &[(&str, &str)]) {
    let mut granted = granted();
    for (group, resource) in kinds {
        let right = |verb: &str| ((*group).to_owned(), (*resource).to_owned(), verb.to_owned());
        granted.extend(["list", "watch"].map(right));
    }
    let requests = requests_of(cluster, user);
    let mut used = BTreeSet::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for event in &requests {
        let code = event["responseStatus"]["code"].as_i64();
        // An API server that has just started does not know the roles yet and names no reason.
        let starting = event["annotations"]["authorization.k8s.io/reason"] == "" && restarted(cluster);
        assert!(!matches!(code, Some(401 | 403)) || starting, "refused: {event}");
        let object = &event["objectRef"];
        if object.is_null() {
            continue;
        }
        let subresource = object["subresource"].as_str().map(|name| format!("/{name}")).unwrap_or_default();
        used.insert((
            text(&object["apiGroup"]),
            text(&object["resource"]) + &subresource,
            text(&event["verb"]),
        ));
    }
    let all = std::env::var_os("PPS_E2E_ONLY").is_none();
    assert!(!all || (requests.len() > 10 && used.len() > 5), "{} requests, {used:?}", requests.len());
    let beyond: Vec<_> = used.difference(&granted).collect();
    assert!(beyond.is_empty(), "used and not granted: {beyond:?}");
    // An object that a server-side apply makes needs the verb create, too, which no log shows.
    let applied = |right: &&Right| right.1 == "persistentpodstates" && right.2 == "create";
    let idle: Vec<_> = granted.difference(&used).filter(|right| !applied(right)).collect();
    println!("{} requests of the sidecar; granted and not used here: {idle:?}", requests.len());
}

/// Whether the API server was started more than once.
fn restarted(cluster: &Cluster) -> bool {
    cluster.control_plane.supervisor().log(program::API_SERVER).matches("Serving securely on").count() > 1
}
