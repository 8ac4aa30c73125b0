// @ts-check
/** The playground's engine. Its module is compressed, since not every web server does that: it takes a third of the space. */
import init, { __wbg_reset_state as restart, evaluate, run, validateSettings } from "./bindings.js";

export { evaluate, restart, run, validateSettings };

/** @type {Promise<void>|undefined} */
let loaded;

/**
 * Loads the module. Nothing else works before that.
 * @param {URL} [url]
 */
export default function load(url = new URL("bindings_bg.wasm.gz", import.meta.url)) {
  loaded ??= start(url).catch((error) => {
    loaded = undefined;
    throw error;
  });
  return loaded;
}

/** @param {URL} url */
async function start(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url.pathname} cannot be loaded: ${response.status}`);
  let bytes = await response.arrayBuffer();
  const [first, second] = new Uint8Array(bytes, 0, 2);
  // Some web servers tell the browser to decompress it.
  if (first === 0x1f && second === 0x8b) {
    // @ts-ignore: Debian's TypeScript (4.8) does not know this class.
    bytes = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  }
  await init({ module_or_path: await WebAssembly.compile(bytes) });
}
