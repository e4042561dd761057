/** Measures the changes of a model step by step, so that results appear as they arrive and reads stay within a budget. */

import type { TensorInfo } from "zstn";
import type { Engine } from "../../engine/client.js";
import type { Activities } from "../../network/activity.js";
import { isAbort } from "../../page/error-text.js";
import { isFloat } from "../../tree/dtype-family.js";
import type { MeasuredChanges } from "./measured.js";

/** The maximum number of bytes that one run reads from both models together, over the network and from local files. */
const NETWORK_BUDGET_BYTES = 24e6;
const LOCAL_BUDGET_BYTES = 256e6;
/**
 * The number of tensors that are sampled in one call. `BATCH_BYTES` is the maximum total length of several tensors that
 * are read as a whole in one call.
 */
const BATCH = 16;
/** The maximum number of tensors that are read as a whole in one call, so that its answer does not block the page. */
const MAX_WHOLE = 5000;
/** The fraction that block tables and the gaps between merged reads may add to the bytes of a sample. */
const OVERHEAD_SHARE = 0.1;
const BATCH_BYTES = 8e6;
/** Tensors that need fewer bytes than this are read as a whole. */
const MIN_SHARE_BYTES = 32 << 10;

/** The extent of a run: a sample within the budget, or all values of all tensors. */
export type Extent = "sample" | "whole";

export type SamplerState = "new" | "running" | "finished" | "stopped" | "over budget" | "failed";

export interface SamplerOptions {
  readonly engine: Engine;
  readonly activities: Activities;
  readonly shared: readonly TensorInfo[];
  /** Returns the total stored length of a shared tensor in both models. */
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

  /** The maximum number of bytes that one run reads. */
  get budgetBytes(): number {
    return this.#options.isLocal ? LOCAL_BUDGET_BYTES : NETWORK_BUDGET_BYTES;
  }

  /** Returns whether comparing the remaining values is within the budget. */
  get isSmall(): boolean {
    return this.leftBytes <= this.budgetBytes;
  }

  /** The number of bytes that comparing the remaining values reads. */
  get leftBytes(): number {
    return this.#left().reduce((sum, tensor) => sum + this.#costOf(tensor), 0);
  }

  /** Returns whether some unsettled tensors have not been read at all. */
  get hasUntouched(): boolean {
    return this.#left().some((tensor) => this.#isUntouched(tensor));
  }

  /** Stops the current run and all later ones. */
  close(): void {
    this.#closing.abort();
  }

  stop(): void {
    this.#attempt.abort();
  }

  /** Continues reading until everything has been read, the budget is spent, or the run is stopped. */
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

  /** Compares the remaining values in file order, so that adjacent tensors share requests. */
  async #readAll(signal: AbortSignal, report: (done: number, of: number) => void): Promise<void> {
    const left = this.#left();
    for (let done = 0; done < left.length; ) {
      const batch = left.slice(done, done + batchLength(left, done));
      await this.#compare(batch, undefined, signal);
      report((done += batch.length), left.length);
    }
  }

  /**
   * Distributes the budget: every tensor gets its smallest sample, cheapest first, and the rest of the budget is
   * divided among all.
   */
  async #sampleAll(signal: AbortSignal, report: (done: number, of: number) => void): Promise<void> {
    const { measured } = this.#options;
    const end = measured.fetchedBytes + this.budgetBytes;
    const untouched = this.#left().filter((tensor) => this.#isUntouched(tensor));
    // This reads only the block tables, which are small.
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
        // The tolerance of 1 byte absorbs rounding errors.
        if (bytes > left + 1) break;
        batch.push(tensor);
      }
      if (batch.length === 0) return;
      // All tensors of a batch get at least the bytes that the most expensive one needs, since most need about the same.
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

  /** Returns the tensors that are not settled, without tied ones. */
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

/**
 * Returns the number of tensors from a position on that are read as a whole in one call: as long as their number and
 * total length stay below the limits, at least one.
 */
function batchLength(tensors: readonly TensorInfo[], begin: number): number {
  let [length, bytes] = [0, 0];
  while (length < MAX_WHOLE && begin + length < tensors.length && bytes < BATCH_BYTES) {
    bytes += tensors[begin + length]!.byteLength;
    if (length > 0 && bytes > BATCH_BYTES) break;
    length += 1;
  }
  return length;
}
