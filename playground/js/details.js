// @ts-check
/** The details of a Pod: what was recorded, what the policy injected, and what the scheduler found. And the recorded states. */
import { h, redraw } from "./dom.js";
import { alternatives, exclusionSource, isUncertain, origin } from "./story.js";

/**
 * @typedef {import("./types.js").Pod} Pod
 * @typedef {import("./types.js").Step} Step
 * @typedef {import("./types.js").Side} Side
 * @typedef {import("./types.js").Recorded} Recorded
 */

/** @param {HTMLElement} container @param {Pod|undefined} pod @param {Side} side @param {import("./types.js").World|undefined} world */
export function drawDetails(container, pod, side, world) {
  if (pod === undefined || world === undefined) {
    redraw(container, h("p", { class: "empty" }, "Select a Pod in the cluster. Here you see why it is where it is."));
    return;
  }
  redraw(
    container,
    h("h3", {}, `Pod ${pod.name}, ${side} PPS`),
    h("p", { class: "verdict" }, verdict(pod, origin(world, pod))),
    pod.refusal && h("p", { class: "problem error" }, h("strong", {}, `Refused (${pod.refusal.code}): `), pod.refusal.message),
    ...[...pod.warnings, ...pod.caveats.map((caveat) => `the Pod is not simulated completely: ${caveat}`)].map((warning) => h("p", { class: "problem warning" }, h("strong", {}, "Warning: "), warning)),
    pod.recordedBefore && section("What was recorded when it was created", recorded(pod.recordedBefore)),
    pod.scheduler.length > 0 && section(pod.node === null ? "What the scheduler finds" : "What the scheduler found when it placed the Pod", schedulerTable(pod)),
    pod.manifest && section(pod.injected ? "What the policy injected" : "The Pod’s YAML", diff(pod, side)),
  );
}

/** @param {string} title @param {...HTMLElement} content */
function section(title, ...content) {
  return h("section", {}, h("h4", {}, title), content);
}

/** @param {Pod} pod @param {import("./story.js").Origin|null} was */
function verdict(pod, was) {
  if (pod.phase === "Refused") return "The policy refused it. Its workload’s controller tries again.";
  if (pod.phase === "NotCreated") return "Its workload has not created it yet: it waits for a Pod with a lower ordinal.";
  if (pod.phase === "Pending") {
    const by = (/** @type {string} */ source) => pod.scheduler.filter((candidate) => candidate.excludedBy.some((exclusion) => exclusionSource(exclusion) === source)).length;
    const [pps, manifest, node] = ["PPS", "Manifest", "Node"].map(by);
    if (pps === 0) return "It stays Pending. No node can take it. PPS excludes none of them.";
    const others = [manifest > 0 && `the Pod’s manifest ${manifest}`, node > 0 && `the node itself ${node}`].filter(Boolean).map((text) => `, ${text}`);
    return `It stays Pending. No node can take it. Of ${pod.scheduler.length} nodes, PPS excludes ${pps}${others.join("")}. Make a node fit, move the Pod, or relax the PPS and delete the Pod.`;
  }
  const { same, versions } = alternatives(pod);
  let chance = same.length === 0 ? "No other node has the same score." : `Nodes with the same score: ${[pod.node, ...same].join(", ")}. The page takes the first by name.`;
  if (isUncertain(pod)) chance = same.length === 0 ? "" : `A real scheduler may also choose ${same.join(", ")}: the warnings say why.`;
  else if (pod.scheduler.length === 0) chance = "";
  if (versions.length > 0) chance += ` Some versions of Kubernetes score differently, and may choose ${versions.join(", ")}.`;
  const back = was === null ? "" : was.place === "node" ? ", where it was before" : `. Before, it was on ${was.node}`;
  return `It runs on ${pod.node}${back}. ${chance}`;
}

/** @param {Recorded} state */
function recorded(state) {
  const entries = [["node", state.nodeName ?? "–"], ...Object.entries(state.nodeTopologyLabels ?? {}), ...Object.entries(state.annotations ?? {})];
  return h("dl", {}, entries.flatMap(([key, value]) => [h("dt", {}, key), h("dd", {}, value)]));
}

/** @param {Pod["scheduler"][number]} candidate */
const fits = (candidate) => candidate.excludedBy.length === 0;

