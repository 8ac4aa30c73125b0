// @ts-check
/** The examples, in the order in which the page lists them. The first is the default, and the best reason to use PPS. */
import { documents, nodes, running } from "./yaml.js";

/**
 * @typedef {import("./link.js").State} State
 * @typedef {{action: import("./link.js").Action, say: string}} ExampleStep
 * @typedef {{name: string, title: string, text: string[], objects: string, evictPendingPods?: boolean, steps: ExampleStep[]}} Example
 */

/** @param {string} name @param {string} spec */
function pps(name, spec) {
  return `apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata:
  name: ${name}
spec:
  targetRef:
    apiVersion: apps/v1
    kind: StatefulSet
    name: ${name}
${spec}`;
}

const LOCAL_DISK = pps(
  "db",
  `  # A Pod starts only on the node with its data.
  requiredPersistentTopology:
    nodeTopologyKeys: [kubernetes.io/hostname]
`,
);

const CALICO = pps(
  "broker",
  `  # Calico reads this annotation, but does not write it.
  persistentPodAnnotations:
  - key: cni.projectcalico.org/ipAddrs
    valueFrom: PodIPsJSON
  # An address pool often belongs to a zone.
  requiredPersistentTopology:
    nodeTopologyKeys: [topology.kubernetes.io/zone]
  # The state also outlives a scale-down.
  persistentPodStateRetentionPolicy: WhenDeleted
`,
);

const WARM_CACHE = pps(
  "cache",
  `  # The node counts most, then the zone. Any node stays possible.
  preferredPersistentTopology:
  - weight: 100
    preference: {nodeTopologyKeys: [kubernetes.io/hostname]}
  - weight: 10
    preference: {nodeTopologyKeys: [topology.kubernetes.io/zone]}
`,
);

const OWN_NODE = pps(
  "broker",
  `  # A Pod starts only on its node. Once it is moved, it still requires its zone.
  requiredPersistentTopology:
    nodeTopologyKeys: [topology.kubernetes.io/zone, kubernetes.io/hostname]
  persistentPodAnnotations:
  - key: cni.projectcalico.org/ipAddrs
    valueFrom: PodIPsJSON
`,
);

/** @param {string} name @param {string} policy */
function preferring(name, policy) {
  return pps(
    name,
    `  preferredPersistentTopology:
  - weight: 100
    preference: {nodeTopologyKeys: [kubernetes.io/hostname]}
  recordingPolicy: ${policy}
`,
  );
}

const FORGET = `${LOCAL_DISK}  # After a grace period, drop the states of a deleted node.
  nodeDeletionPolicy: Forget
`;

const BOUNDED = pps(
  "db",
  `  # A Pod waits ten minutes for its node, or for another one of its zone.
  requiredPersistentTopology:
    nodeTopologyKeys: [topology.kubernetes.io/zone, kubernetes.io/hostname]
    fallbackAfterSeconds: 600
`,
);

const REFUSED = pps(
  "db",
  `  requiredPersistentTopology:
    nodeTopologyKeys: [kubernetes.io/host name]
  preferredPersistentTopology:
  - weight: 1000
    preference: {nodeTopologyKeys: [topology.kubernetes.io/zone]}
  persistentPodAnnotations:
  - key: cni.projectcalico.org/podIP
`,
);

const CORRECTED = REFUSED.replace("host name", "hostname").replace("1000", "100").replace("podIP", "ipAddrs\n    valueFrom: PodIPsJSON");

