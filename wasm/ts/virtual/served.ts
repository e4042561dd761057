/** One address behind which a packed model is served as safetensors. */

import { HttpError, ModelClosedError, SourceChangedError } from "../errors.js";
import type { Model } from "../model.js";
import { answer } from "./answer.js";
import type { Asked } from "./answer.js";
import type { SafetensorsBlob } from "./blob.js";
import type { SafetensorsBlobOptions } from "./model-file.js";

/** What the server of the packed file says that is as true of this one. */
const SAID_ON: readonly number[] = [401, 403, 404, 410, 429, 503];

interface Opened {
  model: Model;
  file: SafetensorsBlob;
  etag: string | undefined;
}

/** Opens its model at the first request and keeps it. */
export class ServedFile {
  /** What tells this file from others in its ETag. */
  readonly #identity: string;
  readonly #openModel: () => Promise<Model>;
  readonly #options: SafetensorsBlobOptions;
  #opened: Promise<Opened> | undefined;

  constructor(identity: string, openModel: () => Promise<Model>, options: SafetensorsBlobOptions) {
    this.#identity = identity;
    this.#openModel = openModel;
    this.#options = options;
  }

  /** Answers every request, also when that is bad news; an aborted one rejects. */
  async answer(request: Asked): Promise<Response> {
    if (request.method !== "GET" && request.method !== "HEAD") {
      return new Response(null, { status: 405, headers: { allow: "GET, HEAD" } });
    }
    try {
      return await this.#attempt(request).catch((error: unknown) => {
        // The packed file is another one now, and so is this one: as from any server, the next answer is about that.
        // Others who had noticed before have closed the old one.
        if (error instanceof SourceChangedError || error instanceof ModelClosedError) return this.#attempt(request);
        throw error;
      });
    } catch (error) {
      request.signal?.throwIfAborted();
      const status = error instanceof HttpError && SAID_ON.includes(error.status) ? error.status : 502;
      return new Response(error instanceof Error ? error.message : String(error), { status, headers: { "content-type": "text/plain; charset=utf-8" } });
    }
  }

  async #attempt(request: Asked): Promise<Response> {
    const opening = (this.#opened ??= this.#open());
    try {
      const { file, etag } = await opening;
      return await answer(request, file, etag);
    } catch (error) {
      if (error instanceof SourceChangedError) this.#forget(opening);
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

  /** A strong ETag promises the same bytes: it takes one of the packed file, and names how the header is written. */
  async #etag(version: string | undefined): Promise<string | undefined> {
    if (version === undefined) return undefined;
    const text = `zstn safetensors 2\n${this.#identity}\n${version}`;
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
    return `"${Array.from(new Uint8Array(digest, 0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("")}"`;
  }
}
