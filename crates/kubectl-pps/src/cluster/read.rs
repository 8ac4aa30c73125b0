//! Reads the cluster into a snapshot, page by page. What may not be read is left out, and said.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use pps_check::facts::{Problem, Read, Right};
use pps_check::gather::reader::{Limits, Reader};
use pps_core::pps::GROUP;
use serde_json::Value;
use tokio::time::Instant;

use super::namespace;
use crate::Failure;
use crate::snapshot::{Node, Pod, Pps, Scope, Snapshot, Unseen, Workload};

/// Those of all commands. An installation of 20,000 Pods is read.
pub(super) const LIMITS: Limits =
    Limits { request: Duration::from_secs(30), body: 64 << 20, page: 500, objects: 100_000 };
/// How long all reads of a command may take.
const TOTAL: Duration = Duration::from_mins(3);

/// What a command needs to know beside PersistentPodStates.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a kind of object")]
pub struct Wanted {
    /// The Pods of the namespace.
    pub pods: bool,
    /// The nodes, for their labels.
    pub nodes: bool,
    /// The Pods of all other namespaces, which take room.
    pub other_pods: bool,
    /// The StatefulSets.
    pub workloads: bool,
    /// The volumes, which exclude nodes.
    pub volumes: bool,
}

/// Reads a snapshot of a namespace that exists, or of all of them.
///
/// # Errors
///
/// Those of [`read_lists`]; or if there is no such namespace, as far as the user may know.
pub async fn read(client: &Client, scope: &Scope, wanted: Wanted) -> Result<Snapshot, Failure> {
    let snapshot = Box::pin(read_lists(client, scope, wanted)).await?;
    // The lists of a namespace that does not exist are empty. Reading the namespace itself needs a right that nothing else
    // needs, so it is tried only then.
    if let Scope::Namespace(namespace) = scope
        && snapshot.is_empty_in(namespace)
    {
        namespace::require(client, namespace).await?;
    }
    Ok(snapshot)
}

/// Reads a snapshot. A namespace that does not exist looks like an empty one.
///
/// # Errors
///
/// If PersistentPodStates cannot be read at all: the API server cannot be reached, or there is no definition. A missing
/// right is no error: [`Snapshot::unseen`] has it.
pub async fn read_lists(client: &Client, scope: &Scope, wanted: Wanted) -> Result<Snapshot, Failure> {
    let reader = Reader::new(client.clone(), LIMITS, Instant::now() + TOTAL);
    let mut snapshot = Snapshot::empty(scope.clone());
    let (pps, pods, nodes, workloads, kruise, claims, volumes) = tokio::join!(
        read_pps(&reader, scope),
        read_if(wanted.pods || wanted.other_pods, read_pods(&reader, scope, wanted.other_pods)),
        read_if(wanted.nodes, list(&reader, "", "v1", "nodes", &Scope::All, Node::read)),
        read_if(
            wanted.workloads,
            list(&reader, "apps", "v1", "statefulsets", scope, |object| Workload::read(object, "apps/v1"))
        ),
        read_if(wanted.workloads, read_kruise_workloads(client, &reader, scope)),
        read_if(
            wanted.volumes,
            list(&reader, "", "v1", "persistentvolumeclaims", scope, |object| {
                kept(object, "PersistentVolumeClaim")
            })
        ),
        read_if(
            wanted.volumes,
            list(&reader, "", "v1", "persistentvolumes", &Scope::All, |object| {
                kept(object, "PersistentVolume")
            })
        ),
    );
    snapshot.unseen = unseen(reader.into_problems());
    snapshot.read_at = Some(Timestamp::now().as_second());
    match pps {
        Read::Known(pps) => snapshot.pps = pps,
        Read::Absent => return Err(Failure::no_definition()),
        Read::Unknown => {
            if let Some(failed) = snapshot.unseen.iter().find(|unseen| !unseen.is_forbidden) {
                return Err(Failure::Unreadable(failed.to_string()));
            }
        }
    }
    snapshot.pods = items(pods);
    snapshot.nodes = match nodes {
        Read::Known(nodes) => Some(nodes.into_iter().map(|node| (node.name().to_owned(), node)).collect()),
        Read::Absent | Read::Unknown => None,
    };
    snapshot.workloads = items(workloads);
    snapshot.workloads.extend(items(kruise));
    snapshot.claims = items(claims);
    snapshot.volumes = items(volumes);
    snapshot.sort();
    Ok(snapshot)
}

