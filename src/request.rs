//! The admission request, as PolicyServer sends it.

use pps_core::pick::{pick, read_picked};
use serde_json::value::RawValue;

/// The parts of PolicyServer's payload that the policy needs.
pub(crate) struct Payload<'a> {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) operation: String,
    pub(crate) sub_resource: String,
    pub(crate) namespace: String,
    pub(crate) object: Option<&'a RawValue>,
    pub(crate) old_object: Option<&'a RawValue>,
    pub(crate) user_info: Option<&'a RawValue>,
    pub(crate) settings: Option<&'a RawValue>,
}

impl<'a> Payload<'a> {
    /// Reads a payload in one pass. Some hosts write the names of its fields as the API server
    /// does.
    pub(crate) fn parse(payload: &'a str) -> Result<Self, String> {
        let paths = [
            "request.kind.group",
            "request.kind.kind",
            "request.operation",
            "request.namespace",
            "request.object",
            "settings",
            "request.sub_resource",
            "request.old_object",
            "request.user_info",
            "request.subResource",
            "request.oldObject",
            "request.userInfo",
        ];
        let [
            group,
            kind,
            operation,
            namespace,
            object,
            settings,
            alternatives @ ..,
        ] = pick(payload, paths).map_err(|error| error.to_string())?;
        let [
            sub_resource,
            old_object,
            user_info,
            sub_resource_2,
            old_object_2,
            user_info_2,
        ] = alternatives;
        if operation.is_none() {
            return Err("request.operation is missing".into());
        }
        let text = |field| read_picked(field).map_err(|error| error.to_string());
        Ok(Self {
            group: text(group)?,
            kind: text(kind)?,
            operation: text(operation)?,
            sub_resource: text(sub_resource.or(sub_resource_2))?,
            namespace: text(namespace)?,
            object,
            old_object: old_object.or(old_object_2),
            user_info: user_info.or(user_info_2),
            settings,
        })
    }
}
