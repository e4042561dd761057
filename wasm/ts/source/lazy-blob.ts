/** Reads a Blob that fetches its bytes, such as the one that `downloadFile` of @huggingface/hub returns. */

import { HttpError, LimitError, ReadError, SourceChangedError, TruncatedError, ZstnError } from "../errors.js";
import type { HttpFunctions } from "./http/http-functions.js";
import type { ReadOptions } from "./source.js";

/** The maximum number of retries of a read. */
const RETRIES = 3;

/** The error that a Blob of @huggingface/hub throws when the server refuses its request. Only `statusCode` is always present. */
interface StatusError {
  statusCode: number;
  url?: unknown;
  message?: unknown;
}

/**
 * Reads all of `blob`, which has `length` bytes. The first attempt reads its stream, which can be aborted, but may fail
 * with a plain text instead of an error. Further attempts read all bytes at once, which fails with the error itself.
 */
export async function readLazyBlob(blob: Blob, length: number, { signal, onBytes }: ReadOptions, httpFunctions: HttpFunctions): Promise<Uint8Array<ArrayBuffer>> {
  const { abortable, mayPass, retrying, systemClock } = httpFunctions;
  let attempts = 0;
  let announcedBytes = 0;
  const announce = (receivedBytes: number) => {
    if (receivedBytes <= announcedBytes) return;
    onBytes?.(receivedBytes - announcedBytes);
    announcedBytes = receivedBytes;
  };
  const attempt = async () => {
    attempts += 1;
    try {
      const bytes = attempts === 1 ? await readStream(blob, length, signal, announce) : new Uint8Array(await abortable(blob.arrayBuffer(), signal));
      if (bytes.byteLength !== length) throw wrongLength(length, bytes.byteLength);
      announce(length);
      return bytes;
    } catch (error) {
      signal?.throwIfAborted();
      // There is no retry, because the next attempt would not have more memory.
      if (error instanceof RangeError) throw new LimitError(`There is no memory for ${length} bytes at once.`, {}, { cause: error });
      throw typed(error, httpFunctions);
    }
  };
  const unlimited = { idleTimeoutMs: Infinity, giveUpAfterMs: Infinity, stalled: (limitMs: number) => new Error(`received nothing for ${limitMs} ms`), onRetry() {} };
  const shouldRetry = (error: unknown) => error instanceof ReadError || mayPass(error, true);
  return retrying(attempt, { ...unlimited, retries: RETRIES, clock: systemClock, signal, receivedBytes: () => announcedBytes, shouldRetry });
}

async function readStream(blob: Blob, length: number, signal: AbortSignal | undefined, announce: (bytes: number) => void): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(length);
  const reader = blob.stream().getReader();
  const stop = () => void reader.cancel(signal!.reason).catch(() => {});
  signal?.addEventListener("abort", stop, { once: true });
  try {
    let filledBytes = 0;
    for (;;) {
      const { value } = await reader.read();
      signal?.throwIfAborted();
      if (!value) return bytes.subarray(0, filledBytes);
      if (filledBytes + value.byteLength > length) {
        void reader.cancel().catch(() => {});
        throw wrongLength(length, filledBytes + value.byteLength);
      }
      bytes.set(value, filledBytes);
      filledBytes += value.byteLength;
      announce(filledBytes);
    }
  } finally {
    signal?.removeEventListener("abort", stop);
  }
}

function wrongLength(length: number, received: number): TruncatedError {
  const what = received < length ? "the connection ended early, or the file has changed" : "its server does not support range requests, or the file has changed";
  return new TruncatedError(length, received, `The Blob should have ${length} bytes here, and ${received} came: ${what}.`);
}

/** Returns the error converted to an error of this package. */
function typed(error: unknown, { shortened }: HttpFunctions): ZstnError {
  if (error instanceof ZstnError) return error;
  const { statusCode, url, message } = (error ?? {}) as Partial<StatusError>;
  const text = typeof message === "string" ? message : String(error);
  if (typeof statusCode !== "number") return new ReadError(`Could not read the Blob: ${text}`, { cause: error });
  const where = typeof url === "string" && URL.canParse(url) ? url : undefined;
  const file = where === undefined ? "the file of the Blob" : shortened(where);
  if (statusCode === 416) return new SourceChangedError(`The file at ${file} was changed while it was being read, and has become shorter. Open it again.`);
  const advice = statusCode === 401 || statusCode === 403 ? " If it needs a token, pass it to what made the Blob: `downloadFile({ accessToken, … })`." : "";
  return Object.assign(new HttpError(where ?? "", statusCode, `Could not read ${file}: the server answered ${statusCode}.${advice}`), { cause: error });
}
