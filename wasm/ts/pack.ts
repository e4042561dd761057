/** Packing a safetensors file into a container, one tensor at a time. */

import { loadPackModule } from "./pack-module.js";
import type { CorePacking, PackCore } from "./pack-module.js";
import { FormatError } from "./errors.js";
import type { Effort } from "./frames.js";
import { describeNonModel } from "./not-a-model.js";
import type { Instance } from "./instance.js";
import type { LocalInput, ModelInput } from "./model-input.js";
import type { Packed, PackReport } from "./pack-report.js";
import { ProgressMeter } from "./progress.js";
import type { OnProgress } from "./progress.js";
import { BlobSink, StreamSink } from "./sink.js";
import type { Sink } from "./sink.js";
import type { HttpOptions } from "./source/http/options.js";
import type { ReadOptions, Source } from "./source/source.js";
import { sourceOf } from "./model-source.js";
import { Traffic } from "./source/traffic.js";

/** Options of `pack` for every input. */
export interface PackOptions {
  /** Stops packing, which then rejects with the reason of the signal. */
  signal?: AbortSignal;
  /** Called as bytes arrive. */
  onProgress?: OnProgress;
  /** How much time to spend on a smaller result. `"balanced"` by default. */
  effort?: Effort;
  /**
   * Packs a safetensors file that ends before its tensors do as one frame, instead of refusing it (rule
   * `safetensors.truncated`). Such a file is almost always a failed download or copy.
   */
  allowTruncated?: boolean | undefined;
  /** Receives the container, piece by piece. Closed at the end, and aborted when packing fails. */
  to?: WritableStream<Uint8Array> | undefined;
}

/** The options of `pack` for an input of type `Input`: `HttpOptions` are for addresses. */
export type PackOptionsFor<Input extends ModelInput> = [Input] extends [LocalInput] ? PackOptions : PackOptions & HttpOptions;

/** How long packing may block the event loop, in milliseconds, so that a button can abort it. */
const TURN_MS = 30;

/**
 * Packs a safetensors file into a `.zstn` container, one tensor at a time. Takes the same inputs as `open`. With a
 * stream as `to` the container goes there, otherwise it is the `blob` of the result.
 */
export async function pack<Input extends ModelInput>(source: Input, options: PackOptionsFor<Input> & { to: WritableStream<Uint8Array> }): Promise<PackReport>;
export async function pack<Input extends ModelInput>(source: Input, options?: PackOptionsFor<Input> & { to?: undefined }): Promise<Packed>;
export async function pack(input: ModelInput, options: PackOptions & HttpOptions = {}): Promise<PackReport | Packed> {
  // One read at a time has nothing to be merged with.
  const source = sourceOf(input, { ...options, coalesce: false }, new Traffic());
  const blobs = new BlobSink();
  const stream = options.to && new StreamSink(options.to);
  try {
    const report = await packInto(stream ?? blobs, source, options);
    await stream?.close();
    return stream ? report : { ...report, blob: blobs.blob() };
  } catch (error) {
    await stream?.abort(error);
    throw error;
  }
}

async function packInto(sink: Sink, source: Source, options: PackOptions): Promise<PackReport> {
  const { signal, effort = "balanced", allowTruncated = false } = options;
  const meter = new ProgressMeter(options.onProgress, { stage: "pack" });
  const readOptions: ReadOptions = { onBytes: meter.arrived, ...(signal && { signal }) };
  const [instance, originalSize] = await Promise.all([loadPackModule(), source.size(signal && { signal })]);
  meter.expect(originalSize);
  const packing = instance.call(({ Packing }) => new Packing(originalSize, effort, allowTruncated));
  const needs = () => instance.call(() => packing.needs());
  try {
    let size = 0;
    let turn = performance.now();
    for (let range = needs(); range; range = needs()) {
      meter.about(instance.call(() => packing.tensor()));
      const piece = await next(instance, packing, source, range[0]!, range[1]!, readOptions);
      size += piece.byteLength;
      if (piece.byteLength > 0) await sink.write(piece);
      if (performance.now() - turn > TURN_MS) {
        await new Promise((resolve) => setTimeout(resolve));
        turn = performance.now();
      }
      signal?.throwIfAborted();
    }
    return instance.call(() => ({ originalSize, size, indexed: packing.isIndexed(), tensors: packing.packed() }));
  } finally {
    instance.free(packing);
  }
}

async function next(
  instance: Instance<PackCore>,
  packing: CorePacking,
  source: Source,
  offset: number,
  length: number,
  options: ReadOptions,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = length > 0 ? await source.read(offset, length, options) : new Uint8Array(0);
  try {
    return instance.call(() => packing.supply(bytes));
  } catch (error) {
    const mistake = error instanceof FormatError && offset === 0 ? describeNonModel(bytes) : undefined;
    throw mistake ? new FormatError(mistake, {}, { cause: error }) : error;
  }
}
