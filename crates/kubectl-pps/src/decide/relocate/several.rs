//! Moves several Pods, one after the other.

mod peers;
mod progress;
mod stuck;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

pub use self::peers::{Wait, claim, held_up, mark, peers, waits_for};
pub use self::progress::{Progress, Stage};
pub use self::stuck::{Stuck, stuck};

use super::{Decision, Destination, Relocation, Removal, Request, decide_in};
use crate::decide::hand::{Hand, portions};
use crate::decide::landing::Landing;
use crate::snapshot::{Index, Node, Pod, Snapshot};
use crate::{Failure, Outcome};

/// Stands for the Pods in a sentence that is said of several.
const THEM: &str = "\0";

/// The namespace and the name of a Pod.
pub type PodName = (String, String);

/// What is wanted of all Pods.
#[derive(Clone, Copy, Debug)]
pub struct Goal<'a> {
    /// Where they should go.
    pub destination: Option<Destination<'a>>,
    /// The topology keys whose recorded values are given up, as the user writes them.
    pub any: &'a [String],
    /// Whether their recorded annotations are dropped.
    pub drop_annotations: bool,
    /// Whether they are moved although no node can take them, or others of their workload are not Ready.
    pub force: bool,
    /// The node that they should go to, if it was read alone.
    pub node: Option<&'a Node>,
}

impl<'a> Goal<'a> {
    /// The move of one Pod.
    pub fn of<'b>(&self, pod: &'b PodName) -> Request<'b>
    where
        'a: 'b,
    {
        Request {
            namespace: &pod.0,
            pod: &pod.1,
            destination: self.destination,
            any: self.any,
            drop_annotations: self.drop_annotations,
            force: self.force,
            node: self.node,
        }
    }

    /// The commands that move these Pods, at least one for each namespace.
    pub fn commands(&self, pods: &[PodName], hand: &Hand) -> Vec<String> {
        let mut flags = match self.destination {
            Some(Destination::Node(node)) => format!(" --to {node}"),
            Some(Destination::Anywhere) => " --anywhere".to_owned(),
            None => String::new(),
        };
        flags.extend(self.any.iter().map(|word| format!(" --any {word}")));
        for (flag, is_set) in [(" --drop-annotations", self.drop_annotations), (" --force", self.force)] {
            if is_set {
                flags.push_str(flag);
            }
        }
        let namespaces: BTreeSet<&str> = pods.iter().map(|(namespace, _)| namespace.as_str()).collect();
        let mut commands = Vec::new();
        for namespace in namespaces {
            let own = pods.iter().filter(|(own, _)| own == namespace);
            let names: Vec<&str> = own.map(|(_, pod)| pod.as_str()).collect();
            for names in portions(&names) {
                commands.push(hand.pps(&format!("move {}{flags}", names.join(" ")), namespace));
            }
        }
        commands
    }
}

/// What is to be done with several Pods.
#[derive(Clone, Debug, Default)]
pub struct Several {
    /// The moves, in the order in which they are made.
    pub moves: Vec<Relocation>,
    /// What needs not be done.
    pub done: Vec<String>,
    /// The Pods that cannot be moved, each with why.
    pub refused: Vec<(PodName, Failure)>,
}

/// Decides the moves of several Pods: those that do not run first, since nothing is lost by moving them, and of these the one
/// first that others of its workload may wait for. Each is decided as if those before it had landed.
///
/// # Errors
///
/// If nobody says where they should go.
pub fn decide_all(snapshot: &Snapshot, pods: &[PodName], goal: &Goal<'_>) -> Result<Several, Failure> {
    if goal.destination.is_none() {
        return Err(Failure::Usage("say where the Pods should go: --to NODE, or --anywhere".into()));
    }
    let mut ordered: Vec<&PodName> = pods.iter().collect();
    let index = Index::of(snapshot);
    ordered.sort_by_cached_key(|(namespace, name)| {
        let rank = rank(snapshot, index.pod(namespace, name));
        // Ready ones are moved in the order that the user wants.
        (rank, (rank < READY).then(|| by_ordinal(namespace, name)))
    });
    let mut landed = snapshot.clone();
    let mut several = Several::default();
    for pod in ordered {
        match decide_in(&index, snapshot, &landed, &goal.of(pod)) {
            Ok(Decision::Done(text)) => several.done.push(text),
            Ok(Decision::Move(relocation)) => {
                if let Some(why) = relocation.obstacle().filter(|_| !goal.force) {
                    several.refused.push((pod.clone(), Failure::Refused(why)));
                } else {
                    relocation.land_in(&mut landed);
                    several.moves.push(*relocation);
                }
            }
            Err(failure) => several.refused.push((pod.clone(), failure)),
        }
    }
    Ok(several)
}

/// The rank of a Pod that is Ready.
const READY: u8 = 3;

/// Pods of one workload by their ordinals: this is how their controller creates them.
fn by_ordinal<'a>(namespace: &'a str, name: &'a str) -> (&'a str, &'a str, u64) {
    let split = name.rsplit_once('-').and_then(|(base, ordinal)| Some((base, ordinal.parse().ok()?)));
    let (base, ordinal) = split.unwrap_or((name, 0));
    (namespace, base, ordinal)
}

