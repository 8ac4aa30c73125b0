//! A forecast in English: for people as a table, for programs sentence by sentence.

use std::collections::BTreeMap;
use std::fmt;

use pps_core::TargetReference;
use pps_scheduler::ExclusionKind;
use serde::{Serialize, Serializer};

use super::text::Text;
use super::{Role, Style, Table};
use crate::decide::command_line::CommandLine;
use crate::decide::forecast::{
    Displaced, Forecast, Note, PodForecast, Question, Reason, Step, Then, Why, reference,
};
use crate::decide::landing::Landing;
use crate::decide::names::list;
use crate::snapshot::{Resource, Unread};

/// How many nodes a cell names, and how many reasons a sentence has.
const NAMED: usize = 2;
const REASONS: usize = 3;
/// How many lines of one kind are printed at most.
const LINES: usize = 20;

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let are = |names: &[String]| if names.len() == 1 { "is" } else { "are" };
        match self {
            Self::WithoutNodes(nodes) => write!(f, "{} {} deleted", nodes.join(", "), are(nodes)),
            Self::Drain(nodes) => write!(f, "{} {} drained", nodes.join(", "), are(nodes)),
            Self::ZoneDown(zone) => write!(f, "zone {zone} is lost"),
            Self::Spec(objects) => {
                let names: Vec<String> = objects.iter().map(|object| named(&reference(object))).collect();
                write!(f, "{} is applied, and the workload restarted", names.join(", "))
            }
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodesGone(nodes) => write!(
                f,
                "gone already: {}. Kubernetes deletes Pods that are bound to a missing node after about a minute",
                list(nodes, "and")
            ),
            Self::NotSimulated { kind, name } => write!(f, "{kind}/{name}: this kind is not simulated"),
            Self::OneAfterTheOther => f.write_str(
                "the namespaces are simulated one after the other; if room is short, the Pods of another namespace may get it",
            ),
            Self::OtherNamespaces { pods, namespaces } => write!(
                f,
                "{} of StatefulSets in other namespaces would lose their nodes as well ({}): -A forecasts them",
                self::pods(*pods),
                list(namespaces, "and")
            ),
            Self::Anyway(pods) => {
                write!(f, "being created or replaced now, with or without this: {}", list(pods, "and"))
            }
            Self::Problem { kind, name, message } => write!(f, "{kind} {name}: {message}"),
            Self::Warning { object, text } => write!(f, "{object} {text}"),
            Self::Created(object) => write!(f, "{} does not exist yet, and is created", named(object)),
            Self::KeepsFields(object) => {
                write!(f, "fields that the file does not set for {} stay as they are in the cluster", named(object))
            }
            Self::NothingToRestart(name) => write!(
                f,
                "there is no StatefulSet {name} that could be restarted; other kinds of workloads are not simulated"
            ),
            Self::OnDelete(name) => write!(
                f,
                "StatefulSet {name} replaces no Pod by itself (updateStrategy: OnDelete): the change counts for Pods that are deleted"
            ),
        }
    }
}

fn named(object: &TargetReference) -> String {
    format!("{}/{}", object.kind, object.name)
}

impl Serialize for Question {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Note {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Beside it, `excludedBy` has the reasons that exclude nodes.
impl Serialize for Why {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&full(self))
    }
}

/// What follows from a list that could not be read.
pub fn unread(unread: &Unread) -> String {
    let effect = match unread.resource {
        Resource::Pods => "so Pods of other namespaces take no room in this forecast",
        Resource::PersistentVolumes | Resource::PersistentVolumeClaims => "so volumes are not considered",
        Resource::PodDisruptionBudgets => "so PodDisruptionBudgets are not considered",
        Resource::KruiseStatefulSets => "so OpenKruise's StatefulSets are not simulated",
        _ => "so the forecast is incomplete",
    };
    format!("{unread}, {effect}")
}

