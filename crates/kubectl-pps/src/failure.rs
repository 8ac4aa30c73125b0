//! How a command ends.

use std::fmt;

use crate::snapshot::{Namespaces, Unread};

/// How a command ends that gave its answer, the worst last: a problem counts more than an unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// All is well, or everything is done.
    Well,
    /// Something could not be read, so the answer is incomplete.
    Incomplete,
    /// The answer is that something is wrong: a Pod is Pending, or would be, or is not recorded.
    NotWell,
}

impl Outcome {
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Well => 0,
            Self::NotWell => 1,
            Self::Incomplete => 2,
        }
    }
}

pub type CommandResult = Result<Outcome, Failure>;

/// Why a command gave no answer or did not do its work. The text names the remedy.
///
/// After `Refused`, nothing was changed, unless the text says so. `Unreadable` includes a missing
/// right, and an API server that does not answer. `Unread` names a list without which there is no
/// answer. `explain` is the command that the user may have meant. `workload` is the
/// StatefulSet that could have the Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    Usage(String),
    Refused(String),
    Unreadable(String),
    NoDefinition,
    Unread(Unread),
    UnreadWorkload {
        text: String,
        unread: Unread,
    },
    UnreadPod {
        pod: String,
        unread: Unread,
    },
    NoNode(String),
    NoZone {
        zone: String,
        known: Vec<String>,
    },
    NoNamespace {
        name: String,
        similar: Vec<String>,
    },
    NoWorkload {
        text: String,
        namespaces: Namespaces,
        similar: Vec<String>,
    },
    NoSelectedWorkload {
        selector: String,
    },
    PodAsWorkload {
        pod: String,
        explain: String,
    },
    NoPod {
        namespace: String,
        pod: String,
        workload: Option<Candidate>,
        similar: Vec<String>,
    },
    TooManyNodes {
        count: usize,
        most: usize,
    },
}

/// A StatefulSet whose Pod could have a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub name: String,
    pub replicas: u64,
}

impl From<&Unread> for Failure {
    fn from(unread: &Unread) -> Self {
        Self::Unread(unread.clone())
    }
}

impl Failure {
    #[must_use]
    pub fn with(self, lines: &str) -> Self {
        let text = format!("{self}\n{lines}");
        match self {
            _ if self.exit_code() == 1 => Self::Refused(text),
            Self::Unreadable(_)
            | Self::NoDefinition
            | Self::Unread(_)
            | Self::UnreadWorkload { .. }
            | Self::UnreadPod { .. } => Self::Unreadable(text),
            _ => Self::Usage(text),
        }
    }

    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::Refused(_) | Self::TooManyNodes { .. }) {
            1
        } else {
            2
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Refused(text) | Self::Unreadable(text) => f.write_str(text),
            Self::NoDefinition => f.write_str(
                "this cluster has no definition of PersistentPodState \
                 (persistentpodstates.apps.kruise.io): the product is not installed, or its CRD \
                 was deleted",
            ),
            Self::Unread(unread) => write!(f, "{unread}"),
            Self::UnreadWorkload { text, unread } => {
                write!(f, "cannot find workload {text}: {unread}")
            }
            Self::UnreadPod { pod, unread } => write!(f, "cannot explain Pod {pod}: {unread}"),
            Self::NoNode(node) => write!(f, "there is no node {node}"),
            Self::NoZone { zone, known } => {
                write!(
                    f,
                    "no node is in zone {zone}: there are {}",
                    known.join(", ")
                )
            }
            Self::NoNamespace { name, similar } => {
                write!(f, "there is no namespace {name}{}", hint(similar))
            }
            Self::NoWorkload {
                text,
                namespaces,
                similar,
            } => {
                let within = namespaces.one().map(|own| format!("namespace {own}"));
                let within = within.unwrap_or_else(|| "any namespace".into());
                write!(
                    f,
                    "there is no StatefulSet {text} in {within}, and no PersistentPodState names "
                )?;
                write!(f, "such a workload{}", hint(similar))
            }
            Self::NoSelectedWorkload { selector } => {
                write!(f, "no StatefulSet has the labels {selector}")
            }
            Self::PodAsWorkload { pod, explain } => {
                write!(f, "{pod} is a Pod, not a workload: {explain}")
            }
            Self::NoPod {
                namespace,
                pod,
                workload,
                similar,
            } => {
                let who = workload.as_ref().map_or(
                    "no workload wants one".into(),
                    |Candidate { name, replicas }| {
                        format!("StatefulSet {name} (replicas: {replicas}) does not want one")
                    },
                );
                write!(
                    f,
                    "there is no Pod {pod} in namespace {namespace}, and {who}{}",
                    hint(similar)
                )
            }
            Self::TooManyNodes { count, most } => {
                write!(
                    f,
                    "the cluster has {count} nodes: at most {most} are simulated"
                )
            }
        }
    }
}

/// The end of a sentence that says that there is no such name: `; similar names: db-0, db-1`.
fn hint(similar: &[String]) -> String {
    if similar.is_empty() {
        String::new()
    } else {
        format!("; similar names: {}", similar.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_exist_is_named_with_the_place_and_with_similar_names() {
        let similar = vec!["shop".to_owned(), "shops".to_owned()];
        let failure = Failure::NoNamespace {
            name: "shp".into(),
            similar,
        };
        assert_eq!(
            failure.to_string(),
            "there is no namespace shp; similar names: shop, shops"
        );
        let failure = Failure::NoWorkload {
            text: "sts/db".into(),
            namespaces: Namespaces::All,
            similar: Vec::new(),
        };
        assert_eq!(
            failure.to_string(),
            "there is no StatefulSet sts/db in any namespace, and no PersistentPodState names \
             such a workload"
        );
    }

    #[test]
    fn a_failure_with_further_lines_ends_with_the_same_exit_code() {
        let unread = crate::snapshot::forbidden("list nodes");
        for failure in [
            Failure::TooManyNodes { count: 2, most: 1 },
            Failure::Refused("no".into()),
            Failure::Unread(unread.clone()),
            Failure::UnreadPod {
                pod: "db-0".into(),
                unread,
            },
            Failure::NoNode("n1".into()),
            Failure::NoDefinition,
        ] {
            let with = failure.clone().with("more");
            assert_eq!(
                (with.to_string(), with.exit_code()),
                (format!("{failure}\nmore"), failure.exit_code())
            );
        }
    }
}
