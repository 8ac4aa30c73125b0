use super::{Resource, Unread};

/// The right to `list pods in namespace shop` is missing.
pub(crate) fn forbidden(what: &str) -> Unread {
    let namespace = what
        .split_once(" in namespace ")
        .map(|(_, namespace)| namespace);
    let all = [
        Resource::PersistentPodStates,
        Resource::Pods,
        Resource::Nodes,
        Resource::StatefulSets,
        Resource::KruiseStatefulSets,
        Resource::PersistentVolumeClaims,
        Resource::PersistentVolumes,
        Resource::PodDisruptionBudgets,
    ];
    let unread = |resource| Unread {
        resource,
        namespace: namespace.map(str::to_owned),
        why: None,
    };
    let found = all
        .into_iter()
        .map(unread)
        .find(|one| one.to_string().ends_with(&format!("to {what}")));
    found.unwrap_or_else(|| panic!("{what}: no such list"))
}
