//! Reads YAML and applies it to a cluster.

pub mod render;

use std::{collections::HashMap, fs, path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
    discovery::{Scope, pinned_kind},
};
use pps_core::INJECTION_LABEL;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::wait::{Progress, wait_for};

const FIELD_MANAGER: &str = "pps-e2e";

/// Parses all objects of a YAML text. Skips empty documents and unwraps lists.
pub fn parse(yaml: &str) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for document in yaml_serde::Deserializer::from_str(yaml) {
        match Value::deserialize(document)? {
            Value::Null => {}
            Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
                if let Some(Value::Array(items)) = list.remove("items") {
                    objects.extend(items);
                }
            }
            object => objects.push(object),
        }
    }
    Ok(objects)
}

/// Reads all objects of a YAML file.
pub fn read(path: &Path) -> Result<Vec<Value>> {
    let yaml =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&yaml).with_context(|| path.display().to_string())
}

/// Applies objects in order (server-side, with force). CRDs are served before the objects after
/// them are applied: an API server takes several CRDs that come at once for one change.
pub async fn apply(client: &Client, objects: &[Value]) -> Result<Vec<DynamicObject>> {
    let mut kinds = HashMap::new();
    let (mut applied, mut unserved) = (Vec::new(), Vec::new());
    for object in objects {
        let object: DynamicObject =
            serde_json::from_value(object.clone()).context("not a Kubernetes object")?;
        let is_definition = kind_of(&object) == "CustomResourceDefinition";
        if !is_definition {
            wait_until_served(client, std::mem::take(&mut unserved)).await?;
        }
        let api = api_for(client, &object, &mut kinds).await?;
        let name = object
            .metadata
            .name
            .clone()
            .context("an object without a name")?;
        let done = api
            .patch(
                &name,
                &PatchParams::apply(FIELD_MANAGER).force(),
                &Patch::Apply(&object),
            )
            .await;
        let done = done.with_context(|| format!("cannot apply {} {name}", kind_of(&object)))?;
        if is_definition {
            unserved.push(done.clone());
        }
        applied.push(done);
    }
    wait_until_served(client, unserved).await?;
    Ok(applied)
}

/// Applies YAML.
pub async fn apply_yaml(client: &Client, yaml: &str) -> Result<Vec<DynamicObject>> {
    apply(client, &parse(yaml)?).await
}

/// Applies a YAML file.
pub async fn apply_file(client: &Client, path: &Path) -> Result<Vec<DynamicObject>> {
    apply(client, &read(path)?)
        .await
        .with_context(|| path.display().to_string())
}

/// Makes a namespace that is in scope, unless it exists.
pub async fn ensure_namespace(client: &Client, name: &str) -> Result<()> {
    let labels = json!({INJECTION_LABEL: "enabled"});
    let namespace = serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}}))?;
    match Api::<Namespace>::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await
    {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(other) => Err(other.into()),
        Ok(_) => Ok(()),
    }
}

/// Binds the cluster roles and roles of a YAML file to a user, in place of the bindings in the
/// file, which name service accounts. With names in `only`, takes only these roles.
pub async fn apply_rbac_from(
    client: &Client,
    path: &Path,
    user: &str,
    only: &[&str],
) -> Result<()> {
    let mut objects = Vec::new();
    for role in read(path)? {
        let kind = role["kind"].as_str().unwrap_or_default().to_owned();
        let name = role["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if !matches!(kind.as_str(), "ClusterRole" | "Role")
            || !(only.is_empty() || only.contains(&name.as_str()))
        {
            continue;
        }
        let mut metadata = json!({"name": format!("{name}-{}", user.replace(':', "-"))});
        if kind == "Role" {
            let namespace = role["metadata"]["namespace"].as_str().unwrap_or("default");
            ensure_namespace(client, namespace).await?;
            metadata["namespace"] = json!(namespace);
        }
        let group = "rbac.authorization.k8s.io";
        objects.push(role);
        objects.push(
            json!({"apiVersion": format!("{group}/v1"), "kind": format!("{kind}Binding"),
            "metadata": metadata, "roleRef": {"apiGroup": group, "kind": kind, "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}]}),
        );
    }
    if objects.is_empty() {
        bail!("{} has none of the roles {only:?}", path.display());
    }
    apply(client, &objects)
        .await
        .with_context(|| path.display().to_string())?;
    Ok(())
}

async fn api_for(
    client: &Client,
    object: &DynamicObject,
    kinds: &mut HashMap<GroupVersionKind, (ApiResource, Scope)>,
) -> Result<Api<DynamicObject>> {
    let types = object
        .types
        .as_ref()
        .context("an object without apiVersion and kind")?;
    let wanted = GroupVersionKind::try_from(types)?;
    if !kinds.contains_key(&wanted) {
        let (resource, capabilities) = pinned_kind(client, &wanted).await.with_context(|| {
            format!(
                "the cluster does not serve {} {}",
                types.api_version, types.kind
            )
        })?;
        kinds.insert(wanted.clone(), (resource, capabilities.scope));
    }
    let (resource, scope) = &kinds[&wanted];
    Ok(match scope {
        Scope::Cluster => Api::all_with(client.clone(), resource),
        Scope::Namespaced => {
            let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
            Api::namespaced_with(client.clone(), &namespace, resource)
        }
    })
}

/// Waits until the objects of these CRDs can be listed.
async fn wait_until_served(client: &Client, definitions: Vec<DynamicObject>) -> Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for crd in &definitions {
        let spec = &crd.data["spec"];
        let versions = spec["versions"].as_array().into_iter().flatten();
        for version in versions.filter(|version| version["served"] == json!(true)) {
            let kind = GroupVersionKind::gvk(
                &text(&spec["group"]),
                &text(&version["name"]),
                &text(&spec["names"]["kind"]),
            );
            let resource =
                ApiResource::from_gvk_with_plural(&kind, &text(&spec["names"]["plural"]));
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            wait_for(
                &format!("{} to be served", crd.name_any()),
                Duration::from_mins(2),
                async || {
                    api.list(&kube::api::ListParams::default().limit(1)).await?;
                    // Discovery shows the kind a moment later.
                    pinned_kind(client, &kind).await?;
                    Ok(Progress::Done(()))
                },
            )
            .await?;
        }
    }
    Ok(())
}

fn kind_of(object: &DynamicObject) -> &str {
    object
        .types
        .as_ref()
        .map_or("object", |types| types.kind.as_str())
}
