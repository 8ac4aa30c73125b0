//! Lists: each distinct query becomes a watch that is never removed, and is answered from memory.

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

/// A list that a policy asks for.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) resource: ApiResource,
    pub(super) namespace: Option<String>,
    pub(super) label_selector: Option<String>,
    pub(super) field_selector: Option<String>,
    pub(super) field_masks: Option<BTreeSet<String>>,
}

impl Query {
    /// Equal queries share a watch.
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

    /// How many watches there are.
    pub(super) async fn count(&self) -> usize {
        self.known.read().await.len()
    }

    /// Answers a list. The first one of its kind waits for the watch to have seen everything: for
    /// ever if the permission is missing, since the watch tries again and again.
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
            // Two at once make two watches, as in PolicyServer; the later one is kept.
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

/// What the cache does not keep.
fn strip(object: &mut DynamicObject, mask: Option<&Mask>) {
    object.managed_fields_mut().clear();
    object.annotations_mut().remove("kubectl.kubernetes.io/last-applied-configuration");
    if let Some(mask) = mask {
        mask.prune(&mut object.data);
    }
}
