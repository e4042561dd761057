/** Validators, which distinguish versions of a file on a web server (RFC 9110, section 8.8). */

import { parseHttpDate } from "./date.js";

/** The validators of one response; `undefined` for those that it lacks or that a page may not see. */
export interface Validators {
  etag: string | undefined;
  lastModified: string | undefined;
  /**
   * True if the second of `lastModified` had passed when the server responded, so that no other version can have the
   * same date.
   */
  isDateStrong?: boolean;
}

export function validatorsOf({ headers }: Response): Validators {
  const lastModified = headers.get("last-modified") ?? undefined;
  const modifiedMs = parseHttpDate(lastModified ?? "") ?? Number.NaN;
  const answeredMs = parseHttpDate(headers.get("date") ?? "") ?? Number.NaN;
  return { etag: headers.get("etag") ?? undefined, lastModified, isDateStrong: answeredMs - modifiedMs >= 1000 };
}

/** Returns the ETag if it is a strong one, which promises identical bytes. */
export function strongEtag({ etag }: Validators): string | undefined {
  return etag !== undefined && /^"[^"]*"$/.test(etag) ? etag : undefined;
}

/**
 * Returns the value for `If-Range`: a strong ETag, or without any ETag a date that is as reliable; `undefined` if there
 * is neither.
 */
export function ifRangeOf(validators: Validators): string | undefined {
  const { etag, lastModified, isDateStrong } = validators;
  if (etag !== undefined) return strongEtag(validators);
  return isDateStrong ? lastModified : undefined;
}

/** Returns whether a change of the file would be noticed. The bytes of two responses may be joined only if it would. */
export function canDistinguishVersions({ etag, lastModified }: Validators): boolean {
  return etag !== undefined || lastModified !== undefined;
}

/**
 * Returns whether a response has the version that was `pinned`. If the validators cannot be compared, it counts as the
 * same version only if nothing was pinned, or if the server compared the versions itself (`If-Range`) before
 * responding.
 */
export function sameVersion(pinned: Validators, received: Validators, comparedByServer: boolean): boolean {
  // A strong ETag that has become weak counts as another ETag, because an intermediary may have changed the bytes.
  if (pinned.etag !== undefined && received.etag !== undefined) return withoutCoding(pinned.etag) === withoutCoding(received.etag);
  if (pinned.lastModified !== undefined && received.lastModified !== undefined) return pinned.lastModified === received.lastModified;
  return comparedByServer || !canDistinguishVersions(pinned);
}

/** Describes the difference between the validators of two responses, as a part of a sentence. */
export function difference(pinned: Validators, received: Validators): string {
  return `${received.etag ?? received.lastModified} instead of ${pinned.etag ?? pinned.lastModified}`;
}

/**
 * Returns an ETag without the suffix that some servers append if they might compress the file. A compressed response is
 * rejected in any case.
 */
const withoutCoding = (etag: string): string => etag.replace(/(?:--gzip|-gzip|;gzip|-br|-zstd)"$/, '"');
