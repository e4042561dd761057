/** Restores the file that a packed file was packed from. */

import type { HttpOptions } from "./source/http/options.js";
import { InvalidInputError, UnsupportedError } from "./errors.js";
import { HTTP_OPTIONS, checkOptions } from "./known-options.js";
import type { OptionNames } from "./known-options.js";
import { HEAD_BYTES } from "./limits.js";
import type { LocalInput, ModelInput } from "./model-input.js";
import { isRemote, nameOf, sourceOf } from "./model-source.js";
import { open } from "./open.js";
import type { BaseInput } from "./open.js";
import { ProgressMeter } from "./progress.js";
import type { OnProgress } from "./progress.js";
import { checkEndpoint, located } from "./resolve-hub-input.js";
import { BlobSink, StreamSink } from "./sink.js";
import type { Sink } from "./sink.js";
import { Traffic } from "./source/traffic.js";
import { writePieces } from "./write-pieces.js";

/** The options of `unpack` that apply to every input. */
export interface UnpackOptions {
  /** Aborts unpacking, which then rejects with the reason of the signal. */
  signal?: AbortSignal;
  /** Called as bytes are restored: `loadedBytes` and `totalBytes` count bytes of the restored file. */
  onProgress?: OnProgress;
  /** Receives the restored file in chunks. The stream is closed at the end, and aborted if unpacking fails. */
  to?: WritableStream<Uint8Array> | undefined;
  /** The base of a delta, as for `open`. */
  base?: BaseInput | readonly BaseInput[];
}

/** The options of `unpack` for an input of type `Input`. `HttpOptions` apply to addresses only. */
export type UnpackOptionsFor<Input extends ModelInput> = [Input] extends [LocalInput] ? UnpackOptions : UnpackOptions & HttpOptions;

/** The result of unpacking a file. */
export interface UnpackReport {
  /**
   * The name of the restored file: `model.gguf` for `model.gguf.zstn`. The percent-encoding of an address is decoded.
   * Absent if the packed file has no name that states it.
   */
  readonly name?: string;
  /** The format of the restored file, as the packed file states it: `"safetensors"`, `"gguf"`, …, or `"bytes"`. */
  readonly kind: string;
  /** Length of the restored file, in bytes. */
  readonly size: number;
  /** Length of the packed file, in bytes. */
  readonly packedSize: number;
}

/** A file that was restored. */
export interface Unpacked extends UnpackReport {
  /** The restored file, byte for byte the one that was packed. Browsers store a large `Blob` on disk. */
  readonly blob: Blob;
}

type AllOptions = UnpackOptions & HttpOptions;

const OPTIONS: OptionNames<AllOptions> = { signal: 1, onProgress: 1, to: 1, base: 1, ...HTTP_OPTIONS };

/**
 * Restores the file that a `.zstn` or `.z4dm` file was packed from, byte for byte, whatever its format is. Compares the
 * checksums and digests that the packed file contains. Accepts the same inputs as `open`. With a stream as `to`, the
 * restored file is written there; otherwise it is the `blob` of the result. Rejects with an `InvalidInputError` for a
 * file that is not packed, with an `UnsupportedError` for a safetensors file that is stored as one frame, and with a
 * `LimitError` for a tensor that does not fit into memory.
 */
export async function unpack<Input extends ModelInput>(source: Input, options: UnpackOptionsFor<Input> & { to: WritableStream<Uint8Array> }): Promise<UnpackReport>;
export async function unpack<Input extends ModelInput>(source: Input, options?: UnpackOptionsFor<Input> & { to?: undefined }): Promise<Unpacked>;
export async function unpack(given: ModelInput, all: AllOptions = {}): Promise<UnpackReport | Unpacked> {
  checkOptions("unpack()", all, OPTIONS);
  checkEndpoint(all.endpoint, [given, all.base]);
  const { signal } = all;
  const stream = all.to && new StreamSink(all.to);
  const blobs = new BlobSink();
  try {
    const report = await restore(given, all, stream ?? blobs);
    // Closing the stream completes the file, so this is the last chance to abort.
    signal?.throwIfAborted();
    await stream?.close();
    return stream ? report : { ...report, blob: blobs.blob() };
  } catch (error) {
    await stream?.abort(error, signal);
    throw error;
  }
}

