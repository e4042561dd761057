/** Opening the files of a model: one, or the shards that an index names. */

import type { ResolveSibling } from "./siblings.js";
import { openFile, readHead } from "./catalog.js";
import type { OpenedFile } from "./catalog.js";
import type { CoreInstance } from "./core.js";
import { InvalidInputError, LimitError, ZstnError } from "./errors.js";
import type { ModelInput } from "./model-input.js";
import type { ProgressMeter } from "./progress.js";
import { abortSiblingsOnFailure } from "./abort-siblings.js";
import type { ReadOptions, Source } from "./source/source.js";

/** How many shards are opened at the same time. */
const MAX_CONCURRENT_SHARDS = 8;

/** The longest index, in bytes. It lists names; 100 MB would be more than a million tensors. */
const MAX_INDEX_BYTES = 100_000_000;

/** What opening a model needs besides its files. */
export interface OpenContext {
  core: CoreInstance;
  /** Loads the core with all formats. */
  loadFormats: () => Promise<CoreInstance>;
  meter: ProgressMeter;
  options: ReadOptions;
  /** Returns the source of a file of the model. */
  openSource: (input: ModelInput) => Source;
  resolveSibling: ResolveSibling;
}

/** The opened files, in the order of the index, and the text of the index. */
export interface ModelFiles {
  files: OpenedFile[];
  shards: Uint8Array | undefined;
}

/** Opens the file behind `source`, or if it is an index, all files that it names. */
export async function openFiles(context: OpenContext, source: Source, sizeBytes: number): Promise<ModelFiles> {
  const { core, options, meter } = context;
  const head = await readHead(core, source, sizeBytes, options, meter);
  if (!core.call(({ ShardIndex }) => ShardIndex.recognise(head))) {
    return { files: [await openWith(context, source, sizeBytes, head)], shards: undefined };
  }
  const shards = await readText(source, sizeBytes, head, options, meter);
  const index = core.call(({ ShardIndex }) => new ShardIndex(shards));
  const names = core.call(() => index.files());
  core.free(index);
  return { files: await openShards(context, names), shards };
}

async function openWith({ core, loadFormats, options, meter }: OpenContext, source: Source, sizeBytes: number, head: Uint8Array): Promise<OpenedFile> {
  const able = core.call(({ Opening }) => Opening.isLeftOut(head)) ? await loadFormats() : core;
  return openFile(able, source, sizeBytes, head, options, meter);
}

async function readText(source: Source, sizeBytes: number, head: Uint8Array, options: ReadOptions, meter: ProgressMeter): Promise<Uint8Array> {
  if (head.byteLength === sizeBytes) return head;
  if (sizeBytes > MAX_INDEX_BYTES) throw new LimitError(`A text of ${sizeBytes} bytes is too long to be the index of a model.`);
  meter.expectMore(sizeBytes - head.byteLength);
  const rest = await source.read(head.byteLength, sizeBytes - head.byteLength, options);
  const text = new Uint8Array(sizeBytes);
  text.set(head);
  text.set(rest, head.byteLength);
  return text;
}

async function openShards(context: OpenContext, names: string[]): Promise<OpenedFile[]> {
  const files: OpenedFile[] = [];
  try {
    return await abortSiblingsOnFailure([context.options.signal], async (signal) => {
      const waiting = names.entries();
      // Each worker takes the next name as soon as it is free.
      const worker = async () => {
        for (const [number, name] of waiting) {
          files[number] = await openShard({ ...context, options: { ...context.options, signal } }, name);
        }
      };
      await Promise.all(Array.from({ length: Math.min(MAX_CONCURRENT_SHARDS, names.length) }, worker));
      return files;
    });
  } catch (error) {
    for (const file of files) file?.core.free(file.catalog);
    throw error;
  }
}

async function openShard(context: OpenContext, name: string): Promise<OpenedFile> {
  const { core, options, meter, openSource, resolveSibling } = context;
  const input = resolveSibling(name);
  if (input === undefined) {
    throw new InvalidInputError(
      `This is the index of a model in several files, and ${name} cannot be found from here. Open the index by its URL, or pass a function \`siblings\` that finds the files.`,
    );
  }
  try {
    const source = openSource(input);
    const sizeBytes = await source.size(options);
    const head = await readHead(core, source, sizeBytes, options, meter);
    return await openWith(context, source, sizeBytes, head);
  } catch (error) {
    if (error instanceof ZstnError) error.message = `In ${name}: ${error.message}`;
    throw error;
  }
}
