/** The options of `pack`. */

import type { Effort } from "./frames.js";
import type { Model } from "./model.js";
import type { LocalInput, ModelInput } from "./model-input.js";
import type { OnProgress } from "./progress.js";
import type { HttpOptions } from "./source/http/options.js";

/** The options that `pack` has with and without a base. */
interface CommonOptions {
  /** Aborts packing, which then rejects with the reason of the signal. */
  signal?: AbortSignal;
  /** Called as bytes arrive. */
  onProgress?: OnProgress;
  /** How much time packing spends on a smaller result. `"balanced"` by default. */
  effort?: Effort;
  /**
   * True to write extension frames for tensors that become smaller with them. zstn reads a file with extension frames
   * without an option; z4ai rejects it because of its version. The packed file is then buffered in a `Blob`, and a
   * stream in `to` receives its first bytes only when the whole file has been packed.
   * `false` by default.
   */
  extended?: boolean | undefined;
  /**
   * The name of the file, such as `"model.onnx"`, for a `Blob` or bytes without one. The name determines ONNX and
   * msgpack, whose contents do not, and is in error messages; the packed file does not contain it. By default it is the
   * name of the input.
   */
  name?: string | undefined;
  /** Receives the packed file in chunks. The stream is closed at the end, and aborted if packing fails. */
  to?: WritableStream<Uint8Array> | undefined;
}

/** The options of `pack` without a base that apply to every input. */
export interface PackOptions extends CommonOptions {
  /**
   * True to pack a safetensors file that ends before its tensors do, as one frame, instead of rejecting it (rule
   * `safetensors.truncated`). Such a file is almost always a failed download or copy. `false` by default.
   */
  allowTruncated?: boolean | undefined;
  /**
   * True to store statistics of the tensors, which `model.statistics` returns. They take at most 0.02 % of usual
   * models. `true` by default; deltas have none.
   */
  statistics?: boolean | undefined;
  /**
   * The SHA-256 of the file in 64 hexadecimal digits, such as its Git LFS oid. It is trusted instead of computed. `zstn
   * unpack`, `zstn verify` and other code that restores the whole file compare it, and fail if it is wrong;
   * `asSafetensorsBlob`, which is read by ranges, does not. For a file that breaks the safetensors rules, it is
   * compared during packing.
   */
  sha256?: string | undefined;
  /** The base of a delta: see `PackDeltaOptions`. */
  base?: undefined;
}

/** The options of `pack` with a base that apply to every input. */
export interface PackDeltaOptions<Base extends ModelInput | Model = ModelInput | Model> extends CommonOptions {
  /**
   * The checkpoint that the file is a fine-tune of: only the delta from it is stored. Any input of `open`, plain or
   * packed, in one file or several, or an open model, which may be a delta with its own base. A base that is opened
   * here is read with the same `signal` and `HttpOptions`, but receives `headers` and `token` only if it has the same
   * origin: open it yourself if it needs other options. A model that you pass is not closed.
   */
  base: Base;
}

/** The options of `pack` for an input of type `Input`. `HttpOptions` apply to addresses only. */
export type PackOptionsFor<Input extends ModelInput> = [Input] extends [LocalInput] ? PackOptions : PackOptions & HttpOptions;

/**
 * The options of `pack` with a base. `HttpOptions` apply to addresses only, and secrets only to the address of the file
 * that is packed.
 */
export type PackDeltaOptionsFor<Input extends ModelInput, Base extends ModelInput | Model> = [Input] extends [LocalInput]
  ? [Base] extends [LocalInput | Model]
    ? PackDeltaOptions<Base>
    : PackDeltaOptions<Base> & Omit<HttpOptions, "headers" | "token">
  : PackDeltaOptions<Base> & HttpOptions;

/** All options except the base. */
export type AllPackOptions = CommonOptions & Pick<PackOptions, "allowTruncated" | "statistics" | "sha256"> & HttpOptions;