async function restore(given: ModelInput, all: AllOptions, sink: Sink): Promise<UnpackReport> {
  const { to: _, onProgress, ...rest } = all;
  const [input, options] = await located(given, rest);
  const { signal } = options;
  const reading = signal ? { signal } : {};
  const source = sourceOf(input, options, new Traffic());
  const packedSize = await source.size(reading);
  const head = packedSize > 0 ? await source.read(0, Math.min(packedSize, HEAD_BYTES), reading) : new Uint8Array(0);
  const magic = String.fromCharCode(...head.subarray(0, 4));
  if (magic !== "ZSTN" && magic !== "Z4DM") throw new InvalidInputError("The file is not packed: only .zstn and .z4dm files can be unpacked.");
  const isOriginal = magic === "ZSTN" && (head[5]! & 8) !== 0;
  const meter = new ProgressMeter(onProgress, { stage: "unpack" });
  const file = isOriginal
    ? await (await import("./unpack-original.js")).openRestored(source, packedSize, head, nameOf(input), reading)
    : await openDelta(given, rest, magic === "Z4DM").catch((error: unknown) => {
        throw magic === "ZSTN" && isSingleFrame(head.subarray(4)) && error instanceof UnsupportedError ? singleFrameError(error) : error;
      });
  const name = restoredName(decodedName(input), file.isOther);
  try {
    meter.expect(file.size);
    await writePieces(sink, signal, async () => {
      const piece = await file.next();
      if (piece) meter.arrived(piece.byteLength);
      return piece;
    });
    return { ...(name !== undefined && { name }), kind: file.kind, size: file.size, packedSize };
  } finally {
    await file.close();
  }
}

/** A file that is being restored. */
export interface RestoredPieces {
  kind: string;
  /** Whether the file is of another format than safetensors. */
  isOther: boolean;
  /** Length of the file, in bytes. */
  size: number;
  /** Returns the next chunk of the file; `undefined` after the last one. */
  next(): Promise<Uint8Array<ArrayBuffer> | undefined>;
  close(): unknown;
}

/** Opens the safetensors file that a packed file restores, or the file that a delta restores. */
async function openDelta(input: ModelInput, options: Omit<AllOptions, "to" | "onProgress">, isDelta: boolean): Promise<RestoredPieces> {
  const model = await open(input, { ...options, verify: "full", config: false });
  try {
    const other = isDelta ? (await import("./delta/other-format.js")).restoredBy(model) : undefined;
    const { kind, file } = other ?? { kind: "safetensors", file: model.asSafetensorsBlob() };
    const reader = file.stream(options.signal ? { signal: options.signal } : {}).getReader();
    return { kind, isOther: other !== undefined, size: file.size, next: async () => (await reader.read()).value, close: () => model.close() };
  } catch (error) {
    model.close();
    throw error;
  }
}

/** Returns whether a `.zstn` file stores the original as one frame, given its bytes after the magic number. */
const isSingleFrame = ([version, flag]: Uint8Array): boolean => (version === 3 || version === 4) && flag === 0;

const singleFrameError = (cause: UnsupportedError): UnsupportedError =>
  new UnsupportedError("This file breaks the safetensors rules and is stored as one frame. Only the program `zstn unpack` restores it.", {}, { cause });

/** Returns the name, path or address of an input. The last segment of an address is decoded where that gives a file name. */
function decodedName(input: ModelInput): string {
  const name = nameOf(input);
  const isAddress = input instanceof URL || (typeof input === "string" && (/^file:/i.test(input) || isRemote(input)));
  return isAddress ? name.replace(/[^/]*$/, decodedSegment) : name;
}

function decodedSegment(segment: string): string {
  try {
    const decoded = decodeURIComponent(segment);
    // A separator or a control character does not belong in a file name.
    return /[/\\\p{Cc}]/u.test(decoded) ? segment : decoded;
  } catch {
    return segment;
  }
}

/** Returns the name of the file that the packed file of this name restores. No file of another format is called `.safetensors`. */
function restoredName(packed: string, isOther: boolean): string | undefined {
  const [, stem] = /([^/\\]+)\.(?:zstn|z4dm)$/i.exec(packed) ?? [];
  if (stem === undefined) return undefined;
  if (!isOther) return `${stem}.safetensors`;
  return /\.safetensors$/i.test(stem) ? undefined : stem;
}
