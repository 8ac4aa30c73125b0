//! Where a Pod could go: asks the simulation of the scheduler about a snapshot.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use pps_admission::plan::Requirement;
use pps_scheduler::{
    Contradiction, Exclusion, ExclusionKind, NodeView, Placement, Selection, Volumes, select,
};
use serde::Serialize;
use serde_json::Value;

use crate::snapshot::{Pod, Snapshot};

#[derive(Clone, Debug)]
pub struct Nodes<'a> {
    views: Vec<NodeView<'a>>,
    volumes: Rc<Volumes>,
}

impl<'a> Nodes<'a> {
    /// All nodes; none if nodes may not be read. `without` is the Pod that needs a node.
    pub fn of(snapshot: &'a Snapshot, without: Option<&Pod>) -> Option<Self> {
        let nodes = snapshot.nodes.as_ref()?;
        let mut on: HashMap<&str, Vec<&Value>> = HashMap::new();
        for pod in &snapshot.pods {
            let is_left_out = without.is_some_and(|without| {
                without.name() == pod.name() && without.namespace() == pod.namespace()
            });
            if let Some(node) = pod.node()
                && !pod.is_finished()
                && !is_left_out
            {
                on.entry(node).or_default().push(pod.object());
            }
        }
        let views = nodes
            .iter()
            .map(|(name, node)| NodeView {
                node: node.object(),
                pods: on.remove(name.as_str()).unwrap_or_default(),
            })
            .collect();
        let volumes = Volumes::of(snapshot.claims.iter().chain(&snapshot.volumes));
        Some(Self {
            views,
            volumes: Rc::new(volumes),
        })
    }

    /// The scheduler's decision about a Pod. `before` is the Pod without the injected parts,
    /// `selector` is the selector of its controller.
    pub fn select(
        &self,
        pod: &Value,
        before: Option<&Value>,
        selector: Option<&Value>,
    ) -> Selection {
        select(
            &Placement {
                pod,
                before,
                selector,
                volumes: Some(&self.volumes),
            },
            &self.views,
        )
    }

    /// The bound volume of a Pod that no node with these labels can have, if there is one.
    pub fn contradiction(&self, pod: &Value, required: &[Requirement]) -> Option<Contradiction> {
        let labels = required
            .iter()
            .map(|one| (one.key.clone(), one.value.clone()))
            .collect();
        self.volumes.contradiction(pod, &labels, &self.views)
    }

    /// The nodes with another version of the node of this name.
    #[must_use]
    pub fn with(&self, name: &str, node: &'a Value, pods: Vec<&'a Value>) -> Self {
        let mut nodes = self.without(name);
        nodes.views.push(NodeView { node, pods });
        nodes
    }

    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let views = self
            .views
            .iter()
            .filter(|view| view.node["metadata"]["name"] != name);
        Self {
            views: views.cloned().collect(),
            volumes: Rc::clone(&self.volumes),
        }
    }

    pub fn view(&self, name: &str) -> Option<&NodeView<'a>> {
        self.views
            .iter()
            .find(|view| view.node["metadata"]["name"] == name)
    }
}

/// Where a Pod could go: the nodes that the scheduler prefers, and the others that could take it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Landing {
    #[serde(rename = "mayLandOn")]
    favourites: Vec<String>,
    #[serde(rename = "couldAlsoLandOn")]
    others: Vec<String>,
}

impl Landing {
    /// The best nodes, which the scheduler may choose, and all others that could take the Pod.
    pub fn new(favourites: Vec<String>, mut others: Vec<String>) -> Self {
        let best: BTreeSet<&String> = favourites.iter().collect();
        others.retain(|node| !best.contains(node));
        Self { favourites, others }
    }

    pub fn of(selection: &Selection) -> Self {
        if selection.chosen.is_none() {
            return Self::default();
        }
        let could = selection
            .verdicts
            .iter()
            .filter(|verdict| verdict.exclusions.is_empty());
        Self::new(
            selection.may_land_on.clone(),
            could.map(|verdict| verdict.node.clone()).collect(),
        )
    }

    pub fn is_nowhere(&self) -> bool {
        self.favourites.is_empty()
    }

    #[must_use]
    pub fn within(&self, nodes: &BTreeSet<String>) -> Self {
        let mut best = self.favourites.clone();
        let mut others = self.others.clone();
        best.retain(|node| nodes.contains(node));
        others.retain(|node| nodes.contains(node));
        if best.is_empty() {
            Self::new(others, best)
        } else {
            Self::new(best, others)
        }
    }

    /// The best nodes: the scheduler may choose any of them.
    pub fn favourites(&self) -> &[String] {
        &self.favourites
    }

    pub fn others(&self) -> &[String] {
        &self.others
    }

    pub fn only(&self) -> Option<&str> {
        match (self.favourites.as_slice(), self.others.as_slice()) {
            ([node], []) => Some(node),
            _ => None,
        }
    }
}

/// Whether a Node takes no new Pod like this one, whatever runs there: because of a cordon or a
/// taint.
pub fn is_closed(pod: &Value, node: &Value) -> bool {
    // Most nodes are open to every Pod and need no simulated scheduling.
    let taints = node["spec"]["taints"].as_array();
    if node["spec"]["unschedulable"] != true && taints.is_none_or(Vec::is_empty) {
        return false;
    }
    let pod = unbound(pod);
    let placement = Placement {
        pod: &pod,
        before: None,
        selector: None,
        volumes: None,
    };
    let selection = select(
        &placement,
        &[NodeView {
            node,
            pods: Vec::new(),
        }],
    );
    let mut kinds = selection
        .verdicts
        .iter()
        .flat_map(|verdict| &verdict.exclusions)
        .map(Exclusion::kind);
    kinds.any(|kind| matches!(kind, ExclusionKind::Cordon | ExclusionKind::Taint))
}

/// A Pod before it has a node.
pub fn unbound(pod: &Value) -> Value {
    let mut pod = pod.clone();
    for (part, field) in [("spec", "nodeName"), ("metadata", "deletionTimestamp")] {
        if let Some(part) = pod.get_mut(part).and_then(Value::as_object_mut) {
            part.remove(field);
        }
    }
    pod
}
