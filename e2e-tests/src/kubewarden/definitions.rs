//! The definitions of Kubewarden's kinds. Kubewarden's controller does not run here.

use std::{env, fs, path::PathBuf, sync::Once};

use anyhow::{Context, Result, ensure};
use kube::Client;
use serde_json::{Value, json};

use crate::{manifests, report};

/// Kubewarden's namespace, with the accounts of its policy servers.
pub const NAMESPACE: &str = "kubewarden";
/// The account of the policy server `default`.
pub const SERVICE_ACCOUNT: &str = "policy-server";

const DEFINITIONS_ENV: &str = "KUBEWARDEN_CRDS";
const GROUP: &str = "policies.kubewarden.io";

/// Makes Kubewarden's namespace and lets the cluster store Kubewarden's kinds: with the definitions
/// in the folder that `KUBEWARDEN_CRDS` names, else with permissive ones that accept any field.
pub async fn install_definitions(client: &Client) -> Result<()> {
    manifests::ensure_namespace(client, NAMESPACE).await?;
    manifests::apply(client, &definitions()?).await?;
    Ok(())
}

fn definitions() -> Result<Vec<Value>> {
    let Some(folder) = env::var_os(DEFINITIONS_ENV).filter(|folder| !folder.is_empty()) else {
        static REPORTED: Once = Once::new();
        REPORTED.call_once(|| {
            report::skipped(
                "validation of the manifests by Kubewarden's own definitions",
                &format!("set {DEFINITIONS_ENV}=… (the folder with their YAML) to run it"),
            );
        });
        return Ok([
            ("ClusterAdmissionPolicy", "clusteradmissionpolicies"),
            ("PolicyServer", "policyservers"),
        ]
        .map(|(kind, plural)| permissive_definition(GROUP, "v1", kind, plural, "Cluster"))
        .into());
    };
    let folder = PathBuf::from(folder);
    let mut definitions = Vec::new();
    for file in
        fs::read_dir(&folder).with_context(|| format!("{DEFINITIONS_ENV}={}", folder.display()))?
    {
        let path = file?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            definitions.extend(manifests::read(&path)?.into_iter().filter(|object| {
                object["kind"] == "CustomResourceDefinition" && object["spec"]["group"] == GROUP
            }));
        }
    }
    ensure!(
        !definitions.is_empty(),
        "{DEFINITIONS_ENV}={} has no definition of {GROUP}",
        folder.display()
    );
    Ok(definitions)
}

/// The definition of a kind that accepts any field.
pub fn permissive_definition(
    group: &str,
    version: &str,
    kind: &str,
    plural: &str,
    scope: &str,
) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}
