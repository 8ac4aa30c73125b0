//! What the simulation of a namespace says.

use pps_core::pps::{NodeDeletionPolicy, short};
use pps_scheduler::{Exclusion, Verdict};
use pps_simulation::{Pending, Phase, PodView, Problem, Severity, Source};
use serde_json::Value;

use super::{Disruption, Fate, Forecast, PodForecast, Why};
use crate::snapshot::{Pod, Pps};

/// A namespace that was simulated.
#[derive(Clone, Copy)]
pub(super) struct Simulated<'a> {
    pub(super) disruption: &'a Disruption<'a>,
    pub(super) namespace: &'a str,
}

impl Simulated<'_> {
    /// What happens to a Pod; none if it stays where it is.
    pub(super) fn describe(&self, view: &PodView) -> Option<PodForecast> {
        let index = &self.disruption.index;
        let node_now = index
            .pod(self.namespace, &view.name)
            .and_then(Pod::node)
            .map(str::to_owned);
        if view.node.is_some() && view.node == node_now && view.kept_by.is_none() {
            return None;
        }
        let governing = self.disruption.governing(self.namespace, &view.workload);
        let recorded_node = governing
            .and_then(|pps| pps.state(&view.name).ok()?)
            .map(|state| state.node_name);
        let why = why(view);
        let then = why.fate();
        let excluded: Vec<&Verdict> = view
            .scheduler
            .iter()
            .filter(|verdict| then == Fate::Pending && !verdict.exclusions.is_empty())
            .collect();
        let without_its_state: Vec<String> = excluded
            .iter()
            .filter(|verdict| verdict.exclusions.iter().all(Exclusion::from_pps))
            .map(|verdict| verdict.node.clone())
            .collect();
        let spec = governing.and_then(|pps| pps.spec().ok());
        let falls_back_after = spec
            .filter(|_| !without_its_state.is_empty())
            .and_then(|spec| spec.fallback_after_seconds());
        Some(PodForecast {
            namespace: self.namespace.to_owned(),
            workload: view.workload.clone(),
            pod: view.name.clone(),
            already: then != Fate::Running && node_now.is_none(),
            node_now,
            then,
            node_then: view.node.clone(),
            may_land_on: view.may_land_on.clone(),
            forgotten: then == Fate::Pending
                && self.is_forgotten(governing, recorded_node.as_deref()),
            recorded_node,
            as_recorded: view.came_home.filter(|_| then == Fate::Running),
            why,
            falls_back_after,
            without_its_state,
            excluded: excluded.into_iter().cloned().collect(),
            caveats: view.caveats.iter().map(ToString::to_string).collect(),
        })
    }

    /// Whether `nodeDeletionPolicy: Forget` drops a state that is recorded on this node.
    fn is_forgotten(&self, governing: Option<&Pps>, recorded_node: Option<&str>) -> bool {
        let policy = governing
            .and_then(|pps| pps.spec().ok())
            .map(|spec| spec.node_deletion());
        let is_lost = recorded_node.is_some_and(|node| self.disruption.nodes.contains(node));
        policy == Some(NodeDeletionPolicy::Forget) && self.disruption.loses_nodes() && is_lost
    }

    /// Adds what the simulation does not read, or not completely. `objects` are those of its input.
    pub(super) fn add_problems(
        &self,
        forecast: &mut Forecast,
        problems: &[Problem],
        objects: &[&Value],
    ) {
        let mut all_pps = self.disruption.snapshot.pps.iter();
        if all_pps.any(|pps| pps.namespace() == self.namespace && !pps.is_enabled()) {
            forecast.not_enabled.insert(self.namespace.to_owned());
        }
        for problem in problems {
            let Source::Objects { object: Some(at) } = problem.source else {
                continue;
            };
            let object = objects.get(at).copied().unwrap_or(&Value::Null);
            let kind = object["kind"].as_str().unwrap_or("Pod");
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let mut pods = forecast.pods.iter();
            let is_workload =
                pods.any(|pod| pod.namespace == self.namespace && pod.workload == name);
            // An object with an error is left out.
            let is_error = problem.severity == Severity::Error;
            if is_error || is_workload {
                forecast
                    .problems
                    .push((format!("{kind} {name}"), problem.message.clone()));
            }
            forecast.incomplete |= is_error;
        }
    }
}

/// Why a Pod would be how it would be.
fn why(view: &PodView) -> Why {
    if let Some(kept_by) = &view.kept_by {
        return Why::Protected(kept_by.clone());
    }
    match view.phase {
        Phase::Running => why_there(view),
        Phase::Pending => match &view.pending {
            Some(Pending::Excluded) => Why::Excluded,
            Some(pending) => Why::Waits(pending.to_string()),
            None => Why::Waits(String::new()),
        },
        Phase::Refused => {
            let message = view.refusal.as_ref().map(|refusal| refusal.message.clone());
            Why::Refused(message.unwrap_or_default())
        }
        Phase::NotCreated => Why::WaitsForOther,
    }
}

/// Why a Pod runs where it does.
fn why_there(view: &PodView) -> Why {
    let Some(state) = &view.recorded_before else {
        return Why::NotRecorded;
    };
    if view.came_home == Some(true) {
        let values = state.node_topology_labels.iter().chain(&state.annotations);
        return Why::AsRecorded(
            values
                .map(|(key, value)| format!("{}={value}", short(key)))
                .collect(),
        );
    }
    Why::NotAsRecorded {
        node: state.node_name.clone(),
        because: view.kept_away_by.first().map(Exclusion::in_general),
    }
}
