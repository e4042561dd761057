/** Measuring the changes of a model step by step, so that results show as they arrive and reading stays within a budget. */

import type { TensorInfo } from "zstn";
import type { Engine } from "../../engine/client.js";
import type { Activities } from "../../network/activity.js";
import { isAbort } from "../../page/error-text.js";
import { isFloat } from "../../tree/dtype-family.js";
import type { MeasuredChanges } from "./measured.js";

/** What one run may read of both models together, in bytes: over the network, and of local files. */
const NETWORK_BUDGET_BYTES = 24e6;
const LOCAL_BUDGET_BYTES = 256e6;
/** How many tensors are sampled in one call, and how long those are that are read whole, in bytes, if there are several. */
const BATCH = 16;
/** What block tables and the gaps between merged reads may add to the bytes of a sample, as a share. */
const OVERHEAD_SHARE = 0.1;
const BATCH_BYTES = 8e6;
/** Tensors that cost less are read whole, in bytes. */
const MIN_SHARE_BYTES = 32 << 10;

/** What is read: a sample within the budget, or all values of all tensors. */
export type Extent = "sample" | "whole";

export type SamplerState = "new" | "running" | "finished" | "stopped" | "over budget" | "failed";

export interface SamplerOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly shared: readonly TensorInfo[];
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

  constructor(options: SamplerOptions) {
    this.#options = options;
  }

  /** The most that one run reads, in bytes. */
  get budgetBytes(): number {
    return this.#options.isLocal ? LOCAL_BUDGET_BYTES : NETWORK_BUDGET_BYTES;
  }

  /** Returns whether comparing all values that are left is within the budget. */
  get isSmall(): boolean {
    return this.leftBytes <= this.budgetBytes;
  }

  /** What comparing all values that are left reads, in bytes. */
  get leftBytes(): number {
    return this.#left().reduce((sum, tensor) => sum + this.#costOf(tensor), 0);
  }

  /** Returns whether tensors are left of which nothing has been read. */
  get hasUntouched(): boolean {
    return this.#left().some((tensor) => this.#isUntouched(tensor));
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
    const { activities, onUpdate } = this.#options;
    this.#attempt = new AbortController();
    const stop = AbortSignal.any([this.#closing.signal, this.#attempt.signal]);
    this.state = "running";
    onUpdate([]);
    try {
      await activities.run(extent === "whole" ? "Comparing all values" : "Estimating what changed", async ({ signal, onStep }) => {
        const report = (doneOf: number, of: number): void => onStep({ loadedBytes: doneOf, totalBytes: of });
        if (extent === "whole") await this.#readAll(signal, report);
        else await this.#sampleAll(signal, report);
        this.state = this.hasUntouched ? "over budget" : "finished";
      }, stop);
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      this.state = isAbort(error) ? "stopped" : "failed";
      this.error = error;
    }
    onUpdate([]);
  }

  /** Compares everything that is left, in the order of the file, so that adjacent tensors share requests. */
  async #readAll(signal: AbortSignal, report: (done: number, of: number) => void): Promise<void> {
    const left = this.#left();
    for (let done = 0; done < left.length; ) {
      const batch = left.slice(done, done + batchLength(left, done));
      await this.#compare(batch, undefined, signal);
      report((done += batch.length), left.length);
    }
  }

  /** Shares the budget: every tensor gets its smallest sample, the cheapest first, and what is left is divided among all. */
  async #sampleAll(signal: AbortSignal, report: (done: number, of: number) => void): Promise<void> {
    const { measured } = this.#options;
    const end = measured.fetchedBytes + this.budgetBytes;
    const untouched = this.#left().filter((tensor) => this.#isUntouched(tensor));
    // What is read for that is small: the tables of blocks.
    const planned = untouched.filter((tensor) => this.#costOf(tensor) > MIN_SHARE_BYTES && measured.of(tensor)?.neededBytes === undefined);
    for (let begin = 0; begin < planned.length; begin += BATCH) await this.#compare(planned.slice(begin, begin + BATCH), 0, signal);
    const least = new Map(untouched.map((tensor) => [tensor, (measured.of(tensor)?.neededBytes ?? this.#costOf(tensor)) * (1 + OVERHEAD_SHARE)]));
    const needed = (tensor: TensorInfo): number => least.get(tensor)!;
    const isWeight = ({ dtype }: TensorInfo): number => (isFloat(dtype) ? 0 : 1);
    const cheapest = untouched.sort((a, b) => isWeight(a) - isWeight(b) || needed(a) - needed(b));
    let reserved = cheapest.reduce((sum, tensor) => sum + needed(tensor), 0);
    for (let done = 0; done < cheapest.length; ) {
      const left = end - measured.fetchedBytes;
      const extra = Math.max(0, (left - reserved) / (cheapest.length - done));
      const batch: TensorInfo[] = [];
      let bytes = 0;
      for (const tensor of cheapest.slice(done, done + BATCH)) {
        bytes += needed(tensor) + extra;
        // A little more than is left, for rounding.
        if (bytes > left + 1) break;
        batch.push(tensor);
      }
      if (batch.length === 0) return;
      // Of one batch all get what its dearest one needs at least, since most cost about the same.
      const share = Math.min(left / batch.length, needed(batch.at(-1)!) + extra);
      await this.#compare(batch, share / (1 + OVERHEAD_SHARE), signal);
      reserved -= batch.reduce((sum, tensor) => sum + needed(tensor), 0);
      report((done += batch.length), cheapest.length);
    }
  }

  async #compare(some: readonly TensorInfo[], maxBytes: number | undefined, signal: AbortSignal): Promise<void> {
    const { engine, measured, onUpdate } = this.#options;
    const names = some.map(({ name }) => name);
    measured.add(await engine.call("changes", { tensors: names, maxBytes }, { signal }));
    onUpdate(names);
  }

  /** The tensors that are not settled, without tied data. */
  #left(): TensorInfo[] {
    const { shared, measured } = this.#options;
    return shared.filter((tensor) => !measured.isTied(tensor) && !measured.isSettled(tensor));
  }

  #isUntouched(tensor: TensorInfo): boolean {
    return (this.#options.measured.of(tensor)?.compared ?? 0) === 0;
  }

  #costOf(tensor: TensorInfo): number {
    return this.#options.measured.of(tensor)?.leftBytes ?? this.#options.storedBytesOf(tensor);
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
