//! Named caps. Every length read from a file is checked against what is left
//! of the file first; these are the bounds that remain.

/// Largest safetensors header, in bytes. The official reader's cap; the
/// largest header met in practice is about 26 MB (1.3 million tensors need
/// 126 MB and are refused by the official reader too).
pub const HEADER_LEN_BYTES: u64 = 100_000_000;

/// Most dimensions of a tensor, in every format. NumPy has 64 at most,
/// TensorFlow 254, and Gauss files count them in one byte; without a bound one
/// header can describe a shape of 45 million.
pub const DIMENSIONS: usize = 255;

/// Largest window a zstd frame may declare, in bytes. z4ai writes windows up
/// to 2^27 for planes of 128 MiB and more. A frame in a single segment has
/// its content for window and is bounded by that.
pub const ZSTD_WINDOW_BYTES: u64 = 1 << 27;

/// Largest decoded block of a zstd frame, in bytes (RFC 8878).
pub const ZSTD_BLOCK_BYTES: u64 = 128 << 10;

/// How much of the start of a file is read to recognise it, in bytes. Holds
/// the whole header of most models of a few hundred tensors.
pub const HEAD_LEN_BYTES: u64 = 32 << 10;

/// How much of the end of a ZSTN file is read at the least, in bytes. Holds
/// the block tables, too, of models of a few hundred MB, so that reading some
/// rows of a tensor does not begin with asking for its table.
pub const TAIL_LEN_BYTES: u64 = 32 << 10;

/// Largest checkpoint delta without a seal that is read whole to learn where
/// its records are, in bytes. Larger ones take a request per record or so,
/// which costs more time the fewer bytes there are.
pub const DELTA_WHOLE_BYTES: u64 = 4 << 20;

/// Two shapes that are stored as tensors and lie at most this far apart are
/// read together, in bytes. Writers of safetensors sort by dtype, so that all
/// shapes of a model, whose dtype nothing else has, lie side by side.
pub const SHAPE_GAP_BYTES: u64 = 16 << 10;

/// Longest tensor name a ZSTN index can hold, in bytes.
pub const NAME_LEN_BYTES: usize = u16::MAX as usize;

/// Default cap for decoding a single frame whose size nothing else promises,
/// in bytes.
pub const FRAME_DECODED_BYTES: u64 = 1 << 36;

/// Most bytes a plane may decode to that nothing in its payload pays for: a
/// rANS table of a single symbol repeats it for free. z4ai codes constant
/// planes (float32 that was bfloat16 once) with its order-1 method, whose
/// symbol count has 32 bits.
pub const UNEARNED_PLANE_BYTES: u64 = 1 << 32;

/// Most bytes a sparse tensor of a zTensor file may become for each byte that
/// is stored of it, when it is made dense: one element in a thousand and less
/// is common for pruned weights, one in a thousand pages is not.
pub const SPARSE_BYTES_PER_BYTE: u64 = 4096;

/// A sparse tensor of up to this many bytes is made dense however little is
/// stored of it.
pub const SPARSE_FREE_BYTES: u64 = 16 << 20;

/// Most weights that a word of a Gauss residual stream can stand for: the
/// likeliest residual takes 0.556 bits (docs/formats/gauss.md 11 check 7).
pub const GAUSS_ELEMENTS_PER_WORD: u64 = 58;

/// Most weights of a Gauss file, all of its tensors together, beyond those that
/// their words pay for. Only shards that end in a run of clipped residuals have
/// any; files of the reference encoder have none unless a matrix holds values
/// around 1e30, of which nothing is left. A file of any length costs at most
/// 8 MiB and a tenth of a second more than its words are worth.
pub const GAUSS_UNEARNED_ELEMENTS: u64 = 1 << 20;

/// Most patterns in one list of modules of a compressed-tensors
/// configuration. Each is tried on each module; models name tens.
pub const MODULE_PATTERNS: usize = 1024;