/// The namespaces that have PersistentPodStates, by name; none if the user may not list them. One page is enough for a hint.
pub async fn namespaces_with_pps(client: &Client) -> Vec<String> {
    let limits = Limits { objects: LIMITS.page, ..LIMITS };
    let reader = Reader::new(client.clone(), limits, Instant::now() + LIMITS.request);
    let found = read_pps(&reader, &Scope::All).await;
    let namespaces: BTreeSet<String> = items(found).iter().map(|pps| pps.namespace().to_owned()).collect();
    namespaces.into_iter().collect()
}

/// The nodes, by name; none if the user may not list them.
pub async fn nodes(client: &Client) -> Option<BTreeMap<String, Node>> {
    let reader = Reader::new(client.clone(), LIMITS, Instant::now() + TOTAL);
    let Read::Known(nodes) = list(&reader, "", "v1", "nodes", &Scope::All, Node::read).await else {
        return None;
    };
    // Of more nodes than are read, one may have any label.
    let is_whole = reader.into_problems().is_empty();
    is_whole.then(|| nodes.into_iter().map(|node| (node.name().to_owned(), node)).collect())
}

/// Reads the `PodDisruptionBudgets` as well, which refuse evictions.
pub async fn read_budgets(client: &Client, snapshot: &mut Snapshot) {
    let reader = Reader::new(client.clone(), LIMITS, Instant::now() + TOTAL);
    let scope = snapshot.scope.clone();
    let budgets = match list(&reader, "policy", "v1", "poddisruptionbudgets", &scope, Some).await {
        // Kubernetes 1.20 serves only the older version.
        Read::Absent => list(&reader, "policy", "v1beta1", "poddisruptionbudgets", &scope, Some).await,
        read => read,
    };
    snapshot.unseen.extend(unseen(reader.into_problems()));
    snapshot.budgets = items(budgets);
}

/// Reads one object; none if it does not exist.
///
/// # Errors
///
/// If it cannot be read. The text names a missing right.
pub async fn get(client: &Client, right: Right, path: &str) -> Result<Option<Value>, Failure> {
    let reader = Reader::new(client.clone(), LIMITS, Instant::now() + LIMITS.request);
    match reader.get::<Value>(right, path).await {
        Read::Known(object) => Ok(Some(object)),
        Read::Absent => Ok(None),
        Read::Unknown => {
            let problem = unseen(reader.into_problems()).into_iter().next();
            let text = problem.map_or_else(|| "it could not be read".to_owned(), |one| one.to_string());
            Err(Failure::Unreadable(text))
        }
    }
}

/// Whether the user has a right; none if the API server does not say. Every user may ask this.
pub async fn may(client: &Client, right: &Right) -> Option<bool> {
    let reader = Reader::new(client.clone(), LIMITS, Instant::now() + LIMITS.request);
    let (resource, subresource) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
    let review = serde_json::json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "verb": right.verb, "group": right.group, "resource": resource, "subresource": subresource,
            "namespace": right.namespace.as_deref().unwrap_or_default(),
            "name": right.name.as_deref().unwrap_or_default(),
        }},
    });
    let needed = Right::new("create", "authorization.k8s.io", "selfsubjectaccessreviews");
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    reader
        .review(needed, path, &review)
        .await
        .known()
        .and_then(|answer| answer["status"]["allowed"].as_bool())
}

async fn read_if<T>(is_wanted: bool, read: impl Future<Output = Read<Vec<T>>>) -> Read<Vec<T>> {
    if is_wanted { read.await } else { Read::Unknown }
}

