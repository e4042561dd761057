/** Validators, which distinguish versions of a file on a web server (RFC 9110, section 8.8). */

import { parseHttpDate } from "./date.js";

/** The validators of one response; `undefined` for those that it lacks, or that a page may not see. */
export interface Validators {
  etag: string | undefined;
  lastModified: string | undefined;
  /** Whether the second of `lastModified` had passed when the server received, so that no other version can have it. */
  isDateStrong?: boolean;
}

export function validatorsOf({ headers }: Response): Validators {
  const lastModified = headers.get("last-modified") ?? undefined;
  const modifiedMs = parseHttpDate(lastModified ?? "") ?? Number.NaN;
  const answeredMs = parseHttpDate(headers.get("date") ?? "") ?? Number.NaN;
  return { etag: headers.get("etag") ?? undefined, lastModified, isDateStrong: answeredMs - modifiedMs >= 1000 };
}

/** Returns the ETag if it is strong, which promises identical bytes. */
export function strongEtag({ etag }: Validators): string | undefined {
  return etag !== undefined && /^"[^"]*"$/.test(etag) ? etag : undefined;
}

/** Returns the value for `If-Range`: a strong ETag, or where there is none at all a date that is as good. */
export function ifRangeOf(validators: Validators): string | undefined {
  const { etag, lastModified, isDateStrong } = validators;
  if (etag !== undefined) return strongEtag(validators);
  return isDateStrong ? lastModified : undefined;
}

/** Returns whether a changed file would show. Only then may bytes of two answers be joined. */
export function canDistinguishVersions({ etag, lastModified }: Validators): boolean {
  return etag !== undefined || lastModified !== undefined;
}

/**
 * Returns whether an answer is of the version that was `pinned`. What cannot be compared counts as the same only if
 * nothing was pinned, or if the server was asked to compare by itself (`If-Range`), which it did by answering.
 */
export function sameVersion(pinned: Validators, received: Validators, comparedByServer: boolean): boolean {
  // A strong ETag that has become a weak one is another ETag: something on the way may have changed the bytes.
  if (pinned.etag !== undefined && received.etag !== undefined) return withoutCoding(pinned.etag) === withoutCoding(received.etag);
  if (pinned.lastModified !== undefined && received.lastModified !== undefined) return pinned.lastModified === received.lastModified;
  return comparedByServer || !canDistinguishVersions(pinned);
}

/** Describes how the validators of an answer differ, as part of a sentence. */
export function difference(pinned: Validators, received: Validators): string {
  return `${received.etag ?? received.lastModified} instead of ${pinned.etag ?? pinned.lastModified}`;
}

/** Returns an ETag without what some servers append to it when they might compress the file. A file that comes compressed is refused in any case. */
const withoutCoding = (etag: string): string => etag.replace(/(?:--gzip|-gzip|;gzip|-br|-zstd)"$/, '"');
