//! The `kubernetes` host capabilities, answered from a real API server in the way of PolicyServer.

use std::{
    collections::{BTreeSet, HashMap},
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, PostParams},
};
use serde::{Deserialize, Serialize};
use tokio::{
    runtime::Handle,
    sync::{Mutex, RwLock, oneshot},
};

use super::{
    host_calls::HostCalls,
    mask::Mask,
    reflector::{Query, Reflectors},
};

/// How long a cached answer is valid.
const CACHE_TIME: Duration = Duration::from_secs(5);

/// Resources by apiVersion and kind, and whether each is namespaced.
type Discovered = HashMap<(String, String), (ApiResource, bool)>;

type Cache<T> = Arc<Mutex<HashMap<String, (Instant, T)>>>;

/// Answers host calls with the permissions of one user. Clones share the caches.
#[derive(Clone)]
pub struct KubernetesHost {
    runtime: Handle,
    inner: Inner,
}

#[derive(Clone)]
struct Inner {
    client: Client,
    reflectors: Reflectors,
    resources: Arc<RwLock<Discovered>>,
    objects: Cache<DynamicObject>,
    reviews: Cache<SubjectAccessReviewStatus>,
}

#[derive(Deserialize)]
struct GetRequest {
    api_version: String,
    kind: String,
    name: String,
    namespace: Option<String>,
    disable_cache: bool,
    field_masks: Option<BTreeSet<String>>,
}

#[derive(Deserialize)]
struct ListRequest {
    api_version: String,
    kind: String,
    label_selector: Option<String>,
    field_selector: Option<String>,
    field_masks: Option<BTreeSet<String>>,
}

#[derive(Deserialize)]
struct ListInNamespaceRequest {
    namespace: String,
    #[serde(flatten)]
    list: ListRequest,
}

#[derive(Deserialize)]
struct CanIRequest {
    subject_access_review: CanI,
    disable_cache: bool,
}

#[derive(Clone, Debug, Deserialize)]
struct CanI {
    groups: Option<Vec<String>>,
    resource_attributes: CanIResource,
    user: String,
}

#[derive(Clone, Debug, Deserialize)]
struct CanIResource {
    group: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    resource: String,
    subresource: Option<String>,
    verb: String,
    version: Option<String>,
}

impl KubernetesHost {
    /// Uses a client of the PolicyServer's user, which must belong to that runtime.
    pub fn new(runtime: Handle, client: Client) -> Self {
        let inner = Inner {
            reflectors: Reflectors::new(client.clone()),
            client,
            resources: Arc::default(),
            objects: Arc::default(),
            reviews: Arc::default(),
        };
        Self { runtime, inner }
    }

    /// The number of watches that lists of policies have started.
    pub async fn watches(&self) -> usize {
        self.inner.reflectors.count().await
    }

    /// Runs the future on the runtime and blocks until it ends, however long that takes.
    fn wait<T, F>(&self, answer: F) -> Result<Vec<u8>, String>
    where
        T: Serialize,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        self.runtime.spawn(async move {
            let answer = match answer.await {
                Ok(value) => serde_json::to_vec(&value)
                    .map_err(|error| anyhow!("error serializing payload: {error:?}")),
                Err(error) => Err(error),
            };
            let _ = sender.send(answer);
        });
        match receiver.blocking_recv() {
            Ok(Ok(payload)) => Ok(payload),
            Ok(Err(error)) => Err(format!("Callback evaluation failure: {error:?}")),
            Err(_) => Err("Error obtaining response over callback channel".to_owned()),
        }
    }
}

impl HostCalls for KubernetesHost {
    fn call(&self, namespace: &str, operation: &str, payload: &[u8]) -> Result<Vec<u8>, String> {
        if namespace != "kubernetes" {
            return Err(format!("unknown namespace: {namespace}"));
        }
        let inner = self.inner.clone();
        match operation {
            "get_resource" => {
                let request: GetRequest = parse(payload)?;
                self.wait(async move { inner.get(request).await })
            }
            "list_resources_by_namespace" => {
                let request: ListInNamespaceRequest = parse(payload)?;
                self.wait(async move { inner.list(request.list, Some(request.namespace)).await })
            }
            "list_resources_all" => {
                let request: ListRequest = parse(payload)?;
                self.wait(async move { inner.list(request, None).await })
            }
            "can_i" => {
                let request: CanIRequest = parse(payload)?;
                self.wait(async move { inner.can_i(request).await })
            }
            _ => Err(format!("unknown operation: {operation}")),
        }
    }
}

