//! Renders the manifests of this repository with kustomize and Helm.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{parse, read};
use crate::{programs::Group, repository::repository_file};

/// The Helm chart of this repository.
pub const CHART: &str = "charts/persistent-pod-state";
/// The values that the chart requires, and that give its objects the names of `deploy`.
pub const REQUIRED: &str = "e2e-tests/values/required.yaml";

/// Renders a kustomization, given by its folder from the root of the repository, such as `deploy`.
/// Many tests ask for the same, and each time takes kustomize 0.2 seconds.
pub fn render_kustomize(folder: &str) -> Result<Vec<Value>> {
    static RENDERED: Mutex<BTreeMap<String, Vec<Value>>> = Mutex::new(BTreeMap::new());
    let mut rendered = RENDERED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(objects) = rendered
        .get(folder)
        .filter(|_| Path::new(folder).is_relative())
    {
        return Ok(objects.clone());
    }
    let text = run("kustomize", &["build", &path(repository_file(folder))?])?;
    let objects = parse(&text).with_context(|| format!("the output of kustomize for {folder}"))?;
    rendered.insert(folder.to_owned(), objects.clone());
    Ok(objects)
}

/// Renders the chart with `helm template` and a file of values, and with [`REQUIRED`].
pub fn render_chart(release: &str, namespace: &str, values: Option<&Path>) -> Result<Vec<Value>> {
    let required = repository_file(REQUIRED);
    let files: Vec<&Path> = [required.as_path()].into_iter().chain(values).collect();
    render_chart_with(release, namespace, &files)
}

/// Renders the chart with `helm template` and these files of values alone.
pub fn render_chart_with(release: &str, namespace: &str, values: &[&Path]) -> Result<Vec<Value>> {
    let chart = path(repository_file(CHART))?;
    let files = values.iter().map(path).collect::<Result<Vec<String>>>()?;
    let mut arguments = vec!["template", release, &chart, "--namespace", namespace];
    arguments.extend(files.iter().flat_map(|file| ["--values", file]));
    parse(&run("helm", &arguments)?).context("the output of Helm")
}

/// Finds the folders that can be applied, as paths from the root of the repository: `deploy`,
/// `deploy/base`, ….
pub fn kustomizations() -> Result<Vec<String>> {
    let root = repository_file("");
    let mut found = Vec::new();
    for file in files_below(&repository_file("deploy"))? {
        let folder = file
            .parent()
            .filter(|_| file.ends_with("kustomization.yaml"));
        let Some(folder) = folder.and_then(|folder| folder.strip_prefix(&root).ok()) else {
            continue;
        };
        if read(&file)?
            .iter()
            .any(|object| object["kind"] == "Kustomization")
        {
            found.push(path(folder)?);
        }
    }
    found.sort();
    Ok(found)
}

/// Finds all files below a folder.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files_below(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

/// Kind, namespace and name of an object, for people to read.
pub fn name_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    format!(
        "{} {}/{}",
        text(&object["kind"]),
        text(&metadata["namespace"]),
        text(&metadata["name"])
    )
}

/// Removes the rules of a definition, wherever they are.
pub fn remove_rules(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            fields.values_mut().for_each(remove_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_rules),
        _ => {}
    }
}

/// Runs `helm` and returns its output, or an error with it.
pub fn helm(arguments: &[&str]) -> Result<String> {
    run("helm", arguments)
}

fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(Group::Publish.program(program)?)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    let (answer, complaint) = (
        String::from_utf8(output.stdout)?,
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    if !output.status.success() {
        bail!("{program} {}: {answer}{complaint}", arguments.join(" "));
    }
    Ok(answer)
}

fn path(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    Ok(path
        .to_str()
        .with_context(|| format!("{} is not UTF-8", path.display()))?
        .to_owned())
}
