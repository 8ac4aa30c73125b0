// @ts-check
/** Asks the engine, in a worker: a long run never blocks the page, and can be ended. Only the newest question is answered. */

/** @typedef {import("./types.js").Both} Both */

/** How long one run may take before it is ended. */
const MAX_RUN_MS = 10_000;

/** The engine gave no answer. The message is for the user. */
export class EngineError extends Error {}

class Engine {
  /** @type {Worker} */ #worker;
  /** @type {{scenario: object, resolve: (both: Both|null) => void, reject: (error: Error) => void}|null} */ #running = null;
  /** @type {{scenario: object, resolve: (both: Both|null) => void, reject: (error: Error) => void}|null} */ #next = null;
  #timer = 0;

  constructor() {
    this.#worker = this.#start();
  }

  /**
   * @param {{objects: string, settings: string, evictPendingPods: boolean, actions: object[]}} scenario
   * @returns {Promise<Both|null>} null if a newer question was asked meanwhile
   */
  run(scenario) {
    return new Promise((resolve, reject) => {
      this.#next?.resolve(null);
      this.#next = { scenario, resolve, reject };
      this.#send();
    });
  }

  #send() {
    if (this.#running !== null || this.#next === null) return;
    this.#running = this.#next;
    this.#next = null;
    this.#timer = setTimeout(() => {
      this.#restart();
      this.#end((running) => running.reject(new EngineError("The run was stopped after 10 seconds. Use fewer objects or fewer steps.")));
    }, MAX_RUN_MS);
    this.#worker.postMessage(this.#running.scenario);
  }

  /** @param {(running: {resolve: (both: Both) => void, reject: (error: Error) => void}) => void} answer */
  #end(answer) {
    clearTimeout(this.#timer);
    const running = this.#running;
    this.#running = null;
    if (running !== null) answer(running);
    this.#send();
  }

  /** After a failure nothing that was in its memory is used again. */
  #restart() {
    this.#worker.terminate();
    this.#worker = this.#start();
  }

  #start() {
    const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }) => {
      if (data.error !== undefined) {
        this.#restart();
        this.#end((running) => running.reject(new EngineError(data.error)));
      } else this.#end((running) => running.resolve(data));
    };
    worker.onerror = () => {
      this.#end((running) => running.reject(new EngineError("The engine could not be loaded. Reload the page; it needs WebAssembly.")));
    };
    return worker;
  }
}

/** Starts at once, while the browser still loads the rest of the page. */
export const engine = new Engine();
