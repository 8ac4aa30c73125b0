/** What is simulated. */
export interface Scenario {
  version: 1;
  /** YAML, several documents: Nodes, StatefulSets, PersistentPodStates. */
  objects: string;
  /** YAML: the policy's settings; empty for the defaults. */
  settings?: string;
  /** false: as if neither policy nor sidecar were there. */
  withPps?: boolean;
  /** Whether the sidecar runs with `--evict-pending-pods`; false if absent, as in the product. */
  evictPendingPods?: boolean;
  actions?: Action[];
}

export type Action =
  | { do: "rollOut" }
  | { do: "deletePod" | "movePod"; pod: string }
  | { do: "cordon" | "uncordon" | "drain" | "loseNode" | "returnNode"; node: string }
  | { do: "loseZone"; zone: string }
  | { do: "labelNode"; node: string; key: string; value: string | null }
  | { do: "addNode"; yaml: string }
  | { do: "scale"; workload: string; replicas: number }
  | { do: "rollingUpdate" | "deleteWorkload" | "createWorkload"; workload: string }
  | { do: "changeSpec"; yaml: string }
  | { do: "endGracePeriod" | "endFallbackPeriod" };

export interface RunResult {
  problems: Problem[];
  /** The cluster before any action, and after each. Empty if the scenario cannot be read. */
  steps: Step[];
}

export interface Problem {
  source: "objects" | "settings" | "scenario" | "action";
  /** The document in `objects`, from 0; empty documents do not count. */
  object: number | null;
  /** The action that the problem is about, from 0. */
  action: number | null;
  /** In the source's YAML, from 1. */
  line: number | null;
  /** From 1, in UTF-16 code units. */
  column: number | null;
  /** `spec.requiredPersistentTopology.nodeTopologyKeys[0]` */
  field: string | null;
  severity: "error" | "warning";
  message: string;
}

export interface Step {
  action: Action | null;
  events: ClusterEvent[];
  world: World;
}

export interface ClusterEvent {
  kind: "created" | "changed" | "deleted" | "scheduled" | "pending" | "injected" | "refused" | "recorded" | "forgotten" | "evicted" | "warning" | "statesKept" | "kept";
  /** `Pod/db-0` */
  object: string;
  text: string;
}

export interface World {
  nodes: ClusterNode[];
  workloads: Workload[];
  pods: Pod[];
  pps: PersistentPodState[];
}

export interface ClusterNode {
  name: string;
  zone: string | null;
  labels: Record<string, string>;
  cordoned: boolean;
  /** Without that of the cordon. */
  taints: string[];
  /** false: it was lost. */
  exists: boolean;
}

export interface Workload {
  name: string;
  kind: string;
  replicas: number;
  ready: number;
  /** false: it was deleted, or is not rolled out yet. */
  exists: boolean;
}

export interface RecordedState {
  nodeName?: string;
  nodeTopologyLabels?: Record<string, string>;
  annotations?: Record<string, string>;
}

export interface Pod {
  name: string;
  workload: string;
  node: string | null;
  phase: "Running" | "Pending" | "Refused" | "NotCreated";
  ip: string | null;
  /** Where the Pod of this name ran last. */
  previousNode: string | null;
  /** null: nothing was recorded when it was created. */
  cameHome: boolean | null;
  recordedBefore: RecordedState | null;
  injected: boolean;
  /** Only in the last step. */
  scheduler: NodeVerdict[];
  mayLandOn: string[];
  /** As YAML, with the directories of the node. Only in the last step, and if the Pod was created. */
  manifest: { before: string; after: string; diff: DiffLine[]; hostPaths: string[] } | null;
  warnings: string[];
  /** What a scheduler looks at and the simulation does not. */
  caveats: string[];
  refusal: { code: number; message: string } | null;
  /** It ran in the beginning. */
  isAdopted?: true;
  /** Why it cannot be evicted from the node that is drained. */
  keptBy?: string;
}

export interface NodeVerdict {
  node: string;
  score: number;
  excludedBy: { what: string; text: string; fromPps: boolean }[];
}

export interface DiffLine {
  op: " " | "+" | "-";
  text: string;
}

export interface PersistentPodState {
  name: string;
  /** `StatefulSet/db` */
  target: string;
  states: Record<string, RecordedState>;
  /** Whether annotations of its states are addresses. */
  recordsAddresses: boolean;
  /** Only in the last step. */
  yaml: string | null;
  conditions: Record<string, unknown>[];
}

/** The policy's answer to a request. */
export interface ValidationResponse {
  accepted: boolean;
  message?: string;
  code?: number;
  /** The whole object, if it was changed. */
  mutated_object?: unknown;
  audit_annotations?: Record<string, string>;
  warnings?: string[];
}

/** Answers a host call of the policy with JSON, or throws a string: the host's error text. */
export type HostFunction = (namespace: string, operation: string, payload: string) => string;
