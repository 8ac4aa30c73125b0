//! Reads a scenario, runs it, and reports each problem with its text and line.

use pps_manifest::yaml::{self, Document, Place, YamlError};
use pps_simulation::Scenario;
use serde_json::{Map, Value, json};

use crate::view::{self, Texts};

/// The format of scenarios that this version reads.
const VERSION: u64 = 1;
/// The largest scenario: its texts, quoted.
const MAX_BYTES: usize = 8 << 20;

/// Replays a scenario, which is JSON. The result is JSON; it has problems and no steps if the
/// scenario cannot be read.
pub fn run_text(scenario: &str) -> String {
    let result = match read(scenario) {
        Ok((scenario, texts, actions)) => {
            view::result(&pps_simulation::run(&scenario), &texts, &actions)
        }
        Err(problems) => Ok(json!({"problems": problems, "steps": []})),
    };
    match result {
        Ok(result) => result.to_string(),
        Err(error) => {
            json!({"problems": [problem("scenario", None, None, &error.to_string())], "steps": []})
                .to_string()
        }
    }
}

type Problems = Vec<Value>;

/// The scenario with its texts parsed, and its actions unchanged.
fn read(text: &str) -> Result<(Scenario, Texts, Vec<Value>), Problems> {
    let unreadable = |message: String| vec![problem("scenario", None, None, &message)];
    if text.len() > MAX_BYTES {
        return Err(unreadable(format!(
            "the scenario has {} bytes, at most {MAX_BYTES} are read",
            text.len()
        )));
    }
    // Not at once as a scenario: numbers are text in this build, and serde could not read them
    // within an action.
    let mut fields: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| unreadable(format!("this is not a scenario: {error}")))?;
    let version = fields.remove("version").unwrap_or_default();
    if version.as_u64() != Some(VERSION) {
        return Err(unreadable(format!(
            "version is {version}: this page reads scenarios of version {VERSION}"
        )));
    }
    let mut problems = Vec::new();
    let mut texts = Texts::default();

    let objects = text_of(&fields, "objects").map_err(unreadable)?;
    match yaml::parse(objects) {
        Ok(documents) => {
            let mut values = Vec::new();
            for Document { value, positions } in documents {
                values.push(value);
                texts.objects.push(positions);
            }
            fields.insert("objects".into(), values.into());
        }
        Err(error) => problems.push(syntax("objects", None, &error)),
    }
    let settings = text_of(&fields, "settings").map_err(unreadable)?;
    match yaml::parse_one(settings) {
        Ok(Document { value, positions }) => {
            texts.settings = positions;
            fields.insert("settings".into(), value);
        }
        Err(error) => problems.push(syntax("settings", None, &error)),
    }
    let actions = fields
        .get("actions")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    for (index, action) in actions.iter().enumerate() {
        let yaml = action.get("yaml").and_then(Value::as_str);
        let document = yaml.map(yaml::parse_one).transpose();
        let document = document.unwrap_or_else(|error| {
            problems.push(syntax("action", Some(index), &error));
            None
        });
        if let Some(Document { value, .. }) = &document
            && let Some(action) = fields["actions"][index].as_object_mut()
        {
            action.remove("yaml");
            action.insert("object".into(), value.clone());
        }
        texts
            .actions
            .push(document.map(|document| document.positions));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let scenario = serde_json::from_value(fields.into())
        .map_err(|error| unreadable(format!("this is not a scenario: {error}")))?;
    Ok((scenario, texts, actions))
}

fn text_of<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    match fields.get(name) {
        None => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("{name} is not a string: it must be YAML")),
    }
}

fn syntax(source: &str, action: Option<usize>, error: &YamlError) -> Value {
    problem(source, action, Some(error.place), &error.message)
}

fn problem(source: &str, action: Option<usize>, place: Option<Place>, message: &str) -> Value {
    json!({
        "source": source,
        "object": null,
        "action": action,
        "line": place.map(|place| place.line),
        "column": place.map(|place| place.column),
        "field": null,
        "severity": "error",
        "message": message,
    })
}
