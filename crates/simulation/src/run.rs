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
    let mut cluster = Cluster::new(scenario, *limits);
    let mut problems = check_settings(scenario);
    problems.extend(load(&mut cluster, &scenario.objects, pods));
    if limits.keeps_all {
        // Pods that run already are recorded before the first action.
        recorder::react(&mut cluster);
    }
    let view = |cluster: &Cluster, is_last: bool| {
        if is_last || limits.keeps_all {
            view(cluster, is_last)
        } else {
            World::default()
        }
    };
    let mut steps = vec![Step {
        action: None,
        events: std::mem::take(&mut cluster.events),
        world: view(&cluster, scenario.actions.is_empty()),
    }];
    let mut size = 0_usize;
    for (index, action) in scenario.actions.iter().enumerate() {
        cluster.minutes += 1;
        cluster.refusals.clear();
        cluster.reported.clear();
        cluster.kept.clear();
        cluster.observed = scenario.observed.get(index).cloned().unwrap_or_default();
        let findings = apply(&mut cluster, action).err().unwrap_or_default();
        let source = Source::Action { index };
        problems.extend(findings.into_iter().map(|finding| problem(source, finding)));
        let is_last = index + 1 == scenario.actions.len();
        let events = std::mem::take(&mut cluster.events);
        let mut step = Step {
            action: Some(action.clone()),
            events,
            world: view(&cluster, is_last),
        };
        if !is_last && limits.keeps_all {
            size = size.saturating_add(serde_json::to_vec(&step).map_or(0, |json| json.len()));
        }
        let is_too_large =
            cluster.created_pods >= limits.created_pods || size > limits.result_bytes;
        if is_too_large {
            let message = format!(
                "the scenario ends here: its actions create at most {} Pods, and its steps have \
                 at most {} MiB",
                limits.created_pods,
                limits.result_bytes >> 20
            );
            problems.push(problem(source, Finding::of_all(message)));
            step.world = view(&cluster, true);
        }
        steps.push(step);
        if is_too_large {
            break;
        }
    }
    RunResult {
        problems: shorten_problems(problems),
        steps,
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
    let objects = scenario
        .objects
        .iter()
        .chain(pods.iter().map(Arc::as_ref))
        .enumerate();
    let objects = objects.map(|(index, object)| {
        (
            Source::Objects {
                object: Some(index),
            },
            object,
        )
    });
    let actions = scenario
        .actions
        .iter()
        .enumerate()
        .filter_map(|(index, action)| match action {
            Action::ChangeSpec { object } => Some((Source::Action { index }, object)),
            _ => None,
        });
    let mut rest = limits.bytes;
    for (source, value) in objects
        .chain([(Source::Settings, &scenario.settings)])
        .chain(actions)
    {
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
    let objects = expand(&scenario.objects).len() + pods.len();
    let counts = [
        (
            Source::Objects { object: None },
            "objects",
            objects,
            limits.objects,
        ),
        (
            Source::Action {
                index: limits.actions,
            },
            "actions",
            scenario.actions.len(),
            limits.actions,
        ),
    ];
    let (source, what, count, most) = counts
        .into_iter()
        .find(|(_, _, count, most)| count > most)?;
    Some(problem(
        source,
        Finding::of_all(format!("there are {count} {what}: use at most {most}")),
    ))
}
