//! The `kubernetes` host capability that the policy uses, answered from a real API server in the
//! way of PolicyServer.

use std::{
    collections::{BTreeSet, HashMap},
    future::Future,
    sync::Arc,
};

use anyhow::{Result, anyhow};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};
use serde::{Deserialize, Serialize};
use tokio::{
    runtime::Handle,
    sync::{RwLock, oneshot},
};

use super::{host_calls::HostCalls, mask::Mask};

/// Resources by apiVersion and kind, and whether each is namespaced.
type Discovered = HashMap<(String, String), (ApiResource, bool)>;

/// Answers host calls with the permissions of one user. Clones share what discovery has found.
#[derive(Clone)]
pub struct KubernetesHost {
    runtime: Handle,
    inner: Inner,
}

#[derive(Clone)]
struct Inner {
    client: Client,
    resources: Arc<RwLock<Discovered>>,
}

#[derive(Deserialize)]
struct GetRequest {
    api_version: String,
    kind: String,
    name: String,
    namespace: Option<String>,
    field_masks: Option<BTreeSet<String>>,
}

impl KubernetesHost {
    /// Uses a client of the PolicyServer's user, which must belong to that runtime.
    pub fn new(runtime: Handle, client: Client) -> Self {
        let inner = Inner {
            client,
            resources: Arc::default(),
        };
        Self { runtime, inner }
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
        if operation != "get_resource" {
            return Err(format!("unknown operation: {operation}"));
        }
        let request: GetRequest =
            serde_json::from_slice(payload).map_err(|error| error.to_string())?;
        let inner = self.inner.clone();
        self.wait(async move { inner.get(request).await })
    }
}

impl Inner {
    /// Asks the API server each time: the policy never wants a cached answer.
    async fn get(&self, request: GetRequest) -> Result<DynamicObject> {
        let mut object = self.fetch(&request).await?;
        if let Some(masks) = request.field_masks {
            Mask::new(masks).prune(&mut object.data);
        }
        Ok(object)
    }

    async fn fetch(&self, request: &GetRequest) -> Result<DynamicObject> {
        let GetRequest {
            api_version,
            kind,
            name,
            namespace,
            ..
        } = request;
        let (resource, namespaced) = self.resource(api_version, kind).await?;
        let client = self.client.clone();
        let api: Api<DynamicObject> = if namespaced {
            let namespace = namespace.as_deref().ok_or_else(|| {
                anyhow!(
                    "Resource {api_version}/{kind} is namespaced, but no namespace was provided"
                )
            })?;
            Api::namespaced_with(client, namespace, &resource)
        } else {
            Api::all_with(client, &resource)
        };
        let namespace = namespace.as_deref();
        api.get_opt(name).await?.ok_or_else(|| {
            anyhow!(
                "Cannot find {api_version}/{kind} named '{name}' inside of namespace \
                 '{namespace:?}'"
            )
        })
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
        let found = all
            .resources
            .into_iter()
            .find(|resource| resource.kind == kind);
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
        self.resources
            .write()
            .await
            .insert(key, (resource.clone(), found.namespaced));
        Ok((resource, found.namespaced))
    }
}
