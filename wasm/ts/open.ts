/** From a source to an open model. */

import type { Core, CoreCatalog, CoreOpening } from "./core.js";
import { BaseRequiredError, FormatError, InvalidInputError } from "./errors.js";
import { mistakenFor } from "./mistaken.js";
import { Model } from "./model.js";
import { ProgressMeter } from "./progress.js";
import type { OnProgress } from "./progress.js";
import { guarded } from "./rejection.js";
import { sideBySide } from "./side-by-side.js";
import { BlobSource } from "./source/blob.js";
import { BytesSource } from "./source/bytes.js";
import { checked } from "./source/checked.js";
import { counted } from "./source/counted.js";
import { optionsBeside } from "./source/http-options.js";
import type { HttpOptions } from "./source/http-options.js";
import { remoteSource } from "./source/remote.js";
import type { ReadOptions, Source } from "./source/source.js";
import { Traffic } from "./source/traffic.js";

/**
 * What can be opened: an address (in Node also a path), a `Blob` or `File`, bytes, or a source of your own.
 * In browsers a relative address counts from the page.
 */
export type Openable = string | URL | Blob | ArrayBuffer | Uint8Array | Source;

/** What `open` may be given besides the source; `HttpOptions` are for http(s) addresses. */
export interface OpenOptions extends HttpOptions {
  /** Stops opening; reads later on take their own signal. `open` then rejects with the reason of the signal. */
  signal?: AbortSignal;
  /** Called while the bytes needed for opening arrive. */
  onProgress?: OnProgress;
  /**
   * The checkpoint that a delta (`Z4DM`) was made against: anything `open` takes, or a model that is open already.
   * It may be plain, packed, or a delta that was opened with a base of its own. What is opened here is closed
   * with the model and gets the same `signal` and `HttpOptions`, but `headers` and `token` only if it comes from the
   * same origin; a model given stays yours.
   */
  base?: Openable | Model;
}

/** Opens a model: recognises the format and learns of all tensors, normally in two round trips. */
export type Open = (source: Openable, options?: OpenOptions) => Promise<Model>;

/** What Node and browsers do differently. */
export interface Platform {
  loadCore: () => Promise<Core>;
  /** What an address means here: a URL to fetch, or a source. */
  resolve: (address: string | URL) => URL | Source;
}

/** The function `open` of one platform. */
export function opener(platform: Platform): Open {
  const open: Open = async (openable, options = {}) => {
    const { base } = options;
    if (base === undefined) return withoutBase(await openOne(platform, openable, options));
    if (base instanceof Model) return withBase(await openOne(platform, openable, options), base, false);
    const optionsOfBase = baseOptions(openable, base, options, platform);
    const opened: Model[] = [];
    try {
      // Both at the same time, so that a base costs no further round trips.
      const [model, baseModel] = await sideBySide(options.signal, (signal) => {
        const keep = (model: Model) => (signal.aborted ? model.close() : opened.push(model), model);
        const opening = openOne(platform, openable, { ...options, signal }).then(keep);
        return Promise.all([opening, open(base, { ...optionsOfBase, signal }).catch(nameBase).then(keep)]);
      });
      return withBase(model, baseModel, true);
    } catch (error) {
      for (const model of opened) model.close();
      throw error;
    }
  };
  return open;
}

function withoutBase(model: Model): Model {
  if (!model.needsBase) return model;
  model.close();
  throw new BaseRequiredError(
    "This file is the difference from another checkpoint (Z4DM) and cannot be read without it: " +
      "pass that checkpoint, its base, as open(source, { base }).",
  );
}

function nameBase(error: unknown): never {
  if (!(error instanceof BaseRequiredError)) throw error;
  throw new BaseRequiredError("The base is itself the difference from another checkpoint: open it with its own base, and pass that model as `base`.");
}

/** `model` with its base; `model` is closed if that does not fit. */
function withBase(model: Model, base: Model, ownsBase: boolean): Model {
  try {
    model.attach(base, ownsBase);
    return model;
  } catch (error) {
    model.close();
    throw error;
  }
}

