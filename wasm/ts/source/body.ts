/** The body of an HTTP answer, to the exact byte. */

import { TruncatedError } from "../errors.js";

/** What to expect, and whom to tell. */
export interface BodyExpectation {
  /** Upper limit, in bytes; the body is dropped as soon as it goes beyond. */
  mostBytes: number;
  /** Whether fewer bytes are an error too. */
  exact: boolean;
  /** For messages: what was asked, such as "bytes 0 to 99 of https://host/model". */
  what: string;
  /** Called with the number of new bytes. */
  arrived: (bytes: number) => void;
  signal: AbortSignal | undefined;
}

/** Reads the body; the result is a view of a buffer of `mostBytes`. */
export async function readBody(response: Response, expected: BodyExpectation): Promise<Uint8Array> {
  const { mostBytes, what } = expected;
  const received = new Uint8Array(mostBytes);
  let receivedBytes = 0;
  const reader = response.body?.getReader();
  try {
    for (let chunk = await next(reader, expected, 0); chunk; chunk = await next(reader, expected, receivedBytes)) {
      const seenBytes = receivedBytes + chunk.byteLength;
      if (seenBytes > mostBytes) {
        throw new TruncatedError(mostBytes, seenBytes, `The server sent more than the ${mostBytes} bytes asked for (${what}).`);
      }
      received.set(chunk, receivedBytes);
      receivedBytes = seenBytes;
      expected.arrived(chunk.byteLength);
    }
  } catch (error) {
    void reader?.cancel().catch(() => {});
    throw error;
  }
  if (expected.exact && receivedBytes !== mostBytes) throw short(expected, receivedBytes);
  return received.subarray(0, receivedBytes);
}

/** The next piece of the body, or nothing at its end. */
async function next(reader: ReadableStreamDefaultReader<Uint8Array> | undefined, expected: BodyExpectation, receivedBytes: number) {
  try {
    return (await reader?.read())?.value;
  } catch (cause) {
    expected.signal?.throwIfAborted();
    throw short(expected, receivedBytes, cause);
  }
}

function short({ mostBytes, what }: BodyExpectation, receivedBytes: number, cause?: unknown): TruncatedError {
  return new TruncatedError(
    mostBytes,
    receivedBytes,
    `The connection ended after ${receivedBytes} of ${mostBytes} bytes (${what}). Try again; if it happens again, the server is at fault.`,
    cause === undefined ? undefined : { cause },
  );
}

/** Drops the body of an answer that is of no use, so that it is not downloaded. */
export function discard(response: Response): void {
  void response.body?.cancel().catch(() => {});
}
