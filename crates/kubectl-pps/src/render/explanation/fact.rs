//! What an answer follows from, in English.

use pps_core::plan::{Preference, Requirement};
use pps_core::{PodState, RECORD_ANNOTATION};

use super::{Words, labels, lost, pairs, reasons, unrecorded};
use crate::decide::explain::{Fact, Governance, Refuser, Unrecorded};
use crate::snapshot::{FoundBy, WorkloadKey};

impl Words<'_> {
    pub(super) fn fact(&self, fact: &Fact) -> String {
        match fact {
            Fact::IfDeleted { node, landing, excluded, required, preferred } => {
                let would = if landing.is_nowhere() {
                    "the new Pod would be Pending: no node could take it".to_owned()
                } else if !landing.may_be(node) {
                    let not = if excluded.is_empty() {
                        format!("would probably not come back to {node} (the scheduler prefers others)")
                    } else {
                        format!("would not come back to {node} ({})", reasons(excluded).join(", and "))
                    };
                    format!("it {not}. It {}", landing.would("start on"))
                } else if landing.favourites().len() == 1 {
                    format!("it {}", landing.would("come back to"))
                } else {
                    format!("it might come back: it {}", landing.would("start on"))
                };
                let why = match (required.as_slice(), preferred.as_slice()) {
                    ([], []) => String::new(),
                    ([], preferred) => {
                        format!(" Its recorded state only {}.", demands(&[], preferred).join("; "))
                    }
                    (required, _) => format!(" Its recorded state requires {}.", labels(required)),
                };
                format!("If it were deleted now, {would}.{why}")
            }
            Fact::NodeLost(node) => format!("{} whether the Pod still runs.", lost(node)),
            Fact::HasItsPlace => {
                let command = self.commands.kubectl_in(&format!("describe pod {}", self.pod), self.namespace);
                format!("The Pod does not wait for its recorded node: {command} says more.")
            }
            Fact::NotRecordedAgain => format!(
                "The sidecar records a Ready Pod where it runs. If this lasts, it does not record: {}",
                self.commands.check()
            ),
            Fact::Differs(drift) => format!("It differs from its recorded state: {drift}."),
            Fact::SchedulerSays(message) => format!("The scheduler says: {message}"),
            Fact::Refusal { workload, message, by } => {
                let hint = match by {
                    Refuser::OtherWebhook => {
                        format!(" {} says what is wrong with the installation.", self.commands.check())
                    }
                    _ => String::new(),
                };
                format!("The controller of StatefulSet {workload} reports: {message}{hint}")
            }
            Fact::NoEvent { workload, are_events_read } => {
                let command =
                    self.commands.kubectl_in(&format!("describe statefulset {workload}"), self.namespace);
                if *are_events_read {
                    format!(
                        "No Event says why. The controller may be about to create it; if this lasts: {command}"
                    )
                } else {
                    format!("Events could not be read; {command} may show why.")
                }
            }
            Fact::IsForgotten { is_recorded } => {
                let soon = if *is_recorded { " once its node has been gone for some minutes" } else { "" };
                format!(
                    "nodeDeletionPolicy: Forget drops the recorded state{soon}, and the Pod keeps what was injected before. The \
                     sidecar then evicts it only if it runs with --evict-pending-pods (chart: sidecar.evictPendingPods); \
                     otherwise delete it."
                )
            }
            Fact::Governance(governance) => governed(governance),
            Fact::RecordDamaged(damaged) => format!("The recorded state cannot be read: {damaged}."),
            Fact::NothingRecorded { has_changed, is_ready } => {
                let then = match (has_changed, is_ready) {
                    (true, _) => " now: a Pod that is created now is not kept on any node",
                    (false, true) => "",
                    (false, false) => "; it is recorded when it is Ready",
                };
                format!("Nothing is recorded of the Pod{then}.")
            }
            Fact::Recorded { state, is_gone, form } => {
                let form = form.map(|form| format!(" in {form}")).unwrap_or_default();
                format!("Recorded{form}: {}.", place(state, *is_gone))
            }
            Fact::NotInjected { created } => format!(
                "Nothing was injected {}: nothing was recorded then, or the policy was not asked.",
                when(created)
            ),
            Fact::Injected { from, created, required, preferred, is_known } => {
                let from =
                    from.as_ref().map(|pps| format!(" from PersistentPodState {pps}")).unwrap_or_default();
                let all = demands(required, preferred);
                let what = match (all.is_empty(), is_known) {
                    (true, true) => "no label of a node".to_owned(),
                    (true, false) => "which values is not known".to_owned(),
                    (false, _) => all.join("; "),
                };
                format!("Injected{from} {}: {what}.", when(created))
            }
            Fact::WouldRequire { required, has_changed } => {
                let since = if *has_changed { "That has changed since: a" } else { "A" };
                let now =
                    if required.is_empty() { "no label of a node".to_owned() } else { labels(required) };
                format!("{since} Pod of this name that is created now would require {now}.")
            }
            Fact::Exempt { by_move } => {
                let what = if *by_move { "A move of this Pod is not finished, and the" } else { "The" };
                format!("{what} sidecar does not record the Pod (annotation {RECORD_ANNOTATION}: \"false\").")
            }
            Fact::Problem { pps, why: why @ Unrecorded::Condition(..) } => {
                format!("PersistentPodState {pps} has a problem: {}.", unrecorded(why))
            }
            Fact::Problem { pps, why: Unrecorded::NotSeen(_) } => {
                format!("No sidecar has looked at PersistentPodState {pps} yet.")
            }
        }
    }
}

