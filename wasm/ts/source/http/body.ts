/** Reads the body of an HTTP response and checks its exact length. */

import { ContentEncodingError, TruncatedError } from "../../errors.js";
import { abortable } from "../abortable.js";
import { shortened } from "./error-message.js";
import { invalidBody } from "./network-failure.js";
import type { ReceiveBuffer } from "./receive-buffer.js";
import type { PendingResponse } from "./pending-response.js";

/** The expected contents of a body. */
export interface BodyExpectation {
  /**
   * The maximum length of the buffer after the body, in bytes, including the bytes that it already contains. Reading
   * stops when a body is longer.
   */
  maxBytes: number;
  /** True if a shorter body is an error as well. */
  exact: boolean;
  /** The requested bytes, for messages, such as "bytes 0 to 99 of https://host/model". */
  what: string;
}

/**
 * Appends the body to `buffer`. Rejects with a `TruncatedError` if its length is wrong, with a `ContentEncodingError`
 * if the file seems to be compressed, and with a `NetworkError` if the body is not valid HTTP.
 */
export async function readBody(pending: PendingResponse, buffer: ReceiveBuffer, expected: BodyExpectation): Promise<void> {
  const { maxBytes, exact, what } = expected;
  const reader = pending.response.body?.getReader();
  const beforeBytes = buffer.filledBytes;
  try {
    for (;;) {
      const chunk = await next(reader, pending, buffer, expected);
      if (!chunk) break;
      const seenBytes = buffer.filledBytes + chunk.byteLength;
      if (seenBytes > maxBytes) {
        // The rest of a body that is too long may not have arrived yet, so the declared length counts as well.
        refuseDecoded(pending, Math.max(seenBytes - beforeBytes, declaredBytes(pending, 0)));
        throw new TruncatedError(maxBytes, seenBytes, `The server sent more than the ${maxBytes} bytes requested (${what}).`);
      }
      pending.onBytes(chunk.byteLength);
      buffer.add(chunk);
    }
  } catch (error) {
    void reader?.cancel().catch(() => {});
    throw error;
  }
  const bodyBytes = buffer.filledBytes - beforeBytes;
  const declared = declaredBytes(pending, bodyBytes);
  if (buffer.filledBytes < maxBytes && (bodyBytes < declared || (exact && bodyBytes === declared))) throw short(buffer, expected);
  refuseDecoded(pending, bodyBytes);
}

/** Returns the next chunk of the body; `undefined` at its end. */
async function next(reader: ReadableStreamDefaultReader<Uint8Array> | undefined, pending: PendingResponse, buffer: ReceiveBuffer, expected: BodyExpectation) {
  try {
    return reader && (await abortable(reader.read(), pending.signal)).value;
  } catch (cause) {
    pending.signal.throwIfAborted();
    // Some servers reset the connection after the last byte.
    if (buffer.filledBytes === expected.maxBytes) return undefined;
    throw invalidBody(pending.url, cause) ?? short(buffer, expected, cause);
  }
}

/** Returns the declared length of the body, in bytes; `otherwise` if none is declared. */
export function declaredBytes({ response }: PendingResponse, otherwise: number): number {
  const declared = response.headers.get("content-length") ?? "";
  return /^\d+$/.test(declared) ? Number(declared) : otherwise;
}

/**
 * Throws a `ContentEncodingError` if the body has another length than declared. It was then decoded in transit, even if
 * no header shows that.
 */
function refuseDecoded(pending: PendingResponse, bodyBytes: number): void {
  const declared = declaredBytes(pending, bodyBytes);
  if (declared === bodyBytes) return;
  const { url } = pending;
  throw new ContentEncodingError(
    url,
    `The server of ${shortened(url)} announced ${declared} bytes and ${bodyBytes} arrived: it may compress the file. ` +
      "Turn compression off for this file.",
  );
}

function short(buffer: ReceiveBuffer, { maxBytes, what }: BodyExpectation, cause?: unknown): TruncatedError {
  const { filledBytes } = buffer;
  return new TruncatedError(
    maxBytes,
    filledBytes,
    `The connection ended after ${filledBytes} of ${maxBytes} bytes (${what}): try again.`,
    cause === undefined ? undefined : { cause },
  );
}
