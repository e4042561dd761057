/** Opens a plain safetensors file, whose header describes all its tensors. */

import type { PlainFile } from "../opened-file.js";
import type { ProgressMeter } from "../progress.js";
import type { ReadOptions, Source } from "../source/source.js";
import { PREFIX_BYTES, headerBytes, parseHeader } from "./header.js";

/** Reads the header of a file whose first bytes are `head`. */
export async function openPlainFile(source: Source, sizeBytes: number, head: Uint8Array, options: ReadOptions, meter: ProgressMeter): Promise<PlainFile> {
  const dataBegin = PREFIX_BYTES + headerBytes(head, sizeBytes);
  const file = { source, sizeBytes, head, supplied: [] as PlainFile["supplied"], dataBegin };
  let header = head.subarray(PREFIX_BYTES, dataBegin);
  if (dataBegin > head.byteLength) {
    const length = dataBegin - head.byteLength;
    meter.expectMore(length);
    const rest = await source.read(head.byteLength, length, options);
    file.supplied.push({ offset: head.byteLength, bytes: rest });
    const read = header;
    header = new Uint8Array(dataBegin - PREFIX_BYTES);
    header.set(read);
    header.set(rest, read.byteLength);
  }
  return { ...file, header: parseHeader(header, sizeBytes - dataBegin) };
}

/**
 * The name endings of tensors that may be parts of a weight. Such tensors require `config.json`
 * (docs/formats/compressed-tensors.md 2, 5.3).
 */
const PARTS = [".weight_packed", ".weight_scale", ".scale_packed", ".bitmask", ".compressed"];

/** Returns whether the model's `config.json` may describe tensors of this file. */
export function mayHaveParts({ header }: PlainFile): boolean {
  return header.tensors.some(({ name }) => PARTS.some((ending) => name.endsWith(ending)));
}
