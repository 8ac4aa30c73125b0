//! The reads before a state is dropped or a generated PPS is deleted, and after conflicts: the workload, the Pods and
//! the PPS as the API server has them, not as the watches have shown them.
//!
//! Each read is a list of the one object with this name, without a resource version. The API server answers it from etcd,
//! or from a cache that it knows to be current. An empty list says that there is no such object, which a 404 of a proxy
//! cannot be mistaken for, and the permission to list is one that the sidecar has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, PartialObjectMeta};
use kube::{Api, Resource};
use pps_core::kinds;
use serde::de::DeserializeOwned;

use super::{Failure, Unconfirmed, WriteResult, Writer, bounded};
use crate::decide::GeneratedPps;
use crate::decide::index::{DropCheck, StatusWrite};
use crate::facts::interest::Interest;
use crate::facts::{NamespacedName, NodeFact, PodFact, WorkloadFact, WorkloadKey};
use crate::observe::watch::api_resource;
use crate::observe::wire::{self, CustomWorkload, Pod, ReadPps, StatefulSet};

/// How many Pods or nodes are read at once for one write.
const READS_AT_ONCE: usize = 8;

/// How many Pods of a namespace are counted with one request.
const PODS_PER_PAGE: u32 = 500;

/// How a kind of workloads is read.
#[derive(Clone, Debug)]
pub(crate) enum WorkloadSource {
    StatefulSet,
    Custom(kinds::Resource),
    /// The kind is no longer watched.
    Unknown,
}

impl Writer {
    /// Writes a status. If it drops entries or replaces values, they are checked first; the write is sent only if all are
    /// confirmed.
    pub(crate) async fn write_checked_status(
        self,
        write: StatusWrite,
        source: WorkloadSource,
    ) -> WriteResult {
        if let Some(check) = &write.drops {
            let unconfirmed = self.unconfirmed(check, source).await;
            if !unconfirmed.held.is_empty() {
                return WriteResult::DropsUnconfirmed(write, unconfirmed);
            }
        }
        self.write_status(write).await
    }

    /// Writes or deletes a generated PPS, if its workload is still the one from which that was decided.
    pub(crate) async fn write_current_generated_pps(
        self,
        workload: WorkloadKey,
        generated: GeneratedPps,
        decided_from: Option<WorkloadFact>,
        source: WorkloadSource,
    ) -> WriteResult {
        match self.read_workload(&workload, source).await {
            Ok(fact) if fact == decided_from => self.write_generated_pps(workload, generated).await,
            Ok(_) => WriteResult::Generated(workload, generated, Err(Failure::Conflict)),
            Err(failure) => WriteResult::Generated(workload, generated, Err(failure)),
        }
    }

    /// The entries that must stay: what a read refutes, or what cannot be read.
    async fn unconfirmed(&self, check: &DropCheck, source: WorkloadSource) -> Unconfirmed {
        let workload = if check.has_drops() {
            match self.read_workload(&check.workload, source).await {
                Ok(workload) => workload,
                Err(failure) => return Unconfirmed { held: check.all(), failure: Some(failure) },
            }
        } else {
            None
        };
        let (mut result, interest) = (Unconfirmed::default(), check.interest());
        let mut pods = BTreeMap::new();
        let mut reads = stream::iter(check.pods())
            .map(|key| async { (key.name.clone(), self.read_pod(key, &interest).await) })
            .buffer_unordered(READS_AT_ONCE);
        while let Some((name, pod)) = reads.next().await {
            match pod {
                Ok(pod) => pods.extend(pod),
                Err(failure) => {
                    result.held.insert(name);
                    result.fail(failure);
                }
            }
        }
        let (mut nodes, mut unread) = (BTreeMap::new(), BTreeSet::new());
        let mut reads = stream::iter(check.nodes())
            .map(|node| async { (self.read_node(&node, &interest).await, node) })
            .buffer_unordered(READS_AT_ONCE);
        while let Some((fact, node)) = reads.next().await {
            match fact {
                Ok(fact) => nodes.extend(fact.map(|fact| (node, fact))),
                Err(failure) => {
                    unread.insert(node);
                    result.fail(failure);
                }
            }
        }
        if let Some(workload) = check.counted() {
            let living = self.count_living(&check.workload.object.namespace, workload).await;
            result.held.extend(check.refuted_by_count(living.as_ref().ok().copied()));
            if let Err(failure) = living {
                result.fail(failure);
            }
        }
        result.held.extend(check.on_nodes(&unread));
        result.held.extend(check.refuted(workload.as_ref(), &pods, &nodes));
        result
    }

