/**
 * The errors of this package. Distinguish them by `error.code`, which also works across copies of this package, or by
 * `instanceof`. Copying an error to another thread drops its class and its `code`, so send the `code` separately. An
 * aborted call rejects with the reason of its signal instead.
 */

/** The cause of an error, as a stable string. */
export type ErrorCode =
  | "malformed"
  | "unsupported"
  | "limit"
  | "not_found"
  | "invalid_input"
  | "base_required"
  | "wrong_base"
  | "hub_file"
  | "http"
  | "network"
  | "range_not_supported"
  | "content_encoding"
  | "truncated"
  | "changed"
  | "read"
  | "core"
  | "internal"
  | "worker"
  | "gpu"
  | "closed";

/** The base class of all errors of this package. */
export class ZstnError extends Error {
  /** The name of the class, which minification does not change. */
  override name = "ZstnError";
  /** The cause of the error, as a stable string. */
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/**
 * Returns whether an error has this code. `instanceof` does not recognise errors of another copy of this package, such
 * as the copy in `zstn/hub` on a page without a bundler.
 */
export const hasCode = <Kind extends ZstnError>(error: unknown, code: Kind["code"]): error is Kind => (error as Partial<Kind> | undefined)?.code === code;

/** The place in a file where an error was found. Every field may be unknown. */
export interface ErrorLocation {
  /** The format rule that the file violates, by its name in the format description. */
  rule?: string | undefined;
  /** Position of the error in the file, in bytes. */
  offset?: number | undefined;
  /** Name of the tensor that the error is about. */
  tensor?: string | undefined;
}

abstract class LocatedError extends ZstnError implements ErrorLocation {
  readonly rule: string | undefined;
  readonly offset: number | undefined;
  readonly tensor: string | undefined;

  constructor(code: ErrorCode, message: string, location: ErrorLocation, options?: ErrorOptions) {
    super(code, message, options);
    this.rule = location.rule;
    this.offset = location.offset;
    this.tensor = location.tensor;
  }
}

/** The file is damaged, or its format is unknown. */
export class FormatError extends LocatedError {
  override name = "FormatError";
  constructor(message: string, location: ErrorLocation = {}, options?: ErrorOptions) {
    super("malformed", message, location, options);
  }
}

/** The file may be valid, but uses a feature that this version cannot read. */
export class UnsupportedError extends LocatedError {
  override name = "UnsupportedError";
  constructor(message: string, location: ErrorLocation = {}, options?: ErrorOptions) {
    super("unsupported", message, location, options);
  }
}

/** The file needs more memory or has more tensors than the limits of this package allow. */
export class LimitError extends LocatedError {
  override name = "LimitError";
  constructor(message: string, location: ErrorLocation = {}, options?: ErrorOptions) {
    super("limit", message, location, options);
  }
}

/** The model has no tensor with the requested name. */
export class TensorNotFoundError extends ZstnError {
  override name = "TensorNotFoundError";
  /** The requested name. */
  readonly tensor: string;
  /** Similar names in the model, best match first; may be empty. */
  readonly suggestions: readonly string[];

  constructor(tensor: string, suggestions: readonly string[], message: string) {
    super("not_found", message);
    this.tensor = tensor;
    this.suggestions = suggestions;
  }
}

/** The server responded with an error status. */
export class HttpError extends ZstnError {
  override name = "HttpError";
  /** The HTTP status of the response. */
  readonly status: number;
  /** The full URL of the request. */
  readonly url: string;
  /**
   * The time that the server wants the client to wait before the next attempt, in milliseconds; `undefined` if the
   * response has no such header, or if the page may not read it.
   */
  readonly retryAfterMs: number | undefined;

