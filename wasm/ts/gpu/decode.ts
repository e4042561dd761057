/** Decodes a tensor with shaders: uploads its stored bytes and lists, and runs the shaders. */

import type { ShaderLists } from "../gpu-module.js";
import { abortable } from "../source/abortable.js";
import { GpuError } from "./error.js";
import { type Pipelines, type Shader, SHADERS } from "./pipelines.js";
import { INDEX, JOIN_THREADS, TABLE_WORDS } from "./wgsl/lists.js";

/** The bytes of a buffer that a tensor fills, with those up to the next multiple of 4. */
export interface Place {
  device: GPUDevice;
  buffer: GPUBuffer;
  offset: number;
  byteLength: number;
}

// Bits of GPUBufferUsage and GPUMapMode, which are no global objects in some runtimes.
const MAP_READ = 1;
const COPY_SRC = 4;
const COPY_DST = 8;
const STORAGE = 128;
const READ = 1;

/** The largest number of workgroups in a row. Every device allows this number. */
const MAX_ROW = 65_535;

/** The position of the stored bytes in the source, in bytes. */
const STORED_START = 8;

const padded = (bytes: number): number => Math.ceil(bytes / 4) * 4;

/** The lengths of the buffers of a tensor, in bytes, in the order of the bindings. */
interface Sizes {
  source: number;
  lists: number;
  tables: number;
  scratch: number;
}

function sizesOf([lists, decoded]: ShaderLists): Sizes {
  return {
    // Shaders read up to eight bytes after a stream.
    source: padded(lists[INDEX.decodedStart]! + decoded.byteLength) + 8,
    lists: lists.byteLength,
    tables: Math.max(4 * TABLE_WORDS * lists[INDEX.codes]!, 4),
    scratch: padded(Math.max(lists[INDEX.scratchBytes]!, 4)),
  };
}

/** Returns the first byte of the tensor's binding, which devices require to be at a multiple of a power of two. */
function bindingStart({ device, offset }: Place): number {
  return offset - (offset % device.limits.minStorageBufferOffsetAlignment);
}

/** Returns whether the buffers of a tensor are within the limits of the device. */
export function fits(place: Place, shaderLists: ShaderLists): boolean {
  const { limits } = place.device;
  const largest = Math.max(...Object.values(sizesOf(shaderLists)));
  const output = place.offset - bindingStart(place) + padded(place.byteLength);
  return Math.max(largest, output) <= limits.maxStorageBufferBindingSize && largest <= limits.maxBufferSize;
}

/** Returns the number of workgroups of each shader. */
function workgroups(lists: Uint32Array): Record<Shader, number> {
  const words = Math.ceil((lists[INDEX.elements]! * lists[INDEX.itemBytes]!) / 4);
  return {
    expand_codes: lists[INDEX.codes]!,
    decode_streams: lists[INDEX.streams]!,
    copy_segments: lists[INDEX.copies]!,
    decode_rans_streams: lists[INDEX.rans]!,
    join_planes: lists[INDEX.join]! > 0 ? Math.ceil(words / JOIN_THREADS) : 0,
  };
}

/** Writes bytes of any length to a buffer. The last word is filled with zeros. */
export function write(queue: GPUQueue, buffer: GPUBuffer, offset: number, bytes: Uint8Array): void {
  const whole = bytes.byteLength - (bytes.byteLength % 4);
  if (whole > 0) queue.writeBuffer(buffer, offset, bytes as Uint8Array<ArrayBuffer>, 0, whole);
  if (whole === bytes.byteLength) return;
  const last = new Uint8Array(4);
  last.set(bytes.subarray(whole));
  queue.writeBuffer(buffer, offset + whole, last);
}

/**
 * Decodes a tensor into its place. Resolves to `false` if the stored bytes are damaged or the device has too little memory,
 * so that the CPU has to decode it. Rejects with a `GpuError` if the device refuses a command or is lost.
 */
export async function decode(place: Place, pipelines: Pipelines, shaderLists: ShaderLists, stored: Uint8Array, signal: AbortSignal): Promise<boolean> {
  const { device } = place;
  const buffers: GPUBuffer[] = [];
  const create = (size: number, usage: number): GPUBuffer => {
    const buffer = device.createBuffer({ label: "zstn", size, usage });
    buffers.push(buffer);
    return buffer;
  };
  try {
    // Everything between pushing and popping the scopes is synchronous, so no error of another call is among theirs.
    device.pushErrorScope("validation");
    device.pushErrorScope("out-of-memory");
    const sizes = sizesOf(shaderLists);
    const own = Object.values(sizes).map((size) => create(size, STORAGE | COPY_DST));
    const damage = create(4, STORAGE | COPY_SRC);
    const result = create(4, MAP_READ | COPY_DST);
    const outOfMemory = device.popErrorScope();
    submit(place, pipelines, shaderLists, stored, own, damage, result);
    const mapped = result.mapAsync(READ).then(
      () => new Uint32Array(result.getMappedRange())[0]!,
      (cause: unknown) => new GpuError("The GPU was lost, or refused a command, while a tensor was decoded.", { cause }),
    );
    const refused = device.popErrorScope();
    const [lack, refusal, damaged] = await abortable(Promise.all([outOfMemory, refused, mapped]), signal);
    // Buffers without memory are invalid, which is also the reason of every error after the first.
    if (lack) return false;
    if (refusal) throw new GpuError(`The GPU refused to decode a tensor: ${refusal.message}`);
    if (typeof damaged !== "number") throw damaged;
    return damaged === 0;
  } finally {
    for (const buffer of buffers) buffer.destroy();
  }
}

function submit(place: Place, pipelines: Pipelines, [lists, decoded]: ShaderLists, stored: Uint8Array, own: GPUBuffer[], damage: GPUBuffer, result: GPUBuffer): void {
  const { device, buffer, offset } = place;
  const { queue } = device;
  const [source, listBuffer] = own as [GPUBuffer, GPUBuffer];
  const start = bindingStart(place);
  const size = padded(place.byteLength);
  lists[INDEX.output] = (offset - start) / 4;
  write(queue, source, STORED_START, stored);
  write(queue, source, lists[INDEX.decodedStart]!, decoded);
  queue.writeBuffer(listBuffer, 0, lists);
  const output = { buffer, offset: start, size: offset - start + size };
  const resources = [...own.map((buffer) => ({ buffer })), output, { buffer: damage }];
  const group = device.createBindGroup({ label: "zstn", layout: pipelines.bindings, entries: resources.map((resource, binding) => ({ binding, resource })) });
  const commands = device.createCommandEncoder({ label: "zstn" });
  // Shaders set bits of words that they write in parts.
  commands.clearBuffer(buffer, offset, size);
  const pass = commands.beginComputePass({ label: "zstn" });
  pass.setBindGroup(0, group);
  const counts = workgroups(lists);
  for (const shader of SHADERS) {
    const count = counts[shader];
    if (count === 0) continue;
    pass.setPipeline(pipelines.shaders[shader]);
    pass.dispatchWorkgroups(Math.min(count, MAX_ROW), Math.ceil(count / MAX_ROW));
  }
  pass.end();
  commands.copyBufferToBuffer(damage, 0, result, 0, 4);
  queue.submit([commands.finish()]);
}
