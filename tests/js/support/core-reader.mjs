/** Opens files with the WebAssembly core alone, and returns the outcomes of both readers in a comparable form. */

import { open } from "zstn";
import { describe, loadCore, loadFormats } from "../../../wasm/dist/core-files.js";

const HEAD_BYTES = 32768;

/** Returns the properties of a model that are available after opening. */
const described = ({ kind, originalSize, metadata, tensors }) => ({ kind, originalSize, metadata: Object.entries(metadata), tensors });

const refused = ({ code, rule, offset, tensor, message }) => ({ refused: { code, rule, offset, tensor, message } });

/** Returns the outcome of `open` for these bytes. */
export async function openOutcome(bytes) {
  try {
    const model = await open(bytes, { config: false });
    try {
      return { ...described({ ...model, tensors: [...model.tensors.values()] }), head: headOf(await model.asSafetensorsBlob().slice(0, HEAD_BYTES).bytes(), model) };
    } finally {
      model.close();
    }
  } catch (error) {
    // If the file has another format, `open` throws a sentence about that format, and the original error is its cause.
    const { code, rule, offset, tensor } = error.cause ?? error;
    const message = error.cause ? error.message.replace(/( \(at byte 0\))?\.$/, " (at byte 0).") : error.message;
    return refused({ code, rule, offset, tensor, message });
  }
}

/** Returns the outcome of the core for these bytes. The module with all formats recognises them by itself. */
export async function coreOutcome(bytes) {
  const core = await loadFormats();
  try {
    const opening = core.call(({ Opening }) => Opening.named("", bytes.length, bytes.subarray(0, HEAD_BYTES)));
    for (;;) {
      const [offset, length] = core.call(() => opening.needs());
      if (length === undefined) break;
      core.call(() => opening.supply(offset, bytes.subarray(offset, offset + length)));
    }
    const catalog = core.call(() => opening.finish());
    const model = core.call(({ Assembly }) => new Assembly([catalog], undefined, undefined).finish(false));
    const outcome = describe(core, model);
    const head = headOf(core.call(() => model.unpacked().head()), outcome);
    model.free();
    return { ...described(outcome), head };
  } catch (error) {
    return refused(error);
  }
}

/** Returns the bytes of a file before the data of its first tensor. */
function headOf(bytes, { tensors }) {
  const first = [...tensors.values()][0];
  return Buffer.from(bytes.subarray(0, Math.min(HEAD_BYTES, first?.parts[0].offset ?? bytes.length))).toString("latin1");
}

/** Returns whether the core accepts the text of an index. */
export async function coreIndexOutcome(text) {
  const core = await loadCore();
  try {
    core.free(core.call(({ ShardIndex }) => new ShardIndex(text)));
    return { accepted: true };
  } catch (error) {
    return refused(error);
  }
}
