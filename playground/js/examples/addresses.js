// @ts-check
/** Examples about addresses, deleted nodes, OpenKruise’s objects and mistakes. */
import { documents, nodes, statefulSet } from "../yaml.js";

const KUBE_OVN = `apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata:
  name: cache
spec:
  targetRef: {apiVersion: apps.kruise.io/v1beta1, kind: StatefulSet, name: cache}
  # kube-ovn writes the address that it has assigned into this annotation, and reads it again.
  persistentPodAnnotations:
  - key: ovn.kubernetes.io/ip_address
  # The state also outlives a scale-down.
  persistentPodStateRetentionPolicy: WhenDeleted
`;

const CALICO = `apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata:
  name: db
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
  requiredPersistentTopology:
    nodeTopologyKeys: [topology.kubernetes.io/zone]
  persistentPodAnnotations:
  # Calico reads this annotation and does not write it. So the value comes from status.podIPs.
  - key: cni.projectcalico.org/ipAddrs
    valueFrom: PodIPsJSON
`;

const FORGET = `apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata:
  name: db
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
  requiredPersistentTopology:
    nodeTopologyKeys: [kubernetes.io/hostname]
  # A deleted node does not come back here: after a grace period its states are dropped.
  nodeDeletionPolicy: Forget
`;

const OPENKRUISE = `# As OpenKruise’s documentation has it.
apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata:
  name: echoserver
spec:
  targetRef:
    apiVersion: apps.kruise.io/v1beta1
    kind: StatefulSet
    name: echoserver
  requiredPersistentTopology:
    nodeTopologyKeys:
    - failure-domain.beta.kubernetes.io/zone
  preferredPersistentTopology:
  - preference:
      nodeTopologyKeys:
      - kubernetes.io/hostname
    weight: 100
`;

const REFUSED = `apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata:
  name: db
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
  requiredPersistentTopology:
    nodeTopologyKeys: [kubernetes.io/host name]
  preferredPersistentTopology:
  - weight: 1000
    preference: {nodeTopologyKeys: [topology.kubernetes.io/zone]}
  persistentPodAnnotations:
  - key: cni.projectcalico.org/podIP
`;

/** @type {import("../examples.js").Example[]} */
export const ADDRESSES = [
  {
    name: "kube-ovn",
    title: "Fixed IP with kube-ovn",
    text: [],
    objects: documents(KUBE_OVN, statefulSet("cache", { apiVersion: "apps.kruise.io/v1beta1" }), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "" },
      { action: { do: "deletePod", pod: "cache-0" }, say: "" },
      { action: { do: "scale", workload: "cache", replicas: 1 }, say: "" },
      { action: { do: "scale", workload: "cache", replicas: 3 }, say: "" },
    ],
  },
  {
    name: "calico",
    title: "Fixed IP with Calico",
    text: [],
    objects: documents(CALICO, statefulSet("db"), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "" },
      { action: { do: "deletePod", pod: "db-1" }, say: "" },
      { action: { do: "scale", workload: "db", replicas: 2 }, say: "" },
      { action: { do: "scale", workload: "db", replicas: 3 }, say: "" },
    ],
  },
  {
    name: "forget",
    title: "Forget: a node is lost for good",
    text: [],
    objects: documents(FORGET, statefulSet("db"), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "" },
      { action: { do: "loseNode", node: "node-1" }, say: "" },
      { action: { do: "endGracePeriod" }, say: "" },
    ],
  },
  {
    name: "openkruise",
    title: "OpenKruise’s objects",
    text: [],
    objects: documents(OPENKRUISE, statefulSet("echoserver", { apiVersion: "apps.kruise.io/v1beta1" }), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "" },
      { action: { do: "deletePod", pod: "echoserver-1" }, say: "" },
    ],
  },
  {
    name: "refused",
    title: "A mistake that is refused",
    text: [],
    objects: documents(REFUSED, statefulSet("db"), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "" },
      { action: { do: "deletePod", pod: "db-0" }, say: "" },
    ],
  },
];
