//! The command line of the check, and how it runs.

#![allow(clippy::doc_markdown, reason = "--help prints these texts unchanged")]

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kube::Client;
use serde_json::Value;

use crate::gather::{TIMING, gather};
use crate::report::{self, API_VERSION, KIND, Versioned};
use crate::rules::judge;
use crate::settings::{ExitZero, NAMESPACE, Settings};

/// Checks an installation and says what is wrong: versions, definitions, PolicyServer, policies,
/// webhooks, the module in its registry, sidecar, other recorders, PersistentPodStates.
///
/// Writes nothing. Reads no Secret and no Pod's log. Prints each finding with what to do about it;
/// docs/reference/check.md explains them.
///
/// Exits with 0 if nothing is wrong, with 1 if something is, and with 2 if the command line is
/// invalid or if something could not be read, for example because a permission is missing.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// Kubeconfig file to use instead of the default one.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Text)]
    output: Output,

    /// Namespace of the sidecar. Defaults to the namespace of the Pod.
    #[arg(short, long, value_name = "NAMESPACE", default_value = NAMESPACE, env = "POD_NAMESPACE")]
    namespace: String,

    /// What is checked.
    #[command(flatten)]
    settings: Settings,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    #[value(name = "text", alias = "table")]
    Text,
    /// For programs.
    Json,
}

/// What the check found, for people and for programs, and its exit code.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub text: String,
    pub document: Value,
    pub exit_code: u8,
}

impl CheckArgs {
    /// Runs the check. `runs_in_cluster` says whether the registry is reached as the PolicyServer
    /// reaches it.
    pub async fn run(&self, client: &Client, runs_in_cluster: bool) -> Report {
        let settings = Settings {
            namespace: self.namespace.clone(),
            runs_in_cluster,
            ..self.settings.clone()
        };
        let mut report = Box::pin(run(client, settings, report::WIDTH)).await;
        if self.output == Output::Json {
            let answer = Versioned {
                api_version: API_VERSION,
                kind: KIND,
                answer: &report.document,
            };
            report.text = serde_json::to_string_pretty(&answer).unwrap_or_default() + "\n";
        }
        report
    }
}

/// Runs the check. `width` is how long the lines for people are.
pub async fn run(client: &Client, settings: Settings, width: usize) -> Report {
    let facts = gather(client, settings, &TIMING).await;
    let findings = judge(&facts);
    Report {
        text: report::table(&facts, &findings, width),
        document: report::document(&facts, &findings),
        exit_code: exit_code(facts.settings.exit_zero, report::exit_code(&findings)),
    }
}

fn exit_code(zero: Option<ExitZero>, found: u8) -> u8 {
    if zero == Some(ExitZero::Always) || (zero, found) == (Some(ExitZero::Unknown), 2) {
        0
    } else {
        found
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        check: CheckArgs,
    }

    #[test]
    fn exit_zero_can_be_limited_to_what_could_not_be_read() {
        for (args, wanted) in [
            (&["x", "--exit-zero=unknown"][..], [0, 1, 0]),
            (&["x", "--exit-zero"], [0, 0, 0]),
            (&["x", "--exit-zero", "--all"], [0, 0, 0]),
            (&["x", "--exit-zero=always"], [0, 0, 0]),
            (&["x"], [0, 1, 2]),
        ] {
            let zero = Program::try_parse_from(args)
                .unwrap()
                .check
                .settings
                .exit_zero;
            assert_eq!(
                [0, 1, 2].map(|found| exit_code(zero, found)),
                wanted,
                "{args:?}"
            );
        }
        assert!(Program::try_parse_from(["x", "--exit-zero=never"]).is_err());
    }
}
