/**
 * The base of a delta that is computed from other checkpoints when it is read (docs/formats/zstn-delta.md 9). It is loaded
 * when the first such delta is opened.
 */

import type { CoreComputedBase, CoreInstance, CoreModel } from "../core.js";
import type { Decoding } from "../decode/worker-pool.js";
import type { Description } from "../description.js";
import type { Model } from "../model.js";
import type { CoreFile } from "../opened-file.js";
import type { OpenedModel } from "../opened-model.js";
import { ProgressMeter } from "../progress.js";
import { VirtualFile } from "../safetensors-view/virtual-file.js";
import type { ReadOptions } from "../source/source.js";
import type { Stats, Traffic } from "../source/traffic.js";
import type { Attached, OpenFunctions } from "./attach.js";
import type { OriginalFile } from "./original-file.js";

/** The number of bytes that are read first to recognise a format. */
const HEAD_BYTES = 32768;

/** The number of bytes of a tensor that are computed at a time. */
const PIECE_BYTES = 1 << 20;

/** A model with such a base: the delta, its model in the core, and the number of its files. */
export interface Merged {
  delta: Model;
  model: CoreModel;
  fileCount: number;
}

/**
 * Opens the base of `merged`, computed from `sources`. Closing it closes the sources in `owned`. Rejects with an
 * `InvalidInputError` for a source that is not safetensors, plain or packed, and with a `WrongBaseError` if the number of
 * sources, or the names, dtypes or lengths of their tensors, do not match the delta.
 */
export async function computedBase({ assemble, openFile, originalOf }: OpenFunctions, core: CoreInstance, merged: Merged, sources: readonly Attached[], owned: readonly Model[], decoding: Decoding | undefined): Promise<Omit<Attached, "closed">> {
  const { delta, model, fileCount } = merged;
  const originals = await Promise.all(sources.map((source) => originalOf(source.model, core)));
  const heads = originals.map(({ head }, number) => head ?? headOf(sources[number]!));
  const sizes = Float64Array.from(originals, ({ sizeBytes }) => sizeBytes);
  const bases: CoreComputedBase[] = [];
  const free = () => bases.forEach((base) => core.free(base));
  try {
    for (let number = 0; number < fileCount; number++) {
      const base = core.call(() => model.computedBase(number, heads, sizes));
      if (base) bases.push(base);
    }
    const options: ReadOptions = {};
    const meter = new ProgressMeter(undefined, { stage: "open" });
    const files: CoreFile[] = [];
    for (const base of bases) {
      const file = new ComputedFile(core, base, originals);
      const sizeBytes = file.size();
      const head = await file.read(0, Math.min(sizeBytes, HEAD_BYTES), options);
      files.push(await openFile(file, sizeBytes, head, "", options, meter));
    }
    const [opened, description] = await assemble(files, undefined, undefined, false, options, meter);
    const stats = total(sources.map(({ model }) => model.stats)) as Traffic;
    const inDecoding = decoding && { decoder: decoding.decoder };
    const base = new (classOf(delta))(opened, description, stats, inDecoding);
    const freeModel = opened.model.free.bind(opened.model);
    opened.model.free = () => {
      freeModel();
      free();
      for (const { model } of sources) if (owned.includes(model)) model.close();
    };
    return { model: base, opened };
  } catch (error) {
    free();
    throw error;
  }
}

type ModelClass = new (opened: OpenedModel, description: Description, traffic: Traffic, decoding: Decoding | undefined) => Model;

/** Returns the class `Model`. Importing it here would make bundlers divide the code that is loaded at once. */
const classOf = (model: Model): ModelClass => model.constructor as ModelClass;

/** Returns the bytes of a source's safetensors file before its data, which are in memory. */
function headOf({ opened: { instance, model } }: Attached): Uint8Array {
  const unpacked = instance.call(() => model.unpacked());
  const head = instance.call(() => unpacked.head());
  instance.free(unpacked);
  return head;
}

/** The file of a computed base. */
class ComputedFile extends VirtualFile {
  constructor(core: CoreInstance, base: CoreComputedBase, originals: readonly OriginalFile[]) {
    super(core, base, async (tensor, begin, end, signal) => {
      const [from, to, ...places] = core.call(() => base.places(tensor, begin, end)) as unknown as [number, number, ...number[]];
      const parts = await Promise.all(triples(places).map(([source, at, length]) => originals[source]!.source.read(at, length, signal && { signal })));
      signal?.throwIfAborted();
      const out = new Uint8Array(to - from);
      for (let at = 0; at < out.byteLength; at += PIECE_BYTES) {
        const end = Math.min(at + PIECE_BYTES, out.byteLength);
        // Elements of a source may have another length.
        const place = (part: Uint8Array, at: number) => (at * part.byteLength) / out.byteLength;
        const pieces = parts.map((part) => part.subarray(place(part, at), place(part, end)));
        out.set(core.call(() => base.compute(tensor, pieces, end - at)), at);
      }
      return out.subarray(begin - from, end - from);
    });
  }

  override async read(offset: number, length: number, options: ReadOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    options.signal?.throwIfAborted(); // The core of a closed model has been freed and must not be called.
    return super.read(offset, length, options);
  }
}

function triples(numbers: readonly number[]): [number, number, number][] {
  return Array.from({ length: numbers.length / 3 }, (_, i) => [numbers[3 * i]!, numbers[3 * i + 1]!, numbers[3 * i + 2]!]);
}

/** Returns the sums of counters, which remain live. */
function total(all: readonly Stats[]): Stats {
  const sums = {};
  for (const name of Object.keys(all[0]!) as (keyof Stats)[]) {
    Object.defineProperty(sums, name, { enumerable: true, get: () => all.reduce((sum, stats) => sum + stats[name], 0) });
  }
  return sums as Stats;
}
