// @ts-check
/** What to say about a run. Pure functions over the engine's answers: they decide nothing about Pods. */

import { nameOf } from "./yaml.js";

/**
 * @typedef {import("./link.js").Action} Action
 * @typedef {import("./types.js").World} World
 * @typedef {import("./types.js").Step} Step
 * @typedef {import("./types.js").Pod} Pod
 * @typedef {import("./types.js").Side} Side
 */

/** @type {Record<string, (action: Action) => string>} */
const LABELS = {
  rollOut: () => "Roll out",
  deletePod: (a) => `Delete Pod ${a.pod}`,
  movePod: (a) => `Move Pod ${a.pod}`,
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
  endFallbackPeriod: () => "Let fallbackAfterSeconds pass",
};

/** Kind and name of an object, as far as its lines tell.
 * @param {any} yaml */
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
 * @typedef {{node: string, place: "node"|"zone"|"elsewhere"|"unknown"|"nowhere"}} Origin
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
  return { node: before, place };
}

/** Directories of a node that have no data of a Pod. */
const SYSTEM = /^\/(boot|dev|etc|lib|lib64|proc|run|sys|usr|var\/(lib\/(docker|kubelet)|log|run))(\/|$)|^\/$/;

/** Whether the Pod keeps data in a directory of its node.
 * @param {Pod} pod */
function keepsData(pod) {
  return (pod.manifest?.hostPaths ?? []).some((directory) => !SYSTEM.test(directory));
}

/** Whether PPS records addresses, which somebody must have asked for.
 * @param {Record<Side, Step[]>} steps */
function recordsAddresses(steps) {
  return (steps.with.at(-1)?.world.pps ?? []).some((pps) => pps.recordsAddresses);
}

/**
 * What a Pod that started again still has, compared with the first Pod of its name: its data, if it keeps some on its node, and
 * its address, if PPS records addresses. A Pod that does not run has neither yet.
 * @typedef {{data: "kept"|"lost"|"none", ip: "kept"|"lost"|"none", node: string|null, address: string|null}} Kept
 * @param {Record<Side, Step[]>} steps @param {Side} side @param {Pod} pod @returns {Kept}
 */
export function kept(steps, side, pod) {
  const isFirst = (/** @type {Pod} */ other) => other.name === pod.name && other.phase === "Running";
  const first = pod.previousNode === null ? undefined : steps[side].find((step) => step.world.pods.some(isFirst))?.world.pods.find(isFirst);
  const again = first !== undefined;
  const has = (/** @type {boolean} */ is) => (is ? "kept" : "lost");
  return {
    data: again && keepsData(pod) ? has(pod.phase === "Running" && pod.node === first.node) : "none",
    ip: again && recordsAddresses(steps) ? has(pod.phase === "Running" && pod.ip === first.ip) : "none",
    node: first?.node ?? null,
    address: first?.ip ?? null,
  };
}

/** How many Pods that run have lost something, in words.
 * @param {Record<Side, Step[]>} steps @param {Side} side @param {string} workload */
export function losses(steps, side, workload) {
  const pods = (steps[side].at(-1)?.world.pods ?? []).filter((pod) => pod.workload === workload && pod.phase === "Running");
  const count = (/** @type {"data"|"ip"} */ what) => pods.filter((pod) => kept(steps, side, pod)[what] === "lost").length;
  const [data, ip] = [count("data"), count("ip")];
  return [...(data > 0 ? [`${data} without ${data === 1 ? "its" : "their"} data`] : []), ...(ip > 0 ? [`${ip} with another IP address`] : [])];
}

/** Whether the simulation leaves out something that decides where a real scheduler puts the Pod, such as a volume.
 * @param {Pod} pod */
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

/** The Pods that were placed, refused or left Pending by the last step.
 * @param {Step[]} steps @returns {string[]} */
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

/** The Pod about which users ask first after the last step.
 * @param {Step[]} steps @returns {Pod|undefined} */
function mostInteresting(steps) {
  const world = steps.at(-1)?.world;
  const changed = changedPods(steps).flatMap((name) => findPod(world, name) ?? []);
  return changed.find((pod) => pod.phase === "Pending" || pod.phase === "Refused") ?? changed.find((pod) => pod.injected) ?? changed[0];
}

/** The Pod about which users ask first after the last step that changed one.
 * @param {Step[]} steps @returns {Pod|undefined} */
export function latestChanged(steps) {
  const world = steps.at(-1)?.world;
  for (let length = steps.length; length > 0; length -= 1) {
    const pod = findPod(world, mostInteresting(steps.slice(0, length))?.name ?? "");
    if (pod !== undefined) return pod;
  }
  return undefined;
}

