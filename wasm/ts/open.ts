/** Opening models. */

import { assemble } from "./assemble.js";
import { siblingResolver } from "./siblings.js";
import type { ResolveSibling } from "./siblings.js";
import { readConfig } from "./config.js";
import { inline } from "./decode/decoder.js";
import { WorkerPool } from "./decode/pool.js";
import type { Decoding, WorkerPoolOptions } from "./decode/pool.js";
import { BaseRequiredError } from "./errors.js";
import { openFiles } from "./shards.js";
import type { OpenContext } from "./shards.js";
import { loadCore, loadFormats } from "./core-loaders.js";
import { Model } from "./model.js";
import type { BytesInput, LocalInput, ModelInput } from "./model-input.js";
import { platform } from "./platform.js";
import { ProgressMeter } from "./progress.js";
import type { OnProgress } from "./progress.js";
import { abortSiblingsOnFailure } from "./abort-siblings.js";
import { cacheOf, optionsForRelatedFile } from "./source/http/options.js";
import type { HttpOptions } from "./source/http/options.js";
import { sourceOf } from "./model-source.js";
import type { ReadOptions } from "./source/source.js";
import { Traffic } from "./source/traffic.js";
import type { CoalesceOptions } from "./source/merging/with-coalescing.js";

/** Options of `open` for every input. */
export interface OpenOptions {
  /** Stops opening: `open` then rejects with the reason of the signal. Later reads take signals of their own. */
  signal?: AbortSignal;
  /** Called as the bytes needed for opening arrive. */
  onProgress?: OnProgress;
  /**
   * The checkpoint that a delta (`Z4DM`) was made against: anything that `open` takes, or an open model. It may be
   * plain, packed, or a delta that was opened with its own base. If it is opened here, it is closed with the model and
   * uses the same `signal` and `HttpOptions`, but `headers` and `token` only if it has the same origin: open it
   * yourself where it needs other options. A model that you pass is not closed.
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
  /** How reads that begin at the same time are merged into one; `false` for never. Bytes in memory are never merged. */
  coalesce?: CoalesceOptions | false;
}

/** The options of `open` for an input of type `Input`: `HttpOptions` are for addresses, and bytes in memory are never merged. */
export type OpenOptionsFor<Input extends ModelInput> = [Input] extends [BytesInput]
  ? Omit<OpenOptions, "coalesce">
  : [Input] extends [LocalInput]
    ? OpenOptions
    : OpenOptions & HttpOptions;

type AllOptions = OpenOptions & HttpOptions;

let sharedPool: WorkerPool | undefined;

/** Creates a pool of decoding workers, for the option `workers` of one or more models. They start when they are needed. */
export function workerPool(options: WorkerPoolOptions = {}): WorkerPool {
  return new WorkerPool(options, platform.coreCount(), platform.startWorker!);
}

/** Opens a model for reading tensors: recognises its format and lists its tensors, usually in two round trips. See `ModelInput` for what it takes. */
export async function open<Input extends ModelInput>(source: Input, options?: OpenOptionsFor<Input>): Promise<Model> {
  return openWithBase(source, withOneCache(options ?? {}));
}

function decodingOf(workers: number | WorkerPool | undefined): Decoding {
  if (workers instanceof WorkerPool) return { decoder: workers };
  if (!platform.startWorker || workers === 0) return { decoder: inline };
  if (workers === undefined) return { decoder: (sharedPool ??= workerPool()) };
  const ownPool = workerPool({ size: workers });
  return { decoder: ownPool, ownPool };
}

async function openWithBase(input: ModelInput, options: AllOptions): Promise<Model> {
  const { base } = options;
  const decoding = decodingOf(options.workers);
  if (base === undefined) return withoutBase(await openOne(input, options, decoding));
  if (base instanceof Model) return withBase(await openOne(input, options, decoding), base, false);
  const optionsOfBase = optionsFor(base, input, options);
  const workers = decoding.ownPool ?? options.workers;
  if (workers !== undefined) optionsOfBase.workers = workers;
  const opened: Model[] = [];
  try {
    // Concurrently, so that a base costs no further round trips.
    const [model, baseModel] = await abortSiblingsOnFailure([options.signal], (signal) => {
      const keep = (model: Model) => (signal.aborted ? model.close() : opened.push(model), model);
      const opening = openOne(input, { ...options, signal }, decoding).then(keep);
      return Promise.all([opening, openWithBase(base, { ...optionsOfBase, signal, config: false }).catch(nameBase).then(keep)]);
    });
    return withBase(model, baseModel, true);
  } catch (error) {
    for (const model of opened) model.close();
    throw error;
  }
}

/** Creates the memory cache that all files of a model share. */
function withOneCache(options: AllOptions): AllOptions {
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

/** Says what to do about a base that needs a base. */
export function nameBase(error: unknown): never {
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
export function optionsFor(other: ModelInput, input: ModelInput, options: AllOptions): AllOptions {
  const origin = (place: ModelInput): string | undefined => {
    if (typeof place !== "string" && !(place instanceof URL)) return undefined;
    const resolved = platform.resolve(place);
    return resolved instanceof URL ? resolved.origin : undefined;
  };
  const sameOrigin = origin(input) !== undefined && origin(input) === origin(other);
  return { ...optionsForRelatedFile(options, sameOrigin), ...(options.coalesce !== undefined && { coalesce: options.coalesce }) };
}

async function openOne(input: ModelInput, options: AllOptions, decoding: Decoding): Promise<Model> {
  const traffic = new Traffic();
  const meter = new ProgressMeter(options.onProgress, { stage: "open" });
  const readOptions: ReadOptions = { onBytes: meter.arrived, onTotal: (bytes) => meter.expect(bytes) };
  if (options.signal) readOptions.signal = options.signal;
  const resolveSibling = siblingResolver(input, options.siblings);
  const openSource = (other: ModelInput) => sourceOf(other, other === input ? options : optionsFor(other, input, options), traffic);
  const first = openSource(input);
  // Fetching the core and the head of the file concurrently saves a round trip.
  const [core, sizeBytes] = await Promise.all([loadCore(), first.size(readOptions)]);
  const context: OpenContext = { core, loadFormats, meter, options: readOptions, openSource, resolveSibling };
  const { files, shards } = await openFiles(context, first, sizeBytes);
  const config = await readConfig(context, files, options.config);
  const [instance, model] = await assemble(context, files, shards, config);
  const size = files.reduce((sum, file) => sum + file.sizeBytes, 0);
  return new Model(files.map(({ source }) => source), size, instance, model, traffic, decoding);
}
