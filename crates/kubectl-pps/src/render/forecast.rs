//! A forecast in English.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::explanation::groups;
use super::status::{Line, enable};
use super::text::{Text, count, list};
use super::{Cell, Role, Style, Table, with_consequence};
use crate::decide::command_line::{CommandLine, portions};
use crate::decide::forecast::{Advice, Fate, Forecast, PodForecast, Question, Why};

const LINES: usize = 20;

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZoneDown(zone) => write!(f, "zone {zone} is lost"),
            Self::WithoutNodes(nodes) => write!(f, "{} deleted", nodes_are(nodes)),
            Self::Drain(nodes) => write!(f, "{} drained", nodes_are(nodes)),
        }
    }
}

/// `node-1 is`, or `node-1, node-2 are`.
fn nodes_are(nodes: &BTreeSet<String>) -> String {
    let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", names.join(", "))
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsRecorded(values) if values.is_empty() => f.write_str("as recorded"),
            Self::AsRecorded(values) => write!(f, "as recorded: {}", values.join(", ")),
            Self::NotAsRecorded {
                node,
                because: Some(because),
            } => {
                write!(f, "not as recorded on {node} ({because})")
            }
            Self::NotAsRecorded {
                node,
                because: None,
            } => write!(f, "not as recorded on {node}"),
            Self::NotRecorded => f.write_str("nothing is recorded of it"),
            Self::Excluded | Self::Waits(_) => f.write_str("no node can take it"),
            Self::Refused(_) => f.write_str("its creation is refused"),
            Self::Protected(_) => f.write_str("a PodDisruptionBudget protects it"),
            Self::WaitsForOther => f.write_str("waits for another Pod"),
        }
    }
}

pub fn forecast(
    question: &Question,
    forecast: &Forecast,
    style: Style,
    has_namespaces: bool,
    commands: &CommandLine,
) -> String {
    let mut text = Text::new(style);
    text.sentence("", Some(Role::Strong), &format!("If {question}:"));
    if forecast.pods.is_empty() {
        text.sentence("", None, "No Pod of a StatefulSet would be touched.");
    } else {
        text.push(&format!("\n{}\n", table(forecast, style, has_namespaces)));
        some(&mut text, details(forecast), |text, detail| {
            let pods = list(&detail.pods, "and");
            text.sentence("", None, &format!("{pods}: {}", detail.text));
        });
        summary(&mut text, forecast);
    }
    some(
        &mut text,
        forecast.advice.iter().collect(),
        |text, advice| add_advice(text, advice, commands),
    );
    let forgotten: Vec<String> = forecast
        .pods
        .iter()
        .filter(|pod| pod.forgotten)
        .map(|pod| pod.pod.clone())
        .collect();
    if !forgotten.is_empty() {
        let pods = list(&forgotten, "and");
        let sentence =
            "After the grace period, nodeDeletionPolicy: Forget would drop the recorded states of";
        text.sentence("", None, &format!("{sentence} {pods}."));
    }
    some(&mut text, fallbacks(forecast), |text, sentence| {
        text.sentence("", None, &sentence);
    });
    some(
        &mut text,
        forecast.not_enabled.iter().collect(),
        |text, namespace| {
            let Line {
                text: sentence,
                command,
            } = enable(namespace, commands);
            text.command(
                "",
                &format!("Recorded states do not count. {sentence}"),
                &command,
            );
        },
    );
    if !forecast.not_simulated.is_empty() {
        let pods = list(&forecast.not_simulated, "and");
        text.sentence(
            "",
            None,
            &format!("Not simulated: {pods}. Their successors need room elsewhere, too."),
        );
    }
    some(&mut text, notes(forecast), |text, note| {
        text.marked(Role::Warning, "note:", &note);
    });
    text.into_lines()
}

/// The first lines, and how many more there are.
fn some<T>(text: &mut Text, lines: Vec<T>, add: impl Fn(&mut Text, T)) {
    let more = lines.len().saturating_sub(LINES);
    lines
        .into_iter()
        .take(LINES)
        .for_each(|line| add(text, line));
    if more > 0 {
        text.sentence("", None, &format!("… and {more} more: -o json has all."));
    }
}

fn table(forecast: &Forecast, style: Style, has_namespaces: bool) -> String {
    let mut header: Vec<&str> = has_namespaces.then_some("NAMESPACE").into_iter().collect();
    header.extend(["POD", "NOW", "THEN", "WHY"]);
    let mut table = Table::new(style, &header);
    for pod in &forecast.pods {
        let mut cells = Vec::new();
        if has_namespaces {
            cells.push(Cell::plain(&pod.namespace));
        }
        cells.extend([
            Cell::plain(&pod.pod),
            Cell::plain(pod.node_now.clone().unwrap_or_default()),
            then(pod),
            Cell::plain(why(pod)),
        ]);
        table.row(cells);
    }
    table.render()
}

