/** The files of a model: one, or the shards that an index names. */

import type { Beside } from "./beside.js";
import { openFile, readHead } from "./catalog.js";
import type { OpenedFile } from "./catalog.js";
import type { Core } from "./core.js";
import { InvalidInputError, LimitError, ZstnError } from "./errors.js";
import type { Openable } from "./open.js";
import type { ProgressMeter } from "./progress.js";
import { guarded } from "./rejection.js";
import { sideBySide } from "./side-by-side.js";
import type { ReadOptions, Source } from "./source/source.js";

/** Shards opened at the same time. */
const MOST_AT_ONCE = 8;

/** An index lists names: 100 MB of it would be a million tensors and more. In bytes. */
const INDEX_BYTES = 100_000_000;

/** What opening works with. */
export interface Reading {
  core: Core;
  /** The core with all formats. */
  loadFormats: () => Promise<Core>;
  meter: ProgressMeter;
  options: ReadOptions;
  /** The source behind a file of the model. */
  openSource: (openable: Openable) => Source;
  beside: Beside;
}

/** The files, in the order of the index if there is one, and its text. */
export interface ModelFiles {
  files: OpenedFile[];
  shards: Uint8Array | undefined;
}

/** Opens the file behind `source`, or all that it names if it is an index. */
export async function openFiles(reading: Reading, source: Source, sizeBytes: number): Promise<ModelFiles> {
  const { core, options, meter } = reading;
  const head = await readHead(core, source, sizeBytes, options, meter);
  if (!core.ShardIndex.recognise(head)) {
    return { files: [await openWith(reading, source, sizeBytes, head)], shards: undefined };
  }
  const shards = await readText(source, sizeBytes, head, options, meter);
  const index = guarded(() => new core.ShardIndex(shards));
  const names = guarded(() => index.files());
  index.free();
  return { files: await openShards(reading, names), shards };
}

async function openWith({ core, loadFormats, options, meter }: Reading, source: Source, sizeBytes: number, head: Uint8Array): Promise<OpenedFile> {
  const able = core.Opening.isLeftOut(head) ? await loadFormats() : core;
  return openFile(able, source, sizeBytes, head, options, meter);
}

async function readText(source: Source, sizeBytes: number, head: Uint8Array, options: ReadOptions, meter: ProgressMeter): Promise<Uint8Array> {
  if (head.byteLength === sizeBytes) return head;
  if (sizeBytes > INDEX_BYTES) throw new LimitError(`A text of ${sizeBytes} bytes is too long for the index of a model's files.`);
  meter.expectMore(sizeBytes - head.byteLength);
  const rest = await source.read(head.byteLength, sizeBytes - head.byteLength, options);
  const text = new Uint8Array(sizeBytes);
  text.set(head);
  text.set(rest, head.byteLength);
  return text;
}

async function openShards(reading: Reading, names: string[]): Promise<OpenedFile[]> {
  const files: OpenedFile[] = [];
  try {
    return await sideBySide(reading.options.signal, async (signal) => {
      const waiting = names.entries();
      // Each of the workers takes the next name as soon as it is free.
      const worker = async () => {
        for (const [number, name] of waiting) {
          files[number] = await openShard({ ...reading, options: { ...reading.options, signal } }, name);
        }
      };
      await Promise.all(Array.from({ length: Math.min(MOST_AT_ONCE, names.length) }, worker));
      return files;
    });
  } catch (error) {
    for (const file of files) file?.catalog.free();
    throw error;
  }
}

async function openShard(reading: Reading, name: string): Promise<OpenedFile> {
  const { core, options, meter, openSource, beside } = reading;
  const openable = beside(name);
  if (openable === undefined) {
    throw new InvalidInputError(
      `This is the index of a model in several files, and there is no way from here to ${name}. Open it by its address, or pass a function \`beside\` that finds the files.`,
    );
  }
  try {
    const source = openSource(openable);
    const sizeBytes = await source.size(options);
    const head = await readHead(core, source, sizeBytes, options, meter);
    return await openWith(reading, source, sizeBytes, head);
  } catch (error) {
    if (error instanceof ZstnError) error.message = `In ${name}: ${error.message}`;
    throw error;
  }
}
