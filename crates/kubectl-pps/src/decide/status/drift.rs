//! How a Pod differs from what is recorded under its name.

use pps_core::{AnnotationRules, PodState, Spec, plan};
use serde::Serialize;

use crate::decide::injected::Injected;
use crate::snapshot::{Node, Pod, Snapshot};

/// The label that is a node's name.
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";
/// What follows the name of a node that does not exist.
pub(super) const IS_GONE: &str = " is gone";

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Drift {
    /// What differs.
    pub kind: DriftKind,
    /// How.
    pub text: String,
}

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum DriftKind {
    /// The node of the Pod lacks a label that it must have.
    RequiredTopology,
    /// The Pod is not where it is recorded.
    Node,
    /// The recorded node does not exist any more.
    NodeGone,
    /// The node that the Pod is bound to does not exist any more.
    OwnNodeGone,
    /// The Pod has no node, and was created with other values than are recorded now.
    Changed,
    /// The addresses of the Pod are not the recorded ones.
    Address,
    /// An annotation of the Pod has another value than the recorded one.
    Annotation,
    /// The sidecar does not record the Pod: a move has not been finished.
    NotRecorded,
    /// The Pod is Ready, and its node is not recorded.
    NoState,
    /// The same for so long that the sidecar does not record it.
    LeftOut,
}

fn drift(kind: DriftKind, text: impl Into<String>) -> Drift {
    Drift { kind, text: text.into() }
}

/// The recorded node does not exist.
pub(super) fn node_gone(snapshot: &Snapshot, state: Option<&PodState>) -> Option<Drift> {
    let name = state.map(|state| state.node_name.as_str()).filter(|name| !name.is_empty())?;
    snapshot.lacks_node(name).then(|| drift(DriftKind::NodeGone, format!("{name}{IS_GONE}")))
}

/// The node that the Pod is bound to does not exist.
pub(super) fn own_node_gone(snapshot: &Snapshot, pod: &Pod) -> Option<Drift> {
    let name = pod.node().filter(|_| snapshot.is_stranded(pod))?;
    Some(drift(DriftKind::OwnNodeGone, format!("{name}{IS_GONE}")))
}

/// A Pod without a node was created with other values than are recorded now.
pub(super) fn created_before(
    snapshot: &Snapshot,
    injected: &Injected,
    state: Option<&PodState>,
) -> Vec<Drift> {
    let host = injected.required.iter().find(|one| one.key == HOSTNAME).map(|one| one.value.as_str());
    let is_gone = |host: &&str| {
        let is_it = |node: &Node| node.name() == *host || node.label(HOSTNAME) == Some(*host);
        snapshot.nodes.as_ref().is_some_and(|nodes| !nodes.contains_key(*host) && !nodes.values().any(is_it))
    };
    // The label may have another value than the node's name.
    let of =
        |host| state.filter(|state| state.node_topology_labels.get(HOSTNAME).is_some_and(|own| own == host));
    let gone = host.filter(is_gone).map(|host| {
        let name = of(host).map_or(host, |state| state.node_name.as_str());
        drift(DriftKind::NodeGone, format!("{name}{IS_GONE}"))
    });
    let changed = if state.is_none() { "no longer recorded" } else { "recorded state changed since" };
    gone.into_iter().chain([drift(DriftKind::Changed, changed)]).collect()
}

/// All differences of a Pod.
pub fn of(snapshot: &Snapshot, spec: &Spec, pod: &Pod, state: Option<&PodState>) -> Vec<Drift> {
    let mut found: Vec<Drift> = own_node_gone(snapshot, pod).into_iter().collect();
    if pod.is_exempt() {
        let why = if pod.is_marked() { "a move is unfinished" } else { "exempt from recording" };
        found.push(drift(DriftKind::NotRecorded, why));
    }
    let is_recorded = state.is_some_and(|state| !state.node_name.is_empty());
    if !is_recorded && pod.is_ready() && !pod.is_terminating() {
        let what =
            if state.is_none_or(|state| *state == PodState::default()) { "nothing" } else { "no node" };
        let is_left_out = found.is_empty() && snapshot.is_lasting(pod.ready_since());
        let kind = if is_left_out { DriftKind::LeftOut } else { DriftKind::NoState };
        found.push(drift(kind, format!("{what} is recorded")));
    }
    let Some(state) = state else { return found };
    let Some(name) = pod.node() else {
        found.extend(node_gone(snapshot, Some(state)));
        return found;
    };
    if let Some(node) = snapshot.node(name) {
        for requirement in plan("", spec, state, &AnnotationRules::default()).required {
            let label = node.label(&requirement.key);
            if label != Some(&requirement.value) {
                let key = short(&requirement.key);
                let text = format!("{key} is {}, not {}", label.unwrap_or("missing"), requirement.value);
                found.push(drift(DriftKind::RequiredTopology, text));
            }
        }
    }
    if !state.node_name.is_empty() && state.node_name != name {
        found.push(drift(DriftKind::Node, format!("recorded on {}", state.node_name)));
    }
    found.extend(annotations(spec, pod, state));
    found
}

fn annotations(spec: &Spec, pod: &Pod, state: &PodState) -> Vec<Drift> {
    let mut found = Vec::new();
    let ips = pod.ips();
    for annotation in &spec.persistent_pod_annotations {
        let Some(recorded) = state.annotations.get(&annotation.key).filter(|value| !value.is_empty()) else {
            continue;
        };
        let own = pod.annotation(&annotation.key).filter(|value| !value.is_empty());
        let wanted = addresses(recorded);
        if own.is_some_and(|own| own != recorded) {
            let text = format!("{} is not as recorded", short(&annotation.key));
            found.push(drift(DriftKind::Annotation, text));
        } else if !wanted.is_empty() && !ips.is_empty() && !wanted.iter().any(|ip| ips.contains(ip)) {
            found.push(drift(DriftKind::Address, format!("its IP was {}", wanted.join(", "))));
        }
    }
    found
}

/// The addresses in the value of an annotation: a JSON list, or a list with commas. None if something else is in it.
fn addresses(value: &str) -> Vec<String> {
    let listed: Vec<String> = serde_json::from_str(value)
        .unwrap_or_else(|_| value.split(',').map(|one| one.trim().to_owned()).collect());
    let without_length = |ip: &String| ip.split('/').next().unwrap_or_default().to_owned();
    let ips: Vec<String> = listed.iter().map(without_length).collect();
    if ips.iter().all(|ip| is_address(ip)) { ips } else { Vec::new() }
}

/// A MAC address, which also has colons, is none.
fn is_address(text: &str) -> bool {
    let is_v4 = text.split('.').count() == 4 && text.split('.').all(|part| part.parse::<u8>().is_ok());
    let is_whole = text.contains("::") || text.matches(':').count() == 7;
    is_v4 || is_whole && text.chars().all(|c| c.is_ascii_hexdigit() || c == ':' || c == '.')
}

/// The last part of a key: `zone` for `topology.kubernetes.io/zone`.
pub fn short(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_from_a_list_and_from_nothing_else() {
        assert_eq!(addresses("10.0.0.7"), ["10.0.0.7"]);
        assert_eq!(addresses("10.0.0.7/24, fd00::7"), ["10.0.0.7", "fd00::7"]);
        assert_eq!(addresses(r#"["10.0.0.7","fd00::7"]"#), ["10.0.0.7", "fd00::7"]);
        for other in ["", "pool-a", "0a:58:0a:10:00:07", "10.0.0", "10.0.0.300", "[]x", "10.0.0.1,pool"] {
            assert_eq!(addresses(other), [""; 0], "{other}");
        }
    }
}