/** @type {Example[]} */
export const EXAMPLES = [
  {
    name: "local-disk",
    title: "A database with its data on its node",
    text: [
      "Three Pods of a database run. Each keeps its data in a directory of its node (hostPath). A Pod that starts on another node finds that directory empty.",
      "Click “Next step” and compare the two columns: the same cluster, with PPS and without.",
    ],
    objects: documents(LOCAL_DISK, running("db", "/var/lib/db"), nodes(true)),
    steps: [
      {
        action: { do: "deletePod", pod: "db-1" },
        say: "Pods are re-created all the time: evictions, updates, crashes. With PPS, db-1 is back on node-4 with its data. Without PPS, the scheduler takes the node with the most room, node-3, and db-1 starts empty.",
      },
      {
        action: { do: "drain", node: "node-2" },
        say: "node-2 goes into maintenance. With PPS, db-0 waits for its data, because this PPS requires the node. Without PPS, db-0 starts empty on node-1.",
      },
      { action: { do: "uncordon", node: "node-2" }, say: "The maintenance is over. With PPS, db-0 starts on node-2, with its data. Without PPS, nothing brings it back." },
      { action: { do: "rollingUpdate", workload: "db" }, say: "An update re-creates all Pods, one after the other. With PPS, each of them has its data. Without PPS, none has." },
    ],
  },
  {
    name: "calico",
    title: "An address that clients know",
    text: [
      "Clients and firewalls know the address of each Pod of this message broker. Kubernetes gives a Pod that is re-created a new one.",
      "The PPS records the address in an annotation that Calico reads. It also requires the zone: any node of the zone will do.",
    ],
    objects: documents(CALICO, running("broker"), nodes(true)),
    steps: [
      { action: { do: "deletePod", pod: "broker-1" }, say: "With PPS, broker-1 has its address on its new node. Without PPS, it has another one, and its clients do not find it." },
      { action: { do: "drain", node: "node-2" }, say: "broker-0 has to leave node-2. With PPS, it takes its address along." },
      { action: { do: "scale", workload: "broker", replicas: 1 }, say: "broker-1 and broker-2 are deleted. Their states stay: the PPS says persistentPodStateRetentionPolicy: WhenDeleted." },
      { action: { do: "scale", workload: "broker", replicas: 3 }, say: "With PPS, both have the addresses that they had in the beginning. Without PPS, no Pod has." },
    ],
  },
  {
    name: "preferred",
    title: "A warm cache: preferred, not required",
    text: [
      "A cache is fast on the node where its files are, and works on any other. The PPS prefers the node, then the zone, and requires nothing.",
      "A preference raises the score of a node, and the scheduler takes the highest score. No step leaves a Pod Pending.",
    ],
    objects: documents(WARM_CACHE, running("cache", "/var/cache/web"), nodes(true)),
    steps: [
      { action: { do: "deletePod", pod: "cache-1" }, say: "With PPS, cache-1 is back on node-4, and warm. Without PPS, it is cold: node-3 has more room." },
      { action: { do: "rollingUpdate", workload: "cache" }, say: "An update re-creates all Pods. With PPS, the whole cache stays warm. Without PPS, all of it is cold." },
      {
        action: { do: "drain", node: "node-2" },
        say: "A preference gives way. With PPS, cache-0 starts in its zone without its files, and does not wait. “Why is the Pod there?” shows the scores.",
      },
    ],
  },
  {
    name: "home",
    title: "Pods go home after a drain",
    text: [
      "Both workloads keep files on their nodes and prefer those nodes. “home” has recordingPolicy: IfNotPresent: its Pods keep their first node as their home. “last” has the default, Always: the last node of a Pod counts.",
      "With Always, a drain makes the next node of a Pod its recorded one: after an upgrade of all nodes, every Pod is away from its files for good.",
    ],
    objects: documents(preferring("home", "IfNotPresent"), running("home", "/var/cache/home"), preferring("last", "Always"), running("last", "/var/cache/last"), nodes(true)),
    steps: [
      { action: { do: "deletePod", pod: "home-1" }, say: "With PPS, home-1 is back on node-4, with its files. Without PPS, it has lost them." },
      { action: { do: "drain", node: "node-2" }, say: "An upgrade drains node-2. A preference gives way: home-0 and last-0 start on node-1 without their files, with PPS and without." },
      { action: { do: "uncordon", node: "node-2" }, say: "The upgrade is over. Pods that run stay where they are." },
      { action: { do: "rollingUpdate", workload: "home" }, say: "IfNotPresent: home-0 goes home to node-2. With PPS, all Pods of “home” have their files. Without PPS, none has." },
      { action: { do: "rollingUpdate", workload: "last" }, say: "Always: the drain has made node-1 the node of last-0, which stays there without its files." },
    ],
  },
  {
    name: "move",
    title: "A Pod leaves its node when you say so",
    text: [
      "Each Pod of this message broker returns to its node, with the address that its clients know. If its node is out of service, it waits: this PPS lets no Pod go elsewhere by itself.",
      "kubectl pps move is your decision. It frees a Pod from its node, and keeps everything else that is recorded, such as the zone.",
    ],
    objects: documents(OWN_NODE, running("broker"), nodes(true)),
    steps: [
      { action: { do: "drain", node: "node-2" }, say: "node-2 goes out of service. With PPS, broker-0 waits for it. Without PPS, it starts on node-1 with another address, and its clients do not find it." },
      {
        action: { do: "movePod", pod: "broker-0" },
        say: "You run kubectl pps move broker-0 --anywhere. broker-0 starts on node-1: in its zone, which it still requires, and with its address. Without PPS, its clients still do not find it.",
      },
      { action: { do: "rollingUpdate", workload: "broker" }, say: "With PPS, broker-0 returns to node-1, its new node, and all Pods have their addresses. Without PPS, none has." },
    ],
  },
  {
    name: "forget",
    title: "A node is lost, for a while or for good",
    text: [
      "Each Pod requires its node. With nodeDeletionPolicy: Forget, the states of a deleted node are dropped after a grace period (5 minutes, unless you set another).",
      "The sidecar of this example runs with --evict-pending-pods, which is off by default: without it, you delete the Pod that waits. The switch is below the settings of the policy.",
    ],
    evictPendingPods: true,
    objects: documents(FORGET, running("db", "/var/lib/db"), nodes(true)),
    steps: [
      { action: { do: "loseNode", node: "node-2" }, say: "The machine of node-2 fails. With PPS, db-0 waits. Without PPS, it starts empty on node-1 at once." },
      { action: { do: "returnNode", node: "node-2" }, say: "node-2 is back within the grace period, with its disk. With PPS, db-0 has its data. Without PPS, the data is on node-2, and db-0 is not." },
      { action: { do: "loseNode", node: "node-4" }, say: "node-4 fails. With PPS, db-1 waits." },
      {
        action: { do: "endGracePeriod" },
        say: "node-4 does not come back. The sidecar drops the state of db-1 and evicts the Pod, which starts on another node. The data of node-4 is lost, with PPS and without.",
      },
    ],
  },
  {
    name: "fallback",
    title: "A Pod waits for its node, but not for hours",
    text: [
      "Each Pod requires its zone and its node, for ten minutes (fallbackAfterSeconds). Then it gives up what no node can serve: first the node, and the zone only if no node of it can take the Pod.",
      "The sidecar of this example runs with --evict-pending-pods, which is off by default: without it, Pods wait forever. The switch is below the settings of the policy.",
    ],
    evictPendingPods: true,
    objects: documents(BOUNDED, running("db", "/var/lib/db"), nodes(true)),
    steps: [
      { action: { do: "loseNode", node: "node-2" }, say: "The machine of node-2 fails. With PPS, db-0 waits. Without PPS, it starts empty on node-1 at once." },
      { action: { do: "returnNode", node: "node-2" }, say: "node-2 is back after five minutes, with its disk. With PPS, db-0 has its data. Without PPS, the data is on node-2, and db-0 is not." },
      { action: { do: "loseNode", node: "node-2" }, say: "node-2 fails again. With PPS, db-0 waits." },
      { action: { do: "endFallbackPeriod" }, say: "Ten minutes are over. db-0 gives up node-2, keeps its zone, and starts on node-1: its data has to be copied from a replica. Other Pods would follow one at a time." },
    ],
  },
  {
    name: "refused",
    title: "A mistake is refused",
    text: [
      "This PersistentPodState has three mistakes. The policy refuses it and says where each one is and what to write in its place.",
      "Correct the marked lines in “Objects”, or play the steps.",
    ],
    objects: documents(REFUSED, running("db", "/var/lib/db"), nodes(true)),
    steps: [
      { action: { do: "changeSpec", yaml: CORRECTED }, say: "A corrected PPS is applied. It is accepted, and the Pods that run are recorded." },
      { action: { do: "deletePod", pod: "db-0" }, say: "With PPS, db-0 returns to its data and keeps its address. Without PPS, it loses both." },
    ],
  },
];

