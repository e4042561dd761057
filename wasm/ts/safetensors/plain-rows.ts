/** Reads parts of an uncompressed tensor. */

import { totalBytes } from "../byte-ranges.js";
import type { ProgressMeter } from "../progress.js";
import type { ByteSpan } from "../rows.js";
import type { StoredPart, TensorInfo } from "../tensor.js";
import type { PlainModel } from "./plain-model.js";

/** Returns the ranges that hold some bytes of a tensor: one, or none for an empty span. */
export function plainParts({ parts: [part] }: TensorInfo, [begin, end]: ByteSpan): StoredPart[] {
  return begin === end ? [] : [{ file: part!.file, offset: part!.offset + begin, length: end - begin }];
}

/** Reads some bytes of a tensor. */
export function readPlainSpan(model: PlainModel, info: TensorInfo, span: ByteSpan, { signal, meter }: { signal: AbortSignal; meter: ProgressMeter }): Promise<Uint8Array<ArrayBuffer>> {
  const parts = plainParts(info, span);
  meter.expectMore(totalBytes(parts));
  return model.read({ ...info, parts }, { signal, onBytes: meter.arrived }, undefined);
}
