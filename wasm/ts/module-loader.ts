/** Loads the WebAssembly modules of this package: each one on first use, and again after a trap. */

import { loadedModules, settings } from "./configure.js";
import type { WasmFiles } from "./configure.js";
import { CoreLoadError } from "./errors.js";
import type { CreateGlue } from "./glue.js";
import { Instance } from "./instance.js";
import { platform } from "./platform.js";
import type { CoreInput, WasmModule } from "./wasm-input.js";

/** One WebAssembly module of this package. */
export interface Loadable<T> {
  name: keyof WasmFiles;
  /** Returns the URL of the file next to the scripts. */
  url: () => URL;
  glue: () => { create: CreateGlue<T> } | Promise<{ create: CreateGlue<T> }>;
}

/**
 * Returns a function that returns the current instance. Its first call creates the instance, and so does the first call
 * after a trap. A failed attempt may be repeated.
 */
export function lazyInstance<T>(loadable: Loadable<T>): () => Promise<Instance<T>> {
  let compiled: WasmModule | undefined;
  let loading: Promise<Instance<T>> | undefined;
  const forget = () => {
    loading = undefined;
  };
  const load = async () => {
    const { name } = loadable;
    let input: CoreInput | undefined;
    try {
      input = settings.wasm[name] ?? (await platform.ownModule?.(name)) ?? loadable.url();
      const [{ create }, module] = await Promise.all([loadable.glue(), compiled ?? compile(input)]);
      const { imports, start } = create();
      const instance = new Instance(start(await WebAssembly.instantiate(module, imports as WebAssembly.Imports), module), forget);
      compiled = module;
      loadedModules.add(name);
      return instance;
    } catch (cause) {
      forget();
      const address = typeof input === "string" || input instanceof URL ? String(input) : "";
      const from = address === "" ? "" : ` from ${address}`;
      throw new CoreLoadError(`The WebAssembly module \`${name}\` of zstn could not be loaded${from}. ${adviceFor(name, address)}`, { cause });
    }
  };
  return () => (loading ??= load());
}

function adviceFor(name: keyof WasmFiles, address: string): string {
  if (address.includes("/.vite/deps/")) return 'Vite has moved the scripts away from it: put optimizeDeps: { exclude: ["zstn"] } into its configuration.';
  const own = platform.loadAdvice?.(address);
  if (own !== undefined) return `${own} Or pass the module to configure({ wasm: { ${name} } }).`;
  return (
    `Check that it is served next to the scripts, or pass its URL to configure({ wasm: { ${name} } }). ` +
    "A page with a Content-Security-Policy must allow 'wasm-unsafe-eval' in script-src."
  );
}

async function compile(input: CoreInput): Promise<WasmModule> {
  if (input instanceof WebAssembly.Module) return input;
  const given = typeof input === "string" || input instanceof URL ? await platform.readModule(input) : input;
  if (!(given instanceof Response)) return WebAssembly.compile(given as ArrayBuffer);
  if (!given.ok) throw new Error(`The server of ${given.url} answered with status ${given.status}`);
  // The streaming compiler, which need not wait for all bytes, accepts only this media type.
  return given.headers.get("content-type") === "application/wasm" ? WebAssembly.compileStreaming(given) : WebAssembly.compile(await given.arrayBuffer());
}
