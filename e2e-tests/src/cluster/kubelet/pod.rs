//! The life of one bound Pod, from its address to its removal.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    program::Programs,
    shared::{Control, IP_ANNOTATION, NO_RESERVATION, Shared, persist},
};

/// How often the readiness of a real process is probed. Shorter than any Pod asks for, because
/// tests wait for it.
const PROBE_PERIOD: Duration = Duration::from_millis(200);

/// How long containers take to stop. If the successor of a Pod came at once, `kubectl delete` of
/// 1.34 could miss that the Pod was deleted, and would wait forever.
const STOPPING: Duration = Duration::from_millis(200);

/// What identifies a Pod. It does not change during the Pod's life.
struct Identity {
    namespace: String,
    name: String,
    uid: String,
    node: String,
}

impl Identity {
    fn of(pod: &Pod) -> Self {
        let own = |value: &Option<String>| value.clone().unwrap_or_default();
        Self {
            namespace: own(&pod.metadata.namespace),
            name: own(&pod.metadata.name),
            uid: own(&pod.metadata.uid),
            node: pod
                .spec
                .as_ref()
                .and_then(|spec| spec.node_name.clone())
                .unwrap_or_default(),
        }
    }

    fn works(&self, control: &Control) -> bool {
        !control.dead_nodes.contains(&self.node)
    }

    fn may_be_ready(&self, control: &Control) -> bool {
        self.works(control)
            && !control
                .held
                .contains(&format!("{}/{}", self.namespace, self.name))
    }
}

/// Runs until the Pod is gone from the API and its address is free.
pub(super) async fn live(shared: Arc<Shared>, mut pod: watch::Receiver<Arc<Pod>>) {
    let first = pod.borrow_and_update().clone();
    let identity = Identity::of(&first);
    let api: Api<Pod> = Api::namespaced(shared.client.clone(), &identity.namespace);
    if until(&shared, &mut pod, |pod, control| {
        identity.works(control) || is_terminating(pod)
    })
    .await
    {
        run(&shared, &identity, &api, &mut pod).await;
        if until(&shared, &mut pod, |pod, control| {
            is_terminating(pod) && identity.works(control)
        })
        .await
        {
            end(&shared, &identity, &api, &pod).await;
        }
    }
    // However the Pod ended, release what is left.
    shared.ipam.delete(&identity.node, &identity.uid);
}

/// Takes a Pod from bound to Ready, or until it is terminating.
async fn run(
    shared: &Shared,
    identity: &Identity,
    api: &Api<Pod>,
    pod: &mut watch::Receiver<Arc<Pod>>,
) {
    let first = pod.borrow().clone();
    if is_terminating(&first) || has_finished(&first) {
        return;
    }
    let set = |key: &str| {
        first
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(key))
            .cloned()
    };
    let plain = set(NO_RESERVATION).is_some();
    let wanted = set(IP_ANNOTATION).filter(|_| !plain);

    let Some(ip) = shared
        .ipam
        .add(&identity.node, &identity.uid, wanted.as_deref())
    else {
        return;
    };
    if !plain && wanted.as_ref() != Some(&ip) {
        let _turn = shared.turns.acquire().await;
        annotate(identity, api, pod, &json!({IP_ANNOTATION: ip})).await;
    }

    let started = Timestamp::now();
    if let Some(programs) = shared
        .programs
        .get()
        .filter(|all| all.namespace == identity.namespace)
    {
        run_program(shared, identity, api, pod, programs, &ip, started).await;
        return;
    }
    if !identity.may_be_ready(&shared.control.borrow()) {
        set_status(shared, identity, api, pod, &ip, started, false).await;
    }
    if !until(shared, pod, |pod, control| {
        identity.may_be_ready(control) || is_terminating(pod)
    })
    .await
    {
        return;
    }
    if !is_terminating(&pod.borrow()) {
        set_status(shared, identity, api, pod, &ip, started, true).await;
    }
}

/// Runs the Pod's program until the Pod is terminating.
async fn run_program(
    shared: &Shared,
    identity: &Identity,
    api: &Api<Pod>,
    pod: &mut watch::Receiver<Arc<Pod>>,
    programs: &Programs,
    ip: &str,
    started: Timestamp,
) {
    let first = pod.borrow().clone();
    let start = || async {
        let result = programs.start(&first).await;
        result.inspect_err(|error| programs.complain(format!("{}: {error:#}", identity.name)))
    };
    let Some(running) = persist(pod, start).await else {
        return;
    };
    let mut shown = None;
    loop {
        let terminating = until(shared, pod, |pod, _| is_terminating(pod));
        match tokio::time::timeout(PROBE_PERIOD, terminating).await {
            // Probe again.
            Err(_) => {}
            Ok(_) => break,
        }
        match programs.exit_code(&running, &first) {
            Ok(Some(code)) => {
                set_finished(identity, api, pod, code, started).await;
                return;
            }
            Ok(None) => {}
            Err(error) => programs.complain(format!("{}: {error:#}", identity.name)),
        }
        match programs.is_ready(&running).await {
            Ok(ready) if shown != Some(ready) => {
                shown = Some(ready);
                set_status(shared, identity, api, pod, ip, started, ready).await;
            }
            Ok(_) => {}
            Err(error) => programs.complain(format!("{}: {error:#}", identity.name)),
        }
    }
    if let Err(error) = programs.stop(&running).await {
        programs.complain(format!("{}: {error:#}", identity.name));
    }
}

