//! One simulated kubelet for all simulated Nodes. It marks bound Pods Ready and removes deleted
//! ones. Only the product's Pods run something, see [`Programs`].
//!
//! As kube-ovn does with reserved addresses, it asks for the address in [`IP_ANNOTATION`] if a Pod
//! is created with one, and writes the assigned address there.

mod ipam;
mod pod;
mod program;
mod shared;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    runtime::{WatchStreamExt, utils::Backoff, watcher},
};
use tokio::{
    runtime::Handle,
    sync::{Semaphore, watch},
    task::{JoinHandle, JoinSet},
};

use ipam::Ipam;
pub use program::Programs;
use shared::{Control, Shared};
pub use shared::{IP_ANNOTATION, NO_RESERVATION};

/// The running kubelet. Dropping it stops it.
pub struct Kubelet {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Kubelet {
    /// Starts it on that runtime, to which the client must belong.
    pub fn start(runtime: &Handle, client: Client) -> Self {
        let shared = Arc::new(Shared {
            client,
            ipam: Ipam::default(),
            turns: Semaphore::new(16),
            programs: OnceLock::new(),
            control: watch::Sender::default(),
        });
        let task = runtime.spawn(follow(shared.clone()));
        Self { shared, task }
    }

    /// From now on, runs the Pods of a namespace.
    pub fn run_programs(&self, programs: Arc<Programs>) {
        let _ = self.shared.programs.set(programs);
    }

    /// Keeps Pods of that name from becoming Ready. A Pod that is Ready already stays Ready.
    pub fn hold(&self, namespace: &str, pod: &str) {
        self.change(|control| control.held.insert(format!("{namespace}/{pod}")));
    }

    /// Lets Pods of that name become Ready again.
    pub fn release(&self, namespace: &str, pod: &str) {
        self.change(|control| control.held.remove(&format!("{namespace}/{pod}")));
    }

    /// Lets a Node fail: Pods on it no longer start or end.
    pub fn stop_node(&self, node: &str) {
        self.change(|control| control.dead_nodes.insert(node.to_owned()));
    }

    fn change<T>(&self, change: impl FnOnce(&mut Control) -> T) {
        self.shared
            .control
            .send_modify(|control| drop(change(control)));
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The bound Pods, each with a task of its own. Dropping this ends the tasks.
#[derive(Default)]
struct Pods {
    known: HashMap<String, watch::Sender<Arc<Pod>>>,
    tasks: JoinSet<()>,
}

impl Pods {
    /// Passes a Pod to its task, which is started when the Pod is first seen bound.
    fn applied(&mut self, shared: &Arc<Shared>, pod: Pod) {
        let Some(uid) = pod.metadata.uid.clone() else {
            return;
        };
        let pod = Arc::new(pod);
        if let Some(sender) = self.known.get(&uid) {
            sender.send_replace(pod);
        } else if pod
            .spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some())
        {
            let (sender, receiver) = watch::channel(pod);
            self.known.insert(uid, sender);
            self.tasks.spawn(pod::live(shared.clone(), receiver));
        }
        while self.tasks.try_join_next().is_some() {}
    }
}

/// The pauses between two attempts to watch. They stay short, so that nothing waits for a restarted
/// API server.
struct Pauses;

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_secs(1))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {}
}

/// Watches all Pods indefinitely.
async fn follow(shared: Arc<Shared>) {
    let api: Api<Pod> = Api::all(shared.client.clone());
    let mut pods = Pods::default();
    let mut listed = BTreeSet::new();
    let mut events = watcher(api, watcher::Config::default())
        .backoff(Pauses)
        .boxed();
    loop {
        match events.try_next().await {
            Ok(Some(watcher::Event::Apply(pod))) => pods.applied(&shared, pod),
            Ok(Some(watcher::Event::InitApply(pod))) => {
                listed.extend(pod.metadata.uid.clone());
                pods.applied(&shared, pod);
            }
            Ok(Some(watcher::Event::Delete(pod))) => {
                pods.known.remove(&pod.metadata.uid.unwrap_or_default());
            }
            Ok(Some(watcher::Event::Init)) => listed.clear(),
            Ok(Some(watcher::Event::InitDone)) => {
                // Pods that are missing from the list were deleted while the watch was down.
                pods.known.retain(|uid, _| listed.contains(uid));
            }
            Ok(None) => return,
            Err(error) => tracing::debug!("kubelet's watch: {error}"),
        }
    }
}