/// The forecast as a table, with what follows from it.
pub fn forecast(
    forecast: &Forecast,
    style: Style,
    is_wide: bool,
    has_namespaces: bool,
    commands: &CommandLine,
) -> String {
    let mut text = Text::new(style);
    text.sentence("", Some(Role::Strong), &format!("If {}:", forecast.question));
    if forecast.pods.is_empty() {
        let is_stopped = !forecast.stopped_rollouts.is_empty();
        let nothing = if is_stopped {
            "No Pod would be replaced."
        } else {
            "No Pod of a StatefulSet would be touched."
        };
        text.sentence("", None, nothing);
    } else {
        text.push("\n");
        text.push(&table(forecast, style, is_wide, has_namespaces));
        text.push("\n");
        if !is_wide {
            reasons(&mut text, forecast);
        }
        summary(&mut text, forecast);
    }
    for one in forecast.stopped_rollouts.iter().take(LINES) {
        let rest = match one.not_reached.as_slice() {
            [] => String::new(),
            [pod] => {
                format!(" It does not reach {pod}, which keeps its former template and is not forecast.")
            }
            pods => {
                let pods = list(pods, "and");
                format!(" It does not reach {pods}, which keep their former template and are not forecast.")
            }
        };
        let (workload, at) = (&one.workload, &one.at);
        let stops =
            format!("The rollout of StatefulSet {workload} stops at {at}, which does not become Ready.");
        text.sentence("", Some(Role::Bad), &(stops + &rest));
    }
    for step in forecast.advice.iter().take(LINES) {
        let (sentence, command) = self::step(step, commands);
        text.command("", &sentence, &command);
    }
    for one in forecast.forgotten.iter().take(LINES) {
        let (namespace, pps, pods) = (&one.namespace, &one.pps, list(&one.pods, "and"));
        let sentence = if one.unwanted {
            format!(
                "PersistentPodState {namespace}/{pps} would drop the recorded states of {pods} at once, since the workload no \
                 longer wants them; persistentPodStateRetentionPolicy: WhenDeleted would keep them."
            )
        } else {
            format!(
                "After the grace period, PersistentPodState {namespace}/{pps} would forget {pods} (nodeDeletionPolicy: Forget)."
            )
        };
        text.sentence("", None, &sentence);
    }
    not_simulated(&mut text, forecast);
    let notes = forecast.notes.iter().map(ToString::to_string);
    for note in caveats(forecast).into_iter().chain(notes).take(LINES) {
        text.marked(Role::Warning, "note:", &note);
    }
    text.into_lines()
}

fn step(step: &Step, commands: &CommandLine) -> (String, String) {
    match step {
        Step::Cordon { nodes } => (
            "To let Pods start elsewhere that would wait for their recorded place, first keep Pods off the node".into(),
            commands.kubectl(&format!("cordon {}", nodes.join(" "))),
        ),
        Step::Move { namespace, pods, flags } => (
            format!("To let {} start elsewhere, without the data on the disks of the former node", list(pods, "and")),
            commands.pps(&format!("move {} {flags}", pods.join(" ")), namespace),
        ),
        Step::Delete { namespace, pods } => (
            format!("To have {} created again without the injected state, which is no longer recorded", list(pods, "and")),
            commands.kubectl_in(&format!("delete pod {}", pods.join(" ")), namespace),
        ),
    }
}

fn table(forecast: &Forecast, style: Style, is_wide: bool, has_namespaces: bool) -> String {
    let mut header: Vec<&str> = has_namespaces.then_some("NAMESPACE").into_iter().collect();
    header.extend(["POD", "NOW", "THEN"]);
    if is_wide {
        header.extend(["RECORDED", "WORKLOAD"]);
    }
    header.push("WHY");
    let mut table = Table::new(style, &header);
    for pod in &forecast.pods {
        let (then, role) = then(pod, is_wide);
        let why = if is_wide { why(pod) } else { brief(&pod.why, !pod.without_its_state.is_empty()) };
        let mut cells = Vec::new();
        cells.extend(has_namespaces.then_some((pod.namespace.as_str(), None)));
        cells.push((pod.pod.as_str(), None));
        cells.push((pod.node_now.as_deref().unwrap_or_default(), None));
        cells.push((then.as_str(), Some(role)));
        if is_wide {
            cells.push((pod.recorded_node.as_deref().unwrap_or_default(), None));
            cells.push((pod.workload.as_str(), None));
        }
        cells.push((&why, None));
        table.row(&cells);
    }
    table.render()
}

