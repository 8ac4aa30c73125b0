//! The metadata of a policy, in the custom section `io.kubewarden.metadata`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use wasmparser::{Parser, Payload};

const SECTION: &str = "io.kubewarden.metadata";

/// The metadata of a policy.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Must be `v1`.
    pub protocol_version: Option<String>,
    /// The requests that the policy evaluates.
    pub rules: Vec<Rule>,
    /// Title, version, …
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Whether it may change objects.
    pub mutating: bool,
    /// Whether the audit scanner uses it.
    #[serde(default = "yes")]
    pub background_audit: bool,
    /// The resources that it may read.
    #[serde(default)]
    pub context_aware_resources: BTreeSet<ContextAwareResource>,
    /// The host capabilities that it may use. None if missing.
    #[serde(default)]
    pub host_capabilities: Option<BTreeSet<String>>,
    /// The oldest supported Kubewarden.
    #[serde(default)]
    pub minimum_kubewarden_version: Option<String>,
    /// The execution mode. The stand-in supports only `kubewarden-wapc`.
    #[serde(default = "wapc")]
    pub execution_mode: String,
}

/// Requests that a policy evaluates, as in a webhook configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// API groups.
    pub api_groups: Vec<String>,
    /// API versions.
    pub api_versions: Vec<String>,
    /// Plural names of the kinds.
    pub resources: Vec<String>,
    /// CREATE, UPDATE, …
    pub operations: Vec<String>,
}

/// A kind that a policy may read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextAwareResource {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
}

fn yes() -> bool {
    true
}

fn wapc() -> String {
    "kubewarden-wapc".to_owned()
}

impl Metadata {
    /// Reads the metadata of a module. Refuses what PolicyServer refuses.
    pub fn of_module(wasm: &[u8]) -> Result<Self> {
        let mut found = None;
        for payload in Parser::new(0).parse_all(wasm) {
            if let Payload::CustomSection(section) = payload.context("not a Wasm module")?
                && section.name() == SECTION
            {
                // PolicyServer ignores a second section of that name.
                found = Some(section.data().to_vec());
                break;
            }
        }
        let Some(json) = found else {
            bail!(
                "Policy is missing protocol version, which is required for KubewardenWapc \
                 execution mode"
            );
        };
        let metadata: Self =
            serde_json::from_slice(&json).with_context(|| format!("cannot read {SECTION}"))?;
        if metadata.execution_mode != wapc() {
            bail!(
                "the stand-in runs only waPC policies, not {:?}",
                metadata.execution_mode
            );
        }
        match metadata.protocol_version.as_deref() {
            Some("v1") => Ok(metadata),
            Some(other) => bail!("Policy uses protocol version {other:?} but only V1 is supported"),
            None => {
                bail!(
                    "Policy is missing protocol version, which is required for KubewardenWapc \
                     execution mode"
                )
            }
        }
    }

    /// Whether the policy may read that kind.
    pub(super) fn may_read(&self, api_version: &str, kind: &str) -> bool {
        self.context_aware_resources
            .iter()
            .any(|known| known.api_version == api_version && known.kind == kind)
    }

    /// Whether it may use that capability, such as `kubernetes/get_resource`.
    pub(super) fn may_use(&self, capability: &str) -> bool {
        self.host_capabilities
            .iter()
            .flatten()
            .map(|pattern| pattern.trim())
            .any(|pattern| {
                pattern == "*"
                    || pattern == capability
                    || pattern.strip_suffix('*').is_some_and(|prefix| {
                        prefix.ends_with('/') && capability.starts_with(prefix)
                    })
            })
    }
}