fn governed(governance: &Governance) -> String {
    match governance {
        Governance::NoController => {
            "No PersistentPodState concerns it: it has no controller, so nothing creates it again.".to_owned()
        }
        Governance::Unknown(workload) => {
            format!("Whether a PersistentPodState governs {} is not known.", kind_and_name(workload))
        }
        Governance::None(workload) => {
            format!("No PersistentPodState governs {}, so the Pod is not recorded.", kind_and_name(workload))
        }
        Governance::Impossible(workload) => format!(
            "No PersistentPodState concerns it: the Pods of {} get new names each time.",
            kind_and_name(workload)
        ),
        Governance::By { pps, workload, found_by } => {
            let how = match found_by {
                FoundBy::OwnName | FoundBy::SecondName => String::new(),
                FoundBy::Alias(alias) => format!(", which the policy finds by the alias {alias}"),
                FoundBy::Nothing(alias) => {
                    format!(
                        ", but the policy does not find it and injects nothing: there is no alias {alias}"
                    )
                }
            };
            format!("PersistentPodState {pps} governs {}{how}.", kind_and_name(workload))
        }
    }
}

fn kind_and_name(workload: &WorkloadKey) -> String {
    format!("{} {}", workload.kind, workload.name)
}

fn when(created: &str) -> String {
    let comma = if created.is_empty() { "" } else { ", " };
    format!("when the Pod was created{comma}{created}")
}

/// `on node-1; zone=a`
fn place(state: &PodState, is_gone: bool) -> String {
    let gone = if is_gone { ", which does not exist any more" } else { "" };
    let node = (!state.node_name.is_empty()).then(|| format!("on {}{gone}", state.node_name));
    let values = pairs(state.node_topology_labels.iter().chain(&state.annotations));
    node.into_iter().chain(values).collect::<Vec<_>>().join("; ")
}

/// `requires zone=a`, `prefers zone=a (weight 100)`
fn demands(required: &[Requirement], preferred: &[Preference]) -> Vec<String> {
    let preferred =
        preferred.iter().map(|one| format!("prefers {} (weight {})", labels(&one.requirements), one.weight));
    let required = (!required.is_empty()).then(|| format!("requires {}", labels(required)));
    required.into_iter().chain(preferred).collect()
}
