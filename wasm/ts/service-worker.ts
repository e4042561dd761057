/**
 * The entry `zstn/service-worker`: in the page's own service worker, packed models are answered as the safetensors
 * files they were packed from, so that whatever reads safetensors with ranges works unchanged.
 *
 * @module zstn/service-worker
 */

import * as formatsGlue from "./core/zstn_formats.js";
import { lazyCore } from "./core.js";
import type { Core } from "./core.js";
import { InvalidInputError } from "./errors.js";
import { lazyModule } from "./module.js";
import type { CoreInput } from "./module.js";
import { opener } from "./open.js";
import type { OpenOptions } from "./open.js";
import { pageAddress } from "./page-address.js";
import type { SafetensorsBlobOptions } from "./virtual/model-file.js";
import { ServedFile } from "./virtual/served.js";

export type { CoreInput } from "./module.js";

/** How the packed models are read. */
export type ServeOptions = Omit<OpenOptions, "signal" | "onProgress"> & SafetensorsBlobOptions;

const loadCore = lazyCore((glue, input) => glue.default({ module_or_path: input ?? new URL("./core/zstn_wasm_bg.wasm", import.meta.url) }));
// Service workers have no import() in their code: the glue comes along, its module when it is needed.
const loadFormats = lazyModule<Core>({ file: "zstn_formats_bg.wasm", loader: "initFormats", glue: () => formatsGlue }, (glue, input) =>
  glue.default({ module_or_path: input ?? new URL("./core/zstn_formats_bg.wasm", import.meta.url) }),
);
const open = opener({ loadCore, loadFormats, resolve: pageAddress });

/** The part of a service worker's scope that is used here; its own types exclude those of pages. */
interface Scope {
  readonly clients?: unknown;
  addEventListener?(type: "fetch", listener: (event: FetchEvent) => void): void;
}
interface FetchEvent {
  readonly request: Request;
  respondWith(response: Promise<Response>): void;
}

/**
 * Answers requests for the addresses that are the keys of `files` with the models whose addresses are the values,
 * as safetensors files. Relative addresses count from the worker's script; queries of requests are not looked at.
 * To be called while the script of a service worker runs first.
 *
 * GET and HEAD, single ranges (206, 416), `If-Range`, `If-None-Match` and `ETag` as of a file server; there is an
 * `ETag` if the packed file has a strong one. A model that cannot be read is answered by its server's status, or 502, and
 * a sentence. A model is opened at the first request and stays open as long as the worker runs.
 */
export function serveSafetensors(files: Readonly<Record<string, string | URL>>, options: ServeOptions = {}): void {
  const scope = globalThis as Scope;
  if (scope.clients === undefined || !scope.addEventListener) {
    throw new InvalidInputError("serveSafetensors is for the script of a service worker; elsewhere use model.asSafetensorsBlob().");
  }
  const { cacheBytes, ...openOptions } = options;
  const served = new Map<string, ServedFile>();
  for (const [address, packed] of Object.entries(files)) {
    const url = pageAddress(packed);
    const file = new ServedFile(url.href, () => open(url, openOptions), cacheBytes === undefined ? {} : { cacheBytes });
    served.set(withoutQuery(pageAddress(address)), file);
  }
  scope.addEventListener("fetch", (event) => {
    const file = served.get(withoutQuery(new URL(event.request.url)));
    if (file) event.respondWith(file.answer(event.request));
  });
}

/** Loads the WebAssembly module now, and from where you say, like `init` of the package itself. */
export async function init(input?: CoreInput): Promise<void> {
  await loadCore(input);
}

/** Like `init` for the module that reads zTensor, Gauss and compressed-tensors. */
export async function initFormats(input?: CoreInput): Promise<void> {
  await loadFormats(input);
}

function withoutQuery({ origin, pathname }: URL): string {
  return `${origin}${pathname}`;
}
