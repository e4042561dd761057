/** Packs a safetensors file into a container, or with a base into a delta, one tensor at a time. */

import { loadPackModule } from "./pack-module.js";
import type { CorePacking, PackCore } from "./pack-module.js";
import { packDelta } from "./delta/pack.js";
import { FormatError, InvalidInputError } from "./errors.js";
import { describeNonModel } from "./not-a-model.js";
import type { Instance } from "./instance.js";
import { HTTP_OPTIONS, checkOptions } from "./known-options.js";
import type { OptionNames } from "./known-options.js";
import { checkEndpoint, located } from "./resolve-hub-input.js";
import type { Model } from "./model.js";
import type { ModelInput } from "./model-input.js";
import type { AllPackOptions, PackDeltaOptionsFor, PackOptionsFor } from "./pack-options.js";
import type { Packed, PackReport } from "./pack-report.js";
import { ProgressMeter } from "./progress.js";
import { BlobSink, StreamSink, pour } from "./sink.js";
import type { Sink } from "./sink.js";
import type { ReadOptions, Source } from "./source/source.js";
import { withReadAhead } from "./source/with-read-ahead.js";
import { isRemote, sourceOf } from "./model-source.js";
import { Traffic } from "./source/traffic.js";
import { writePieces } from "./write-pieces.js";

const OPTIONS: OptionNames<AllPackOptions & { base: unknown }> = { base: 1, signal: 1, onProgress: 1, effort: 1, extended: 1, to: 1, allowTruncated: 1, statistics: 1, sha256: 1, ...HTTP_OPTIONS };

/**
 * Packs a safetensors file into a `.zstn` container, or with a `base` into a delta (`.z4dm`), one tensor at a time.
 * Accepts the same inputs as `open`. With a stream as `to`, the packed file is written there; otherwise it is the
 * `blob` of the result. Rejects with a `FormatError` for a file that is not safetensors, and with a `LimitError` for a
 * tensor that does not fit into memory.
 */
export async function pack<Input extends ModelInput>(source: Input, options: PackOptionsFor<Input> & { to: WritableStream<Uint8Array> }): Promise<PackReport>;
export async function pack<Input extends ModelInput>(source: Input, options?: PackOptionsFor<Input> & { to?: undefined }): Promise<Packed>;
export async function pack<Input extends ModelInput, Base extends ModelInput | Model>(
  source: Input,
  options: PackDeltaOptionsFor<Input, Base> & { base: Base; to: WritableStream<Uint8Array> },
): Promise<PackReport>;
export async function pack<Input extends ModelInput, Base extends ModelInput | Model>(
  source: Input,
  options: PackDeltaOptionsFor<Input, Base> & { base: Base; to?: undefined },
): Promise<Packed>;
export async function pack(given: ModelInput, all: AllPackOptions & { base?: ModelInput | Model | undefined } = {}): Promise<PackReport | Packed> {
  checkOptions("pack()", all, OPTIONS);
  const { base, ...givenOptions } = all;
  checkEndpoint(all.endpoint, [given, base]);
  if (base !== undefined && givenOptions.sha256 !== undefined) throw new InvalidInputError("A delta cannot store a SHA-256: leave it out.");
  const [input, options] = await located(given, givenOptions);
  // Packing reads one range at a time, so there is nothing to merge.
  const reads = sourceOf(input, { ...options, coalesce: false }, new Traffic());
  // Local inputs gain nothing from reading ahead.
  const ahead = isRemote(input) ? withReadAhead(reads, options.signal) : undefined;
  const source = ahead ?? reads;
  const blobs = new BlobSink();
  const stream = options.to && new StreamSink(options.to);
  try {
    // If extension frames are allowed, the first bytes of the file are known last.
    const sink = options.extended ? blobs : (stream ?? blobs);
    const report = base === undefined ? await packAlone(sink, source, options) : await packDelta(sink, source, input, base, givenOptions);
    if (stream && sink === blobs) await pour(blobs.blob(), stream, options.signal);
    // Closing the stream completes the file, so this is the last chance to abort.
    options.signal?.throwIfAborted();
    await stream?.close();
    return stream ? report : { ...report, blob: blobs.blob() };
  } catch (error) {
    await stream?.abort(error, options.signal);
    throw error;
  } finally {
    ahead?.stop();
  }
}

async function packAlone(sink: Sink, source: Source, options: AllPackOptions): Promise<PackReport> {
  const { signal, effort = "balanced", allowTruncated = false, statistics = true, extended = false, sha256 } = options;
  const meter = new ProgressMeter(options.onProgress, { stage: "pack" });
  const readOptions: ReadOptions = { onBytes: meter.arrived, ...(signal && { signal }) };
  const [instance, originalSize] = await Promise.all([loadPackModule(), source.size(signal && { signal })]);
  meter.expect(originalSize);
  const packing = instance.call(({ Packing }) => new Packing(originalSize, effort, allowTruncated, statistics, extended, sha256));
  try {
    let size = await writePieces(sink, signal, async () => {
      const range = instance.call(() => packing.needs());
      if (!range) return undefined;
      meter.about(instance.call(() => packing.tensor()));
      return next(instance, packing, source, range[0]!, range[1]!, readOptions);
    });
    const prefix = extended && instance.call(() => packing.prefix());
    if (prefix) {
      sink.prepend?.(prefix);
      size += prefix.byteLength;
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
