//! The reads before a state is dropped, a generated PPS is created or deleted, or a Pod is evicted,
//! and after conflicts: objects as the API server has them, not as the watches have shown them.
//!
//! Each read is a list of the one object with this name, without a resource version. The API server
//! answers it from etcd, or from a cache that it knows to be current. An empty list says that there
//! is no such object, which a 404 of a proxy cannot be mistaken for, and the permission to list is
//! one that the sidecar has.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::core::{DynamicObject, PartialObjectMeta};
use pps_api::{Accept, PageBody, Source, describe_json, get, path};
use pps_recorder::kinds::Resource;
use serde_json::Value;
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use super::{Failure, LARGEST_ANSWER, LIMIT, Outcome, READS_AT_ONCE, Unconfirmed, Writer};
use crate::observe::objects::{self, Item, Malformed};
use crate::observe::watch::api_resource;
use pps_recorder::facts::{
    GroupKind, NamespacedName, NodeFact, PodFact, PpsFact, PpsObject, WorkloadFact, WorkloadKey,
    interest::Interest,
};
use pps_recorder::living_pods::LivingPods;
use pps_recorder::{GeneratedPps, LossCheck, PodEviction, StatusWrite};

/// How long a read may take: others wait for their turn, and so do the writes that they belong to.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) const OBJECTS_PER_PAGE: u32 = 50;

impl Writer {
    /// Writes a status. If it drops entries or replaces values, they are checked first; the write
    /// is sent only if all are confirmed.
    pub(crate) async fn write_checked_status(
        self,
        write: StatusWrite,
        resource: Option<Resource>,
    ) -> Outcome {
        if let Some(check) = &write.loss_check {
            let unconfirmed = self.unconfirmed(check, resource).await;
            if !unconfirmed.held.is_empty() {
                return Outcome::LossUnconfirmed { write, unconfirmed };
            }
        }
        self.write_status(write).await
    }

    /// Writes or deletes a generated PPS, if its workload is still the one from which that was
    /// decided.
    pub(crate) async fn write_current_generated_pps(
        self,
        workload: WorkloadKey,
        generated: GeneratedPps,
        decided_from: Option<WorkloadFact>,
        resource: Option<Resource>,
    ) -> Outcome {
        let failure = match self.read_workload(&workload, resource).await {
            Ok(fact) if fact == decided_from => {
                return self.write_generated_pps(workload, generated).await;
            }
            Ok(_) => Failure::Conflict,
            Err(failure) => failure,
        };
        Outcome::Generated {
            workload,
            write: generated,
            result: Err(failure),
        }
    }

    /// The entries that must stay: what a read refutes, or what cannot be read.
    async fn unconfirmed(&self, check: &LossCheck, resource: Option<Resource>) -> Unconfirmed {
        let mut result = Unconfirmed::default();
        let interest = check.interest();
        let reads = check
            .pods()
            .map(|key| (key.name.clone(), self.read_pod(key, &interest)));
        let (pods, unread) = result.gather(reads).await;
        result.held.extend(unread);
        let reads = check
            .nodes()
            .into_iter()
            .map(|node| (node.clone(), self.read_node(node, &interest)));
        let (nodes, unread) = result.gather(reads).await;
        result.held.extend(check.on_nodes(&unread));
        let namespace = &check.workload.object.namespace;
        if let Some(workload) = check.with_living_pods()
            && !result.is_stopped()
        {
            let living = self.living_pods(namespace, workload).await;
            let failure = |error| Failure::of_read(&format!("the Pods of {namespace}"), &error);
            let living = result.note(living.map_err(failure));
            result.held.extend(check.refuted_by_living(living));
        }
        if result.is_stopped() {
            return result;
        }
        // Last: the other reads may take minutes, in which the workload may be scaled up again.
        let workload = if check.has_drops() {
            self.read_workload(&check.workload, resource).await
        } else {
            self.expect_in_scope(namespace).await.map(|()| None)
        };
        let refuted =
            |workload: Option<WorkloadFact>| check.refuted(workload.as_ref(), &pods, &nodes);
        let refuted = result.note(workload).map_or_else(|| check.all(), refuted);
        result.held.extend(refuted);
        result
    }

    async fn read_workload(
        &self,
        key: &WorkloadKey,
        resource: Option<Resource>,
    ) -> Result<Option<WorkloadFact>, Failure> {
        let WorkloadKey { object: key, kind } = key;
        self.expect_in_scope(&key.namespace).await?;
        if *kind == GroupKind::stateful_set() {
            let source = self.source::<StatefulSet>(&(), &key.namespace);
            return self
                .read(
                    "StatefulSet",
                    source,
                    key,
                    &key.name,
                    objects::read_stateful_set,
                )
                .await;
        }
        let Some(resource) = resource else {
            let message = format!("{kind} is no longer watched");
            return Err(Failure::Other {
                message,
                retry_after: Duration::ZERO,
            });
        };
        let naming = resource.naming.clone();
        let api = api_resource(resource);
        let source = self
            .source::<DynamicObject>(&api, &key.namespace)
            .with_any_list_kind();
        let read = |object: &str| objects::read_custom_workload(object, &api.api_version, &naming);
        self.read(&api.kind, source, key, &key.name, read).await
    }

