//! Remedies in English, with the commands that carry them out.

use pps_admission::plan::Requirement;
use pps_core::INJECTION_LABEL;
use serde::Serialize;

use super::answer::{becomes, labels};
use crate::decide::command_line::CommandLine;
use crate::decide::explain::{Remedy, RemedyKind, Step, Successor};
use crate::decide::placement::Landing;
use crate::decide::subject::Subject;
use crate::render::status::{Line, enable};

/// A remedy with its command and its consequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Advised {
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consequence: Option<String>,
    #[serde(flatten)]
    pub landing: Landing,
}

impl Advised {
    pub(super) fn of(remedy: &Remedy, subject: &Subject, commands: &CommandLine) -> Self {
        let adviser = Adviser { subject, commands };
        let landing = &remedy.landing;
        let advised = match &remedy.kind {
            RemedyKind::ChangeNode { node, steps } => adviser.change_node(node, steps),
            RemedyKind::LabelNode { labels } => label_node(labels),
            RemedyKind::CreateAgain => adviser.create_again(landing),
            RemedyKind::Move { from, flags } => adviser.move_away(landing, from.as_deref(), flags),
            RemedyKind::FinishMove { to } => adviser.finish_move(to.as_deref()),
            RemedyKind::CallMoveOff { node } => adviser.call_move_off(node),
            RemedyKind::DeleteNode { node, successor } => {
                adviser.delete_node(node, successor.as_ref())
            }
            RemedyKind::Forget => adviser.forget(),
            RemedyKind::ForgetAndDelete => adviser.forget_and_delete(landing),
            RemedyKind::ExplainOther { pod } => adviser.explain_other(pod),
            RemedyKind::EnableNamespace => adviser.enable_namespace(),
            RemedyKind::Check => adviser.check(),
            RemedyKind::DisableInjection => adviser.disable_injection(),
        };
        Self {
            text: capitalized(&advised.text),
            landing: landing.clone(),
            ..advised
        }
    }

    fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            command: None,
            consequence: None,
            landing: Landing::default(),
        }
    }

    fn with_command(text: impl Into<String>, command: String) -> Self {
        Self {
            command: Some(command),
            ..Self::new(text)
        }
    }
}

/// What the texts about a Pod have in common.
struct Adviser<'a> {
    subject: &'a Subject<'a>,
    commands: &'a CommandLine,
}

