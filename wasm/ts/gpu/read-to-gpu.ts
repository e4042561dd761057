/** Reads a tensor into a buffer of a GPU. Loaded by `model.readToGpu`. */

import { loadCoreFiles } from "../core-files-loader.js";
import type { Decoder, DecodeRequest } from "../decode/decoder.js";
import { InvalidInputError } from "../errors.js";
import type { ShaderLists } from "../gpu-module.js";
import { checkOptions } from "../known-options.js";
import type { Model } from "../model.js";
import { ProgressMeter } from "../progress.js";
import type { TensorOptions } from "../tensor-options.js";
import type { TensorInfo } from "../tensor.js";
import { decode, fits, type Place, write } from "./decode.js";
import { GpuError } from "./error.js";
import { pipelinesOf } from "./pipelines.js";
import { GPU_READ_OPTIONS, type GpuReadOptions, type GpuTensor } from "./target.js";

// Bits of GPUBufferUsage, which is no global object in some runtimes.
const COPY_DST = 8;
const STORAGE = 128;

// The loader of modules is only bundled with the code for packed files.
const loadModule = async () => (await loadCoreFiles()).loadGpuModule();

/** Reads the raw bytes of a tensor. A packed tensor is decoded by the decoder that `wrap` makes from the model's. */
type Read = (meter: ProgressMeter, into: undefined, wrap: (cpu: Decoder) => Decoder) => Promise<Uint8Array<ArrayBuffer>>;

/**
 * Reads a tensor of a model. Throws an `InvalidInputError` for a buffer that the tensor does not fit into.
 */
export async function readToGpu(info: TensorInfo, options: GpuReadOptions, model: Model, read: Read): Promise<GpuTensor> {
  const { rows, signal, onProgress } = options ?? {};
  const { name, dtype } = info;
  let { shape, byteLength } = info;
  // For rows that the tensor does not have, reading them fails.
  if (rows) byteLength *= (rows[1]! - rows[0]!) / shape[0]!;
  const isPart = rows && (rows[0] !== 0 || byteLength !== info.byteLength);
  const place = placeOf({ name, byteLength }, options);
  let raw: Uint8Array;
  let gpu: GpuDecoder | undefined;
  if (isPart) {
    const tensor = await model.tensor(name, { rows, signal, onProgress } as TensorOptions);
    const { data } = tensor;
    ({ shape } = tensor);
    raw = new Uint8Array(data.buffer, data.byteOffset, byteLength);
  } else {
    const meter = new ProgressMeter(onProgress, { stage: "tensor", tensor: name });
    raw = await read(meter, undefined, (cpu) => (model.kind === "zstn" && byteLength > 0 ? (gpu = new GpuDecoder(place, cpu)) : cpu));
  }
  const decodedBy = gpu?.isDone ? "gpu" : "cpu";
  if (decodedBy === "cpu") await writeRaw(place, raw);
  return { name, dtype, shape, byteLength, offset: place.offset, decodedBy };
}

/** Checks the options, and returns the place of the tensor. */
function placeOf({ name, byteLength }: Pick<TensorInfo, "name" | "byteLength">, options: GpuReadOptions): Place {
  checkOptions("readToGpu()", options, GPU_READ_OPTIONS);
  const device = options?.device as GPUDevice | undefined;
  const buffer = options?.buffer as GPUBuffer | undefined;
  const offset = options?.offset ?? 0;
  if (!device?.queue || !device.limits) throw new InvalidInputError("`device` must be a GPUDevice, the one that created the buffer.");
  if (typeof buffer?.size !== "number") throw new InvalidInputError("`buffer` must be a GPUBuffer.");
  if ((buffer.usage & (STORAGE | COPY_DST)) !== (STORAGE | COPY_DST)) {
    throw new InvalidInputError("`buffer` must be created with the usages GPUBufferUsage.STORAGE and GPUBufferUsage.COPY_DST.");
  }
  if (buffer.mapState !== "unmapped") throw new InvalidInputError("`buffer` is mapped: call its method unmap() first.");
  if (!Number.isSafeInteger(offset) || offset < 0 || offset % 4 !== 0) {
    throw new InvalidInputError(`\`offset\` is ${String(offset)}; it must be a multiple of 4.`);
  }
  const neededBytes = Math.ceil(byteLength / 4) * 4;
  if (offset + neededBytes > buffer.size) {
    throw new InvalidInputError(`The tensor ${name} takes ${neededBytes} bytes from ${offset} on; \`buffer\` has ${buffer.size}.`);
  }
  return { device, buffer, offset, byteLength };
}

/** Writes a tensor that the CPU has decoded. Rejects with a `GpuError` if the device refuses it. */
async function writeRaw({ device, buffer, offset }: Place, raw: Uint8Array): Promise<void> {
  device.pushErrorScope("validation");
  write(device.queue, buffer, offset, raw);
  const refusal = await device.popErrorScope();
  if (refusal) throw new GpuError(`The GPU refused to write a tensor: ${refusal.message}`);
  // A device that was lost accepts every command.
  const lost = await Promise.race([device.lost, undefined]);
  if (lost) throw new GpuError(`The GPU was lost before a tensor was written: ${lost.message}`);
}

/** The decoder of one tensor, which decodes it on the GPU if that is possible, otherwise on the CPU. */
class GpuDecoder implements Decoder {
  /** Whether the GPU has decoded the tensor, so that no bytes are returned. */
  isDone = false;
  readonly #place: Place;
  readonly #cpu: Decoder;

  constructor(place: Place, cpu: Decoder) {
    this.#place = place;
    this.#cpu = cpu;
  }

  warmUp(): void {
    // Both are needed once the stored bytes have arrived, and their errors are reported then.
    for (const loading of [loadModule(), pipelinesOf(this.#place.device)]) loading.catch(() => {});
  }

  async decode(request: DecodeRequest): Promise<Uint8Array<ArrayBuffer>> {
    const { parts, reference, info, signal } = request;
    if (parts.length === 1 && !reference && !info.format) {
      const lists = await listsOf(request);
      const pipelines = await pipelinesOf(this.#place.device).catch(() => undefined);
      signal.throwIfAborted();
      if (lists && pipelines && fits(this.#place, lists)) this.isDone = await decode(this.#place, pipelines, lists, parts[0]!, signal);
    }
    // The CPU decodes a tensor that the GPU refuses, or reports the error.
    return this.isDone ? new Uint8Array(0) : this.#cpu.decode(request);
  }
}

/** Returns the lists of a tensor; `undefined` if the CPU has to decode it, or has to report an error in its stored bytes. */
async function listsOf({ instance, model, index, parts, signal }: DecodeRequest): Promise<ShaderLists | undefined> {
  const task = instance.call(() => model.frameTask(index));
  if (!task) return undefined;
  const core = await loadModule();
  signal.throwIfAborted();
  try {
    return core.call(({ shaderLists }) => shaderLists(task, parts[0]!));
  } catch {
    return undefined;
  }
}
