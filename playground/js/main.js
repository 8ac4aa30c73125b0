// @ts-check
/** The page: its state, and what each control does to it. */
import { byId, h } from "./dom.js";
import { BadLink, MAX_ACTIONS, fromFragment, toFragment } from "./link.js";
import { EXAMPLES, caption, exampleState, findExample, isChanged, selectionAfter } from "./examples.js";
import { complete, documents, findDocument, firstWorkload, node, nodes } from "./yaml.js";
import { engine } from "./engine.js";
import { Editor } from "./editor.js";
import { drawCluster } from "./cluster.js";
import { drawDetails, drawStates } from "./details.js";
import { drawEvents, drawOutcome, drawTimeline } from "./timeline.js";
import { actionLabel, findPod, latestChanged, objectName, sentences, shortList, unreadable } from "./story.js";
import { startTheme } from "./theme.js";

/**
 * @typedef {import("./link.js").State} State
 * @typedef {import("./link.js").Action} Action
 * @typedef {import("./types.js").Both} Both
 * @typedef {import("./types.js").Problem} Problem
 */

/** How long to wait after a key before the text is run again. */
const TYPING_MS = 200;
const PLAY_MS = 1600;
/** A run that takes longer is shown as such. */
const SLOW_MS = 1000;

const REPOSITORY = "https://git.example.com/pps/persistent-pod-state-policy";

/** @type {State} */
let state = exampleState(EXAMPLES[0], 0);
/** @type {Both|null} what is drawn: the last answer with steps */
let drawn = null;
let typing = 0;
let playing = 0;
let slow = 0;
/** The actions that “Undo step” took back. */
const undone = new Set();
/** Whether the objects were typed since the last answer. */
let isTyped = false;
/** The state before an object was applied that may turn out to be wrong.
 * @type {{before: State, index: number, action: Action}|null} */
let applied = null;
/** Whether the notice is about a link, which the answer to that link does not settle. */
let isNoticeOfLink = false;
let latestFragment = "";

const objects = new Editor(byId("objects-editor"), byId("objects-problems"), (text) => typed({ objects: text }, true));
const settings = new Editor(byId("settings-editor"), byId("settings-problems"), (text) => typed({ settings: text }));
const apply = new Editor(byId("apply-editor"), byId("apply-problems"), () => {});

/** @param {Partial<State>} change @param {boolean} [areObjects] */
function typed(change, areObjects = false) {
  state = { ...state, ...change };
  isTyped ||= areObjects;
  busy(true);
  clearTimeout(typing);
  typing = setTimeout(run, TYPING_MS);
}

/** @param {Partial<State>} change */
function update(change) {
  state = { ...state, ...change };
  clearTimeout(typing);
  void run();
}

