/** The file that is open: its model, a name to show, and the ranges of it that were fetched. */

import { open } from "zstn";
import type { Model, OnProgress, Source } from "zstn";

/** A part of the file, in bytes; `end` is excluded. */
export interface ByteRange {
  begin: number;
  end: number;
}

export interface Opened {
  model: Model;
  name: string;
  /** Ranges fetched so far, in the order of fetching. */
  fetched: ByteRange[];
}

/** Opens an address or a file of the visitor. */
export async function openModel(input: string | File, signal: AbortSignal, onProgress: OnProgress): Promise<Opened> {
  const fetched: ByteRange[] = [];
  if (typeof input === "string") {
    const model = await open(input, { signal, onProgress, fetch: recordingFetch(fetched) });
    return { model, name: nameOf(input), fetched };
  }
  const model = await open(recordingSource(input, fetched), { signal, onProgress });
  return { model, name: input.name, fetched };
}

function recordingFetch(fetched: ByteRange[]): typeof fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    const range = /^bytes=(\d+)-(\d+)$/.exec(new Headers(init?.headers).get("range") ?? "");
    if (response.status === 206 && range) fetched.push({ begin: Number(range[1]), end: Number(range[2]) + 1 });
    return response;
  };
}

function recordingSource(file: File, fetched: ByteRange[]): Source {
  return {
    size: () => file.size,
    async read(offset, length) {
      let bytes: ArrayBuffer;
      try {
        bytes = await file.slice(offset, offset + length).arrayBuffer();
      } catch (cause) {
        throw new Error(`Could not read ${file.name}. If it was changed or moved, choose it again.`, { cause });
      }
      fetched.push({ begin: offset, end: offset + length });
      return new Uint8Array(bytes);
    },
  };
}

function nameOf(address: string): string {
  const path = new URL(address, document.baseURI).pathname;
  return decodeURIComponent(path.slice(path.lastIndexOf("/") + 1)) || address;
}