/// Where a Pod would be.
fn then(pod: &PodForecast) -> Cell {
    match pod.then {
        Fate::Running if pod.as_recorded == Some(false) => {
            Cell::new(nodes_then(pod), Role::Warning)
        }
        Fate::Running => Cell::new(nodes_then(pod), Role::Good),
        Fate::Pending if pod.already => Cell::new("still Pending", Role::Bad),
        Fate::Pending => Cell::new("Pending", Role::Bad),
        Fate::Refused => Cell::new("refused", Role::Bad),
        Fate::NotCreated => Cell::new("not created", Role::Bad),
        Fate::NotEvicted => Cell::new("not evicted", Role::Bad),
    }
}

/// `node-2`, or `node-2 or 4 others`.
fn nodes_then(pod: &PodForecast) -> String {
    let node = pod.node_then.clone().unwrap_or_default();
    let others: Vec<&String> = pod
        .may_land_on
        .iter()
        .filter(|other| **other != node)
        .collect();
    match others.as_slice() {
        [] => node,
        [other] => format!("{node} or {other}"),
        others => format!("{node} or {} others", others.len()),
    }
}

/// Why, in the few words that fit into a row.
fn why(pod: &PodForecast) -> String {
    if pod.without_its_state.is_empty() {
        pod.why.to_string()
    } else {
        "its recorded state keeps it".into()
    }
}

/// What the rows do not say of some Pods.
struct Detail {
    text: String,
    pods: Vec<String>,
}

/// What the rows do not say, each once for all Pods that have it.
fn details(forecast: &Forecast) -> Vec<Detail> {
    let mut details: Vec<Detail> = Vec::new();
    for pod in &forecast.pods {
        let text = match &pod.why {
            Why::Excluded => excluded(pod),
            Why::Waits(text) | Why::Refused(text) | Why::Protected(text) => text.clone(),
            _ => continue,
        };
        if text.is_empty() {
            continue;
        }
        let text = format!("{}.", text.trim_end_matches('.'));
        match details.iter_mut().find(|detail| detail.text == text) {
            Some(detail) => detail.pods.push(pod.pod.clone()),
            None => details.push(Detail {
                text,
                pods: vec![pod.pod.clone()],
            }),
        }
    }
    details
}

fn excluded(pod: &PodForecast) -> String {
    let groups: Vec<String> = groups(&pod.excluded)
        .iter()
        .map(|group| {
            let nodes = list(&group.nodes, "and");
            format!("{nodes} ({})", group.reasons.join(", "))
        })
        .collect();
    if pod.without_its_state.is_empty() {
        return groups.join("; ");
    }
    let nodes = list(&pod.without_its_state, "and");
    format!(
        "{}. Without its recorded state, {nodes} could take it",
        groups.join("; ")
    )
}

/// Which Pods would wait for a limited time, a sentence for each time.
fn fallbacks(forecast: &Forecast) -> Vec<String> {
    let mut waiting: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for pod in &forecast.pods {
        if let Some(seconds) = pod.falls_back_after {
            waiting.entry(seconds).or_default().push(pod.pod.clone());
        }
    }
    let sentences = waiting.into_iter().map(|(seconds, pods)| {
        format!(
            "A sidecar that may evict Pending Pods would take {} elsewhere, one Pod of a workload \
             at a time, when they have waited for {seconds} s (fallbackAfterSeconds).",
            list(&pods, "and")
        )
    });
    sentences.collect()
}

/// The number of Pods with each outcome: the numbers add up to the rows of the table.
fn summary(text: &mut Text, forecast: &Forecast) {
    // The worst one, which comes first, gives the line its colour.
    let fates = [
        Fate::Pending,
        Fate::Refused,
        Fate::NotCreated,
        Fate::NotEvicted,
        Fate::Running,
    ];
    let mut parts = Vec::new();
    let mut worst = None;
    for fate in fates {
        let number = forecast.pods.iter().filter(|pod| pod.then == fate).count();
        if number > 0 {
            parts.push(format!("{number} {}", would(fate)));
            worst = worst.or(Some(fate));
        }
    }
    let role = worst.map(|fate| match fate {
        Fate::Running => Role::Good,
        _ => Role::Bad,
    });
    let pods = count(forecast.pods.len(), "Pod");
    text.sentence("", role, &format!("Of {pods}: {}.", parts.join(", ")));
}

fn would(fate: Fate) -> &'static str {
    match fate {
        Fate::Pending => "would be Pending",
        Fate::Refused => "would be refused",
        Fate::NotCreated => "would not be created",
        Fate::NotEvicted => "could not be evicted",
        Fate::Running => "would run",
    }
}

