/** The open models, and the matrices of their recently viewed tensors. */

import { blockScaled, memoryCache, open } from "zstn";
import type { BlockScaled, HttpOptions, Model, ModelInput, OpenOptions, TensorInfo } from "zstn";
import { serializeError } from "./serialized-error.js";
import { ChangeComparison } from "./changes.js";
import { levelsOf } from "./levels/levels.js";
import type { Levels } from "./levels/report.js";
import { Matrix } from "./matrix.js";
import { Difference } from "./difference.js";
import type { MatrixReader } from "./matrix-reader.js";
import type { ModelSummary, OpenRequest, OpenResult, ModelSource, Reference, Slot, NetworkStats } from "./protocol.js";
import { readConfigFile } from "./config-file.js";
import { figuresOf } from "./model-figures.js";
import { ModelFacts } from "./model-facts.js";
import { columnsOf, memoryOf } from "./tensor-table.js";
import { transfer } from "./transfer.js";
import { decodedInfo, decodedSource, slicedSource, storedSource } from "./tensor-source.js";
import { BusyClock, NetworkLog } from "./network-log.js";
import type { Recorder } from "./network-log.js";
import type { Context } from "./context.js";

/** The size of the cache of stored bytes, in bytes. With it, viewing a tensor again fetches nothing. */
const CACHE_BYTES = 64 << 20;
/** The number of recently viewed tensors whose values stay in memory. */
const MAX_TENSORS = 4;
/** The number of strips of rows in a thumbnail. */
const THUMBNAIL_STRIPS = 8;

type ModelRequest = Omit<OpenRequest, "second">;

export class OpenModels {
  readonly #log: NetworkLog;
  readonly #models = new Map<Slot, Model>();
  readonly #facts = new Map<Slot, ModelFacts>();
  readonly #generations = new Map<Slot, number>();
  #lastGeneration = 0;
  /** The input of the first model. */
  #firstInput: ModelRequest | undefined;
  #matrices: { key: string; matrix: Matrix }[] = [];
  #comparison: ChangeComparison | undefined;

  constructor(onUpdate: (stats: NetworkStats) => void) {
    this.#log = new NetworkLog(() => this.#models.values(), onUpdate);
  }

  /** Publishes the network counters. */
  publish(): void {
    this.#log.publish();
  }

