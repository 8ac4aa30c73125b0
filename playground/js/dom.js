// @ts-check
/** Makes elements, and draws again without losing the keyboard focus. */

/** @typedef {Node | string | null | undefined | false} Child */

/**
 * @param {string} tag
 * @param {Record<string, any>} [props] attributes; `on` holds listeners, `key` names the element for `redraw`
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "key") element.dataset.key = value;
    else if (name === "value") /** @type {HTMLInputElement} */ (element).value = value;
    else element.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : String(value));
  }
  for (const child of children.flat()) if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}

/** @param {string} label @param {(event: MouseEvent) => void} action @param {Record<string, any>} [props] */
export function button(label, action, props = {}) {
  return h("button", { type: "button", ...props, on: { click: action } }, label);
}

/** @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page has no element “${id}”`);
  return element;
}

/**
 * Replaces what a container shows. The focus, what was typed and open details stay with the element of the same key; if that is gone, the
 * container is focused, so that the keyboard continues from there.
 * @param {HTMLElement} container @param {...Child} children
 */
export function redraw(container, ...children) {
  const active = /** @type {HTMLElement|null} */ (document.activeElement);
  const focused = active !== null && container.contains(active) ? active.dataset.key : undefined;
  const inputs = new Map(all(container, "input[data-key]").map((input) => [input.dataset.key, /** @type {HTMLInputElement} */ (input).value]));
  const open = new Set(all(container, "details[data-key][open]").map((details) => details.dataset.key));
  container.replaceChildren(.../** @type {Node[]} */ (children.filter(Boolean)));
  for (const input of all(container, "input[data-key]")) {
    const typed = inputs.get(input.dataset.key);
    if (typed !== undefined) /** @type {HTMLInputElement} */ (input).value = typed;
  }
  for (const details of all(container, "details[data-key]")) {
    if (open.has(details.dataset.key)) /** @type {HTMLDetailsElement} */ (details).open = true;
  }
  if (focused === undefined) return;
  const next = all(container, "[data-key]").find((element) => element.dataset.key === focused && !element.hasAttribute("disabled"));
  (next ?? container).focus({ preventScroll: true });
}

/** @param {HTMLElement} container @param {string} selector @returns {HTMLElement[]} */
function all(container, selector) {
  return [...container.querySelectorAll(selector)].map((element) => /** @type {HTMLElement} */ (element));
}