/// Where a Pod would be: `node-2`, or `node-2 or 4 others`.
fn then(pod: &PodForecast, is_wide: bool) -> (String, Role) {
    let text = match pod.then {
        Then::Running => {
            let node = pod.node_then.clone().unwrap_or_default();
            let mut others: Vec<&str> = pod.may_land_on.iter().map(String::as_str).collect();
            others.retain(|other| *other != node);
            let text = match others.as_slice() {
                [] => node,
                others if is_wide || others.len() < NAMED => format!("{node} or {}", others.join(" or ")),
                others => format!("{node} or {} others", others.len()),
            };
            return (text, if pod.as_recorded == Some(false) { Role::Warning } else { Role::Good });
        }
        Then::Removed => return ("removed".into(), Role::Dim),
        Then::Pending => "Pending",
        Then::Refused => "refused",
        Then::NotCreated => "not created",
        Then::NotEvicted => "not evicted",
    };
    (text.into(), Role::Bad)
}

/// Why, in the few words that fit into a row.
fn brief(why: &Why, could_run: bool) -> String {
    match why {
        Why::AsRecorded(values) if values.is_empty() => "as recorded".into(),
        Why::AsRecorded(values) => format!("as recorded: {}", values.join(", ")),
        Why::NotAsRecorded { node, because: Some(because) } => {
            format!("not as recorded on {node} ({because})")
        }
        Why::NotAsRecorded { node, because: None } => format!("not as recorded on {node}"),
        Why::GetsNode => "it is Pending now, and gets a node".into(),
        Why::NotRecorded => "nothing was recorded of it".into(),
        Why::New => "it is new: nothing is recorded of it yet".into(),
        Why::Excluded { by_former_state: true } => "its former recorded state keeps it".into(),
        Why::Excluded { .. } if could_run => "its recorded state keeps it".into(),
        Why::Excluded { .. } | Why::Waits(_) => "no node can take it".into(),
        Why::Refused(_) => "its creation is refused".into(),
        Why::Protected(_) => "a PodDisruptionBudget protects it".into(),
        Why::WaitsForOther => "waits for another Pod".into(),
        Why::Unwanted => "its workload no longer wants it".into(),
    }
}

/// Why, with all reasons.
fn why(pod: &PodForecast) -> String {
    match &pod.why {
        Why::Excluded { by_former_state } => {
            let mut listed: Vec<String> = pod.excluded_by.iter().take(REASONS).map(reason).collect();
            let more: usize = pod.excluded_by.iter().skip(REASONS).map(|reason| reason.nodes).sum();
            if more > 0 {
                listed.push(format!("other reasons (exclude {})", count(more, "node")));
            }
            let text = listed.join("; ");
            if pod.without_its_state.is_empty() {
                return text;
            }
            let state = if *by_former_state { "that" } else { "its recorded state" };
            format!("{text}. Without {state}, {} could take it", list(&pod.without_its_state, "and"))
        }
        why => full(why),
    }
}

fn full(why: &Why) -> String {
    match why {
        Why::Waits(text) | Why::Refused(text) | Why::Protected(text) if !text.is_empty() => text.clone(),
        why => brief(why, false),
    }
}

