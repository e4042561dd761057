/** What both entries export besides `open` and `init`. */

export type { CoreInput, WasmModule } from "./core.js";
export type { TensorData } from "./dtype.js";
export {
  BaseRequiredError,
  CoreLoadError,
  FormatError,
  HttpError,
  InvalidInputError,
  LimitError,
  ModelClosedError,
  NetworkError,
  RangeNotSupportedError,
  ReadError,
  SourceChangedError,
  TensorNotFoundError,
  TruncatedError,
  UnsupportedError,
  ZstnError,
} from "./errors.js";
export type { ErrorCode } from "./errors.js";
export type { Model, TensorOptions } from "./model.js";
export type { Open, Openable, OpenOptions } from "./open.js";
export type { OnProgress, Progress } from "./progress.js";
export type { ReadOptions, Source } from "./source/source.js";
export type { Stats } from "./source/traffic.js";
export type { Tensor, TensorInfo } from "./tensor.js";
