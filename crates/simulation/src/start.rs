//! What happens to a Pod after its creation: the scheduler selects a node, and the kubelet starts
//! it there with an address.

use std::collections::BTreeMap;
use std::sync::Arc;

use pps_scheduler::fields::{list, text};
use pps_scheduler::{Exclusion, Placement, Selection, select_from};
use serde_json::{Value, json};

use crate::addresses::Plugin;
use crate::cluster::{Cluster, Pod};
use crate::controller::new_pod;
use crate::result::{EventKind, Pending};

/// Which of the Pods that do not run the scheduler tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduling {
    NewPods,
    /// Also those for which it has found no node before, which takes long.
    AllPending,
}

/// Schedules and starts Pods. Returns whether one has started.
pub(crate) fn start_pods(cluster: &mut Cluster, scheduling: Scheduling) -> bool {
    let mut waiting: Vec<String> = cluster
        .pods
        .waiting()
        .filter(|(name, pod)| {
            let is_new = pod.selection.is_none() && pod.node().is_none();
            scheduling == Scheduling::AllPending || is_new || cluster.observed.contains_key(*name)
        })
        .map(|(name, _)| name.clone())
        .collect();
    // Of several Pods that wait for room, a real scheduler tries any first: here, the one that it
    // has placed.
    waiting.sort_by_key(|name| !cluster.observed.contains_key(name));
    if waiting.is_empty() {
        return false;
    }
    let plugin = plugin(cluster);
    let mut has_started = false;
    for name in waiting {
        if !is_bound(cluster, &name) {
            schedule(cluster, &name);
        }
        if is_bound(cluster, &name) {
            has_started |= start(cluster, &name, plugin);
        }
    }
    has_started
}

fn is_bound(cluster: &Cluster, pod: &str) -> bool {
    cluster.pods.get(pod).and_then(Pod::node).is_some()
}

fn schedule(cluster: &mut Cluster, name: &str) {
    cluster.refresh_scheduler_nodes();
    let revision = cluster.scheduler_revision;
    let Some(pod) = cluster.pods.get_mut(name) else {
        return;
    };
    // Where nothing has changed, the scheduler decides as before.
    let known = pod.selection.take();
    let known = known.filter(|_| pod.scheduler_revision == revision);
    let selection = known.unwrap_or_else(|| select_for(cluster, name));
    let observed = cluster.observed.get(name);
    let chosen = observed
        .filter(|node| is_possible(&selection, node))
        .or(selection.chosen.as_ref())
        .filter(|node| cluster.has_node(node))
        .cloned();
    let Some(pod) = cluster.pods.get_mut(name) else {
        return;
    };
    pod.scheduler_revision = revision;
    pod.selection = Some(selection);
    if let Some(node) = chosen {
        Arc::make_mut(&mut pod.object)["spec"]["nodeName"] = node.clone().into();
        cluster.bind_pod(name, &node);
    }
}

fn is_possible(selection: &Selection, node: &String) -> bool {
    let mut verdicts = selection.verdicts.iter();
    selection.may_land_on.contains(node)
        || verdicts.any(|verdict| verdict.node == *node && verdict.exclusions.is_empty())
}

fn select_for(cluster: &Cluster, name: &str) -> Selection {
    let Some(pod) = cluster.pods.get(name) else {
        return Selection::default();
    };
    // The scheduler ignores a Pod whose template names its node.
    if let Some(node) = pod.object["spec"]["nodeName"]
        .as_str()
        .filter(|node| !node.is_empty())
    {
        let chosen = cluster.has_node(node).then(|| node.to_owned());
        return Selection {
            chosen,
            ..Selection::default()
        };
    }
    let workload = cluster.workloads.get(&pod.workload);
    // The scheduler knows the StatefulSets of Kubernetes, and spreads their Pods.
    let builtin = workload.filter(|workload| workload.target.group() == "apps");
    let made = workload
        .filter(|_| pod.injected && pod.before.is_null())
        .map(|workload| new_pod(workload, &cluster.namespace, name, pod.revision));
    let placement = Placement {
        pod: &pod.object,
        before: pod.injected.then_some(made.as_ref().unwrap_or(&pod.before)),
        selector: builtin.map(|workload| &workload.object["spec"]["selector"]),
        volumes: (!cluster.volumes.is_empty()).then_some(&cluster.volumes),
    };
    select_from(&placement, &cluster.scheduler_nodes)
}

/// The plugin that the cluster has: the one whose annotations somebody names.
fn plugin(cluster: &Cluster) -> Option<&'static Plugin> {
    let persisted = cluster.pps.values().flat_map(|pps| {
        let annotations = list(&pps.object["spec"]["persistentPodAnnotations"]);
        annotations.filter_map(|one| one.as_str().or_else(|| one["key"].as_str()))
    });
    let templates = cluster.workloads.values().flat_map(|workload| {
        let template = &workload.object["spec"]["template"];
        let annotations = template["metadata"]["annotations"].as_object();
        annotations
            .into_iter()
            .flat_map(|annotations| annotations.keys().map(String::as_str))
    });
    Plugin::of(persisted.chain(templates))
}

