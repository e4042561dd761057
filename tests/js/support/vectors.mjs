/** The golden containers in tests/vectors, and what reading them by name must give. */

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const vectorPath = (folder, file) => fileURLToPath(new URL(`../../vectors/${folder}/${file}`, import.meta.url));
const manifest = (folder) => JSON.parse(readFileSync(vectorPath(folder, "manifest.json"), "utf8"));

export const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** Containers of type zstn that some writer meant to be valid. */
export const goodContainers = manifest("zstn").cases.filter(({ type }) => type === "zstn");

/** Deltas between checkpoints, and damaged ones of them. */
export const goodDeltas = manifest("zstn").cases.filter(({ type }) => type === "z4dm");
export const badDeltas = manifest("zstn-bad").cases.filter(({ type, verdict }) => type === "z4dm" && verdict === "must_reject");

/** Damaged containers that no reader may accept. */
export const badContainers = manifest("zstn-bad").cases.filter(({ type, verdict }) => type === "zstn" && verdict === "must_reject");

/** Whether single tensors can be read: the original is valid safetensors, and its tensors have frames of their own. */
export const readableByName = ({ official, layout }) => official.valid && layout.contiguous !== 0;
