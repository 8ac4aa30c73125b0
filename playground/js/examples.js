// @ts-check
/** The examples, in the order in which the page lists them. The first is the default. */
import { ADDRESSES } from "./examples/addresses.js";
import { TOPOLOGY } from "./examples/topology.js";

/**
 * @typedef {import("./link.js").State} State
 * @typedef {{action: import("./link.js").Action, say: string}} ExampleStep
 * @typedef {{name: string, title: string, text: string[], objects: string, settings?: string, evictPendingPods?: boolean, steps: ExampleStep[]}} Example
 */

/** @type {Example[]} */
export const EXAMPLES = [...TOPOLOGY, ...ADDRESSES];

/** @param {string|null} name */
export function findExample(name) {
  return EXAMPLES.find((example) => example.name === name);
}

/** @param {Example} example @param {number} step @returns {State} */
export function exampleState(example, step) {
  const actions = example.steps.map(({ action }) => action);
  const done = Math.min(step, actions.length);
  return {
    objects: example.objects,
    settings: example.settings ?? "",
    evictPendingPods: example.evictPendingPods ?? false,
    actions,
    done,
    example: example.name,
    selected: actions.slice(0, done).reduce(selectionAfter, /** @type {string|null} */ (null)),
  };
}

/** Steps after which the next question is still about the same Pod. Others start, move and stop Pods. */
const SAME_POD = new Set(["cordon", "uncordon", "labelNode"]);

/**
 * What is selected after a step. Without a selected Pod, the details are about the Pod that changed last.
 * @param {string|null} selected what was selected before @param {import("./link.js").Action} action @returns {string|null}
 */
export function selectionAfter(selected, action) {
  if (action.do === "deletePod") return selected?.split("/")[1] === action.pod ? selected : `Pod/${action.pod}/with`;
  return selected?.startsWith("Pod/") && !SAME_POD.has(action.do) ? null : selected;
}

/** Whether objects, settings or the sidecar’s flag are not the example’s any more. @param {Example} example @param {State} state */
export function isChanged(example, state) {
  return state.objects !== example.objects || state.settings !== (example.settings ?? "") || state.evictPendingPods !== (example.evictPendingPods ?? false);
}

/** What the example says about the steps that are done, if they are still the example's. @param {State} state */
export function caption(state) {
  const example = findExample(state.example);
  if (example === undefined || state.done === 0) return null;
  const prefix = state.actions.slice(0, state.done);
  if (isChanged(example, state)) return null;
  const same = prefix.every((action, index) => JSON.stringify(action) === JSON.stringify(example.steps[index]?.action));
  return same ? (example.steps[state.done - 1]?.say ?? null) : "You have changed the steps, so the example says nothing about this one.";
}
