// @ts-check
/** Examples about where a Pod may start. */
import { documents, node, nodes, statefulSet } from "../yaml.js";

const FIRST_STEPS = `# Change the text and see at once what it does.
apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata:
  name: db
spec:
  targetRef:
    apiVersion: apps/v1
    kind: StatefulSet
    name: db
  # Must return to its zone. Stays Pending while it cannot.
  requiredPersistentTopology:
    nodeTopologyKeys: [topology.kubernetes.io/zone]
  # Its node gets a higher score. The highest score wins.
  preferredPersistentTopology:
  - weight: 100
    preference: {nodeTopologyKeys: [kubernetes.io/hostname]}
`;

const LOCAL_DISK = `apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata:
  name: db
spec:
  targetRef:
    apiVersion: apps/v1
    kind: StatefulSet
    name: db
  # A Pod that starts on another node does not find its data.
  requiredPersistentTopology:
    nodeTopologyKeys: [kubernetes.io/hostname]
`;

const ZONE_PIN = `apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata:
  name: queue
spec:
  targetRef:
    apiVersion: apps/v1
    kind: StatefulSet
    name: queue
  # Any node of the zone will do.
  requiredPersistentTopology:
    nodeTopologyKeys: [topology.kubernetes.io/zone]
`;

const PREFERRED = `apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata:
  name: cache
spec:
  targetRef:
    apiVersion: apps/v1
    kind: StatefulSet
    name: cache
  # The node counts most, then the zone. Any node stays possible.
  preferredPersistentTopology:
  - weight: 100
    preference: {nodeTopologyKeys: [kubernetes.io/hostname]}
  - weight: 10
    preference: {nodeTopologyKeys: [topology.kubernetes.io/zone]}
`;

const PENDING = `apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata:
  name: db
spec:
  targetRef:
    apiVersion: apps/v1
    kind: StatefulSet
    name: db
  requiredPersistentTopology:
    nodeTopologyKeys: [topology.kubernetes.io/zone]
`;

