export * from "./bindings.js";
/** Starts the module afresh: after an exception, which is a defect of the playground. */
export { __wbg_reset_state as restart } from "./bindings.js";
/** Loads the module. Nothing else works before that. */
export default function load(url?: URL): Promise<void>;
