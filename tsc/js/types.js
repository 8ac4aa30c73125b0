// @ts-check
/**
 * What the engine answers. `engine/pps_playground.d.ts` describes it; the build makes that file.
 *
 * @typedef {import("../engine/pps_playground.js").Problem} Problem
 * @typedef {import("../engine/pps_playground.js").RecordedState} Recorded
 * @typedef {import("../engine/pps_playground.js").ClusterNode} ClusterNode
 * @typedef {import("../engine/pps_playground.js").NodeVerdict["excludedBy"][number]} Exclusion
 * @typedef {import("../engine/pps_playground.js").DiffLine} DiffLine
 * @typedef {import("../engine/pps_playground.js").Pod} Pod
 * @typedef {import("../engine/pps_playground.js").World} World
 * @typedef {import("../engine/pps_playground.js").Step} Step
 * @typedef {import("../engine/pps_playground.js").RunResult} Result
 * @typedef {{with: Result, without: Result}} Both
 * @typedef {"with"|"without"} Side
 */
export {};
