/** The exports that all platform entries have in common. */

export type { ResolveSibling } from "./siblings.js";
export type { Dtype, DtypeArrays, Float16Data, HalfArray, TensorData } from "./dtype.js";
export {
  BaseRequiredError,
  ContentEncodingError,
  CoreLoadError,
  FormatError,
  HttpError,
  InternalError,
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
  WorkerError,
  WrongBaseError,
  ZstnError,
} from "./errors.js";
export { blockScaled, readBlockScaled } from "./block-scaled.js";
export type { BlockScaled, BlockScaledOptions } from "./block-scaled.js";
export type { WorkerPool, WorkerPoolOptions } from "./decode/worker-pool.js";
export type { ErrorCode, ErrorLocation } from "./errors.js";
export { configure } from "./configure.js";
export type { Configuration, WasmFiles } from "./configure.js";
export { compress, compressDelta, decompress, decompressDelta } from "./frames.js";
export type { CompressOptions, DecompressOptions, Effort } from "./frames.js";
export { GpuError } from "./gpu/error.js";
export type { GpuBuffer, GpuDevice, GpuReadOptions, GpuTensor } from "./gpu/target.js";
export type { Model } from "./model.js";
export type { ModelKind } from "./model-kind.js";
export type { BytesInput, HubInput, HubLocation, LocalInput, LocateOptions, ModelInput } from "./model-input.js";
export { open } from "./open.js";
export { workerPool } from "./decode/choose-decoder.js";
export type { BaseInput, OpenOptions, OpenOptionsFor, Verify } from "./open.js";
export { pack } from "./pack.js";
export type { PackDeltaOptions, PackDeltaOptionsFor, PackOptions, PackOptionsFor } from "./pack-options.js";
export type { Packed, PackedOriginal, PackedTensor, PackReport } from "./pack-report.js";
export { unpack } from "./unpack.js";
export type { Unpacked, UnpackOptions, UnpackOptionsFor, UnpackReport } from "./unpack.js";
export type { OnProgress, Progress } from "./progress.js";
export type { ByteCache } from "./source/cache/byte-cache.js";
export { withCache } from "./source/cache/with-cache.js";
export { withCoalescing } from "./source/merging/with-coalescing.js";
export type { CoalesceOptions } from "./source/merging/with-coalescing.js";
export { withRetry } from "./source/with-retry.js";
export type { RetryOptions } from "./source/with-retry.js";
export type { HttpOptions } from "./source/http/options.js";
export { memoryCache } from "./source/cache/memory.js";
export { opfsCache } from "./source/cache/opfs.js";
export type { OpfsCacheOptions } from "./source/cache/opfs.js";
export type { ReadOptions, Sliceable, Source } from "./source/source.js";
export type { StoredCache, StoredCacheOptions } from "./source/cache/stored-cache.js";
export type { AxisSelection, ReadPlan, RowRange } from "./rows.js";
export type { Figures, StatisticsOptions, TensorStatistics } from "./statistics.js";
export type { StreamOptions } from "./stream.js";
export type { Stats } from "./source/traffic.js";
export type { PlanOptions, TensorOptions } from "./tensor-options.js";
export type { StoredPart, StoredPlane, Tensor, TensorInfo, TypedTensor } from "./tensor.js";
export type { BlobReadOptions, SafetensorsBlob } from "./safetensors-view/blob.js";
export type { SafetensorsBlobOptions } from "./safetensors-view/model-file.js";
export type { CoreInput, WasmModule } from "./wasm-input.js";
