//! Reads the cluster into a snapshot, page by page. What may not be read is left out, and said.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use pps_api::Limits;
use pps_check::read::{Problem, Read, Right};
use pps_check::reader::Reader;
use pps_core::pps::GROUP;
use serde_json::Value;

use crate::Failure;
use crate::cluster::Client;
use crate::cluster::scope::drop_outdated_conditions;
use crate::decide::names::similar;
use crate::snapshot::{
    Namespaces, Node, Pod, Pps, Resource, Snapshot, Unread, Workload, unreadable,
};

/// The limits of all commands: an installation of 20,000 Pods is read.
const LIMITS: Limits = Limits {
    request: Duration::from_secs(30),
    body: 64 << 20,
    page: 500,
    objects: 100_000,
};
const TOTAL: Duration = Duration::from_mins(3);

/// The lists that a command needs beside PersistentPodStates.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a kind of object")]
pub struct Wanted<'a> {
    /// The Pods, and the nodes for their labels.
    pub pods: bool,
    /// The Pods of all other namespaces, which take room, and the volumes, which exclude nodes.
    pub scheduling: bool,
    pub workloads: bool,
    /// The labels of the workloads; empty for all.
    pub selector: &'a str,
    /// The `PodDisruptionBudgets`, which refuse evictions.
    pub budgets: bool,
}

impl Wanted<'_> {
    /// All that the simulated scheduler reads.
    pub const SCHEDULING: Self = Self {
        pods: true,
        scheduling: true,
        workloads: true,
        selector: "",
        budgets: false,
    };
}

/// Reads a snapshot of a namespace, or of all namespaces. A missing right is no failure:
/// [`Snapshot::unread`] has the list. Without PersistentPodStates for another reason, or without
/// the namespace, there is no answer.
pub async fn read(
    client: &Client,
    namespaces: &Namespaces,
    wanted: Wanted<'_>,
) -> Result<Snapshot, Failure> {
    let lists = Lists {
        client,
        selector: wanted.selector,
        unread: RefCell::default(),
    };
    let (pps, pods, nodes, workloads, kruise, claims, volumes, budgets) = tokio::join!(
        lists.list(Resource::PersistentPodStates, namespaces, Pps::read),
        read_if(
            wanted.pods || wanted.scheduling,
            lists.pods(namespaces, wanted.scheduling)
        ),
        read_if(
            wanted.pods,
            lists.list(Resource::Nodes, &Namespaces::All, Node::read)
        ),
        read_if(wanted.workloads, lists.stateful_sets(namespaces)),
        read_if(wanted.workloads, lists.kruise_workloads(namespaces)),
        read_if(
            wanted.scheduling,
            lists.list(Resource::PersistentVolumeClaims, namespaces, Some)
        ),
        read_if(
            wanted.scheduling,
            lists.list(Resource::PersistentVolumes, &Namespaces::All, Some)
        ),
        read_if(
            wanted.budgets,
            lists.list(Resource::PodDisruptionBudgets, namespaces, Some)
        ),
    );
    let mut unread = lists.unread.into_inner();
    unread.sort();
    unread.dedup();
    let mut workloads = workloads.into_known().unwrap_or_default();
    workloads.extend(kruise.into_known().unwrap_or_default());
    let mut snapshot = Snapshot {
        pps: pps_or_failure(pps, &unread)?,
        pods: pods.into_known().unwrap_or_default(),
        nodes: nodes.into_known().map(by_name),
        workloads,
        claims: claims.into_known().unwrap_or_default(),
        volumes: volumes.into_known().unwrap_or_default(),
        budgets: budgets.into_known().unwrap_or_default(),
        unread,
        read_at: Some(Timestamp::now().as_second()),
        ..Snapshot::empty(namespaces.clone())
    };
    snapshot.sort();
    drop_outdated_conditions(&reader(client), &mut snapshot).await;
    // The lists of a namespace that does not exist are empty. Reading the namespace itself needs a
    // right that nothing else needs, so it is tried only then.
    if let Some(namespace) = namespaces.one().filter(|_| is_empty(&snapshot)) {
        require_namespace(client, namespace).await?;
    }
    Ok(snapshot)
}

