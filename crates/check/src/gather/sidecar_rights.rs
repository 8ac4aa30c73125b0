//! Whether the sidecar has the rights without which it records nothing.

use futures::future::join_all;

use crate::facts::{Facts, Objects, Read, Right, ServiceAccountName};
use crate::reader::Reader;
use crate::settings::Recorder;

/// A kind that the sidecar watches.
struct Watched {
    group: &'static str,
    resource: &'static str,
}

const GROUP: &str = "apps.kruise.io";
const WATCHED_IN_CLUSTER: [Watched; 3] = [
    Watched {
        group: "",
        resource: "nodes",
    },
    Watched {
        group: "",
        resource: "namespaces",
    },
    Watched {
        group: "apiextensions.k8s.io",
        resource: "customresourcedefinitions",
    },
];
const WATCHED_IN_NAMESPACES: [Watched; 3] = [
    Watched {
        group: "",
        resource: "pods",
    },
    Watched {
        group: "apps",
        resource: "statefulsets",
    },
    Watched {
        group: GROUP,
        resource: "persistentpodstates",
    },
];

impl Watched {
    fn rights(&self) -> [Right; 2] {
        ["list", "watch"].map(|verb| Right::new(verb, self.group, self.resource))
    }
}

/// Asks for the rights of the sidecar's ServiceAccount.
pub(super) async fn read(reader: &Reader, facts: &mut Facts) {
    if facts.setup.recorder != Recorder::Own {
        return;
    }
    let Some(account) = account(facts) else {
        return;
    };
    let answers = needed(facts).into_iter().map(|right| async {
        let may = reader.may(&account, &right).await;
        (may == Read::Known(false)).then_some(right)
    });
    facts.missing_sidecar_rights = join_all(answers).await.into_iter().flatten().collect();
}

/// Asks for the rights without which no Pod gives up its place, if a requirement has an end.
pub(super) async fn read_for_fallbacks(reader: &Reader, facts: &mut Facts, objects: &Objects) {
    let recorded = facts.setup.namespace.as_ref();
    facts.falls_back = objects.listed.iter().any(|object| {
        object.falls_back && recorded.is_none_or(|recorded| *recorded == object.namespace)
    });
    let Some(account) = account(facts).filter(|_| facts.falls_back) else {
        return;
    };
    let recorded = facts.setup.namespace.as_ref();
    let mut rights = vec![
        Right::new("create", "", "pods/eviction"),
        Right::new("get", "", "persistentvolumeclaims"),
    ];
    for right in &mut rights {
        right.namespace = recorded.cloned();
    }
    rights.push(Right::new("get", "", "persistentvolumes"));
    // What other Pods take of a node.
    rights.push(Right::new("list", "", "pods"));
    let answers = rights.into_iter().map(|right| async {
        let may = reader.may(&account, &right).await;
        (may == Read::Known(false)).then_some(right)
    });
    facts.missing_fallback_rights = join_all(answers).await.into_iter().flatten().collect();
}

fn account(facts: &Facts) -> Option<ServiceAccountName> {
    let spec = facts.own_sidecar()?.spec.template.spec.as_ref();
    let name = spec.and_then(|spec| spec.service_account_name.as_deref());
    Some(ServiceAccountName {
        namespace: facts.settings.namespace.clone(),
        name: name.unwrap_or("default").to_owned(),
    })
}

fn needed(facts: &Facts) -> Vec<Right> {
    let mut rights: Vec<Right> = WATCHED_IN_NAMESPACES
        .iter()
        .flat_map(Watched::rights)
        .chain([
            Right::new("create", GROUP, "persistentpodstates"),
            Right::new("patch", GROUP, "persistentpodstates/status"),
        ])
        .map(|right| Right {
            namespace: facts.setup.namespace.clone(),
            ..right
        })
        .collect();
    rights.extend(WATCHED_IN_CLUSTER.iter().flat_map(Watched::rights));
    if let Some(lease) = &facts.setup.lease {
        let namespace = facts.settings.namespace.as_str();
        rights.extend([
            on_leases("create", namespace),
            on_leases("get", namespace).named(lease),
            on_leases("update", namespace).named(lease),
        ]);
    }
    rights
}

fn on_leases(verb: &'static str, namespace: &str) -> Right {
    Right::new(verb, "coordination.k8s.io", "leases").within(namespace)
}