fn parse<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(payload).map_err(|error| error.to_string())
}

impl Inner {
    async fn get(&self, request: GetRequest) -> Result<DynamicObject> {
        let mut object = if request.disable_cache {
            self.fetch(&request).await?
        } else {
            let GetRequest { api_version, kind, name, namespace, .. } = &request;
            let key = format!("{api_version},{kind},{name},{namespace:?}");
            cached(&self.objects, key, self.fetch(&request)).await?
        };
        if let Some(masks) = request.field_masks {
            Mask::new(masks).prune(&mut object.data);
        }
        Ok(object)
    }

    async fn fetch(&self, request: &GetRequest) -> Result<DynamicObject> {
        let GetRequest { api_version, kind, name, namespace, .. } = request;
        let (resource, namespaced) = self.resource(api_version, kind).await?;
        let client = self.client.clone();
        let api: Api<DynamicObject> = if namespaced {
            let namespace = namespace.as_deref().ok_or_else(|| {
                anyhow!("Resource {api_version}/{kind} is namespaced, but no namespace was provided")
            })?;
            Api::namespaced_with(client, namespace, &resource)
        } else {
            Api::all_with(client, &resource)
        };
        let namespace = namespace.as_deref();
        api.get_opt(name).await?.ok_or_else(|| {
            anyhow!("Cannot find {api_version}/{kind} named '{name}' inside of namespace '{namespace:?}'")
        })
    }

    async fn list(
        &self,
        request: ListRequest,
        namespace: Option<String>,
    ) -> Result<kube::api::ObjectList<DynamicObject>> {
        let ListRequest { api_version, kind, label_selector, field_selector, field_masks } = request;
        let (resource, namespaced) = self.resource(&api_version, &kind).await?;
        if namespace.is_some() && !namespaced {
            return Err(anyhow!(
                "resource {api_version}/{kind} is cluster wide. Cannot search for it inside of a namespace"
            ));
        }
        self.reflectors.list(Query { resource, namespace, label_selector, field_selector, field_masks }).await
    }

    async fn can_i(&self, request: CanIRequest) -> Result<SubjectAccessReviewStatus> {
        let asked = request.subject_access_review;
        if request.disable_cache {
            return self.review(asked).await;
        }
        cached(&self.reviews, format!("{asked:?}"), self.review(asked)).await
    }

    async fn review(&self, asked: CanI) -> Result<SubjectAccessReviewStatus> {
        let CanIResource { group, name, namespace, resource, subresource, verb, version } =
            asked.resource_attributes;
        let attributes = ResourceAttributes {
            group,
            name,
            namespace,
            resource: Some(resource),
            subresource,
            verb: Some(verb),
            version,
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: Some(asked.user),
            groups: asked.groups,
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await?;
        answer.status.ok_or_else(|| anyhow!("SubjectAccessReview did not return a response"))
    }

    /// Looks a kind up in discovery and remembers it. A kind that was not found is looked up again.
    async fn resource(&self, api_version: &str, kind: &str) -> Result<(ApiResource, bool)> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(known) = self.resources.read().await.get(&key) {
            return Ok(known.clone());
        }
        let all = if api_version == "v1" {
            self.client.list_core_api_resources(api_version).await?
        } else {
            let all = self.client.list_api_group_resources(api_version).await;
            all.map_err(|error| anyhow!("error finding resource {api_version} / {kind}: {error}"))?
        };
        let found = all.resources.into_iter().find(|resource| resource.kind == kind);
        let found = found.ok_or_else(|| anyhow!("Cannot find resource {api_version}/{kind}"))?;
        let (group, version) = match api_version {
            "v1" => ("", "v1"),
            _ => api_version
                .split_once('/')
                .ok_or_else(|| anyhow!("cannot determine group and version for {api_version}"))?,
        };
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            plural: found.name,
        };
        self.resources.write().await.insert(key, (resource.clone(), found.namespaced));
        Ok((resource, found.namespaced))
    }
}

/// Returns an answer from the last five seconds, or fetches it. The lock is held meanwhile, so that all users of this
/// cache wait for each other. Errors are not cached.
async fn cached<T: Clone>(
    cache: &Cache<T>,
    key: String,
    fetch: impl Future<Output = Result<T>>,
) -> Result<T> {
    let mut cache = cache.lock().await;
    if let Some((since, value)) = cache.get(&key)
        && since.elapsed() < CACHE_TIME
    {
        return Ok(value.clone());
    }
    let value = fetch.await?;
    cache.insert(key, (Instant::now(), value.clone()));
    Ok(value)
}
