/** The interface of the WebAssembly module that makes lists for shaders. Only pages that decode on a GPU load it. */

/** The lists of a tensor, and the bytes of the tensor that only the CPU can decode. */
export type ShaderLists = [lists: Uint32Array<ArrayBuffer>, decoded: Uint8Array<ArrayBuffer>];

/** The functions that the module exports. */
export interface GpuCore {
  /**
   * Returns the lists for a tensor from the task of its frame (`CoreModel.frameTask`) and its stored bytes; `undefined` if the CPU has
   * to decode it. Compares the checksum of the stored bytes.
   */
  shaderLists(task: Uint8Array, stored: Uint8Array): ShaderLists | undefined;
}
