/** Opening models. */

import { siblingResolver } from "./siblings.js";
import type { ResolveSibling } from "./siblings.js";
import type { Decoding, WorkerPool } from "./decode/worker-pool.js";
import { InvalidInputError } from "./errors.js";
import { openFiles } from "./shards.js";
import type { OpenContext } from "./shards.js";
import { loadCoreFiles } from "./core-files-loader.js";
import { HTTP_OPTIONS, checkOptions } from "./known-options.js";
import type { OptionNames } from "./known-options.js";
import { checkEndpoint, isHubInput, located, withHub } from "./resolve-hub-input.js";
import { Model } from "./model.js";
import type { WithIndex } from "./model-index.js";
import type { BytesInput, LocalInput, ModelInput } from "./model-input.js";
import { isPackedFile, isPlain } from "./opened-file.js";
import { platform } from "./platform.js";
import { ProgressMeter } from "./progress.js";
import type { OnProgress } from "./progress.js";
import { abortSiblingsOnFailure } from "./abort-siblings.js";
import { mayHaveParts } from "./safetensors/plain-file.js";
import { PlainModel } from "./safetensors/plain-model.js";
import { cacheOf } from "./source/http/options.js";
import type { HttpOptions } from "./source/http/options.js";
import { isPlace, nameOf, sourceOf } from "./model-source.js";
import type { ReadOptions } from "./source/source.js";
import { Traffic } from "./source/traffic.js";
import type { CoalesceOptions } from "./source/merging/with-coalescing.js";

/** The options of `open` that apply to every input. */
export interface OpenOptions {
  /** Aborts opening, which then rejects with the reason of the signal. Later reads take their own signals. */
  signal?: AbortSignal;
  /** Called as the bytes needed for opening arrive. */
  onProgress?: OnProgress;
  /**
   * The checkpoint that a delta (`Z4DM`) was made against: any input of `open`, or an open model. It may be plain,
   * packed, or a delta that was opened with its own base. A base that is opened here is closed together with the model.
   * It is read with the same `signal` and `HttpOptions`, but receives `headers` and `token` only if it has the same
   * origin: open it yourself if it needs other options. A model that you pass is not closed. For a merged model, which
   * was made against several checkpoints, it is an array of these in the same order.
   */
  base?: BaseInput | readonly BaseInput[];
  /**
   * Returns the sibling file with the given name: a shard that the index names, or `config.json`. Needed for inputs
   * without a URL or path, such as files dropped on a page. It returns `undefined` if there is no such file.
   */
  siblings?: ResolveSibling;
  /**
   * The `config.json` of a model in a compressed-tensors format: any input of `open`, or `false` to read all tensors as
   * they are stored. By default the sibling file `config.json` is read if the tensor names suggest such a format.
   */
  config?: ModelInput | false;
  /**
   * The workers that decode tensors. A number starts that many workers for this model alone, which stop when it is
   * closed; 0 decodes on the calling thread. A pool from `workerPool` is shared and keeps running. By default, all
   * models without this option share one pool. Small and uncompressed tensors are always decoded on the calling thread.
   * So are all other tensors if no worker can be started, and by default in a worker of Firefox.
   */
  workers?: number | WorkerPool;
  /**
   * The checks on tensors of `.zstn` files that are read. `"stored"`, the default, compares the checksums of the stored
   * bytes, which detect damage in transit and on disk. `"full"` also compares the digests of the decoded bytes, which
   * detect a frame that was replaced together with its checksum; decoding then takes about a third longer.
   */
  verify?: Verify;
  /**
   * Controls how reads that begin at the same time are merged into one request; `false` disables merging. Reads of
   * bytes in memory are never merged.
   */
  coalesce?: CoalesceOptions | false;
  /**
   * The result of `model.index()` of the same model, from an earlier visit or another worker. A URL is then opened without
   * a request; the bytes of other inputs are read, and compared with the index. A file that has changed is refused with a
   * `SourceChangedError`: by `open` if that reads it, otherwise by the first read of a tensor. Rejects with a `FormatError`
   * for a damaged index, and with an `UnsupportedError` for an index of another version of this package.
   */
  index?: Uint8Array;
}

