//! A world on a real control plane.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    slice::from_ref,
    time::{Duration, Instant},
};

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use pps_e2e::cluster::Cluster;
use pps_simulation::{Action, Step};
use serde_json::{Value, json};

use super::{
    notice::{Fact, scheduler_knows},
    picture::{Picture, PodPicture, without_address},
    world::{Happening, NAME, POOL, World},
};
use crate::support::IP_ANNOTATION;

/// How long the cluster may take to get where the simulation says it gets. The scheduler looks at a
/// Pod that no node could take again after up to ten seconds.
const TIMEOUT: Duration = Duration::from_mins(2);
/// How long it has to stay there.
const STAYS: Duration = Duration::from_millis(1200);

/// What identifies a Pod, and its address.
type Identity = (String, Option<String>);

pub(crate) struct Live<'a> {
    cluster: &'a Cluster,
    namespace: &'static str,
    step: Option<Step>,
    /// The Pods before the last action, and what was recorded of their addresses.
    identities: BTreeMap<String, Identity>,
    addresses: BTreeMap<String, String>,
}

/// What a live cluster shows at one moment.
struct Look {
    picture: Picture,
    identities: BTreeMap<String, Identity>,
    addresses: BTreeMap<String, String>,
    /// Whether something is about to happen.
    busy: Option<String>,
}

impl<'a> Live<'a> {
    pub(crate) async fn start(cluster: &'a Cluster, world: &World) -> Self {
        cluster.namespace(world.namespace).await.unwrap();
        let live = Self {
            cluster,
            namespace: world.namespace,
            step: None,
            identities: BTreeMap::new(),
            addresses: BTreeMap::new(),
        };
        for node in &world.nodes {
            create_node(cluster, node).await;
        }
        let last = world.nodes.last().unwrap()["metadata"]["name"]
            .as_str()
            .unwrap();
        live.noticed(last, Fact::Exists).await;
        live
    }

    /// The simulation as it was when the cluster had settled last.
    pub(crate) fn simulated(&self) -> &Step {
        self.step.as_ref().expect("something has happened")
    }

    pub(crate) async fn roll_out(&mut self, world: &mut World) {
        self.act(
            world,
            Happening {
                actions: vec![Action::RollOut {}],
                replaced: [].into(),
            },
        )
        .await;
    }

    /// Lets something happen, and waits until the cluster is as the simulation says.
    pub(crate) async fn act(&mut self, world: &mut World, happening: Happening) {
        world.begin(&happening.actions);
        for action in &happening.actions {
            self.apply(world, action).await;
        }
        self.settle(world, &happening).await;
    }

    async fn apply(&self, world: &World, action: &Action) {
        let nodes = &self.cluster.nodes;
        match action {
            Action::RollOut {} => {
                self.cluster
                    .apply_objects(from_ref(&world.pps))
                    .await
                    .unwrap();
                self.cluster
                    .apply_objects(from_ref(&world.stateful_set))
                    .await
                    .unwrap();
            }
            Action::DeletePod { pod } => self.delete_pods(from_ref(pod)).await,
            Action::Cordon { node } => drop(nodes.cordon(node).await.unwrap()),
            Action::Uncordon { node } => drop(nodes.uncordon(node).await.unwrap()),
            Action::Drain { node } => {
                nodes.cordon(node).await.unwrap();
                self.noticed(node, Fact::IsCordoned).await;
                self.delete_pods(&self.pods_on(node)).await;
            }
            Action::LoseNode { node } => {
                let pods = self.pods_on(node);
                nodes.delete(node).await.unwrap();
                self.noticed(node, Fact::IsDeleted).await;
                self.delete_pods(&pods).await;
            }
            // It ends by itself.
            Action::EndGracePeriod {} | Action::EndFallbackPeriod {} => {}
            Action::ReturnNode { node } => self.return_node(world, node).await,
            Action::LabelNode { node, key, value } => {
                nodes.label(node, key, value.as_deref()).await.unwrap();
            }
            Action::Scale { replicas, .. } => {
                self.cluster
                    .scale(self.namespace, NAME, *replicas)
                    .await
                    .unwrap();
            }
            Action::ChangeSpec { object } => {
                let annotations = &object["spec"]["template"]["metadata"]["annotations"];
                let patch =
                    json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
                self.cluster
                    .patch_stateful_set(self.namespace, NAME, &patch)
                    .await
                    .unwrap();
            }
            Action::DeleteWorkload { .. } => {
                self.cluster
                    .delete_stateful_set(self.namespace, NAME, false)
                    .await
                    .unwrap();
            }
            Action::CreateWorkload { .. } => {
                self.cluster
                    .apply_objects(from_ref(&world.stateful_set))
                    .await
                    .unwrap();
            }
            other => panic!("cannot do {other:?}"),
        }
    }

