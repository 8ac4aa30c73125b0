//! One sidecar for each namespace, with rights there alone.

use std::{collections::BTreeSet, sync::OnceLock};

use pps_e2e::{manifests, repository::repository_file};
use serde_json::{Value, json};

use super::{find, is_refused, render_with, with_workload, without_check};
use crate::behaviour::permissions::{Grant, of_role};
use crate::support::list;

const NAMESPACES: [&str; 2] = ["shop", "web"];

/// Everything that depends on the sidecars, for two namespaces.
fn rendered() -> &'static [Value] {
    static RENDERED: OnceLock<Vec<Value>> = OnceLock::new();
    let values = json!({
        "namespaces": NAMESPACES, "sidecar": {"evictPendingPods": true},
        "metrics": {"serviceMonitor": {"enabled": true}}, "networkPolicy": {"ingressFrom": [{"podSelector": {}}]},
    });
    RENDERED.get_or_init(|| render_with("namespaces", &with_workload(&values)).unwrap())
}

fn is_of_sidecar(object: &Value) -> bool {
    object["metadata"]["labels"]["app.kubernetes.io/component"] == "sidecar"
}

/// What a sidecar's roles grant.
fn grants<'a>(roles: impl Iterator<Item = &'a Value>) -> BTreeSet<String> {
    let text =
        |((group, resource, verb), names): Grant| format!("{verb} {resource}.{group} {names}");
    roles.flat_map(of_role).map(text).collect()
}

#[test]
fn the_rights_of_each_sidecar_are_those_of_the_base_in_one_namespace() {
    let objects = without_check(rendered().to_vec());
    let base = manifests::read(&repository_file("deploy/base/rbac.yaml")).unwrap();
    let is_role = |object: &&Value, kind: &str| object["kind"] == kind && is_of_sidecar(object);
    let cluster = find(&objects, "ClusterRole", "pps-sidecar");
    for namespace in NAMESPACES {
        let roles = objects.iter().filter(|object| is_role(object, "Role"));
        let roles: Vec<&Value> = roles
            .filter(|role| role["metadata"]["namespace"] == namespace)
            .collect();
        assert_eq!(roles.len(), 1, "{namespace}: {roles:?}");
        let both = grants(roles.iter().copied().chain([cluster]));
        assert_eq!(
            both,
            grants([find(&base, "ClusterRole", "pps-sidecar")].into_iter()),
            "{namespace}"
        );
        let lease = find(&objects, "Role", &format!("pps-sidecar-{namespace}"));
        assert_eq!(lease["metadata"]["namespace"], "elsewhere");
        assert_eq!(
            lease["rules"][1]["resourceNames"],
            json!([format!("pps-sidecar-{namespace}")])
        );
    }
    let resources = list(&cluster["rules"]).flat_map(|rule| list(&rule["resources"]));
    let resources: BTreeSet<&str> = resources.filter_map(Value::as_str).collect();
    // The last two only by name.
    let expected = [
        "configmaps",
        "customresourcedefinitions",
        "leases",
        "namespaces",
        "nodes",
    ];
    assert_eq!(resources, expected.into());
    assert_eq!(
        list(&cluster["rules"])
            .filter(|rule| rule["resourceNames"].is_array())
            .count(),
        2
    );

    let is_binding = |object: &&Value| !object["subjects"].is_null() && is_of_sidecar(object);
    let mut bound = BTreeSet::new();
    for binding in objects.iter().filter(is_binding) {
        let namespace = binding["metadata"]["namespace"].as_str().unwrap_or("all");
        let accounts: Vec<&str> = list(&binding["subjects"])
            .filter_map(|subject| subject["name"].as_str())
            .collect();
        bound.insert((
            namespace,
            binding["roleRef"]["name"].as_str().unwrap(),
            accounts,
        ));
    }
    let (shop, web) = ("pps-sidecar-shop", "pps-sidecar-web");
    let mut expected = BTreeSet::from([
        ("all", "pps-sidecar", vec![shop, web]),
        ("elsewhere", shop, vec![shop]),
        ("elsewhere", web, vec![web]),
    ]);
    for role in [
        "pps-sidecar",
        "pps-sidecar-custom-kinds",
        "pps-sidecar-evict-pending-pods",
    ] {
        expected.extend([("shop", role, vec![shop]), ("web", role, vec![web])]);
    }
    assert_eq!(bound, expected);
}

