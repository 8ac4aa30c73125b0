//! A forecast for people.

use std::collections::BTreeMap;

use super::{Role, Style, Table, printable, wrap};
use crate::decide::forecast::{Forecast, PodForecast, Then};

/// How many nodes a cell names.
const NAMED: usize = 2;
/// How many lines of one kind are printed at most.
const LINES: usize = 20;

/// The forecast as a table, with what follows from it.
pub fn forecast(forecast: &Forecast, style: Style, is_wide: bool, has_namespaces: bool) -> String {
    let mut text =
        format!("{}\n", style.paint(Role::Strong, &printable(&format!("If {}:", forecast.question))));
    if forecast.pods.is_empty() {
        text.push_str("No Pod of a StatefulSet would be touched.\n");
    } else {
        text.push('\n');
        text.push_str(&table(forecast, style, is_wide, has_namespaces));
        text.push('\n');
        text.push_str(&summary(forecast, style));
        let is_held = |pod: &&PodForecast| pod.then == Then::Pending && !pod.without_its_state.is_empty();
        if let Some(pod) = forecast.pods.iter().find(is_held) {
            let advice = format!(
                "What is recorded holds such a Pod. To let it go: kubectl pps move {} -n {} --anywhere",
                pod.pod, pod.namespace
            );
            text.push_str(&wrapped(style, &advice));
        }
    }
    text.push_str(&forgotten(forecast, style));
    text.push_str(&not_simulated(forecast, style));
    for note in caveats(forecast).iter().chain(&forecast.notes).take(LINES) {
        text.push_str(&wrapped(style, &format!("note: {note}")));
    }
    text
}