fn add_advice(text: &mut Text, advice: &Advice, commands: &CommandLine) {
    match advice {
        Advice::Cordon { nodes } => {
            let sentence = "To let Pods start elsewhere that would wait for their recorded place, \
                            first keep Pods off the node";
            text.command(
                "",
                sentence,
                &commands.kubectl(&format!("cordon {}", nodes.join(" "))),
            );
        }
        Advice::Move {
            namespace,
            pods,
            flags,
        } => {
            let names: Vec<&str> = pods.iter().map(String::as_str).collect();
            let others = "start elsewhere, without the data on the disks of the former node";
            let sentence = format!("To let {} {others}", list(pods, "and"));
            some(text, portions(&names), |text, names| {
                let names = names.join(" ");
                text.command(
                    "",
                    &sentence,
                    &commands.pps(&format!("move {names} {flags}"), namespace),
                );
            });
        }
    }
}

/// What is left out.
fn notes(forecast: &Forecast) -> Vec<String> {
    let mut caveats: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for pod in &forecast.pods {
        for caveat in &pod.caveats {
            caveats.entry(caveat).or_default().push(pod.pod.clone());
        }
    }
    let caveats = caveats
        .into_iter()
        .map(|(caveat, pods)| format!("{}: {caveat}", list(&pods, "and")));
    let problems = forecast
        .problems
        .iter()
        .map(|(object, message)| format!("{object}: {message}"));
    let unread = forecast.unread.iter().map(with_consequence);
    let mut notes: Vec<String> = unread.chain(caveats).chain(problems).collect();
    if !forecast.other_namespaces.is_empty() {
        let namespaces: Vec<String> = forecast.other_namespaces.iter().cloned().collect();
        let namespaces = list(&namespaces, "and");
        notes.push(format!(
            "StatefulSets of other namespaces would lose Pods as well ({namespaces}): -A \
             forecasts them"
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use pps_scheduler::{Exclusion, RequiredBy, Verdict};

    use super::*;

    fn pod(name: &str, then: Fate, why: Why) -> PodForecast {
        PodForecast {
            namespace: "shop".into(),
            workload: "db".into(),
            pod: name.into(),
            node_now: Some("n1".into()),
            then,
            already: false,
            node_then: None,
            may_land_on: Vec::new(),
            recorded_node: None,
            as_recorded: None,
            why,
            excluded: Vec::new(),
            without_its_state: Vec::new(),
            forgotten: false,
            falls_back_after: None,
            caveats: Vec::new(),
        }
    }

    #[test]
    fn a_reason_is_printed_once_for_all_its_pods_and_fits_the_terminal() {
        let names = vec!["n2".to_owned(), "n3".to_owned()];
        let wanted = vec!["a".to_owned()];
        let (key, operator) = ("topology.kubernetes.io/zone".to_owned(), "In".to_owned());
        let by = RequiredBy::RecordedState;
        let exclusions = vec![Exclusion::Label {
            by,
            key,
            operator,
            wanted,
            found: Some("b".into()),
        }];
        let excluded = names.iter().map(|node| Verdict {
            node: node.clone(),
            score: 0,
            exclusions: exclusions.clone(),
        });
        let excluded: Vec<Verdict> = excluded.collect();
        let mut pods: Vec<PodForecast> = (0..3)
            .map(|ordinal| PodForecast {
                excluded: excluded.clone(),
                without_its_state: names.clone(),
                ..pod(&format!("db-{ordinal}"), Fate::Pending, Why::Excluded)
            })
            .collect();
        pods.push(pod(
            "db-3",
            Fate::NotEvicted,
            Why::Protected("PodDisruptionBudget db needs 2".into()),
        ));
        let advice = Advice::Move {
            namespace: "shop".into(),
            pods: vec!["db-0".into()],
            flags: "--anywhere".into(),
        };
        let forecast = Forecast {
            pods,
            advice: vec![advice],
            ..Forecast::default()
        };
        let question = Question::Drain(["n1".to_owned()].into());
        let style = Style {
            has_color: false,
            width: Some(60),
        };
        let text = super::forecast(&question, &forecast, style, false, &CommandLine::default());
        assert!(text.starts_with("If n1 is drained:\n"), "{text}");
        assert!(
            text.contains("Of 4 Pods: 3 would be Pending, 1 could not be evicted."),
            "{text}"
        );
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            words.matches("recorded state requires").count(),
            1,
            "{text}"
        );
        assert!(
            text.contains("\n  kubectl pps move db-0 --anywhere -n shop\n"),
            "{text}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 60),
            "{text}"
        );
    }
}