/** Secrets in headers are for the server they were meant for. */
function baseOptions(openable: Openable, base: Openable, options: OpenOptions, platform: Platform): OpenOptions {
  const origin = (place: Openable): string | undefined => {
    if (typeof place !== "string" && !(place instanceof URL)) return undefined;
    const resolved = platform.resolve(place);
    return resolved instanceof URL ? resolved.origin : undefined;
  };
  return optionsBeside(options, origin(openable) !== undefined && origin(openable) === origin(base));
}

async function openOne(platform: Platform, openable: Openable, options: OpenOptions): Promise<Model> {
  const traffic = new Traffic();
  const source = checked(sourceOf(openable, options, traffic, platform));
  const meter = new ProgressMeter(options.onProgress, { stage: "open" });
  const readOptions: ReadOptions = { onBytes: meter.arrived, onTotal: (bytes) => meter.expect(bytes) };
  if (options.signal) readOptions.signal = options.signal;
  // Fetching the core and the head of the file at the same time saves a round trip.
  const [core, sizeBytes] = await Promise.all([platform.loadCore(), source.size(readOptions)]);
  const catalog = await readCatalog(core, source, sizeBytes, readOptions, meter);
  return new Model(source, sizeBytes, catalog, traffic);
}

/** The source behind anything that can be opened. */
export function sourceOf(openable: Openable, options: OpenOptions, traffic: Traffic, platform: Pick<Platform, "resolve">): Source {
  if (typeof openable === "string" || openable instanceof URL) {
    const address = platform.resolve(openable);
    if (!(address instanceof URL)) return counted(address, traffic);
    return remoteSource(address, options, traffic);
  }
  return counted(localSource(openable), traffic);
}

function localSource(openable: Blob | ArrayBuffer | Uint8Array | Source): Source {
  if (openable instanceof Blob) return new BlobSource(openable);
  if (openable instanceof Uint8Array) return new BytesSource(openable);
  if (openable instanceof ArrayBuffer) return new BytesSource(new Uint8Array(openable));
  if (typeof openable?.size === "function" && typeof openable.read === "function") return openable;
  throw new InvalidInputError("What can be opened is an address, a File or Blob, a Uint8Array or ArrayBuffer, or an object with size() and read().");
}

/** Reads what the core asks for until it knows every tensor. */
async function readCatalog(core: Core, source: Source, sizeBytes: number, options: ReadOptions, meter: ProgressMeter): Promise<CoreCatalog> {
  const headBytes = Math.min(sizeBytes, core.Opening.headBytes());
  meter.expect(headBytes);
  const head = headBytes > 0 ? await source.read(0, headBytes, options) : new Uint8Array(0);
  const opening = recognise(core, sizeBytes, head);
  let neededBytes = headBytes;
  let finished = false;
  try {
    // The core promises that this ends: each round leaves it fewer tensors to look for.
    for (;;) {
      const ranges = pairs(guarded(() => opening.needs()));
      if (ranges.length === 0) {
        finished = true;
        return guarded(() => opening.finish());
      }
      neededBytes += ranges.reduce((sum, { length }) => sum + length, 0);
      meter.expect(neededBytes);
      await supply(opening, source, ranges, options);
    }
  } finally {
    if (!finished) opening.free();
  }
}

function recognise(core: Core, sizeBytes: number, head: Uint8Array): CoreOpening {
  try {
    return guarded(() => new core.Opening(sizeBytes, head));
  } catch (error) {
    const mistake = error instanceof FormatError ? mistakenFor(head) : undefined;
    throw mistake ? new FormatError(mistake, {}, { cause: error }) : error;
  }
}

interface Range {
  offset: number;
  length: number;
}

function pairs(needs: Float64Array): Range[] {
  return Array.from({ length: needs.length / 2 }, (_, i) => ({ offset: needs[2 * i]!, length: needs[2 * i + 1]! }));
}

async function supply(opening: CoreOpening, source: Source, ranges: Range[], options: ReadOptions): Promise<void> {
  const parts = await sideBySide(options.signal, (signal) =>
    Promise.all(ranges.map(({ offset, length }) => source.read(offset, length, { ...options, signal }))),
  );
  for (const [i, bytes] of parts.entries()) guarded(() => opening.supply(ranges[i]!.offset, bytes));
}
