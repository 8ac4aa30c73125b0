//! Replays a scenario.

use std::sync::Arc;

use persistent_pod_state_policy::Settings;
use persistent_pod_state_policy::settings::SettingsError;
use serde_json::Value;

use crate::actions::apply;
use crate::cluster::Cluster;
use crate::finding::Finding;
use crate::limits::{Limits, MAX_DEPTH, MAX_PROBLEMS, measure};
use crate::load::load;
use crate::read::expand;
use crate::result::{Problem, RunResult, Severity, Source, Step, World};
use crate::scenario::{Action, Scenario};
use crate::view::view;

/// Replays a scenario of a page, within [`Limits::PAGE`]. The same scenario always has the same result.
///
/// A scenario that is too large has one problem, and no steps.
pub fn run(scenario: &Scenario) -> RunResult {
    run_within(scenario, &Limits::PAGE)
}

pub fn run_within(scenario: &Scenario, limits: &Limits) -> RunResult {
    run_live(scenario, &[], limits)
}

/// Replays a scenario with these Pods beside its objects, as if they came after them. They need no `apiVersion` and `kind`,
/// and are not copied, unless they change: most Pods of a live cluster only take room.
pub fn run_live(scenario: &Scenario, pods: &[Arc<Value>], limits: &Limits) -> RunResult {
    if let Some(problem) = check_size(scenario, pods, limits) {
        return RunResult { problems: vec![problem], steps: Vec::new() };
    }
    let mut cluster = Cluster::new(scenario, *limits);
    let mut problems = check_settings(scenario);
    problems.extend(load(&mut cluster, &scenario.objects, pods));
    let view = |cluster: &Cluster, is_last: bool| {
        if is_last || limits.keeps_all { view(cluster, is_last) } else { World::default() }
    };
    let mut steps = vec![Step {
        action: None,
        events: std::mem::take(&mut cluster.events),
        world: view(&cluster, scenario.actions.is_empty()),
        displaced: Vec::new(),
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
        let displaced = std::mem::take(&mut cluster.displaced);
        let mut step =
            Step { action: Some(action.clone()), events, world: view(&cluster, is_last), displaced };
        if !is_last && limits.keeps_all {
            size = size.saturating_add(serde_json::to_vec(&step).map_or(0, |json| json.len()));
        }
        let excess = exceeded(&cluster, size);
        if let Some(message) = &excess {
            problems.push(problem(source, Finding::of_all(message.clone())));
            step.world = view(&cluster, true);
        }
        steps.push(step);
        if excess.is_some() {
            break;
        }
    }
    RunResult { problems: shorten_problems(problems), steps }
}

/// Why a scenario ends before its last action.
fn exceeded(cluster: &Cluster, size: usize) -> Option<String> {
    let Limits { created_pods, result_bytes, .. } = cluster.limits;
    if cluster.created_pods >= created_pods {
        return Some(format!(
            "a scenario creates at most {created_pods} Pods, and ends here: use fewer replicas or fewer actions"
        ));
    }
    (size > result_bytes).then(|| {
        format!(
            "the steps of a scenario have at most {} MiB, and it ends here: use smaller objects or fewer actions",
            result_bytes / 1024 / 1024
        )
    })
}

/// The first problems, and how many more there are.
fn shorten_problems(mut problems: Vec<Problem>) -> Vec<Problem> {
    if let Some(more) = problems.len().checked_sub(MAX_PROBLEMS).filter(|more| *more > 0) {
        problems.truncate(MAX_PROBLEMS);
        let message = format!("and {more} more problems: correct these first");
        problems.push(problem(Source::Objects { object: None }, Finding::of_all(message)));
    }
    problems
}

fn problem(source: Source, finding: Finding) -> Problem {
    let Finding { field, severity, message } = finding;
    Problem { source, field, severity, message }
}

fn check_settings(scenario: &Scenario) -> Vec<Problem> {
    let of = |field: Option<String>, message| Problem {
        source: Source::Settings,
        field,
        severity: Severity::Error,
        message,
    };
    match Settings::parse(&scenario.settings.to_string()) {
        Ok(_) => Vec::new(),
        Err(SettingsError::Fields(errors)) => {
            // Users write the fields of the settings, not those of the policy.
            let path = |path: &str| path.trim_start_matches("settings.").to_owned();
            let message = |message: String| message.replace("settings.", "");
            errors.iter().map(|error| of(Some(path(&error.path)), message(error.to_string()))).collect()
        }
        // What the parser of the policy's JSON says has a place that users do not see.
        Err(SettingsError::NotAnObject(_)) => {
            vec![of(None, "the settings must be a map, such as onLookupFailure: reject".to_owned())]
        }
    }
}

/// What makes a scenario too large.
fn check_size(scenario: &Scenario, pods: &[Arc<Value>], limits: &Limits) -> Option<Problem> {
    let objects = scenario.objects.iter().chain(pods.iter().map(Arc::as_ref)).enumerate();
    let objects = objects.map(|(index, object)| (Source::Objects { object: Some(index) }, object));
    let actions = scenario.actions.iter().enumerate().filter_map(|(index, action)| match action {
        Action::AddNode { object } | Action::ChangeSpec { object } => {
            Some((Source::Action { index }, object))
        }
        _ => None,
    });
    let mut rest = limits.bytes;
    for (source, value) in objects.chain([(Source::Settings, &scenario.settings)]).chain(actions) {
        let Some(size) = measure(value, rest) else {
            let message = format!(
                "the scenario is too large: use less than {} KiB of JSON in all, with at most {MAX_DEPTH} levels",
                limits.bytes / 1024
            );
            return Some(problem(source, Finding::of_all(message)));
        };
        rest -= size;
    }
    let objects = expand(&scenario.objects).len() + pods.len();
    let counts = [
        (Source::Objects { object: None }, "objects", objects, limits.objects),
        (Source::Action { index: limits.actions }, "actions", scenario.actions.len(), limits.actions),
    ];
    let (source, what, count, most) = counts.into_iter().find(|(_, _, count, most)| count > most)?;
    Some(problem(source, Finding::of_all(format!("there are {count} {what}: use at most {most}"))))
}
