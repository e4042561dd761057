/**
 * The entry `zstn/service-worker`: a page's own service worker serves packed models as the safetensors files that they
 * were packed from. Code that reads safetensors with range requests then works unchanged.
 *
 * @module zstn/service-worker
 */

import { HTTP_OPTIONS, checkOptions } from "./known-options.js";
import type { OptionNames } from "./known-options.js";
import { configure as configureAll } from "./configure.js";
import type { WasmFiles } from "./configure.js";
import * as formatsGlue from "./core/zstn_formats.js";
import * as coreFiles from "./core-files.js";
import * as otherFormats from "./other-formats.js";
import { bundleCoreFiles } from "./core-files-loader.js";
import * as generatedFile from "./safetensors-view/generated-file.js";
import { bundleGeneratedFile } from "./safetensors-view/generated-file-loader.js";
import { InvalidInputError, UnsupportedError } from "./errors.js";
import { open } from "./open.js";
import type { OpenOptions } from "./open.js";
import { pageAddress } from "./page-address.js";
import { platform, setPlatform } from "./platform.js";
import type { SafetensorsBlobOptions } from "./safetensors-view/model-file.js";
import { FileServer } from "./safetensors-view/file-server.js";
import type { HttpOptions } from "./source/http/options.js";

export type { CoreInput } from "./wasm-input.js";

/** Options for reading the packed models. */
export type ServeOptions = Omit<OpenOptions, "signal" | "onProgress" | "workers" | "index"> & HttpOptions & SafetensorsBlobOptions;

const SERVE_OPTIONS: OptionNames<ServeOptions> = { base: 1, siblings: 1, config: 1, verify: 1, coalesce: 1, cacheBytes: 1, ...HTTP_OPTIONS };

/** The settings that `configure` accepts. */
export interface ServiceWorkerConfiguration {
  /** The WebAssembly modules that are not next to the scripts of this package. Set each module before its first use. */
  wasm?: Omit<WasmFiles, "coder" | "gpu">;
}

// Service workers may not use import(), so all scripts are bundled, and only the WebAssembly modules are fetched on
// demand. Service workers cannot start workers either.
bundleCoreFiles(coreFiles);
bundleGeneratedFile(generatedFile);
if (!platform) setPlatform({ readModule: (address) => fetch(address), formatsGlue, otherFormats, coreCount: () => 1, resolve: pageAddress, loadHub });

async function loadHub(): Promise<never> {
  throw new UnsupportedError("Service workers cannot read hf:// addresses: use the URL of the file, https://huggingface.co/owner/name/resolve/main/file.");
}

/**
 * Sets where this package finds its WebAssembly modules, if they are not next to the script. Throws an
 * `InvalidInputError` for a module that is already loaded.
 */
export function configure(configuration: ServiceWorkerConfiguration): void {
  configureAll(configuration);
}

/** The members of a service worker's scope that this module uses. The official types conflict with the types of pages. */
interface Scope {
  readonly clients?: unknown;
  addEventListener?(type: "fetch", listener: (event: FetchEvent) => void): void;
}
interface FetchEvent {
  readonly request: Request;
  respondWith(response: Promise<Response>): void;
}

/**
 * Serves models as safetensors files. The keys of `files` are the URLs to serve, and the values are the URLs of the
 * models. Relative URLs are resolved against the worker's script; the query of a request is ignored. Call this function
 * during the first run of the service worker's script. Throws an `InvalidInputError` outside a service worker.
 *
 * It supports GET and HEAD, single ranges (206, 416), `If-Range`, `If-None-Match` and `ETag`, which is present if the
 * packed file has a strong one. If a model cannot be read, the response has the status of the model's server, or 502,
 * and the error message as its body. A model is opened at the first request and stays open while the worker runs.
 */
export function serveSafetensors(files: Readonly<Record<string, string | URL>>, options: ServeOptions = {}): void {
  const scope = globalThis as Scope;
  if (scope.clients === undefined || !scope.addEventListener) {
    throw new InvalidInputError("serveSafetensors() must be called in a service worker; elsewhere use model.asSafetensorsBlob().");
  }
  checkOptions("serveSafetensors()", options, SERVE_OPTIONS);
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

function withoutQuery({ origin, pathname }: URL): string {
  return `${origin}${pathname}`;
}
