//! The admission request, as PolicyServer sends it.

use serde::Deserialize;
use serde_json::value::RawValue;

/// The parts of PolicyServer's payload that the policy needs.
#[derive(Deserialize)]
pub(crate) struct Payload<'a> {
    #[serde(borrow)]
    pub(crate) request: Request<'a>,
    #[serde(borrow)]
    pub(crate) settings: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct Request<'a> {
    #[serde(default)]
    pub(crate) kind: GroupKind,
    #[serde(default)]
    pub(crate) operation: String,
    #[serde(default, alias = "subResource")]
    pub(crate) sub_resource: Option<String>,
    #[serde(default)]
    pub(crate) namespace: Option<String>,
    #[serde(borrow)]
    pub(crate) object: Option<&'a RawValue>,
    #[serde(borrow, alias = "oldObject")]
    pub(crate) old_object: Option<&'a RawValue>,
    #[serde(borrow, alias = "userInfo")]
    pub(crate) user_info: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct GroupKind {
    pub(crate) group: String,
    pub(crate) kind: String,
}