/// `node-3 and node-5 are cordoned`, or `the Pod's recorded state requires zone a (excludes 998 nodes)`.
fn reason(reason: &Reason) -> String {
    let is_named = reason.nodes <= reason.names.len();
    let nodes = if is_named { list(&reason.names, "and") } else { count(reason.nodes, "node") };
    match (reason.what, reason.nodes) {
        (ExclusionKind::Cordon, 1) => format!("{nodes} is cordoned"),
        (ExclusionKind::Cordon, _) => format!("{nodes} are cordoned"),
        _ => format!("{} (excludes {nodes})", reason.text),
    }
}

/// The whole reasons, each once for all Pods that have it.
fn reasons(text: &mut Text, forecast: &Forecast) {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    let mut places = BTreeMap::new();
    for pod in &forecast.pods {
        let Some(detail) = detail(pod) else { continue };
        let place = *places.entry(detail.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, pods)) => pods.push(pod.pod.clone()),
            None => groups.push((detail, vec![pod.pod.clone()])),
        }
    }
    for (detail, pods) in groups.iter().take(LINES) {
        let stop = if detail.ends_with(['.', '!', '?']) { "" } else { "." };
        text.sentence("", None, &format!("{}: {detail}{stop}", list(pods, "and")));
    }
    if groups.len() > LINES {
        text.sentence("", None, &format!("{} more reasons: -o wide shows them.", groups.len() - LINES));
    }
    if !groups.is_empty() {
        text.push("\n");
    }
}

/// What the row of a Pod does not say.
fn detail(pod: &PodForecast) -> Option<String> {
    if pod.then == Then::Running {
        let is_all_said = pod.others.is_empty() && pod.may_land_on.len() <= NAMED;
        let landing = Landing::new(pod.may_land_on.clone(), pod.others.clone());
        return (!is_all_said && !landing.is_nowhere()).then(|| landing.to_string());
    }
    let why = why(pod);
    (brief(&pod.why, !pod.without_its_state.is_empty()) != why).then_some(why)
}

fn pods(number: usize) -> String {
    count(number, "Pod")
}

