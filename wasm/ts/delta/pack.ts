/** Packs a safetensors file against a base, one tensor at a time. */

import { abortSiblingsOnFailure } from "../abort-siblings.js";
import { FormatError, InvalidInputError } from "../errors.js";
import type { Instance } from "../instance.js";
import type { Model } from "../model.js";
import type { ModelInput } from "../model-input.js";
import { describeNonModel } from "../not-a-model.js";
import { loadPackModule } from "../pack-module.js";
import type { PackCore } from "../pack-module.js";
import type { AllPackOptions } from "../pack-options.js";
import type { PackReport } from "../pack-report.js";
import { ProgressMeter } from "../progress.js";
import type { Sink } from "../sink.js";
import type { Source } from "../source/source.js";
import { writePieces } from "../write-pieces.js";
import { openBase } from "./base.js";
import type { Base } from "./base.js";

/** Packs `source`, the file of `input` with this name, against `base`. */
export async function packDelta(sink: Sink, source: Source, input: ModelInput, name: string, base: ModelInput | Model, options: AllPackOptions): Promise<PackReport> {
  const opened: Base[] = [];
  try {
    const [instance, sizeBytes] = await abortSiblingsOnFailure([options.signal], (signal) => {
      const keep = (base: Base) => (signal.aborted ? base.close() : opened.push(base));
      return Promise.all([loadPackModule(), source.size({ signal }), openBase(base, input, options, signal).then(keep)]);
    });
    // A base that finished opening after an abort has already been closed.
    options.signal?.throwIfAborted();
    return await packAgainst(sink, instance, source, sizeBytes, name, opened[0]!, options);
  } finally {
    for (const base of opened) base.close();
  }
}

async function packAgainst(sink: Sink, instance: Instance<PackCore>, source: Source, originalSize: number, name: string, base: Base, options: AllPackOptions): Promise<PackReport> {
  const { signal, effort = "balanced", extended = false } = options;
  const meter = new ProgressMeter(options.onProgress, { stage: "pack" });
  meter.expect(originalSize + base.sizeBytes);
  // A delta begins with a digest of the base's data. A stream needs this digest before anything else, so most of the
  // base is then read twice.
  const packing = instance.call(({ DeltaPacking }) => new DeltaPacking(originalSize, base.sizeBytes, effort, sink.prepend !== undefined, extended));
  const read = async (file: Source, offset: number, length: number, signal: AbortSignal) =>
    length > 0 ? file.read(offset, length, { signal, onBytes: meter.arrived }) : new Uint8Array(0);
  try {
    let size = await writePieces(sink, signal, async () => {
      const ranges = instance.call(() => packing.needs());
      if (!ranges) return undefined;
      const [offset, length, baseOffset, baseLength] = ranges as unknown as [number, number, number, number];
      meter.about(instance.call(() => packing.tensor()));
      meter.expect(instance.call(() => packing.readBytes()) ?? 0);
      const [bytes, baseBytes] = await abortSiblingsOnFailure([signal], (signal) =>
        Promise.all([read(source, offset, length, signal), read(base.source, baseOffset, baseLength, signal)]),
      );
      try {
        return instance.call(() => packing.supply(bytes, baseBytes));
      } catch (error) {
        throw offset === 0 ? await explained(error, name, originalSize, bytes) : error;
      }
    });
    const prefix = sink.prepend && instance.call(() => packing.prefix());
    if (prefix) {
      sink.prepend?.(prefix);
      size += prefix.byteLength;
    }
    return instance.call(() => ({ originalSize, size, indexed: true, tensors: packing.packed() }));
  } finally {
    instance.free(packing);
  }
}

/**
 * Returns the error to throw when the core rejects `head`, the first bytes of the file: it describes the file's actual
 * format where that is recognised.
 */
async function explained(error: unknown, name: string, sizeBytes: number, head: Uint8Array): Promise<unknown> {
  if (!(error instanceof FormatError)) return error;
  const { isOtherFormat } = await import("../pack-original.js");
  if (await isOtherFormat(name, sizeBytes, head)) {
    return new InvalidInputError(`${name || "The file"} is not a safetensors file, and only these are stored as a delta; leave out the base.`);
  }
  const mistake = describeNonModel(head);
  return mistake === undefined ? error : new FormatError(mistake, {}, { cause: error });
}
