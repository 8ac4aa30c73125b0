//! What accounts may do.

use serde_json::json;

use crate::facts::{Read, Recording, Right};
use crate::reader::Reader;
use crate::settings::Recorder;

const GROUP: &str = "apps.kruise.io";

/// A ServiceAccount as a user, and its groups.
pub(super) struct User {
    name: String,
    groups: Vec<String>,
}

/// The user that a ServiceAccount is for the API server.
pub(super) fn account(namespace: &str, name: &str) -> User {
    User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        groups: vec![
            "system:serviceaccounts".into(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".into(),
        ],
    }
}

impl Reader {
    /// Whether a user has a right, also through other roles than the product's.
    pub(super) async fn may(&self, user: &User, right: &Right) -> Read<bool> {
        let (resource, subresource) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user.name, "groups": user.groups, "resourceAttributes": {
                "verb": right.verb, "group": right.group, "resource": resource, "subresource": subresource,
                "namespace": right.namespace.as_deref().unwrap_or_default(),
                "name": right.name.as_deref().unwrap_or_default(),
            }},
        });
        let needed = Right::new("create", "authorization.k8s.io", "subjectaccessreviews");
        match self.review(needed, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await {
            Read::Known(answer) => Read::Known(answer["status"]["allowed"] == true),
            Read::Absent | Read::Unknown => Read::Unknown,
        }
    }
}

/// The rights without which the sidecar records nothing.
pub(super) fn sidecar_rights(namespace: &str, recording: &Recording) -> Vec<Right> {
    if recording.recorder == Recorder::OpenKruise {
        return Vec::new();
    }
    let mut rights = Vec::new();
    for (group, resource) in [
        ("", "pods"),
        ("", "nodes"),
        ("apps", "statefulsets"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        (GROUP, "persistentpodstates"),
    ] {
        rights.extend(["list", "watch"].map(|verb| Right::new(verb, group, resource)));
    }
    rights.push(Right::new("create", GROUP, "persistentpodstates"));
    rights.push(Right::new("patch", GROUP, "persistentpodstates/status"));
    if let Some(lease) = &recording.lease {
        let leases = |verb| Right::new(verb, "coordination.k8s.io", "leases").within(namespace);
        rights.push(leases("create"));
        rights.extend(["get", "update"].map(|verb| leases(verb).named(lease)));
    }
    rights
}
