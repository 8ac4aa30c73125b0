//! The names of the Pods that a workload of a custom kind lists itself, at the path that the list
//! of kinds gives. Without a number or with names of their own, such a workload's Pods are wanted
//! by these names alone.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::Value;

use crate::facts::interner::Interner;
use crate::facts::states::States;

#[cfg(test)]
mod tests;

/// How many characters a path may have.
const MAX_PATH: usize = 256;
/// How many names a workload may list.
const MAX_NAMES: usize = 10_000;
/// How many characters the name of a Pod can have.
const MAX_NAME: usize = 253;
/// How many characters of a step an error message repeats.
const MAX_STEP: usize = 40;
/// Valid paths, for error messages.
const EXAMPLE: &str = "write fields and [*] below spec. or status., such as \
                       spec.pods[*].metadata.name or status.instanceNames";

/// The path of names in a workload, such as `spec.pods[*].metadata.name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamesPath {
    text: Arc<str>,
    part: Part,
    steps: Vec<Step>,
}

/// A part of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Spec,
    Status,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    /// `[*]`, each item of a list.
    Items,
}

impl FromStr for NamesPath {
    type Err = String;

    fn from_str(path: &str) -> Result<Self, String> {
        let length = path.chars().count();
        if length > MAX_PATH {
            return Err(format!(
                "namesPath: {length} characters; write at most {MAX_PATH}"
            ));
        }
        let (part, mut rest) = if let Some(rest) = path.strip_prefix("spec.") {
            (Part::Spec, rest)
        } else if let Some(rest) = path.strip_prefix("status.") {
            (Part::Status, rest)
        } else {
            return Err(malformed(path));
        };
        // The point is part of the first step.
        rest = &path[path.len() - rest.len() - 1..];
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = Step::split_from(rest).ok_or_else(|| malformed(rest))?;
            steps.push(step);
            rest = after;
        }
        let text = path.into();
        Ok(Self { text, part, steps })
    }
}

/// Says where a path has another syntax.
fn malformed(rest: &str) -> String {
    let start: String = rest.chars().take(MAX_STEP).collect();
    format!("namesPath: no field or [*] at {start:?}; {EXAMPLE}")
}

impl fmt::Display for NamesPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Step {
    /// The first step of a path, and what is after it.
    fn split_from(path: &str) -> Option<(Self, &str)> {
        if let Some(rest) = path.strip_prefix("[*]") {
            return Some((Self::Items, rest));
        }
        let field = path.strip_prefix('.')?;
        let end = field.find(['.', '[']).unwrap_or(field.len());
        let (field, rest) = field.split_at(end);
        let is_valid = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '$');
        (!field.is_empty() && field.chars().all(is_valid))
            .then(|| (Self::Field(field.to_owned()), rest))
    }
}

impl NamesPath {
    /// Whether the path is below `status.`.
    pub fn is_in_status(&self) -> bool {
        self.part == Part::Status
    }

    /// Reads the names that a workload lists.
    pub(crate) fn read(&self, spec: &Value, status: &Value) -> Names {
        let part = match self.part {
            Part::Spec => spec,
            Part::Status => status,
        };
        let mut names = BTreeSet::new();
        let listed = collect(&mut names, Some(part), &self.steps, false);
        let listed = listed.and_then(|()| {
            if names.is_empty() {
                Err(Unreadable::NoName)
            } else {
                Ok(names.into_iter().collect())
            }
        });
        Names {
            path: self.text.clone(),
            listed,
        }
    }
}

/// Collects the names at a path below a value. An item of a list must have one, so that a list
/// whose items have no such field is not taken for an empty one.
fn collect(
    names: &mut BTreeSet<Arc<str>>,
    value: Option<&Value>,
    steps: &[Step],
    is_item: bool,
) -> Result<(), Unreadable> {
    match (steps.split_first(), value) {
        (_, None | Some(Value::Null)) if !is_item => Ok(()),
        (None, Some(Value::String(name))) => add(names, name),
        (None, Some(Value::Array(items))) => items.iter().try_for_each(|item| {
            let name = item.as_str().ok_or(Unreadable::WrongType)?;
            add(names, name)
        }),
        (Some((Step::Field(field), rest)), Some(Value::Object(fields))) => {
            collect(names, fields.get(field), rest, is_item)
        }
        (Some((Step::Items, rest)), Some(Value::Array(items))) => items
            .iter()
            .try_for_each(|item| collect(names, Some(item), rest, true)),
        _ => Err(Unreadable::WrongType),
    }
}

