// @ts-check
/**
 * Links to the playground. Everything is in the URL's fragment, which a browser does not send to any server.
 *
 *     #example=NAME             an example, before its first step
 *     #example=NAME&step=N      an example after its first N steps
 *     #scenario=DATA            a state of the page, exactly as it was
 *     #yaml=DATA                objects of a document; the page adds what is missing to try them
 *
 * DATA is the base64url text, without padding (RFC 4648, section 5), of the raw DEFLATE stream (RFC 1951: no zlib and no gzip
 * header) of a JSON object in UTF-8:
 *
 *     { "version": 1,         // required
 *       "objects": "…",       // required: YAML, several documents
 *       "settings": "…",      // YAML of the policy's settings; "" if absent
 *       "evictPendingPods": true,   // whether the sidecar runs with --evict-pending-pods; false if absent
 *       "actions": [{"do": "rollOut"}, …],   // what the timeline shows, done and planned; [] if absent
 *       "done": 2,            // how many of these actions are done; 0 if absent, at most the number of actions
 *       "example": "NAME",    // the example whose text is shown; none if absent
 *       "selected": "Pod/db-0/with" }        // none if absent
 *
 * Other fields are ignored. With `#yaml=`, the page adds Nodes in three zones if `objects` has none, a StatefulSet for each
 * PersistentPodState whose target is not there, and the actions "roll out, delete the first Pod" if there are none. With any
 * link, the page runs a StatefulSet in such Nodes if `objects` has none; they are not in the text.
 *
 * Limits: 64 KiB for DATA, 1 MiB for the JSON text, 200 actions. Beyond them, and for anything that cannot be read, the page says
 * what is wrong and shows the default example.
 */

/**
 * @typedef {{do: string, [field: string]: any}} Action
 * @typedef {{objects: string, settings: string, evictPendingPods: boolean, actions: Action[], done: number, example: string|null, selected: string|null}} State
 * @typedef {{kind: "none"}
 *   | {kind: "example", name: string, step: number}
 *   | {kind: "scenario" | "yaml", state: State}} Opened
 */

export const MAX_DATA = 64 * 1024;
export const MAX_JSON = 1024 * 1024;
export const MAX_ACTIONS = 200;

/** A link that cannot be opened. The message is for the user. */
export class BadLink extends Error {}

/** @param {State} state @returns {Promise<string|null>} the fragment without `#`, or null if it would be too long */
export async function toFragment(state) {
  const json = JSON.stringify({ version: 1, ...state });
  if (json.length > MAX_JSON) return null;
  const data = base64url(await deflate(new TextEncoder().encode(json)));
  return data.length > MAX_DATA ? null : `scenario=${data}`;
}

/** @param {string} fragment with or without `#` @returns {Promise<Opened>} @throws {BadLink} */
export async function fromFragment(fragment) {
  const text = fragment.replace(/^#/, "");
  if (text === "") return { kind: "none" };
  const fields = new Map(text.split("&").map((part) => /** @type {[string, string]} */ (split(part))));
  const example = fields.get("example");
  if (example !== undefined) {
    const step = fields.get("step") ?? "0";
    if (!/^\d{1,3}$/.test(step)) throw new BadLink(`The link’s step is “${shorten(step)}”. It must be a number.`);
    return { kind: "example", name: example, step: Number(step) };
  }
  for (const kind of /** @type {const} */ (["scenario", "yaml"])) {
    const data = fields.get(kind);
    if (data !== undefined) return { kind, state: await readData(data) };
  }
  throw new BadLink(`The link ends with “#${shorten(text)}”, which is not a link to a scenario.`);
}

/** @param {string} data @returns {Promise<State>} */
async function readData(data) {
  if (data.length > MAX_DATA) {
    throw new BadLink(`The link has ${data.length.toLocaleString("en")} characters. At most ${MAX_DATA.toLocaleString("en")} are read.`);
  }
  const damaged = new BadLink("The link is damaged: part of it is missing or was changed. Copy it again, as a whole.");
  let json;
  try {
    json = await inflate(fromBase64url(data));
  } catch (error) {
    throw error instanceof BadLink ? error : damaged;
  }
  let value;
  try {
    value = JSON.parse(json);
  } catch {
    throw damaged;
  }
  return readState(value);
}

/** @param {any} value @returns {State} */
export function readState(value) {
  if (value === null || typeof value !== "object" || typeof value.objects !== "string") {
    throw new BadLink("The link has no scenario: the field “objects” is missing.");
  }
  if (value.version !== 1) {
    throw new BadLink(`The link is of version ${shorten(String(value.version))}. This page reads version 1.`);
  }
  const actions = value.actions ?? [];
  if (!Array.isArray(actions) || !actions.every((a) => a !== null && typeof a === "object" && typeof a.do === "string")) {
    throw new BadLink("The link’s field “actions” is not a list of actions.");
  }
  if (actions.length > MAX_ACTIONS) {
    throw new BadLink(`The link has ${actions.length} actions. At most ${MAX_ACTIONS} are read.`);
  }
  const done = value.done ?? 0;
  if (!Number.isInteger(done) || done < 0 || done > actions.length) {
    throw new BadLink(`The link’s field “done” is ${shorten(String(done))}. It must be between 0 and ${actions.length}.`);
  }
  const text = (/** @type {any} */ field) => (typeof field === "string" ? field : null);
  return {
    objects: value.objects,
    settings: text(value.settings) ?? "",
    evictPendingPods: value.evictPendingPods === true,
    actions,
    done,
    example: text(value.example),
    selected: text(value.selected),
  };
}

/** @param {string} part @returns {[string, string]} */
function split(part) {
  const at = part.indexOf("=");
  return at < 0 ? [part, ""] : [part.slice(0, at), part.slice(at + 1)];
}

/** @param {string} text */
function shorten(text) {
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}

/** @param {Uint8Array} bytes */
async function deflate(bytes) {
  // @ts-ignore: Debian's TypeScript (4.8) does not know this class.
  const stream = new Blob([/** @type {BlobPart} */ (bytes)]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Stops at the limit: a short link can unpack to gigabytes.
 * @param {Uint8Array} bytes */
async function inflate(bytes) {
  // @ts-ignore: Debian's TypeScript (4.8) does not know this class.
  const stream = new Blob([/** @type {BlobPart} */ (bytes)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const reader = stream.getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    text += decoder.decode(value, { stream: true });
    if (text.length > MAX_JSON) {
      await reader.cancel();
      throw new BadLink(`The link unpacks to more than ${MAX_JSON.toLocaleString("en")} characters, the most that is read.`);
    }
  }
}

/** @param {Uint8Array} bytes */
function base64url(bytes) {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** @param {string} text */
function fromBase64url(text) {
  if (!/^[\w-]+$/.test(text)) throw new Error("not base64url");
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (char) => char.charCodeAt(0));
}