fn count(number: usize, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// How many Pods would be how: the numbers add up to the rows of the table.
fn summary(text: &mut Text, forecast: &Forecast) {
    let number = |then: Then| forecast.pods.iter().filter(|pod| pod.then == then).count();
    let already = forecast.pods.iter().filter(|pod| pod.already && pod.then == Then::Pending).count();
    let pending = match (number(Then::Pending), already) {
        (_, 0) => "would be Pending".to_owned(),
        (1, _) => "would be Pending (it is so now)".to_owned(),
        (all, already) if all == already => "would be Pending (all of them are so now)".to_owned(),
        (_, already) => format!("would be Pending ({already} of them now)"),
    };
    let parts = [
        (number(Then::Pending), pending.as_str(), Role::Bad),
        (number(Then::Refused), "would be refused", Role::Bad),
        (number(Then::NotCreated), "would not be created", Role::Bad),
        (number(Then::NotEvicted), "could not be evicted", Role::Bad),
        (number(Then::Running), "would run", Role::Good),
        (number(Then::Removed), "would be removed", Role::Dim),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|(number, ..)| *number > 0).collect();
    let sentence = match parts.as_slice() {
        [(number, what, _)] => format!("{} {what}.", pods(*number)),
        parts => {
            let parts: Vec<String> =
                parts.iter().map(|(number, what, _)| format!("{number} {what}")).collect();
            format!("{}: {}.", pods(forecast.pods.len()), parts.join(", "))
        }
    };
    // The worst one, which comes first, gives the line its colour.
    text.sentence("", parts.first().map(|(.., role)| *role), &sentence);
}

/// Pods that lose their node and belong to no StatefulSet that was read.
fn not_simulated(text: &mut Text, forecast: &Forecast) {
    let name = |pod: &&Displaced| format!("{}/{}", pod.namespace, pod.pod);
    let (important, others): (Vec<&Displaced>, Vec<_>) =
        forecast.not_simulated.iter().partition(|pod| pod.has_pps);
    for pod in important.iter().take(LINES) {
        let (owner, node) = (pod.owner.as_deref().unwrap_or_default(), &pod.node);
        let sentence = format!(
            "{} would lose {node}. Its workload {owner} has a PersistentPodState, but this kind is not simulated: where the \
             Pod would go is not known.",
            name(pod)
        );
        text.sentence("", None, &sentence);
    }
    let (bare, owned): (Vec<&Displaced>, Vec<_>) = others.into_iter().partition(|pod| pod.owner.is_none());
    let names = |pods: &[&Displaced]| list(&pods.iter().map(name).collect::<Vec<_>>(), "and");
    if !owned.is_empty() {
        let names = names(&owned);
        let sentence =
            format!("Not simulated: {names}. Their controllers create new Pods, which need room elsewhere.");
        text.sentence("", None, &sentence);
    }
    if !bare.is_empty() {
        let is_drain = matches!(forecast.question, Question::Drain(_));
        let refused = if is_drain { " A drain does not delete such Pods without --force." } else { "" };
        let names = names(&bare);
        let sentence =
            format!("Without a controller: {names}.{refused} Nothing creates them again once deleted.");
        text.sentence("", Some(Role::Warning), &sentence);
    }
}

/// What is left out, each with the Pods that it is about.
fn caveats(forecast: &Forecast) -> Vec<String> {
    let mut pods: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for pod in &forecast.pods {
        for caveat in &pod.caveats {
            pods.entry(caveat).or_default().push(pod.pod.clone());
        }
    }
    pods.into_iter().map(|(caveat, pods)| format!("{}: {caveat}", list(&pods, "and"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, then: Then, why: Why) -> PodForecast {
        PodForecast {
            namespace: "shop".into(),
            workload: "db".into(),
            pod: name.into(),
            then,
            why,
            ..PodForecast::default()
        }
    }

    #[test]
    fn a_reason_is_printed_once_for_all_its_pods_and_fits_the_terminal() {
        let mut pods: Vec<PodForecast> = (0..3)
            .map(|ordinal| {
                pod(&format!("db-{ordinal}"), Then::Pending, Why::Excluded { by_former_state: false })
            })
            .collect();
        for pod in &mut pods {
            let names = vec!["n2".to_owned(), "n3".to_owned()];
            let text = "the Pod's recorded state requires topology.kubernetes.io/zone a".to_owned();
            let what = ExclusionKind::RequiredAffinity;
            pod.excluded_by = vec![Reason { text, what, from_pps: true, nodes: 2, names: names.clone() }];
            pod.without_its_state = names;
        }
        pods.push(pod("db-3", Then::NotEvicted, Why::Protected("PodDisruptionBudget db needs 2".into())));
        let step =
            Step::Move { namespace: "shop".into(), pods: vec!["db-0".into()], flags: "--anywhere".into() };
        let forecast = Forecast {
            question: Question::Drain(vec!["n1".into()]),
            pods,
            stopped_rollouts: Vec::new(),
            forgotten: Vec::new(),
            not_simulated: Vec::new(),
            advice: vec![step],
            notes: vec![Note::OneAfterTheOther],
            unread: Vec::new(),
            incomplete: false,
        };
        let style = Style { has_color: false, width: Some(60) };
        let text = super::forecast(&forecast, style, false, false, &CommandLine::default());
        assert!(text.starts_with("If n1 is drained:\n"), "{text}");
        assert!(text.contains("4 Pods: 3 would be Pending, 1 could not be evicted."), "{text}");
        assert_eq!(text.matches("recorded state requires").count(), 1, "{text}");
        assert!(text.contains("\n  kubectl pps move db-0 --anywhere -n shop\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        let json = serde_json::to_value(&forecast).unwrap();
        assert_eq!(
            (&json["question"], &json["pods"][0]["then"]),
            (&"n1 is drained".into(), &"pending".into())
        );
    }
}