impl Adviser<'_> {
    /// `kubectl pps VERB` in the namespace of the Pod.
    fn pps(&self, words: &str) -> String {
        self.commands.pps(words, self.subject.namespace)
    }

    fn change_node(&self, node: &str, steps: &[Step]) -> Advised {
        let texts: Vec<String> = steps.iter().map(|step| step_on(step, node)).collect();
        let commands: Vec<String> = steps
            .iter()
            .filter_map(|step| command_on(step, node))
            .map(|command| self.commands.kubectl(&command))
            .collect();
        Advised {
            command: (!commands.is_empty()).then(|| commands.join(" && ")),
            ..Advised::new(format!(
                "{}, and the Pod starts there",
                texts.join(", and ")
            ))
        }
    }

    fn create_again(&self, landing: &Landing) -> Advised {
        let text = format!(
            "Delete it, so that it is created again from the present template and recorded \
             state: the new Pod {}",
            landing.would("start on")
        );
        let delete = format!("delete pod {}", self.subject.name);
        Advised::with_command(
            text,
            self.commands.kubectl_in(&delete, self.subject.namespace),
        )
    }

    fn move_away(&self, landing: &Landing, from: Option<&str>, flags: &str) -> Advised {
        let owner_of_disk = from.map_or("its former node's".to_owned(), |node| format!("{node}'s"));
        let consequence = format!(
            "Data on {owner_of_disk} local disk stays there. The new node is recorded when the Pod \
             is Ready."
        );
        Advised {
            consequence: Some(consequence),
            ..Advised::with_command(
                format!("Move it to another node: it {}", landing.would("start on")),
                self.pps(&format!("move {} --anywhere{flags}", self.subject.name)),
            )
        }
    }

    fn finish_move(&self, to: Option<&str>) -> Advised {
        let destination = to.map_or("--anywhere".to_owned(), |node| format!("--to {node}"));
        let command = self.pps(&format!("move {} {destination}", self.subject.name));
        Advised::with_command("Finish the move", command)
    }

    fn call_move_off(&self, node: &str) -> Advised {
        let command = self.pps(&format!("move {} --to {node}", self.subject.name));
        Advised::with_command("Call the move off", command)
    }

    fn delete_node(&self, node: &str, successor: Option<&Successor>) -> Advised {
        let consequence = format!(
            "Kubernetes then deletes the Pod although the former process may still run: be sure \
             that the machine is off. Data on {node}'s local disk is not there; {}. A node that \
             returns under this name has that data again.",
            becomes(self.subject, successor)
        );
        let text = format!(
            "Bring {node} back under its name. If it does not come back, delete its Node object"
        );
        Advised {
            consequence: Some(consequence),
            ..Advised::with_command(text, self.commands.kubectl(&format!("delete node {node}")))
        }
    }

    fn forget(&self) -> Advised {
        let command = self.pps(&format!("forget {}", self.subject.name));
        Advised::with_command("Drop its recorded state", command)
    }

    fn forget_and_delete(&self, landing: &Landing) -> Advised {
        let subject = self.subject;
        let forget = self.pps(&format!("forget {}", subject.name));
        let delete = format!("delete pod {}", subject.name);
        let delete = self.commands.kubectl_in(&delete, subject.namespace);
        let would = if landing.is_nowhere() {
            String::new()
        } else {
            format!(": the new Pod {}", landing.would("start on"))
        };
        let text = format!("Drop its recorded state, then delete the Pod{would}");
        Advised {
            consequence: Some(
                "The volume stays, and with it the data. The new place is recorded when the Pod \
                 is Ready."
                    .to_owned(),
            ),
            ..Advised::with_command(text, format!("{forget} && {delete}"))
        }
    }

    fn explain_other(&self, pod: &str) -> Advised {
        let command = self.pps(&format!("explain {pod}"));
        Advised::with_command(format!("Find out what {pod} waits for"), command)
    }

    fn enable_namespace(&self) -> Advised {
        let Line { text, command } = enable(self.subject.namespace, self.commands);
        Advised::with_command(text, command)
    }

    fn check(&self) -> Advised {
        Advised::with_command("Find the cause, and repair it", self.commands.check())
    }

    fn disable_injection(&self) -> Advised {
        let consequence = format!(
            "They start anywhere, away from the data on their nodes; their recorded states stay \
             unchanged. The controller waits longer after each refusal. The way back: {}",
            self.label_namespace("enabled")
        );
        let text = "If that takes too long, let the Pods of the namespace start without their \
                    recorded states";
        Advised {
            consequence: Some(consequence),
            ..Advised::with_command(text, self.label_namespace("disabled"))
        }
    }

    fn label_namespace(&self, injection: &str) -> String {
        self.commands.kubectl(&format!(
            "label namespace {} {INJECTION_LABEL}={injection} --overwrite",
            self.subject.namespace
        ))
    }
}

fn label_node(required: &[Requirement]) -> Advised {
    Advised::new(format!(
        "Bring a node with {} back, or add one",
        labels(required)
    ))
}

fn step_on(step: &Step, node: &str) -> String {
    match step {
        Step::Uncordon => format!("allow Pods on {node} again"),
        Step::RemoveCause { taint } => format!("remove the cause of {node}'s taint {taint}"),
        Step::RemoveTaint { key, .. } => format!("remove the taint {key} of {node}"),
        Step::FreeCapacity { why } => format!("free capacity on {node} ({why})"),
    }
}

/// The words after `kubectl`; none for a step that no command carries out.
fn command_on(step: &Step, node: &str) -> Option<String> {
    match step {
        Step::Uncordon => Some(format!("uncordon {node}")),
        Step::RemoveTaint { key, effect } => Some(format!("taint nodes {node} {key}:{effect}-")),
        Step::RemoveCause { .. } | Step::FreeCapacity { .. } => None,
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map(|first| first.to_uppercase().chain(characters).collect())
        .unwrap_or_default()
}
