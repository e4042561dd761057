/** Opening with the WebAssembly core alone, and the outcomes of both readers in a form that can be compared. */

import { open } from "zstn";
import { describe, loadCore } from "../../../wasm/dist/core-files.js";

const HEAD_BYTES = 32768;

/** Everything about a model that opening says. */
const described = ({ kind, originalSize, metadata, tensors }) => ({ kind, originalSize, metadata: Object.entries(metadata), tensors });

const refused = ({ code, rule, offset, tensor, message }) => ({ refused: { code, rule, offset, tensor, message } });

/** What `open` does with these bytes. */
export async function openOutcome(bytes) {
  try {
    const model = await open(bytes, { config: false });
    try {
      return { ...described({ ...model, tensors: [...model.tensors.values()] }), head: headOf(await model.asSafetensorsBlob().slice(0, HEAD_BYTES).bytes(), model) };
    } finally {
      model.close();
    }
  } catch (error) {
    // A sentence about a file of another kind replaces the error of its first bytes.
    return refused(error.cause ?? error);
  }
}

/** What the core does with them. */
export async function coreOutcome(bytes) {
  const core = await loadCore();
  try {
    const opening = core.call(({ Opening }) => new Opening(bytes.length, bytes.subarray(0, HEAD_BYTES)));
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

/** The part of a file before the data of its first tensor. */
function headOf(bytes, { tensors }) {
  const first = [...tensors.values()][0];
  return Buffer.from(bytes.subarray(0, Math.min(HEAD_BYTES, first?.parts[0].offset ?? bytes.length))).toString("latin1");
}

/** Whether the core accepts the text of an index. */
export async function coreIndexOutcome(text) {
  const core = await loadCore();
  try {
    core.free(core.call(({ ShardIndex }) => new ShardIndex(text)));
    return { accepted: true };
  } catch (error) {
    return refused(error);
  }
}
