// @ts-check
/**
 * A text field with line numbers, in which lines with problems are marked. Only the visible lines are drawn: a text may have a
 * hundred thousand of them.
 */
import { button, h } from "./dom.js";

/** @typedef {import("./types.js").Problem} Problem */

/** From here on the page inserts a text itself: a browser needs minutes for many lines. The browser's undo does not know such texts. */
const LONG_TEXT = 20_000;

export class Editor {
  /** @type {HTMLTextAreaElement} */ #text;
  /** @type {HTMLElement} */ #gutter;
  /** @type {HTMLElement} */ #marks;
  /** @type {HTMLElement} */ #list;
  /** @type {Problem[]} */ #problems = [];
  /** The worst problem of a line, and how long the line is. @type {Map<number, {problem: Problem, length: number}>} */ #marked = new Map();
  #lines = 1;
  #lineHeight = 20;

  /** @param {HTMLElement} container has a textarea @param {HTMLElement} list of messages @param {(text: string) => void} changed */
  constructor(container, list, changed) {
    this.#text = /** @type {HTMLTextAreaElement} */ (container.querySelector("textarea"));
    this.#gutter = h("div", { class: "gutter", "aria-hidden": true });
    this.#marks = h("div", { class: "marks", "aria-hidden": true });
    this.#list = list;
    container.prepend(this.#marks, this.#gutter);
    this.#text.addEventListener("scroll", () => this.#draw());
    this.#text.addEventListener("beforeinput", (event) => {
      if (event.data === null || event.data.length < LONG_TEXT) return;
      event.preventDefault();
      this.#text.setRangeText(event.data, this.#text.selectionStart, this.#text.selectionEnd, "end");
      this.#text.dispatchEvent(new InputEvent("input"));
    });
    this.#text.addEventListener("input", () => {
      this.#count();
      changed(this.#text.value);
    });
    new ResizeObserver(() => this.#draw()).observe(this.#text);
  }

  get value() {
    return this.#text.value;
  }

  /** @param {string} text */
  set value(text) {
    if (this.#text.value === text) return;
    this.#text.value = text;
    this.#text.scrollTop = 0;
    this.#problems = [];
    this.#marked.clear();
    this.#count();
  }

  /** @param {Problem[]} problems */
  show(problems) {
    this.#problems = problems;
    this.#measure();
    this.#text.setAttribute("aria-invalid", String(problems.some((problem) => problem.severity === "error")));
    this.#list.replaceChildren(...problems.slice(0, 50).map((problem) => this.#message(problem)));
    if (problems.length > 50) this.#list.append(h("li", {}, `And ${problems.length - 50} more.`));
    this.#draw();
  }

  /** @param {Problem} problem */
  #message(problem) {
    const kind = problem.severity === "error" ? "Error" : "Warning";
    const line = problem.line;
    const where = line === null ? null : button(`Line ${line}`, () => this.goTo(line, problem.column ?? 1), { class: "to-line" });
    return h("li", { class: `problem ${problem.severity}` }, h("strong", {}, kind), " ", where, where && " ", problem.message);
  }

  /** Puts the cursor there.
   * @param {number} line @param {number} column */
  goTo(line, column) {
    const text = this.#text.value;
    let at = 0;
    for (let current = 1; current < line; current += 1) {
      const end = text.indexOf("\n", at);
      if (end < 0) break;
      at = end + 1;
    }
    const end = text.indexOf("\n", at);
    this.#text.focus();
    this.#text.setSelectionRange(Math.min(at + column - 1, end < 0 ? text.length : end), end < 0 ? text.length : end);
    this.#text.scrollTop = Math.max(0, (line - 4) * this.#lineHeight);
    this.#draw();
  }

  #count() {
    const text = this.#text.value;
    let lines = 1;
    for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines += 1;
    this.#lines = lines;
    this.#draw();
  }

  #measure() {
    this.#marked.clear();
    const text = this.#text.value;
    let [line, start] = [1, 0];
    for (const problem of [...this.#problems].sort((a, b) => (a.line ?? 0) - (b.line ?? 0))) {
      if (problem.line === null) continue;
      for (; line < problem.line; line += 1) {
        const end = text.indexOf("\n", start);
        if (end < 0) return;
        start = end + 1;
      }
      const end = text.indexOf("\n", start);
      if (this.#marked.get(line)?.problem.severity === "error") continue;
      this.#marked.set(line, { problem, length: (end < 0 ? text.length : end) - start });
    }
  }

  #draw() {
    this.#lineHeight = parseFloat(getComputedStyle(this.#text).lineHeight) || this.#lineHeight;
    const top = this.#text.scrollTop;
    const first = Math.max(1, Math.floor(top / this.#lineHeight));
    const last = Math.min(this.#lines, Math.ceil((top + this.#text.clientHeight) / this.#lineHeight) + 1);
    const numbers = [];
    const marks = [];
    for (let line = first; line <= last; line += 1) {
      const marked = this.#marked.get(line);
      if (marked === undefined) {
        numbers.push(this.#place(h("span", { class: "number" }, String(line)), line, top));
        continue;
      }
      const { problem, length } = marked;
      const sign = problem.severity === "error" ? "✗" : "!";
      numbers.push(this.#place(h("span", { class: `number ${problem.severity}` }, `${sign} ${line}`), line, top));
      const said = h("span", {}, problem.message);
      said.style.marginLeft = `calc(${length + 3}ch - ${this.#text.scrollLeft}px)`;
      marks.push(this.#place(h("div", { class: `line-mark ${problem.severity}` }, said), line, top));
    }
    this.#gutter.replaceChildren(...numbers);
    this.#marks.replaceChildren(...marks);
  }

  /** @param {HTMLElement} element @param {number} line @param {number} top */
  #place(element, line, top) {
    // The content security policy forbids style attributes, but not this.
    element.style.top = `${(line - 1) * this.#lineHeight - top}px`;
    return element;
  }
}
