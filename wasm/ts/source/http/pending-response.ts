/** Responses whose bodies are read later, or not at all. */

/** A response whose body has not been read yet. */
export interface PendingResponse {
  readonly url: string;
  readonly response: Response;
  /** Aborts when the caller aborts, and when too little arrives. */
  readonly signal: AbortSignal;
  /** To be called with the number of bytes of each chunk. */
  readonly onBytes: (bytes: number) => void;
}

/** Cancels the body of a response that is not needed, so that it is not downloaded. */
export function discard(response: Response): void {
  void response.body?.cancel().catch(() => {});
}
