//! What the user can do, in English.

use pps_check::INJECTION;

use super::{Advised, Words, goal_flag, labels, successor};
use crate::decide::explain::{Remedy, RemedyKind, Step};

impl Words<'_> {
    pub(super) fn remedy(&self, remedy: &Remedy) -> Advised {
        let Self { namespace, pod, commands } = self;
        let Remedy { kind, landing } = remedy;
        let start = || landing.would("start on");
        let mut consequence = None;
        let (text, command) = match kind {
            RemedyKind::ChangeNode { node, steps } => {
                let text = steps.iter().map(|step| step_on(step, node)).collect::<Vec<_>>().join(", and ");
                let mut lines: Vec<String> = steps
                    .iter()
                    .filter_map(|step| command_of(step, node))
                    .map(|one| commands.kubectl(&one))
                    .collect();
                let command = (lines.len() == 1 && steps.len() == 1).then(|| lines.remove(0));
                let more = if lines.is_empty() { String::new() } else { format!(" ({})", lines.join("; ")) };
                (format!("{}{more}, and the Pod starts there", capitalized(&text)), command)
            }
            RemedyKind::LabelNode { node, is_there, labels: required } => {
                let required = labels(required);
                let what = if *is_there {
                    format!("Give a node these labels again: {required}")
                } else if node.is_empty() {
                    format!("Add a node with {required}")
                } else {
                    format!("Bring {node} back, or another node with {required}")
                };
                (format!("{what}, and the Pod starts there"), None)
            }
            RemedyKind::CreateAgain { is_recorded, is_former, is_outdated } => {
                let again = match (is_former, is_outdated, is_recorded) {
                    (false, _, false) => ": nothing is recorded of it now, so the new Pod",
                    (false, _, true) => {
                        ", so that it is created again with its present recorded state: the new Pod"
                    }
                    (true, false, _) => {
                        ", so that it is created again from the present template: the new Pod"
                    }
                    (true, true, _) => {
                        ", so that it is created again from the present template and with its present recorded state: the new Pod"
                    }
                };
                let command = commands.kubectl_in(&format!("delete pod {pod}"), namespace);
                (format!("Delete it{again} {}", start()), Some(command))
            }
            RemedyKind::IgnoreAffinity { topology_key, min_domains, requirement } => {
                let text = format!(
                    "Set nodeAffinityPolicy: Ignore in the template's spread constraint over {topology_key}, and delete the Pod: \
                     the constraint wants {min_domains} domains, and {} leaves one. The new Pod {}",
                    labels(std::slice::from_ref(requirement)),
                    start()
                );
                (text, None)
            }
            RemedyKind::Move { from, flags } => {
                let disk = from.as_ref().map_or("its former node's".to_owned(), |node| format!("{node}'s"));
                consequence = Some(format!(
                    "Data on {disk} local disk stays there. The new node is recorded when the Pod is Ready."
                ));
                let command = self.pps(&format!("move {pod} --anywhere{flags}"));
                (format!("Move it to another node: it {}", start()), Some(command))
            }
            RemedyKind::FinishMove { to } => {
                let goal = goal_flag(to.as_deref());
                ("Finish the move".to_owned(), Some(self.pps(&format!("move {pod} {goal}"))))
            }
            RemedyKind::CallMoveOff { node } => {
                ("Call the move off".to_owned(), Some(self.pps(&format!("move {pod} --to {node}"))))
            }
            RemedyKind::BringNodeBack { node } => {
                consequence =
                    Some(format!("The Pod, or a new Pod on {node}, then finds the data on its local disk."));
                (format!("Bring {node} back under its name"), None)
            }
            RemedyKind::DeleteNode { node, next } => {
                consequence = Some(format!(
                    "Kubernetes then deletes the Pod although the former process may still run: be sure that the machine is \
                     off. Data on {node}'s local disk is not there; {}. A node that returns under this name has that data again.",
                    successor(next)
                ));
                let command = commands.kubectl(&format!("delete node {node}"));
                ("If it does not come back, delete its Node object".to_owned(), Some(command))
            }
            RemedyKind::WaitForDeletion => ("Wait until Kubernetes has deleted the Pod".to_owned(), None),
            RemedyKind::ForceDeletion => {
                let command = commands.kubectl_in(&format!("delete pod {pod} --force"), namespace);
                ("Wait. If this lasts, and the machine is off for good".to_owned(), Some(command))
            }
            RemedyKind::Forget => {
                ("Drop its recorded state".to_owned(), Some(self.pps(&format!("forget {pod}"))))
            }
            RemedyKind::ExplainOther { pod } => {
                (format!("Find out what {pod} waits for"), Some(self.pps(&format!("explain {pod}"))))
            }
            RemedyKind::Check => ("Find the cause, and repair it".to_owned(), Some(commands.check())),
            RemedyKind::DisableInjection => {
                let label = |to: &str| {
                    commands.kubectl(&format!("label namespace {namespace} {INJECTION}={to} --overwrite"))
                };
                consequence = Some(format!(
                    "They start anywhere, away from the data on their nodes, and a sidecar that runs may record them there. The \
                     controller waits longer after each refusal. The way back: {}",
                    label("enabled")
                ));
                let text = "If that takes too long, let the Pods of the namespace start without their recorded states";
                (text.to_owned(), Some(label("disabled")))
            }
        };
        let (may_land_on, could_also_land_on) = (landing.favourites().to_vec(), landing.others().to_vec());
        Advised { text, command, consequence, may_land_on, could_also_land_on }
    }
}

fn step_on(step: &Step, node: &str) -> String {
    match step {
        Step::Uncordon => format!("allow Pods on {node} again"),
        Step::MakeReady => format!("make {node} Ready again"),
        Step::RemoveCause { taint } => format!("remove the cause of {node}'s taint {taint}"),
        Step::RemoveTaint { key, .. } => format!("remove the taint {key} of {node}"),
        Step::FreeCapacity { why } => format!("free capacity on {node} ({why})"),
    }
}

fn command_of(step: &Step, node: &str) -> Option<String> {
    match step {
        Step::Uncordon => Some(format!("uncordon {node}")),
        Step::RemoveTaint { key, effect } => Some(format!("taint nodes {node} {key}:{effect}-")),
        Step::MakeReady | Step::RemoveCause { .. } | Step::FreeCapacity { .. } => None,
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}
