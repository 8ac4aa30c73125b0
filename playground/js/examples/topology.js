// @ts-check
/** Examples about where a Pod may start. */
import { documents, nodes, statefulSet } from "../yaml.js";

const FIRST_STEPS = `# Change the text and see at once what it does.
apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata:
  name: db
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
  # A Pod must return to its zone. It stays Pending while it cannot.
  requiredPersistentTopology:
    nodeTopologyKeys: [topology.kubernetes.io/zone]
  # A Pod should return to its node, if it can.
  preferredPersistentTopology:
  - weight: 100
    preference: {nodeTopologyKeys: [kubernetes.io/hostname]}
`;

const LOCAL_DISK = `apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata:
  name: db
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
  # The data is on a disk of the node: a start elsewhere would find no data.
  requiredPersistentTopology:
    nodeTopologyKeys: [kubernetes.io/hostname]
`;

const ZONE_PIN = `apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata:
  name: queue
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: queue}
  # The volume can be attached to any node of its zone.
  requiredPersistentTopology:
    nodeTopologyKeys: [topology.kubernetes.io/zone]
`;

const PREFERRED = `apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata:
  name: cache
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: cache}
  # A warm cache is worth a wait of nobody: a Pod returns if it can, and starts elsewhere if not.
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
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
  requiredPersistentTopology:
    nodeTopologyKeys: [topology.kubernetes.io/zone]
`;

/** @type {import("../examples.js").Example[]} */
export const TOPOLOGY = [
  {
    name: "first-steps",
    title: "First steps: required and preferred",
    text: [
      "A database has three Pods on six nodes. Its PersistentPodState (PPS) requires the zone and prefers the node.",
      "Choose “Next step” until the end. Compare the two columns: the same cluster with PPS and without.",
    ],
    objects: documents(FIRST_STEPS, statefulSet("db"), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "" },
      { action: { do: "deletePod", pod: "db-1" }, say: "" },
      { action: { do: "cordon", node: "node-3" }, say: "" },
      { action: { do: "deletePod", pod: "db-1" }, say: "" },
      { action: { do: "cordon", node: "node-4" }, say: "" },
      { action: { do: "deletePod", pod: "db-1" }, say: "" },
      { action: { do: "uncordon", node: "node-4" }, say: "" },
    ],
  },
  {
    name: "local-disk",
    title: "Database on a local disk: required node",
    text: [
      "Each Pod keeps its data on a disk of its node. The PPS requires kubernetes.io/hostname, so a Pod starts on its own node or not at all.",
      "Play the steps. A Pod that cannot return stays Pending, until its node takes Pods again.",
    ],
    objects: documents(LOCAL_DISK, statefulSet("db"), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "" },
      { action: { do: "rollingUpdate", workload: "db" }, say: "" },
      { action: { do: "cordon", node: "node-1" }, say: "" },
      { action: { do: "deletePod", pod: "db-0" }, say: "" },
      { action: { do: "uncordon", node: "node-1" }, say: "" },
    ],
  },
  {
    name: "zone-pin",
    title: "Zone pin: required zone",
    text: [
      "A queue has network disks that belong to a zone. The PPS requires topology.kubernetes.io/zone: any node of the zone will do.",
      "Drain a node and see its Pod move within the zone. Then lose the zone.",
    ],
    objects: documents(ZONE_PIN, statefulSet("queue"), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "" },
      { action: { do: "drain", node: "node-1" }, say: "" },
      { action: { do: "loseZone", zone: "a" }, say: "" },
      { action: { do: "returnNode", node: "node-2" }, say: "" },
    ],
  },
  {
    name: "preferred",
    title: "Preferred topology: a warm cache",
    text: [
      "A cache is faster on the node where it was. The PPS prefers the node, then the zone, and requires nothing.",
      "No step leaves a Pod Pending: a preference gives way.",
    ],
    objects: documents(PREFERRED, statefulSet("cache"), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "" },
      { action: { do: "deletePod", pod: "cache-1" }, say: "" },
      { action: { do: "drain", node: "node-1" }, say: "" },
      { action: { do: "loseZone", zone: "a" }, say: "" },
    ],
  },
  {
    name: "pending",
    title: "A Pod stays Pending, and why",
    text: [
      "The PPS requires the zone, and the Pod’s own manifest requires a node with an SSD. Together they can leave no node.",
      "Play the steps and read “Why is the Pod there?”: it names the rule that excludes each node, and whose rule it is.",
    ],
    objects: documents(
      PENDING,
      statefulSet("db", { replicas: 2, pod: "\n      nodeSelector: {disk: ssd}" }),
      nodes({ labels: (node) => (node === 1 || node === 3 || node === 5 ? "disk: ssd" : "disk: hdd") }),
    ),
    steps: [
      { action: { do: "rollOut" }, say: "" },
      { action: { do: "cordon", node: "node-1" }, say: "" },
      { action: { do: "deletePod", pod: "db-0" }, say: "" },
      { action: { do: "labelNode", node: "node-2", key: "disk", value: "ssd" }, say: "" },
    ],
  },
];
