//! Whether a Pod that has waited for its recorded place falls back: gives up as much of the place
//! as no node can serve.
//!
//! The judgement is the scheduler's, about objects that were just read from the API server: the
//! place is given up only if no node could take the Pod with its requirement, and one could without
//! a part of it. Both are judged alike. Whatever is not known, or not simulated, speaks against it:
//! a Pod that waits longer can be moved by its user, and a place that was given up is lost.
//!
//! The Pods of a node are read only where the node is in question, so a judgement may first ask for
//! [more of them](Judgement::Read).

mod next_pod;
mod nodes;
mod slim;
mod successors;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use pps_core::required_affinity::RequiredAffinity;
use pps_core::{PodState, Spec};
use pps_scheduler::fields::{list, text};
use pps_scheduler::{Caveat, NodeView, Placement, Selection, Volumes, select};
use serde_json::Value;

use self::next_pod::requires_the_same;
use self::nodes::{asks_about_other_namespaces, clearly_open, is_unknown, nowhere, open};
pub use self::slim::{slim_node, slim_pod};
pub use self::successors::{Successor, Successors};
use crate::place::{GivenUp, OpenNode};

/// Of how many nodes the Pods are read at most.
pub const MAX_READ_NODES: usize = 500;
/// Of how many nodes the Pods are read at once to find one that could take the Pod.
const READ_AT_ONCE: usize = 8;

/// What is asked about a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether it gives up its place, which it has waited for long enough.
    GiveUp,
    /// Whether it is to be created again: it requires values that are no longer recorded, because
    /// the process that gave them up did not evict it.
    CreateAgain,
}

/// What is asked about a Pod with this recorded state and this affinity; nothing if it does not
/// wait for its place.
pub fn question(spec: &Spec, state: &PodState, affinity: &RequiredAffinity) -> Option<Question> {
    let recorded = |key: &str| state.node_topology_labels.get(key).map(String::as_str);
    let is_outdated = spec.required_keys().any(|key| {
        let mut required = affinity.single_values(key);
        required.any(|value| recorded(key) != Some(value))
    });
    if is_outdated {
        return Some(Question::CreateAgain);
    }
    let mut values = spec
        .required_keys()
        .filter_map(|key| Some((key, recorded(key)?)))
        .peekable();
    let waits = values.peek().is_some() && values.all(|(key, value)| affinity.requires(key, value));
    waits.then_some(Question::GiveUp)
}

/// Everything that a judgement rests on, as the API server has it.
#[derive(Clone, Debug)]
pub struct Case {
    pub question: Question,
    /// The PersistentPodState.
    pub pps: String,
    pub spec: Spec,
    /// The Pod's recorded state.
    pub state: PodState,
    pub pod: Value,
    /// The Pod's workload; none of a kind whose template is not known.
    pub workload: Option<Value>,
    pub volumes: Volumes,
    nodes: BTreeMap<String, Value>,
    /// The Pods on each node, as far as they are known.
    pods: BTreeMap<String, Vec<Value>>,
    /// The nodes all of whose Pods are known.
    read: BTreeSet<String>,
    /// The Pods that will need a place soon.
    successors: Vec<Successor>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// All Pods on these nodes have to be known first.
    Read(Vec<String>),
    /// These values are given up, and this state stays recorded.
    GiveUp {
        given_up: GivenUp,
        kept: PodState,
        successor: Successor,
    },
    /// The Pod is evicted, so that its controller creates it as it is recorded now.
    CreateAgain,
    Refused(Refusal),
}

/// Where a Pod may run.
enum Search {
    Found(String),
    /// Something has to be read first.
    Read(Judgement),
}

/// Why a Pod keeps its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A node could take the Pod as it is, or as its controller would create it again with the same
    /// requirement.
    HomeTakesIt { node: String },
    /// No node could take the Pod without its recorded place, either.
    NoNodeCouldTake,
    /// Other nodes could take the Pod, but not the volume of this claim.
    PinnedByVolume { claim: String },
    /// The Pod asks for something that is not judged.
    NotJudged(Caveat),
    /// Too many nodes are in question.
    TooManyNodes,
    /// The template of the Pod is not known, so nobody knows which of its requirements are its own.
    TemplateUnknown,
    /// The Pod would be created again with the same requirement.
    Unchanged,
}

