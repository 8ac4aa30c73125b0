// @ts-check
/** What to say about a run. Pure functions over the engine's answers: they decide nothing about Pods. */

import { nameOf } from "./yaml.js";

/**
 * @typedef {import("./link.js").Action} Action
 * @typedef {import("./types.js").World} World
 * @typedef {import("./types.js").Step} Step
 * @typedef {import("./types.js").Pod} Pod
 */

/** @type {Record<string, (action: Action) => string>} */
const LABELS = {
  rollOut: () => "Roll out",
  deletePod: (a) => `Delete Pod ${a.pod}`,
  cordon: (a) => `Cordon ${a.node}`,
  uncordon: (a) => `Uncordon ${a.node}`,
  drain: (a) => `Drain ${a.node}`,
  loseNode: (a) => `Lose node ${a.node}`,
  returnNode: (a) => `Return node ${a.node}`,
  loseZone: (a) => `Lose zone ${a.zone}`,
  labelNode: (a) => (a.value === null || a.value === undefined ? `Remove label ${a.key} from ${a.node}` : `Label ${a.node} ${a.key}=${a.value}`),
  addNode: (a) => `Add ${objectName(a.yaml)}`,
  scale: (a) => `Scale ${a.workload} to ${a.replicas}`,
  rollingUpdate: (a) => `Rolling update of ${a.workload}`,
  changeSpec: (a) => `Apply ${objectName(a.yaml)}`,
  deleteWorkload: (a) => `Delete ${a.workload}`,
  createWorkload: (a) => `Create ${a.workload}`,
  endGracePeriod: () => "Let the grace period end",
};

/** Kind and name of an object, as far as its lines tell. @param {any} yaml */
export function objectName(yaml) {
  const kind = /^kind:\s*(\w{1,40})/m.exec(String(yaml))?.[1];
  const name = nameOf(String(yaml));
  return [kind ?? "an object", name].filter(Boolean).join(" ");
}

/** @param {Action} action */
export function actionLabel(action) {
  const label = Object.hasOwn(LABELS, action.do) ? LABELS[action.do] : () => action.do;
  return label(action);
}

/** @param {World|undefined} world @param {string} name */
export function findPod(world, name) {
  return world?.pods.find((pod) => pod.name === name);
}

/** @param {World} world @param {string|null} node */
function zoneOf(world, node) {
  return world.nodes.find((candidate) => candidate.name === node)?.zone ?? null;
}

/**
 * Where the Pod of this name ran before, and how the new place compares.
 * @typedef {{node: string, place: "node"|"zone"|"elsewhere"|"unknown"|"nowhere", ip: "same"|"new"|"none"}} Origin
 * @param {World} world @param {Pod} pod @returns {Origin|null} null: it never ran before
 */
export function origin(world, pod) {
  const before = pod.previousNode;
  if (before === null) return null;
  // The node may have lost its label since then.
  const zone = zoneOf(world, before) ?? pod.recordedBefore?.nodeTopologyLabels?.["topology.kubernetes.io/zone"] ?? null;
  const now = zoneOf(world, pod.node);
  /** @type {Origin["place"]} */
  let place = "elsewhere";
  if (pod.phase !== "Running") place = "nowhere";
  else if (pod.node === before) place = "node";
  else if (zone === null || now === null) place = "unknown";
  else if (zone === now) place = "zone";
  return { node: before, place, ip: pod.ip === null || pod.previousIp === null ? "none" : pod.ip === pod.previousIp ? "same" : "new" };
}

/** Whether the simulation leaves out something that decides where a real scheduler puts the Pod, such as a volume. @param {Pod} pod */
export function isUncertain(pod) {
  return pod.caveats.length > 0;
}

/**
 * Where else the scheduler may put a Pod that runs: nodes with the same score, and those that only some versions of Kubernetes
 * choose. Where the simulation is uncertain, scores say nothing, and all are in `same`.
 * @param {Pod} pod @returns {{same: string[], versions: string[]}}
 */
export function alternatives(pod) {
  const others = pod.mayLandOn.filter((node) => node !== pod.node);
  const score = (/** @type {string|null} */ node) => pod.scheduler.find((candidate) => candidate.node === node)?.score;
  const isSame = (/** @type {string} */ node) => isUncertain(pod) || score(node) === score(pod.node);
  return { same: others.filter(isSame), versions: others.filter((node) => !isSame(node)) };
}