#[test]
fn each_sidecar_records_one_namespace_and_the_policy_selects_the_same() {
    let objects = rendered();
    let mut selectors = Vec::new();
    for namespace in NAMESPACES {
        let name = format!("pps-sidecar-{namespace}");
        let deployment = &find(objects, "Deployment", &name)["spec"];
        let pod = &deployment["template"];
        let selector = &deployment["selector"]["matchLabels"];
        assert_eq!(selector["persistent-pod-state/namespace"], namespace);
        assert_eq!(
            pod["metadata"]["labels"]["persistent-pod-state/namespace"],
            namespace
        );
        assert_eq!(
            &find(objects, "PodDisruptionBudget", &name)["spec"]["selector"]["matchLabels"],
            selector
        );
        assert_eq!(
            &pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
            selector
        );
        assert_eq!(pod["spec"]["serviceAccountName"], *name);
        find(objects, "ServiceAccount", &name);
        let scope = format!(
            "persistent-pod-state/injection=enabled,kubernetes.io/metadata.name={namespace}"
        );
        let args = &pod["spec"]["containers"][0]["args"];
        let expected = [
            format!("--namespace={namespace}"),
            format!("--lease-name={name}"),
            format!("--namespace-selector={scope}"),
        ];
        assert_eq!(args.as_array().unwrap()[1..], expected.map(Value::from));
        selectors.push(selector.clone());
    }
    let mut common = selectors.remove(0);
    common
        .as_object_mut()
        .unwrap()
        .remove("persistent-pod-state/namespace");
    assert_eq!(
        find(objects, "Service", "pps-sidecar")["spec"]["selector"],
        common
    );
    assert_eq!(
        find(objects, "NetworkPolicy", "pps-sidecar")["spec"]["podSelector"]["matchLabels"],
        common
    );
    let monitor = &find(objects, "ServiceMonitor", "pps-sidecar")["spec"];
    assert_eq!(monitor["selector"]["matchLabels"], common);
    assert_eq!(
        monitor["podTargetLabels"],
        json!(["persistent-pod-state/namespace"])
    );
    let subjects =
        &find(objects, "FlowSchema", "pps-sidecar-leader-election")["spec"]["rules"][0]["subjects"];
    let accounts: Vec<&Value> = list(subjects)
        .map(|subject| &subject["serviceAccount"]["name"])
        .collect();
    assert_eq!(accounts, ["pps-sidecar-shop", "pps-sidecar-web"]);
    for policy in [
        "persistent-pod-state",
        "persistent-pod-state-custom-workloads",
    ] {
        let policy = &find(objects, "ClusterAdmissionPolicy", policy)["spec"];
        assert_eq!(
            policy["namespaceSelector"]["matchExpressions"],
            json!([
                {"key": "persistent-pod-state/injection", "operator": "In", "values": ["enabled"]},
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": NAMESPACES},
            ])
        );
    }
    let check = find(objects, "ClusterRole", "pps-check-after");
    let leases = list(&check["rules"])
        .find(|rule| rule["resources"] == json!(["leases"]))
        .unwrap();
    assert_eq!(
        leases["resourceNames"],
        json!(["pps-sidecar-shop", "pps-sidecar-web", "kruise-manager"])
    );
}

#[test]
fn names_are_no_longer_than_a_label_and_those_of_two_namespaces_differ() {
    let long = ["a", "b"].map(|end| format!("{}-{end}", "n".repeat(61)));
    let objects = render_with(
        "long",
        &json!({"namespaces": long, "serviceAccount": {"name": "given"}}),
    )
    .unwrap();
    for kind in ["Deployment", "ServiceAccount"] {
        let all = without_check(objects.clone())
            .into_iter()
            .filter(|object| object["kind"] == kind);
        let names = all.filter(is_of_sidecar);
        let names: BTreeSet<String> = names
            .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(
            names
                .iter()
                .all(|name| name.len() <= 63 && !name.contains("--")),
            "{names:?}"
        );
    }
}

#[test]
fn namespaces_that_no_sidecar_can_record_are_refused() {
    let openkruise = json!({"namespaces": ["shop"], "sidecar": {"recorder": "openkruise"}, "replicaCount": 1,
        "crds": {"enabled": false}});
    for (values, part) in [
        (
            json!({"namespaces": ["kube-system"]}),
            "namespaces has \"kube-system\": remove it",
        ),
        (
            json!({"namespaces": ["elsewhere"]}),
            "namespaces has \"elsewhere\": remove it",
        ),
        (
            json!({"namespaces": ["kubewarden"]}),
            "namespaces has \"kubewarden\": remove it",
        ),
        (openkruise, "OpenKruise's manager records"),
    ] {
        let error = render_with("refused", &values).expect_err(&format!("{values} is accepted"));
        assert!(format!("{error:#}").contains(part), "{values}: {error:#}");
    }
    let invalid =
        json!({"namespaces": ["shop", "shop", ""], "sidecar": {"extraArgs": ["--namespace=shop"]}});
    is_refused(
        &invalid,
        "'/namespaces': '/namespaces/2': '/sidecar/extraArgs/0':",
    );
}
