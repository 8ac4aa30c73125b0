//! One simulated kubelet for all Nodes: bound Pods run, deleted Pods go. Those of [`Containers`] run for real.
//!
//! Addresses come from the real `host-local` plugin. Around it the simulation does what kube-ovn
//! does with a reserved address: a Pod that comes with [`IP_ANNOTATION`] gets that address if it can
//! be had, and the address that it got is written there.

mod container;
mod ipam;
mod pod;
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

pub use container::Containers;
pub use ipam::Ipam;
pub use shared::{Behaviour, IP_ANNOTATION, NO_RESERVATION};
use shared::{Control, Shared};

/// The running kubelet. It stops when this is dropped.
pub struct Kubelet {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Kubelet {
    /// Starts it on that runtime. The client must belong to it.
    pub fn start(runtime: &Handle, client: Client, ipam: Ipam, behaviour: Behaviour) -> Self {
        let shared = Arc::new(Shared {
            client,
            ipam,
            turns: Semaphore::new(16),
            containers: OnceLock::new(),
            control: watch::Sender::new(Control { behaviour, ..Control::default() }),
        });
        let task = runtime.spawn(follow(shared.clone()));
        Self { shared, task }
    }

    /// Runs the Pods of some namespaces for real from now on.
    pub fn run_containers(&self, containers: Arc<Containers>) {
        let _ = self.shared.containers.set(containers);
    }

    /// Keeps Pods of that name from becoming Ready. They are not Ready from their start on; one that
    /// is Ready already stays so.
    pub fn hold(&self, namespace: &str, pod: &str) {
        self.change(|control| control.held.insert(format!("{namespace}/{pod}")));
    }

    /// Lets them become Ready.
    pub fn release(&self, namespace: &str, pod: &str) {
        self.change(|control| control.held.remove(&format!("{namespace}/{pod}")));
    }

    /// The Node fails: Pods on it neither start nor end any more.
    pub fn stop_node(&self, node: &str) {
        self.change(|control| control.dead_nodes.insert(node.to_owned()));
    }

    /// It is back.
    pub fn start_node(&self, node: &str) {
        self.change(|control| control.dead_nodes.remove(node));
    }

    /// Changes the behaviour.
    pub fn set_behaviour(&self, change: impl FnOnce(&mut Behaviour)) {
        self.change(|control| change(&mut control.behaviour));
    }

    /// The addresses of a Node, as a CIDR.
    pub fn subnet(&self, node: &str) -> String {
        self.shared.ipam.subnet(node)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Control) -> T) {
        self.shared.control.send_modify(|control| drop(change(control)));
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The Pods that are bound, each with a task of its own. The tasks end with this.
#[derive(Default)]
struct Pods {
    known: HashMap<String, watch::Sender<Arc<Pod>>>,
    tasks: JoinSet<()>,
}

impl Pods {
    /// Tells the task of that Pod, which is started at the first sight of a bound Pod.
    fn applied(&mut self, shared: &Arc<Shared>, pod: Pod) {
        let Some(uid) = pod.metadata.uid.clone() else { return };
        let pod = Arc::new(pod);
        if let Some(sender) = self.known.get(&uid) {
            sender.send_replace(pod);
        } else if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) {
            let (sender, receiver) = watch::channel(pod);
            self.known.insert(uid, sender);
            self.tasks.spawn(pod::live(shared.clone(), receiver));
        }
        while self.tasks.try_join_next().is_some() {}
    }
}

/// Between two attempts to watch: short, so that an API server that is back need not be waited for.
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

/// Follows all Pods for ever.
async fn follow(shared: Arc<Shared>) {
    let api: Api<Pod> = Api::all(shared.client.clone());
    let mut pods = Pods::default();
    let mut listed = BTreeSet::new();
    let mut events = watcher(api, watcher::Config::default()).backoff(Pauses).boxed();
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
                // Whoever is not there any more was deleted while nobody watched.
                pods.known.retain(|uid, _| listed.contains(uid));
            }
            Ok(None) => return,
            Err(error) => tracing::debug!("kubelet's watch: {error}"),
        }
    }
}
