//! Random Nodes, a `StatefulSet`, a `PersistentPodState`, and what happens to them.

use std::collections::{BTreeMap, BTreeSet};

use pps_e2e::cluster::{StatefulSetSpec, kubelet::IP_ANNOTATION};
use pps_simulation::{Action, Scenario, Severity, Step, run};
use serde_json::{Value, json};

use super::picture::REVISION;
use crate::support::{HOSTNAME, Random, ZONE, spec_for, spread_over_nodes};

/// The label that keeps the worlds apart.
pub(crate) const POOL: &str = "e2e.pps.kubewarden.io/pool";
const DISK: &str = "example.com/disk";
/// The workload and its PersistentPodState.
pub(crate) const NAME: &str = "db";

/// What happens in a live cluster, and to what actions of the simulation it corresponds.
#[derive(Clone, Debug)]
pub(crate) struct Happening {
    pub(crate) actions: Vec<Action>,
    /// Pods that are made again, unless they are no longer wanted.
    pub(crate) replaced: BTreeSet<String>,
}

/// A simulated world, its future and its past.
pub(crate) struct World {
    pub(crate) namespace: &'static str,
    pub(crate) nodes: Vec<Value>,
    pub(crate) stateful_set: Value,
    pub(crate) pps: Value,
    random: Random,
    scenario: Scenario,
    /// The actions of the scenario that are not decided yet: a real scheduler may still place their
    /// Pods.
    open: usize,
}

impl World {
    /// Pods are created in their order: of a parallel workload the controller creates them at the
    /// same time, so that their order is unknown.
    pub(crate) fn new(namespace: &'static str) -> Self {
        let mut random = Random::of(namespace);
        let nodes = nodes(&mut random, namespace);
        let mut stateful_set = stateful_set(&mut random, namespace);
        stateful_set["spec"]["podManagementPolicy"] = json!("OrderedReady");
        let pps = pps(&mut random, namespace);
        let mut objects = nodes.clone();
        objects.extend([stateful_set.clone(), pps.clone()]);
        let scenario = Scenario {
            objects,
            with_pps: true,
            evict_pending_pods: true,
            ..Scenario::default()
        };
        Self {
            namespace,
            nodes,
            stateful_set,
            pps,
            random,
            scenario,
            open: 0,
        }
    }

    /// The next things happen in the simulation.
    pub(crate) fn begin(&mut self, actions: &[Action]) {
        self.scenario.actions.extend_from_slice(actions);
        self.scenario
            .observed
            .resize(self.scenario.actions.len(), BTreeMap::new());
        self.open = actions.len();
    }

    /// The scenario, with the nodes that a real scheduler took.
    pub(crate) fn scenario(&self, observed: &BTreeMap<String, String>) -> Scenario {
        let mut scenario = self.scenario.clone();
        let decided = scenario.observed.len() - self.open;
        scenario.observed[decided..].fill(observed.clone());
        scenario
    }

    /// The simulation after its last action.
    pub(crate) fn simulate(&self, observed: &BTreeMap<String, String>) -> Step {
        let mut result = run(&self.scenario(observed));
        let errors: Vec<_> = result
            .problems
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
        result
            .steps
            .pop()
            .expect("there is a step before the first action")
    }

    /// What the real scheduler took in the last happening is known.
    pub(crate) fn end(&mut self, observed: &BTreeMap<String, String>) {
        self.scenario = self.scenario(observed);
        self.open = 0;
    }

    fn is_parallel(&self) -> bool {
        self.stateful_set["spec"]["podManagementPolicy"] == "Parallel"
    }

