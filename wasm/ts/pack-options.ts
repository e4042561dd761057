/** The options of packing. */

import type { Effort } from "./frames.js";
import type { Model } from "./model.js";
import type { LocalInput, ModelInput } from "./model-input.js";
import type { OnProgress } from "./progress.js";
import type { HttpOptions } from "./source/http/options.js";

/** Options of `pack` with and without a base. */
interface CommonOptions {
  /** Stops packing, which then rejects with the reason of the signal. */
  signal?: AbortSignal;
  /** Called as bytes arrive. */
  onProgress?: OnProgress;
  /** How much time to spend on a smaller result. `"balanced"` by default. */
  effort?: Effort;
  /**
   * Whether extension frames are written for tensors that they make smaller. A file with one is read by zstn 0.1 and
   * later; z4ai and older readers refuse it by its version. A stream in `to` then gets its first bytes only when the
   * whole file has been packed, which is kept in a `Blob` until then. `false` by default.
   */
  extended?: boolean | undefined;
  /** Receives the packed file, piece by piece. Closed at the end, and aborted when packing fails. */
  to?: WritableStream<Uint8Array> | undefined;
}

/** Options of `pack` for every input. */
export interface PackOptions extends CommonOptions {
  /**
   * Packs a safetensors file that ends before its tensors do as one frame, instead of refusing it (rule
   * `safetensors.truncated`). Such a file is almost always a failed download or copy.
   */
  allowTruncated?: boolean | undefined;
  /**
   * Whether the packed file gets statistics of its tensors, which `model.statistics` returns. They take at most 0.02 % of
   * usual models. `true` by default; deltas have none.
   */
  statistics?: boolean | undefined;
  /**
   * The SHA-256 of the file in 64 hexadecimal digits, such as its Git LFS oid, which is then not computed but taken on
   * trust. `zstn unpack`, `zstn verify` and whatever else restores the whole file compare it, and fail if it is wrong;
   * `asSafetensorsBlob`, which is read by ranges, does not. A file that breaks the safetensors rules is compared at once.
   */
  sha256?: string | undefined;
  /** For deltas: see `PackDeltaOptions`. */
  base?: undefined;
}

/** Options of `pack` for every input that is packed against a base. */
export interface PackDeltaOptions<Base extends ModelInput | Model = ModelInput | Model> extends CommonOptions {
  /**
   * The checkpoint that the file is a fine-tune of: only the difference is stored. Anything that `open` takes, plain or
   * packed, or an open model, which may be a delta with a base of its own. If it is opened here, it uses the same
   * `signal` and `HttpOptions`, but `headers` and `token` only if it has the same origin: open it yourself where it
   * needs other options. A model that you pass is not closed.
   */
  base: Base;
}

/** The options of `pack` for an input of type `Input`: `HttpOptions` are for addresses. */
export type PackOptionsFor<Input extends ModelInput> = [Input] extends [LocalInput] ? PackOptions : PackOptions & HttpOptions;

/** The options of `pack` with a base: `HttpOptions` are for addresses, and secrets for that of the file that is packed. */
export type PackDeltaOptionsFor<Input extends ModelInput, Base extends ModelInput | Model> = [Input] extends [LocalInput]
  ? [Base] extends [LocalInput | Model]
    ? PackDeltaOptions<Base>
    : PackDeltaOptions<Base> & Omit<HttpOptions, "headers" | "token">
  : PackDeltaOptions<Base> & HttpOptions;

/** All options but the base. */
export type AllPackOptions = CommonOptions & Pick<PackOptions, "allowTruncated" | "statistics" | "sha256"> & HttpOptions;