impl Case {
    pub fn new(question: Question, pps: &str, spec: Spec, state: PodState, pod: Value) -> Self {
        Self {
            question,
            pps: pps.to_owned(),
            spec,
            state,
            pod,
            workload: None,
            volumes: Volumes::default(),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            read: BTreeSet::new(),
            successors: Vec::new(),
        }
    }

    /// Adds a node whose Pods are not known yet.
    pub fn add_node(&mut self, node: &Value) {
        let name = text(&node["metadata"]["name"]).to_owned();
        self.nodes.insert(name, slim_node(node));
    }

    /// These are all nodes now. What is known of the Pods on them stays.
    pub fn set_nodes(&mut self, nodes: impl IntoIterator<Item = Value>) {
        let by_name = |node: Value| (text(&node["metadata"]["name"]).to_owned(), node);
        self.nodes = nodes.into_iter().map(by_name).collect();
    }

    /// These Pods take room on the nodes that were found for them.
    pub fn set_successors(&mut self, successors: Vec<Successor>) {
        self.successors = successors;
    }

    /// Adds a Pod that says on which node it is. Others may be on that node.
    pub fn add_pod(&mut self, pod: &Value) {
        let node = text(&pod["spec"]["nodeName"]);
        if !node.is_empty() {
            let pods = self.pods.entry(node.to_owned()).or_default();
            pods.push(slim_pod(pod));
        }
    }