    /// Something that can happen now. Nothing if the order of what follows would be unknown.
    pub(crate) fn next_action(&mut self, now: &Step) -> Option<Happening> {
        let world = &now.world;
        let pending = world.pods.iter().filter(|pod| pod.node.is_none()).count();
        let is_parallel = self.is_parallel();
        if is_parallel && pending > 1 {
            return None;
        }
        let (exist, lost): (Vec<_>, Vec<_>) = world.nodes.iter().partition(|node| node.exists);
        let on = |node: &str| -> BTreeSet<String> {
            let there = world
                .pods
                .iter()
                .filter(|pod| pod.node.as_deref() == Some(node));
            there.map(|pod| pod.name.clone()).collect()
        };
        // In which order the Pods of several deletions are placed again is unknown, unless the
        // workload orders them.
        let is_clear = |node: &str| !is_parallel || on(node).len() + pending <= 1;
        let some = |random: &mut Random, names: Vec<String>| {
            (!names.is_empty()).then(|| random.one(&names).clone())
        };
        let names =
            |all: &[&pps_simulation::NodeState]| all.iter().map(|node| node.name.clone()).collect();
        let happening = |action: Action, replaced: BTreeSet<String>| Happening {
            actions: vec![action],
            replaced,
        };
        let workload = NAME.to_owned();
        if world.workloads.iter().all(|workload| !workload.exists) && self.random.below(2) == 0 {
            return Some(happening(
                Action::CreateWorkload { workload },
                BTreeSet::new(),
            ));
        }
        let exists = world.workloads.iter().any(|workload| workload.exists);
        for _ in 0..100 {
            let chosen = match self.random.below(13) {
                0 | 1 => {
                    let pods = world
                        .pods
                        .iter()
                        .filter(|pod| pod.node.is_some())
                        .map(|pod| pod.name.clone());
                    let pod = some(&mut self.random, pods.collect());
                    pod.map(|pod| happening(Action::DeletePod { pod: pod.clone() }, [pod].into()))
                }
                2 => {
                    let open: Vec<_> = exist
                        .iter()
                        .copied()
                        .filter(|node| !node.cordoned)
                        .collect();
                    let node = some(&mut self.random, names(&open));
                    node.map(|node| happening(Action::Cordon { node }, BTreeSet::new()))
                }
                3 => {
                    let closed: Vec<_> =
                        exist.iter().copied().filter(|node| node.cordoned).collect();
                    let node = some(&mut self.random, names(&closed));
                    node.map(|node| happening(Action::Uncordon { node }, BTreeSet::new()))
                }
                4 | 5 => {
                    let node = some(&mut self.random, names(&exist)).filter(|node| is_clear(node));
                    node.map(|node| happening(Action::Drain { node: node.clone() }, on(&node)))
                }
                6 | 7 if exist.len() > 2 => {
                    let node = some(&mut self.random, names(&exist)).filter(|node| is_clear(node));
                    node.map(|node| Happening {
                        replaced: on(&node),
                        actions: vec![Action::LoseNode { node }, Action::EndGracePeriod {}],
                    })
                }
                8 => {
                    let node = some(&mut self.random, names(&lost));
                    node.map(|node| happening(Action::ReturnNode { node }, BTreeSet::new()))
                }
                9 => some(&mut self.random, names(&exist)).map(|node| {
                    let (key, values) = *self
                        .random
                        .one(&[(ZONE, ["a", "b"]), (DISK, ["ssd", "hdd"])]);
                    let value =
                        Some(*self.random.one(&values)).filter(|_| self.random.below(4) > 0);
                    let value = value.map(|value| own(self.namespace, value));
                    let key = key.to_owned();
                    happening(Action::LabelNode { node, key, value }, BTreeSet::new())
                }),
                10 if exists => {
                    let replicas = u32::try_from(self.random.below(5)).unwrap();
                    let is_new = self.stateful_set["spec"]["replicas"] != replicas;
                    self.stateful_set["spec"]["replicas"] = json!(replicas);
                    let action = Action::Scale {
                        workload: NAME.to_owned(),
                        replicas,
                    };
                    is_new.then(|| happening(action, BTreeSet::new()))
                }
                11 if exists => {
                    let revision = self.scenario.actions.len().to_string();
                    self.stateful_set["spec"]["template"]["metadata"]["annotations"][REVISION] =
                        json!(revision);
                    let object = self.stateful_set.clone();
                    Some(happening(Action::ChangeSpec { object }, BTreeSet::new()))
                }
                12 if exists => Some(happening(
                    Action::DeleteWorkload {
                        workload: workload.clone(),
                    },
                    BTreeSet::new(),
                )),
                _ => None,
            };
            if chosen.is_some() {
                return chosen;
            }
        }
        None
    }
}

/// A value of a topology key. Worlds share none: a node of another world would keep the sidecar
/// from evicting a Pod.
fn own(namespace: &str, name: &str) -> String {
    format!("{namespace}-{name}")
}

