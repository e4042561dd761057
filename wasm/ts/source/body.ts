/** The body of an HTTP answer, to the exact byte. */

import { ContentEncodingError, TruncatedError } from "../errors.js";
import { abortable } from "./abortable.js";
import { shortened } from "./http-message.js";
import { invalidBody } from "./network-failure.js";
import type { Received } from "./received.js";
import type { Answer } from "./wire.js";

/** What to expect. */
export interface BodyExpectation {
  /** Length of the read once it is complete, in bytes, with what `received` has already. The body is dropped as soon as it goes beyond. */
  mostBytes: number;
  /** Whether fewer bytes are an error too. */
  exact: boolean;
  /** For messages: what was asked, such as "bytes 0 to 99 of https://host/model". */
  what: string;
}

/** Adds the body to `received`. */
export async function readBody(answer: Answer, received: Received, expected: BodyExpectation): Promise<void> {
  const { mostBytes, exact, what } = expected;
  const reader = answer.response.body?.getReader();
  const beforeBytes = received.filledBytes;
  try {
    for (;;) {
      const chunk = await next(reader, answer, received, expected);
      if (!chunk) break;
      const seenBytes = received.filledBytes + chunk.byteLength;
      if (seenBytes > mostBytes) {
        refuseDecoded(answer, seenBytes - beforeBytes);
        throw new TruncatedError(mostBytes, seenBytes, `The server sent more than the ${mostBytes} bytes asked for (${what}).`);
      }
      answer.arrived(chunk.byteLength);
      received.add(chunk);
    }
  } catch (error) {
    void reader?.cancel().catch(() => {});
    throw error;
  }
  const bodyBytes = received.filledBytes - beforeBytes;
  const declared = declaredBytes(answer, bodyBytes);
  if (received.filledBytes < mostBytes && (bodyBytes < declared || (exact && bodyBytes === declared))) throw short(received, expected);
  refuseDecoded(answer, bodyBytes);
}

/** The next piece of the body, or nothing at its end. */
async function next(reader: ReadableStreamDefaultReader<Uint8Array> | undefined, answer: Answer, received: Received, expected: BodyExpectation) {
  try {
    return reader && (await abortable(reader.read(), answer.signal)).value;
  } catch (cause) {
    answer.signal.throwIfAborted();
    // Servers may break a connection after the last byte.
    if (received.filledBytes === expected.mostBytes) return undefined;
    throw invalidBody(answer.url, cause) ?? short(received, expected, cause);
  }
}

/** The length announced for the body, or `otherwise`. */
function declaredBytes({ response }: Answer, otherwise: number): number {
  const declared = response.headers.get("content-length") ?? "";
  return /^\d+$/.test(declared) ? Number(declared) : otherwise;
}

/** A body of another length than announced was decoded on the way, even where no header shows it. */
function refuseDecoded(answer: Answer, bodyBytes: number): void {
  const declared = declaredBytes(answer, bodyBytes);
  if (declared === bodyBytes) return;
  const { url } = answer;
  throw new ContentEncodingError(
    url,
    `The server of ${shortened(url)} announced ${declared} bytes and ${bodyBytes} came out of them: it seems to compress the file. ` +
      "Positions in it mean nothing then; turn compression off for this file.",
  );
}

function short(received: Received, { mostBytes, what }: BodyExpectation, cause?: unknown): TruncatedError {
  const { filledBytes } = received;
  return new TruncatedError(
    mostBytes,
    filledBytes,
    `The connection ended after ${filledBytes} of ${mostBytes} bytes (${what}). Try again; if it happens again, the server is at fault.`,
    cause === undefined ? undefined : { cause },
  );
}

/** Drops the body of an answer that is of no use, so that it is not downloaded. */
export function discard(response: Response): void {
  void response.body?.cancel().catch(() => {});
}
