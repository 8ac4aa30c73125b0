//! The result of a simulation as the page gets it: with lines and columns, and with objects as
//! YAML.

use pps_core::addresses::addresses_in;
use pps_manifest::yaml::Positions;
use pps_manifest::{difference, to_yaml};
use pps_simulation::{PpsView, Problem, RunResult, Source, Step};
use serde_json::{Value, json};

/// The positions in the texts of a scenario.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    pub(crate) objects: Vec<Positions>,
    pub(crate) settings: Positions,
    /// By the action's index; none for actions without YAML.
    pub(crate) actions: Vec<Option<Positions>>,
}

pub(crate) fn result(
    result: &RunResult,
    texts: &Texts,
    actions: &[Value],
) -> Result<Value, serde_json::Error> {
    let mut shown = serde_json::to_value(result)?;
    let problems: Result<Vec<Value>, _> = result
        .problems
        .iter()
        .map(|problem| locate(problem, texts))
        .collect();
    shown["problems"] = problems?.into();
    for (step, Step { world: typed, .. }) in shown["steps"]
        .as_array_mut()
        .into_iter()
        .flatten()
        .zip(&result.steps)
    {
        let world = &mut step["world"];
        for pod in world["pods"].as_array_mut().into_iter().flatten() {
            let manifest = &mut pod["manifest"];
            if !manifest.is_null() {
                let volumes = manifest["after"]["spec"]["volumes"]
                    .as_array()
                    .into_iter()
                    .flatten();
                let paths = volumes.filter_map(|volume| volume["hostPath"]["path"].as_str());
                let paths: Vec<String> = paths.map(str::to_owned).collect();
                let (before, after) = (to_yaml(&manifest["before"]), to_yaml(&manifest["after"]));
                let diff = difference(&before, &after);
                *manifest =
                    json!({"before": before, "after": after, "diff": diff, "hostPaths": paths});
            }
        }
        for (pps, PpsView { states, .. }) in world["pps"]
            .as_array_mut()
            .into_iter()
            .flatten()
            .zip(&typed.pps)
        {
            let mut values = states.values().flat_map(|state| state.annotations.values());
            let records_addresses = values.any(|value| !addresses_in(value).is_empty());
            let object = pps["object"].take();
            let yaml = (!object.is_null()).then(|| to_yaml(&object));
            if let Some(fields) = pps.as_object_mut() {
                fields.remove("object");
                fields.insert("yaml".into(), yaml.into());
                fields.insert("recordsAddresses".into(), records_addresses.into());
            }
        }
    }
    // The page gets its own actions back, with their texts.
    for (step, action) in shown["steps"]
        .as_array_mut()
        .into_iter()
        .flatten()
        .skip(1)
        .zip(actions)
    {
        step["action"] = action.clone();
    }
    Ok(shown)
}

fn locate(problem: &Problem, texts: &Texts) -> Result<Value, serde_json::Error> {
    let field = problem.field.as_deref().unwrap_or_default();
    let (object, action, positions) = match problem.source {
        Source::Objects { object } => (
            object,
            None,
            object.and_then(|object| texts.objects.get(object)),
        ),
        Source::Settings => (None, None, Some(&texts.settings)),
        Source::Action { index } => (
            None,
            Some(index),
            texts.actions.get(index).and_then(Option::as_ref),
        ),
    };
    let source = match problem.source {
        Source::Objects { .. } => "objects",
        Source::Settings => "settings",
        Source::Action { .. } => "action",
    };
    let place = positions.map(|positions| positions.find(field));
    Ok(json!({
        "source": source,
        "object": object,
        "action": action,
        "line": place.map(|place| place.line),
        "column": place.map(|place| place.column),
        "field": problem.field,
        "severity": serde_json::to_value(problem.severity)?,
        "message": problem.message,
    }))
}