/** Asks the engine, and draws its answer. */
async function run() {
  const asked = state;
  byId("copied").textContent = "";
  drawControls();
  busy(true);
  const scenario = { objects: asked.objects, settings: asked.settings, evictPendingPods: asked.evictPendingPods, actions: asked.actions.slice(0, asked.done) };
  let both;
  let lacksNodes = false;
  try {
    both = await engine.run(scenario);
    lacksNodes = both?.with.steps[0]?.world.nodes.length === 0 && /\bkind["']?:\s*["']?StatefulSet\b/.test(asked.objects);
    if (lacksNodes) both = await engine.run({ ...scenario, objects: documents(asked.objects.replace(/\n*$/, "\n"), nodes()) });
  } catch (error) {
    notice(`${error instanceof Error ? error.message : error} What you see is older.`);
    busy(false);
    return;
  }
  if (both === null) return;
  if (!isNoticeOfLink) notice(null);
  isNoticeOfLink = false;
  const readable = both.with.steps.length > 0;
  if (takeBack(both.with.problems)) return;
  if (isTyped && plan(both)) return;
  isTyped = false;
  const steps = drawn?.with.steps.length;
  if (readable || drawn === null) drawn = both;
  byId("stale").hidden = readable;
  if (!readable) byId("stale").textContent = `${unreadable(both.with.problems)} You see the cluster as it was before your last change.`;
  byId("added").hidden = !lacksNodes;
  draw(both.with.problems);
  if (readable && steps !== undefined) announce();
  if (steps === undefined) performance.mark("first answer");
  await writeLink(state);
  if (asked.objects === state.objects && asked.settings === state.settings && asked.evictPendingPods === state.evictPendingPods && asked.actions === state.actions && asked.done === state.done) busy(false);
}

/** An object that cannot be applied is no step: its text stays where it can be corrected.
 * @param {Problem[]} problems */
function takeBack(problems) {
  const last = applied;
  applied = null;
  if (last === null || state.actions[last.index] !== last.action) return false;
  const own = problems.filter((problem) => problem.action === last.index && problem.severity === "error");
  if (own.length === 0) return false;
  apply.show(own);
  update({ actions: last.before.actions, done: last.before.done, selected: last.before.selected });
  return true;
}

/** Steps for a workload of the user’s own that does not run yet: those of the example cannot be about it.
 * @param {Both} both */
function plan(both) {
  const workloads = both.with.steps[0]?.world.workloads ?? [];
  if (workloads.length === 0 || workloads.some(({ exists }) => exists) || state.actions.some((action) => action.do === "rollOut")) return false;
  isTyped = false;
  update({ actions: planned(state.objects), done: 0, selected: null });
  return true;
}

/** @param {string} objects @returns {Action[]} */
function planned(objects) {
  const workload = firstWorkload(objects);
  return workload === undefined ? [{ do: "rollOut" }] : [{ do: "rollOut" }, { do: "deletePod", pod: `${workload}-0` }];
}

/** @param {boolean} is whether what is drawn, or the link, is older than the state */
function busy(is) {
  byId("cluster").setAttribute("aria-busy", String(is));
  clearTimeout(slow);
  if (is) slow = setTimeout(() => (byId("running").textContent = "Running…"), SLOW_MS);
  else byId("running").textContent = "";
}

/** @param {Problem[]} problems */
function draw(problems) {
  const inObjects = problems.filter((problem) => problem.source === "objects" || problem.source === "scenario");
  objects.show(inObjects);
  const inSettings = problems.filter((problem) => problem.source === "settings");
  settings.show(inSettings);
  // What cannot be read at all is reported already.
  byId("refused-all").hidden = !byId("stale").hidden || !inSettings.some((problem) => problem.severity === "error");
  byId("objects-status").textContent = count(inObjects);
  const wrong = inObjects.filter((problem) => problem.severity === "error");
  byId("wrong").hidden = wrong.length === 0;
  // The sidecar makes some with the first step.
  const last = (drawn?.with.steps.length ?? 0) > 1 ? drawn?.with.steps.at(-1)?.world : undefined;
  byId("same").hidden = wrong.length > 0 || last === undefined || last.workloads.length === 0 || last.pps.length > 0;
  byId("wrong-text").textContent = wrong.length === 1 ? wrong[0].message : count(wrong);
  byId("settings-status").textContent = count(inSettings);
  drawTimeline(byId("timeline"), { actions: state.actions, done: state.done, problems, go: (done) => stop(() => update({ done })), remove });
  drawWorld();
}

/** @param {Problem[]} problems */
function count(problems) {
  if (problems.length === 0) return "No problems found.";
  const errors = problems.filter((problem) => problem.severity === "error").length;
  const warnings = problems.length - errors;
  const plural = (/** @type {number} */ number, /** @type {string} */ word) => (number === 0 ? [] : [`${number} ${word}${number === 1 ? "" : "s"}`]);
  return `${[...plural(errors, "error"), ...plural(warnings, "warning")].join(" and ")}.`;
}

function drawWorld() {
  if (drawn === null) return;
  const steps = { with: drawn.with.steps, without: drawn.without.steps };
  drawCluster(byId("cluster"), { steps, selected: state.selected, act, select });
  const [kind, name, side] = (state.selected ?? "").split("/");
  const chosen = side === "without" ? "without" : "with";
  const pod = kind === "Pod" ? findPod(steps[chosen].at(-1)?.world, name) : latestChanged(steps.with);
  drawDetails(byId("details"), pod, chosen, steps[chosen].at(-1)?.world);
  drawStates(byId("states"), steps.with.at(-1));
  drawOutcome(byId("outcome"), steps, drawn.with.problems);
  drawEvents(byId("events"), steps.with.at(-1));
}

/** What does not need the engine's answer. */
function drawControls() {
  const example = findExample(state.example);
  const next = state.actions[state.done];
  const changed = example !== undefined && isChanged(example, state);
  /** @type {HTMLSelectElement} */ (byId("example")).value = changed ? "" : (example?.name ?? "");
  byId("example-title").textContent = changed ? "Your own scenario" : (example?.title ?? "Your own scenario");
  const own = changed ? `You have changed the example “${example.title}”. “Reset example” undoes that.` : "The objects come from you or from a link.";
  byId("example-text").replaceChildren(...(changed ? [own] : (example?.text ?? [own])).map((text) => h("p", {}, text)));
  /** @type {HTMLInputElement} */ (byId("evict")).checked = state.evictPendingPods;
  byId("caption").textContent = caption(state) ?? "";
  const button = /** @type {(id: string) => HTMLButtonElement} */ (byId);
  button("next").textContent = next === undefined ? "No step left" : `Next step: ${actionLabel(next)}`;
  // Not `disabled`: that would take the focus from the button.
  setDisabled("next", next === undefined);
  setDisabled("undo", state.done === 0);
  setDisabled("play", next === undefined && playing === 0);
  setDisabled("restart", state.done === 0);
  button("reset").hidden = example === undefined;
  button("play").textContent = playing === 0 ? "Play" : "Stop";
}

/** @param {string} id @param {boolean} disabled */
function setDisabled(id, disabled) {
  byId(id).setAttribute("aria-disabled", String(disabled));
}

/** @param {Action} action done now, after the steps that are done */
function act(action) {
  if (state.actions.length >= MAX_ACTIONS) {
    notice(`The timeline has ${MAX_ACTIONS} steps, the most that it takes. Remove some first.`);
    return;
  }
  const examples = findExample(state.example)?.steps.map((step) => step.action) ?? [];
  // A new action takes the place of what the user did and undid, but not of an example's steps.
  const planned = state.actions.slice(state.done).filter((other) => !undone.has(other) || examples.includes(other));
  const actions = [...state.actions.slice(0, state.done), action, ...planned];
  stop(() => update({ actions, done: state.done + 1, selected: selectionAfter(state.selected, action) }));
}

/** @param {number} index */
function remove(index) {
  const actions = state.actions.filter((_, at) => at !== index);
  stop(() => update({ actions, done: state.done > index ? state.done - 1 : state.done }));
}

/** @param {string|null} selected */
function select(selected) {
  const shown = (state = { ...state, selected });
  drawWorld();
  // A run that is under way writes the link itself, and then for this state.
  void writeLink(shown);
}

function next() {
  const action = state.actions[state.done];
  undone.delete(action);
  if (action !== undefined) update({ done: state.done + 1, selected: selectionAfter(state.selected, action) });
}

function undo() {
  if (state.done === 0) return;
  undone.add(state.actions[state.done - 1]);
  update({ done: state.done - 1 });
}

/** Plays the planned steps, one after the other. */
function play() {
  if (playing !== 0) {
    stop(drawControls);
    return;
  }
  if (state.done >= state.actions.length) return;
  playing = setInterval(() => (state.done < state.actions.length ? next() : stop(drawControls)), PLAY_MS);
  next();
}

/** @param {() => void} then */
function stop(then) {
  clearInterval(playing);
  playing = 0;
  then();
}

/** Tells a screen reader what happened. */
function announce() {
  if (drawn === null) return;
  const action = drawn.with.steps.at(-1)?.action;
  const steps = { with: drawn.with.steps, without: drawn.without.steps };
  const said = (/** @type {import("./types.js").Side} */ side) => shortList(sentences(steps, side), 3).map(({ text }) => text).join(" ") || "No Pod changes.";
  byId("live").textContent = action ? `${actionLabel(action)}. With PPS: ${said("with")} Without PPS: ${said("without")}` : "";
}

/** @param {string|null} message */
function notice(message) {
  const element = byId("notice");
  element.hidden = message === null;
  element.textContent = message ?? "";
}

/** @param {State} shown */
async function writeLink(shown) {
  const fragment = shortLink(shown) ?? (await toFragment(shown));
  if (shown !== state) return;
  latestFragment = fragment === null ? "" : `#${fragment}`;
  history.replaceState(null, "", latestFragment === "" ? location.pathname : latestFragment);
}

/** An example that nobody changed has a link that people can read.
 * @param {State} shown */
function shortLink(shown) {
  const example = findExample(shown.example);
  if (example === undefined || JSON.stringify(exampleState(example, shown.done)) !== JSON.stringify(shown)) return null;
  return shown.done === 0 ? `example=${example.name}` : `example=${example.name}&step=${shown.done}`;
}

async function copyLink() {
  await writeLink(state);
  const said = byId("copied");
  if (latestFragment === "") {
    said.textContent = "The text is too long for a link. Send the text instead.";
    return;
  }
  try {
    await navigator.clipboard.writeText(location.href);
    said.textContent = "The link to this state is copied.";
  } catch {
    said.textContent = "The browser does not allow copying. The link is in the address bar.";
  }
}

/** Opens what the address names; what cannot be opened is reported once, and the default example is shown. */
async function open() {
  let opened = exampleState(EXAMPLES[0], 0);
  let message = null;
  try {
    const link = await fromFragment(location.hash);
    if (link.kind === "example") {
      const example = findExample(link.name);
      if (example === undefined) throw new BadLink(`There is no example “${link.name.slice(0, 40)}”.`);
      opened = exampleState(example, link.step);
    } else if (link.kind === "yaml") {
      opened = fromDocument(link.state);
    } else if (link.kind === "scenario") {
      opened = link.state;
    }
  } catch (error) {
    if (!(error instanceof BadLink)) throw error;
    message = `${error.message} You see the first example instead.`;
  }
  show(opened, message);
}

/** @param {State} document @returns {State} */
function fromDocument(document) {
  if (document.objects.trim() === "") return { ...document, objects: EXAMPLES[0].objects, actions: exampleState(EXAMPLES[0], 0).actions };
  return { ...document, objects: complete(document.objects), actions: document.actions.length === 0 ? planned(document.objects) : document.actions };
}

/** @param {State} opened @param {string|null} message */
function show(opened, message) {
  drawn = null;
  state = opened;
  objects.value = opened.objects;
  settings.value = opened.settings;
  apply.value = "";
  apply.show([]);
  notice(message);
  isNoticeOfLink = message !== null;
  stop(() => update({}));
}

function start() {
  const chooser = /** @type {HTMLSelectElement} */ (byId("example"));
  chooser.append(...EXAMPLES.map((example) => h("option", { value: example.name }, example.title)), h("option", { value: "", disabled: true }, "Your own scenario"));
  chooser.addEventListener("change", () => choose(chooser.value));
  /** @type {[string, () => void][]} */
  const buttons = [
    ["next", () => stop(next)],
    ["undo", () => stop(undo)],
    ["play", play],
    ["restart", () => stop(() => update({ done: 0 }))],
    ["reset", () => state.example !== null && choose(state.example)],
    ["copy", () => void copyLink()],
    ["apply-button", applyObject],
    ["apply-pps", () => insert(findDocument(state.objects, "PersistentPodState"))],
    ["apply-workload", () => insert(findDocument(state.objects, "StatefulSet"))],
    ["apply-node", () => insert(node("node-7", "a"))],
  ];
  for (const [id, listener] of buttons) byId(id).addEventListener("click", listener);
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[href^='#']") : null;
    if (link === null) return;
    // The fragment is the state's: a link within the page must not replace it.
    event.preventDefault();
    const target = byId((link.getAttribute("href") ?? "").slice(1));
    target.scrollIntoView();
    target.focus({ preventScroll: true });
  });
  window.addEventListener("hashchange", () => location.hash !== latestFragment && void open());
  const evict = /** @type {HTMLInputElement} */ (byId("evict"));
  evict.addEventListener("change", () => stop(() => update({ evictPendingPods: evict.checked })));
  byId("cluster").addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || state.selected === null) return;
    // The toolbar goes, and the focus to what it was about.
    const about = byId("cluster").querySelector(`[data-key="${CSS.escape(state.selected)}"]`);
    if (about instanceof HTMLElement) about.focus();
    select(null);
  });
  // Without the site around it, the page has no documents beside it.
  if (!location.pathname.includes("/playground/")) /** @type {HTMLAnchorElement} */ (byId("documents")).href = REPOSITORY;
  startTheme();
  void open();
}

/** @param {string} name */
function choose(name) {
  const example = findExample(name);
  if (example === undefined) return;
  // What a user has changed comes back with the browser's Back.
  if (latestFragment !== "" && shortLink(state) === null) history.pushState(null, "", location.href);
  show(exampleState(example, 0), null);
}

/** @param {string} yaml */
function insert(yaml) {
  apply.value = yaml;
  byId("apply").focus();
}

function applyObject() {
  const yaml = apply.value;
  if (yaml.trim() === "") {
    apply.show([{ source: "objects", object: null, action: null, line: 1, column: 1, field: null, severity: "error", message: "Write one object first." }]);
    return;
  }
  apply.show([]);
  const name = objectName(yaml);
  const nodes = drawn?.with.steps.at(-1)?.world.nodes ?? [];
  const isNewNode = name.startsWith("Node ") && nodes.every((node) => `Node ${node.name}` !== name);
  const before = state;
  const action = { do: isNewNode ? "addNode" : "changeSpec", yaml };
  act(action);
  if (state.actions.includes(action)) applied = { before, index: before.done, action };
}

start();
