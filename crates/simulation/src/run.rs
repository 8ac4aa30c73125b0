//! Replays a scenario.

use std::sync::Arc;

use pps_admission::{Settings, SettingsError};
use serde_json::Value;

use crate::actions::apply;
use crate::cluster::{Cluster, recorder};
use crate::finding::Finding;
use crate::limits::{Limits, MAX_DEPTH, MAX_PROBLEMS, measure};
use crate::load::load;
use crate::read::expand;
use crate::result::{Problem, RunResult, Source, Step, World};
use crate::scenario::{Action, Scenario};
use crate::view::view;

/// Replays a scenario of a page, within [`Limits::PAGE`]. The same scenario always has the same
/// result.
///
/// A scenario that is too large has one problem, and no steps.
pub fn run(scenario: &Scenario) -> RunResult {
    run_live(scenario, &[], &Limits::PAGE)
}

/// Replays a scenario with these Pods beside its objects, as if they came after them. They need no
/// `apiVersion` and `kind`, and are not copied, unless they change: most Pods of a live cluster
/// only take room.
pub fn run_live(scenario: &Scenario, pods: &[Arc<Value>], limits: &Limits) -> RunResult {
    if let Some(problem) = check_size(scenario, pods, limits) {
        return RunResult {
            problems: vec![problem],
            steps: Vec::new(),
        };
    }
    let mut replay = Replay::begin(scenario, pods, *limits);
    for (index, action) in scenario.actions.iter().enumerate() {
        replay.step(index, action);
        if replay.exceeds_limits() {
            replay.end_after(index);
            break;
        }
    }
    RunResult {
        problems: shorten_problems(replay.problems),
        steps: replay.steps,
    }
}

/// A scenario while it is replayed.
struct Replay<'a> {
    scenario: &'a Scenario,
    cluster: Cluster,
    problems: Vec<Problem>,
    steps: Vec<Step>,
    /// Bytes of the steps in JSON.
    size: usize,
}

impl<'a> Replay<'a> {
    fn begin(scenario: &'a Scenario, pods: &[Arc<Value>], limits: Limits) -> Self {
        let mut cluster = Cluster::new(scenario, limits);
        let mut problems = check_settings(scenario);
        problems.extend(load(&mut cluster, &scenario.objects, pods));
        if limits.keeps_all {
            // Pods that run already are recorded before the first action.
            recorder::react(&mut cluster);
        }
        let events = std::mem::take(&mut cluster.events);
        let mut replay = Self {
            scenario,
            cluster,
            problems,
            steps: Vec::new(),
            size: 0,
        };
        replay.steps.push(Step {
            action: None,
            events,
            world: replay.world(scenario.actions.is_empty()),
        });
        replay
    }

    fn step(&mut self, index: usize, action: &Action) {
        let observed = self.scenario.observed.get(index);
        self.cluster
            .begin_step(observed.cloned().unwrap_or_default());
        let findings = apply(&mut self.cluster, action).err().unwrap_or_default();
        let source = Source::Action { index };
        let problems = findings.into_iter().map(|finding| problem(source, finding));
        self.problems.extend(problems);
        let is_last = index + 1 == self.scenario.actions.len();
        let step = Step {
            action: Some(action.clone()),
            events: std::mem::take(&mut self.cluster.events),
            world: self.world(is_last),
        };
        if !is_last && self.cluster.limits.keeps_all {
            let size = serde_json::to_vec(&step).map_or(0, |json| json.len());
            self.size = self.size.saturating_add(size);
        }
        self.steps.push(step);
    }

    fn world(&self, is_last: bool) -> World {
        if is_last || self.cluster.limits.keeps_all {
            view(&self.cluster, is_last)
        } else {
            World::default()
        }
    }

    fn exceeds_limits(&self) -> bool {
        let limits = &self.cluster.limits;
        self.cluster.created_pods >= limits.created_pods || self.size > limits.result_bytes
    }

