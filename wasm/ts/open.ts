/** From a source to an open model. */

import { assemble } from "./assemble.js";
import { besideOf } from "./beside.js";
import type { Beside } from "./beside.js";
import { readConfig } from "./config.js";
import type { Core } from "./core.js";
import { inline } from "./decode/decoder.js";
import { WorkerPool } from "./decode/pool.js";
import type { WorkerPoolOptions } from "./decode/pool.js";
import { BaseRequiredError, InvalidInputError } from "./errors.js";
import { openFiles } from "./files.js";
import type { Reading } from "./files.js";
import { Model } from "./model.js";
import type { Decoding } from "./decode/decoder.js";
import { ProgressMeter } from "./progress.js";
import type { OnProgress } from "./progress.js";
import { sideBySide } from "./side-by-side.js";
import { BlobSource } from "./source/blob.js";
import { BytesSource } from "./source/bytes.js";
import { checked } from "./source/checked.js";
import { counted } from "./source/counted.js";
import { cacheOf, optionsBeside } from "./source/http-options.js";
import type { HttpOptions } from "./source/http-options.js";
import { remoteSource } from "./source/remote.js";
import type { ReadOptions, Source } from "./source/source.js";
import { Traffic } from "./source/traffic.js";

/**
 * What can be opened: an address (in Node also a path), a `Blob` or `File`, bytes, or a source of your own.
 * In browsers a relative address counts from the page.
 */
export type Openable = string | URL | Blob | ArrayBuffer | Uint8Array | Source;

/** What `open` may be given besides the source; `HttpOptions` are for http(s) addresses. */
export interface OpenOptions extends HttpOptions {
  /** Stops opening; reads later on take their own signal. `open` then rejects with the reason of the signal. */
  signal?: AbortSignal;
  /** Called while the bytes needed for opening arrive. */
  onProgress?: OnProgress;
  /**
   * The checkpoint that a delta (`Z4DM`) was made against: anything `open` takes, or a model that is open already.
   * It may be plain, packed, or a delta that was opened with a base of its own. What is opened here is closed
   * with the model and gets the same `signal` and `HttpOptions`, but `headers` and `token` only if it comes from the
   * same origin; a model given stays yours.
   */
  base?: Openable | Model;
  /**
   * Finds a file beside the one opened: the shards that an index names, and `config.json`. Needed where there is
   * no address to go by, such as for files dropped on a page; `undefined` means that there is no such file.
   */
  beside?: Beside;
  /**
   * The `config.json` of a model in the formats of compressed-tensors: anything `open` takes, or `false` to have all
   * tensors as they are stored. By default it is looked for beside the file, if names of tensors call for it.
   */
  config?: Openable | false;
  /**
   * Where tensors are decoded: in so many workers of its own, which are closed with the model; in those of a pool
   * (`workerPool`), which stays yours; with 0 on the thread that asks. Unless said otherwise in a pool that all such
   * models share. Small tensors, and those that are not packed, never go to workers, and nothing does where no
   * worker can be started.
   */
  workers?: number | WorkerPool;
}

/** Opens a model: recognises the format and learns of all tensors, normally in two round trips. */
export type Open = (source: Openable, options?: OpenOptions) => Promise<Model>;

/** What Node and browsers do differently. */
export interface Platform {
  loadCore: () => Promise<Core>;
  /** The core that reads all formats. */
  loadFormats: () => Promise<Core>;
  /** Workers for decoding. Without, tensors are decoded on the thread that asks. */
  pool?: (options: WorkerPoolOptions) => WorkerPool;
  /** What an address means here: a URL to fetch, or a source. */
  resolve: (address: string | URL) => URL | Source;
  /** The file of that name beside one that is no URL. */
  beside?: (address: string | URL, name: string) => string;
}