fn add(names: &mut BTreeSet<Arc<str>>, name: &str) -> Result<(), Unreadable> {
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(Unreadable::WrongType);
    }
    if !names.contains(name) {
        if names.len() == MAX_NAMES {
            return Err(Unreadable::TooMany);
        }
        names.insert(name.into());
    }
    Ok(())
}

/// The names that a workload lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    path: Arc<str>,
    /// Sorted, and at least one.
    listed: Result<Arc<[Arc<str>]>, Unreadable>,
}

/// Why the names of a workload cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unreadable {
    NoName,
    WrongType,
    TooMany,
}

impl Names {
    /// Whether the workload may want a Pod of this name.
    pub(crate) fn may_have(&self, pod: &str) -> bool {
        self.listed.is_err() || self.has(pod)
    }

    fn has(&self, pod: &str) -> bool {
        let listed = self.listed.as_deref().unwrap_or_default();
        listed.binary_search_by(|name| (**name).cmp(pod)).is_ok()
    }

    /// Whether one of the names is that of a recorded state.
    pub(crate) fn has_recorded(&self, recorded: &States) -> bool {
        let mut listed = self.listed.as_deref().unwrap_or_default().iter();
        listed.any(|name| recorded.contains(name))
    }

    /// How many names there are; nothing if they cannot be read.
    pub(crate) fn count(&self) -> Option<u64> {
        Some(self.listed.as_deref().ok()?.len() as u64)
    }

    /// Shares the names in memory.
    pub(crate) fn intern(&mut self, interner: &mut Interner) {
        if let Ok(listed) = &mut self.listed {
            *listed = listed.iter().map(|name| interner.intern(name)).collect();
        }
    }

    /// Why the names do not say which Pods the workload wants, if they do not. `replicas` is the
    /// number that the workload wants, `living` are the names of its living Pods, and `recorded` are
    /// the states of its PPS.
    pub(crate) fn doubt<'a>(
        &self,
        replicas: Option<u64>,
        living: impl IntoIterator<Item = &'a Arc<str>>,
        recorded: &States,
    ) -> Option<NamesDoubt> {
        let path = self.path.clone();
        let count = match &self.listed {
            Err(Unreadable::NoName) => return Some(NamesDoubt::NoName { path }),
            Err(Unreadable::WrongType) => return Some(NamesDoubt::WrongType { path }),
            Err(Unreadable::TooMany) => return Some(NamesDoubt::TooMany { path }),
            Ok(listed) => listed.len() as u64,
        };
        if let Some(replicas) = replicas.filter(|replicas| count < *replicas) {
            return Some(NamesDoubt::TooFew {
                path,
                count,
                replicas,
            });
        }
        let mut living = living.into_iter().peekable();
        let has_living = living.peek().is_some();
        if let Some(pod) = living.find(|pod| !self.has(pod)) {
            let pod = pod.clone();
            return Some(NamesDoubt::Unlisted { path, pod });
        }
        let is_related = has_living || recorded.is_empty() || self.has_recorded(recorded);
        (!is_related).then_some(NamesDoubt::Unrelated { path })
    }
}

/// Why the names that a workload lists do not say which Pods it wants: then it is taken to want
/// each of them, so that no state is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamesDoubt {
    NoName {
        path: Arc<str>,
    },
    WrongType {
        path: Arc<str>,
    },
    TooMany {
        path: Arc<str>,
    },
    /// There are fewer names than the workload wants Pods.
    TooFew {
        path: Arc<str>,
        count: u64,
        replicas: u64,
    },
    /// This Pod of the workload lives, and is not among the names.
    Unlisted {
        path: Arc<str>,
        pod: Arc<str>,
    },
    /// No Pod of the workload lives, and states are recorded, none of them under one of the names:
    /// they may be names of something else.
    Unrelated {
        path: Arc<str>,
    },
}

impl fmt::Display for NamesDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoName { path } => write!(f, "the workload has no name of a Pod at {path}"),
            Self::WrongType { path } => write!(
                f,
                "the workload has something else than names of Pods at {path}"
            ),
            Self::TooMany { path } => {
                write!(f, "the workload has more than {MAX_NAMES} names at {path}")
            }
            Self::TooFew {
                path,
                count,
                replicas,
            } => write!(
                f,
                "the workload wants {replicas} Pods and has {count} names at {path}"
            ),
            Self::Unlisted { path, pod } => {
                write!(
                    f,
                    "Pod {pod} of the workload is not among the names at {path}"
                )
            }
            Self::Unrelated { path } => write!(
                f,
                "no name at {path} is that of a Pod of the workload or of a recorded state; list \
                 the names of its Pods, all of them"
            ),
        }
    }
}
