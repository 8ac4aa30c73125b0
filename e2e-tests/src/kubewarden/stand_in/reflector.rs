//! Lists: each distinct query starts a watch that is never removed and is answered from memory.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, future::ready};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ObjectList},
    runtime::{
        WatchStreamExt,
        reflector::{self, Store},
        watcher,
    },
};
use tokio::sync::RwLock;

use super::mask::Mask;

/// A list query of a policy.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) resource: ApiResource,
    pub(super) namespace: Option<String>,
    pub(super) label_selector: Option<String>,
    pub(super) field_selector: Option<String>,
    pub(super) field_masks: Option<BTreeSet<String>>,
}

impl Query {
    /// Queries with equal ids share a watch.
    fn id(&self) -> String {
        let Self { resource, namespace, label_selector, field_selector, field_masks } = self;
        let (version, kind) = (&resource.api_version, &resource.kind);
        format!("{version}|{kind}|{namespace:?}|{label_selector:?}|{field_selector:?}|{field_masks:?}")
    }
}

/// All watches of a host.
#[derive(Clone)]
pub(super) struct Reflectors {
    client: Client,
    known: Arc<RwLock<HashMap<String, Store<DynamicObject>>>>,
}

impl Reflectors {
    pub(super) fn new(client: Client) -> Self {
        Self { client, known: Arc::default() }
    }

    /// The number of watches.
    pub(super) async fn count(&self) -> usize {
        self.known.read().await.len()
    }

    /// Answers a list. The first list of a query waits for the initial list of its watch: indefinitely if the
    /// permission is missing, because the watch keeps retrying.
    pub(super) async fn list(&self, query: Query) -> Result<ObjectList<DynamicObject>> {
        let id = query.id();
        let types = kube::api::TypeMeta {
            api_version: query.resource.api_version.clone(),
            kind: format!("{}List", query.resource.kind),
        };
        let known = self.known.read().await.get(&id).cloned();
        let store = if let Some(store) = known {
            store
        } else {
            // As in PolicyServer, two lists at the same time start two watches, and the later one is kept.
            let store = self.watch(query).await?;
            self.known.write().await.insert(id, store.clone());
            store
        };
        let items = store.state().iter().map(|object| DynamicObject::clone(object)).collect();
        Ok(ObjectList { types, metadata: kube::api::ListMeta::default(), items })
    }

    async fn watch(&self, query: Query) -> Result<Store<DynamicObject>> {
        let client = self.client.clone();
        let api: Api<DynamicObject> = match &query.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &query.resource),
            None => Api::all_with(client, &query.resource),
        };
        let mut writer = reflector::store::Writer::new(query.resource);
        let store = writer.as_reader();
        let config = watcher::Config {
            label_selector: query.label_selector,
            field_selector: query.field_selector,
            ..watcher::Config::default()
        };
        let mask = query.field_masks.map(Mask::new);
        let events = watcher(api, config)
            .map_ok(move |event| event.modify(|object| strip(object, mask.as_ref())))
            .inspect_ok(move |event| writer.apply_watcher_event(event))
            .default_backoff()
            .touched_objects();
        tokio::spawn(events.for_each(|seen| {
            if let Err(error) = seen {
                tracing::debug!("watch of a policy's list: {error}");
            }
            ready(())
        }));
        store.wait_until_ready().await?;
        Ok(store)
    }
}

/// Removes what the cache does not keep.
fn strip(object: &mut DynamicObject, mask: Option<&Mask>) {
    object.managed_fields_mut().clear();
    object.annotations_mut().remove("kubectl.kubernetes.io/last-applied-configuration");
    if let Some(mask) = mask {
        mask.prune(&mut object.data);
    }
}