/** The function `open` of one platform. */
export function opener(platform: Platform): Open {
  let shared: WorkerPool | undefined;
  const decoding = (workers: number | WorkerPool | undefined): Decoding => {
    if (workers instanceof WorkerPool) return { decoder: workers };
    if (!platform.pool || workers === 0) return { decoder: inline };
    if (workers === undefined) return { decoder: (shared ??= platform.pool({})) };
    const ownPool = platform.pool({ size: workers });
    return { decoder: ownPool, ownPool };
  };
  const open: Open = async (openable, given = {}) => {
    const options = withOneCache(given);
    const { base } = options;
    const decoded = decoding(options.workers);
    if (base === undefined) return withoutBase(await openOne(platform, openable, options, decoded));
    if (base instanceof Model) return withBase(await openOne(platform, openable, options, decoded), base, false);
    const optionsOfBase = optionsFor(base, openable, options, platform);
    const workers = decoded.ownPool ?? options.workers;
    if (workers !== undefined) optionsOfBase.workers = workers;
    const opened: Model[] = [];
    try {
      // Both at the same time, so that a base costs no further round trips.
      const [model, baseModel] = await sideBySide(options.signal, (signal) => {
        const keep = (model: Model) => (signal.aborted ? model.close() : opened.push(model), model);
        const opening = openOne(platform, openable, { ...options, signal }, decoded).then(keep);
        return Promise.all([opening, open(base, { ...optionsOfBase, signal, config: false }).catch(nameBase).then(keep)]);
      });
      return withBase(model, baseModel, true);
    } catch (error) {
      for (const model of opened) model.close();
      throw error;
    }
  };
  return open;
}

/** All files of a model share one cache. */
function withOneCache(options: OpenOptions): OpenOptions {
  return typeof options.cache === "number" ? { ...options, cache: cacheOf(options.cache) } : options;
}

function withoutBase(model: Model): Model {
  if (!model.needsBase) return model;
  model.close();
  throw new BaseRequiredError(
    "This file is the difference from another checkpoint (Z4DM) and cannot be read without it: " +
      "pass that checkpoint, its base, as open(source, { base }).",
  );
}

function nameBase(error: unknown): never {
  if (!(error instanceof BaseRequiredError)) throw error;
  throw new BaseRequiredError("The base is itself the difference from another checkpoint: open it with its own base, and pass that model as `base`.");
}

/** `model` with its base; `model` is closed if that does not fit. */
function withBase(model: Model, base: Model, ownsBase: boolean): Model {
  try {
    model.attach(base, ownsBase);
    return model;
  } catch (error) {
    model.close();
    throw error;
  }
}

/** Options for another file that belongs to `openable`. Secrets are for the server they were meant for. */
function optionsFor(other: Openable, openable: Openable, options: OpenOptions, platform: Platform): OpenOptions {
  const origin = (place: Openable): string | undefined => {
    if (typeof place !== "string" && !(place instanceof URL)) return undefined;
    const resolved = platform.resolve(place);
    return resolved instanceof URL ? resolved.origin : undefined;
  };
  return optionsBeside(options, origin(openable) !== undefined && origin(openable) === origin(other));
}

async function openOne(platform: Platform, openable: Openable, options: OpenOptions, decoding: Decoding): Promise<Model> {
  const traffic = new Traffic();
  const meter = new ProgressMeter(options.onProgress, { stage: "open" });
  const readOptions: ReadOptions = { onBytes: meter.arrived, onTotal: (bytes) => meter.expect(bytes) };
  if (options.signal) readOptions.signal = options.signal;
  const beside = besideOf(openable, options, platform);
  const openSource = (other: Openable) =>
    checked(sourceOf(other, other === openable ? options : optionsFor(other, openable, options, platform), traffic, platform));
  const first = openSource(openable);
  // Fetching the core and the head of the file at the same time saves a round trip.
  const [core, sizeBytes] = await Promise.all([platform.loadCore(), first.size(readOptions)]);
  const reading: Reading = { core, loadFormats: platform.loadFormats, meter, options: readOptions, openSource, beside };
  const { files, shards } = await openFiles(reading, first, sizeBytes);
  const config = await readConfig(reading, files, options.config);
  const model = await assemble(reading, files, shards, config);
  const size = files.reduce((sum, file) => sum + file.sizeBytes, 0);
  return new Model(files.map(({ source }) => source), size, model, traffic, decoding);
}

/** The source behind anything that can be opened. */
export function sourceOf(openable: Openable, options: OpenOptions, traffic: Traffic, platform: Pick<Platform, "resolve">): Source {
  if (typeof openable === "string" || openable instanceof URL) {
    const address = platform.resolve(openable);
    if (!(address instanceof URL)) return counted(address, traffic);
    return remoteSource(address, options, traffic);
  }
  return counted(localSource(openable), traffic);
}

function localSource(openable: Blob | ArrayBuffer | Uint8Array | Source): Source {
  if (openable instanceof Blob) return new BlobSource(openable);
  if (openable instanceof Uint8Array) return new BytesSource(openable);
  if (openable instanceof ArrayBuffer) return new BytesSource(new Uint8Array(openable));
  if (typeof openable?.size === "function" && typeof openable.read === "function") return openable;
  throw new InvalidInputError("What can be opened is an address, a File or Blob, a Uint8Array or ArrayBuffer, or an object with size() and read().");
}