fn table(forecast: &Forecast, style: Style, is_wide: bool, has_namespaces: bool) -> String {
    let mut header = Vec::new();
    if has_namespaces {
        header.push("NAMESPACE");
    }
    header.extend(["POD", "NOW", "THEN"]);
    if is_wide {
        header.extend(["RECORDED", "WORKLOAD"]);
    }
    header.push("WHY");
    let mut table = Table::new(style, &header);
    for pod in &forecast.pods {
        let (then, role) = then(pod, is_wide);
        let mut cells = Vec::new();
        if has_namespaces {
            cells.push((pod.namespace.as_str(), None));
        }
        cells.push((pod.pod.as_str(), None));
        cells.push((pod.node_now.as_deref().unwrap_or_default(), None));
        cells.push((then.as_str(), Some(role)));
        if is_wide {
            cells.push((pod.recorded_node.as_deref().unwrap_or_default(), None));
            cells.push((pod.workload.as_str(), None));
        }
        cells.push((pod.why.as_str(), None));
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

fn summary(forecast: &Forecast, style: Style) -> String {
    let count = |then: Then| forecast.pods.iter().filter(|pod| pod.then == then).count();
    let parts = [
        (count(Then::Running), "would run", Role::Good),
        (count(Then::Pending), "would be Pending", Role::Bad),
        (count(Then::Refused), "would be refused", Role::Bad),
        (count(Then::NotCreated), "would not be created", Role::Bad),
        (count(Then::NotEvicted), "could not be evicted", Role::Bad),
        (count(Then::Removed), "would be removed", Role::Dim),
    ];
    let parts = parts.into_iter().filter(|(count, ..)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, what, role)| {
            let pods = if count == 1 { "1 Pod".to_owned() } else { format!("{count} Pods") };
            style.paint(role, &format!("{pods} {what}"))
        })
        .collect();
    format!("{}.\n", parts.join(", "))
}

fn forgotten(forecast: &Forecast, style: Style) -> String {
    let lines = forecast.forgotten.iter().take(LINES).map(|one| {
        let text = format!(
            "After the grace period, PersistentPodState {}/{} would forget {} (nodeDeletionPolicy: Forget).",
            one.namespace,
            one.pps,
            named(&one.pods)
        );
        wrapped(style, &text)
    });
    lines.collect()
}

fn not_simulated(forecast: &Forecast, style: Style) -> String {
    let mut text = String::new();
    let (important, others): (Vec<_>, Vec<_>) = forecast.not_simulated.iter().partition(|pod| pod.has_pps);
    for pod in important.iter().take(LINES) {
        let owner = pod.owner.as_deref().unwrap_or_default();
        let line = format!(
            "{}/{} would lose {}. Its workload {owner} has a PersistentPodState, but this kind is not simulated: where the Pod would go is not known.",
            pod.namespace, pod.pod, pod.node
        );
        text.push_str(&wrapped(style, &line));
    }
    if !others.is_empty() {
        let names: Vec<String> = others.iter().map(|pod| format!("{}/{}", pod.namespace, pod.pod)).collect();
        let its = if names.len() == 1 { "its" } else { "their" };
        let line = format!(
            "Not simulated, as no StatefulSet here has them: {} would lose {its} node and need room elsewhere.",
            named(&names)
        );
        text.push_str(&wrapped(style, &line));
    }
    text
}

/// What is left out, each with the Pods that it is about.
fn caveats(forecast: &Forecast) -> Vec<String> {
    let mut pods: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for pod in &forecast.pods {
        for caveat in &pod.caveats {
            pods.entry(caveat).or_default().push(pod.pod.clone());
        }
    }
    pods.into_iter().map(|(caveat, pods)| format!("{}: {caveat}", named(&pods))).collect()
}

fn named(names: &[String]) -> String {
    const MOST: usize = 4;
    if names.len() <= MOST {
        names.join(", ")
    } else {
        format!("{} and {} others", names[..MOST].join(", "), names.len() - MOST)
    }
}

fn wrapped(style: Style, text: &str) -> String {
    let text = printable(text);
    match style.width {
        Some(width) => wrap(&text, width).into_iter().map(|line| line + "\n").collect(),
        None => text + "\n",
    }
}

#[cfg(test)]
mod tests {
    use crate::decide::forecast::{Displaced, Forgotten};

    use super::*;

    fn pod(name: &str, then: Then, node_then: Option<&str>, may_land_on: &[&str], why: &str) -> PodForecast {
        PodForecast {
            namespace: "shop".into(),
            workload: "db".into(),
            pod: name.into(),
            node_now: Some("node-1".into()),
            then,
            node_then: node_then.map(str::to_owned),
            may_land_on: may_land_on.iter().map(|node| (*node).to_owned()).collect(),
            recorded_node: Some("node-1".into()),
            as_recorded: None,
            why: why.into(),
            excluded_by: Vec::new(),
            without_its_state: Vec::new(),
            caveats: vec!["its host ports are not simulated".into()],
        }
    }

    fn sample() -> Forecast {
        let other = |name: &str, has_pps| Displaced {
            namespace: "shop".into(),
            pod: name.into(),
            node: "node-1".into(),
            owner: Some("Database/x".into()),
            has_pps,
        };
        let held = |pod| PodForecast { without_its_state: vec!["node-2".into()], ..pod };
        Forecast {
            question: "node-1 is drained".into(),
            pods: vec![
                pod(
                    "db-0",
                    Then::Running,
                    Some("node-2"),
                    &["node-2", "node-3", "node-4"],
                    "as recorded: zone=a",
                ),
                held(pod(
                    "db-1",
                    Then::Pending,
                    None,
                    &[],
                    "998 nodes: the Pod's recorded state requires kubernetes.io/hostname node-1; node-1: it is cordoned",
                )),
                pod("db-2", Then::NotEvicted, Some("node-1"), &[], "PodDisruptionBudget db needs 2 Pods"),
            ],
            forgotten: vec![Forgotten {
                namespace: "shop".into(),
                pps: "db".into(),
                pods: (0..6).map(|index| format!("db-{index}")).collect(),
            }],
            not_simulated: vec![other("x-0", true), other("web-5d4", false)],
            notes: vec!["Node/node-1 \u{1b}[2Jis odd".into()],
            ..Forecast::default()
        }
    }

    #[test]
    fn a_forecast_says_where_each_pod_would_be_and_why() {
        let expected = "\
If node-1 is drained:

POD   NOW     THEN                WHY
db-0  node-1  node-2 or 2 others  as recorded: zone=a
db-1  node-1  Pending             998 nodes: the Pod's recorded state requires kubernetes.io/hostname node-1; node-1: it is cordoned
db-2  node-1  not evicted         PodDisruptionBudget db needs 2 Pods

1 Pod would run, 1 Pod would be Pending, 1 Pod could not be evicted.
What is recorded holds such a Pod. To let it go: kubectl pps move db-1 -n shop --anywhere
After the grace period, PersistentPodState shop/db would forget db-0, db-1, db-2, db-3 and 2 others (nodeDeletionPolicy: Forget).
shop/x-0 would lose node-1. Its workload Database/x has a PersistentPodState, but this kind is not simulated: where the Pod would go is not known.
Not simulated, as no StatefulSet here has them: shop/web-5d4 would lose its node and need room elsewhere.
note: db-0, db-1, db-2: its host ports are not simulated
note: Node/node-1 \u{fffd}[2Jis odd
";
        let text = forecast(&sample(), Style::PLAIN, false, false);
        assert_eq!(text, expected);
    }

    #[test]
    fn no_line_is_longer_than_the_terminal_is_wide() {
        let text = forecast(&sample(), Style { has_color: false, width: Some(80) }, false, true);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn nothing_that_happens_is_said() {
        let nothing = Forecast { question: "node-1 is drained".into(), ..Forecast::default() };
        let text = forecast(&nothing, Style::PLAIN, false, false);
        assert_eq!(text, "If node-1 is drained:\nNo Pod of a StatefulSet would be touched.\n");
    }
}
