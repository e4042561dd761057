//! Named caps. Every length read from a file is checked against what is left
//! of the file first; these are the bounds that remain.

/// The largest safetensors header, in bytes. This is the official reader's cap;
/// the largest header seen in practice is about 26 MB (1.3 million tensors need
/// 126 MB and are refused by the official reader too).
pub const HEADER_LEN_BYTES: u64 = 100_000_000;

/// The most dimensions of a tensor, in every format. NumPy allows 64,
/// TensorFlow 254, and Gauss files count them in one byte; without a bound one
/// header can describe a shape of 45 million.
pub const DIMENSIONS: usize = 255;

/// The largest window that a zstd frame may declare, in bytes. z4ai writes
/// windows up to 2^27 for planes of 128 MiB and more. The window of a frame in
/// a single segment is its content, which bounds it.
pub const ZSTD_WINDOW_BYTES: u64 = 1 << 27;

/// The largest decoded block of a zstd frame, in bytes (RFC 8878).
pub const ZSTD_BLOCK_BYTES: u64 = 128 << 10;

/// The number of bytes read from the start of a file to recognise it. They hold
/// the whole header of most models of a few hundred tensors.
pub const HEAD_LEN_BYTES: u64 = 32 << 10;

/// The least number of bytes read from the end of a ZSTN file. They also hold
/// the block tables of models of a few hundred MB, so that reading some rows of
/// a tensor does not start with a request for its table.
pub const TAIL_LEN_BYTES: u64 = 32 << 10;

/// The largest checkpoint delta without a trailer, in bytes, that is read whole
/// to find its records. Larger ones take about one request per record, which
/// costs more time the smaller the file is.
pub const DELTA_WHOLE_BYTES: u64 = 4 << 20;

/// The largest gap, in bytes, between two shapes stored as tensors that are
/// read together. Writers of safetensors sort by dtype, so that all shapes of a
/// model, whose dtype nothing else has, are next to each other.
pub const SHAPE_GAP_BYTES: u64 = 16 << 10;

/// The longest tensor name that a ZSTN index can hold, in bytes.
pub const NAME_LEN_BYTES: usize = u16::MAX as usize;

/// Default cap for decoding a single frame whose size nothing else promises,
/// in bytes.
pub const FRAME_DECODED_BYTES: u64 = 1 << 36;

/// The most bytes that a plane may decode to without payload bytes to pay for
/// them: a rANS table of a single symbol repeats it for free. z4ai codes
/// constant planes (float32 that was bfloat16 once) with its order-1 method,
/// whose symbol count has 32 bits.
pub const UNEARNED_PLANE_BYTES: u64 = 1 << 32;

/// The most bytes that a sparse tensor of a zTensor file may expand to for each
/// stored byte: one nonzero element in a thousand or fewer is common for pruned
/// weights, one in a thousand pages is not.
pub const SPARSE_BYTES_PER_BYTE: u64 = 4096;

/// A sparse tensor of up to this many bytes is made dense however little is
/// stored of it.
pub const SPARSE_FREE_BYTES: u64 = 16 << 20;

/// The most weights that a word of a Gauss residual stream can stand for: the
/// likeliest residual takes 0.556 bits (docs/formats/gauss.md 11 check 7).
pub const GAUSS_ELEMENTS_PER_WORD: u64 = 58;

/// The most weights of a Gauss file, all tensors together, beyond those that
/// their words pay for. Only shards that end in a run of clipped residuals have
/// any; files of the reference encoder have none unless a matrix holds values
/// around 1e30, which are lost anyway. A file of any length costs at most 8 MiB
/// and a tenth of a second more than its words are worth.
pub const GAUSS_UNEARNED_ELEMENTS: u64 = 1 << 20;

/// The most patterns in one list of modules of a compressed-tensors
/// configuration. Each is matched against each module; models have tens.
pub const MODULE_PATTERNS: usize = 1024;
