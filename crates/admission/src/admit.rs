//! Dispatches an admission request by kind and operation.

use pps_core::limits::shorten_list;
use pps_core::pps::{GROUP, KIND};
use serde::Deserialize;
use serde_json::Value;

use crate::decision::{Decision, Rejection};
use crate::deletion::protection_from;
use crate::host::Host;
use crate::lookup::Namespace;
use crate::pods::inject_into_pod;
use crate::pps_objects::review_pps;
use crate::settings::{Settings, SettingsError};

/// The facts of an admission request that the policy needs. Its fields have the names that
/// Kubewarden gives them, or the API server's.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Request {
    pub kind: Kind,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: String,
    /// Empty if the request is for the object itself.
    #[serde(alias = "subResource")]
    pub sub_resource: String,
    pub namespace: String,
    /// Who sends it.
    #[serde(alias = "userInfo")]
    pub user_info: UserInfo,
    /// The object after the change; `null` if it is deleted.
    pub object: Value,
    /// The object before the change; `null` if it is created.
    #[serde(alias = "oldObject")]
    pub old_object: Value,
}

/// A kind of objects, in any version.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Kind {
    /// Empty for the core group.
    pub group: String,
    pub kind: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    pub username: String,
}

/// Answers one request. Wrong settings refuse only Pods that can have a recorded state, and
/// PersistentPodStates that are reviewed.
pub fn admit(
    request: Request,
    settings: Result<&Settings, &SettingsError>,
    host: &dyn Host,
) -> Decision {
    let Request {
        kind: Kind { group, kind },
        operation,
        sub_resource,
        namespace,
        user_info,
        object,
        old_object,
    } = request;
    let namespace = Namespace::new(host, &namespace);
    let decision = match (group.as_str(), kind.as_str(), operation.as_str()) {
        _ if !sub_resource.is_empty() => Ok(Decision::accept()),
        ("", "Pod", "CREATE") => inject_into_pod(object, namespace, settings),
        (GROUP, KIND, "CREATE") => review_pps(&object, None, namespace, settings),
        (GROUP, KIND, "UPDATE") => review_pps(&object, Some(&old_object), namespace, settings),
        (GROUP, KIND, "DELETE") => match protection_from(&user_info.username, &old_object) {
            Some(protected) => Err(Rejection::Protected(protected)),
            None => Ok(Decision::accept()),
        },
        _ => Ok(Decision::accept()),
    };
    let decision = decision.unwrap_or_else(Decision::reject);
    Decision {
        warnings: shorten_list(decision.warnings),
        ..decision
    }
}
