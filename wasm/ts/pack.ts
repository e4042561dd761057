/** Packs a file into a container, or with a base into a delta, one tensor at a time. */

import { loadPackModule } from "./pack-module.js";
import { packDelta } from "./delta/pack.js";
import { FormatError, InvalidInputError } from "./errors.js";
import { describeNonModel } from "./not-a-model.js";
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
import { isRemote, nameOf, sourceOf } from "./model-source.js";
import { Traffic } from "./source/traffic.js";
import { writePieces } from "./write-pieces.js";

const OPTIONS: OptionNames<AllPackOptions & { base: unknown }> = { base: 1, signal: 1, onProgress: 1, effort: 1, extended: 1, name: 1, to: 1, allowTruncated: 1, statistics: 1, sha256: 1, ...HTTP_OPTIONS };

/**
 * Packs a file into a `.zstn` file, or a safetensors file with a `base` into a delta (`.z4dm`), one tensor at a
 * time. Accepts the same types of input as `open`, and files of any format: a file that is not recognised is packed as
 * bytes. Of a model in several files, pack each shard alone. With a stream as `to`, the packed file is written there;
 * otherwise it is the `blob` of the result. Rejects with a `FormatError` for a safetensors file that is cut off and for a
 * failed download, with an `InvalidInputError` for a file that is already packed, that is called `.safetensors` and is
 * none, or that is the index of a model in several files, and with a `LimitError` for a tensor that does not fit into
 * memory.
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
    const name = options.name ?? nameOf(input);
    const report = base === undefined ? await packAlone(sink, source, reads, name, options) : await packDelta(sink, source, input, name, base, givenOptions);
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

/** Returns whether a file is a safetensors file, possibly a damaged one. Of other files, the module with all formats decides it. */
const isPlain = (head: Uint8Array): boolean => /^[^]{3}\0{5}\{/.test(String.fromCharCode(...head.subarray(0, 9)));

/** Packs the file that `source` reads from its start to its end. `reads` reads it in any order. */
async function packAlone(sink: Sink, source: Source, reads: Source, name: string, options: AllPackOptions): Promise<PackReport> {
  const { signal, effort = "balanced", allowTruncated = false, statistics = true, extended = false, sha256 } = options;
  const meter = new ProgressMeter(options.onProgress, { stage: "pack" });
  const readOptions: ReadOptions = { onBytes: meter.arrived, ...(signal && { signal }) };
  const read = async ([offset, length]: Float64Array) => (length! > 0 ? source.read(offset!, length!, readOptions) : new Uint8Array(0));
  const [instance, originalSize] = await Promise.all([loadPackModule(), source.size(signal && { signal })]);
  meter.expect(originalSize);
  const packing = instance.call(({ Packing }) => new Packing(originalSize, effort, allowTruncated, statistics, extended, sha256));
  try {
    const head = await read(instance.call(() => packing.needs()!));
    const described = isPlain(head) ? undefined : await (await import("./pack-original.js")).describeOriginal(reads, originalSize, head, name, signal);
    const start = () => {
      if (!described) return packing.supply(head);
      packing.describe(head, described.header, described.codings);
      return packing.supply(new Uint8Array(0));
    };
    let isStarted = false;
    let size = await writePieces(sink, signal, async () => {
      if (!isStarted) {
        isStarted = true;
        return explained(() => instance.call(start), head);
      }
      const range = instance.call(() => packing.needs());
      if (!range) return undefined;
      meter.about(instance.call(() => packing.tensor()));
      const bytes = await read(range);
      return instance.call(() => packing.supply(bytes));
    });
    const prefix = extended && instance.call(() => packing.prefix());
    if (prefix) {
      sink.prepend?.(prefix);
      size += prefix.byteLength;
    }
    const tensors = instance.call(() => packing.packed());
    const indexed = described?.original.kind !== "bytes" && instance.call(() => packing.isIndexed());
    return { originalSize, size, indexed, tensors, ...(described && { original: described.original }) };
  } finally {
    instance.free(packing);
  }
}

/** Calls the core. If it rejects the first bytes of the file, the error describes the file's actual format where that is recognised. */
function explained<T>(call: () => T, head: Uint8Array): T {
  try {
    return call();
  } catch (error) {
    const mistake = error instanceof FormatError ? describeNonModel(head) : undefined;
    throw mistake ? new FormatError(mistake, {}, { cause: error }) : error;
  }
}
