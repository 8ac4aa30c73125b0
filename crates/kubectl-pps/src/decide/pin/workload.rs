//! Which workload the command line names: `db`, `sts/db`, `statefulset.apps.kruise.io/db`, or a custom kind.

use serde_json::Value;

/// What the command line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadName {
    /// As the user wrote it, in lower case; none for a StatefulSet.
    pub kind: Option<String>,
    /// The API group, if it is named.
    pub group: Option<String>,
    /// The workload's name.
    pub name: String,
}

impl WorkloadName {
    /// Reads `NAME`, `KIND/NAME` or `KIND.GROUP/NAME`.
    ///
    /// # Errors
    ///
    /// If it is none of these.
    pub fn read(text: &str) -> Result<Self, String> {
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) => (Some(kind.to_lowercase()), name),
            None => (None, text),
        };
        if !pps_core::is_dns_subdomain(name) || kind.as_deref() == Some("") {
            return Err(format!("{text:?} is no workload: use NAME of a StatefulSet, or KIND/NAME"));
        }
        let (kind, group) = match kind.as_deref().and_then(|kind| kind.split_once('.')) {
            Some((kind, group)) => (Some(kind.to_owned()), Some(without_version(group).to_owned())),
            None => (kind, None),
        };
        Ok(Self { kind, group, name: name.to_owned() })
    }

    /// Whether it names a StatefulSet of Kubernetes, for which nobody has to be asked.
    pub fn may_be_stateful_set(&self) -> bool {
        let is_kind =
            self.kind.as_deref().is_none_or(|kind| ["sts", "statefulset", "statefulsets"].contains(&kind));
        is_kind && self.group.as_deref().is_none_or(|group| group == "apps")
    }
}

/// `apps` of `v1.apps`, as kubectl accepts it.
fn without_version(group: &str) -> &str {
    match group.split_once('.') {
        Some((version, rest))
            if version.starts_with('v') && version[1..].starts_with(|c: char| c.is_ascii_digit()) =>
        {
            rest
        }
        _ => group,
    }
}

/// A kind of workload that the API server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The API group.
    pub group: String,
    /// The version in which it is read and written.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The name in URLs.
    pub plural: String,
}

impl Resource {
    /// The StatefulSet of Kubernetes.
    pub fn stateful_set() -> Self {
        Self {
            group: "apps".into(),
            version: "v1".into(),
            kind: "StatefulSet".into(),
            plural: "statefulsets".into(),
        }
    }

    /// Group and version.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The path of an object.
    pub fn path(&self, namespace: &str, name: &str) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        format!("/{root}/{}/namespaces/{namespace}/{}/{name}", self.api_version(), self.plural)
    }
}

/// The kind that a user names, among the lists of resources that the API server has for each group in its preferred version.
///
/// # Errors
///
/// If there is none, or if several groups have such a kind.
pub fn find_resource(lists: &[Value], named: &WorkloadName) -> Result<Resource, String> {
    let kind = named.kind.as_deref().unwrap_or("statefulset");
    let found: Vec<Resource> = lists
        .iter()
        .flat_map(|list| {
            let resources = list["resources"].as_array().into_iter().flatten();
            resources.map(move |resource| (list["groupVersion"].as_str().unwrap_or_default(), resource))
        })
        .filter(|(_, resource)| resource["namespaced"] == true && is_called(resource, kind))
        .map(|(group_version, resource)| {
            let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
            let text = |field: &str| resource[field].as_str().unwrap_or_default().to_owned();
            Resource {
                group: group.into(),
                version: version.into(),
                kind: text("kind"),
                plural: text("name"),
            }
        })
        .filter(|resource| named.group.as_ref().is_none_or(|group| *group == resource.group))
        .collect();
    match found.as_slice() {
        [] => Err(format!("this cluster has no namespaced kind {}", shown(named, kind))),
        [resource] => Ok(resource.clone()),
        several => {
            let choices: Vec<String> =
                several.iter().map(|one| format!("{}.{}/{}", one.plural, one.group, named.name)).collect();
            Err(format!("several groups have a kind {kind}: use {}", choices.join(" or ")))
        }
    }
}

fn shown(named: &WorkloadName, kind: &str) -> String {
    named.group.as_ref().map_or_else(|| kind.to_owned(), |group| format!("{kind} of group {group}"))
}

fn is_called(resource: &Value, name: &str) -> bool {
    let is = |value: &Value| value.as_str().is_some_and(|value| value.to_lowercase() == name);
    // A subresource has a slash in its name.
    !resource["name"].as_str().is_some_and(|name| name.contains('/'))
        && (is(&resource["name"])
            || is(&resource["singularName"])
            || is(&resource["kind"])
            || resource["shortNames"].as_array().into_iter().flatten().any(is))
}
