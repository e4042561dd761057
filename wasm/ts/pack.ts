/** A safetensors file to a container, tensor by tensor: memory is needed for about one tensor. */

import type { Coder, CorePacking } from "./coder.js";
import { FormatError } from "./errors.js";
import type { Effort } from "./frames.js";
import { mistakenFor } from "./mistaken.js";
import { sourceOf } from "./open.js";
import type { Openable, OpenOptions, Platform } from "./open.js";
import { ProgressMeter } from "./progress.js";
import { guarded } from "./rejection.js";
import { BlobSink, StreamSink } from "./sink.js";
import type { Sink } from "./sink.js";
import { checked } from "./source/checked.js";
import type { ReadOptions, Source } from "./source/source.js";
import { Traffic } from "./source/traffic.js";

/** What `pack` may be given besides the source; `signal` and `onProgress` are for the whole of it. */
export interface PackOptions extends OpenOptions {
  /** Time against space: `"balanced"` unless said otherwise. */
  effort?: Effort;
  /**
   * Packs a safetensors file that ends before its tensors do, as one frame, instead of refusing it (rule `safetensors.truncated`):
   * almost always such a file is a download or a copy that failed.
   */
  allowTruncated?: boolean | undefined;
  /** Where the container goes, piece by piece. It is closed at the end, and aborted when packing fails. */
  to?: WritableStream<Uint8Array> | undefined;
}

/** What became of one tensor. */
export interface PackedTensor {
  /** Its name. */
  readonly name: string;
  /** Length of the tensor itself, in bytes. */
  readonly byteLength: number;
  /** Length it takes in the container, in bytes. */
  readonly storedLength: number;
  /** Name of the tensor with equal bytes whose storage this one shares, if any (tied weights). */
  readonly sharedWith?: string;
}

/** What packing came to. */
export interface PackReport {
  /** Length of the safetensors file, in bytes. */
  readonly originalSize: number;
  /** Length of the container, in bytes. */
  readonly size: number;
  /** Whether single tensors can be read from it. A file that breaks the safetensors rules is kept whole, as one frame. */
  readonly indexed: boolean;
  /** In the order of their data; none of a file that is kept whole. */
  readonly tensors: readonly PackedTensor[];
}

/** A packed file. */
export interface Packed extends PackReport {
  /** The container. Browsers keep large ones on disk. */
  readonly blob: Blob;
}

/** Packs a safetensors file; takes the sources that `open` takes. */
export interface Pack {
  (source: Openable, options?: PackOptions & { to?: undefined }): Promise<Packed>;
  (source: Openable, options: PackOptions & { to: WritableStream<Uint8Array> }): Promise<PackReport>;
}

/** Coding is one long calculation; this often others get a turn, such as a button that aborts. */
const TURN_MS = 30;

/** The function `pack` of one platform. */
export function packer(loadCoder: () => Promise<Coder>, platform: Pick<Platform, "resolve">): Pack {
  async function pack(openable: Openable, options: PackOptions = {}): Promise<PackReport | Packed> {
    const source = checked(sourceOf(openable, options, new Traffic(), platform));
    const blobs = new BlobSink();
    const stream = options.to && new StreamSink(options.to);
    try {
      const report = await packInto(stream ?? blobs, loadCoder, source, options);
      await stream?.close();
      return stream ? report : { ...report, blob: blobs.blob() };
    } catch (error) {
      await stream?.abort(error);
      throw error;
    }
  }
  return pack as Pack;
}

async function packInto(sink: Sink, loadCoder: () => Promise<Coder>, source: Source, options: PackOptions): Promise<PackReport> {
  const { signal, effort = "balanced", allowTruncated = false } = options;
  const meter = new ProgressMeter(options.onProgress, { stage: "pack" });
  const readOptions: ReadOptions = { onBytes: meter.arrived, ...(signal && { signal }) };
  const [coder, originalSize] = await Promise.all([loadCoder(), source.size(signal && { signal })]);
  meter.expect(originalSize);
  const packing = guarded(() => new coder.Packing(originalSize, effort, allowTruncated));
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
    return { originalSize, size, indexed: packing.isIndexed(), tensors: guarded(() => packing.packed()) };
  } finally {
    packing.free();
  }
}

async function next(packing: CorePacking, source: Source, offset: number, length: number, options: ReadOptions): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = length > 0 ? await source.read(offset, length, options) : new Uint8Array(0);
  try {
    return guarded(() => packing.supply(bytes));
  } catch (error) {
    const mistake = error instanceof FormatError && offset === 0 ? mistakenFor(bytes) : undefined;
    throw mistake ? new FormatError(mistake, {}, { cause: error }) : error;
  }
}
