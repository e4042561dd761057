/**
 * Opens the file that a delta restores, if that is no safetensors file, inside the delta (docs/formats/zstn-delta.md 6).
 * It is loaded when the first such delta is opened with its base.
 */

import { describe } from "../core-description.js";
import { openedModel } from "../core-model.js";
import type { CoreInstance, CoreModel } from "../core.js";
import type { Decoding } from "../decode/worker-pool.js";
import { hasCode, type LimitError } from "../errors.js";
import type { Model } from "../model.js";
import type { ReadFile } from "../opened-file.js";
import { isRefusal, readOriginalHead } from "../original.js";
import { ProgressMeter } from "../progress.js";
import { RestoredFile } from "../restored-file.js";
import type { SafetensorsBlob } from "../safetensors-view/blob.js";
import type { ReadOptions, Source } from "../source/source.js";
import type { Traffic } from "../source/traffic.js";
import type { Attached, OpenFunctions } from "./attach.js";

/** Why values of a tensor that are in another file are not read. */
const EXTERNAL = "restore the model beside this file with `zstn unpack`, and open it";

/** The file that a delta restores, and its format. */
export interface RestoredByDelta {
  kind: string;
  file: SafetensorsBlob;
}

const restored = new WeakMap<Model, RestoredByDelta>();

/** Returns the file that a delta restores, which `openInside` has returned as a model; `undefined` for other models. */
export const restoredBy = (model: Model): RestoredByDelta | undefined => restored.get(model);

/**
 * Attaches `base` to a delta that restores a file of another format than safetensors, and opens that file. Returns the
 * delta, whose tensors are the entries of its virtual header, if the restored file is refused or was packed as bytes.
 * The result closes the delta, and the base too if `ownsBase` is set. Rejects with an `InvalidInputError` for a base
 * in several files that are not safetensors, and with a `WrongBaseError` for another base than that of the delta.
 */
export async function openInside(functions: OpenFunctions, core: CoreInstance, delta: Model, deltaModel: CoreModel, decoding: Decoding, base: Attached, ownsBase: boolean): Promise<Model> {
  const { decoder } = decoding;
  const referenced = await referencedBase(functions, core, deltaModel, { decoder }, base, ownsBase);
  try {
    await delta.attach([referenced], [referenced]);
  } catch (error) {
    referenced.close();
    throw error;
  }
  const kind = core.call(() => deltaModel.restoredKind()!);
  const file = delta.asSafetensorsBlob();
  const model = (kind === "bytes" ? undefined : await openRestored(functions, delta, file, kind, { decoder })) ?? delta;
  restored.set(model, { kind, file });
  return model;
}

/** Returns the class `Model`. Importing it here would make bundlers divide the code that is loaded at once. */
const classOf = (model: Model): typeof Model => model.constructor as typeof Model;

/** Returns the model of the bytes that a delta refers to in the file that the base is or restores. */
async function referencedBase(functions: OpenFunctions, core: CoreInstance, delta: CoreModel, decoding: Decoding, { model: base, opened }: Attached, ownsBase: boolean): Promise<Model> {
  const file = await fileOf(functions, core, base, opened.files, decoding);
  const { sizeBytes } = file;
  const close = () => {
    file.close();
    if (ownsBase) base.close();
  };
  try {
    const model = core.call(({ Assembly }) => new Assembly([delta.referencedBase(sizeBytes)!], undefined, undefined).finish(false));
    const free = model.free.bind(model);
    model.free = () => {
      free();
      close();
    };
    const files = [{ source: file.source, sizeBytes, head: new Uint8Array(0), supplied: [] }];
    return new (classOf(base))({ ...openedModel(core, model, files), isReferenced: true }, describe(core, model), base.stats as Traffic, decoding);
  } catch (error) {
    file.close();
    throw error;
  }
}

/** The file that a base is or restores. `close` frees the memory for restoring it. */
interface BaseFile {
  source: Source;
  sizeBytes: number;
  close(): void;
}

async function fileOf({ catalogIn, originalOf }: OpenFunctions, core: CoreInstance, base: Model, files: readonly ReadFile[], decoding: Decoding): Promise<BaseFile> {
  const [file, another] = files as [ReadFile, ReadFile?];
  const close = () => {};
  if (!another) {
    const { source, original, sizeBytes } = file;
    // The base was opened inside a packed file or a delta.
    if (original) return { source, sizeBytes: original.size(), close };
    if (base.kind !== "zstn" && base.kind !== "z4dm") return { source, sizeBytes, close };
    const catalog = catalogIn(core, file);
    try {
      if (core.call(() => catalog.originalKind())) {
        const unpacked = new RestoredFile({ ...file, core, catalog }, false, { full: false, decoding: async () => decoding });
        return { source: unpacked, sizeBytes: unpacked.size(), close: () => unpacked.free() };
      }
    } finally {
      core.free(catalog);
    }
  }
  const { source, sizeBytes, head } = await originalOf(base, core);
  // Several files are used as the data of one file (docs/formats/zstn-delta.md 8).
  const begin = head?.length ?? 0;
  const size = () => sizeBytes - begin;
  return { source: { size, read: (offset, length, options) => source.read(begin + offset, length, options) }, sizeBytes: size(), close };
}

/** Opens the file that a delta restores; `undefined` if it is refused although it was restored without an error. */
async function openRestored({ assemble, openFile }: OpenFunctions, delta: Model, file: SafetensorsBlob, kind: string, decoding: Decoding): Promise<Model | undefined> {
  let failure: unknown;
  const source: Source = {
    size: () => file.size,
    async read(offset, length, { signal, onBytes } = {}) {
      const bytes = await file.slice(offset, offset + length).bytes(signal && { signal }).catch((error: unknown) => {
        if (!hasCode<LimitError>(error, "limit")) failure ??= error;
        throw error;
      });
      onBytes?.(length);
      return bytes;
    },
  };
  const options: ReadOptions = {};
  // The delta reports its own progress.
  const meter = new ProgressMeter(undefined, { stage: "open" });
  try {
    const head = await readOriginalHead(source, file.size, options);
    if (!head) return undefined;
    const opened = await openFile(source, file.size, head, `original.${kind}`, options, meter);
    const { core, catalog } = opened;
    const others = core.call(() => catalog.externalFiles?.() ?? []);
    if (others.length > 0) core.call(() => catalog.refuseExternal(Uint32Array.from(others.keys()), EXTERNAL));
    let isOpen = false;
    // If the file is refused, the delta remains open.
    const original = { size: () => file.size, close: () => isOpen && delta.close() };
    const files = [{ ...opened, sizeBytes: delta.size, original }];
    const [restored, description] = await assemble(files, undefined, undefined, false, options, meter);
    isOpen = true;
    return new (classOf(delta))(restored, description, delta.stats as Traffic, decoding);
  } catch (error) {
    if (failure === undefined && isRefusal(error)) return undefined;
    throw failure ?? error;
  }
}
