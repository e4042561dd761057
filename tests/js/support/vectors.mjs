/** The golden containers in tests/vectors, and what reading them by name must give. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { ZstnError } from "zstn";

export const vectorPath = (folder, file) => fileURLToPath(new URL(`../../vectors/${folder}/${file}`, import.meta.url));
const manifest = (folder) => JSON.parse(readFileSync(vectorPath(folder, "manifest.json"), "utf8"));

export const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** Containers of type zstn that some writer meant to be valid. */
export const goodContainers = manifest("zstn").cases.filter(({ type }) => type === "zstn");

/** Deltas between checkpoints, and damaged ones of them. */
export const goodDeltas = manifest("zstn").cases.filter(({ type }) => type === "z4dm");
export const badDeltas = manifest("zstn-bad").cases.filter(({ type, verdict }) => type === "z4dm" && verdict === "must_reject");

/** Differences between buffers, and damaged ones of them. */
export const goodBufferDeltas = manifest("zstn").cases.filter(({ type }) => type === "z4delta");
export const badBufferDeltas = manifest("zstn-bad").cases.filter(({ type, verdict }) => type === "z4delta" && verdict === "must_reject");

/** Damaged containers that no reader by name may accept. */
export const badContainers = manifest("zstn-bad").cases.filter(({ type, verdict, opened }) => type === "zstn" && (verdict === "must_reject" || opened));

/** Whether single tensors can be read: the original is valid safetensors, and its tensors have frames of their own. */
export const readableByName = ({ official, layout }) => official.valid && layout.contiguous !== 0;

/** zTensor files with the safetensors file of the same tensors, and those that no reader may accept. */
export const goodZTensors = manifest("ztensor").files;
export const badZTensors = manifest("ztensor-bad").files;

/** Gauss files with what they restore, and those that no reader may accept. */
export const goodGauss = manifest("gauss").vectors;
export const badGauss = manifest("gauss-bad").files;

/** Models in the formats of compressed-tensors with their dense weights, and damaged ones. */
export const goodCompressed = manifest("compressed-tensors").vectors;
export const badCompressed = manifest("compressed-tensors-bad").vectors;

/** Frames by name, and the damaged ones that no reader may accept. */
export const goodFrames = Object.entries(manifest("z4ai").cases);
export const badFrames = Object.entries(manifest("z4ai-bad").cases);

/** An answer about the file; not about a crashed decoder, a broken source or a wrong call. */
export function isRefusal(error) {
  assert.ok(error instanceof ZstnError, String(error));
  assert.ok(["malformed", "unsupported", "limit"].includes(error.code), error.code);
  assert.equal(error.cause, undefined, "the decoder did not crash");
  assert.match(error.message, /\w{2,}.* .*\w{2,}/s, "a sentence");
  return true;
}

/**
 * Checks for the refusal that an entry of a manifest names: `rule` is the rule that the file breaks, `error` the kind of the error where
 * it is not "malformed". Where `open()`, which has to recognise the format first, reports something else, that is in `opened`.
 */
export function refusalOf({ opened, ...decoded }) {
  const { rule, error: code = "malformed" } = opened ?? decoded;
  return (error) => {
    isRefusal(error);
    assert.deepEqual({ code: error.code, rule: error.rule }, { code, rule }, error.message);
    return true;
  };
}
