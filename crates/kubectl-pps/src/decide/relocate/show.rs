//! A move in words.

use pps_core::PodState;

use super::keep::short;
use super::{Forecast, HOSTNAME, Relocation, Removal, WayOut, has_address};
use crate::decide::names::list;
use crate::snapshot::WorkloadKey;

/// What the user should know of a Pod with a recorded address.
pub(super) const ADDRESS: &str = "the network may not accept a recorded address on another node: the Pod then gets another \
                                  one, which is recorded in its place";

/// How many nodes are listed. It says how many more there are.
const MOST: usize = 20;

/// Asks where a Pod should go, and says where it could go.
pub(super) fn ask_where(pod: &str, knows_nodes: bool, forecast: Option<&Forecast>) -> String {
    let ask = format!("say where {pod} should go: --to NODE, or --anywhere");
    match forecast {
        Some(forecast) => format!("{ask}\nWith --anywhere, it {}", forecast.landing().would("start on")),
        None if !knows_nodes => {
            format!("{ask}\nWhich nodes could take it is not known: you have no permission to list nodes")
        }
        None => ask,
    }
}

/// A state in one line.
pub fn describe(state: Option<&PodState>) -> String {
    let Some(state) = state.filter(|state| **state != PodState::default()) else { return "nothing".into() };
    let pairs = state.node_topology_labels.iter().chain(&state.annotations);
    let pairs = pairs.map(|(key, value)| format!("{}={value}", key.rsplit('/').next().unwrap_or(key)));
    let (first, last) = match state.node_name.as_str() {
        "" => (None, Some("without a node".to_owned())),
        node => (Some(node.to_owned()), None),
    };
    first.into_iter().chain(pairs).chain(last).collect::<Vec<_>>().join(", ")
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
        line("from", &self.from());
        let landing = self.forecast.as_ref().map(Forecast::landing).filter(|landing| !landing.is_nowhere());
        line(
            "to",
            &match (&self.to, landing) {
                (Some(to), _) => to.clone(),
                (None, Some(landing)) => format!("any node: {landing}"),
                (None, None) => "any node".into(),
            },
        );
        let given_up = self.gives_up();
        if !given_up.is_empty() {
            line("gives up", &format!("{}, which is required now", list(&given_up, "and")));
        }
        if self.wish.changes(self.before.as_ref()) {
            line("recorded", &describe(self.before.as_ref()));
            let until = if self.to.is_none() { "; its node is recorded again once it is Ready" } else { "" };
            line("becomes", &format!("{} (PersistentPodState {pps}){until}", describe(after.as_ref())));
        } else {
            line("recorded", &format!("{}, unchanged", describe(self.before.as_ref())));
        }
        match present.map(|present| present.removal) {
            Some(Removal::Evict) if present.is_some_and(|present| present.is_stranded) => line(
                "then",
                "the Pod is evicted; its node is gone, so Kubernetes deletes it within about a minute, and its controller \
                 creates it again",
            ),
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

    /// The required values that the move gives up, beside the node itself: `zone=a`.
    pub(super) fn gives_up(&self) -> Vec<String> {
        let after = self.wish.state(self.before.as_ref()).unwrap_or_default().node_topology_labels;
        let before = self.before.iter().flat_map(|before| &before.node_topology_labels);
        let is_required = |key: &str| key != HOSTNAME && self.wish.spec.required_keys().any(|one| one == key);
        let lost = before.filter(|(key, value)| is_required(key) && after.get(*key) != Some(*value));
        lost.map(|(key, value)| format!("{}={value}", short(key))).collect()
    }

    /// Where the Pod is.
    pub fn from(&self) -> String {
        let Some(present) = &self.present else { return "the Pod does not exist now".into() };
        match &present.node {
            None => "no node: it is Pending".into(),
            Some(node) if present.is_stranded => format!("{node}, which does not exist any more"),
            Some(node) => node.clone(),
        }
    }

    /// What is changed of what is recorded, for several Pods; none if nothing is.
    pub(super) fn change(&self) -> Option<String> {
        if !self.wish.changes(self.before.as_ref()) {
            return None;
        }
        let annotations = if self.wish.drop_annotations { "are dropped as well" } else { "stay" };
        Some(match &self.to {
            Some(to) => format!(
                "{to} and its labels are recorded for all of them; recorded annotations {annotations}"
            ),
            None => format!(
                "the recorded nodes are dropped until the Pods are Ready again; recorded annotations {annotations}"
            ),
        })
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
        let mut lines = vec![match &self.way_out {
            Some(WayOut { values, flags, .. }) if !values.is_empty() => {
                format!("no node with {} can take Pod {pod}, and{flags} gives that up:", list(values, "and"))
            }
            _ => format!("no node can take Pod {pod}:"),
        }];
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
        let kept = self.wish.state(self.before.as_ref()).unwrap_or_default().annotations;
        let mut notes = Vec::new();
        if has_address(&kept) {
            notes.push(ADDRESS.to_owned());
        }
        if self.is_blind {
            let WorkloadKey { kind, name, .. } = &self.workload;
            notes
                .push(format!("{kind} {name} was not read: Pods of it that do not exist are not waited for"));
        }
        let Some(forecast) = &self.forecast else {
            if self.present.is_some() {
                let text = "you have no permission to list nodes, so where the Pod may land is not known";
                notes.push(text.into());
            }
            return notes;
        };
        notes.extend(forecast.caveats.iter().map(|caveat| format!("Pod {} {caveat}", self.pod)));
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
