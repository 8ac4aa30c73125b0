// @ts-check
/**
 * The cluster, as a table: a row for each node, in zones; the Pods with PPS in one column, those without in the other. What can be
 * done to the selected thing is in the row below it.
 */
import { h, redraw } from "./dom.js";
import { alternatives, changedPods, findPod, isUncertain, kept, losses, origin } from "./story.js";
import { actionsFor } from "./actions.js";

/**
 * @typedef {import("./types.js").Side} Side
 * @typedef {import("./types.js").Step} Step
 * @typedef {import("./types.js").Pod} Pod
 * @typedef {import("./types.js").ClusterNode} ClusterNode
 * @typedef {{steps: Record<Side, Step[]>, selected: string|null, act: (action: import("./link.js").Action) => void,
 *   select: (selected: string|null) => void}} Shown
 */

/** @type {Side[]} */
const SIDES = ["with", "without"];

/** @param {HTMLElement} container @param {Shown} shown */
export function drawCluster(container, shown) {
  const world = shown.steps.with.at(-1)?.world ?? shown.steps.without.at(-1)?.world;
  if (world === undefined) {
    redraw(container, h("p", { class: "empty" }, "There is no cluster to show. The problems are listed below the text."));
    return;
  }
  if (world.nodes.length === 0 && world.workloads.length === 0) {
    redraw(container, h("p", { class: "empty" }, "Write a Node, a StatefulSet and a PersistentPodState into “Objects”, or choose an example."));
    return;
  }
  const zones = [...new Set(world.nodes.map((node) => node.zone))].sort((a, b) => Number(a === null) - Number(b === null) || String(a).localeCompare(String(b)));
  redraw(
    container,
    row("head", [
      h("span", { role: "columnheader", class: "name" }, "Node"),
      h("span", { role: "columnheader", class: "with" }, "With PPS"),
      h("span", { role: "columnheader", class: "without" }, "Without PPS"),
    ]),
    workloads(shown),
    ...zones.map((zone) => zoneGroup(shown, world.nodes.filter((node) => node.zone === zone), zone)),
    homeless(shown),
  );
}

/** @param {string} kind @param {HTMLElement[]} cells */
function row(kind, cells) {
  return h("div", { role: "row", class: `row ${kind}` }, cells);
}

/** The row with the buttons of the selected thing.
 * @param {Shown} shown @param {string} selected */
function toolbar(shown, selected) {
  const cell = h("div", { role: "cell", "aria-colspan": 3, class: "tools" }, actionsFor(selected, shown));
  return row("toolbar", [cell]);
}

/** @param {string} text */
function spoken(text) {
  return h("span", { class: "visually-hidden" }, text);
}

/** @param {Shown} shown @param {string} id @param {Child[]} content @param {string} kind */
function selectable(shown, id, content, kind) {
  const pressed = shown.selected === id;
  return h(
    "button",
    {
      type: "button",
      key: id,
      class: kind,
      "aria-pressed": String(pressed),
      on: { click: () => shown.select(pressed ? null : id) },
    },
    ...content,
  );
}
/** @typedef {import("./dom.js").Child} Child */

/** @param {Shown} shown */
function workloads(shown) {
  const names = shown.steps.with.at(-1)?.world.workloads ?? [];
  if (names.length === 0) return null;
  const rows = names.flatMap((workload) => {
    const id = `Workload/${workload.name}`;
    const header = selectable(shown, id, [h("span", { class: "kind" }, workload.kind), " ", workload.name], "thing");
    const cells = SIDES.map((side) => {
      const found = shown.steps[side].at(-1)?.world.workloads.find((other) => other.name === workload.name);
      const lost = losses(shown.steps, side, workload.name).map((text) => h("strong", { class: "lost" }, text));
      return h("span", { role: "cell", class: side }, found === undefined || !found.exists ? "not there" : `${found.ready} of ${found.replicas} Pods run`, lost.flatMap((text) => [", ", text]));
    });
    const line = row("workload", [h("span", { role: "rowheader", class: "name" }, header), ...cells]);
    return shown.selected === id ? [line, toolbar(shown, id)] : [line];
  });
  return h("div", { role: "rowgroup", class: "group workloads" }, rows);
}

/** @param {Shown} shown @param {ClusterNode[]} nodes @param {string|null} zone */
function zoneGroup(shown, nodes, zone) {
  const title = zone === null ? "No zone" : `Zone ${zone}`;
  return h(
    "div",
    { role: "rowgroup", class: "group zone" },
    row("title", [h("span", { role: "rowheader", "aria-colspan": 3, class: "zone-name" }, title)]),
    nodes.flatMap((node) => nodeRows(shown, node)),
  );
}

