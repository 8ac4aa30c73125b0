//! `simulate`: Pods go where it has forecast.

use std::collections::BTreeMap;

use pps_e2e::{
    cluster::Cluster,
    control_plane::ADMIN,
    plugin::{Answer, Plugin},
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use crate::support::{
    HOSTNAME, Pool, Scenario, TIMEOUT, ZONE, homes, list, required, wait_for_review,
};

/// May read its namespace, and nothing else.
pub(super) const USER: &str = "forecaster";
const RIGHTS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: sim-rights, name: forecaster}
rules:
- {apiGroups: [''], resources: [pods, persistentvolumeclaims], verbs: [list]}
- {apiGroups: [apps, apps.kruise.io], resources: [statefulsets, persistentpodstates], verbs: \
                      [list]}
- {apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: sim-rights, name: forecaster}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: forecaster}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: forecaster}]
";
const NODES: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: forecaster}
rules: [{apiGroups: [''], resources: [nodes], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: forecaster}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: forecaster}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: forecaster}]
";

pub(super) fn scenarios(cluster: &Cluster) -> Vec<Scenario<'_>> {
    scenarios![cluster;
        a_drain_goes_as_forecast,
        a_pod_that_requires_its_node_stays_pending_as_forecast,
        a_forecast_needs_no_more_rights_than_to_list,
    ]
}

async fn simulate_as(pool: &Pool<'_>, user: &str, args: &[&str]) -> Answer {
    let plugin = Plugin::new(pool.cluster.control_plane.kubeconfig_for(user).unwrap());
    plugin
        .run(&[&["simulate", "--namespace", pool.namespace], args].concat())
        .await
        .unwrap()
}

async fn simulate(pool: &Pool<'_>, args: &[&str]) -> Answer {
    simulate_as(pool, ADMIN, args).await
}

/// What would happen to each Pod.
fn pods(answer: &Value) -> BTreeMap<String, Value> {
    list(&answer["pods"])
        .map(|pod| (pod["pod"].as_str().unwrap().to_owned(), pod.clone()))
        .collect()
}

/// Waits until a Pod is another one, and says where it is; nothing if no node can take it.
async fn landed(pool: &Pool<'_>, name: &str, before: &str) -> Option<String> {
    wait_for(&format!("{name} to be placed"), TIMEOUT, async || {
        let pods = pool.cluster.pods(pool.namespace, "web").await?;
        let pod = pods
            .get(name)
            .filter(|pod| pod.uid != before && !pod.terminating);
        let decided = match pod {
            Some(pod) if pod.node.is_some() => Some(pod.node.clone()),
            Some(_) => {
                let pod = pool.cluster.pods_api(pool.namespace).get(name).await?;
                let conditions = pod
                    .status
                    .and_then(|status| status.conditions)
                    .unwrap_or_default();
                let is_refused = |one: &&_| {
                    let one: &k8s_openapi::api::core::v1::PodCondition = one;
                    one.reason.as_deref() == Some("Unschedulable")
                };
                conditions.iter().find(is_refused).map(|_| None)
            }
            None => None,
        };
        Ok(decided.map_or_else(
            || Progress::Waiting("no decision".to_owned()),
            Progress::Done,
        ))
    })
    .await
    .unwrap()
}

async fn drain(pool: &Pool<'_>, node: &str) {
    let args = [
        "drain",
        node,
        "--ignore-daemonsets",
        "--force",
        "--timeout=40s",
    ];
    pool.cluster.control_plane.kubectl(&args).await.unwrap();
}

async fn a_drain_goes_as_forecast(cluster: &Cluster) {
    let pool = Pool::new(cluster, "sim-drain", 6, 2).await;
    pool.object("web", &required("web", &[ZONE])).await;
    let before = cluster
        .run_stateful_set(&pool.stateful_set("web", 6))
        .await
        .unwrap();
    pool.recorded("web", "web").await;
    let node = homes(&before)["web-0"].clone();
    let on_it: Vec<&String> = before
        .iter()
        .filter(|(_, pod)| pod.node.as_ref() == Some(&node))
        .map(|(name, _)| name)
        .collect();

    let answer = simulate(&pool, &["--drain", &node, "-o", "json"]).await;
    assert_eq!(answer.exit_code, 0, "{answer:?}");
    let forecast = pods(&answer.json().unwrap());
    assert_eq!(forecast.keys().collect::<Vec<_>>(), on_it, "{answer:?}");
    assert_eq!(answer.stderr, "");

    drain(&pool, &node).await;
    for (name, expected) in &forecast {
        let landed = landed(&pool, name, &before[name].uid)
            .await
            .expect("it has a node");
        let may = list(&expected["mayLandOn"]).any(|node| *node == landed);
        assert!(may, "{name} is on {landed}: {expected}");
        assert_eq!(
            (&expected["then"], &expected["asRecorded"]),
            (&json!("running"), &json!(true))
        );
    }
    let now = simulate(&pool, &["--drain", &node]).await;
    assert_eq!(
        (
            now.exit_code,
            now.stdout
                .contains("No Pod of a StatefulSet would be touched")
        ),
        (0, true),
        "{now:?}"
    );
}

