/** Responses whose bodies have not been read yet. */

/** A response with the context for reading its body. */
export interface PendingResponse {
  readonly url: string;
  readonly response: Response;
  /** Aborts when the caller aborts, or when the body makes too little progress. */
  readonly signal: AbortSignal;
  /** Counts received bytes. Code that reads the body must call it with the length of each chunk, in bytes. */
  readonly onBytes: (bytes: number) => void;
}

/** Cancels the body of a response that is not needed, so that it is not downloaded. */
export function discard(response: Response): void {
  void response.body?.cancel().catch(() => {});
}