/** @param {string|null} name */
export function findExample(name) {
  return EXAMPLES.find((example) => example.name === name);
}

/** @param {Example} example @param {number} step @returns {State} */
export function exampleState(example, step) {
  const actions = example.steps.map(({ action }) => action);
  const done = Math.min(step, actions.length);
  return {
    objects: example.objects,
    settings: "",
    evictPendingPods: example.evictPendingPods ?? false,
    actions,
    done,
    example: example.name,
    selected: actions.slice(0, done).reduce(selectionAfter, /** @type {string|null} */ (null)),
  };
}

/** Steps after which the next question is still about the same Pod. Others start, move and stop Pods. */
const SAME_POD = new Set(["cordon", "uncordon", "labelNode"]);

/**
 * What is selected after a step. Without a selected Pod, the details are about the Pod that changed last.
 * @param {string|null} selected what was selected before @param {import("./link.js").Action} action @returns {string|null}
 */
export function selectionAfter(selected, action) {
  if (action.do === "deletePod" || action.do === "movePod") return selected?.split("/")[1] === action.pod ? selected : `Pod/${action.pod}/with`;
  return selected?.startsWith("Pod/") && !SAME_POD.has(action.do) ? null : selected;
}

/** Whether objects, settings or the sidecar’s flag are not the example’s any more.
 * @param {Example} example @param {State} state */
export function isChanged(example, state) {
  return state.objects !== example.objects || state.settings !== "" || state.evictPendingPods !== (example.evictPendingPods ?? false);
}

/** What the example says about the steps that are done, if they are still the example's.
 * @param {State} state */
export function caption(state) {
  const example = findExample(state.example);
  if (example === undefined || state.done === 0) return null;
  const prefix = state.actions.slice(0, state.done);
  if (isChanged(example, state)) return null;
  const same = prefix.every((action, index) => JSON.stringify(action) === JSON.stringify(example.steps[index]?.action));
  return same ? (example.steps[state.done - 1]?.say ?? null) : "You have changed the steps, so the example says nothing about this one.";
}