fn rank(snapshot: &Snapshot, pod: Option<&Pod>) -> u8 {
    match pod {
        None => 0,
        Some(pod) if pod.node().is_none() => 0,
        Some(pod) if snapshot.is_stranded(pod) || pod.is_terminating() => 1,
        // Others wait for one whose move was not finished.
        Some(pod) if !pod.is_ready() || pod.is_marked() => 2,
        Some(_) => READY,
    }
}

impl Several {
    /// The Pods that are moved.
    pub fn pods(&self) -> Vec<PodName> {
        self.moves.iter().map(Relocation::name).collect()
    }

    /// Whether the Pods that can be moved may be moved without the others: why the others cannot is known.
    pub fn may_leave_some(&self) -> bool {
        !self.moves.is_empty() && self.refused.iter().all(|(_, why)| matches!(why, Failure::Refused(_)))
    }

    /// The Pods that are left where they are, each with why.
    pub fn left(&self) -> Vec<String> {
        let mut groups: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
        for ((namespace, pod), failure) in &self.refused {
            groups.entry((namespace, without_name(&failure.to_string(), pod))).or_default().push(pod);
        }
        let mut notes = Vec::new();
        for ((namespace, why), pods) in groups {
            for pods in portions(&pods) {
                let (word, are, they, them) = match pods.len() {
                    1 => ("Pod", "is", "it is", "it"),
                    _ => ("Pods", "are", "they are", "them"),
                };
                let (names, why) = (pods.join(", "), why.replace(THEM, them));
                notes.push(format!("{word} {names} in namespace {namespace} {are} left where {they}: {why}"));
            }
        }
        notes
    }

    /// Asks whether to do it.
    pub fn question(&self) -> String {
        let moves = match self.moves.len() {
            1 => "Move this Pod".to_owned(),
            count => format!("Move these {count} Pods"),
        };
        match self.refused.len() {
            0 => format!("{moves}?"),
            1 => format!("{moves}, and leave 1 where it is?"),
            count => format!("{moves}, and leave {count} where they are?"),
        }
    }

    /// How it ends if all moves are made.
    pub fn outcome(&self) -> Outcome {
        if self.refused.is_empty() { Outcome::Well } else { Outcome::NotWell }
    }

    /// Why nothing is done, if some Pods cannot be moved, and how to move the others.
    pub fn refusal(&self, goal: &Goal<'_>, hand: &Hand) -> Option<Failure> {
        let (_, first) = self.refused.first()?;
        let mut text = String::new();
        for (_, failure) in &self.refused {
            let _ = writeln!(text, "{failure}");
        }
        text.push_str("nothing was changed");
        for command in goal.commands(&self.pods(), hand) {
            let _ = write!(text, "\nto move the others: {command}");
        }
        Some(match first {
            Failure::Refused(_) => Failure::Refused(text),
            Failure::Usage(_) => Failure::Usage(text),
            Failure::Unreadable(_) => Failure::Unreadable(text),
        })
    }

    /// The rows of a table: each Pod, where it is, what is recorded, and where it goes.
    pub fn rows(&self) -> Vec<[String; 5]> {
        let row = |one: &Relocation| {
            let goes = match (&one.to, &one.forecast) {
                (Some(to), _) => format!("to {to}"),
                (None, Some(forecast)) => forecast.landing().to_string(),
                (None, None) => "anywhere".into(),
            };
            let given_up = one.gives_up();
            let goes =
                if given_up.is_empty() { goes } else { format!("{goes}; gives up {}", given_up.join(", ")) };
            [one.namespace.clone(), one.pod.clone(), one.from(), super::describe(one.before.as_ref()), goes]
        };
        self.moves.iter().map(row).collect()
    }

    /// What is done, in sentences.
    pub fn steps(&self, force: bool) -> Vec<String> {
        let mut steps = Vec::new();
        let has = |removal: Removal| {
            let removes = |one: &&Relocation| one.present.as_ref().is_some_and(|pod| pod.removal == removal);
            self.moves.iter().any(|one| removes(&one))
        };
        if let Some(change) = self.moves.iter().find_map(Relocation::change) {
            steps.push(change);
        }
        match (has(Removal::Evict), has(Removal::Delete)) {
            (true, true) => {
                steps.push("Pods that have a node are evicted, the others deleted, and created again".into());
            }
            (true, false) => steps.push("the Pods are evicted, and created again".into()),
            (false, true) => steps.push("the Pods are deleted, and created again".into()),
            (false, false) => {}
        }
        if self.moves.iter().any(Relocation::is_serving) {
            let others = if force {
                "the Pods of its workload that were moved before it"
            } else {
                "all other Pods of its workload"
            };
            steps.push(format!("a Ready Pod is evicted only when {others} are Ready and recorded"));
        }
        steps
    }

