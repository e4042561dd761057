/** Serves a packed model as a safetensors file. */

import { HttpError, ModelClosedError, SourceChangedError } from "../errors.js";
import type { Model } from "../model.js";
import { respond } from "./response.js";
import type { RangeRequest } from "./response.js";
import type { SafetensorsBlob } from "./blob.js";
import type { SafetensorsBlobOptions } from "./model-file.js";

/** The HTTP statuses that are passed on to the client if the server of the packed file responds with them. */
const FORWARDED_STATUSES: readonly number[] = [401, 403, 404, 410, 429, 503];

interface Opened {
  model: Model;
  file: SafetensorsBlob;
  etag: string | undefined;
}

/** Serves one file. Opens its model at the first request and keeps it open. */
export class FileServer {
  /** Distinguishes this file from other files in the ETag. */
  readonly #identity: string;
  readonly #openModel: () => Promise<Model>;
  readonly #options: SafetensorsBlobOptions;
  #opened: Promise<Opened> | undefined;

  constructor(identity: string, openModel: () => Promise<Model>, options: SafetensorsBlobOptions) {
    this.#identity = identity;
    this.#openModel = openModel;
    this.#options = options;
  }

  /** Returns a response to every request, even if reading fails. Rejects only if the request is aborted. */
  async answer(request: RangeRequest): Promise<Response> {
    if (request.method !== "GET" && request.method !== "HEAD") {
      return new Response(null, { status: 405, headers: { allow: "GET, HEAD" } });
    }
    try {
      return await this.#attempt(request).catch((error: unknown) => {
        // The packed file has changed, so the served file has changed, too. The new file is served, as any server would
        // do. A concurrent request may have noticed first and closed the old model, and a model is also lost when the
        // core stops unexpectedly.
        if (error instanceof SourceChangedError || error instanceof ModelClosedError) return this.#attempt(request);
        throw error;
      });
    } catch (error) {
      request.signal?.throwIfAborted();
      const status = error instanceof HttpError && FORWARDED_STATUSES.includes(error.status) ? error.status : 502;
      return new Response(error instanceof Error ? error.message : String(error), { status, headers: { "content-type": "text/plain; charset=utf-8" } });
    }
  }

  async #attempt(request: RangeRequest): Promise<Response> {
    const opening = (this.#opened ??= this.#open());
    try {
      const { file, etag } = await opening;
      return await respond(request, file, etag);
    } catch (error) {
      if (error instanceof SourceChangedError || error instanceof ModelClosedError) this.#forget(opening);
      throw error;
    }
  }

  #open(): Promise<Opened> {
    const opening = this.#openModel().then(async (model) => {
      try {
        return { model, file: model.asSafetensorsBlob(this.#options), etag: await this.#etag(model.version) };
      } catch (error) {
        model.close();
        throw error;
      }
    });
    opening.catch(() => this.#forget(opening)); // the next request tries again
    return opening;
  }

  #forget(opening: Promise<Opened>): void {
    if (this.#opened !== opening) return;
    this.#opened = undefined;
    opening.then(({ model }) => model.close(), () => {});
  }

  /**
   * Returns a strong ETag, which promises identical bytes. It depends on the ETag of the packed file and on the way the
   * header is generated. Resolves to `undefined` if the packed file has no strong ETag.
   */
  async #etag(version: string | undefined): Promise<string | undefined> {
    if (version === undefined) return undefined;
    const text = `zstn safetensors 2\n${this.#identity}\n${version}`;
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
    return `"${Array.from(new Uint8Array(digest, 0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("")}"`;
  }
}