/** A checkpoint that a delta was made against. */
export type BaseInput = ModelInput | Model;

/**
 * The options of `open` for an input of type `Input`. `HttpOptions` apply to addresses only, and reads of bytes in
 * memory are never merged.
 */
export type OpenOptionsFor<Input extends ModelInput> = [Input] extends [BytesInput]
  ? Omit<OpenOptions, "coalesce">
  : [Input] extends [LocalInput]
    ? OpenOptions
    : OpenOptions & HttpOptions;

/** The checks on tensors that are read: the checksums of their stored bytes, or the digests of their decoded bytes as well. */
export type Verify = "stored" | "full";

type AllOptions = OpenOptions & HttpOptions;

/** The options that apply to all files of a model. */
const SHARED_OPTIONS = { verify: 1, coalesce: 1, ...HTTP_OPTIONS } as const;

const OPTIONS: OptionNames<AllOptions> = { signal: 1, onProgress: 1, base: 1, siblings: 1, config: 1, workers: 1, index: 1, ...SHARED_OPTIONS };

/**
 * Opens a model for reading tensors: recognises its format and lists its tensors, usually in two round trips. See
 * `ModelInput` for the accepted inputs. Rejects with a `FormatError`, `UnsupportedError` or `LimitError` for a file
 * that cannot be read, with a `BaseRequiredError` for a delta without its `base`, and with an error of the network or
 * the file system if reading fails.
 */
export async function open<Input extends ModelInput>(source: Input, options?: OpenOptionsFor<Input>): Promise<Model> {
  checkOptions("open()", options, OPTIONS);
  const all: AllOptions = options ?? {};
  checkEndpoint(all.endpoint, [source, all.base, all.config]);
  return openWithBase(source, withOneCache(all));
}

/** Returns the decoder of a packed model. The first call loads the code and creates the workers. */
type LazyDecoding = () => Promise<Decoding>;

function lazyDecoding(workers: number | WorkerPool | undefined): LazyDecoding {
  let decoding: Promise<Decoding> | undefined;
  return () => (decoding ??= loadCoreFiles().then(({ decodingOf }) => decodingOf(workers)));
}

/** Opens a model with its bases. A base of another model shares the decoder `ofDelta` with that model. */
async function openWithBase(given: ModelInput, options: AllOptions, ofDelta?: LazyDecoding): Promise<Model> {
  const inHub = <Input>(input: Input) => withHub(input, options.endpoint);
  const [input, ...bases] = await Promise.all([inHub(given), ...basesOf(options).map(inHub)]);
  const decoding = ofDelta ?? lazyDecoding(options.workers);
  const opened: Model[] = [];
  try {
    // The model and its bases are opened concurrently, so that the bases cost no further round trips.
    const [model, ...baseModels] = await abortSiblingsOnFailure([options.signal], (signal) => {
      const keep = (model: Model) => (signal.aborted ? model.close() : opened.push(model), model);
      // A base uses the same workers. They are stopped with the model, not with the base.
      const decodingOfBase = async () => ({ decoder: (await decoding()).decoder });
      const openBase = (base: BaseInput) => (base instanceof Model ? base : openWithBase(base, { ...optionsFor(base, input, options), signal, config: false }, decodingOfBase).then(keep));
      return Promise.all([openOne(input, { ...options, signal }, decoding).then(keep), ...bases.map(openBase)]);
    });
    return bases.length > 0 || model.needsBase ? await model.attach(baseModels, opened, ofDelta !== undefined) : model;
  } catch (error) {
    for (const model of opened) model.close();
    throw error;
  }
}