/** @type {import("../examples.js").Example[]} */
export const TOPOLOGY = [
  {
    name: "first-steps",
    title: "First steps: required and preferred",
    text: [
      "A database has three Pods on six nodes in three zones. Its PersistentPodState (PPS) requires the zone and prefers the node.",
      "Click “Next step” until the end, and compare the two columns: the same cluster, with PPS and without.",
    ],
    objects: documents(FIRST_STEPS, statefulSet("db"), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "The scheduler spreads the Pods over the zones. PPS records where each one runs: see “What PPS has recorded”." },
      { action: { do: "deletePod", pod: "db-1" }, say: "With PPS, db-1 returns to node-3: the preference makes its score the highest. Without PPS, node-4 has the same score: the dashed db-1 marks it." },
      { action: { do: "cordon", node: "node-3" }, say: "node-3 takes no new Pods from now on. db-1 still runs there: a topology matters only when a Pod is created." },
      { action: { do: "deletePod", pod: "db-1" }, say: "The preference gives way: node-3 takes no Pods, so db-1 starts on another node. The requirement does not give way: that node is in the same zone, b." },
      { action: { do: "cordon", node: "node-4" }, say: "Now no node of zone b takes new Pods." },
      { action: { do: "deletePod", pod: "db-1" }, say: "With PPS, db-1 stays Pending: it must return to zone b, and no node there takes it. Without PPS, it starts in another zone." },
      { action: { do: "uncordon", node: "node-4" }, say: "A node of zone b takes Pods again, and db-1 starts there. If no node could, you would relax the PPS and delete the Pod: a changed PPS counts for new Pods only." },
    ],
  },
  {
    name: "local-disk",
    title: "Database on a local disk: required node",
    text: [
      "Each Pod keeps its data in a directory of its node (hostPath). The PPS requires kubernetes.io/hostname: a Pod starts on its own node or not at all.",
      "Play the steps. A Pod waits for its node, and starts there when the node takes Pods again.",
    ],
    objects: documents(LOCAL_DISK, statefulSet("db", { pod: "\n      volumes: [{name: data, hostPath: {path: /var/lib/db}}]" }), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "The node of each Pod is recorded. From now on, a Pod of that name starts only there." },
      { action: { do: "rollingUpdate", workload: "db" }, say: "All three Pods were replaced, one after the other. With PPS, each had only one node to start on. Without PPS, other nodes have the same score: the dashed Pods mark them." },
      { action: { do: "cordon", node: "node-1" }, say: "node-1 takes no new Pods, for example during maintenance." },
      { action: { do: "deletePod", pod: "db-0" }, say: "With PPS, db-0 stays Pending: its data is on node-1. Without PPS, it starts on node-2, where it has no data." },
      { action: { do: "uncordon", node: "node-1" }, say: "node-1 takes Pods again, and db-0 starts there, with its data." },
    ],
  },
  {
    name: "zone-pin",
    title: "Zone pin: required zone",
    text: [
      "Each Pod of this queue serves the clients of its zone. The PPS requires topology.kubernetes.io/zone: a Pod may start on any node of its zone.",
      "Drain a node: its Pod starts again within the zone. Then lose the zone.",
    ],
    objects: documents(ZONE_PIN, statefulSet("queue"), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "The scheduler spreads the Pods over the zones. PPS records the zone of each." },
      { action: { do: "drain", node: "node-1" }, say: "node-1 is cordoned and its Pod evicted. queue-0 starts on the other node of zone a." },
      { action: { do: "loseZone", zone: "a" }, say: "With PPS, queue-0 stays Pending until zone a is back. Without PPS, it starts in another zone, far from its clients." },
      { action: { do: "returnNode", node: "node-2" }, say: "A node of zone a is back, and queue-0 starts there." },
    ],
  },
  {
    name: "preferred",
    title: "Preferred topology: a warm cache",
    text: [
      "A cache is fast where it ran before. The PPS prefers the node, then the zone, and requires nothing.",
      "A preference adds to a node’s score, and the highest score wins. So no step leaves a Pod Pending, and a preference can lose although its node fits.",
    ],
    objects: documents(PREFERRED, statefulSet("cache"), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "The node and the zone of each Pod are recorded." },
      { action: { do: "deletePod", pod: "cache-1" }, say: "With PPS, cache-1 returns to its node, which has the highest score. Without PPS, node-4 has the same score." },
      { action: { do: "changeSpec", yaml: `${node("node-3", "b")}spec:\n  taints: [{key: noisy, effect: PreferNoSchedule}]\n` }, say: "node-3 gets a taint that asks Pods to avoid it, but excludes none. cache-1 runs on." },
      { action: { do: "deletePod", pod: "cache-1" }, say: "node-3 fits, and the PPS prefers it, but node-4 has the higher score: the taint counts more than the preference. See the scores in “Why is the Pod there?”. Only a required topology binds a Pod." },
      { action: { do: "drain", node: "node-1" }, say: "node-1 takes no Pods. Of the others, the node in its zone has the highest score, by the second preference." },
      { action: { do: "loseZone", zone: "a" }, say: "No node of zone a is left. With PPS, cache-0 starts in another zone, as it does without. Only a required topology would keep it Pending." },
    ],
  },
  {
    name: "pending",
    title: "A Pod stays Pending, and why",
    text: [
      "The PPS requires the zone. The Pod’s own manifest requires a node with an SSD. Together they can leave no node.",
      "Play the steps and read “Why is the Pod there?”: it names the rule that excludes each node, and whose rule it is.",
    ],
    objects: documents(
      PENDING,
      statefulSet("db", { replicas: 2, pod: "\n      nodeSelector: {disk: ssd}" }),
      nodes({ labels: (node) => (node === 1 || node === 3 || node === 5 ? "disk: ssd" : "disk: hdd") }),
    ),
    steps: [
      { action: { do: "rollOut" }, say: "Only node-1, node-3 and node-5 have an SSD. Zone a has one of them." },
      { action: { do: "cordon", node: "node-1" }, say: "The only node of zone a with an SSD takes no new Pods." },
      { action: { do: "deletePod", pod: "db-0" }, say: "With PPS, db-0 stays Pending: node-1 is cordoned, node-2 has no SSD, and the others are in other zones. Without PPS, it starts in another zone." },
      { action: { do: "labelNode", node: "node-2", key: "disk", value: "ssd" }, say: "node-2 has the label disk=ssd now. It is in zone a, so db-0 starts there. A Pod that is Pending starts as soon as a node fits. A change of the PPS would reach it only after you delete it." },
    ],
  },
];
