/** The golden containers in tests/vectors, and what reading them by name must give. */

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { planeMethods } from "./frame.mjs";

export const vectorPath = (folder, file) => fileURLToPath(new URL(`../../vectors/${folder}/${file}`, import.meta.url));
const manifest = (folder) => JSON.parse(readFileSync(vectorPath(folder, "manifest.json"), "utf8"));

/** Store, zstd and zstd blocks; the rANS methods 3 to 5 are not read yet. */
const METHODS_READ = new Set([0, 1, 2]);

export const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** Containers of type zstn that some writer meant to be valid. */
export const goodContainers = manifest("zstn").cases.filter(({ type }) => type === "zstn");

/** Damaged containers that no reader may accept. */
export const badContainers = manifest("zstn-bad").cases.filter(({ type, verdict }) => type === "zstn" && verdict === "must_reject");

/** Whether single tensors can be read: the original is valid safetensors, and its tensors have frames of their own. */
export const readableByName = ({ official, layout }) => official.valid && layout.contiguous !== 0;

/** Whether the frame that holds a tensor uses only what this version reads. */
export function frameIsRead(container, tensor) {
  const stored = tensor.kind === "REF" ? container.tensors[tensor.ref_index] : tensor;
  if (stored.frame_magic !== "Z4AI") return false;
  const file = readFileSync(vectorPath("zstn", container.container.file));
  const frame = file.subarray(stored.frame_offset, stored.frame_offset + stored.frame_len);
  return planeMethods(frame).every((method) => METHODS_READ.has(method));
}
