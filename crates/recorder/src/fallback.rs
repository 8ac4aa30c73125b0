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

mod slim;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use pps_admission::injected::{Template, injected};
use pps_admission::plan::Plan;
use pps_admission::{apply, plan};
use pps_core::required_affinity::RequiredAffinity;
use pps_core::succession::{has_newest_revision, has_other_template, is_held_back};
use pps_core::{AnnotationRules, PodState, Spec};
use pps_scheduler::fields::text;
use pps_scheduler::{
    Caveat, ExclusionKind, NodeView, Placement, RequiredBy, Selection, Verdict, Volumes, select,
};
use serde_json::Value;

pub use self::slim::{slim_node, slim_pod};
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
}

#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// All Pods on these nodes have to be known first.
    Read(Vec<String>),
    /// These values are given up, and this state stays recorded.
    GiveUp {
        given_up: GivenUp,
        kept: PodState,
    },
    /// The Pod is evicted, so that its controller creates it as it is recorded now.
    CreateAgain,
    Refused(Refusal),
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
        }
    }

    /// Adds a node whose Pods are not known yet.
    pub fn add_node(&mut self, node: &Value) {
        let name = text(&node["metadata"]["name"]).to_owned();
        self.nodes.insert(name, slim_node(node));
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

    /// The names of the claims whose volumes have to be known.
    pub fn claims(&self) -> BTreeSet<String> {
        pps_scheduler::fields::list(&self.pod["spec"]["volumes"])
            .filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str())
            .map(str::to_owned)
            .collect()
    }

    pub fn judge(&self) -> Judgement {
        if !self.has_known_template() {
            return Judgement::Refused(Refusal::TemplateUnknown);
        }
        if asks_about_other_namespaces(&self.pod) {
            // Of their Pods only those on nodes in question are read.
            return Judgement::Refused(Refusal::NotJudged(Caveat::PodAffinityFields));
        }
        let Some(next) = self.successor() else {
            return Judgement::Refused(Refusal::Unchanged);
        };
        let as_it_is = self.select(&self.pod);
        if let Some(caveat) = as_it_is.caveats.iter().find(|caveat| is_unknown(caveat)) {
            return Judgement::Refused(Refusal::NotJudged(caveat.clone()));
        }
        if let Some(judgement) = self.judge_home(&as_it_is) {
            return judgement;
        }
        // A changed template may be all that the Pod needs to go home.
        let same = self.with_state(&next, &self.state);
        match self.question {
            Question::GiveUp => match self.judge_home(&self.select(&same)) {
                Some(judgement) => judgement,
                None => self.judge_elsewhere(&next),
            },
            Question::CreateAgain if requires_the_same(&same, &self.pod) => {
                Judgement::Refused(Refusal::Unchanged)
            }
            Question::CreateAgain => self.judge_again(&same),
        }
    }

    /// Decides if a node could take the Pod with its requirement, or if that is not known yet.
    fn judge_home(&self, selection: &Selection) -> Option<Judgement> {
        let open = open(selection);
        let mut known = open.iter().filter(|node| self.read.contains(**node));
        if let Some(node) = known.next() {
            let node = (*node).to_owned();
            return Some(Judgement::Refused(Refusal::HomeTakesIt { node }));
        }
        if !open.is_empty() {
            return Some(self.read(open));
        }
        // The scheduler makes room for it, by evicting Pods of lower priority; unless Pods of other
        // namespaces have a higher one.
        let may_land_on = selection.may_land_on.iter().map(String::as_str);
        let unread: Vec<&str> = may_land_on
            .filter(|node| !self.read.contains(*node))
            .take(READ_AT_ONCE)
            .collect();
        if !unread.is_empty() {
            return Some(self.read(unread));
        }
        let node = selection.may_land_on.first()?.clone();
        Some(Judgement::Refused(Refusal::HomeTakesIt { node }))
    }

    /// Decides what is given up, if a node could take the Pod without a part of its place: as
    /// little as possible, so the nodes that need least of it come first.
    fn judge_elsewhere(&self, next: &Value) -> Judgement {
        let free = self.select(next);
        let open = open(&free);
        let gives_up = |node: &str| {
            let node = self.labelled(node)?;
            GivenUp::fewest(&self.spec, &self.state, [&node])
        };
        let Some(fewest) = open
            .iter()
            .filter_map(|node| Some(gives_up(node)?.labels.len()))
            .min()
        else {
            return Judgement::Refused(pinned(&free).unwrap_or(Refusal::NoNodeCouldTake));
        };
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
        match self.judge_again(&freed) {
            Judgement::CreateAgain => Judgement::GiveUp { given_up, kept },
            other => other,
        }
    }

    /// Whether a node could take this Pod.
    fn judge_again(&self, pod: &Value) -> Judgement {
        let selection = self.select(pod);
        let open = open(&selection);
        if open.iter().any(|node| self.read.contains(*node)) {
            return Judgement::CreateAgain;
        }
        if open.is_empty() {
            let refusal = pinned(&selection).unwrap_or(Refusal::NoNodeCouldTake);
            return Judgement::Refused(refusal);
        }
        self.read(open.into_iter().take(READ_AT_ONCE))
    }

    fn read<'a>(&self, nodes: impl IntoIterator<Item = &'a str>) -> Judgement {
        let unread = nodes.into_iter().filter(|node| !self.read.contains(*node));
        let nodes: Vec<String> = unread.map(str::to_owned).collect();
        if self.read.len() + nodes.len() > MAX_READ_NODES {
            return Judgement::Refused(Refusal::TooManyNodes);
        }
        Judgement::Read(nodes)
    }

    fn select(&self, pod: &Value) -> Selection {
        let nodes: Vec<NodeView> = self
            .nodes
            .iter()
            .map(|(name, node)| NodeView {
                node,
                pods: self.pods.get(name).into_iter().flatten().collect(),
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

    /// Whether the template is known from which the Pod was made, or will be made again. A Pod that
    /// a rollout holds back is made from an older one.
    fn has_known_template(&self) -> bool {
        let Some(workload) = &self.workload else {
            return false;
        };
        let name = text(&self.pod["metadata"]["name"]);
        let is_older = has_newest_revision(&self.pod, workload) == Some(false);
        workload["spec"]["template"].is_object() && !(is_older && is_held_back(workload, name))
    }

    /// The Pod as its controller would create it now, without anything injected; none if nothing
    /// was injected into the present one.
    fn successor(&self) -> Option<Value> {
        let workload = self.workload.as_ref();
        let template = workload.and_then(|workload| {
            // Without a revision the Pod may have been made from this template.
            let is_newest = has_newest_revision(&self.pod, workload);
            (is_newest != Some(false)).then_some(Template {
                template: &workload["spec"]["template"],
                is_certain: is_newest == Some(true),
            })
        });
        let before = injected(&self.pod, template, Some(&self.spec), Some(&self.state))?.before;
        let name = text(&self.pod["metadata"]["name"]);
        let changed = workload.filter(|workload| {
            has_other_template(&self.pod, workload) && !is_held_back(workload, name)
        });
        Some(match changed {
            Some(workload) => made_from(&workload["spec"]["template"], &self.pod),
            None => before,
        })
    }

    /// A Pod with what the policy injects for this state.
    fn with_state(&self, pod: &Value, state: &PodState) -> Value {
        let plan: Plan = plan(&self.pps, &self.spec, state, &AnnotationRules::default());
        let mut with_state = pod.clone();
        // A Pod that the policy cannot change is refused when it is created.
        match apply(&plan, &mut with_state) {
            Ok(_) => with_state,
            Err(_) => pod.clone(),
        }
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

/// The nodes that could take a Pod, the best first.
fn open(selection: &Selection) -> Vec<&str> {
    let mut open: Vec<&Verdict> = selection
        .verdicts
        .iter()
        .filter(|verdict| verdict.exclusions.is_empty())
        .collect();
    open.sort_by_key(|verdict| std::cmp::Reverse(verdict.score));
    open.iter().map(|verdict| verdict.node.as_str()).collect()
}

/// Whether a Pod requires to be near, or far from, Pods of other namespaces.
fn asks_about_other_namespaces(pod: &Value) -> bool {
    let own = &pod["metadata"]["namespace"];
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let terms =
            &pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"];
        pps_scheduler::fields::list(terms).any(|term| {
            let mut namespaces = pps_scheduler::fields::list(&term["namespaces"]);
            !term["namespaceSelector"].is_null() || namespaces.any(|namespace| namespace != own)
        })
    })
}

/// Whether something may keep a Pod from a node, or lets a node take it, that is not simulated.
fn is_unknown(caveat: &Caveat) -> bool {
    // How many volumes a node takes matters only where nodes are full, and preemption is judged.
    !matches!(caveat, Caveat::VolumeLimits | Caveat::Preemption)
}

/// The claim whose volume alone keeps the Pod from a node.
fn pinned(selection: &Selection) -> Option<Refusal> {
    let verdict = selection.verdicts.iter().find(|verdict| {
        let mut kinds = verdict
            .exclusions
            .iter()
            .map(pps_scheduler::Exclusion::kind);
        kinds.all(|kind| kind == ExclusionKind::Volume)
    })?;
    let claim = verdict.exclusions.iter().find_map(|exclusion| {
        use pps_scheduler::Exclusion::{Impossible, Label};
        match exclusion {
            Label { by, .. } | Impossible { by } => match by {
                RequiredBy::Claim(claim) => Some(claim.clone()),
                _ => None,
            },
            _ => None,
        }
    })?;
    Some(Refusal::PinnedByVolume { claim })
}

fn requires_the_same(one: &Value, other: &Value) -> bool {
    let required = |pod: &Value| {
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            .clone()
    };
    required(one) == required(other)
}

/// The Pod that a controller makes from a template in place of this Pod: with the same name,
/// priority and claims.
fn made_from(template: &Value, pod: &Value) -> Value {
    let mut made = template.clone();
    for field in ["name", "namespace"] {
        made["metadata"][field] = pod["metadata"][field].clone();
    }
    if made["spec"]["priority"].is_null() {
        made["spec"]["priority"] = pod["spec"]["priority"].clone();
    }
    let volumes = |spec: &Value| -> Vec<Value> {
        pps_scheduler::fields::list(&spec["volumes"])
            .cloned()
            .collect()
    };
    let mut all = volumes(&template["spec"]);
    let claimed = volumes(&pod["spec"]).into_iter().filter(|volume| {
        let is_known = all.iter().any(|known| known["name"] == volume["name"]);
        !is_known && volume["persistentVolumeClaim"].is_object()
    });
    all.extend(claimed.collect::<Vec<_>>());
    made["spec"]["volumes"] = all.into();
    made
}
