//! Why a Pod would run where it does, or why it would wait.

use pps_simulation::PodView;

use super::answer::Told;
use super::reasons::Reason;
use crate::decide::names::list;

/// How many reasons a sentence has.
const REASONS: usize = 3;

/// Why a Pod runs where it does.
pub(super) fn why_there(view: &PodView, told: &Told<'_>) -> String {
    match (&view.recorded_before, view.came_home) {
        (Some(state), Some(true)) => {
            let facts: Vec<String> = state
                .node_topology_labels
                .iter()
                .chain(&state.annotations)
                .map(|(key, value)| format!("{}={value}", key.rsplit('/').next().unwrap_or(key)))
                .collect();
            if facts.is_empty() { "as recorded".into() } else { format!("as recorded: {}", facts.join(", ")) }
        }
        (Some(state), _) => {
            // `runs on n2; its state was recorded on n1 (n1 is cordoned). The scheduler …`
            let text = told.runs.get(view.name.as_str()).copied().unwrap_or_default();
            let reason = text.split_once(" (").and_then(|(_, rest)| rest.split_once(')')).map(|(why, _)| why);
            let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
            format!("not as recorded on {}{reason}", state.node_name)
        }
        (None, _) if view.is_adopted => "it gets a node".into(),
        (None, _) => "nothing was recorded of it".into(),
    }
}

/// Why no node would take a Pod.
pub(super) fn why_pending(
    view: &PodView,
    excluded_by: &[Reason],
    without_its_state: &[String],
    told: &Told<'_>,
) -> String {
    if excluded_by.is_empty() {
        let text = told.pending.get(view.name.as_str()).copied().unwrap_or("it waits");
        return text.strip_prefix("stays Pending: ").unwrap_or(text).to_owned();
    }
    let mut listed: Vec<String> = excluded_by.iter().take(REASONS).map(Reason::in_words).collect();
    let more: usize = excluded_by.iter().skip(REASONS).map(|reason| reason.nodes).sum();
    if more > 0 {
        let nodes = if more == 1 { "1 node".to_owned() } else { format!("{more} nodes") };
        listed.push(format!("other reasons (exclude {nodes})"));
    }
    let text = listed.join("; ");
    if without_its_state.is_empty() {
        return text;
    }
    format!("{text}. Without its recorded state, {} could take it", list(without_its_state, "and"))
}
