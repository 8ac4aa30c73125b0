// @ts-check
/** Examples about addresses, deleted nodes, OpenKruise’s objects and mistakes. */
import { documents, nodes, statefulSet } from "../yaml.js";

const KUBE_OVN = `apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata:
  name: cache
spec:
  targetRef:
    apiVersion: apps.kruise.io/v1beta1
    kind: StatefulSet
    name: cache
  # kube-ovn writes this annotation, and reads it again.
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
  targetRef:
    apiVersion: apps/v1
    kind: StatefulSet
    name: db
  requiredPersistentTopology:
    nodeTopologyKeys: [topology.kubernetes.io/zone]
  persistentPodAnnotations:
  # Calico reads this annotation, but does not write it.
  - key: cni.projectcalico.org/ipAddrs
    valueFrom: PodIPsJSON
`;

const FORGET = `apiVersion: apps.kruise.io/v1alpha1
kind: PersistentPodState
metadata:
  name: db
spec:
  targetRef:
    apiVersion: apps/v1
    kind: StatefulSet
    name: db
  requiredPersistentTopology:
    nodeTopologyKeys: [kubernetes.io/hostname]
  # After a grace period, drop the states of a deleted node.
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
  targetRef:
    apiVersion: apps/v1
    kind: StatefulSet
    name: db
  requiredPersistentTopology:
    nodeTopologyKeys: [kubernetes.io/host name]
  preferredPersistentTopology:
  - weight: 1000
    preference: {nodeTopologyKeys: [topology.kubernetes.io/zone]}
  persistentPodAnnotations:
  - key: cni.projectcalico.org/podIP
`;

const CORRECTED = REFUSED.replace("host name", "hostname").replace("1000", "100").replace("podIP", "ipAddrs\n    valueFrom: PodIPsJSON");

/** @type {import("../examples.js").Example[]} */
export const ADDRESSES = [
  {
    name: "kube-ovn",
    title: "Fixed IP with kube-ovn",
    text: [
      "kube-ovn writes a Pod’s address into an annotation. The PPS names the annotation, so the sidecar records it, and the policy injects it into the next Pod of that name. The PPS names no topology, so the Pod may start anywhere.",
      "The workload is a StatefulSet of OpenKruise: kube-ovn itself keeps the addresses of Kubernetes’ own StatefulSets.",
      "Drain a node, then scale down and up. Watch the addresses.",
    ],
    objects: documents(KUBE_OVN, statefulSet("cache", { apiVersion: "apps.kruise.io/v1beta1", size: true }), nodes({ size: true })),
    steps: [
      { action: { do: "rollOut" }, say: "Each Pod has an address, and the sidecar has recorded it." },
      { action: { do: "drain", node: "node-1" }, say: "cache-0 starts on another node. With PPS it keeps its address; without PPS it gets a new one." },
      { action: { do: "scale", workload: "cache", replicas: 1 }, say: "cache-1 and cache-2 are deleted. Their states stay: the PPS says persistentPodStateRetentionPolicy: WhenDeleted." },
      { action: { do: "scale", workload: "cache", replicas: 3 }, say: "With PPS, both Pods have the addresses that they had before." },
    ],
  },
  {
    name: "calico",
    title: "Fixed IP with Calico",
    text: [
      "Calico gives a Pod the address that an annotation asks for. It does not write that annotation itself, so valueFrom: PodIPsJSON makes it from the Pod’s addresses.",
      "An address pool often belongs to a zone, so the PPS also requires the zone.",
      "Delete a Pod, then scale down and up. Watch the addresses.",
    ],
    objects: documents(CALICO, statefulSet("db"), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "See “What PPS has recorded”: the annotation has the address of each Pod." },
      { action: { do: "deletePod", pod: "db-1" }, say: "With PPS, db-1 has the same address, in the same zone. “Why is the Pod there?” shows what the policy injected." },
      { action: { do: "scale", workload: "db", replicas: 2 }, say: "db-2 is deleted, and its state is dropped: that is the default, WhenScaled." },
      { action: { do: "scale", workload: "db", replicas: 3 }, say: "db-2 has a new address: nothing was recorded. WhenDeleted would have kept its state." },
    ],
  },
  {
    name: "forget",
    title: "Forget: a node is lost for good",
    text: [
      "The PPS requires the node of each Pod. When a cloud deletes a node for good, its Pod would wait forever.",
      "nodeDeletionPolicy: Forget drops the states of a deleted node after a grace period (5 minutes, unless you set another).",
      "The sidecar of this example runs with --evict-pending-pods, which is off by default: without it you delete the Pod that waits. The switch is below the settings of the policy.",
      "Lose a node, then let the grace period end.",
    ],
    evictPendingPods: true,
    objects: documents(FORGET, statefulSet("db"), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "The node of each Pod is recorded." },
      { action: { do: "loseNode", node: "node-1" }, say: "db-0 stays Pending: it must return to node-1, which no longer exists. If the node came back now, db-0 would start there." },
      { action: { do: "endGracePeriod" }, say: "The state of db-0 is dropped. The sidecar, which runs with --evict-pending-pods here, also evicts the Pod. Its controller creates it again, and it starts on another node." },
    ],
  },
  {
    name: "openkruise",
    title: "OpenKruise’s objects",
    text: [
      "A PersistentPodState as OpenKruise’s documentation writes it. It works unchanged, also with OpenKruise’s StatefulSet.",
      "One label in it is deprecated: see the marked line. Nodes of today do not have this label.",
      "Play the steps: the PPS is corrected on the way.",
    ],
    objects: documents(OPENKRUISE, statefulSet("echoserver", { apiVersion: "apps.kruise.io/v1beta1", size: true }), nodes({ size: true })),
    steps: [
      { action: { do: "rollOut" }, say: "The Pods start. The condition of the PPS says which label the nodes do not have." },
      { action: { do: "deletePod", pod: "echoserver-1" }, say: "echoserver-1 returns to its node: the preference makes its score the highest. It is not bound to a zone, because no zone was recorded; a warning says so." },
      { action: { do: "changeSpec", yaml: OPENKRUISE.replace("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone") }, say: "The PPS now names topology.kubernetes.io/zone. The zones of the running Pods are recorded at once." },
      { action: { do: "cordon", node: "node-2" }, say: "The Pod’s node takes no new Pods." },
      { action: { do: "deletePod", pod: "echoserver-1" }, say: "With PPS, echoserver-1 stays in its zone. Without PPS, it starts in another one." },
    ],
  },
  {
    name: "refused",
    title: "A mistake that is refused",
    text: [
      "This PersistentPodState has three mistakes. The policy refuses it and says where each one is and what to write in its place.",
      "Correct the marked lines, or play the steps.",
    ],
    objects: documents(REFUSED, statefulSet("db"), nodes()),
    steps: [
      { action: { do: "rollOut" }, say: "The Pods start, but there is no PPS: it was refused. So nothing is recorded." },
      { action: { do: "changeSpec", yaml: CORRECTED }, say: "A corrected PPS is applied. It is accepted, and the Pods that run are recorded." },
      { action: { do: "deletePod", pod: "db-0" }, say: "With PPS, db-0 returns to its node and keeps its address." },
    ],
  },
];
