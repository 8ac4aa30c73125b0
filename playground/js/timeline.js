// @ts-check
/** The steps, done and planned, and what happened in the last one. */
import { button, h, redraw } from "./dom.js";
import { actionLabel, sentences, shortList } from "./story.js";

/**
 * @typedef {import("./types.js").Side} Side
 * @typedef {import("./types.js").Step} Step
 * @typedef {import("./types.js").Problem} Problem
 * @typedef {{actions: import("./link.js").Action[], done: number, problems: Problem[], go: (done: number) => void, remove: (index: number) => void}} Timeline
 */

/** @param {HTMLElement} list @param {Timeline} timeline */
export function drawTimeline(list, timeline) {
  const entry = (/** @type {string} */ label, /** @type {number} */ done, /** @type {Problem[]} */ problems) => {
    const state = done === timeline.done ? "now" : done < timeline.done ? "done" : "planned";
    return h(
      "li",
      { class: state },
      button(label, () => timeline.go(done), {
        key: `step-${done}`,
        "aria-current": done === timeline.done ? "step" : null,
        title: done > timeline.done ? "Planned. Click to play up to this step." : "Click to go back to this step.",
      }),
      done > 0 && button("×", () => timeline.remove(done - 1), { key: `remove-${done}`, class: "remove", "aria-label": `Remove step ${done}: ${label}` }),
      problems.map((problem) => h("p", { class: `problem ${problem.severity}` }, problem.message)),
    );
  };
  redraw(
    list,
    entry("Start", 0, []),
    ...timeline.actions.map((action, index) => entry(actionLabel(action), index + 1, timeline.problems.filter((p) => p.action === index))),
  );
}

/**
 * Says what the last step did, with and without PPS.
 * @param {HTMLElement} container @param {Record<Side, Step[]>} steps @param {Problem[]} problems
 */
export function drawOutcome(container, steps, problems) {
  const action = steps.with.at(-1)?.action;
  if (action === null || action === undefined) {
    redraw(container, h("p", {}, "Nothing has happened yet. Click “Next step”, or select a node, a Pod or the workload and act on it."));
    return;
  }
  // Why nothing has happened.
  const reasonsWhy = (steps.with.at(-1)?.events ?? []).filter((event) => event.kind === "statesKept").map((event) => `${event.object.replace("/", " ")} ${event.text}.`);
  const column = (/** @type {string} */ title, /** @type {Side} */ side) => {
    const found = sentences(steps, side);
    const nothing = ["No Pod starts or stops.", ...(side === "with" ? reasonsWhy : [])];
    const items = found.length > 0 ? shortList(found, 4) : nothing.map((text) => ({ text, kind: /** @type {const} */ ("other") }));
    return h("div", { class: side }, h("h3", {}, title), h("ul", {}, items.map(({ text, kind }) => h("li", { class: kind }, text))));
  };
  // The first step is the state before any action.
  const failed = problems.filter((problem) => problem.action === steps.with.length - 2);
  const reasons = failed.length === 0 ? [] : [h("div", { class: "problem error" }, h("strong", {}, "This step was not done:"), h("ul", {}, failed.map((problem) => h("li", {}, problem.message))))];
  redraw(container, h("p", { class: "action" }, actionLabel(action), ":"), ...reasons, h("div", { class: "columns" }, column("With PPS", "with"), column("Without PPS", "without")));
}

/** An object does not record itself.
 * @type {Record<string, string>} */
const ACTORS = { recorded: "the sidecar ", forgotten: "the sidecar " };

/** @param {HTMLElement} container @param {Step|undefined} step */
export function drawEvents(container, step) {
  const events = step?.events ?? [];
  redraw(
    container,
    events.length === 0
      ? h("p", { class: "empty" }, "No events.")
      : h(
          "ol",
          {},
          events.slice(0, 60).map((event) => h("li", { class: event.kind }, h("span", { class: "event-kind" }, event.kind), " ", h("code", {}, event.object), " ", ACTORS[event.kind] ?? "", event.text)),
          events.length > 60 && h("li", {}, `And ${events.length - 60} more.`),
        ),
  );
}