    /// What the user should know beside the plan, each once.
    pub fn notes(&self, left: Option<&str>, hand: &Hand) -> Vec<String> {
        let mut said = BTreeSet::new();
        let mut notes: Vec<String> = self.moves.iter().flat_map(Relocation::notes).collect();
        notes.retain(|note| said.insert(note.clone()));
        notes.extend(
            left.filter(|node| {
                self.moves.iter().any(|one| one.may_return_to(node) && !one.must_return_to(node))
            })
            .map(|node| stay_away(node, hand)),
        );
        notes
    }
}

/// Why a Pod cannot be moved, in one line and without its name: the same may be said of others.
fn without_name(why: &str, pod: &str) -> String {
    let (head, reasons) = why.split_once('\n').unwrap_or((why, ""));
    let mut head = format!("{head} ");
    for end in [':', ',', ' '] {
        head = head.replace(&format!("Pod {pod}{end}"), &format!("{THEM}{end}"));
    }
    let reasons: Vec<&str> = reasons.lines().map(|line| line.trim_start_matches("- ")).collect();
    format!("{}{}{}", head.trim_end(), if reasons.is_empty() { "" } else { " " }, reasons.join("; "))
}

/// How to keep Pods from a node that they leave.
fn stay_away(node: &str, hand: &Hand) -> String {
    let cordon = hand.kubectl(&format!("cordon {node}"));
    format!(
        "{node} takes Pods, so it may get what leaves it again; to prevent that, run this first: {cordon}"
    )
}

/// How a move that is not the first one goes on, which was decided again.
#[derive(Debug)]
pub enum Also {
    /// As it is now.
    Go(Box<Relocation>),
    /// There is nothing to do any more.
    Skip(String),
}

/// Compares a move that was shown with what is decided now. What was agreed to may have become less, such as a Pod that has
/// lost its node meanwhile; not more.
///
/// # Errors
///
/// If the Pod has changed so that the user should look again.
pub fn also(shown: &Relocation, now: Result<Decision, Failure>, force: bool) -> Result<Also, Failure> {
    let now = match now? {
        Decision::Done(text) => return Ok(Also::Skip(text)),
        Decision::Move(now) => now,
    };
    let name = &shown.pod;
    let changed = |what: String| Err(Failure::Refused(format!("{what}: it was left alone")));
    if let Some(present) = now.present.as_ref().filter(|present| present.removal == Removal::Evict) {
        match &shown.present {
            Some(before) if before.is_stranded && !present.is_stranded => {
                let node = present.node.as_deref().unwrap_or_default();
                return changed(format!("node {node} of Pod {name} has come back meanwhile"));
            }
            Some(before) if before.uid == present.uid && before.removal == Removal::Evict => {}
            _ => {
                let node = present.node.as_deref().unwrap_or_default();
                return changed(format!("Pod {name} has got node {node} meanwhile"));
            }
        }
    }
    if let Some(why) = now.obstacle().filter(|_| !force) {
        return changed(why);
    }
    Ok(Also::Go(now))
}

impl Relocation {
    /// Its namespace and name.
    pub fn name(&self) -> PodName {
        (self.namespace.clone(), self.pod.clone())
    }

    fn may_return_to(&self, node: &str) -> bool {
        self.choices().any(|one| one == node)
    }

    /// Whether this is the only node that can take the Pod: a cordon would leave it without one.
    fn must_return_to(&self, node: &str) -> bool {
        self.may_return_to(node) && self.choices().all(|one| one == node)
    }

    /// The nodes that the scheduler may choose.
    fn choices(&self) -> impl Iterator<Item = String> {
        let landing = self.forecast.as_ref().filter(|_| self.to.is_none()).map(super::Forecast::landing);
        let all = |landing: Landing| [landing.favourites(), landing.others()].concat();
        landing.map(all).unwrap_or_default().into_iter()
    }

    /// That the Pod may come back to the node that it leaves, and how to prevent it.
    pub fn return_note(&self, hand: &Hand) -> Option<String> {
        let node = self.present.as_ref()?.node.as_deref()?;
        if self.must_return_to(node) {
            return Some(format!(
                "{node} is the only node that can take the Pod now, so it comes back to it"
            ));
        }
        self.may_return_to(node).then(|| stay_away(node, hand))
    }

    /// Whether something is lost while the Pod is gone.
    pub fn is_serving(&self) -> bool {
        self.present.as_ref().is_some_and(super::Present::is_serving)
    }

    /// Puts the Pod where it probably lands, so that the next Pod is decided with that.
    fn land_in(&self, world: &mut Snapshot) {
        let landing = self.forecast.as_ref().and_then(|forecast| {
            let to = self.to.as_ref().filter(|to| forecast.may_land_on.contains(to));
            to.or_else(|| forecast.may_land_on.first())
        });
        let (Some(node), Some(successor)) = (landing, &self.successor) else { return };
        let mut landed = successor.clone();
        landed["spec"]["nodeName"] = node.clone().into();
        let is_own = |pod: &&mut Pod| pod.name() == self.pod && pod.namespace() == self.namespace;
        let Some(landed) = Pod::read(landed) else { return };
        match world.pods.iter_mut().find(is_own) {
            Some(own) => *own = landed,
            None => world.pods.push(landed),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