/**
 * One sentence for each Pod that the last step changed.
 * @typedef {{text: string, kind: "kept"|"lost"|"waits"|"other"}} Sentence
 * @param {Record<Side, Step[]>} steps @param {Side} side @returns {Sentence[]}
 */
export function sentences(steps, side) {
  const world = steps[side].at(-1)?.world;
  if (world === undefined) return [];
  const found = changedPods(steps[side]).map((name) => sentence(steps, side, /** @type {Pod} */ (findPod(world, name))));
  const gone = (steps[side].at(-2)?.world.pods ?? []).filter((pod) => pod.phase !== "NotCreated" && findPod(world, pod.name) === undefined);
  return [...found.filter(({ text }) => text !== ""), ...gone.map((pod) => /** @type {Sentence} */ ({ text: `${pod.name} is gone.`, kind: "other" }))];
}

/** @param {Record<Side, Step[]>} steps @param {Side} side @param {Pod} pod @returns {Sentence} */
function sentence(steps, side, pod) {
  const world = /** @type {World} */ (steps[side].at(-1)?.world);
  const was = origin(world, pod);
  const { data, ip, node, address } = kept(steps, side, pod);
  if (pod.phase === "Refused") return { text: `${pod.name} is refused: ${pod.refusal?.message ?? "see its details"}.`, kind: "waits" };
  if (pod.phase === "NotCreated") return { text: was === null ? "" : `${pod.name} is not created yet.`, kind: "waits" };
  if (pod.phase === "Pending") {
    const before = was === null ? "" : pod.injected && data !== "none" ? ` Its data is on ${node}.` : ` It was on ${was.node}.`;
    return { text: `${pod.name} stays Pending: no node can take it.${before}`, kind: "waits" };
  }
  if (was === null) return { text: `${pod.name} starts on ${pod.node}.`, kind: "other" };
  const others = alternatives(pod).same.length;
  const uncertain = others > 0 && isUncertain(pod);
  const same = others === 0 ? "" : ` ${others} other ${others === 1 ? "node has" : "nodes have"} the same score.`;
  const chance = uncertain ? " A real scheduler may choose another node: see the Pod’s warnings." : was.place === "node" && same !== "" ? ` The node is the same by chance:${same}` : same;
  const isGone = world.nodes.some((other) => other.name === node && !other.exists);
  const loss = [data === "lost" && (isGone ? `its data is on ${node}, which is lost` : `its data stayed on ${node}`), ip === "lost" && `clients know it at ${address}, and it is at ${pod.ip}`].filter(Boolean);
  const gain = [data === "kept" && "its data", ip === "kept" && "its IP address"].filter(Boolean).join(" and ");
  const zone = loss.length > 0 ? "" : { node: "", zone: ", in the same zone", elsewhere: ", in another zone", unknown: "", nowhere: "" }[was.place];
  const start = (was.place === "node" || pod.node === node) && loss.length === 0 ? `returns to ${pod.node}` : `starts on ${pod.node}${zone}`;
  const text = `${pod.name} ${start}${gain === "" ? "" : `, with ${gain}`}${loss.length === 0 ? `.${chance}` : `: ${loss.join(", and ")}.`}`;
  return { text, kind: loss.length > 0 ? "lost" : gain !== "" || (was.place === "node" && same === "") ? "kept" : "other" };
}

/** @param {Sentence[]} items @param {number} most @returns {Sentence[]} */
export function shortList(items, most) {
  const rest = items.length - most;
  return rest > 0 ? [...items.slice(0, most), { text: `And ${rest} more.`, kind: "other" }] : items;
}

/** Who excludes a node.
 * @param {import("./types.js").Exclusion} exclusion */
export function exclusionSource(exclusion) {
  if (exclusion.fromPps) return "PPS";
  return ["taint", "cordon", "resources"].includes(exclusion.what) ? "Node" : "Manifest";
}

/** Which text has errors.
 * @param {import("./types.js").Problem[]} problems */
export function unreadable(problems) {
  const step = problems.find((problem) => problem.severity === "error")?.action ?? null;
  if (step !== null) return `Step ${step + 1} has an error: remove it.`;
  const isIn = (/** @type {string} */ source) => problems.some((problem) => problem.severity === "error" && problem.source === source);
  const texts = [!isIn("settings") || isIn("objects") ? "Objects" : null, isIn("settings") ? "Settings of the policy" : null].filter((text) => text !== null);
  return `${texts.map((text) => `“${text}”`).join(" and ")} ${texts.length === 1 ? "has" : "have"} errors.`;
}