    /// Reads from etcd, not from a cache, whether a node exists. Only an unambiguous `NotFound`
    /// counts: a proxy may also answer 404. Before a state is dropped because of the answer, the
    /// node is read once more, as all that the drop rests on.
    pub(crate) async fn look_up_node(self, node: Arc<str>) -> Outcome {
        // The semaphore is never closed.
        let _turn = self.reads.acquire().await.ok();
        let path = path::<Node>(None, &node);
        let answer = get(&self.client, &path, Accept::Metadata, LIMIT).await;
        let exists = match answer.map(|_: PartialObjectMeta<Node>| ()) {
            Err(failure) if failure.is_not_found("nodes", &node) => Ok(false),
            answer => answer.map(|()| true).map_err(Failure::from),
        };
        Outcome::NodeLookup { node, exists }
    }

    pub(crate) async fn read_pps(self, key: NamespacedName, known_version: String) -> Outcome {
        let result = self.current_pps(&key).await;
        Outcome::PpsRead {
            key,
            known_version,
            result,
        }
    }

    async fn current_pps(&self, key: &NamespacedName) -> Result<Option<Box<PpsFact>>, Failure> {
        let source = self.source::<PpsObject>(&(), &key.namespace);
        // The fact itself says whether it can be read.
        let read = |object: &str| {
            objects::read_pps(object).map(|item| Item {
                unreadable: None,
                ..item
            })
        };
        self.read("PersistentPodState", source, key, &key.name, read)
            .await
    }

    /// The living Pods of a workload, as far as they decide something.
    async fn living_pods(
        &self,
        namespace: &str,
        workload: &WorkloadFact,
    ) -> Result<LivingPods, pps_api::Failure> {
        let source = self.source::<Pod>(&(), namespace).only_metadata();
        let mut size = source.page_size();
        let mut token = None;
        let mut living = LivingPods::default();
        let interest = Interest::default();
        loop {
            let (body, _turn) = match self.page(&source, token.clone(), size.objects()).await {
                Err(pps_api::Failure::TooLarge(_)) if size.shrink() => continue,
                page => page?,
            };
            size.arrived(body.size());
            let page = body.read()?;
            for pod in page.items {
                let is_living =
                    |pod: PodFact| !pod.terminating && pod.owner.as_ref() == Some(&workload.uid);
                let Item { key, fact, .. } = objects::read_pod(pod.get(), &interest)?;
                if fact.is_some_and(is_living) {
                    living.add(&workload.demand, &key.name);
                }
            }
            token = page.continue_token;
            if token.is_none() || living.is_decisive(&workload.demand) {
                return Ok(living);
            }
        }
    }

    async fn read_node(
        &self,
        name: Arc<str>,
        interest: &Interest,
    ) -> Result<Option<NodeFact>, Failure> {
        let read = |object: &str| objects::read_node(object, interest);
        self.read("Node", self.nodes(), &name, &name, read).await
    }

    /// Fails if the API server has a node that could take the Pod, or another version of its PPS.
    pub(super) async fn expect_unschedulable(&self, eviction: &PodEviction) -> Result<(), Failure> {
        self.expect_in_scope(&eviction.pod.namespace).await?;
        let pps = self.current_pps(&eviction.pps).await?;
        if pps.is_none_or(|pps| pps.resource_version != eviction.pps_version) {
            return Err(Failure::Conflict);
        }
        for selector in &eviction.node_selectors {
            let found = async {
                let (body, _turn) = self.page(&self.nodes().selected(selector), None, 1).await?;
                let page = body.read()?;
                Ok::<_, pps_api::Failure>(!page.items.is_empty() || page.continue_token.is_some())
            };
            let failure =
                |error| Failure::of_read(&format_args!("the nodes with {selector}"), &error);
            if found.await.map_err(failure)? {
                return Err(Failure::Conflict);
            }
        }
        Ok(())
    }

    /// Fails if a namespace has just left the scope: then no state is dropped, and no Pod evicted.
    pub(super) async fn expect_in_scope(&self, namespace: &Arc<str>) -> Result<(), Failure> {
        let source = Source::new::<Namespace>(self.client.clone(), &(), None, 1).only_metadata();
        let source = source.selected(&self.namespace_selector);
        if self.namespace_selector.is_empty() {
            return Ok(());
        }
        let found = self
            .read(
                "Namespace",
                source,
                namespace,
                namespace,
                objects::read_namespace,
            )
            .await?;
        found.ok_or(Failure::Conflict)
    }

