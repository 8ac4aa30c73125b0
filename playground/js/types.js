// @ts-check
/**
 * What the engine answers, as JSON. Only the last step has `scheduler`, `manifest` and `yaml`.
 *
 * @typedef {{source: "objects"|"settings"|"action"|"scenario", action: number|null, line: number|null, column: number|null, field: string|null, severity: "error"|"warning", message: string}} Problem
 * @typedef {{nodeName?: string, nodeTopologyLabels?: Record<string, string>, annotations?: Record<string, string>}} Recorded
 * @typedef {{name: string, zone: string|null, labels: Record<string, string>, cordoned: boolean, taints: string[], exists: boolean,
 *   room: {pods: number, used: number}}} ClusterNode
 * @typedef {{name: string, kind: string, replicas: number, ready: number, exists: boolean}} Workload
 * @typedef {{what: string, text: string, fromPps: boolean}} Exclusion
 * @typedef {{node: string, fits: boolean, score: number, excludedBy: Exclusion[]}} Candidate
 * @typedef {{op: " "|"+"|"-", text: string}} DiffLine
 * @typedef {{name: string, workload: string, node: string|null, phase: "Running"|"Pending"|"Refused"|"NotCreated", ip: string|null,
 *   previousNode: string|null, previousIp: string|null, cameHome: boolean|null, recordedBefore: Recorded|null, injected: boolean, scheduler: Candidate[], mayLandOn: string[],
 *   manifest: {before: string, after: string, diff: DiffLine[]}|null, warnings: string[], refusal: {code: number, message: string}|null}} Pod
 * @typedef {{name: string, target: string, states: Record<string, Recorded>, yaml: string|null, conditions: any[]}} Pps
 * @typedef {{nodes: ClusterNode[], workloads: Workload[], pods: Pod[], pps: Pps[]}} World
 * @typedef {{kind: string, object: string, text: string}} Event
 * @typedef {{action: import("./link.js").Action|null, events: Event[], world: World}} Step
 * @typedef {{problems: Problem[], steps: Step[]}} Result
 * @typedef {{with: Result, without: Result}} Both
 * @typedef {"with"|"without"} Side
 */
export {};
