//! Renders the manifests of this repository with kustomize and Helm.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::{env, fs};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{parse, read};
use crate::{control_plane::Version, repository::repository_file, scratch::Scratch};

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

/// Older API servers refuse the rules of a definition as unknown fields.
pub const RULES: Version = Version::minor(23);

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

/// A file with the definition, as `kubectl` of that version takes it. JSON is valid YAML.
pub fn definition_file(version: Version) -> Result<Scratch> {
    let objects = read(&repository_file("deploy/base/crd.yaml"))?;
    Scratch::file(
        "crd.yaml",
        as_served(objects, version).remove(0).to_string(),
    )
}

/// A copy of a chart in a new folder that Helm installs on an API server of that version.
pub fn copy_chart(chart: &Path, version: Version, copy: &Path) -> Result<()> {
    for file in files_below(chart)? {
        let target = copy.join(file.strip_prefix(chart)?);
        fs::create_dir_all(target.parent().context("no folder")?)?;
        let mut text = fs::read_to_string(&file)?;
        if version < Version::minor(21) && file.ends_with("Chart.yaml") {
            let lines = text
                .lines()
                .filter(|line| !line.starts_with("kubeVersion:"));
            text = lines.collect::<Vec<_>>().join("\n");
        }
        if version < RULES && file.ends_with("files/crd.yaml") {
            // JSON is valid YAML.
            text = as_served(parse(&text)?, version).remove(0).to_string();
        }
        fs::write(target, text)?;
    }
    Ok(())
}

/// Replaces versions that this API server does not serve by older ones with the same fields, and
/// removes rules that it does not know.
pub fn as_served(mut objects: Vec<Value>, version: Version) -> Vec<Value> {
    let flow_control = [(23, "v1beta1"), (26, "v1beta2"), (29, "v1beta3")];
    let flow_control = flow_control
        .into_iter()
        .find(|(minor, _)| version < Version::minor(*minor));
    for object in &mut objects {
        if version < RULES {
            remove_rules(object);
        }
        let older = match object["apiVersion"].as_str() {
            Some("policy/v1") if version < Version::minor(21) => Some("policy/v1beta1".to_owned()),
            Some("flowcontrol.apiserver.k8s.io/v1") => {
                flow_control.map(|(_, older)| format!("flowcontrol.apiserver.k8s.io/{older}"))
            }
            _ => None,
        };
        if let Some(older) = older {
            object["apiVersion"] = older.into();
        }
    }
    objects
}

/// Runs `helm` and returns its output, or an error with it.
pub fn helm(arguments: &[&str]) -> Result<String> {
    run("helm", arguments)
}

fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(folder()?.join(program))
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

/// The folder of the programs: `PPS_MANIFEST_TOOLS_DIR`, else the one that `make manifest-tools`
/// fills.
pub fn folder() -> Result<PathBuf> {
    if let Some(folder) = env::var_os("PPS_MANIFEST_TOOLS_DIR") {
        return Ok(folder.into());
    }
    let script = repository_file("hack/manifest-tools.sh");
    let output = Command::new(&script)
        .output()
        .with_context(|| format!("cannot run {}", script.display()))?;
    if !output.status.success() {
        bail!(
            "make manifest-tools fails: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8(output.stdout)?.trim().into())
}

fn path(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    Ok(path
        .to_str()
        .with_context(|| format!("{} is not UTF-8", path.display()))?
        .to_owned())
}