  constructor(url: string, status: number, message: string, retryAfterMs?: number) {
    super("http", message);
    this.url = url;
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * No response arrived, or it stalled: there is no connection, the host is unknown, the response is invalid, or the
 * browser blocks it (CORS).
 */
export class NetworkError extends ZstnError {
  override name = "NetworkError";
  /** The full URL of the request. */
  readonly url: string;

  constructor(url: string, message: string, options?: ErrorOptions) {
    super("network", message, options);
    this.url = url;
  }
}

/**
 * The server does not support range requests, or answers them incorrectly, and the file is too long to be downloaded
 * whole (`maxFullDownloadBytes`).
 */
export class RangeNotSupportedError extends ZstnError {
  override name = "RangeNotSupportedError";
  /** The full URL of the request. */
  readonly url: string;

  constructor(url: string, message: string) {
    super("range_not_supported", message);
    this.url = url;
  }
}

/**
 * The server sent the file compressed (`Content-Encoding`), so byte positions in the response are not positions in the
 * file.
 */
export class ContentEncodingError extends ZstnError {
  override name = "ContentEncodingError";
  /** The full URL of the request. */
  readonly url: string;

  constructor(url: string, message: string) {
    super("content_encoding", message);
    this.url = url;
  }
}

/** Fewer or more bytes arrived than were requested. */
export class TruncatedError extends ZstnError {
  override name = "TruncatedError";
  /** The requested length, in bytes. */
  readonly expectedBytes: number;
  /** The received length, in bytes. If too many bytes arrive, reading stops and this is the number received until then. */
  readonly receivedBytes: number;

  constructor(expectedBytes: number, receivedBytes: number, message: string, options?: ErrorOptions) {
    super("truncated", message, options);
    this.expectedBytes = expectedBytes;
    this.receivedBytes = receivedBytes;
  }
}

/** The file has changed since it was opened. */
export class SourceChangedError extends ZstnError {
  override name = "SourceChangedError";
  constructor(message: string) {
    super("changed", message);
  }
}

/** A local file or `Blob` could not be read. `cause` is the error of the system. */
export class ReadError extends ZstnError {
  override name = "ReadError";
  constructor(message: string, options?: ErrorOptions) {
    super("read", message, options);
  }
}

/** An argument is invalid. */
export class InvalidInputError extends ZstnError {
  override name = "InvalidInputError";
  constructor(message: string, options?: ErrorOptions) {
    super("invalid_input", message, options);
  }
}

/** The file is a delta (Z4DM) and was opened without a base. */
export class BaseRequiredError extends ZstnError {
  override name = "BaseRequiredError";
  constructor(message: string) {
    super("base_required", message);
  }
}

/** The base that was given is not the one that the delta was made against. */
export class WrongBaseError extends LocatedError {
  override name = "WrongBaseError";
  constructor(message: string, location: ErrorLocation = {}, options?: ErrorOptions) {
    super("wrong_base", message, location, options);
  }
}

/** A WebAssembly module of this package could not be loaded. */
export class CoreLoadError extends ZstnError {
  override name = "CoreLoadError";
  constructor(message: string, options?: ErrorOptions) {
    super("core", message, options);
  }
}

/** The WebAssembly core stopped unexpectedly: it ran out of memory, or it has a bug. */
export class InternalError extends ZstnError {
  override name = "InternalError";
  constructor(message: string, options?: ErrorOptions) {
    super("internal", message, options);
  }
}

/** A worker ended while it was decoding, or its pool was closed. The tensor can be read again. */
export class WorkerError extends ZstnError {
  override name = "WorkerError";
  /** The tensor that was being decoded. */
  readonly tensor: string;

  constructor(message: string, tensor: string, options?: ErrorOptions) {
    super("worker", message, options);
    this.tensor = tensor;
  }
}

/**
 * The model was closed before or during the call, or was lost when the core stopped unexpectedly (`InternalError`).
 * Open it again to read more tensors.
 */
export class ModelClosedError extends ZstnError {
  override name = "ModelClosedError";
  constructor(message = "The model was closed; open it again to read more tensors.") {
    super("closed", message);
  }
}