    /// The Pods of a Node are deleted once the scheduler knows what has become of it: else it might
    /// take it again.
    async fn noticed(&self, node: &str, fact: Fact) {
        scheduler_knows(self.cluster, self.namespace, node, fact).await;
    }

    fn pods_on(&self, node: &str) -> Vec<String> {
        let pods = self.simulated().world.pods.iter();
        pods.filter(|pod| pod.node.as_deref() == Some(node))
            .map(|pod| pod.name.clone())
            .collect()
    }

    async fn delete_pods(&self, pods: &[String]) {
        let api = self.cluster.pods_api(self.namespace);
        for pod in pods {
            api.delete(pod, &DeleteParams::default()).await.unwrap();
        }
    }

    /// Makes a Node again, as a kubelet does that registers: it is not cordoned.
    async fn return_node(&self, world: &World, name: &str) {
        let mut object = world
            .nodes
            .iter()
            .find(|node| node["metadata"]["name"] == name)
            .unwrap()
            .clone();
        let simulated = self
            .simulated()
            .world
            .nodes
            .iter()
            .find(|node| node.name == name)
            .unwrap();
        object["metadata"]["labels"] = json!(simulated.labels);
        object["spec"]["unschedulable"] = json!(false);
        create_node(self.cluster, &object).await;
    }

    async fn look(&self) -> Result<Look> {
        let params = ListParams::default().labels(&format!("app={NAME}"));
        let pods: Vec<Pod> = self
            .cluster
            .pods_api(self.namespace)
            .list(&params)
            .await?
            .items;
        let mut look = Look {
            picture: Picture::default(),
            identities: BTreeMap::new(),
            addresses: BTreeMap::new(),
            busy: None,
        };
        for pod in &pods {
            let name = pod.name_any();
            let info = pps_e2e::cluster::PodInfo::from(pod);
            if info.terminating {
                look.busy = Some(format!("{name} terminates"));
            }
            if info.node.is_none() && unschedulable(pod).is_none() {
                look.busy = Some(format!("the scheduler has not decided about {name}"));
            }
            let picture = PodPicture::of(&serde_json::to_value(pod)?, info.node, info.ready);
            look.picture.pods.insert(name.clone(), picture);
            look.identities.insert(name, (info.uid, info.ip));
        }
        let pool = ListParams::default().labels(&format!("{POOL}={}", self.namespace));
        for node in self.cluster.nodes.api().list(&pool).await? {
            let is_cordoned = node
                .spec
                .as_ref()
                .and_then(|spec| spec.unschedulable)
                .unwrap_or_default();
            look.picture
                .nodes
                .insert(node.name_any(), (node.labels().clone(), is_cordoned));
        }
        for (pod, state) in self.cluster.pod_states(self.namespace, NAME).await? {
            if let Some(address) = state["annotations"][IP_ANNOTATION].as_str() {
                look.addresses.insert(pod.clone(), address.to_owned());
            }
            look.picture.states.insert(pod, without_address(state));
        }
        let stateful_set = self
            .cluster
            .stateful_sets(self.namespace)
            .get_opt(NAME)
            .await?;
        let is_observed = stateful_set.is_none_or(|stateful_set| {
            let observed = stateful_set
                .status
                .as_ref()
                .and_then(|status| status.observed_generation);
            observed == stateful_set.metadata.generation
        });
        if !is_observed {
            look.busy = Some("the controller has not seen the StatefulSet".to_owned());
        }
        Ok(look)
    }

