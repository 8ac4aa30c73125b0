//! Where OpenKruise's manager and its definitions are, and what the manager needs besides.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use pps_e2e::manifests;
use serde_json::{Value, json};

/// Names the executable of OpenKruise's manager.
const MANAGER: &str = "OPENKRUISE_MANAGER";
/// Names the folder of OpenKruise's definitions, `config/crd/bases` in its repository. By default
/// the folder `crds` beside the manager.
const DEFINITIONS: &str = "OPENKRUISE_CRDS";
/// The user of the manager.
pub(crate) const USER: &str = "kruise-manager";
/// What the manager needs besides its definitions. It writes into the two configurations.
pub(crate) const NEEDS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: kruise-system}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: kruise-mutating-webhook-configuration}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: kruise-validating-webhook-configuration}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kruise-manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: kruise-manager}]
";

fn path_in(variable: &str) -> Option<PathBuf> {
    env::var_os(variable)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

pub(crate) struct OpenKruise {
    pub(crate) manager: PathBuf,
    /// Without the webhook that converts between versions: it would need certificates, and each
    /// version is only read as it was written.
    pub(crate) definitions: Vec<Value>,
}

impl OpenKruise {
    /// None if no variable names the manager, which is said.
    pub(crate) fn read_if_configured() -> Result<Option<Self>> {
        let Some(manager) = path_in(MANAGER) else {
            eprintln!(
                "skipped: OpenKruise. Build its manager (`make build` in its repository), set \
                 {MANAGER} to the executable, and {DEFINITIONS} to its config/crd/bases"
            );
            return Ok(None);
        };
        ensure!(
            manager.is_file(),
            "{MANAGER} names {}, which is not a file",
            manager.display()
        );
        let folder = path_in(DEFINITIONS)
            .unwrap_or_else(|| manager.parent().unwrap_or(Path::new(".")).join("crds"));
        let entries = std::fs::read_dir(&folder).with_context(|| {
            format!(
                "cannot read {}: set {DEFINITIONS} to the folder of OpenKruise's definitions",
                folder.display()
            )
        })?;
        let mut files = entries
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>>>()?;
        files.retain(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        });
        files.sort();
        let mut definitions = Vec::new();
        for file in files {
            definitions.extend(manifests::read(&file)?);
        }
        definitions.retain(|object| object["kind"] == "CustomResourceDefinition");
        ensure!(
            !definitions.is_empty(),
            "{} has no CustomResourceDefinition",
            folder.display()
        );
        for definition in &mut definitions {
            definition["spec"]["conversion"] = json!({"strategy": "None"});
        }
        Ok(Some(Self {
            manager,
            definitions,
        }))
    }
}
