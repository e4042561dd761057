/** The code blocks of a document, and the files that they use. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pack } from "./cli.mjs";
import { safetensors } from "./checkpoint.mjs";

/** Returns the code blocks of the given language, in order. */
export function blocks(path, language) {
  const text = readFileSync(fileURLToPath(new URL(`../../../${path}`, import.meta.url)), "utf8");
  return Array.from(text.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, "gms")), ([, code]) => code);
}

/** Returns the block that contains the given line. Throws unless there is exactly one. */
export function block(path, language, line) {
  const found = blocks(path, language).filter((code) => code.includes(line));
  if (found.length !== 1) throw new Error(`${path} has ${found.length} ${language} blocks with ${line}`);
  return found[0];
}

/** The values of `wte.weight`. */
export const WEIGHTS = Uint16Array.from({ length: 6000 }, (_, i) => 0x3c00 + ((i * 7919) % 512));

/** Writes model.safetensors and tuned.safetensors, and optionally the packed files. */
export async function writeModels(folder, { packed = true } = {}) {
  const bf16 = (data, shape) => ({ dtype: "BF16", shape, bytes: new Uint8Array(data.buffer) });
  const model = (weights) => safetensors({ "wte.weight": bf16(weights, [1500, 4]), "transformer.wte.weight": bf16(WEIGHTS.map((bits) => bits ^ 1), [100, 60]) });
  const tuned = WEIGHTS.slice();
  tuned[17] ^= 3;
  writeFileSync(join(folder, "model.safetensors"), model(WEIGHTS));
  writeFileSync(join(folder, "tuned.safetensors"), model(tuned));
  if (!packed) return;
  await pack(join(folder, "model.safetensors"), join(folder, "model.zstn"));
  await pack(join(folder, "tuned.safetensors"), join(folder, "tuned.z4dm"), { base: join(folder, "model.safetensors") });
}