/// Nodes of one world.
pub(crate) fn nodes(random: &mut Random, namespace: &str) -> Vec<Value> {
    let count = 3 + random.below(3);
    (0..count)
        .map(|index| {
            let name = format!("{namespace}-node-{index}");
            let mut labels = json!({HOSTNAME: name, POOL: namespace});
            if random.below(10) > 0 {
                labels[ZONE] = json!(own(namespace, random.one::<&str>(&["a", "b", "c"])));
            }
            if random.below(2) > 0 {
                labels[DISK] = json!(own(namespace, random.one::<&str>(&["ssd", "hdd"])));
            }
            let effect = *random.one(&["NoSchedule", "PreferNoSchedule", "NoExecute", "", "", "", "", ""]);
            let mut spec = json!({});
            if !effect.is_empty() {
                spec["taints"] = json!([{"key": "dedicated", "value": "db", "effect": effect}]);
            }
            if random.below(8) == 0 {
                spec["unschedulable"] = json!(true);
            }
            let amounts = json!({"cpu": random.one(&["1", "2", "4"]), "memory": random.one(&["2Gi", "4Gi", "8Gi"]),
                "pods": random.one(&["1", "2", "3", "10"])});
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec,
                "status": {"allocatable": amounts, "capacity": amounts,
                    "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}})
        })
        .collect()
}

/// A workload for them.
pub(crate) fn stateful_set(random: &mut Random, namespace: &str) -> Value {
    let replicas = u32::try_from(1 + random.below(4)).unwrap();
    let own = |name: &str| own(namespace, name);
    let mut spec = json!({"nodeSelector": {POOL: namespace}});
    if random.below(6) == 0 {
        spec["nodeSelector"][DISK] = json!(own(random.one::<&str>(&["ssd", "hdd"])));
    }
    let expressions = [
        json!({"key": DISK, "operator": "Exists"}),
        json!({"key": DISK, "operator": "NotIn", "values": [own("hdd")]}),
        json!({"key": ZONE, "operator": "In", "values": [own("a"), own("b")]}),
        json!({"key": ZONE, "operator": "Exists"}),
    ];
    if random.below(4) == 0 {
        let terms: Vec<Value> = (0..=random.below(2))
            .map(|_| json!({"matchExpressions": [random.one(&expressions)]}))
            .collect();
        let required = json!({"nodeSelectorTerms": terms});
        spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            required;
    }
    if random.below(3) == 0 {
        let term = json!({"weight": 1 + random.below(100), "preference": {"matchExpressions": [random.one(&expressions)]}});
        spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
            json!([term]);
    }
    let selected = json!({"matchLabels": {"app": NAME}});
    if random.below(4) == 0 {
        json_patch::merge(&mut spec, &spread_over_nodes(&selected)["spec"]);
    }
    if random.below(5) == 0 {
        let when = random.one(&["DoNotSchedule", "ScheduleAnyway"]);
        spec["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": selected}]);
    }
    if random.below(2) == 0 {
        spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
    }
    let mut container = json!({"name": "main", "image": "example.invalid/main:1"});
    if random.below(2) == 0 {
        let requests = json!({"cpu": random.one(&["100m", "700m", "1"]), "memory": random.one(&["64Mi", "1Gi"])});
        container["resources"] = json!({"requests": requests});
    }
    spec["containers"] = json!([container]);
    let management = random.one(&["OrderedReady", "OrderedReady", "Parallel"]);
    StatefulSetSpec::new(namespace, NAME, replicas)
        .template(&json!({"metadata": {"annotations": {REVISION: "0"}}, "spec": spec}))
        .overrides(&json!({"spec": {"podManagementPolicy": management}}))
        .object()
}

fn pps(random: &mut Random, namespace: &str) -> Value {
    let keys = |random: &mut Random| {
        json!(random.one(&[&[ZONE][..], &[HOSTNAME], &[ZONE, HOSTNAME], &[DISK]]))
    };
    let mut spec = json!({"persistentPodStateRetentionPolicy": random.one(&["WhenScaled", "WhenDeleted", "Retain"]),
        "nodeDeletionPolicy": random.one(&["Keep", "Forget"])});
    let has_required = random.below(3) > 0;
    if has_required {
        spec["requiredPersistentTopology"] = json!({"nodeTopologyKeys": keys(random)});
    }
    if !has_required || random.below(2) == 0 {
        let term = json!({"weight": 1 + random.below(100), "preference": {"nodeTopologyKeys": keys(random)}});
        spec["preferredPersistentTopology"] = json!([term]);
    }
    if random.below(2) == 0 {
        spec["persistentPodAnnotations"] = json!([{"key": IP_ANNOTATION}]);
    }
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "PersistentPodState",
        "metadata": {"namespace": namespace, "name": NAME}, "spec": spec_for(NAME, &spec)})
}