    async fn read_workload(
        &self,
        key: &WorkloadKey,
        source: WorkloadSource,
    ) -> Result<Option<WorkloadFact>, Failure> {
        let namespace = &key.object.namespace;
        let resource = match source {
            WorkloadSource::StatefulSet => {
                let api: Api<StatefulSet> = Api::namespaced(self.client.clone(), namespace);
                return Ok(read(&api, &key.object).await?.map(|workload| wire::workload_fact(&workload)));
            }
            WorkloadSource::Custom(resource) => resource,
            WorkloadSource::Unknown => {
                let message = format!("{} is no longer watched", key.kind);
                return Err(Failure::Other { message, retry_after: None });
            }
        };
        let naming = resource.naming.clone();
        let resource = api_resource(resource);
        let api: Api<CustomWorkload> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        let workload = read(&api, &key.object).await?;
        Ok(workload.map(|workload| wire::custom_workload_fact(&workload, &resource.api_version, &naming)))
    }

    /// Reads a PPS whose writes keep conflicting.
    pub(crate) async fn read_pps(self, key: NamespacedName, known_version: String) -> WriteResult {
        let api: Api<ReadPps> = Api::namespaced(self.client.clone(), &key.namespace);
        let result =
            read(&api, &key).await.map(|object| object.map(|object| Box::new(wire::pps_fact(object))));
        WriteResult::PpsRead(key, known_version, result)
    }

    /// How many living Pods a workload has; all that it wants are enough.
    async fn count_living(&self, namespace: &str, workload: &WorkloadFact) -> Result<usize, Failure> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let mut params = ListParams::default().limit(PODS_PER_PAGE);
        let mut living = 0;
        loop {
            let page = bounded(api.list_metadata(&params)).await?;
            let is_living = |pod: &&PartialObjectMeta<Pod>| {
                let mut owners = pod.metadata.owner_references.iter().flatten();
                pod.metadata.deletion_timestamp.is_none()
                    && owners.any(|owner| owner.controller == Some(true) && *owner.uid == *workload.uid)
            };
            living += page.items.iter().filter(is_living).count();
            let next = page.metadata.continue_.filter(|token| !token.is_empty());
            let (false, Some(next)) = (workload.demand.is_met_by(living), next) else { return Ok(living) };
            params = params.continue_token(&next);
        }
    }

    async fn read_node(&self, name: &str, interest: &Interest) -> Result<Option<NodeFact>, Failure> {
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        Ok(self.list_nodes(&params).await?.first().map(|node| wire::node_fact(node, interest)))
    }

    /// Whether the API server has a node that one of these selectors selects.
    pub(super) async fn exists_node(&self, selectors: &BTreeSet<String>) -> Result<bool, Failure> {
        for selector in selectors {
            let params = ListParams::default().labels(selector).limit(1);
            if !self.list_nodes(&params).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn list_nodes(&self, params: &ListParams) -> Result<Vec<PartialObjectMeta<Node>>, Failure> {
        let api: Api<Node> = Api::all(self.client.clone());
        Ok(bounded(api.list_metadata(params)).await?.items)
    }

    async fn read_pod(
        &self,
        key: NamespacedName,
        interest: &Interest,
    ) -> Result<Option<(Arc<str>, PodFact)>, Failure> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let pod = read(&api, &key).await?;
        Ok(pod.and_then(|pod| wire::pod_fact(&pod, interest)).map(|fact| (key.name, fact)))
    }
}

impl Unconfirmed {
    /// Notes a failure; of several, the one with the longest wait.
    fn fail(&mut self, failure: Failure) {
        if self.failure.as_ref().is_none_or(|before| before.retry_after() < failure.retry_after()) {
            self.failure = Some(failure);
        }
    }
}

/// Reads one object; `None` if there is none.
pub(super) async fn read<O>(api: &Api<O>, key: &NamespacedName) -> Result<Option<O>, Failure>
where
    O: Resource + Clone + DeserializeOwned + Debug,
{
    let params = ListParams::default().fields(&format!("metadata.name={}", key.name));
    let list = bounded(api.list(&params)).await?;
    Ok(list.items.into_iter().find(|object| object.meta().name.as_deref() == Some(&*key.name)))
}