    async fn settle(&mut self, world: &mut World, happening: &Happening) {
        let started = Instant::now();
        let mut same_since: Option<Instant> = None;
        let (look, step) = loop {
            let look = self.look().await.unwrap();
            let observed = observed(&look.picture);
            let step = world.simulate(&observed);
            let simulated = Picture::of(&step.world, NAME);
            let old = happening.replaced.iter().find(|pod| {
                let uid = |identities: &BTreeMap<String, Identity>| {
                    identities.get(*pod).map(|(uid, _)| uid.clone())
                };
                uid(&look.identities).is_some_and(|now| Some(now) == uid(&self.identities))
            });
            if look.busy.is_none() && old.is_none() && simulated == look.picture {
                if same_since.get_or_insert_with(Instant::now).elapsed() >= STAYS {
                    break (look, step);
                }
            } else {
                same_since = None;
            }
            if started.elapsed() > TIMEOUT {
                let waits = look
                    .busy
                    .or_else(|| old.map(|pod| format!("{pod} is the old one")));
                panic!(
                    "{}",
                    self.disagreement(world, happening, &look.picture, &step, waits.as_deref())
                );
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        self.assert_addresses(&look);
        world.end(&observed(&look.picture));
        self.identities = look.identities;
        self.addresses = look.addresses;
        self.step = Some(step);
    }

    /// A Pod that was made again on its node has its recorded address.
    fn assert_addresses(&self, look: &Look) {
        for (name, (uid, ip)) in &look.identities {
            let Some(recorded) = self.addresses.get(name) else {
                continue;
            };
            let Some((before, _)) = self
                .identities
                .get(name)
                .filter(|(before, _)| before != uid)
            else {
                continue;
            };
            let node = |step: &Step| {
                let pod = step.world.pods.iter().find(|pod| pod.name == *name);
                pod.and_then(|pod| pod.node.clone())
            };
            let now = look.picture.pods[name].node.clone();
            if now.is_some() && now == node(self.simulated()) {
                assert_eq!(
                    ip.as_ref(),
                    Some(recorded),
                    "{name} was {before} and is {uid} on {now:?}"
                );
            }
        }
    }

    fn disagreement(
        &self,
        world: &World,
        happening: &Happening,
        live: &Picture,
        step: &Step,
        waits: Option<&str>,
    ) -> String {
        let simulated = Picture::of(&step.world, NAME);
        let mut text = format!(
            "{}: the cluster is not as simulated after {:?} ({waits:?}).\nScenario: {}\n",
            self.namespace,
            happening.actions,
            json!(world.scenario(&observed(live)))
        );
        if simulated.nodes != live.nodes {
            let _ = writeln!(
                text,
                "Nodes:\n  simulated {}\n  live      {}",
                json!(simulated.nodes),
                json!(live.nodes)
            );
        }
        let names: BTreeSet<&String> = simulated
            .pods
            .keys()
            .chain(live.pods.keys())
            .chain(simulated.states.keys())
            .chain(live.states.keys())
            .collect();
        for name in names {
            let (pods, states) = (&simulated.pods, &simulated.states);
            if pods.get(name) != live.pods.get(name) || states.get(name) != live.states.get(name) {
                let _ = writeln!(
                    text,
                    "{name}:\n  simulated {} {}\n  live      {} {}",
                    json!(pods.get(name)),
                    json!(states.get(name)),
                    json!(live.pods.get(name)),
                    json!(live.states.get(name))
                );
                let pod = step.world.pods.iter().find(|pod| pod.name == *name);
                let _ = writeln!(
                    text,
                    "  scheduler {}",
                    json!(pod.map(|pod| (&pod.may_land_on, &pod.scheduler)))
                );
            }
        }
        text + &format!("Events: {}", json!(step.events))
    }
}

/// Makes a Node, also its status.
pub(crate) async fn create_node(cluster: &Cluster, object: &Value) {
    let api = cluster.nodes.api();
    let node: Node = serde_json::from_value(object.clone()).unwrap();
    let name = node.name_any();
    api.create(&PostParams::default(), &node).await.unwrap();
    let status = Patch::Merge(json!({"status": object["status"]}));
    api.patch_status(&name, &PatchParams::default(), &status)
        .await
        .unwrap();
}

/// Why the scheduler finds no node, if it has said so.
pub(crate) fn unschedulable(pod: &Pod) -> Option<&str> {
    let mut conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let said = conditions
        .find(|one| one.type_ == "PodScheduled" && one.reason.as_deref() == Some("Unschedulable"));
    said.map(|one| one.message.as_deref().unwrap_or_default())
}

/// The nodes that the real scheduler took.
fn observed(picture: &Picture) -> BTreeMap<String, String> {
    let nodes = picture.pods.iter();
    nodes
        .filter_map(|(name, pod)| Some((name.clone(), pod.node.clone()?)))
        .collect()
}
