/** Packing a safetensors file into a container, one tensor at a time. */

import type { PackModule, CorePacking } from "./pack-module.js";
import { FormatError } from "./errors.js";
import type { Effort } from "./frames.js";
import { describeNonModel } from "./not-a-model.js";
import { sourceOf } from "./open.js";
import type { OpenOptions } from "./open.js";
import type { ModelInput } from "./model-input.js";
import type { Packed, PackReport } from "./pack-report.js";
import type { Platform } from "./platform.js";
import { ProgressMeter } from "./progress.js";
import { callCore } from "./core-errors.js";
import { BlobSink, StreamSink } from "./sink.js";
import type { Sink } from "./sink.js";
import { withValidation } from "./source/with-validation.js";
import type { ReadOptions, Source } from "./source/source.js";
import { Traffic } from "./source/traffic.js";

/** Options of `pack`. `signal` and `onProgress` apply to all of it. */
export interface PackOptions extends OpenOptions {
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

/** Packs a safetensors file. Takes the same inputs as `open`. */
export interface Pack {
  (source: ModelInput, options?: PackOptions & { to?: undefined }): Promise<Packed>;
  (source: ModelInput, options: PackOptions & { to: WritableStream<Uint8Array> }): Promise<PackReport>;
}

/** How long packing may block the event loop, in milliseconds, so that a button can abort it. */
const TURN_MS = 30;

/** Returns the function `pack` of a platform. */
export function packer(loadPackModule: () => Promise<PackModule>, platform: Pick<Platform, "resolve">): Pack {
  async function pack(input: ModelInput, options: PackOptions = {}): Promise<PackReport | Packed> {
    const source = withValidation(sourceOf(input, options, new Traffic(), platform));
    const blobs = new BlobSink();
    const stream = options.to && new StreamSink(options.to);
    try {
      const report = await packInto(stream ?? blobs, loadPackModule, source, options);
      await stream?.close();
      return stream ? report : { ...report, blob: blobs.blob() };
    } catch (error) {
      await stream?.abort(error);
      throw error;
    }
  }
  return pack as Pack;
}

async function packInto(sink: Sink, loadPackModule: () => Promise<PackModule>, source: Source, options: PackOptions): Promise<PackReport> {
  const { signal, effort = "balanced", allowTruncated = false } = options;
  const meter = new ProgressMeter(options.onProgress, { stage: "pack" });
  const readOptions: ReadOptions = { onBytes: meter.arrived, ...(signal && { signal }) };
  const [packModule, originalSize] = await Promise.all([loadPackModule(), source.size(signal && { signal })]);
  meter.expect(originalSize);
  const packing = callCore(() => new packModule.Packing(originalSize, effort, allowTruncated));
  try {
    let size = 0;
    let turn = performance.now();
    for (let range = packing.needs(); range; range = packing.needs()) {
      meter.about(packing.tensor());
      const piece = await next(packing, source, range[0]!, range[1]!, readOptions);
      size += piece.byteLength;
      if (piece.byteLength > 0) await sink.write(piece);
      if (performance.now() - turn > TURN_MS) {
        await new Promise((resolve) => setTimeout(resolve));
        turn = performance.now();
      }
      signal?.throwIfAborted();
    }
    return { originalSize, size, indexed: packing.isIndexed(), tensors: callCore(() => packing.packed()) };
  } finally {
    packing.free();
  }
}

async function next(packing: CorePacking, source: Source, offset: number, length: number, options: ReadOptions): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = length > 0 ? await source.read(offset, length, options) : new Uint8Array(0);
  try {
    return callCore(() => packing.supply(bytes));
  } catch (error) {
    const mistake = error instanceof FormatError && offset === 0 ? describeNonModel(bytes) : undefined;
    throw mistake ? new FormatError(mistake, {}, { cause: error }) : error;
  }
}
