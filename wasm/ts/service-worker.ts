/**
 * The entry `zstn/service-worker`: the page's own service worker serves packed models as the safetensors files they were
 * packed from, so that any code that reads safetensors with range requests works unchanged.
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
import type { SafetensorsBlobOptions } from "./safetensors-view/model-file.js";
import { FileServer } from "./safetensors-view/file-server.js";

export type { CoreInput } from "./module.js";

/** Options for reading the packed models. */
export type ServeOptions = Omit<OpenOptions, "signal" | "onProgress"> & SafetensorsBlobOptions;

const loadCore = lazyCore((glue, input) => glue.default({ module_or_path: input ?? new URL("./core/zstn_wasm_bg.wasm", import.meta.url) }));
// Service workers may not use import(): the glue is bundled, and its module fetched when it is needed.
const loadFormats = lazyModule<Core>({ file: "zstn_formats_bg.wasm", loader: "initFormats", glue: () => formatsGlue }, (glue, input) =>
  glue.default({ module_or_path: input ?? new URL("./core/zstn_formats_bg.wasm", import.meta.url) }),
);
const open = opener({ loadCore, loadFormats, resolve: pageAddress });

/** The part of a service worker's scope that is used here. Its types conflict with those of pages. */
interface Scope {
  readonly clients?: unknown;
  addEventListener?(type: "fetch", listener: (event: FetchEvent) => void): void;
}
interface FetchEvent {
  readonly request: Request;
  respondWith(response: Promise<Response>): void;
}

/**
 * Serves models as safetensors files. The keys of `files` are the URLs to serve, the values the URLs of the models.
 * Relative URLs are resolved against the worker's script; queries of requests are ignored. Call it during the first run of
 * the service worker's script.
 *
 * It supports GET and HEAD, single ranges (206, 416), `If-Range`, `If-None-Match` and `ETag`, which is present if the
 * packed file has a strong one. If a model cannot be read, the response has the status of its server, or 502, and the
 * error message. A model is opened at the first request and stays open while the worker runs.
 */
export function serveSafetensors(files: Readonly<Record<string, string | URL>>, options: ServeOptions = {}): void {
  const scope = globalThis as Scope;
  if (scope.clients === undefined || !scope.addEventListener) {
    throw new InvalidInputError("serveSafetensors() must be called in a service worker; elsewhere use model.asSafetensorsBlob().");
  }
  const { cacheBytes, ...openOptions } = options;
  const served = new Map<string, FileServer>();
  for (const [address, packed] of Object.entries(files)) {
    const url = pageAddress(packed);
    const file = new FileServer(url.href, () => open(url, openOptions), cacheBytes === undefined ? {} : { cacheBytes });
    served.set(withoutQuery(pageAddress(address)), file);
  }
  scope.addEventListener("fetch", (event) => {
    const file = served.get(withoutQuery(new URL(event.request.url)));
    if (file) event.respondWith(file.answer(event.request));
  });
}

/** Loads the WebAssembly module now, from `input` if given, like `init` of the package itself. */
export async function init(input?: CoreInput): Promise<void> {
  await loadCore(input);
}

/** Like `init`, for the module that reads zTensor, Gauss and compressed-tensors. */
export async function initFormats(input?: CoreInput): Promise<void> {
  await loadFormats(input);
}

function withoutQuery({ origin, pathname }: URL): string {
  return `${origin}${pathname}`;
}
