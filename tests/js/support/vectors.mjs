/** The golden containers in tests/vectors, and the expected results of reading them by name. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { ZstnError } from "zstn";

export const vectorPath = (folder, file) => fileURLToPath(new URL(`../../vectors/${folder}/${file}`, import.meta.url));
const manifest = (folder) => JSON.parse(readFileSync(vectorPath(folder, "manifest.json"), "utf8"));

export const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** The containers of type zstn that a writer meant to be valid. */
export const goodContainers = manifest("zstn").cases.filter(({ type }) => type === "zstn");

/** Deltas between checkpoints, and damaged deltas. */
export const goodDeltas = manifest("zstn").cases.filter(({ type }) => type === "z4dm");
export const badDeltas = manifest("zstn-bad").cases.filter(({ type, verdict }) => type === "z4dm" && verdict === "must_reject");

/** Deltas between buffers, and damaged deltas. */
export const goodBufferDeltas = manifest("zstn").cases.filter(({ type }) => type === "z4delta");
export const badBufferDeltas = manifest("zstn-bad").cases.filter(({ type, verdict }) => type === "z4delta" && verdict === "must_reject");

/** Damaged containers that no reader may accept when it reads tensors by name. */
export const badContainers = manifest("zstn-bad").cases.filter(({ type, verdict, opened }) => type === "zstn" && (verdict === "must_reject" || opened));

/** Returns whether single tensors can be read: the original is valid safetensors, and its tensors have their own frames. */
export const readableByName = ({ official, layout }) => official.valid && layout.contiguous !== 0;

/** zTensor files, each with a safetensors file of the same tensors, and files that no reader may accept. */
export const goodZTensors = manifest("ztensor").files;
export const badZTensors = manifest("ztensor-bad").files;

/** Files of a foreign format (`"gguf"`, `"npy"`) with the SHA-256 of their values, and files that no reader may accept. */
export const goodForeign = (format) => manifest(format).files;
/** Returns whether a file is the first of several GGUF files of a model, which opens them all if they are found. */
export const isFirstOfSet = (file) => /-00001-of-\d{5}\.gguf$/.test(file);
export const badForeign = (format) => manifest(`${format}-bad`).files;

/** Gauss files with the files that they restore, and files that no reader may accept. */
export const goodGauss = manifest("gauss").vectors;
export const badGauss = manifest("gauss-bad").files;

/** Models in the compressed-tensors formats with their dense weights, and damaged models. */
export const goodCompressed = manifest("compressed-tensors").vectors;
export const badCompressed = manifest("compressed-tensors-bad").vectors;

/** Frames by name, and damaged frames that no reader may accept. */
export const goodFrames = Object.entries(manifest("z4ai").cases);
export const badFrames = Object.entries(manifest("z4ai-bad").cases);

/** The codes of errors about files. */
export const REFUSALS = ["malformed", "unsupported", "limit", "wrong_base"];

/** The rules whose violation means that the base is another one. */
const WRONG_BASE_RULES = ["delta.reference", "delta.base_tensor"];

/** Checks that an error is a statement about the file, not about a crashed decoder, a broken source or a wrong call. */
export function isRefusal(error) {
  assert.ok(error instanceof ZstnError, String(error));
  assert.ok(REFUSALS.includes(error.code), error.code);
  assert.equal(error.cause, undefined, "the decoder did not crash");
  assert.match(error.message, /\w{2,}.* .*\w{2,}/s, "a sentence");
  return true;
}

/**
 * Returns a check for the error that an entry of a manifest expects: `rule` is the rule that the file breaks, and
 * `error` is the error code if it does not follow from the rule. If `open()`, which has to recognise the format first, reports
 * another error, that error is in `opened`.
 */
export function refusalOf({ opened, ...decoded }) {
  const { rule, error: code = WRONG_BASE_RULES.includes(rule) ? "wrong_base" : "malformed" } = opened ?? decoded;
  return (error) => {
    isRefusal(error);
    assert.deepEqual({ code: error.code, rule: error.rule }, { code, rule }, error.message);
    return true;
  };
}
