//! Finds the workload that the command line names, of any kind.

use futures::future::join_all;
use kube::Client;
use pps_check::facts::Right;
use pps_core::pps::GROUP;
use serde_json::Value;

use crate::Failure;
use crate::cluster::read;
use crate::decide::pin::{Resource, WorkloadName, find_resource};

/// How many groups of the API are asked at a time.
const AT_ONCE: usize = 8;

/// The workload, whole, and its kind.
///
/// # Errors
///
/// If it cannot be read or does not exist, or if the kind is not clear.
pub(super) async fn find(client: &Client, namespace: &str, text: &str) -> Result<(Resource, Value), Failure> {
    let named = WorkloadName::read(text).map_err(Failure::Usage)?;
    let mut tried = Vec::new();
    if named.may_be_stateful_set() {
        let resource = Resource::stateful_set();
        if let Some(object) = get(client, &resource, namespace, &named.name).await? {
            return Ok((resource, object));
        }
        tried.push(resource);
    }
    let is_plain = named.kind.is_none();
    let needs_discovery = !named.may_be_stateful_set();
    let resource = if needs_discovery {
        Some(
            find_resource(&discover(client, named.group.as_deref()).await?, &named)
                .map_err(Failure::Usage)?,
        )
    } else if named.group.is_none() {
        // OpenKruise's, if it is installed.
        let lists = discover(client, Some(GROUP)).await?;
        let openkruise = WorkloadName { kind: Some("statefulset".into()), ..named.clone() };
        find_resource(&lists, &openkruise).ok()
    } else {
        None
    };
    if let Some(resource) = resource {
        if let Some(object) = get(client, &resource, namespace, &named.name).await? {
            return Ok((resource, object));
        }
        tried.push(resource);
    }
    let kinds: Vec<String> =
        tried.iter().map(|one| format!("{} ({})", one.kind, one.api_version())).collect();
    let hint = if is_plain { ": for another kind, use KIND/NAME" } else { "" };
    Err(Failure::Usage(format!(
        "namespace {namespace} has no {} {}{hint}",
        kinds.join(" and no "),
        named.name
    )))
}

/// A workload of a kind; none if it does not exist.
pub(super) async fn get(
    client: &Client,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, Failure> {
    let found =
        read::get(client, right("get", resource, namespace, name), &resource.path(namespace, name)).await?;
    Ok(found.map(|mut object| {
        // Typed answers of the API server have both; this is for those that do not.
        object["apiVersion"] = resource.api_version().into();
        object["kind"] = resource.kind.clone().into();
        object
    }))
}

/// The right that an action on the workload needs.
pub(super) fn right(verb: &'static str, resource: &Resource, namespace: &str, name: &str) -> Right {
    Right::new(verb, resource.group.clone(), &resource.plural).named(name).within(namespace)
}

/// The lists of resources of the groups, each in its preferred version. One that does not answer is left out: an aggregated
/// API may be down.
async fn discover(client: &Client, group: Option<&str>) -> Result<Vec<Value>, Failure> {
    let right = Right::new("get", "", "the list of API groups");
    let groups = read::get(client, right, "/apis").await?.unwrap_or_default();
    let versions: Vec<String> = groups["groups"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|one| group.is_none_or(|group| one["name"] == group))
        .filter_map(|one| one["preferredVersion"]["groupVersion"].as_str().map(str::to_owned))
        .collect();
    let mut lists = Vec::new();
    for some in versions.chunks(AT_ONCE) {
        let answers = join_all(some.iter().map(|version| {
            let right = Right::new("get", "", "the list of resources");
            let path = format!("/apis/{version}");
            async move { read::get(client, right, &path).await }
        }));
        lists.extend(answers.await.into_iter().filter_map(Result::ok).flatten());
    }
    Ok(lists)
}