    fn nodes(&self) -> Source {
        Source::new::<Node>(self.client.clone(), &(), None, 1).only_metadata()
    }

    async fn read_pod(
        &self,
        key: NamespacedName,
        interest: &Interest,
    ) -> Result<Option<PodFact>, Failure> {
        let source = self.source::<Pod>(&(), &key.namespace);
        let read = |object: &str| objects::read_pod(object, interest);
        self.read("Pod", source, &key, &key.name, read).await
    }

    pub(super) fn source<O: kube::Resource>(
        &self,
        resource: &O::DynamicType,
        namespace: &str,
    ) -> Source {
        Source::new::<O>(
            self.client.clone(),
            resource,
            Some(namespace),
            OBJECTS_PER_PAGE,
        )
    }

    /// Reads one object of this kind; `None` if a complete list does not have it.
    async fn read<K: PartialEq + Display, F>(
        &self,
        kind: &str,
        source: Source,
        key: &K,
        name: &str,
        read: impl Fn(&str) -> Result<Item<K, F>, Malformed>,
    ) -> Result<Option<F>, Failure> {
        let found = async {
            // Without a limit, as it could come before the selection.
            let (body, _turn) = self.page(&source.named(name), None, 0).await?;
            let page = body.read()?;
            for object in page.items {
                let item = read(object.get())?;
                if item.key == *key {
                    return item
                        .unreadable
                        .map_or(Ok(item.fact), |error| Err(Malformed(error).into()));
                }
            }
            // A proxy may have limited it.
            match page.continue_token {
                Some(_) => Err(Malformed("the list is not complete".into()).into()),
                None => Ok(None),
            }
        };
        found
            .await
            .map_err(|error| Failure::of_read(&format_args!("{kind} {key}"), &error))
    }

    /// Reads one object as it is; `None` if a complete list does not have it.
    pub(super) async fn read_object(
        &self,
        kind: &str,
        source: Source,
        name: &str,
    ) -> Result<Option<Value>, Failure> {
        let read = |object: &str| {
            let object: Value =
                serde_json::from_str(object).map_err(|error| Malformed(describe_json(&error)))?;
            let key = object["metadata"]["name"].as_str().unwrap_or_default();
            Ok(Item {
                key: key.to_owned(),
                resource_version: String::new(),
                fact: Some(object),
                unreadable: None,
            })
        };
        self.read(kind, source, &name.to_owned(), name, read).await
    }

    /// A page of a list, and the permission to have it in memory. Waits for its turn among all
    /// reads.
    pub(super) async fn page(
        &self,
        source: &Source,
        token: Option<String>,
        objects: u32,
    ) -> Result<(PageBody, Option<SemaphorePermit<'_>>), pps_api::Failure> {
        // The semaphore is never closed.
        let turn = self.reads.acquire().await.ok();
        let page = timeout(
            READ_TIMEOUT,
            source.clone().page(token, objects, LARGEST_ANSWER, None),
        )
        .await;
        Ok((
            page.map_err(|_| pps_api::Failure::Silent(READ_TIMEOUT))??,
            turn,
        ))
    }
}

impl Unconfirmed {
    /// Makes these reads of named objects, until one fails that would not only fail for its object.
    /// Returns what exists, and the names of what is not known.
    async fn gather<F>(
        &mut self,
        reads: impl Iterator<Item = (Arc<str>, impl Future<Output = Result<Option<F>, Failure>>)>,
    ) -> (BTreeMap<Arc<str>, F>, BTreeSet<Arc<str>>) {
        let mut found = BTreeMap::new();
        let mut unknown = BTreeSet::new();
        let mut reads = reads.fuse();
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < READS_AT_ONCE
                && !self.is_stopped()
                && let Some((name, read)) = reads.next()
            {
                running.push(async move { (name, read.await) });
            }
            let Some((name, result)) = running.next().await else {
                break;
            };
            match self.note(result) {
                Some(object) => found.extend(object.map(|object| (name, object))),
                None => drop(unknown.insert(name)),
            }
        }
        unknown.extend(reads.map(|(name, _)| name));
        (found, unknown)
    }

    fn is_stopped(&self) -> bool {
        self.failure
            .as_ref()
            .is_some_and(|failure| !matches!(failure, Failure::Unreadable(_)))
    }

    /// Notes a failure; of several, one that stops the check, and the one with the longest wait.
    fn note<T>(&mut self, result: Result<T, Failure>) -> Option<T> {
        let weight = |failure: &Failure| {
            (
                !matches!(failure, Failure::Unreadable(_)),
                failure.retry_after(),
            )
        };
        match result {
            Ok(value) => return Some(value),
            Err(failure)
                if self
                    .failure
                    .as_ref()
                    .is_some_and(|before| weight(before) >= weight(&failure)) => {}
            Err(failure) => self.failure = Some(failure),
        }
        None
    }
}
