/** Coalescing: merges reads that begin together and are close together in the file into one request. */

import { checkOptions } from "../../known-options.js";
import type { OptionNames } from "../../known-options.js";
import { queueMacrotask } from "../macrotask.js";
import { mergeRanges } from "./merge-ranges.js";
import type { MergedRange } from "./merge-ranges.js";
import { markTransferable } from "../transferable.js";
import { atLeast } from "../option.js";
import { SharedRead } from "./shared-read.js";
import type { ReadOptions, Source } from "../source.js";

/** Options that control which reads are merged into one request. */
export interface CoalesceOptions {
  /** The largest gap between two reads that is fetched with them, in bytes. 64 KiB by default; 0 merges adjacent reads only. */
  maxGapBytes?: number;
  /**
   * The longest request that several reads are merged into, in bytes. 16 MiB by default. It takes that much memory in
   * addition to the results.
   */
  maxMergedBytes?: number;
}

/** On most connections, fetching a gap of this length takes less time than another request. */
const DEFAULT_MAX_GAP_BYTES = 64 << 10;
const DEFAULT_MAX_MERGED_BYTES = 16 << 20;

/**
 * Returns `source` with merged reads: reads that begin in the same turn of the event loop and are close together in the
 * file share one request. Each caller receives its own bytes and can abort independently; a merged request is aborted
 * when all its callers have aborted. `open` applies this to every source except bytes in memory. Throws an
 * `InvalidInputError` for an invalid option.
 */
export function withCoalescing(source: Source, options: CoalesceOptions = {}): Source {
  checkOptions("coalesce", options, { maxGapBytes: 1, maxMergedBytes: 1 } satisfies OptionNames<CoalesceOptions>);
  const maxGapBytes = atLeast("coalesce.maxGapBytes", options.maxGapBytes ?? DEFAULT_MAX_GAP_BYTES);
  const maxMergedBytes = atLeast("coalesce.maxMergedBytes", options.maxMergedBytes ?? DEFAULT_MAX_MERGED_BYTES);
  let waiting: SharedRead[] = [];
  const flush = () => {
    const reads = waiting.filter((read) => !read.settled);
    waiting = [];
    for (const range of mergeRanges(reads, maxGapBytes, maxMergedBytes)) void fetchRange(source, range);
  };
  return {
    size: (options) => source.size(options),
    read(offset, length, options: ReadOptions = {}) {
      const read = new SharedRead(offset, length, options);
      if (waiting.push(read) === 1) queueMacrotask(flush);
      return read.promise;
    },
  };
}

async function fetchRange(source: Source, { begin, end, reads }: MergedRange<SharedRead>): Promise<void> {
  const stop = new AbortController();
  let isRunning = true;
  for (const read of reads) {
    // The request continues while any caller still waits for its bytes.
    read.onSettled = () => {
      if (isRunning && reads.every(({ settled }) => settled)) stop.abort();
    };
  }
  let position = begin;
  const onBytes = (bytes: number) => {
    for (const read of reads) read.arrived(position, position + bytes);
    position += bytes;
  };
  try {
    const bytes = await source.read(begin, end - begin, { ...reads[0]!.options, signal: stop.signal, onBytes });
    isRunning = false;
    for (const read of reads) {
      // Each caller gets a copy, because a view would retain the bytes of the whole range.
      read.succeed(reads.length === 1 ? bytes : markTransferable(bytes.slice(read.begin - begin, read.end - begin)));
    }
  } catch (error) {
    isRunning = false;
    for (const read of reads) read.fail(error);
  }
}
