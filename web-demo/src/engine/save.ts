/** Exports a tensor as a file. */

import type { Model, Tensor } from "zstn";
import type { SaveFormat } from "./protocol.js";
import type { Context } from "./context.js";
import { toNumbers } from "./to-numbers.js";

/** NumPy's names of the dtypes. Other dtypes are converted to 32-bit floats. */
const NUMPY: Readonly<Record<string, string>> = {
  F64: "<f8", F32: "<f4", F16: "<f2", I64: "<i8", I32: "<i4", I16: "<i2", I8: "|i1", U64: "<u8", U32: "<u4", U16: "<u2", U8: "|u1", BOOL: "|b1", C64: "<c8",
};

export async function save(model: Model, name: string, format: SaveFormat, { signal, onStep }: Context): Promise<Blob> {
  const tensor = await model.tensor(name, { signal, onProgress: onStep });
  const parts = format === "npy" ? npy(tensor) : format === "safetensors" ? safetensors(tensor) : [tensor.bytes];
  return new Blob(parts, { type: "application/octet-stream" });
}

/**
 * Returns the parts of a file in the .npy format, version 1.0: a magic number, the length of a Python literal, the
 * literal with padding, so that the data begin at a multiple of 64 bytes, and the data.
 */
function npy(tensor: Tensor): BlobPart[] {
  const type = NUMPY[tensor.dtype];
  const numbers = type ? tensor.bytes : Float32Array.from(toNumbers(tensor));
  const shape = `(${tensor.shape.join(", ")}${tensor.shape.length === 1 ? "," : ""})`;
  const literal = `{'descr': '${type ?? "<f4"}', 'fortran_order': False, 'shape': ${shape}, }`;
  const filled = `${literal.padEnd(Math.ceil((10 + literal.length + 1) / 64) * 64 - 11)}\n`;
  const head = new Uint8Array(10);
  head.set([0x93, ...new TextEncoder().encode("NUMPY"), 1, 0]);
  new DataView(head.buffer).setUint16(8, filled.length, true);
  return [head, filled, numbers];
}

function safetensors({ name, dtype, shape, bytes }: Tensor): BlobPart[] {
  const entry = { dtype, shape, data_offsets: [0, bytes.byteLength] };
  const json = new TextEncoder().encode(JSON.stringify(Object.fromEntries([[name, entry]])));
  const length = Math.ceil(json.byteLength / 8) * 8;
  const head = new Uint8Array(8);
  new DataView(head.buffer).setBigUint64(0, BigInt(length), true);
  return [head, json, " ".repeat(length - json.byteLength), bytes];
}
