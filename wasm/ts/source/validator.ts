/** What tells one version of a file on a web server from another (RFC 9110, section 8.8). */

/** Of one answer; what it lacks, or what a page may not see of it, is `undefined`. */
export interface Validators {
  etag: string | undefined;
  lastModified: string | undefined;
}

export function validatorsOf({ headers }: Response): Validators {
  return { etag: headers.get("etag") ?? undefined, lastModified: headers.get("last-modified") ?? undefined };
}

/** An ETag that promises the same bytes, to the last one. */
export function strongEtag({ etag }: Validators): string | undefined {
  return etag !== undefined && /^"[^"]*"$/.test(etag) ? etag : undefined;
}

/**
 * Whether an answer is of the version that was `pinned`. What cannot be compared counts as the same only if
 * nothing was pinned, or if the server was asked to compare by itself (`If-Range`), which it did by answering.
 */
export function sameVersion(pinned: Validators, answered: Validators, comparedByServer: boolean): boolean {
  // A strong ETag that has become a weak one is another ETag: something on the way may have changed the bytes.
  if (pinned.etag !== undefined && answered.etag !== undefined) return pinned.etag === answered.etag;
  if (pinned.lastModified !== undefined && answered.lastModified !== undefined) return pinned.lastModified === answered.lastModified;
  return comparedByServer || (pinned.etag === undefined && pinned.lastModified === undefined);
}