/// Frees the address, then removes the object, as a kubelet does.
async fn end(
    shared: &Shared,
    identity: &Identity,
    api: &Api<Pod>,
    pod: &watch::Receiver<Arc<Pod>>,
) {
    tokio::time::sleep(STOPPING).await;
    let _turn = shared.turns.acquire().await;
    shared.ipam.delete(&identity.node, &identity.uid);
    let now = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions {
            uid: Some(identity.uid.clone()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    persist(pod, || tolerate_absence(api.delete(&identity.name, &now))).await;
}

async fn annotate(
    identity: &Identity,
    api: &Api<Pod>,
    pod: &watch::Receiver<Arc<Pod>>,
    annotations: &Value,
) {
    // The UID makes the patch fail on another Pod of the same name.
    let patch = json!({"metadata": {"uid": identity.uid, "annotations": annotations}});
    let patch = Patch::Merge(patch);
    let params = PatchParams::default();
    persist(pod, || {
        tolerate_absence(api.patch(&identity.name, &params, &patch))
    })
    .await;
}

async fn set_status(
    shared: &Shared,
    identity: &Identity,
    api: &Api<Pod>,
    pod: &watch::Receiver<Arc<Pod>>,
    ip: &str,
    started: Timestamp,
    ready: bool,
) {
    let _turn = shared.turns.acquire().await;
    let current = pod.borrow().clone();
    let status = running_status(&current, ip, &Time(started), ready);
    let patch = Patch::Merge(json!({"metadata": {"uid": identity.uid}, "status": status}));
    let params = PatchParams::default();
    persist(pod, || {
        tolerate_absence(api.patch_status(&identity.name, &params, &patch))
    })
    .await;
}

/// The status of a Pod whose process has ended and is not started again.
async fn set_finished(
    identity: &Identity,
    api: &Api<Pod>,
    pod: &watch::Receiver<Arc<Pod>>,
    code: i32,
    started: Timestamp,
) {
    let (phase, reason) = if code == 0 {
        ("Succeeded", "Completed")
    } else {
        ("Failed", "Error")
    };
    let (started, finished) = (Time(started), Time(Timestamp::now()));
    let containers: Vec<Value> = pod
        .borrow()
        .spec
        .iter()
        .flat_map(|spec| &spec.containers)
        .map(|container| {
            json!({"name": container.name, "image": container.image, "imageID": "", "ready": false,
                "restartCount": 0, "state": {"terminated": {"exitCode": code, "reason": reason,
                "startedAt": started, "finishedAt": finished}}})
        })
        .collect();
    let status = json!({"phase": phase, "containerStatuses": containers, "conditions": [
        {"type": "Ready", "status": "False", "reason": "PodCompleted", "lastTransitionTime": finished}]});
    let patch = Patch::Merge(json!({"metadata": {"uid": identity.uid}, "status": status}));
    let params = PatchParams::default();
    persist(pod, || {
        tolerate_absence(api.patch_status(&identity.name, &params, &patch))
    })
    .await;
}

fn running_status(pod: &Pod, ip: &str, started: &Time, ready: bool) -> Value {
    let ours = ["Initialized", "Ready", "ContainersReady", "PodScheduled"];
    let others = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut conditions: Vec<Value> = others
        .filter(|condition| !ours.contains(&condition.type_.as_str()))
        .map(|condition| json!(condition))
        .collect();
    for kind in ours {
        let holds = ready || matches!(kind, "Initialized" | "PodScheduled");
        let status = if holds { "True" } else { "False" };
        conditions.push(json!({"type": kind, "status": status, "lastTransitionTime": started}));
    }
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let containers: Vec<Value> = containers
        .map(|container| {
            json!({"name": container.name, "image": container.image, "imageID": "", "ready": ready,
                "started": true, "restartCount": 0, "state": {"running": {"startedAt": started}}})
        })
        .collect();
    json!({"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "hostIP": "127.0.0.1",
        "startTime": started, "conditions": conditions, "containerStatuses": containers})
}

fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

fn has_finished(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Treats a missing Pod as success. On another Pod of the same name the call fails until the watch
/// reports that this Pod is gone.
async fn tolerate_absence<T>(call: impl Future<Output = kube::Result<T>>) -> Result<()> {
    match call.await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(other) => Err(other.into()),
        Ok(_) => Ok(()),
    }
}

/// Waits until the condition holds. Returns false if the Pod is gone before.
async fn until(
    shared: &Shared,
    pod: &mut watch::Receiver<Arc<Pod>>,
    condition: impl Fn(&Pod, &Control) -> bool,
) -> bool {
    let mut control = shared.control.subscribe();
    loop {
        if condition(&pod.borrow_and_update(), &control.borrow_and_update()) {
            return true;
        }
        tokio::select! {
            changed = pod.changed() => if changed.is_err() { return false },
            changed = control.changed() => if changed.is_err() { return false },
        }
    }
}
