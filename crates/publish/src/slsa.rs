//! The provenance of a build in GitHub Actions: the predicate of an attestation in the form of
//! <https://slsa.dev/spec/v1.0/provenance>. `cosign attest` adds the digest of the artifact, and signs both.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// Defines the parameters below.
const BUILD_TYPE: &str = "https://actions.github.io/buildtypes/workflow/v1";

/// The predicate for the run of a workflow, which GitHub's variables describe. The same run gives the same
/// bytes.
pub(crate) fn predicate(variable: impl Fn(&str) -> Option<String>) -> Result<Value> {
    let get = |name: &str| {
        variable(name)
            .filter(|value| !value.is_empty())
            .with_context(|| format!("{name} is not set: run this in GitHub Actions, which sets it"))
    };
    let name = get("GITHUB_REPOSITORY")?;
    let repository = format!("{}/{name}", get("GITHUB_SERVER_URL")?);
    let workflow = get("GITHUB_WORKFLOW_REF")?;
    let parts = workflow.strip_prefix(&format!("{name}/")).and_then(|rest| rest.split_once('@'));
    let (path, workflow_ref) = parts.with_context(|| {
        format!("GITHUB_WORKFLOW_REF is {workflow:?}: it must be {name}/<file>@<branch or tag>")
    })?;
    let commit = get("GITHUB_SHA")?;
    let is_commit = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    ensure!(is_commit, "GITHUB_SHA is {commit:?}: it must be a commit");
    let (run, attempt) = (get("GITHUB_RUN_ID")?, get("GITHUB_RUN_ATTEMPT")?);
    Ok(json!({
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "workflow": {"ref": workflow_ref, "repository": repository, "path": path},
            },
            "internalParameters": {
                "github": {
                    "event_name": get("GITHUB_EVENT_NAME")?,
                    "repository_id": get("GITHUB_REPOSITORY_ID")?,
                    "repository_owner_id": get("GITHUB_REPOSITORY_OWNER_ID")?,
                    "runner_environment": get("RUNNER_ENVIRONMENT")?,
                },
            },
            "resolvedDependencies": [{
                "uri": format!("git+{repository}@{}", get("GITHUB_REF")?),
                "digest": {"gitCommit": commit},
            }],
        },
        "runDetails": {
            "builder": {"id": format!("{repository}/{path}@{workflow_ref}")},
            "metadata": {"invocationId": format!("{repository}/actions/runs/{run}/attempts/{attempt}")},
        },
    }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    fn variables() -> BTreeMap<&'static str, &'static str> {
        BTreeMap::from([
            ("GITHUB_SERVER_URL", "https://github.example"),
            ("GITHUB_REPOSITORY", "Owner/name"),
            ("GITHUB_WORKFLOW_REF", "Owner/name/.github/workflows/release.yml@refs/tags/v1.2.3"),
            ("GITHUB_REF", "refs/tags/v1.2.3"),
            ("GITHUB_SHA", COMMIT),
            ("GITHUB_RUN_ID", "42"),
            ("GITHUB_RUN_ATTEMPT", "2"),
            ("GITHUB_EVENT_NAME", "push"),
            ("GITHUB_REPOSITORY_ID", "1"),
            ("GITHUB_REPOSITORY_OWNER_ID", "2"),
            ("RUNNER_ENVIRONMENT", "github-hosted"),
        ])
    }

    fn read(variables: &BTreeMap<&str, &str>) -> Result<Value> {
        predicate(|name| variables.get(name).map(|&value| value.to_owned()))
    }

    #[test]
    fn the_predicate_names_source_builder_and_run() {
        let predicate = read(&variables()).unwrap();
        let build = &predicate["buildDefinition"];
        assert_eq!(build["buildType"], BUILD_TYPE);
        assert_eq!(
            build["externalParameters"]["workflow"],
            json!({"ref": "refs/tags/v1.2.3", "repository": "https://github.example/Owner/name",
                "path": ".github/workflows/release.yml"})
        );
        assert_eq!(
            build["resolvedDependencies"],
            json!([{"uri": "git+https://github.example/Owner/name@refs/tags/v1.2.3",
                "digest": {"gitCommit": COMMIT}}])
        );
        assert_eq!(
            predicate["runDetails"],
            json!({
                "builder": {"id":
                    "https://github.example/Owner/name/.github/workflows/release.yml@refs/tags/v1.2.3"},
                "metadata": {"invocationId":
                    "https://github.example/Owner/name/actions/runs/42/attempts/2"},
            })
        );
    }

    #[test]
    fn names_the_variable_that_is_missing_or_wrong() {
        for name in variables().into_keys() {
            for value in [None, Some("")] {
                let mut changed = variables();
                changed.remove(name);
                changed.extend(value.map(|value| (name, value)));
                let error = read(&changed).unwrap_err().to_string();
                assert_eq!(error, format!("{name} is not set: run this in GitHub Actions, which sets it"));
            }
        }
        for (name, value) in [("GITHUB_SHA", "main"), ("GITHUB_WORKFLOW_REF", "other/name/file@ref")] {
            let mut changed = variables();
            changed.insert(name, value);
            let error = read(&changed).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name} is {value:?}: it must be ")), "{error}");
        }
    }
}
