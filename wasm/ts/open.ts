/** Opening models. */

import { assemble } from "./assemble.js";
import { siblingResolver } from "./siblings.js";
import type { ResolveSibling } from "./siblings.js";
import { readConfig } from "./config.js";
import { inline } from "./decode/decoder.js";
import { WorkerPool } from "./decode/pool.js";
import type { Decoding } from "./decode/pool.js";
import { BaseRequiredError, InvalidInputError } from "./errors.js";
import { openFiles } from "./shards.js";
import type { OpenContext } from "./shards.js";
import { Model } from "./model.js";
import type { ModelInput } from "./model-input.js";
import type { Platform } from "./platform.js";
import { ProgressMeter } from "./progress.js";
import type { OnProgress } from "./progress.js";
import { abortSiblingsOnFailure } from "./abort-siblings.js";
import { BlobSource } from "./source/blob.js";
import { BytesSource } from "./source/bytes.js";
import { withValidation } from "./source/with-validation.js";
import { withStats } from "./source/with-stats.js";
import { cacheOf, optionsForRelatedFile } from "./source/http-options.js";
import type { HttpOptions } from "./source/http-options.js";
import { remoteSource } from "./source/remote.js";
import type { ReadOptions, Source } from "./source/source.js";
import { Traffic } from "./source/traffic.js";

/** Options of `open`. `HttpOptions` apply to http(s) URLs. */
export interface OpenOptions extends HttpOptions {
  /** Stops opening: `open` then rejects with the reason of the signal. Later reads take signals of their own. */
  signal?: AbortSignal;
  /** Called as the bytes needed for opening arrive. */
  onProgress?: OnProgress;
  /**
   * The checkpoint that a delta (`Z4DM`) was made against: anything that `open` takes, or an open model. It may be
   * plain, packed, or a delta that was opened with its own base. If it is opened here, it is closed with the model and
   * uses the same `signal` and `HttpOptions`, but `headers` and `token` only if it has the same origin. A model that
   * you pass is not closed.
   */
  base?: ModelInput | Model;
  /**
   * Returns the sibling file of a given name: a shard that the index names, or `config.json`. Needed where the input has
   * no URL or path, such as files dropped on a page. It returns `undefined` if there is no such file.
   */
  siblings?: ResolveSibling;
  /**
   * The `config.json` of a model in a format of compressed-tensors: anything that `open` takes, or `false` to read all
   * tensors as they are stored. By default the sibling of that name is read if the names of the tensors call for it.
   */
  config?: ModelInput | false;
  /**
   * Where tensors are decoded. A number: in that many workers of the model's own, which stop when it is closed; 0: on
   * the calling thread. A pool from `workerPool`: in its workers, which keep running. By default, in a pool that all
   * models without this option share. Small and uncompressed tensors are always decoded on the calling thread, and so
   * are all others if no worker can be started.
   */
  workers?: number | WorkerPool;
}

/** Opens a model: recognises its format and lists its tensors, usually in two round trips. */
export type Open = (source: ModelInput, options?: OpenOptions) => Promise<Model>;

