//! What a judgement rests on, read from the API server.

use std::time::Instant;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::core::DynamicObject;
use pps_api::{Accept, Class, Source, describe_json, get, path};
use pps_core::succession::is_unobserved;
use pps_recorder::FallbackCandidate;
use pps_recorder::facts::GroupKind;
use pps_recorder::fallback::{Case, Judgement};
use pps_recorder::kinds::Resource;
use pps_scheduler::Volumes;
use serde_json::Value;
use tokio::task::yield_now;

use super::{FallbackFailure, Judged, Subject};
use crate::observe::watch::api_resource;
use crate::write::reads::OBJECTS_PER_PAGE;
use crate::write::{Failure, LIMIT, Writer};

/// How many claims of a Pod are read. A node takes far fewer volumes.
const MAX_CLAIMS: usize = 128;
/// How many Pods of the Pod's namespace are read.
const MAX_PODS: usize = 20_000;

impl Writer {
    pub(super) async fn judge(
        &self,
        candidate: &FallbackCandidate,
        resource: Option<Resource>,
    ) -> Result<Judged, FallbackFailure> {
        let namespace = &candidate.pod.namespace;
        let Subject { spec, pod, .. } = self.read_subject(candidate).await?;
        let state = candidate.state.clone();
        let name = &candidate.pps.name;
        let mut case = Case::new(candidate.question, name, spec, state, pod);
        case.workload = Some(self.workload_object(candidate, resource).await?);
        case.volumes = self.volumes(&case, namespace).await?;
        self.each(&self.all_nodes(), |node| case.add_node(node))
            .await?;
        let mut pods = 0_usize;
        self.each(&self.pods_in(namespace), |pod| {
            pods += 1;
            if pods <= MAX_PODS {
                case.add_pod(pod);
            }
        })
        .await?;
        if pods > MAX_PODS {
            let message = format!("namespace {namespace} has more than {MAX_PODS} Pods");
            return Err(Failure::Unreadable(message).into());
        }
        loop {
            case.set_successors(self.successors().current(Instant::now()));
            // The Lease is renewed on this thread, too.
            yield_now().await;
            let judgement = case.judge();
            let nodes = match &judgement {
                Judgement::Read(nodes) if !nodes.is_empty() => nodes,
                _ => return Ok(Judged { judgement, case }),
            };
            for node in nodes {
                let mut on = Vec::new();
                self.each(&self.pods_on(node), |pod| {
                    on.push(pps_recorder::fallback::slim_pod(pod));
                })
                .await?;
                case.set_pods(node, &on);
            }
        }
    }

    async fn workload_object(
        &self,
        candidate: &FallbackCandidate,
        resource: Option<Resource>,
    ) -> Result<Value, Failure> {
        let WorkloadObject { kind, source } =
            if candidate.workload.kind == GroupKind::stateful_set() {
                WorkloadObject {
                    kind: "StatefulSet".to_owned(),
                    source: self.source::<StatefulSet>(&(), &candidate.pod.namespace),
                }
            } else {
                let resource = resource.ok_or(Failure::Conflict)?;
                let api = api_resource(resource);
                WorkloadObject {
                    source: self
                        .source::<DynamicObject>(&api, &candidate.pod.namespace)
                        .with_any_list_kind(),
                    kind: api.kind,
                }
            };
        let name = &candidate.workload.object.name;
        let found = self.read_object(&kind, source, name).await?;
        found
            .filter(|workload| workload["metadata"]["deletionTimestamp"].is_null())
            // Which revision a Pod has is not known before the controller has seen the template.
            .filter(|workload| {
                workload["status"]["observedGeneration"].is_null() || !is_unobserved(workload)
            })
            .ok_or(Failure::Conflict)
    }

    /// The claims of a Pod, and the volumes that they are bound to.
    async fn volumes(&self, case: &Case, namespace: &str) -> Result<Volumes, FallbackFailure> {
        let mut volumes = Volumes::default();
        let claims = case.claims();
        if claims.len() > MAX_CLAIMS {
            let message = format!("the Pod has more than {MAX_CLAIMS} claims");
            return Err(Failure::Unreadable(message).into());
        }
        for claim in claims {
            let claim_path = path::<PersistentVolumeClaim>(Some(namespace), &claim);
            let Some(mut object) = self.get("persistentvolumeclaims", &claim_path).await? else {
                continue;
            };
            object["kind"] = "PersistentVolumeClaim".into();
            volumes.add(&object);
            let Some(volume) = object["spec"]["volumeName"].as_str() else {
                continue;
            };
            let volume_path = path::<PersistentVolume>(None, volume);
            if let Some(mut volume) = self.get("persistentvolumes", &volume_path).await? {
                volume["kind"] = "PersistentVolume".into();
                volumes.add(&volume);
            }
        }
        Ok(volumes)
    }

    /// Gets one object; none if there is none. The Pod is not judged then, so that it does not
    /// matter who says so.
    async fn get(&self, what: &'static str, path: &str) -> Result<Option<Value>, FallbackFailure> {
        // The semaphore is never closed.
        let _turn = self.reads.acquire().await.ok();
        let answer = get(&self.client, path, Accept::Object, LIMIT).await;
        match answer {
            Ok(object) => Ok(Some(object)),
            Err(failure) => match failure.class() {
                Some(Class::NotFound) => Ok(None),
                Some(Class::Forbidden) => Err(FallbackFailure::Forbidden { what }),
                _ => Err(Failure::of_read(&what, &failure).into()),
            },
        }
    }

    pub(super) fn all_nodes(&self) -> Listed {
        Listed {
            what: "nodes",
            source: Source::new::<Node>(self.client.clone(), &(), None, OBJECTS_PER_PAGE),
        }
    }

    fn pods_in(&self, namespace: &str) -> Listed {
        Listed {
            what: "pods",
            source: self.source::<Pod>(&(), namespace),
        }
    }

    fn pods_on(&self, node: &str) -> Listed {
        let source = Source::new::<Pod>(self.client.clone(), &(), None, OBJECTS_PER_PAGE);
        Listed {
            what: "pods",
            source: source.with_field("spec.nodeName", node),
        }
    }

    /// Takes each object of a list. Fails unless the list is complete.
    pub(super) async fn each(
        &self,
        listed: &Listed,
        mut take: impl FnMut(&Value),
    ) -> Result<(), FallbackFailure> {
        let mut size = listed.source.page_size();
        let mut token = None;
        loop {
            let page = self
                .page(&listed.source, token.clone(), size.objects())
                .await;
            let (body, _turn) = match page {
                Err(pps_api::Failure::TooLarge(_)) if size.shrink() => continue,
                Err(failure) if failure.class() == Some(Class::Forbidden) => {
                    return Err(FallbackFailure::Forbidden { what: listed.what });
                }
                Err(failure) => return Err(Failure::of_read(&listed.what, &failure).into()),
                Ok(page) => page,
            };
            size.arrived(body.size());
            let page = body
                .read()
                .map_err(|failure| Failure::of_read(&listed.what, &failure))?;
            for object in page.items {
                let object = serde_json::from_str(object.get())
                    .map_err(|error| Failure::Unreadable(describe_json(&error)))?;
                take(&object);
            }
            token = page.continue_token;
            if token.is_none() {
                return Ok(());
            }
        }
    }
}

pub(super) struct Listed {
    what: &'static str,
    source: Source,
}

struct WorkloadObject {
    kind: String,
    source: Source,
}
