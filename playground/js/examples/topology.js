// @ts-check
/** Examples about where a Pod may start. */
import { documents, nodes, statefulSet } from "../yaml.js";

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
  # Its node gets a higher score. Others stay possible.
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
  # Back to the node if it can, else to the zone, else anywhere.
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
      "Choose “Next step” until the end, and compare the two columns: the same cluster, with PPS and without.",
    ],
    objects: documents(FIRST_STEPS, statefulSet("db"), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "The scheduler spreads the Pods over the zones. PPS records where each one runs: see “What PPS has recorded”." },
      { action: { do: "deletePod", pod: "db-1" }, say: "With PPS, db-1 returns to node-3, because the PPS prefers its node. Without PPS, node-4 was as good: the dashed db-1 marks it." },
      { action: { do: "cordon", node: "node-3" }, say: "node-3 takes no new Pods from now on. db-1 still runs there: a topology matters only when a Pod is created." },
      { action: { do: "deletePod", pod: "db-1" }, say: "Preferred gives way: node-3 takes no Pods, so db-1 starts on another node. Required does not give way: that node is in the same zone, b." },
      { action: { do: "cordon", node: "node-4" }, say: "Now no node of zone b takes new Pods." },
      { action: { do: "deletePod", pod: "db-1" }, say: "With PPS, db-1 stays Pending: it must return to zone b, and no node there takes it. Without PPS, it starts in another zone." },
      { action: { do: "uncordon", node: "node-4" }, say: "A node of zone b takes Pods again, and db-1 starts there. A Pod stays Pending only as long as no node can take it." },
    ],
  },
  {
    name: "local-disk",
    title: "Database on a local disk: required node",
    text: [
      "Each Pod keeps its data in a directory of its node (hostPath). The PPS requires kubernetes.io/hostname: a Pod starts on its own node or not at all.",
      "Play the steps. See a Pod wait for its node, and start there when the node takes Pods again.",
    ],
    objects: documents(LOCAL_DISK, statefulSet("db", { pod: "\n      volumes: [{name: data, hostPath: {path: /var/lib/db}}]" }), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "The node of each Pod is recorded. From now on, a Pod of that name starts only there." },
      { action: { do: "rollingUpdate", workload: "db" }, say: "All three Pods were replaced, one after the other. With PPS, each had only one node to go to. Without PPS, other nodes were as good: the dashed Pods mark them." },
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
      "Drain a node and see its Pod move within the zone. Then lose the zone.",
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
      "No step leaves a Pod Pending: a preference gives way.",
    ],
    objects: documents(PREFERRED, statefulSet("cache"), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "The node and the zone of each Pod are recorded." },
      { action: { do: "deletePod", pod: "cache-1" }, say: "With PPS, cache-1 returns to its node: no other node was as good. Without PPS, node-4 was." },
      { action: { do: "drain", node: "node-1" }, say: "node-1 takes no Pods. The second preference counts: cache-0 starts on the other node of its zone." },
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
      { action: { do: "labelNode", node: "node-2", key: "disk", value: "ssd" }, say: "node-2 has the label disk=ssd now. It is in zone a, so db-0 starts there." },
    ],
  },
];