/** @param {Pod} pod */
function schedulerTable(pod) {
  const rows = pod.scheduler.map((candidate) => {
    const chosen = candidate.node === pod.node ? ", chosen" : "";
    const reasons = candidate.excludedBy.map((exclusion) => {
      const source = exclusionSource(exclusion);
      return h("li", {}, h("span", { class: `source ${source.toLowerCase()}` }, source), " ", exclusion.text);
    });
    return h(
      "tr",
      { class: fits(candidate) ? "fits" : "excluded" },
      h("th", { scope: "row" }, candidate.node),
      h("td", {}, fits(candidate) ? `✓ fits${chosen}` : "✗ excluded"),
      h("td", {}, fits(candidate) ? `score ${candidate.score}` : h("ul", {}, reasons)),
    );
  });
  return h(
    "div",
    { class: "scroll" },
    pod.scheduler.some(fits) && h("p", { class: "hint" }, "Of the nodes that fit, the one with the highest score is chosen."),
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Node"), h("th", { scope: "col" }, "Result"), h("th", { scope: "col" }, "Score, or what excludes it"))),
      h("tbody", {}, rows),
    ),
  );
}

/** Lines of context around a change. */
const CONTEXT = 3;

/** @param {Pod} pod @param {Side} side */
function diff(pod, side) {
  const lines = pod.manifest?.diff ?? [];
  const changed = lines.flatMap((line, index) => (line.op === " " ? [] : [index]));
  const near = (/** @type {number} */ index) => changed.some((at) => Math.abs(at - index) <= CONTEXT);
  /** @type {HTMLElement[]} */
  const shown = [];
  let hidden = 0;
  const flush = () => {
    if (hidden > 0) shown.push(h("span", { class: "skipped" }, `… ${hidden} unchanged ${hidden === 1 ? "line" : "lines"}\n`));
    hidden = 0;
  };
  lines.forEach((line, index) => {
    if (!near(index)) {
      hidden += 1;
      return;
    }
    flush();
    shown.push(diffLine(line));
  });
  flush();
  const all = pod.isAdopted ? [h("span", {}, pod.manifest?.after ?? "")] : lines.map(diffLine);
  const whole = h("details", { key: "whole-yaml" }, h("summary", {}, "The whole Pod"), code(all, "The whole Pod, as YAML"));
  if (pod.isAdopted) return h("div", {}, h("p", {}, "It ran before the first step, so the policy has not seen it."), whole);
  if (changed.length === 0) {
    const nothing = pod.recordedBefore === null ? "Nothing was recorded for this Pod when it was created, so the policy injected nothing." : "The policy changed nothing.";
    return h("div", {}, h("p", {}, side === "without" ? "There is no policy here." : nothing), whole);
  }
  return h("div", {}, code(shown, "What the policy added to the Pod"), whole);
}

/** A block that scrolls, so the keyboard must reach it.
 * @param {HTMLElement[]} lines @param {string} label */
function code(lines, label) {
  return h("pre", { tabindex: 0, role: "region", "aria-label": label }, lines);
}

/** @param {import("./types.js").DiffLine} line */
function diffLine(line) {
  const tag = line.op === "+" ? "ins" : line.op === "-" ? "del" : "span";
  return h(tag, {}, `${line.op} ${line.text}\n`);
}

/** @param {HTMLElement} container @param {Step|undefined} step */
export function drawStates(container, step) {
  const objects = step?.world.pps ?? [];
  if (objects.length === 0) {
    redraw(container, h("p", { class: "empty" }, "There is no PersistentPodState in the cluster. Nothing is recorded."));
    return;
  }
  redraw(
    container,
    ...objects.map((pps) => {
      const names = Object.keys(pps.states).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
      const rows = names.slice(0, 100).map((name) => {
        const state = pps.states[name];
        const pairs = (/** @type {Record<string, string>|undefined} */ map) => Object.entries(map ?? {}).map(([key, value]) => h("div", {}, h("code", {}, `${key}=${value}`)));
        return h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, state.nodeName ?? "–"), h("td", {}, pairs(state.nodeTopologyLabels), pairs(state.annotations)));
      });
      return h(
        "section",
        {},
        h("h3", {}, `${pps.name}, for ${pps.target}`),
        ...conditions(pps.conditions),
        names.length === 0
          ? h("p", { class: "empty" }, "No Pod is recorded yet.")
          : h(
              "div",
              { class: "scroll" },
              h(
                "table",
                {},
                h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Pod"), h("th", { scope: "col" }, "Node"), h("th", { scope: "col" }, "Recorded values"))),
                h("tbody", {}, rows),
              ),
            ),
        names.length > 100 && h("p", {}, `And ${names.length - 100} more.`),
        pps.yaml !== null && h("details", { key: `pps-${pps.name}` }, h("summary", {}, "The object as YAML"), code([h("span", {}, pps.yaml)], `PersistentPodState ${pps.name}, as YAML`)),
      );
    }),
  );
}

/** @param {any[]} list */
function conditions(list) {
  return list.map((condition) => h("p", {}, `${condition.type}: ${condition.status} (${condition.reason})${condition.message ? `: ${condition.message}` : ""}.`));
}