/// No PersistentPodStates where the right to list them is missing.
fn pps_or_failure(pps: Read<Vec<Pps>>, unread: &[Unread]) -> Result<Vec<Pps>, Failure> {
    match pps {
        Read::Known(pps) => Ok(pps),
        Read::Absent => Err(Failure::NoDefinition),
        Read::Unknown => {
            let failed = unread
                .iter()
                .find(|one| one.resource == Resource::PersistentPodStates && !one.is_forbidden());
            failed.map_or(Ok(Vec::new()), |failed| Err(failed.into()))
        }
    }
}

/// Whether nothing was found in the namespaces of the snapshot.
fn is_empty(snapshot: &Snapshot) -> bool {
    let mut pods = snapshot.pods.iter();
    snapshot.pps.is_empty()
        && snapshot.workloads.is_empty()
        && snapshot.claims.is_empty()
        && !pods.any(|pod| snapshot.namespaces.contains(pod.namespace()))
}

/// Fails if the API server says that there is no such namespace. Without the right to read
/// namespaces nothing is said.
async fn require_namespace(client: &Client, namespace: &str) -> Result<(), Failure> {
    let reader = reader(client);
    let right = Right::new("get", "", "namespaces").named(namespace);
    if !reader
        .get::<Value>(right, &format!("/api/v1/namespaces/{namespace}"))
        .await
        .is_absent()
    {
        return Ok(());
    }
    let listed = reader
        .list_as(
            Right::new("list", "", "namespaces"),
            "/api/v1/namespaces",
            "",
            |object| object["metadata"]["name"].as_str().map(str::to_owned),
        )
        .await;
    let names = listed
        .into_known()
        .map_or_else(Vec::new, |(names, _)| names);
    let similar = similar(namespace, names.iter().map(String::as_str));
    Err(Failure::NoNamespace {
        name: namespace.to_owned(),
        similar,
    })
}

/// Reads one object; none if it does not exist.
pub async fn get(client: &Client, right: Right, path: &str) -> Result<Option<Value>, Failure> {
    let reader = reader(client);
    match reader.get::<Value>(right, path).await {
        Read::Known(object) => Ok(Some(object)),
        Read::Absent => Ok(None),
        Read::Unknown => Err(Failure::Unreadable(
            match reader.into_problems().into_iter().next() {
                Some(Problem::Forbidden(right)) => unreadable(&right, None),
                Some(Problem::Failed {
                    right: Some(right),
                    why,
                }) => unreadable(&right, Some(&why)),
                Some(Problem::Failed { right: None, why }) => why,
                None => "it could not be read".to_owned(),
            },
        )),
    }
}

/// Whether the API server serves a kind in this version. Every user may read the served kinds.
pub async fn serves(client: &Client, api_version: &str, plural: &str) -> Result<bool, Failure> {
    let right = Right::new("get", "", "the kinds that the API server serves");
    let served = get(client, right, &format!("/apis/{api_version}"))
        .await?
        .unwrap_or_default();
    Ok(served["resources"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|one| one["name"] == plural))
}

pub(super) fn reader(client: &Client) -> Reader {
    let limits = client.limits(LIMITS);
    Reader::new(client.kube.clone(), limits, TOTAL.max(limits.request))
}

async fn read_if<T>(is_wanted: bool, read: impl Future<Output = Read<Vec<T>>>) -> Read<Vec<T>> {
    if is_wanted { read.await } else { Read::Unknown }
}

/// Reads lists, and remembers which of them it could not read.
struct Lists<'a> {
    client: &'a Client,
    /// The labels of the workloads.
    selector: &'a str,
    unread: RefCell<Vec<Unread>>,
}