  /**
   * Returns the model in a slot. Throws if there is none, or if `generation` is given and belongs to a model that has
   * been closed.
   */
  model(slot: Slot, generation?: number): Model {
    const model = this.#models.get(slot);
    if (!model) throw new Error("Open a model first.");
    if (generation !== undefined && generation !== this.#generations.get(slot)) throw new Error("This model has been closed. Open it again.");
    return model;
  }

  /** Returns the facts about the model in a slot. Throws like `model`. */
  facts(slot: Slot, generation?: number): ModelFacts {
    const model = this.model(slot, generation);
    let facts = this.#facts.get(slot);
    if (facts?.model !== model) this.#facts.set(slot, (facts = new ModelFacts(model)));
    return facts;
  }

  /** Returns the names of tensors with the shape of a tensor of the first model, those of the second model first. */
  namesLike({ slot, tensor, generation }: Reference, limit: number): string[] {
    const own = this.facts(slot, generation);
    const info = own.model.tensors.get(tensor)!;
    const others = this.#models.has("second") ? this.facts("second").namesLike(info, limit) : [];
    return [...new Set([...others, ...own.namesLike(info, limit)])].slice(0, limit);
  }

  /** Returns the text of the `config.json` next to the first model; `undefined` if it cannot be read. */
  async config(signal: AbortSignal): Promise<string | undefined> {
    return this.#firstInput && readConfigFile(this.#firstInput.source, this.#firstInput.token, signal);
  }

  /** Opens a model, and a second one if requested. Models that are already open stay open until both have been opened. */
  async open({ second, ...input }: OpenRequest, context: Context): Promise<OpenResult> {
    const busy = new BusyClock();
    const logs = { first: this.#log.recorder(busy), second: this.#log.recorder(busy) };
    const opened = new Map<Slot, Model>();
    const keep = (slot: Slot, model: Model): Model => (opened.set(slot, model), model);
    let secondError: unknown;
    try {
      const options = optionsOf(input, context, logs.first);
      try {
        keep("first", await open(inputOf(input.source, logs.first), options));
      } catch (error) {
        // The first model is a delta and needs the second model as its base.
        if (!needsBase(error) || !second) throw error;
        const base = keep("second", await open(inputOf(second.source, logs.second), optionsOf(second, context, logs.second)));
        keep("first", await open(inputOf(input.source, logs.first), { ...options, base }));
      }
      if (second && !opened.has("second")) {
        await openBeside(second, opened.get("first")!, logs.second, context).then((model) => keep("second", model), (error: unknown) => (secondError = error));
      }
      context.signal.throwIfAborted();
    } catch (error) {
      for (const model of opened.values()) model.close();
      throw error;
    }
    this.#close();
    for (const [slot, model] of opened) this.#models.set(slot, model);
    this.#firstInput = input;
    this.#log.begin(logs.first);
    this.#log.beginSecond(opened.has("second") ? logs.second : undefined);
    const result: OpenResult = {
      first: this.#summary("first", input.name),
      ...(opened.has("second") && { second: this.#summary("second", second!.name) }),
      ...(secondError !== undefined && { secondError: serializeError(secondError) }),
    };
    return transfer(result, [result.first, result.second].flatMap((summary) => (summary ? memoryOf(summary.columns) : [])));
  }

  async openSecond(input: ModelRequest, context: Context): Promise<ModelSummary> {
    const log = this.#log.recorder();
    const first = this.#models.get("first");
    const model = await openBeside(input, first, log, context);
    if (context.signal.aborted || this.#models.get("first") !== first) {
      model.close();
      context.signal.throwIfAborted();
      throw new DOMException("You opened another model.", "AbortError");
    }
    this.closeSecond();
    this.#log.beginSecond(log);
    this.#models.set("second", model);
    const summary = this.#summary("second", input.name);
    return transfer(summary, memoryOf(summary.columns));
  }

  #summary(slot: Slot, name: string): ModelSummary {
    const generation = (this.#lastGeneration += 1);
    this.#generations.set(slot, generation);
    return { ...summaryOf(this.facts(slot), name), generation };
  }

  closeSecond(): undefined {
    this.#models.get("second")?.close();
    this.#models.delete("second");
    this.#facts.delete("second");
    this.#log.beginSecond(undefined);
    this.#matrices = this.#matrices.filter(({ key }) => !key.startsWith("second "));
  }

  #close(): void {
    for (const model of this.#models.values()) model.close();
    this.#models.clear();
    this.#facts.clear();
    this.#matrices = [];
  }

  /** Returns the comparison of the open models, which remembers the rows that it has read. */
  comparison(): ChangeComparison {
    const [first, second] = [this.model("first"), this.model("second")];
    if (!this.#comparison?.isOf(first, second)) this.#comparison = new ChangeComparison(first, second);
    return this.#comparison;
  }

  /** Returns a tensor, or the difference of two, as a matrix. */
  matrix(of: Reference, minus?: Reference): MatrixReader {
    return minus ? new Difference(this.#matrix(of), this.#matrix(minus)) : this.#matrix(of);
  }

  /** Returns the levels of a tensor's values, from the rows in memory. */
  levels(of: Reference): Levels {
    const matrix = this.#matrix(of);
    return levelsOf({ blocks: matrix.held(), columns: matrix.columns, total: matrix.count, dtype: matrix.dtype });
  }

  /** Returns a tensor as a matrix that is not cached, with a sample of at most `maxBytes` bytes. */
  sampledMatrix({ slot, tensor, generation }: Reference, maxBytes: number): Matrix {
    const model = this.model(slot, generation);
    const info = model.tensors.get(tensor);
    if (!info) throw new Error(`The model has no tensor named ${tensor}.`);
    return new Matrix(storedSource(model, info), { wholeBytes: maxBytes, sampleBytes: maxBytes, strips: THUMBNAIL_STRIPS });
  }

  /** Returns the weight whose elements a tensor contains, and its description; `undefined` if it has no scales of blocks. */
  decoded({ slot, tensor, generation }: Reference): { readonly weight: BlockScaled; readonly info: TensorInfo } | undefined {
    const model = this.model(slot, generation);
    const weight = blockScaled(model.tensors, tensor);
    return weight && { weight, info: decodedInfo(model, weight) };
  }

  #matrix({ slot, tensor, slice = [], generation, isDecoded }: Reference): Matrix {
    const key = `${slot} ${isDecoded ? "decoded" : "stored"} ${slice.join()} ${tensor}`;
    const known = this.#matrices.find((entry) => entry.key === key);
    const model = this.model(slot, generation);
    const info = model.tensors.get(tensor);
    if (!info) throw new Error(`${slot === "first" ? "The model" : "The other model"} has no tensor named ${tensor}.`);
    const weight = isDecoded ? blockScaled(model.tensors, tensor) : undefined;
    const source = () => (weight ? decodedSource(model, weight) : slice.length > 0 ? slicedSource(model, info, slice) : storedSource(model, info));
    const entry = known ?? { key, matrix: new Matrix(source()) };
    this.#matrices = [entry, ...this.#matrices.filter((other) => other !== entry)].slice(0, MAX_TENSORS);
    return entry.matrix;
  }
}

const needsBase = (error: unknown): boolean => (error as { code?: unknown }).code === "base_required";

/** Opens a model to compare with `first`. It may be a delta whose base is `first`. */
async function openBeside(input: ModelRequest, first: Model | undefined, log: Recorder, context: Context): Promise<Model> {
  const options = optionsOf(input, context, log);
  return open(inputOf(input.source, log), options).catch((error: unknown) => {
    if (!needsBase(error) || !first) throw error;
    return open(inputOf(input.source, log), { ...options, base: first });
  });
}

function optionsOf({ source, token }: ModelRequest, { signal, onStep }: Context, log: Recorder): OpenOptions & HttpOptions {
  const options: OpenOptions & HttpOptions = { signal, onProgress: onStep, cache: memoryCache(CACHE_BYTES) };
  if (token) options.token = token;
  options.fetch = log.fetch;
  if ("file" in source) {
    options.siblings = (name) => {
      // Dropped files have no folder.
      const file = source.siblings.find((candidate) => candidate.name === name.split("/").at(-1));
      return file && log.file(file);
    };
  }
  return options;
}

function inputOf(source: ModelSource, log: Recorder): ModelInput {
  return "address" in source ? source.address : log.file(source.file);
}

/** The maximum number of unreadable tensors that are listed. */
const MAX_UNREADABLE = 50;

function summaryOf({ model, tensors }: ModelFacts, name: string): Omit<ModelSummary, "generation"> {
  const unreadable: [string, string][] = [];
  for (const [tensor, { message }] of model.unreadable) {
    if (unreadable.length === MAX_UNREADABLE) break;
    unreadable.push([tensor, message]);
  }
  return {
    name,
    kind: model.kind,
    sizeBytes: model.size,
    originalBytes: model.originalSize,
    fileCount: model.fileCount,
    metadata: model.metadata,
    columns: columnsOf(tensors),
    figures: figuresOf(tensors),
    unreadable: { tensors: model.unreadable.size, listed: unreadable },
  };
}
