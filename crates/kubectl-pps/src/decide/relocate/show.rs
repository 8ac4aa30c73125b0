//! A move in words.

use pps_core::PodState;

use super::{Relocation, Removal};

/// How many nodes are listed. It says how many more there are.
const MOST: usize = 20;

/// Asks where a Pod should go, and says which nodes could take it.
pub(super) fn ask_where(pod: &str, candidates: Option<&[String]>) -> String {
    let nodes = match candidates {
        None => String::new(),
        Some([]) => format!("\nNo node could take {pod} now"),
        Some(nodes) => format!("\nNodes that could take {pod} now, the best ones first: {}", listed(nodes)),
    };
    format!("say where {pod} should go: --to NODE, or --anywhere{nodes}")
}

/// A state in one line.
pub fn describe(state: Option<&PodState>) -> String {
    let Some(state) = state.filter(|state| **state != PodState::default()) else { return "nothing".into() };
    let node = if state.node_name.is_empty() { "no node" } else { &state.node_name };
    let pairs = state.node_topology_labels.iter().chain(&state.annotations);
    let pairs = pairs.map(|(key, value)| format!("{}={value}", key.rsplit('/').next().unwrap_or(key)));
    std::iter::once(node.to_owned()).chain(pairs).collect::<Vec<_>>().join(", ")
}

fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(MOST);
    let shown = names[..names.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

impl Relocation {
    /// What would be done: titles and texts.
    pub fn plan(&self) -> Vec<(&'static str, String)> {
        let pps = &self.pps;
        let after = self.wish.state(self.before.as_ref());
        let mut lines = Vec::new();
        let mut line = |title: &'static str, text: &str| lines.push((title, text.to_owned()));
        let present = self.present.as_ref();
        line(
            "from",
            match present.map(|present| present.node.as_deref()) {
                None => "the Pod does not exist now",
                Some(None) => "no node: it is Pending",
                Some(Some(node)) => node,
            },
        );
        let may = self.forecast.as_ref().filter(|forecast| !forecast.may_land_on.is_empty());
        let may = may.map(|forecast| listed(&forecast.may_land_on));
        line(
            "to",
            &match (&self.to, may) {
                (Some(to), _) => to.clone(),
                (None, Some(may)) => format!("any node; it may land on {may}"),
                (None, None) => "any node".into(),
            },
        );
        if self.wish.changes(self.before.as_ref()) {
            line("recorded", &describe(self.before.as_ref()));
            line("becomes", &format!("{} (PersistentPodState {pps})", describe(after.as_ref())));
        } else {
            line("recorded", &format!("{}, unchanged", describe(self.before.as_ref())));
        }
        match present.map(|present| present.removal) {
            Some(Removal::Evict) => line("then", "the Pod is evicted, and its controller creates it again"),
            Some(Removal::Delete) => line("then", "the Pod is deleted, and its controller creates it again"),
            Some(Removal::Stay) => line(
                "then",
                "the Pod stays, and is recorded again: a move that was not finished is called off",
            ),
            Some(Removal::None) | None => {}
        }
        lines
    }

    /// Why the Pod cannot go where it should go, if it cannot.
    pub fn obstacle(&self) -> Option<String> {
        let is_staying = self.present.as_ref().is_some_and(|present| present.removal == Removal::Stay);
        let forecast = self.forecast.as_ref().filter(|_| !is_staying)?;
        let pod = &self.pod;
        if let Some(to) = &self.to {
            let Some(why) = forecast.excluded(to) else {
                return (!forecast.may_land_on.contains(to)).then(|| {
                    format!(
                        "PersistentPodState {} does not require the node itself, and the scheduler would not choose node {to} but {}",
                        self.pps,
                        listed(&forecast.may_land_on)
                    )
                });
            };
            return Some(format!("node {to} cannot take Pod {pod}:\n- {}", why.join("\n- ")));
        }
        if !forecast.may_land_on.is_empty() {
            return None;
        }
        let mut lines = vec![format!("no node can take Pod {pod}:")];
        let more = forecast.others.len().saturating_sub(MOST);
        let shown = forecast.others.iter().take(MOST).flat_map(|(_, why)| why);
        lines.extend(shown.map(|why| format!("- {why}")));
        if more > 0 {
            lines.push(format!("- and {more} more nodes"));
        }
        Some(lines.join("\n"))
    }

    /// What the user should know beside the plan.
    pub fn notes(&self) -> Vec<String> {
        if self.present.as_ref().is_some_and(|present| present.removal == Removal::Stay) {
            return Vec::new();
        }
        let Some(forecast) = &self.forecast else {
            return match self.present {
                Some(_) => vec![
                    "you have no permission to list nodes, so where the Pod may land is not known".into(),
                ],
                None => Vec::new(),
            };
        };
        let mut notes: Vec<String> =
            forecast.caveats.iter().map(|caveat| format!("Pod {} {caveat}", self.pod)).collect();
        if let Some(to) = &self.to
            && forecast.excluded(to).is_none()
            && forecast.may_land_on != [to.clone()]
        {
            notes.push(format!(
                "PersistentPodState {} does not require the node itself: the scheduler may choose {}",
                self.pps,
                listed(&forecast.may_land_on)
            ));
        }
        notes
    }
}