impl Lists<'_> {
    async fn stateful_sets(&self, namespaces: &Namespaces) -> Read<Vec<Workload>> {
        let take = |object| Workload::read(object, "apps/v1");
        self.list(Resource::StatefulSets, namespaces, take).await
    }

    /// OpenKruise's StatefulSets; absent where OpenKruise is not installed. A user without the
    /// right to list them would get 403 in both cases, so the served kinds are read first.
    async fn kruise_workloads(&self, namespaces: &Namespaces) -> Read<Vec<Workload>> {
        if serves(self.client, &format!("{GROUP}/v1beta1"), "statefulsets").await == Ok(false) {
            return Read::Absent;
        }
        let take = |object| Workload::read(object, "apps.kruise.io/v1beta1");
        self.list(Resource::KruiseStatefulSets, namespaces, take)
            .await
    }

    /// The Pods of these namespaces, and of all namespaces if they are wanted and may be read.
    async fn pods(&self, namespaces: &Namespaces, other_pods: bool) -> Read<Vec<Pod>> {
        if other_pods
            && *namespaces != Namespaces::All
            && let Read::Known(pods) = self.list(Resource::Pods, &Namespaces::All, Pod::read).await
            // The Pods of these namespaces must be complete: an unread Pod looks like a missing
            // one.
            && pods.len() < LIMITS.objects
        {
            return Read::Known(pods);
        }
        self.list(Resource::Pods, namespaces, Pod::read).await
    }

    /// All objects of a kind, in the first version that the API server serves.
    async fn list<T>(
        &self,
        resource: Resource,
        namespaces: &Namespaces,
        take: impl Fn(Value) -> Option<T>,
    ) -> Read<Vec<T>> {
        let namespace = namespaces.one();
        let right = resource.right_to_list(namespace);
        let selector = match resource {
            Resource::StatefulSets | Resource::KruiseStatefulSets => self.selector,
            _ => "",
        };
        for version in versions(resource) {
            let path = path(&right, version);
            let reader = reader(self.client);
            let found = reader.list_as(right.clone(), &path, selector, &take).await;
            let mut reasons: Vec<Option<String>> = reader
                .into_problems()
                .into_iter()
                .map(|problem| match problem {
                    Problem::Forbidden(_) => None,
                    Problem::Failed { why, .. } => Some(why),
                })
                .collect();
            if let Read::Known((_, more)) = found
                && more > 0
            {
                reasons.push(Some(format!("{more} objects more than are read")));
            }
            let unread = reasons.into_iter().map(|why| Unread {
                resource,
                namespace: namespace.map(str::to_owned),
                why,
            });
            self.unread.borrow_mut().extend(unread);
            if !found.is_absent() {
                return found.map(|(found, _)| found);
            }
        }
        Read::Absent
    }
}

/// The versions in which an API server may serve a kind: OpenKruise may serve only the newer
/// version of PersistentPodStates.
fn versions(resource: Resource) -> &'static [&'static str] {
    match resource {
        Resource::PersistentPodStates => &["v1alpha1", "v1beta1"],
        Resource::KruiseStatefulSets => &["v1beta1"],
        _ => &["v1"],
    }
}

/// The path of the list to which a right belongs.
fn path(right: &Right, version: &str) -> String {
    let base = if right.group.is_empty() {
        "/api".to_owned()
    } else {
        format!("/apis/{}", right.group)
    };
    let plural = &right.resource;
    match &right.namespace {
        Some(namespace) => format!("{base}/{version}/namespaces/{namespace}/{plural}"),
        None => format!("{base}/{version}/{plural}"),
    }
}

fn by_name(nodes: Vec<Node>) -> BTreeMap<String, Node> {
    nodes
        .into_iter()
        .map(|node| (node.name().to_owned(), node))
        .collect()
}
