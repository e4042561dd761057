/** Opens the files of a model: one file, or the shards that an index names. */

import type { ResolveSibling } from "./siblings.js";
import { loadCoreFiles } from "./core-files-loader.js";
import type { Decoding } from "./decode/worker-pool.js";
import { LimitError, ZstnError } from "./errors.js";
import type { ModelInput } from "./model-input.js";
import { isPlain } from "./opened-file.js";
import type { OpenedFile, ReadShards } from "./opened-file.js";
import type { ProgressMeter } from "./progress.js";
import { HEAD_BYTES } from "./limits.js";
import { described, isPacked } from "./safetensors/file-kind.js";
import { openPlainFile } from "./safetensors/plain-file.js";
import { isShardIndex, parseShardIndex } from "./safetensors/shard-index.js";
import type { ShardIndex } from "./safetensors/shard-index.js";
import { abortSiblingsOnFailure } from "./abort-siblings.js";
import type { ReadOptions, Source } from "./source/source.js";

/** The maximum number of shards that are opened concurrently. */
const MAX_CONCURRENT_SHARDS = 8;

/** The longest accepted index, in bytes. It lists tensor names; 100 MB would be more than a million tensors. */
const MAX_INDEX_BYTES = 100_000_000;

/** The options and functions that all steps of opening a model share. */
export interface OpenContext {
  meter: ProgressMeter;
  options: ReadOptions;
  /** Returns the source of another file of the model: of the shard `name`, if it is given. */
  openSource: (input: ModelInput, name?: string) => Promise<Source>;
  resolveSibling: ResolveSibling;
  /** Whether reads compare digests of the decoded tensors. */
  full: boolean;
  /** Returns the decoder of the model. */
  decoding: () => Promise<Decoding>;
}

/** The opened files, in the order of the index, and the index if there is one. */
export interface ModelFiles {
  files: OpenedFile[];
  shards?: ReadShards & { index: ShardIndex };
}

/** Opens the file that `source` reads or, if that is an index, all files that the index names. */
export async function openFiles(context: OpenContext, source: Source, sizeBytes: number, name: string): Promise<ModelFiles> {
  const { options, meter } = context;
  const head = await readHead(context, source, sizeBytes);
  if (!isShardIndex(head)) return { files: await openFile(context, source, sizeBytes, head, name) };
  const text = await readText(source, sizeBytes, head, options, meter);
  const index = parseShardIndex(text);
  return { files: await openShards(context, index.files), shards: { source, text, index } };
}

/** Reads the first bytes of a file, enough to recognise its format. */
async function readHead({ options, meter }: OpenContext, source: Source, sizeBytes: number): Promise<Uint8Array> {
  const headBytes = Math.min(sizeBytes, HEAD_BYTES);
  meter.expectMore(headBytes);
  return headBytes > 0 ? source.read(0, headBytes, options) : new Uint8Array(0);
}

/** Opens a file, and the other files that contain values of its tensors, which follow it in the result. */
async function openFile(context: OpenContext, source: Source, sizeBytes: number, head: Uint8Array, name: string): Promise<OpenedFile[]> {
  if (!(await isPacked(head, name))) {
    try {
      return [await openPlainFile(source, sizeBytes, head, context.options, context.meter)];
    } catch (error) {
      throw await described(error, head);
    }
  }
  return (await loadCoreFiles()).openCoreFiles(context, source, sizeBytes, head, name);
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
      // Each of these loops takes the next name as soon as it is free.
      const worker = async () => {
        for (const [number, name] of waiting) {
          files[number] = await openShard({ ...context, options: { ...context.options, signal } }, name);
        }
      };
      await Promise.all(Array.from({ length: Math.min(MAX_CONCURRENT_SHARDS, names.length) }, worker));
      return files;
    });
  } catch (error) {
    for (const file of files) if (file && !isPlain(file)) file.core.free(file.catalog);
    throw error;
  }
}

async function openShard(context: OpenContext, name: string): Promise<OpenedFile> {
  const { options, openSource, resolveSibling } = context;
  const input = resolveSibling(name);
  try {
    const source = await (input && name.endsWith(".safetensors") ? openSource(input, name) : (await loadCoreFiles()).sourceOfShard(context, name, input));
    const sizeBytes = await source.size(options);
    const head = await readHead(context, source, sizeBytes);
    return Object.assign((await openFile(context, source, sizeBytes, head, name))[0]!, { name });
  } catch (error) {
    // The failure of another file aborts this one, and names that file.
    if (error instanceof ZstnError && !options.signal?.aborted) error.message = `In ${name}: ${error.message}`;
    throw error;
  }
}
