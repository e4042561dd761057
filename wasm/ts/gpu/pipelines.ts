/** Compiles the shaders, once for each device. */

import { GpuError } from "./error.js";
import { COPIES } from "./wgsl/copies.js";
import { HUFFMAN } from "./wgsl/huffman.js";
import { JOIN } from "./wgsl/join.js";
import { LISTS } from "./wgsl/lists.js";
import { RANS } from "./wgsl/rans.js";

/** The shaders, in the order in which they run. */
export const SHADERS = ["expand_codes", "decode_streams", "copy_segments", "decode_rans_streams", "join_planes"] as const;

export type Shader = (typeof SHADERS)[number];

/** The compiled shaders of a device. All have the same bindings. */
export interface Pipelines {
  bindings: GPUBindGroupLayout;
  shaders: Record<Shader, GPUComputePipeline>;
}

// Bits of GPUShaderStage, which is no global object in some runtimes.
const COMPUTE = 4;

const BINDINGS: readonly GPUBufferBindingType[] = ["read-only-storage", "read-only-storage", "storage", "storage", "storage", "storage"];

const compiled = /* @__PURE__ */ new WeakMap<GPUDevice, Promise<Pipelines>>();

/** Returns the shaders of a device. Rejects if the device cannot compile them; the next call tries again. */
export function pipelinesOf(device: GPUDevice): Promise<Pipelines> {
  const known = compiled.get(device);
  if (known) return known;
  const compiling = compile(device);
  compiled.set(device, compiling);
  compiling.catch(() => compiled.delete(device));
  return compiling;
}

async function compile(device: GPUDevice): Promise<Pipelines> {
  device.pushErrorScope("validation");
  const entries = BINDINGS.map((type, binding) => ({ binding, visibility: COMPUTE, buffer: { type } }));
  const bindings = device.createBindGroupLayout({ label: "zstn", entries });
  const layout = device.createPipelineLayout({ label: "zstn", bindGroupLayouts: [bindings] });
  const module = device.createShaderModule({ label: "zstn", code: LISTS + HUFFMAN + COPIES + RANS + JOIN });
  const refusal = await device.popErrorScope();
  if (refusal) throw new GpuError(`The GPU cannot compile the shaders: ${refusal.message}`);
  const pipelines = SHADERS.map(async (entryPoint) => [entryPoint, await device.createComputePipelineAsync({ label: `zstn ${entryPoint}`, layout, compute: { module, entryPoint } })] as const);
  return { bindings, shaders: Object.fromEntries(await Promise.all(pipelines)) as Pipelines["shaders"] };
}
