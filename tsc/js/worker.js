// @ts-check
/** Runs the engine: the same scenario with PPS and without. */
import init, { run } from "../engine/pps_playground.js";

const ready = init();

self.onmessage = async ({ data }) => {
  try {
    await ready;
    const ask = (/** @type {boolean} */ withPps) => JSON.parse(run(JSON.stringify({ version: 1, ...data, withPps })));
    self.postMessage({ with: ask(true), without: ask(false) });
  } catch (error) {
    self.postMessage({ error: `The engine failed: ${error instanceof Error ? error.message : error}. Change the text or undo the last step.` });
  }
};
