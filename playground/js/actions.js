// @ts-check
/** What can be done to a node, a Pod or a workload, as buttons. */
import { button, h } from "./dom.js";

/**
 * @typedef {import("./cluster.js").Shown} Shown
 * @param {string} selected `Node/n`, `Workload/w`, or `Pod/p/side` @param {Shown} shown @returns {HTMLElement[]}
 */
export function actionsFor(selected, shown) {
  const [kind, name] = selected.split("/");
  if (kind === "Node") return nodeActions(shown, name);
  if (kind === "Workload") return workloadActions(shown, name);
  return podActions(shown, name);
}

/** @param {Shown} shown @param {string} key @param {string} label @param {import("./link.js").Action} action @param {string} title */
function tool(shown, key, label, action, title) {
  // The second click of a double click would hit what takes the button’s place.
  return button(label, (event) => event.detail < 2 && shown.act(action), { key: `tool-${key}`, class: "tool", title });
}

/** @param {string} text */
function about(text) {
  return h("span", { class: "about" }, text);
}

/** @param {Shown} shown @param {string} name */
function nodeActions(shown, name) {
  const node = shown.steps.with.at(-1)?.world.nodes.find((candidate) => candidate.name === name);
  if (node === undefined) return [];
  if (!node.exists) {
    return [
      about(name),
      tool(shown, "lose", "Return node", { do: "returnNode", node: name }, "Creates the Node object again."),
      tool(shown, "grace", "Let the grace period end", { do: "endGracePeriod" }, "A PersistentPodState with nodeDeletionPolicy: Forget drops the states of nodes that do not exist."),
      tool(shown, "wait", "Let fallbackAfterSeconds pass", { do: "endFallbackPeriod" }, "A Pod whose requirement has an end gives up what no node can serve."),
    ];
  }
  const cordon = node.cordoned
    ? tool(shown, "cordon", "Uncordon", { do: "uncordon", node: name }, "Pods may start here again.")
    : tool(shown, "cordon", "Cordon", { do: "cordon", node: name }, "No new Pod starts here. Pods that run stay.");
  const tools = [
    about(name),
    cordon,
    tool(shown, "drain", "Drain", { do: "drain", node: name }, "Cordons the node and evicts its Pods."),
    tool(shown, "lose", "Lose node", { do: "loseNode", node: name }, "Deletes the Node object and its Pods, as a cloud does when a machine is gone."),
  ];
  if (node.zone !== null) {
    tools.push(tool(shown, "zone", `Lose zone ${node.zone}`, { do: "loseZone", zone: node.zone }, "Deletes all nodes of the zone and their Pods."));
  }
  return [...tools, labelForm(shown, name), labels(node.labels)];
}

/** @param {Shown} shown @param {string} node */
function labelForm(shown, node) {
  const field = (/** @type {string} */ key, /** @type {string} */ text, /** @type {string} */ value, /** @type {number} */ size) =>
    h("label", {}, `${text} `, h("input", { key: `label-${key}`, name: key, type: "text", size, required: key === "key", autocomplete: "off", spellcheck: "false", value, maxlength: 317 }));
  const form = /** @type {HTMLFormElement} */ (
    h("form", { class: "inline" }, field("key", "Label", "topology.kubernetes.io/zone", 27), field("value", "Value", "", 10))
  );
  const read = (/** @type {string} */ name) => /** @type {HTMLInputElement} */ (form.querySelector(`[name=${name}]`)).value.trim();
  const set = (/** @type {string|null} */ value) => {
    if (form.reportValidity() && read("key") !== "") shown.act({ do: "labelNode", node, key: read("key"), value });
  };
  form.append(
    h("button", { type: "submit", key: "tool-label", class: "tool" }, "Set label"),
    button("Remove label", () => set(null), { key: "tool-unlabel", class: "tool" }),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    set(read("value"));
  });
  return form;
}

/** @param {Record<string, string>} labels */
function labels(labels) {
  const text = Object.entries(labels).map(([key, value]) => h("code", {}, `${key}=${value}`));
  return h("p", { class: "labels" }, "Labels: ", text.flatMap((label, index) => (index === 0 ? [label] : [", ", label])));
}

/** The most Pods that the engine simulates. */
const MAX_PODS = 250;

/** @param {Shown} shown @param {string} name */
function workloadActions(shown, name) {
  const workload = shown.steps.with.at(-1)?.world.workloads.find((candidate) => candidate.name === name);
  if (workload === undefined) return [];
  if (!shown.steps.with.some((step) => step.world.workloads.some((other) => other.name === name && other.exists))) {
    return [about(name), tool(shown, "delete", "Roll out", { do: "rollOut" }, "Creates the workloads, which create their Pods.")];
  }
  if (!workload.exists) {
    return [about(name), tool(shown, "delete", "Create", { do: "createWorkload", workload: name }, "Creates the workload again, which creates its Pods.")];
  }
  const all = (shown.steps.with.at(-1)?.world.workloads ?? []).reduce((sum, { replicas }) => sum + replicas, 0);
  const scale = (/** @type {number} */ replicas) => ({ do: "scale", workload: name, replicas });
  return [
    about(name),
    tool(shown, "down", `Scale to ${Math.max(workload.replicas - 1, 0)}`, scale(Math.max(workload.replicas - 1, 0)), "Deletes the Pod with the highest ordinal."),
    all < MAX_PODS ? tool(shown, "up", `Scale to ${workload.replicas + 1}`, scale(workload.replicas + 1), "Adds one Pod.") : h("span", { class: "hint" }, `At most ${MAX_PODS} Pods are simulated.`),
    tool(shown, "update", "Rolling update", { do: "rollingUpdate", workload: name }, "Replaces each Pod, as kubectl rollout restart does."),
    tool(shown, "delete", "Delete", { do: "deleteWorkload", workload: name }, "Deletes the workload and its Pods."),
  ];
}

/** @param {Shown} shown @param {string} name */
function podActions(shown, name) {
  return [
    about(name),
    tool(shown, "pod", "Delete Pod", { do: "deletePod", pod: name }, "The workload’s controller creates it again."),
    tool(shown, "move", "Move Pod", { do: "movePod", pod: name }, "With PPS: kubectl pps move --anywhere frees it from its node, and keeps its other recorded values. Without PPS, nothing happens."),
    h("a", { href: "#details-title", key: "tool-details" }, "Why is it there?"),
  ];
}
