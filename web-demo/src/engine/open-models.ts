/** The open models, and the matrices of their recently viewed tensors. */

import { memoryCache, open } from "zstn";
import type { HttpOptions, Model, ModelInput, OpenOptions } from "zstn";
import { serializeError } from "./serialized-error.js";
import { Matrix } from "./matrix.js";
import { Difference } from "./difference.js";
import type { MatrixReader } from "./matrix-reader.js";
import type { ModelSummary, OpenRequest, OpenResult, ModelSource, Reference, Slot, NetworkStats } from "./protocol.js";
import { NetworkLog } from "./network-log.js";
import type { Recorder } from "./network-log.js";
import type { Context } from "./context.js";

/** Size of the cache of stored bytes, so that viewing a tensor again fetches nothing. */
const CACHE_BYTES = 64 << 20;
/** How many tensors keep their values. */
const MAX_TENSORS = 4;

type ModelRequest = Omit<OpenRequest, "second">;

export class OpenModels {
  readonly #log: NetworkLog;
  readonly #models = new Map<Slot, Model>();
  #matrices: { key: string; matrix: Matrix }[] = [];

  constructor(onUpdate: (stats: NetworkStats) => void) {
    this.#log = new NetworkLog(() => this.#models.values(), onUpdate);
  }

  /** Publishes the network counters. */
  publish(): void {
    this.#log.publish();
  }

  model(slot: Slot): Model {
    const model = this.#models.get(slot);
    if (!model) throw new Error("Open a model first.");
    return model;
  }

  async open({ second, ...input }: OpenRequest, context: Context): Promise<OpenResult> {
    const log = this.#log.recorder();
    const base = second && inputOf(second.source, undefined);
    let model: Model;
    let isDelta = false;
    try {
      model = await open(inputOf(input.source, log), optionsOf(input, context, log));
    } catch (error) {
      isDelta = (error as { code?: unknown }).code === "base_required";
      if (!isDelta || !second || base === undefined) throw error;
      const baseModel = await open(base, optionsOf(second, context));
      model = await open(inputOf(input.source, log), { ...optionsOf(input, context, log), base: baseModel }).catch((reason: unknown) => {
        baseModel.close();
        throw reason;
      });
    }
    context.signal.throwIfAborted();
    this.#close();
    this.#log.begin(log);
    this.#models.set("first", model);
    const first = summaryOf(model, input.name);
    if (isDelta) {
      this.#models.set("second", model.base!);
      return { first, second: summaryOf(model.base!, second!.name) };
    }
    if (!second) return { first };
    try {
      return { first, second: await this.openSecond(second, context) };
    } catch (error) {
      context.signal.throwIfAborted();
      return { first, secondError: serializeError(error) };
    }
  }

  async openSecond(input: ModelRequest, context: Context): Promise<ModelSummary> {
    const options = optionsOf(input, context);
    const first = this.#models.get("first");
    const model = await open(inputOf(input.source, undefined), options).catch((error: unknown) => {
      // A delta of the first model.
      if ((error as { code?: unknown }).code !== "base_required" || !first) throw error;
      return open(inputOf(input.source, undefined), { ...options, base: first });
    });
    this.closeSecond();
    this.#models.set("second", model);
    return summaryOf(model, input.name);
  }

  closeSecond(): undefined {
    this.#models.get("second")?.close();
    this.#models.delete("second");
    this.#matrices = this.#matrices.filter(({ key }) => !key.startsWith("second "));
  }

  #close(): void {
    for (const model of this.#models.values()) model.close();
    this.#models.clear();
    this.#matrices = [];
  }

  /** Returns a tensor, or the difference of two, as a matrix. */
  matrix(of: Reference, minus?: Reference): MatrixReader {
    return minus ? new Difference(this.#matrix(of), this.#matrix(minus)) : this.#matrix(of);
  }

  #matrix({ slot, tensor }: Reference): Matrix {
    const key = `${slot} ${tensor}`;
    const known = this.#matrices.find((entry) => entry.key === key);
    const model = this.model(slot);
    const info = model.tensors.get(tensor);
    if (!info) throw new Error(`${slot === "first" ? "The model" : "The other model"} has no tensor named ${tensor}.`);
    const entry = known ?? { key, matrix: new Matrix(model, info) };
    this.#matrices = [entry, ...this.#matrices.filter((other) => other !== entry)].slice(0, MAX_TENSORS);
    return entry.matrix;
  }
}

function optionsOf({ source, token }: ModelRequest, { signal, onStep }: Context, log?: Recorder): OpenOptions & HttpOptions {
  const options: OpenOptions & HttpOptions = { signal, onProgress: onStep, cache: memoryCache(CACHE_BYTES) };
  if (token) options.token = token;
  if (log) options.fetch = log.fetch;
  if ("file" in source) {
    options.siblings = (name) => {
      const file = source.siblings.find((candidate) => candidate.name === name);
      return file && (log ? log.file(file) : file);
    };
  }
  return options;
}

function inputOf(source: ModelSource, log: Recorder | undefined): ModelInput {
  if ("address" in source) return source.address;
  return log ? log.file(source.file) : source.file;
}

function summaryOf(model: Model, name: string): ModelSummary {
  return {
    name,
    kind: model.kind,
    sizeBytes: model.size,
    originalBytes: model.originalSize,
    fileCount: model.fileCount,
    metadata: model.metadata,
    tensors: [...model.tensors.values()],
    unreadable: [...model.unreadable].map(([tensor, error]) => [tensor, error.message]),
  };
}
