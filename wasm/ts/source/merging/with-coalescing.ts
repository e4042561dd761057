/** Coalescing: reads that begin together and lie close together become one request. */

import { checkOptions } from "../../known-options.js";
import type { OptionNames } from "../../known-options.js";
import { queueMacrotask } from "../macrotask.js";
import { mergeRanges } from "./merge-ranges.js";
import type { MergedRange } from "./merge-ranges.js";
import { markTransferable } from "../ownership.js";
import { atLeast } from "../option.js";
import { SharedRead } from "./shared-read.js";
import type { ReadOptions, Source } from "../source.js";

/** Which reads become one request. */
export interface CoalesceOptions {
  /** The largest gap between two reads that is fetched as well, in bytes. 64 KiB by default; 0 merges adjacent reads only. */
  maxGapBytes?: number;
  /** The longest request made of several reads, in bytes. 16 MiB by default. It takes as much memory besides the results. */
  maxMergedBytes?: number;
}

/** On most connections a gap of this many bytes takes less time than another request. */
const DEFAULT_MAX_GAP_BYTES = 64 << 10;
const DEFAULT_MAX_MERGED_BYTES = 16 << 20;

/**
 * Returns `source` with the reads that begin in the same turn of the event loop merged where they lie close together.
 * Each caller gets their own bytes and can abort on their own; a merged read is aborted when all of its callers have
 * aborted. `open` does this with every source.
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
    // A caller who aborts must not cost the others their bytes.
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
      // A copy: a view would keep the bytes of the whole range alive.
      read.succeed(reads.length === 1 ? bytes : markTransferable(bytes.slice(read.begin - begin, read.end - begin)));
    }
  } catch (error) {
    isRunning = false;
    for (const read of reads) read.fail(error);
  }
}