/** The Pods that were placed, refused or left Pending by the last step. @param {Step[]} steps @returns {string[]} */
export function changedPods(steps) {
  const step = steps.at(-1);
  const before = steps.at(-2)?.world;
  if (step === undefined) return [];
  const placed = new Set(step.events.filter((event) => event.kind === "scheduled").map((event) => event.object));
  return step.world.pods
    .filter((pod) => {
      const old = findPod(before, pod.name);
      return placed.has(`Pod/${pod.name}`) || old?.phase !== pod.phase || old?.node !== pod.node;
    })
    .map((pod) => pod.name);
}

/** The Pod about which users ask first after the last step. @param {Step[]} steps @returns {Pod|undefined} */
function mostInteresting(steps) {
  const world = steps.at(-1)?.world;
  const changed = changedPods(steps).flatMap((name) => findPod(world, name) ?? []);
  return changed.find((pod) => pod.phase === "Pending" || pod.phase === "Refused") ?? changed.find((pod) => pod.injected) ?? changed[0];
}

/** The Pod about which users ask first after the last step that changed one. @param {Step[]} steps @returns {Pod|undefined} */
export function latestChanged(steps) {
  const world = steps.at(-1)?.world;
  for (let length = steps.length; length > 0; length -= 1) {
    const pod = findPod(world, mostInteresting(steps.slice(0, length))?.name ?? "");
    if (pod !== undefined) return pod;
  }
  return undefined;
}

/** One sentence for each Pod that the last step changed. @param {Step[]} steps @returns {string[]} */
export function sentences(steps) {
  const world = steps.at(-1)?.world;
  if (world === undefined) return [];
  const found = changedPods(steps).map((name) => sentence(world, /** @type {Pod} */ (findPod(world, name))));
  const gone = (steps.at(-2)?.world.pods ?? []).filter((pod) => pod.phase !== "NotCreated" && findPod(world, pod.name) === undefined);
  return [...found.filter((text) => text !== ""), ...gone.map((pod) => `${pod.name} is gone.`)];
}

/** @param {World} world @param {Pod} pod */
function sentence(world, pod) {
  const was = origin(world, pod);
  if (pod.phase === "Refused") return `${pod.name} is refused: ${pod.refusal?.message ?? "see its details"}.`;
  if (pod.phase === "NotCreated") return was === null ? "" : `${pod.name} is not created yet.`;
  if (pod.phase === "Pending") return `${pod.name} stays Pending: no node can take it.${was === null ? "" : ` It was on ${was.node}.`}`;
  const others = alternatives(pod).same.length;
  const uncertain = others > 0 && isUncertain(pod);
  let sameScore = others === 0 ? "" : `${others} other ${others === 1 ? "node has" : "nodes have"} the same score.`;
  if (uncertain) sameScore = "A real scheduler may choose another node: see the Pod’s warnings.";
  if (was === null) return `${pod.name} starts on ${pod.node}.`;
  const ip = { same: " with its IP address", new: " with a new IP address", none: "" }[was.ip];
  const more = sameScore === "" ? "" : ` ${sameScore}`;
  if (was.place === "node") return `${pod.name} returns to ${pod.node}${ip}.${more === "" || uncertain ? more : ` The node is the same by chance:${more}`}`;
  const zone = { zone: ", in the same zone", elsewhere: ", in another zone", unknown: "", nowhere: "" }[was.place];
  return `${pod.name} starts on ${pod.node}${zone} (before: ${was.node})${ip === "" ? "" : `,${ip}`}.${more}`;
}

/** @param {string[]} items @param {number} most */
export function shortList(items, most) {
  const rest = items.length - most;
  return rest > 0 ? [...items.slice(0, most), `And ${rest} more.`] : items;
}

/** Who excludes a node. @param {import("./types.js").Exclusion} exclusion */
export function exclusionSource(exclusion) {
  if (exclusion.fromPps) return "PPS";
  return ["taint", "cordon", "resources"].includes(exclusion.what) ? "Node" : "Manifest";
}

/** Which text has errors. @param {import("./types.js").Problem[]} problems */
export function unreadable(problems) {
  const step = /^action (\d+)$/.exec(problems.find((problem) => problem.severity === "error")?.source ?? "");
  if (step !== null) return `Step ${Number(step[1]) + 1} has an error: remove it.`;
  const isIn = (/** @type {string} */ source) => problems.some((problem) => problem.severity === "error" && problem.source === source);
  const texts = [!isIn("settings") || isIn("objects") ? "Objects" : null, isIn("settings") ? "Settings of the policy" : null].filter((text) => text !== null);
  return `${texts.map((text) => `“${text}”`).join(" and ")} ${texts.length === 1 ? "has" : "have"} errors.`;
}