/** Returns the function `open` of a platform. */
export function opener(platform: Platform): Open {
  let shared: WorkerPool | undefined;
  const decoding = (workers: number | WorkerPool | undefined): Decoding => {
    if (workers instanceof WorkerPool) return { decoder: workers };
    if (!platform.pool || workers === 0) return { decoder: inline };
    if (workers === undefined) return { decoder: (shared ??= platform.pool({})) };
    const ownPool = platform.pool({ size: workers });
    return { decoder: ownPool, ownPool };
  };
  const open: Open = async (input, given = {}) => {
    const options = withOneCache(given);
    const { base } = options;
    const decoded = decoding(options.workers);
    if (base === undefined) return withoutBase(await openOne(platform, input, options, decoded));
    if (base instanceof Model) return withBase(await openOne(platform, input, options, decoded), base, false);
    const optionsOfBase = optionsFor(base, input, options, platform);
    const workers = decoded.ownPool ?? options.workers;
    if (workers !== undefined) optionsOfBase.workers = workers;
    const opened: Model[] = [];
    try {
      // Concurrently, so that a base costs no further round trips.
      const [model, baseModel] = await abortSiblingsOnFailure(options.signal, (signal) => {
        const keep = (model: Model) => (signal.aborted ? model.close() : opened.push(model), model);
        const opening = openOne(platform, input, { ...options, signal }, decoded).then(keep);
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

/** Creates the memory cache that all files of a model share. */
function withOneCache(options: OpenOptions): OpenOptions {
  return typeof options.cache === "number" ? { ...options, cache: cacheOf(options.cache) } : options;
}

function withoutBase(model: Model): Model {
  if (!model.needsBase) return model;
  model.close();
  throw new BaseRequiredError(
    "This file is a delta (Z4DM): the difference from another checkpoint, its base, without which it cannot be read. " +
      "Pass the base as open(source, { base }).",
  );
}

function nameBase(error: unknown): never {
  if (!(error instanceof BaseRequiredError)) throw error;
  throw new BaseRequiredError("The base is a delta itself: open it with its own base, and pass that model as `base`.");
}

/** Attaches its base to `model`, which is closed if that fails. */
function withBase(model: Model, base: Model, ownsBase: boolean): Model {
  try {
    model.attach(base, ownsBase);
    return model;
  } catch (error) {
    model.close();
    throw error;
  }
}

/** Returns the options for another file that belongs to `input`. Secrets go only to the origin of `input`. */
function optionsFor(other: ModelInput, input: ModelInput, options: OpenOptions, platform: Platform): OpenOptions {
  const origin = (place: ModelInput): string | undefined => {
    if (typeof place !== "string" && !(place instanceof URL)) return undefined;
    const resolved = platform.resolve(place);
    return resolved instanceof URL ? resolved.origin : undefined;
  };
  return optionsForRelatedFile(options, origin(input) !== undefined && origin(input) === origin(other));
}

async function openOne(platform: Platform, input: ModelInput, options: OpenOptions, decoding: Decoding): Promise<Model> {
  const traffic = new Traffic();
  const meter = new ProgressMeter(options.onProgress, { stage: "open" });
  const readOptions: ReadOptions = { onBytes: meter.arrived, onTotal: (bytes) => meter.expect(bytes) };
  if (options.signal) readOptions.signal = options.signal;
  const resolveSibling = siblingResolver(input, options.siblings, platform);
  const openSource = (other: ModelInput) =>
    withValidation(sourceOf(other, other === input ? options : optionsFor(other, input, options, platform), traffic, platform));
  const first = openSource(input);
  // Fetching the core and the head of the file concurrently saves a round trip.
  const [core, sizeBytes] = await Promise.all([platform.loadCore(), first.size(readOptions)]);
  const context: OpenContext = { core, loadFormats: platform.loadFormats, meter, options: readOptions, openSource, resolveSibling };
  const { files, shards } = await openFiles(context, first, sizeBytes);
  const config = await readConfig(context, files, options.config);
  const model = await assemble(context, files, shards, config);
  const size = files.reduce((sum, file) => sum + file.sizeBytes, 0);
  return new Model(files.map(({ source }) => source), size, model, traffic, decoding);
}

/** Returns the source of an input. */
export function sourceOf(input: ModelInput, options: OpenOptions, traffic: Traffic, platform: Pick<Platform, "resolve">): Source {
  if (typeof input === "string" || input instanceof URL) {
    const address = platform.resolve(input);
    if (!(address instanceof URL)) return withStats(address, traffic);
    return remoteSource(address, options, traffic);
  }
  return withStats(localSource(input), traffic);
}

function localSource(input: Blob | ArrayBuffer | Uint8Array | Source): Source {
  if (input instanceof Blob) return new BlobSource(input);
  if (input instanceof Uint8Array) return new BytesSource(input);
  if (input instanceof ArrayBuffer) return new BytesSource(new Uint8Array(input));
  if (typeof input?.size === "function" && typeof input.read === "function") return input;
  throw new InvalidInputError("`open` takes a URL, a File or Blob, a Uint8Array or ArrayBuffer, or an object with size() and read().");
}
