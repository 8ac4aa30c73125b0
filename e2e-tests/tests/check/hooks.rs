//! The chart's hooks: the Job before an installation, and the Pod of `helm test`, as Helm runs
//! them. Their processes are real.

use std::time::Duration;

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{Api, ResourceExt, api::ListParams};
use pps_e2e::{
    manifests::{self, render::render_chart},
    repository::repository_file,
    scratch::Scratch,
    sidecar::NAMESPACE,
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};

use super::world::World;

const TIMEOUT: Duration = Duration::from_mins(2);

/// The objects of the chart.
fn render(world: &World, values: &Value) -> Vec<Value> {
    let host = world.module.split('/').next().unwrap();
    let mut all = world.installation().chart_values();
    let own =
        json!({"policyServer": {"insecureSources": [host]}, "check": {"beforeChanges": true}});
    json_patch::merge(&mut all, &own);
    json_patch::merge(&mut all, values);
    let file = Scratch::file("hooks.yaml", all.to_string()).unwrap();
    render_chart("pps", NAMESPACE, Some(file.path())).unwrap()
}

/// The objects of the chart that belong to a hook.
fn hooks(world: &World, hook: &str, values: &Value) -> Vec<Value> {
    let is_hook = |object: &Value| {
        let hooks = object["metadata"]["annotations"]["helm.sh/hook"]
            .as_str()
            .unwrap_or_default();
        hooks.split(',').any(|one| one == hook)
    };
    let mut found: Vec<Value> = render(world, values).into_iter().filter(is_hook).collect();
    let weight = |object: &Value| -> i32 {
        object["metadata"]["annotations"]["helm.sh/hook-weight"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    };
    found.sort_by_key(weight);
    found
}

/// The chart's roles grant what `deploy/check.yaml` grants.
pub(super) fn have_the_same_rights(world: &World) {
    for hook in ["pre-install", "pre-upgrade", "test"] {
        let objects = hooks(world, hook, &json!({}));
        let kinds: Vec<&str> = objects
            .iter()
            .map(|object| object["kind"].as_str().unwrap())
            .collect();
        let last = if hook == "test" { "Pod" } else { "Job" };
        assert_eq!(
            kinds,
            ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", last]
        );
        assert_eq!(objects[1]["rules"], super::world::role()["rules"], "{hook}");
        // What could not be read stops no installation, but it is not a test that passed.
        let args = |object: &Value| {
            let pod = if hook == "test" {
                &object["spec"]
            } else {
                &object["spec"]["template"]["spec"]
            };
            pod["containers"][0]["args"].as_array().unwrap().clone()
        };
        assert_eq!(
            args(&objects[3]).contains(&json!("--exit-zero=unknown")),
            hook != "test"
        );
        if hook != "test" {
            let warns = hooks(world, hook, &json!({"check": {"onError": "warn"}}));
            assert!(args(&warns[3]).contains(&json!("--exit-zero")), "{hook}");
        }
    }
    assert!(hooks(world, "pre-install", &json!({"rbac": {"create": false}})).is_empty());
    let off = json!({"check": {"beforeChanges": false}});
    assert!(hooks(world, "pre-install", &off).is_empty() && !hooks(world, "test", &off).is_empty());
    let own = hooks(
        world,
        "test",
        &json!({"rbac": {"create": false}, "check": {"serviceAccount": "mine"}}),
    );
    assert_eq!(
        (own.len(), &own[0]["spec"]["serviceAccountName"]),
        (1, &json!("mine"))
    );
}

/// Runs the Job before an installation. Returns whether it succeeded, and its log.
async fn run_before(world: &World, values: Value) -> (bool, String) {
    let _ = world
        .cluster
        .control_plane
        .kubectl(&[
            "delete",
            "job",
            "-n",
            NAMESPACE,
            "pps-check-before",
            "--wait",
        ])
        .await;
    wait_until_gone(world, "job-name=pps-check-before").await;
    world
        .cluster
        .apply_objects(&hooks(world, "pre-install", &values))
        .await
        .unwrap();
    end_of_job(world, "pps-check-before").await
}

/// Whether a Job succeeded, and its log.
async fn end_of_job(world: &World, name: &str) -> (bool, String) {
    let jobs: Api<Job> = Api::namespaced(world.cluster.client(), NAMESPACE);
    let succeeded = wait_for("the Job to end", TIMEOUT, async || {
        let status = jobs.get(name).await?.status.unwrap_or_default();
        let seen = format!("{status:?}");
        Ok(match (status.succeeded, status.failed) {
            (Some(1), _) => Progress::Done(true),
            (_, Some(1)) => Progress::Done(false),
            _ => Progress::when(false, false, seen),
        })
    });
    let succeeded = succeeded.await.unwrap();
    let pods = world.cluster.pods_api(NAMESPACE);
    let pod = pods
        .list(&ListParams::default().labels(&format!("job-name={name}")))
        .await
        .unwrap()
        .items
        .remove(0);
    (
        succeeded,
        world
            .cluster
            .control_plane
            .supervisor()
            .log(&pod.name_any()),
    )
}

async fn wait_until_gone(world: &World, labels: &str) {
    wait_for("the former Pods to be gone", TIMEOUT, async || {
        let left = world
            .cluster
            .pods_api(NAMESPACE)
            .list(&ListParams::default().labels(labels))
            .await?
            .items
            .len();
        Ok(Progress::when(left == 0, (), left))
    })
    .await
    .unwrap();
}

pub(super) async fn stop_a_wrong_installation_and_pass_a_right_one(world: &World) {
    let (succeeded, log) = run_before(world, json!({})).await;
    assert!(succeeded, "{log}");
    assert!(
        log.contains("OK        ModuleFound") && log.contains("0 errors"),
        "{log}"
    );

    let wrong = json!({"policy": {"module": {"digest": "", "tag": "v9.9.9"}}});
    let (succeeded, log) = run_before(world, wrong).await;
    assert!(
        !succeeded && log.contains("ERROR     ModuleNotFound"),
        "{log}"
    );
    world
        .kubectl(&["delete", "job", "-n", NAMESPACE, "pps-check-before"])
        .await;
    wait_until_gone(world, "job-name=pps-check-before").await;
}

pub(super) async fn run_as_a_helm_test(world: &World) {
    world
        .cluster
        .apply_objects(&hooks(world, "test", &json!({})))
        .await
        .unwrap();
    let pods = world.cluster.pods_api(NAMESPACE);
    let phase = wait_for("the Pod of helm test to end", TIMEOUT, async || {
        let pod: Pod = pods.get("pps-check-after").await?;
        let phase = pod
            .status
            .and_then(|status| status.phase)
            .unwrap_or_default();
        Ok(Progress::when(
            ["Succeeded", "Failed"].contains(&phase.as_str()),
            phase.clone(),
            phase,
        ))
    });
    let phase = phase.await.unwrap();
    let log = world
        .cluster
        .control_plane
        .supervisor()
        .log("pps-check-after");
    assert_eq!(phase, "Succeeded", "{log}");
    assert!(log.contains("OK        LeaderActive"), "{log}");
    world
        .kubectl(&["delete", "pod", "-n", NAMESPACE, "pps-check-after"])
        .await;
}

/// The check that the chart's `CronJob` runs each day, now.
pub(super) async fn run_each_day(world: &World) {
    let mut objects = render(world, &json!({"check": {"beforeChanges": false}}));
    objects.retain(|object| {
        object["metadata"]["labels"]["app.kubernetes.io/component"] == "check"
            && object["metadata"]["annotations"]["helm.sh/hook"].is_null()
    });
    let kinds: Vec<&str> = objects
        .iter()
        .map(|object| object["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "CronJob"
        ]
    );
    world.cluster.apply_objects(&objects).await.unwrap();
    let from = "--from=cronjob/pps-check-scheduled";
    world
        .kubectl(&["create", "job", "-n", NAMESPACE, from, "check-now"])
        .await;
    let (succeeded, log) = end_of_job(world, "check-now").await;
    assert!(succeeded, "{log}");
    assert!(log.contains("OK        LeaderActive"), "{log}");
    let delete = ["delete", "-n", NAMESPACE];
    let made = [
        "job/check-now",
        "cronjob/pps-check-scheduled",
        "serviceaccount/pps-check-scheduled",
    ];
    world.kubectl(&[&delete[..], &made].concat()).await;
    wait_until_gone(world, "job-name=check-now").await;
}

/// `deploy/check.yaml` has the Job of the chart, with the arguments for an installation that
/// exists.
#[test]
fn the_job_for_kustomize_is_restricted_and_checks_what_is_installed() {
    let objects = manifests::read(&repository_file("deploy/check.yaml")).unwrap();
    let job = objects
        .iter()
        .find(|object| object["kind"] == "Job")
        .unwrap();
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(
        pod["containers"][0]["args"],
        json!(["check", "--namespace=persistent-pod-state", "--all"])
    );
    let file = Scratch::file(
        "check.yaml",
        json!({"check": {"beforeChanges": true}}).to_string(),
    )
    .unwrap();
    let rendered = render_chart("pps", NAMESPACE, Some(file.path())).unwrap();
    let charts = rendered
        .iter()
        .find(|object| object["kind"] == "Job")
        .unwrap();
    assert_eq!(
        job["spec"]["activeDeadlineSeconds"],
        charts["spec"]["activeDeadlineSeconds"]
    );
    let charts = &charts["spec"]["template"]["spec"];
    for field in ["securityContext", "nodeSelector", "restartPolicy"] {
        assert_eq!(pod[field], charts[field], "{field}");
    }
    for field in ["image", "resources", "securityContext"] {
        assert_eq!(
            pod["containers"][0][field], charts["containers"][0][field],
            "{field}"
        );
    }
}
