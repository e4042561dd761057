/** Measuring the changes of a model step by step, so that results show as they arrive and reading stays within a budget. */

import type { TensorInfo } from "zstn";
import type { Engine } from "../../engine/client.js";
import type { Activities } from "../../network/activity.js";
import { isAbort } from "../../page/error-text.js";
import { isFloat } from "../../tree/dtype-family.js";
import { placeOf } from "../layers/stacks.js";
import type { MeasuredChanges } from "./measured.js";

/** What one run may read of both models together, in bytes: over the network, and of local files. */
const NETWORK_BUDGET_BYTES = 24e6;
const LOCAL_BUDGET_BYTES = 256e6;
/** The least and the most that a sample takes of one tensor, in bytes. */
const MIN_SAMPLE_BYTES = 8 << 10;
const MAX_SAMPLE_BYTES = 128 << 10;
/** The most that the sample of one tensor fetches from both models, in bytes. */
const MAX_COST_BYTES = 2 << 20;
/** How many tensors are sampled in one call, and how long those are that are read whole, in bytes, if there are several. */
const BATCH = 16;
const BATCH_BYTES = 8e6;

/** What is read: a sample within the budget, or all values of all tensors. */
export type Extent = "sample" | "whole";

export type SamplerState = "new" | "running" | "finished" | "stopped" | "over budget" | "failed";

export interface SamplerOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly shared: readonly TensorInfo[];
  /** The stored bytes of the shared tensors in both models. */
  readonly storedBytes: number;
  /** Returns the stored bytes of one of them in both models. */
  readonly storedBytesOf: (tensor: TensorInfo) => number;
  readonly isLocal: boolean;
  readonly measured: MeasuredChanges;
  readonly onUpdate: (arrived: readonly string[]) => void;
}

export class ChangeSampler {
  state: SamplerState = "new";
  error: unknown;
  readonly #options: SamplerOptions;
  readonly #closing = new AbortController();
  #attempt = new AbortController();
  readonly #tried = new Set<string>();

  constructor(options: SamplerOptions) {
    this.#options = options;
  }

  /** The most that one run reads, in bytes. */
  get budgetBytes(): number {
    return this.#options.isLocal ? LOCAL_BUDGET_BYTES : NETWORK_BUDGET_BYTES;
  }

  /** Returns whether both models are so small that all values are compared at once. */
  get isSmall(): boolean {
    return this.#options.storedBytes <= this.budgetBytes;
  }

  /** Stops for good. */
  close(): void {
    this.#closing.abort();
  }

  stop(): void {
    this.#attempt.abort();
  }

  /** Reads on, until everything was read, the budget is spent or it is stopped. */
  async run(extent: Extent = this.isSmall ? "whole" : "sample"): Promise<void> {
    const { engine, activities, measured, onUpdate } = this.#options;
    const shared = this.#options.shared.filter((tensor) => !measured.isTied(tensor));
    this.#attempt = new AbortController();
    const stop = AbortSignal.any([this.#closing.signal, this.#attempt.signal]);
    // Whole tensors in the order of the file, so that adjacent ones share requests.
    const left = extent === "whole" ? shared.filter((tensor) => measured.of(tensor)?.exact !== true) : matricesFirst(shared).filter(({ name }) => !this.#tried.has(name));
    const sampleBytes = extent === "whole" ? undefined : Math.max(MIN_SAMPLE_BYTES, Math.min(MAX_SAMPLE_BYTES, this.budgetBytes / 2 / Math.max(1, shared.filter(isMatrix).length)));
    const startBytes = measured.fetchedBytes;
    this.state = "running";
    onUpdate([]);
    try {
      await activities.run(extent === "whole" ? "Comparing all values" : "Estimating what changed", async ({ signal, onStep }) => {
        let done = 0;
        while (done < left.length) {
          const length = extent === "whole" ? batchLength(left, done) : this.#sampleLength(left, done, this.budgetBytes - measured.fetchedBytes + startBytes);
          if (length === 0) return void (this.state = "over budget");
          const names = left.slice(done, done + length).map(({ name }) => name);
          measured.add(await engine.call("changes", { tensors: names, sampleBytes }, { signal }));
          for (const name of names) this.#tried.add(name);
          done += names.length;
          onStep({ loadedBytes: done, totalBytes: left.length });
          onUpdate(names);
        }
        this.state = "finished";
      }, stop);
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      this.state = isAbort(error) ? "stopped" : "failed";
      this.error = error;
    }
    onUpdate([]);
  }

  /** Returns how many tensors from a position on can be sampled together within a number of bytes. */
  #sampleLength(tensors: readonly TensorInfo[], begin: number, budgetBytes: number): number {
    let [length, bytes] = [0, 0];
    for (const tensor of tensors.slice(begin, begin + BATCH)) {
      bytes += Math.min(this.#options.storedBytesOf(tensor), MAX_COST_BYTES);
      if (bytes > budgetBytes) break;
      length += 1;
    }
    return length;
  }
}

/** Returns how many tensors from a position on are read whole together: as many as are short together, at least one. */
function batchLength(tensors: readonly TensorInfo[], begin: number): number {
  let [length, bytes] = [0, 0];
  while (begin + length < tensors.length && bytes < BATCH_BYTES) {
    bytes += tensors[begin + length]!.byteLength;
    if (length > 0 && bytes > BATCH_BYTES) break;
    length += 1;
  }
  return length;
}

/** Returns whether a tensor holds weights that the matrix of layers shows at first. */
const isMatrix = ({ dtype, shape }: TensorInfo): boolean => shape.length >= 2 && isFloat(dtype);

/** Returns matrices first: one of each layer, then the next one of each, so that the budget leaves no layer out. */
function matricesFirst(tensors: readonly TensorInfo[]): TensorInfo[] {
  const turns = new Map<string, number>();
  const turnOf = ({ name }: TensorInfo): number => {
    const place = placeOf(name);
    // Embeddings and heads are large, and the matrix of layers has no cell for them.
    if (!place) return Number.MAX_SAFE_INTEGER;
    const layer = `${place.prefix}.${place.layer}`;
    const turn = turns.get(layer) ?? 0;
    turns.set(layer, turn + 1);
    return turn;
  };
  const inTurns = (some: readonly TensorInfo[]): TensorInfo[] => {
    turns.clear();
    return some
      .map((tensor) => ({ tensor, turn: turnOf(tensor) }))
      .sort((a, b) => a.turn - b.turn)
      .map(({ tensor }) => tensor);
  };
  return [...inTurns(tensors.filter(isMatrix)), ...inTurns(tensors.filter((tensor) => !isMatrix(tensor)))];
}