async fn read_pps(reader: &Reader, scope: &Scope) -> Read<Vec<Pps>> {
    match list(reader, GROUP, "v1alpha1", "persistentpodstates", scope, Pps::read).await {
        // OpenKruise may serve only the newer version.
        Read::Absent => list(reader, GROUP, "v1beta1", "persistentpodstates", scope, Pps::read).await,
        read => read,
    }
}

/// OpenKruise's StatefulSets; absent where OpenKruise is not installed. A user without the right to list them would get 403
/// there as well, so the API server is asked first which kinds it serves: each user may read that.
async fn read_kruise_workloads(client: &Client, reader: &Reader, scope: &Scope) -> Read<Vec<Workload>> {
    let discovery = Reader::new(client.clone(), LIMITS, Instant::now() + LIMITS.request);
    let right = Right::new("get", "", "the kinds that the API server serves");
    let served: Read<Value> = discovery.get(right, &format!("/apis/{GROUP}/v1beta1")).await;
    let has_kind = |served: &Value| {
        served["resources"].as_array().into_iter().flatten().any(|one| one["name"] == "statefulsets")
    };
    match served {
        Read::Absent => Read::Absent,
        Read::Known(served) if !has_kind(&served) => Read::Absent,
        Read::Known(_) | Read::Unknown => {
            let take = |object| Workload::read(object, "apps.kruise.io/v1beta1");
            list(reader, GROUP, "v1beta1", "statefulsets", scope, take).await
        }
    }
}

/// The Pods of the scope, and of all namespaces if they are wanted and may be read.
async fn read_pods(reader: &Reader, scope: &Scope, other_pods: bool) -> Read<Vec<Pod>> {
    let all =
        if other_pods { list(reader, "", "v1", "pods", &Scope::All, Pod::read).await } else { Read::Unknown };
    match all {
        // Those of the scope must be complete: one that was not read looks like one that does not exist.
        Read::Known(mut pods) if pods.len() >= LIMITS.objects && *scope != Scope::All => {
            pods.retain(|pod| !scope.contains(pod.namespace()));
            let Read::Known(own) = list(reader, "", "v1", "pods", scope, Pod::read).await else {
                return Read::Unknown;
            };
            pods.extend(own);
            Read::Known(pods)
        }
        Read::Known(pods) => Read::Known(pods),
        Read::Absent | Read::Unknown => list(reader, "", "v1", "pods", scope, Pod::read).await,
    }
}

async fn list<T>(
    reader: &Reader,
    group: &'static str,
    version: &str,
    resource: &str,
    scope: &Scope,
    take: impl FnMut(Value) -> Option<T>,
) -> Read<Vec<T>> {
    let base = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let right = Right::new("list", group, resource);
    let (right, path) = match scope {
        Scope::All => (right, format!("{base}/{resource}")),
        Scope::Namespace(namespace) => {
            (right.within(namespace), format!("{base}/namespaces/{namespace}/{resource}"))
        }
    };
    let what = right.to_string();
    reader.list_as(right, &path, "", take).await.map(|(found, more)| {
        if more > 0 {
            let _: Read<()> = reader.failed(&what, &format!("{more} objects more than are read"));
        }
        found
    })
}

/// An object of a list. The items of a list do not name their kind.
fn kept(mut object: Value, kind: &str) -> Option<Value> {
    object.as_object_mut()?.insert("kind".to_owned(), kind.into());
    Some(object)
}

fn items<T>(read: Read<Vec<T>>) -> Vec<T> {
    match read {
        Read::Known(items) => items,
        Read::Absent | Read::Unknown => Vec::new(),
    }
}

fn unseen(problems: Vec<Problem>) -> Vec<Unseen> {
    let mut unseen: Vec<Unseen> = problems.into_iter().map(Unseen::of).collect();
    unseen.sort();
    unseen.dedup();
    unseen
}
