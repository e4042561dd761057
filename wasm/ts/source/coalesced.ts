/** Joins reads that are asked for at the same time and lie close together into one. */

import { give } from "./given.js";
import { grouped } from "./group.js";
import type { Group } from "./group.js";
import { SharedRead } from "./shared-read.js";
import type { ReadOptions, Source } from "./source.js";
import { nextTask } from "./task.js";

/** When reads are joined. */
export interface CoalesceOptions {
  /** The largest gap between two reads that is fetched along, in bytes; 64 KiB unless said otherwise. 0 joins neighbours alone. */
  gapBytes?: number;
  /** The longest request made of several reads, in bytes; 16 MiB unless said otherwise. As much memory is needed besides the results. */
  groupBytes?: number;
}

/** A gap of 64 KiB takes less time than another request does on most lines. */
export const DEFAULT_COALESCING: Required<CoalesceOptions> = { gapBytes: 64 << 10, groupBytes: 16 << 20 };

/** `source`, with reads that begin in the same turn of the event loop joined. */
export function coalesced(source: Source, { gapBytes, groupBytes }: Required<CoalesceOptions>): Source {
  let waiting: SharedRead[] = [];
  const flush = () => {
    const reads = waiting.filter((read) => !read.settled);
    waiting = [];
    for (const group of grouped(reads, gapBytes, groupBytes)) void fetchGroup(source, group);
  };
  return {
    size: (options) => source.size(options),
    read(offset, length, options: ReadOptions = {}) {
      const read = new SharedRead(offset, length, options);
      if (waiting.push(read) === 1) nextTask(flush);
      return read.promise;
    },
  };
}

async function fetchGroup(source: Source, { begin, end, members }: Group<SharedRead>): Promise<void> {
  const stop = new AbortController();
  let underWay = true;
  for (const member of members) {
    // One who gives up must not cost the others their bytes.
    member.onSettled = () => {
      if (underWay && members.every(({ settled }) => settled)) stop.abort();
    };
  }
  let position = begin;
  const onBytes = (bytes: number) => {
    for (const member of members) member.arrived(position, position + bytes);
    position += bytes;
  };
  try {
    const bytes = await source.read(begin, end - begin, { signal: stop.signal, onBytes });
    underWay = false;
    for (const member of members) {
      // A copy: a view would keep the bytes of the whole group alive.
      member.succeed(members.length === 1 ? bytes : give(bytes.slice(member.begin - begin, member.end - begin)));
    }
  } catch (error) {
    underWay = false;
    for (const member of members) member.fail(error);
  }
}
