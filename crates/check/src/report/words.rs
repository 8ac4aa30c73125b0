//! The words of each finding: what was seen, and what to do about it.

mod definition;
mod module;
mod objects;
mod policies;
mod recorder;
mod server;
mod unread;
mod versions;

use crate::facts::Facts;
use crate::finding::{Diagnosis, Finding};

/// How many names a finding lists.
const MAX_NAMES: usize = 5;

/// A finding in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// What was seen.
    pub(crate) seen: String,
    /// What to do. Empty if there is nothing to do, or only a command to run.
    pub(crate) advice: String,
    /// The command to run for it, or empty.
    pub(crate) command: String,
}

impl Words {
    fn seen(seen: impl Into<String>) -> Self {
        Self {
            seen: seen.into(),
            advice: String::new(),
            command: String::new(),
        }
    }

    fn advise(self, advice: impl Into<String>) -> Self {
        Self {
            advice: advice.into(),
            ..self
        }
    }

    fn run(self, command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            ..self
        }
    }

    /// What to do, with the command.
    pub(crate) fn advice(&self) -> String {
        let parts = [self.advice.as_str(), &self.command];
        parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(": ")
    }
}

pub(crate) fn words(facts: &Facts, finding: &Finding) -> Words {
    let mut words = match &finding.diagnosis {
        Diagnosis::Version(diagnosis) => versions::words(diagnosis, facts),
        Diagnosis::Definition(diagnosis) => definition::words(diagnosis, facts),
        Diagnosis::Server(diagnosis) => server::words(diagnosis, facts),
        Diagnosis::Policy(diagnosis) => policies::words(diagnosis, facts),
        Diagnosis::Module(pull) => module::words(pull, facts),
        Diagnosis::Recorder(diagnosis) => recorder::words(diagnosis, facts),
        Diagnosis::Objects(diagnosis) => objects::words(diagnosis, facts),
        Diagnosis::Unread(diagnosis) => unread::words(diagnosis),
    };
    if !words.command.is_empty() {
        words.command += &facts.settings.cluster;
    }
    words
}

/// The command that shows the Pods of the PolicyServer.
fn list_server_pods(facts: &Facts) -> String {
    format!(
        "kubectl get pods -n {} -l kubewarden/policy-server={}",
        facts.server_namespace, facts.server_name
    )
}

/// The first names, and how many more there are.
fn some_of(names: &[impl ToString]) -> String {
    let shown = names
        .iter()
        .take(MAX_NAMES)
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