/** Returns the checkpoints of the option `base`. */
const basesOf = ({ base = [] }: AllOptions): BaseInput[] => [base].flat() as BaseInput[];

/** Replaces a cache size in `options` by a memory cache that all files of the model share. */
function withOneCache(options: AllOptions): AllOptions {
  return typeof options.cache === "number" ? { ...options, cache: cacheOf(options.cache) } : options;
}

/** Returns the options for another file that belongs to `input`. Secrets are passed on only to the origin of `input`. */
export function optionsFor(other: ModelInput, input: ModelInput, options: AllOptions): AllOptions {
  const origin = (place: ModelInput): string | undefined => {
    if (isHubInput(place)) return place.origin;
    if (!isPlace(place)) return undefined;
    const resolved = platform.resolve(place);
    return resolved instanceof URL ? resolved.origin : undefined;
  };
  const sameOrigin = origin(input) !== undefined && origin(input) === origin(other);
  const isKept = ([name, value]: [string, unknown]) => name in SHARED_OPTIONS && value !== undefined && (sameOrigin || !/^(headers|token)$/.test(name));
  return Object.fromEntries(Object.entries(options).filter(isKept));
}

/** Returns whether the option `verify` requests digests. Throws an `InvalidInputError` for an unknown value. */
function isFull(verify: unknown = "stored"): boolean {
  if (verify !== "stored" && verify !== "full") throw new InvalidInputError(`\`verify\` must be "stored" or "full", not ${String(verify)}.`);
  return verify === "full";
}

async function openOne(given: ModelInput, givenOptions: AllOptions, decoding: LazyDecoding): Promise<Model> {
  const [input, options] = await located(given, givenOptions);
  const full = isFull(options.verify);
  const traffic = new Traffic();
  const meter = new ProgressMeter(options.onProgress, { stage: "open" });
  const readOptions: ReadOptions = { onBytes: meter.arrived, onTotal: (bytes) => meter.expect(bytes) };
  if (options.signal) readOptions.signal = options.signal;
  const resolveSibling = siblingResolver(input, options.siblings);
  const withIndex: WithIndex = options.index === undefined ? (_, create) => create() : await (await import("./model-index.js")).readIndex(options.index);
  const openSource = async (other: ModelInput, name?: string) => {
    // `optionsFor` needs the origin, which an hf:// address has only after this step.
    const wanted = await withHub(other, options.endpoint);
    const place = await located(wanted, optionsFor(wanted, input, options));
    return withIndex(name, (pinned) => sourceOf(...place, traffic, pinned));
  };
  const first = withIndex("", (pinned) => sourceOf(input, options, traffic, pinned));
  const name = nameOf(input);
  // Fetching the core and the head of the file concurrently saves a round trip. If it fails here, loading is repeated
  // when the core is needed, and that attempt reports the failure.
  if (/\.zstn$/i.test(name)) loadCoreFiles().then(({ preload }) => preload(name)).catch(() => {});
  const sizeBytes = await first.size(readOptions);
  const context: OpenContext = { meter, options: readOptions, openSource, resolveSibling, full, decoding };
  const { files, shards } = await openFiles(context, first, sizeBytes, name);
  const inParts = files.filter((file) => !isPlain(file) || mayHaveParts(file));
  const config = inParts.length > 0 && options.config !== false ? await (await loadCoreFiles()).readConfig(context, inParts, options.config) : undefined;
  if (config === undefined && files.every(isPlain)) {
    const index = shards?.index;
    const model = files.some(isPackedFile) ? await (await loadCoreFiles()).packedModel(files, index, decoding, options.workers) : new PlainModel(files, index);
    return new Model({ instance: model.instance, model, files, shards }, model.describe(), traffic, undefined);
  }
  const { assemble } = await loadCoreFiles();
  return new Model(...(await assemble(files, shards, config, full, readOptions, meter)), traffic, await decoding());
}