    /// Makes the step of this action the last one.
    fn end_after(&mut self, index: usize) {
        let limits = &self.cluster.limits;
        let message = format!(
            "the scenario ends here: its actions create at most {} Pods, and its steps have at \
             most {} MiB",
            limits.created_pods,
            limits.result_bytes >> 20
        );
        let finding = Finding::of_all(message);
        self.problems
            .push(problem(Source::Action { index }, finding));
        let world = self.world(true);
        if let Some(last) = self.steps.last_mut() {
            last.world = world;
        }
    }
}

/// The first problems, and how many more there are.
fn shorten_problems(mut problems: Vec<Problem>) -> Vec<Problem> {
    if let Some(more) = problems
        .len()
        .checked_sub(MAX_PROBLEMS)
        .filter(|more| *more > 0)
    {
        problems.truncate(MAX_PROBLEMS);
        let message = format!("and {more} more problems: correct these first");
        problems.push(problem(
            Source::Objects { object: None },
            Finding::of_all(message),
        ));
    }
    problems
}

fn problem(source: Source, finding: Finding) -> Problem {
    let Finding {
        field,
        severity,
        message,
    } = finding;
    Problem {
        source,
        field,
        severity,
        message,
    }
}

fn check_settings(scenario: &Scenario) -> Vec<Problem> {
    let finding = match Settings::read(&scenario.settings) {
        Ok(_) => return Vec::new(),
        Err(SettingsError::NotAnObject(_)) => {
            Finding::of_all("the settings must be a map, such as onLookupFailure: reject")
        }
        // Users write the fields of the settings, not those of the policy.
        Err(error) => {
            let field = error.field().trim_start_matches("settings.").to_owned();
            Finding::error(&*field, error.to_string().replace("settings.", ""))
        }
    };
    vec![problem(Source::Settings, finding)]
}

/// What makes a scenario too large.
fn check_size(scenario: &Scenario, pods: &[Arc<Value>], limits: &Limits) -> Option<Problem> {
    check_bytes(scenario, pods, limits).or_else(|| check_counts(scenario, pods, limits))
}

/// A part of a scenario that a user writes in JSON.
struct Part<'a> {
    source: Source,
    value: &'a Value,
}

fn check_bytes(scenario: &Scenario, pods: &[Arc<Value>], limits: &Limits) -> Option<Problem> {
    let objects = scenario.objects.iter().chain(pods.iter().map(Arc::as_ref));
    let objects = objects.enumerate().map(|(index, value)| Part {
        source: Source::Objects {
            object: Some(index),
        },
        value,
    });
    let settings = Part {
        source: Source::Settings,
        value: &scenario.settings,
    };
    let actions = scenario.actions.iter().enumerate();
    let actions = actions.filter_map(|(index, action)| match action {
        Action::ChangeSpec { object } => Some(Part {
            source: Source::Action { index },
            value: object,
        }),
        _ => None,
    });
    let mut rest = limits.bytes;
    for Part { source, value } in objects.chain([settings]).chain(actions) {
        let Some(size) = measure(value, rest) else {
            let message = format!(
                "the scenario is too large: use less than {} KiB of JSON in all, with at most \
                 {MAX_DEPTH} levels",
                limits.bytes / 1024
            );
            return Some(problem(source, Finding::of_all(message)));
        };
        rest -= size;
    }
    None
}

fn check_counts(scenario: &Scenario, pods: &[Arc<Value>], limits: &Limits) -> Option<Problem> {
    let objects = expand(&scenario.objects).len() + pods.len();
    let actions = scenario.actions.len();
    if objects > limits.objects {
        let source = Source::Objects { object: None };
        Some(too_many(source, "objects", objects, limits.objects))
    } else if actions > limits.actions {
        let source = Source::Action {
            index: limits.actions,
        };
        Some(too_many(source, "actions", actions, limits.actions))
    } else {
        None
    }
}

fn too_many(source: Source, what: &str, count: usize, most: usize) -> Problem {
    let message = format!("there are {count} {what}: use at most {most}");
    problem(source, Finding::of_all(message))
}
