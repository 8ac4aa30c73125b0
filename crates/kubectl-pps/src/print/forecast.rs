//! A forecast for people.

use std::collections::BTreeMap;

use super::text::Text;
use super::{Role, Style, Table};
use crate::decide::forecast::{Displaced, Forecast, PodForecast, Then};
use crate::decide::landing::Landing;
use crate::decide::names::list;

/// How many nodes a cell names.
const NAMED: usize = 2;
/// How many lines of one kind are printed at most.
const LINES: usize = 20;

/// The forecast as a table, with what follows from it.
pub fn forecast(forecast: &Forecast, style: Style, is_wide: bool, has_namespaces: bool) -> String {
    let mut text = Text::new(style);
    text.sentence("", Some(Role::Strong), &format!("If {}:", forecast.question));
    if forecast.pods.is_empty() {
        let nothing = if forecast.stopped_rollouts.is_empty() {
            "No Pod of a StatefulSet would be touched."
        } else {
            "No Pod would be replaced."
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
    stopped(&mut text, forecast);
    for advice in &forecast.advice {
        text.command("", &advice.text, &advice.command);
    }
    forgotten(&mut text, forecast);
    not_simulated(&mut text, forecast);
    for note in caveats(forecast).iter().chain(&forecast.notes).take(LINES) {
        text.marked(Role::Warning, "note:", note);
    }
    text.into_lines()
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
        let mut cells = Vec::new();
        cells.extend(has_namespaces.then_some((pod.namespace.as_str(), None)));
        cells.push((pod.pod.as_str(), None));
        cells.push((pod.node_now.as_deref().unwrap_or_default(), None));
        cells.push((then.as_str(), Some(role)));
        if is_wide {
            cells.push((pod.recorded_node.as_deref().unwrap_or_default(), None));
            cells.push((pod.workload.as_str(), None));
        }
        cells.push((if is_wide { &pod.why } else { brief(pod) }, None));
        table.row(&cells);
    }
    table.render()
}

/// Where a Pod would be: `node-2`, or `node-2 or 4 others`.
fn then(pod: &PodForecast, is_wide: bool) -> (String, Role) {
    match pod.then {
        Then::Running => {
            let node = pod.node_then.clone().unwrap_or_default();
            let mut others: Vec<&str> = pod.may_land_on.iter().map(String::as_str).collect();
            others.retain(|other| *other != node);
            let text = match others.as_slice() {
                [] => node,
                others if is_wide || others.len() < NAMED => format!("{node} or {}", others.join(" or ")),
                others => format!("{node} or {} others", others.len()),
            };
            (text, if pod.as_recorded == Some(false) { Role::Warning } else { Role::Good })
        }
        Then::Pending => ("Pending".into(), Role::Bad),
        Then::Refused => ("refused".into(), Role::Bad),
        Then::NotCreated => ("not created".into(), Role::Bad),
        Then::NotEvicted => ("not evicted".into(), Role::Bad),
        Then::Removed => ("removed".into(), Role::Dim),
    }
}

/// Why, in the few words that fit into a row.
fn brief(pod: &PodForecast) -> &str {
    match pod.then {
        Then::Running | Then::Removed => &pod.why,
        Then::Pending if pod.without_its_state.is_empty() => "no node can take it",
        Then::Pending if pod.is_injected_only => "what was injected keeps it",
        Then::Pending => "its recorded state keeps it",
        Then::Refused => "its creation is refused",
        Then::NotCreated => "waits for another Pod",
        Then::NotEvicted => "a PodDisruptionBudget protects it",
    }
}

/// The whole reasons, each once for all Pods that have it.
fn reasons(text: &mut Text, forecast: &Forecast) {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    let mut places = BTreeMap::new();
    for pod in &forecast.pods {
        let Some(why) = detail(pod) else { continue };
        let place = *places.entry(why.clone()).or_insert(groups.len());
        if place == groups.len() {
            groups.push((why, Vec::new()));
        }
        if let Some((_, pods)) = groups.get_mut(place) {
            pods.push(pod.pod.clone());
        }
    }
    let more = groups.len().saturating_sub(LINES);
    for (why, pods) in groups.iter().take(LINES) {
        text.sentence("", None, &format!("{}: {}", list(pods, "and"), sentence(why)));
    }
    if more > 0 {
        text.sentence("", None, &format!("{more} more reasons: -o wide shows them."));
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
    (brief(pod) != pod.why && !pod.why.is_empty()).then(|| pod.why.clone())
}

/// With a full stop.
fn sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

fn pods(count: usize) -> String {
    if count == 1 { "1 Pod".to_owned() } else { format!("{count} Pods") }
}

/// How many Pods would be how: the numbers add up to the rows of the table.
fn summary(text: &mut Text, forecast: &Forecast) {
    let count = |then: Then| forecast.pods.iter().filter(|pod| pod.then == then).count();
    let already = forecast.pods.iter().filter(|pod| pod.already && pod.then == Then::Pending).count();
    let pending = match (count(Then::Pending), already) {
        (_, 0) => "would be Pending".to_owned(),
        (1, 1) => "would be Pending (it is so now)".to_owned(),
        (all, already) if all == already => "would be Pending (all of them are so now)".to_owned(),
        (_, 1) => "would be Pending (1 of them is so now)".to_owned(),
        (_, already) => format!("would be Pending ({already} of them are so now)"),
    };
    let parts = [
        (count(Then::Running), "would run", Role::Good),
        (count(Then::Pending), pending.as_str(), Role::Bad),
        (count(Then::Refused), "would be refused", Role::Bad),
        (count(Then::NotCreated), "would not be created", Role::Bad),
        (count(Then::NotEvicted), "could not be evicted", Role::Bad),
        (count(Then::Removed), "would be removed", Role::Dim),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|(count, ..)| *count > 0).collect();
    // The worst one gives the line its colour.
    let role = parts.iter().map(|(.., role)| *role).find(|role| *role == Role::Bad);
    let role = role.or_else(|| parts.first().map(|(.., role)| *role));
    let sentence = match parts.as_slice() {
        [(count, what, _)] => format!("{} {what}.", pods(*count)),
        parts => {
            let parts: Vec<String> = parts.iter().map(|(count, what, _)| format!("{count} {what}")).collect();
            format!("{}: {}.", pods(forecast.pods.len()), parts.join(", "))
        }
    };
    text.sentence("", role, &sentence);
}

fn stopped(text: &mut Text, forecast: &Forecast) {
    for one in forecast.stopped_rollouts.iter().take(LINES) {
        let rest = match one.not_reached.as_slice() {
            [] => String::new(),
            [pod] => {
                format!(" It does not reach {pod}, which keeps its former template and is not forecast.")
            }
            pods => format!(
                " It does not reach {}, which keep their former template and are not forecast.",
                list(pods, "and")
            ),
        };
        let sentence = format!(
            "The rollout of StatefulSet {} stops at {}, which does not become Ready.{rest}",
            one.workload, one.at
        );
        text.sentence("", Some(Role::Bad), &sentence);
    }
}

fn forgotten(text: &mut Text, forecast: &Forecast) {
    for one in forecast.forgotten.iter().take(LINES) {
        let (namespace, pps, pods) = (&one.namespace, &one.pps, list(&one.pods, "and"));
        let sentence = if one.unwanted {
            format!(
                "PersistentPodState {namespace}/{pps} would drop what is recorded of {pods} at once, since the workload no longer wants \
                 them; persistentPodStateRetentionPolicy: WhenDeleted would keep it."
            )
        } else {
            format!(
                "After the grace period, PersistentPodState {namespace}/{pps} would forget {pods} (nodeDeletionPolicy: Forget)."
            )
        };
        text.sentence("", None, &sentence);
    }
}

/// Pods that lose their node and belong to no StatefulSet that was read.
fn not_simulated(text: &mut Text, forecast: &Forecast) {
    let (important, others): (Vec<&Displaced>, Vec<_>) =
        forecast.not_simulated.iter().filter(|pod| !pod.is_noted).partition(|pod| pod.has_pps);
    for pod in important.iter().take(LINES) {
        let owner = pod.owner.as_deref().unwrap_or_default();
        let sentence = format!(
            "{}/{} would lose {}. Its workload {owner} has a PersistentPodState, but this kind is not simulated: where the Pod would go is not known.",
            pod.namespace, pod.pod, pod.node
        );
        text.sentence("", None, &sentence);
    }
    let (bare, owned): (Vec<&Displaced>, Vec<_>) = others.into_iter().partition(|pod| pod.owner.is_none());
    let names = |pods: &[&Displaced]| {
        let names: Vec<String> = pods.iter().map(|pod| format!("{}/{}", pod.namespace, pod.pod)).collect();
        list(&names, "and")
    };
    if !owned.is_empty() {
        let (node, controller) = if owned.len() == 1 {
            ("its node", "its controller creates")
        } else {
            ("their nodes", "their controllers create")
        };
        let sentence = format!(
            "Not simulated: {} would lose {node}; {controller} new Pods, which need room elsewhere.",
            names(&owned)
        );
        text.sentence("", None, &sentence);
    }
    if !bare.is_empty() {
        let (has, it) = if bare.len() == 1 { ("has", "it") } else { ("have", "them") };
        let refused = format!("A drain refuses to delete {it} without --force. ");
        let refused = if forecast.is_drain { refused.as_str() } else { "" };
        let sentence = format!(
            "{} {has} no controller. {refused}Nothing creates {it} again once {it_is} deleted.",
            names(&bare),
            it_is = if bare.len() == 1 { "it is" } else { "they are" }
        );
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
mod tests;
