/**
 * Every way `zstn` can refuse, as classes and as strings. Tell errors apart by
 * `error.code` (works across copies of this package and across workers) or by
 * `instanceof`. An aborted call is not listed here: it throws the reason of its signal.
 */

/** What went wrong, as a stable string. */
export type ErrorCode =
  | "malformed"
  | "unsupported"
  | "limit"
  | "not_found"
  | "invalid_input"
  | "base_required"
  | "http"
  | "network"
  | "range_not_supported"
  | "content_encoding"
  | "truncated"
  | "changed"
  | "read"
  | "core"
  | "worker"
  | "closed";

/** The base of all errors this package throws by itself. */
export class ZstnError extends Error {
  /** Name of the class. */
  override name = "ZstnError";
  /** What went wrong, as a stable string. */
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Where in a file a rejection happened; every part may be unknown. */
export interface Place {
  /** The rule of the format that the file breaks, as the format description names it. */
  rule?: string | undefined;
  /** Position in the file, in bytes. */
  offset?: number | undefined;
  /** Name of the tensor concerned. */
  tensor?: string | undefined;
}

abstract class PlacedError extends ZstnError implements Place {
  readonly rule: string | undefined;
  readonly offset: number | undefined;
  readonly tensor: string | undefined;

  constructor(code: ErrorCode, message: string, place: Place, options?: ErrorOptions) {
    super(code, message, options);
    this.rule = place.rule;
    this.offset = place.offset;
    this.tensor = place.tensor;
  }
}

/** The file is damaged, or is no file of a known format. */
export class FormatError extends PlacedError {
  override name = "FormatError";
  constructor(message: string, place: Place = {}, options?: ErrorOptions) {
    super("malformed", message, place, options);
  }
}

/** The file is (or may be) fine, but uses something this version cannot read. */
export class UnsupportedError extends PlacedError {
  override name = "UnsupportedError";
  constructor(message: string, place: Place = {}, options?: ErrorOptions) {
    super("unsupported", message, place, options);
  }
}

/** The file asks for more memory or more tensors than the reader's caps allow. */
export class LimitError extends PlacedError {
  override name = "LimitError";
  constructor(message: string, place: Place = {}, options?: ErrorOptions) {
    super("limit", message, place, options);
  }
}

/** The model has no tensor of that name. */
export class TensorNotFoundError extends ZstnError {
  override name = "TensorNotFoundError";
  /** The name that was asked for. */
  readonly tensor: string;
  /** Names of the model that look alike, best first; may be empty. */
  readonly closeMatches: readonly string[];

  constructor(tensor: string, closeMatches: readonly string[], message: string) {
    super("not_found", message);
    this.tensor = tensor;
    this.closeMatches = closeMatches;
  }
}

/** The server answered, but with an error status. */
export class HttpError extends ZstnError {
  override name = "HttpError";
  /** HTTP status of the answer. */
  readonly status: number;
  /** The address that was asked, complete. */
  readonly url: string;
  /** How long the server asks to wait before the next attempt, in milliseconds; `undefined` when it does not say or a page may not see it. */
  readonly retryAfterMs: number | undefined;

  constructor(url: string, status: number, message: string, retryAfterMs?: number) {
    super("http", message);
    this.url = url;
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

/** No answer came, or it came to a halt: no connection, an unknown host, or a browser that refuses the answer (CORS). */
export class NetworkError extends ZstnError {
  override name = "NetworkError";
  /** The address that was asked, complete. */
  readonly url: string;

  constructor(url: string, message: string, options?: ErrorOptions) {
    super("network", message, options);
    this.url = url;
  }
}

/** The server does not send parts of the file, or other parts than asked for, and the file is too large to be read whole (`wholeFileBytes`). */
export class RangeNotSupportedError extends ZstnError {
  override name = "RangeNotSupportedError";
  /** The address that was asked, complete. */
  readonly url: string;

  constructor(url: string, message: string) {
    super("range_not_supported", message);
    this.url = url;
  }
}

/** The server sent the file compressed (`Content-Encoding`), so that positions in it mean nothing. */
export class ContentEncodingError extends ZstnError {
  override name = "ContentEncodingError";
  /** The address that was asked, complete. */
  readonly url: string;

  constructor(url: string, message: string) {
    super("content_encoding", message);
    this.url = url;
  }
}

/** Fewer bytes (or more) arrived than were asked for. */
export class TruncatedError extends ZstnError {
  override name = "TruncatedError";
  /** Length that was asked for, in bytes. */
  readonly expectedBytes: number;
  /** Length that arrived, in bytes; when too many arrive, as many as were looked at. */
  readonly receivedBytes: number;

  constructor(expectedBytes: number, receivedBytes: number, message: string, options?: ErrorOptions) {
    super("truncated", message, options);
    this.expectedBytes = expectedBytes;
    this.receivedBytes = receivedBytes;
  }
}

/** The file behind the source is not the one that was opened any more. */
export class SourceChangedError extends ZstnError {
  override name = "SourceChangedError";
  constructor(message: string) {
    super("changed", message);
  }
}

/** A local file or `Blob` could not be read. The system's own error is the `cause`. */
export class ReadError extends ZstnError {
  override name = "ReadError";
  constructor(message: string, options?: ErrorOptions) {
    super("read", message, options);
  }
}

/** An argument makes no sense. */
export class InvalidInputError extends ZstnError {
  override name = "InvalidInputError";
  constructor(message: string, options?: ErrorOptions) {
    super("invalid_input", message, options);
  }
}

/** The file is the difference from another checkpoint (Z4DM) and was opened without that one. */
export class BaseRequiredError extends ZstnError {
  override name = "BaseRequiredError";
  constructor(message: string) {
    super("base_required", message);
  }
}

/** The WebAssembly module of this package could not be loaded. */
export class CoreLoadError extends ZstnError {
  override name = "CoreLoadError";
  constructor(message: string, options?: ErrorOptions) {
    super("core", message, options);
  }
}

/** A worker ended while it was decoding, or its pool was closed. What it was asked for can be read again. */
export class WorkerError extends ZstnError {
  override name = "WorkerError";
  /** The tensor it was decoding. */
  readonly tensor: string;

  constructor(message: string, tensor: string, options?: ErrorOptions) {
    super("worker", message, options);
    this.tensor = tensor;
  }
}

/** The model was closed before or during the call. */
export class ModelClosedError extends ZstnError {
  override name = "ModelClosedError";
  constructor() {
    super("closed", "The model was closed; open it again to read more tensors.");
  }
}