    /// These are all Pods on this node.
    pub fn set_pods<'a>(&mut self, node: &str, pods: impl IntoIterator<Item = &'a Value>) {
        let pods = pods.into_iter().map(slim_pod).collect();
        self.pods.insert(node.to_owned(), pods);
        self.read.insert(node.to_owned());
    }

    /// The names of the claims whose volumes have to be known: of the Pod, and of the next one.
    pub fn claims(&self) -> BTreeSet<String> {
        let successor = self.successor();
        [Some(&self.pod), successor.as_ref()]
            .into_iter()
            .flatten()
            .flat_map(|pod| list(&pod["spec"]["volumes"]))
            .filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str())
            .map(str::to_owned)
            .collect()
    }

    pub fn judge(&self) -> Judgement {
        self.try_to_judge().unwrap_or_else(Judgement::Refused)
    }

    fn try_to_judge(&self) -> Result<Judgement, Refusal> {
        if !self.has_known_template() {
            return Err(Refusal::TemplateUnknown);
        }
        let next = self.successor().ok_or(Refusal::Unchanged)?;
        if let Some(read) = self.judge_home(&self.pod)? {
            return Ok(read);
        }
        // A changed template may be all that the Pod needs to go home.
        let same = self.with_state(&next, &self.state);
        match self.question {
            Question::GiveUp => match self.judge_home(&same)? {
                Some(read) => Ok(read),
                None => self.judge_elsewhere(&next),
            },
            Question::CreateAgain if requires_the_same(&same, &self.pod) => Err(Refusal::Unchanged),
            Question::CreateAgain => Ok(match self.find_node(&same)? {
                Search::Found(_) => Judgement::CreateAgain,
                Search::Read(read) => read,
            }),
        }
    }

    /// Refuses if a node could take a Pod with the requirement. Says what has to be read to know.
    fn judge_home(&self, pod: &Value) -> Result<Option<Judgement>, Refusal> {
        let selection = self.select_known(pod)?;
        let open = open(&selection);
        let mut known = open.iter().filter(|node| self.read.contains(**node));
        if let Some(node) = known.next() {
            let node = (*node).to_owned();
            return Err(if selection.unclear.contains(&node) {
                Refusal::NotJudged(Caveat::AntiAffinityOfOthers)
            } else {
                Refusal::HomeTakesIt { node }
            });
        }
        if !open.is_empty() {
            return self.read(open).map(Some);
        }
        // The scheduler makes room for it, by evicting Pods of lower priority; unless Pods of other
        // namespaces have a higher one.
        let may_land_on = selection.may_land_on.iter().map(String::as_str);
        let unread: Vec<&str> = may_land_on
            .filter(|node| !self.read.contains(*node))
            .take(READ_AT_ONCE)
            .collect();
        if !unread.is_empty() {
            return self.read(unread).map(Some);
        }
        match selection.may_land_on.into_iter().next() {
            Some(node) => Err(Refusal::HomeTakesIt { node }),
            None => Ok(None),
        }
    }

    /// Decides what is given up, if a node could take the Pod without a part of its place: as
    /// little as possible, so the nodes that need least of it come first.
    fn judge_elsewhere(&self, next: &Value) -> Result<Judgement, Refusal> {
        let free = self.select_known(next)?;
        let open = clearly_open(&free);
        let gives_up = |node: &str| {
            let node = self.labelled(node)?;
            GivenUp::fewest(&self.spec, &self.state, [&node])
        };
        let fewest = open
            .iter()
            .filter_map(|node| Some(gives_up(node)?.labels.len()))
            .min()
            .ok_or_else(|| nowhere(&free))?;
        let first: Vec<&str> = open
            .into_iter()
            .filter(|node| gives_up(node).is_some_and(|up| up.labels.len() == fewest))
            .collect();
        let known = first.iter().filter(|node| self.read.contains(**node));
        let known: Vec<Labelled> = known.filter_map(|node| self.labelled(node)).collect();
        let Some(given_up) = GivenUp::fewest(&self.spec, &self.state, &known) else {
            return self.read(first.into_iter().take(READ_AT_ONCE));
        };
        let kept = given_up.kept(&self.state);
        let freed = self.with_state(next, &kept);
        Ok(match self.find_node(&freed)? {
            Search::Found(node) => Judgement::GiveUp {
                given_up,
                kept,
                successor: Successor::new(&freed, node),
            },
            Search::Read(read) => read,
        })
    }

    /// A node that could take this Pod, or what has to be read to know.
    fn find_node(&self, pod: &Value) -> Result<Search, Refusal> {
        let selection = self.select_known(pod)?;
        let open = clearly_open(&selection);
        if let Some(node) = open.iter().find(|node| self.read.contains(**node)) {
            return Ok(Search::Found((*node).to_owned()));
        }
        if open.is_empty() {
            return Err(nowhere(&selection));
        }
        self.read(open.into_iter().take(READ_AT_ONCE))
            .map(Search::Read)
    }

    fn read<'a>(&self, nodes: impl IntoIterator<Item = &'a str>) -> Result<Judgement, Refusal> {
        let unread = nodes.into_iter().filter(|node| !self.read.contains(*node));
        let nodes: Vec<String> = unread.map(str::to_owned).collect();
        if self.read.len() + nodes.len() > MAX_READ_NODES {
            return Err(Refusal::TooManyNodes);
        }
        Ok(Judgement::Read(nodes))
    }

    /// What the scheduler makes of a Pod, if that is judged.
    fn select_known(&self, pod: &Value) -> Result<Selection, Refusal> {
        if asks_about_other_namespaces(pod) {
            // Of their Pods only those on nodes in question are read.
            return Err(Refusal::NotJudged(Caveat::PodAffinityFields));
        }
        let selection = self.select(pod);
        match selection.caveats.iter().find(|caveat| is_unknown(caveat)) {
            Some(caveat) => Err(Refusal::NotJudged(caveat.clone())),
            None => Ok(selection),
        }
    }

    fn select(&self, pod: &Value) -> Selection {
        let nodes: Vec<NodeView> = self
            .nodes
            .iter()
            .map(|(name, node)| NodeView {
                node,
                pods: self.pods_on(name),
            })
            .collect();
        let selector = self
            .workload
            .as_ref()
            .map(|workload| &workload["spec"]["selector"]);
        let placement = Placement {
            pod,
            before: None,
            selector: selector.filter(|selector| !selector.is_null()),
            volumes: Some(&self.volumes),
        };
        select(&placement, &nodes)
    }

    /// The Pods on a node, and those for which it was found.
    fn pods_on(&self, node: &str) -> Vec<&Value> {
        let known = self.pods.get(node).map(Vec::as_slice).unwrap_or_default();
        let coming = self.successors.iter().filter(|coming| {
            let runs = known.iter().any(|pod| coming.is_for(pod));
            coming.node() == node && !runs && !coming.is_for(&self.pod)
        });
        known.iter().chain(coming.map(Successor::pod)).collect()
    }

    fn labelled<'a>(&'a self, node: &'a str) -> Option<Labelled<'a>> {
        let labels = &self.nodes.get(node)?["metadata"]["labels"];
        Some(Labelled { name: node, labels })
    }
}

struct Labelled<'a> {
    name: &'a str,
    labels: &'a Value,
}

impl OpenNode for Labelled<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels[key].as_str()
    }
}
