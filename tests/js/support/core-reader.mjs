/** Opens files with the WebAssembly core alone, and returns the outcomes of both readers in a comparable form. */

import assert from "node:assert/strict";
import { open } from "zstn";
import { loadFormats } from "../../../wasm/dist/core-loaders.js";
import { describe } from "../../../wasm/dist/core-description.js";
import { ComparedSource } from "../../../wasm/dist/mixed-versions.js";
import { ProgressMeter } from "../../../wasm/dist/progress.js";
import { BytesSource } from "../../../wasm/dist/source/bytes.js";
import { statisticsRecord } from "../../../wasm/dist/statistics.js";
import { openPackedFile } from "../../../wasm/dist/zstn/packed-file.js";
import { PackedModel } from "../../../wasm/dist/zstn/packed-model.js";

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
  return withCoreModel(bytes, (core, model) => {
    const outcome = describe(core, model);
    return { ...described(outcome), head: headOf(core.call(() => model.unpacked().head()), outcome) };
  });
}

/** Returns what the core knows about a packed file, or that it refuses the file. */
export function corePackedOutcome(bytes) {
  return withCoreModel(bytes, (core, model) => {
    const outcome = describe(core, model);
    return core.call(() => ({ ...described(outcome), ...packedProperties(model) }));
  });
}

/** Returns the same for the reader in TypeScript: `undefined` for a file that it leaves to the core. */
export async function packedOutcome(bytes) {
  const source = new BytesSource(bytes);
  const meter = new ProgressMeter(undefined, { stage: "open" });
  const file = await openPackedFile(new ComparedSource(source), source, bytes.length, bytes.subarray(0, HEAD_BYTES), "", {}, meter, []);
  if (!file) return undefined;
  const model = new PackedModel([file], undefined, () => assert.fail("listing decodes nothing"));
  const description = model.describe();
  return { ...described(description), ...packedProperties(model, description.tensors) };
}

/** Returns the properties of a packed model besides its description. `tensors` are not needed for a model in the core. */
function packedProperties(model, tensors) {
  const layout = model.unpacked();
  const end = layout.sizeBytes();
  const [head, statistics] = [layout.head(), statisticsRecord(model, 0, tensors)].map((bytes) => bytes && Buffer.from(bytes).toString("latin1"));
  return { head, statistics, end, isOriginal: layout.isOriginal(), order: [...layout.tensors(0, end)] };
}

async function withCoreModel(bytes, work) {
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
    const outcome = work(core, model);
    model.free();
    return outcome;
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
  const core = await loadFormats();
  try {
    core.free(core.call(({ ShardIndex }) => new ShardIndex(text)));
    return { accepted: true };
  } catch (error) {
    return refused(error);
  }
}
