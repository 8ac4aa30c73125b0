//! Definitions of custom resources, and the ConfigMap that lists kinds of workloads.

use pps_recorder::facts::store::Update;
use pps_sidecar::observe::discovery::{Discovery, WatchAction};
use pps_sidecar::observe::objects;
use serde_json::{Value, json};

use super::{name_of, read};

const NAMESPACE: &str = "kruise-system";
const LIST: &str = "PPS_Watch_Custom_Workload_WhiteList";

pub(super) fn definition(group: &str, kind: &str) -> Value {
    json!({
        "metadata": {"name": format!("x.{group}"), "resourceVersion": "1"},
        "spec": {"group": group, "names": {"kind": kind, "plural": "x"}, "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true}]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    })
}

pub(super) fn config(list: &str) -> Value {
    json!({"metadata": {"name": "kruise-configuration", "namespace": NAMESPACE, "uid": "c", "resourceVersion": "1"}, "data": {LIST: list}})
}

/// A discovery that watches the kind `Database` of `a.io`.
fn discovery() -> Discovery {
    let mut discovery = Discovery::new(NAMESPACE);
    discovery.apply_definitions(Update::Begin(0));
    let item = objects::read_definition(&definition("a.io", "Database").to_string()).unwrap();
    discovery.apply_definitions(Update::Apply(item.key, item.fact.unwrap()));
    discovery.apply_definitions(Update::Done);
    discovery.apply_config(Update::Begin(0));
    let list = json!({"workloads": [{"group": "a.io", "kind": "Database"}, {"group": "b.io", "kind": "Cache"}]});
    let item = objects::read_config(&config(&list.to_string()).to_string()).unwrap();
    discovery.apply_config(Update::Apply(item.key, item.fact.unwrap()));
    discovery.apply_config(Update::Done);
    assert!(matches!(
        &discovery.take_actions()[..],
        [WatchAction::Start(..)]
    ));
    discovery
}

/// A definition: a kind is watched only if it is listed, established and namespaced, in a version
/// that is served.
pub fn check_definition(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Some((object, item)) = read(&text, objects::read_definition) else {
        return;
    };
    assert_eq!(*item.key, *name_of(&object).1);
    let fact = item.fact.unwrap();
    let spec = &object["spec"];
    let versions = || spec["versions"].as_array().into_iter().flatten();
    let served: Vec<&str> = versions()
        .filter(|one| one["served"] == true)
        .filter_map(|one| one["name"].as_str())
        .collect();
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let is_established =
        conditions.any(|one| one["type"] == "Established" && one["status"] == "True");
    if item.unreadable.is_none() {
        let read: Vec<&str> = fact
            .versions
            .iter()
            .map(|version| &*version.name)
            .filter(|name| !name.is_empty())
            .collect();
        assert_eq!(
            read,
            served
                .iter()
                .copied()
                .filter(|name| !name.is_empty())
                .collect::<Vec<_>>(),
            "{object}"
        );
        assert_eq!(
            (fact.established, fact.namespaced),
            (is_established, spec["scope"] == "Namespaced"),
            "{object}"
        );
    } else {
        assert!(!fact.established, "{object}");
    }
    let mut discovery = discovery();
    let is_own = *item.key == *"x.a.io";
    discovery.apply_definitions(Update::Apply(item.key, fact));
    for action in discovery.take_actions() {
        match action {
            WatchAction::Start(id, resource) => {
                assert!(is_established && spec["scope"] == "Namespaced", "{object}");
                let is_served = served.contains(&&*resource.version) || resource.version.is_empty();
                assert!(
                    is_served && *resource.group == *id.kind.group,
                    "{resource:?}: {object}"
                );
                assert_eq!(
                    spec["group"].as_str().unwrap_or_default(),
                    resource.group,
                    "{object}"
                );
                let listed = [
                    ("a.io", "Database"),
                    ("b.io", "Cache"),
                    ("apps.kruise.io", "StatefulSet"),
                ];
                assert!(
                    listed.contains(&(&*resource.group, &*resource.kind)),
                    "{object}"
                );
            }
            WatchAction::Stop(kind) => {
                assert!(is_own || *kind.group == *"a.io", "{kind}: {object}");
            }
            WatchAction::Publish(_) | WatchAction::RelistObjects => {}
        }
    }
}

/// The list of kinds, and after a zero byte the whole ConfigMap. What is no JSON object stops no
/// watch.
pub fn check_whitelist(data: &[u8]) {
    let text = match data.split_first() {
        Some((0, object)) => String::from_utf8_lossy(object).into_owned(),
        _ => config(&String::from_utf8_lossy(data)).to_string(),
    };
    let Some((object, item)) = read(&text, objects::read_config) else {
        return;
    };
    let (namespace, name) = name_of(&object);
    assert_eq!(
        (&*item.key.namespace, &*item.key.name),
        (&*namespace, &*name)
    );
    let fact = item.fact.unwrap();
    let list = object["data"][LIST].as_str();
    assert!(
        item.unreadable.is_some() || fact.whitelist.as_deref() == list,
        "{object}"
    );
    let is_object = list
        .is_some_and(|list| serde_json::from_str::<Value>(list).is_ok_and(|list| list.is_object()));
    let may_change = (namespace == NAMESPACE && name == "kruise-configuration")
        && item.unreadable.is_none()
        && (is_object || list.is_none_or(|list| list.trim().is_empty()));
    let mut discovery = discovery();
    discovery.apply_config(Update::Apply(item.key, fact));
    let mut actions = discovery.take_actions();
    actions.retain(|action| matches!(action, WatchAction::Start(..) | WatchAction::Stop(..)));
    assert!(may_change || actions.is_empty(), "{actions:?}: {object}");
    // Only what the cluster defines is watched.
    assert!(!actions.iter().any(
        |action| matches!(action, WatchAction::Start(_, resource) if *resource.group != *"a.io")
    ));
}