/// Starts a Pod on its node. Returns whether it runs now.
fn start(cluster: &mut Cluster, name: &str, plugin: Option<&Plugin>) -> bool {
    let Some(pod) = cluster.pods.get(name) else {
        return false;
    };
    let Some(node) = pod.node().map(str::to_owned) else {
        return false;
    };
    let ips = match addresses(cluster, name, pod, plugin) {
        Ok(Some(ips)) => ips,
        Ok(None) => {
            let Cluster {
                addresses, pods, ..
            } = &mut *cluster;
            vec![addresses.assign(&node, |ip| pods.has_ip(ip, name))]
        }
        Err(pending) => {
            set_pending(cluster, name, pending);
            return false;
        }
    };
    let labels = cluster
        .node(&node)
        .map(|node| node.object["metadata"]["labels"].clone());
    let keeps_all = cluster.limits.keeps_all;
    let Some(pod) = cluster.pods.get_mut(name) else {
        return false;
    };
    let object = Arc::make_mut(&mut pod.object);
    if let Some(plugin) = plugin {
        plugin.annotate(&ips, object);
    }
    let all: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    object["status"] = json!({
        "phase": "Running",
        "podIP": ips.first(),
        "podIPs": all,
        "conditions": [{"type": "Ready", "status": "True"}],
    });
    pod.pending = None;
    pod.came_home = is_at_recorded_place(pod, &node, &labels.unwrap_or_default());
    pod.kept_away_by = exclusions_of_recorded_node(pod);
    if !keeps_all && let Some(selection) = &mut pod.selection {
        selection.verdicts = Vec::new();
    }
    cluster.run_pod(name, ips, true);
    let Some(pod) = cluster.pods.get(name) else {
        return false;
    };
    let text = describe_start(pod, &node, cluster.last_nodes.get(name));
    cluster.tell(EventKind::Scheduled, format!("Pod/{name}"), text);
    true
}

/// The addresses that a Pod asks for; none if the plugin chooses. The error says why it cannot have
/// them.
fn addresses(
    cluster: &Cluster,
    name: &str,
    pod: &Pod,
    plugin: Option<&Plugin>,
) -> Result<Option<Vec<String>>, Pending> {
    let Some(plugin) = plugin else {
        return Ok(None);
    };
    let requested = plugin
        .requested(&pod.object)
        .map_err(|value| Pending::UnreadableAddress {
            plugin: plugin.name,
            annotation: plugin.asks,
            value: value.to_owned(),
        })?;
    if let Some(taken) = requested.iter().find(|ip| cluster.pods.has_ip(ip, name)) {
        return Err(Pending::AddressTaken {
            ip: taken.clone(),
            annotation: plugin.asks,
        });
    }
    Ok((!requested.is_empty()).then_some(requested))
}

/// Whether a Pod that has started is where its state was recorded.
fn is_at_recorded_place(pod: &Pod, node: &str, labels: &Value) -> bool {
    let Some(place) = &pod.recorded else {
        return false;
    };
    if place.labels.is_empty() && place.annotations.is_empty() {
        return place.state.node_name == node;
    }
    let annotations = &pod.object["metadata"]["annotations"];
    place
        .labels
        .iter()
        .all(|(key, value)| labels[key] == *value)
        && place
            .annotations
            .iter()
            .all(|(key, value)| annotations[key] == *value)
}

fn describe_start(pod: &Pod, node: &str, last: Option<&String>) -> String {
    let address = pod
        .ips()
        .first()
        .map(|ip| format!(" and has the address {ip}"))
        .unwrap_or_default();
    let recorded = pod
        .recorded
        .as_ref()
        .map(|place| &place.state.node_name)
        .filter(|node| !node.is_empty());
    let compared = match (recorded, last.filter(|last| *last != node)) {
        _ if pod.came_home => ", as recorded".to_owned(),
        (Some(recorded), _) => format!("; its state was recorded on {recorded}"),
        (None, Some(last)) => format!("; it ran on {last} before"),
        (None, None) => String::new(),
    };
    format!("runs on {node}{address}{compared}")
}

/// What excludes the node where the state of a Pod was recorded that has not come home.
fn exclusions_of_recorded_node(pod: &Pod) -> Vec<Exclusion> {
    let node = pod
        .recorded
        .as_ref()
        .filter(|_| !pod.came_home)
        .map(|place| &place.state.node_name);
    let mut verdicts = pod
        .selection
        .iter()
        .flat_map(|selection| &selection.verdicts);
    let verdict = verdicts.find(|verdict| Some(&verdict.node) == node);
    verdict
        .map(|verdict| verdict.exclusions.clone())
        .unwrap_or_default()
}

/// Says why Pods do not run, if that was not said before.
pub(crate) fn tell_pending(cluster: &mut Cluster) {
    let has_nodes = cluster.existing_nodes().next().is_some();
    let unbound: BTreeMap<String, Pending> = cluster
        .pods
        .waiting()
        .filter(|(_, pod)| pod.node().is_none())
        .map(|(name, pod)| (name.clone(), why_unbound(pod, has_nodes)))
        .collect();
    for (name, pending) in unbound {
        set_pending(cluster, &name, pending);
    }
}

fn why_unbound(pod: &Pod, has_nodes: bool) -> Pending {
    match text(&pod.object["spec"]["nodeName"]) {
        "" if has_nodes => Pending::Excluded,
        "" => Pending::NoNode,
        node => Pending::UnknownNode(node.to_owned()),
    }
}

fn set_pending(cluster: &mut Cluster, name: &str, pending: Pending) {
    let Some(pod) = cluster
        .pods
        .get_mut(name)
        .filter(|pod| pod.pending.as_ref() != Some(&pending))
    else {
        return;
    };
    let text = format!("stays Pending: {pending}");
    pod.pending = Some(pending);
    cluster.tell(EventKind::Pending, format!("Pod/{name}"), text);
}
