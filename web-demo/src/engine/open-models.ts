/** The models that are open, and the tensors of theirs that were looked at. */

import { memoryCache, open } from "zstn";
import type { Model, ModelInput, OpenOptions } from "zstn";
import { failure } from "./failure.js";
import { Matrix } from "./matrix.js";
import { Difference } from "./difference.js";
import type { Cells } from "./cells.js";
import type { ModelSummary, OpenRequest, OpenResult, Place, Reference, Slot, Wire } from "./protocol.js";
import { WireLog } from "./wire-log.js";
import type { Recorder } from "./wire-log.js";
import type { Context } from "./worker.js";

/** Stored bytes that are kept, so that looking again costs nothing. */
const CACHE_BYTES = 64 << 20;
/** Tensors whose values are kept. */
const MOST_TENSORS = 4;

type Given = Omit<OpenRequest, "second">;

export class OpenModels {
  readonly #log: WireLog;
  readonly #models = new Map<Slot, Model>();
  #matrices: { key: string; matrix: Matrix }[] = [];

  constructor(tell: (wire: Wire) => void) {
    this.#log = new WireLog(() => this.#models.values(), tell);
  }

  /** Says what reading has cost by now. */
  tell(): void {
    this.#log.tell();
  }

  model(slot: Slot): Model {
    const model = this.#models.get(slot);
    if (!model) throw new Error("There is no model to read from; open one.");
    return model;
  }

  async open({ second, ...given }: OpenRequest, context: Context): Promise<OpenResult> {
    const log = this.#log.recorder();
    const base = second && openableOf(second.place, undefined);
    let model: Model;
    let isDelta = false;
    try {
      model = await open(openableOf(given.place, log), optionsOf(given, context, log));
    } catch (error) {
      isDelta = (error as { code?: unknown }).code === "base_required";
      if (!isDelta || !second || base === undefined) throw error;
      const baseModel = await open(base, optionsOf(second, context));
      model = await open(openableOf(given.place, log), { ...optionsOf(given, context, log), base: baseModel }).catch((reason: unknown) => {
        baseModel.close();
        throw reason;
      });
    }
    context.signal.throwIfAborted();
    this.#close();
    this.#log.begin(log);
    this.#models.set("first", model);
    const first = summaryOf(model, given.name);
    if (isDelta) {
      this.#models.set("second", model.base!);
      return { first, second: summaryOf(model.base!, second!.name) };
    }
    if (!second) return { first };
    try {
      return { first, second: await this.openSecond(second, context) };
    } catch (error) {
      context.signal.throwIfAborted();
      return { first, secondError: failure(error) };
    }
  }

  async openSecond(given: Given, context: Context): Promise<ModelSummary> {
    const options = optionsOf(given, context);
    const first = this.#models.get("first");
    const model = await open(openableOf(given.place, undefined), options).catch((error: unknown) => {
      // A fine-tune that is stored as its difference from what is looked at.
      if ((error as { code?: unknown }).code !== "base_required" || !first) throw error;
      return open(openableOf(given.place, undefined), { ...options, base: first });
    });
    this.closeSecond();
    this.#models.set("second", model);
    return summaryOf(model, given.name);
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

  /** A tensor as a matrix of numbers, or the difference of two. */
  matrix(of: Reference, minus?: Reference): Cells {
    return minus ? new Difference(this.#matrix(of), this.#matrix(minus)) : this.#matrix(of);
  }

  #matrix({ slot, tensor }: Reference): Matrix {
    const key = `${slot} ${tensor}`;
    const known = this.#matrices.find((entry) => entry.key === key);
    const model = this.model(slot);
    const info = model.tensors.get(tensor);
    if (!info) throw new Error(`${slot === "first" ? "The model" : "The other model"} has no tensor named ${tensor}.`);
    const entry = known ?? { key, matrix: new Matrix(model, info) };
    this.#matrices = [entry, ...this.#matrices.filter((other) => other !== entry)].slice(0, MOST_TENSORS);
    return entry.matrix;
  }
}

function optionsOf({ place, token }: Given, { signal, onStep }: Context, log?: Recorder): OpenOptions {
  const options: OpenOptions = { signal, onProgress: onStep, cache: memoryCache(CACHE_BYTES) };
  if (token) options.token = token;
  if (log) options.fetch = log.fetch;
  if ("file" in place) {
    options.siblings = (name) => {
      const file = place.beside.find((candidate) => candidate.name === name);
      return file && (log ? log.file(file) : file);
    };
  }
  return options;
}

function openableOf(place: Place, log: Recorder | undefined): ModelInput {
  if ("address" in place) return place.address;
  return log ? log.file(place.file) : place.file;
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