async fn a_pod_that_requires_its_node_stays_pending_as_forecast(cluster: &Cluster) {
    let pool = Pool::new(cluster, "sim-pending", 3, 1).await;
    pool.object("web", &required("web", &[HOSTNAME])).await;
    let before = cluster
        .run_stateful_set(&pool.stateful_set("web", 1))
        .await
        .unwrap();
    pool.recorded("web", "web").await;
    let node = homes(&before)["web-0"].clone();
    let answer = simulate(&pool, &["--drain", &node, "-o", "json"]).await;
    assert_eq!(answer.exit_code, 1, "{answer:?}");
    let forecast = pods(&answer.json().unwrap()).remove("web-0").unwrap();
    assert_eq!(
        (&forecast["then"], &forecast["nodeThen"]),
        (&json!("pending"), &Value::Null)
    );
    assert_eq!(list(&forecast["withoutItsState"]).count(), 2, "{forecast}");

    let table = simulate(&pool, &["--drain", &node]).await;
    let expected = format!("If {node} is drained:");
    assert!(table.stdout.starts_with(&expected), "{table:?}");
    let words = table
        .stdout
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let reason = format!("the Pod's recorded state requires {HOSTNAME} {node}");
    assert!(
        words.contains(&reason) && words.contains("1 would be Pending."),
        "{table:?}"
    );
    let plugin = Plugin::new(cluster.control_plane.kubeconfig_for(ADMIN).unwrap());
    let narrow = plugin
        .run_on_terminal(&["simulate", "-n", "sim-pending", "--drain", &node], 80, "")
        .await
        .unwrap();
    let longest = narrow
        .stdout
        .lines()
        .map(|line| visible(line).chars().count())
        .max()
        .unwrap();
    assert!(longest <= 80, "{longest}: {narrow:?}");

    drain(&pool, &node).await;
    assert_eq!(landed(&pool, "web-0", &before["web-0"].uid).await, None);
    let pending = simulate(&pool, &["--drain", &node]).await;
    assert!(pending.stdout.contains("still Pending"), "{pending:?}");
    assert_eq!(
        pending.exit_code, 1,
        "the drain changes nothing, but the Pod is not well"
    );
}

/// A line without colours.
fn visible(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts
        .fold(first, |text, part| {
            text + part.split_once('m').map_or(part, |(_, rest)| rest)
        })
        .trim_end()
        .to_owned()
}

async fn a_forecast_needs_no_more_rights_than_to_list(cluster: &Cluster) {
    let pool = Pool::new(cluster, "sim-rights", 2, 1).await;
    pool.object("web", &required("web", &[ZONE])).await;
    let before = cluster
        .run_stateful_set(&pool.stateful_set("web", 1))
        .await
        .unwrap();
    pool.recorded("web", "web").await;
    let node = homes(&before)["web-0"].clone();
    cluster.apply(RIGHTS).await.unwrap();
    let review =
        |resource: &str| json!({"verb": "list", "resource": resource, "namespace": "sim-rights"});
    wait_for_review(cluster, USER, &review("pods"), true).await;
    let blind = simulate_as(&pool, USER, &["--drain", &node]).await;
    assert_eq!(blind.exit_code, 2, "{blind:?}");
    assert_eq!(
        blind.stderr,
        "error: you have no permission to list nodes\n"
    );

    cluster.apply(NODES).await.unwrap();
    wait_for_review(
        cluster,
        USER,
        &json!({"verb": "list", "resource": "nodes"}),
        true,
    )
    .await;
    let answer = simulate_as(&pool, USER, &["--drain", &node]).await;
    assert_eq!(answer.exit_code, 0, "{answer:?}");
    assert!(answer.stdout.contains("web-0"), "{answer:?}");
    let words = answer
        .stdout
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for said in [
        "so it is not known where those Pods are",
        "so it is not known where volumes keep Pods",
    ] {
        assert!(words.contains(said), "{said}: {answer:?}");
    }
}