/** @param {Shown} shown @param {ClusterNode} node */
function nodeRows(shown, node) {
  const id = `Node/${node.name}`;
  const signs = [
    !node.exists && "lost",
    node.exists && node.cordoned && "cordoned",
    ...(node.exists ? node.taints : []),
  ].filter((sign) => typeof sign === "string");
  const header = selectable(shown, id, [spoken("Node "), node.name, spoken(signs.map((sign) => `, ${sign}`).join(""))], "thing");
  const rowheader = h("div", { role: "rowheader", class: "name" }, header, signs.map((sign) => h("span", { class: "sign" }, sign)));
  const cells = SIDES.map((side) => {
    const world = shown.steps[side].at(-1)?.world;
    const here = (world?.pods ?? []).filter((pod) => pod.node === node.name);
    return h("div", { role: "cell", class: `pods ${side}` }, here.map((pod) => chip(shown, side, pod)), ghosts(shown, side, node.name));
  });
  const line = row(node.exists ? (node.cordoned ? "node cordoned" : "node") : "node lost", [rowheader, ...cells]);
  const inside = (/** @type {string} */ selected) => SIDES.some((side) => findPod(shown.steps[side].at(-1)?.world, podName(selected))?.node === node.name && selected.endsWith(`/${side}`));
  const selected = shown.selected;
  if (selected === id || (selected?.startsWith("Pod/") && inside(selected))) return [line, toolbar(shown, selected)];
  return [line];
}

/** @param {string} selected `Pod/db-0/with` */
function podName(selected) {
  return selected.split("/")[1] ?? "";
}

/** Pods without a node.
 * @param {Shown} shown */
function homeless(shown) {
  const lists = SIDES.map((side) => (shown.steps[side].at(-1)?.world.pods ?? []).filter((pod) => pod.node === null));
  if (lists.every((pods) => pods.length === 0)) return null;
  const cells = SIDES.map((side, index) => h("div", { role: "cell", class: `pods ${side}` }, lists[index].map((pod) => chip(shown, side, pod))));
  const line = row("node", [h("span", { role: "rowheader", class: "name" }, "On no node"), ...cells]);
  const selected = shown.selected;
  const here = selected !== null && lists.some((pods, index) => pods.some((pod) => selected === `Pod/${pod.name}/${SIDES[index]}`));
  return h("div", { role: "rowgroup", class: "group homeless" }, line, here ? toolbar(shown, selected) : null);
}

/** @param {Shown} shown @param {Side} side @param {Pod} pod */
function chip(shown, side, pod) {
  const world = shown.steps[side].at(-1)?.world;
  const was = world === undefined ? null : origin(world, pod);
  const [sign, text, look] = place(pod, was, kept(shown.steps, side, pod));
  const state = pod.phase === "NotCreated" ? "not created" : pod.phase;
  const changed = changedPods(shown.steps[side]).includes(pod.name) ? " changed" : "";
  const warnings = pod.warnings.length + pod.caveats.length;
  return selectable(
    shown,
    `Pod/${pod.name}/${side}`,
    [
      h("span", { class: "line" }, spoken("Pod "), h("b", {}, pod.name), " ", h("span", { class: "phase" }, state), " ", pod.ip && h("span", { class: "ip" }, pod.ip)),
      text === "" ? null : h("span", { class: "line place" }, h("span", { class: "mark", "aria-hidden": true }, sign), ` ${text}`),
      warnings === 0 ? null : h("span", { class: "line warned" }, `! ${warnings} ${warnings === 1 ? "warning" : "warnings"}`),
      spoken(` ${side} PPS`),
    ],
    `pod ${pod.phase.toLowerCase()} ${look}${changed}`,
  );
}

/** A sign, a text, and how the Pod looks.
 * @param {Pod} pod @param {import("./story.js").Origin|null} was @param {import("./story.js").Kept} has @returns {[string, string, string]} */
function place(pod, was, has) {
  if (was === null) return ["", "", "first"];
  if (was.place === "nowhere") return ["", pod.injected && has.data !== "none" ? `waits: its data is on ${has.node}` : `was on ${was.node}`, "nowhere"];
  const lost = [has.data === "lost" && `its data stayed on ${has.node}`, has.ip === "lost" && `clients know it at ${has.address}`].filter(Boolean);
  if (lost.length > 0) return ["✗", lost.join(", "), "elsewhere"];
  // Of several nodes with the same score, the page takes the first by name: that may be the old one.
  if (was.place === "node" && alternatives(pod).same.length > 0) return ["?", isUncertain(pod) ? "same node, not for sure" : "same node, by chance", "chance"];
  const kept = [has.data === "kept" && "its data", has.ip === "kept" && "its IP address"].filter(Boolean).join(" and ");
  const from = { node: "same node", zone: `from ${was.node}, same zone`, elsewhere: `from ${was.node}, other zone`, unknown: `from ${was.node}`, nowhere: "" }[was.place];
  if (kept !== "" || was.place === "node") return ["✓", kept === "" ? from : `${from}, with ${kept}`, "node"];
  return [{ zone: "≈", elsewhere: "✗", unknown: "" }[was.place], from, was.place];
}

/** Where the scheduler may put a Pod as well.
 * @param {Shown} shown @param {Side} side @param {string} node */
function ghosts(shown, side, node) {
  const steps = shown.steps[side];
  const selected = shown.selected?.endsWith(`/${side}`) ? podName(shown.selected) : null;
  // A first start may be anywhere, which tells nothing.
  const again = changedPods(steps).filter((name) => findPod(steps.at(-1)?.world, name)?.previousNode !== null);
  return (selected === null ? again : [selected])
    .map((name) => findPod(steps.at(-1)?.world, name))
    .filter((pod) => pod !== undefined && pod.phase === "Running" && pod.node !== node && alternatives(pod).same.includes(node))
    .map((pod) => h("span", { class: "ghost", title: `The scheduler may put ${pod?.name} here as well` }, `${pod?.name}`, spoken(" may start here as well"), h("span", { "aria-hidden": true }, "?")));
}
