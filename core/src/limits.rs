//! Named caps. Readers first compare every length in a file with the number of
//! bytes left; the caps in this module cover the remaining cases.

/// The largest safetensors header, in bytes. The official reader has the same
/// cap. The largest header seen in practice has about 26 MB; 1.3 million
/// tensors would need 126 MB, which the official reader refuses as well.
pub const HEADER_LEN_BYTES: u64 = 100_000_000;

/// The largest number of dimensions of a tensor, in every format. NumPy allows
/// 64, TensorFlow 254, and Gauss files count dimensions in one byte. Without a
/// cap, a single header could describe a shape of 45 million dimensions.
pub const DIMENSIONS: usize = 255;

/// The largest window that a zstd frame may declare, in bytes. z4ai writes
/// windows of up to 2^27 bytes for planes of 128 MiB and more. A single-segment
/// frame has no declared window: its content size takes that role.
pub const ZSTD_WINDOW_BYTES: u64 = 1 << 27;

/// The largest decoded block of a zstd frame, in bytes (RFC 8878).
pub(crate) const ZSTD_BLOCK_BYTES: u64 = 128 << 10;

/// The number of bytes read from the start of a file to recognise its format.
/// They contain the whole header of most models with a few hundred tensors.
pub const HEAD_LEN_BYTES: u64 = 32 << 10;

/// The least number of bytes read from the end of a ZSTN file. They also
/// contain the block tables of models of a few hundred MB, so reading some rows
/// of a tensor does not need an extra request for its table.
pub(crate) const TAIL_LEN_BYTES: u64 = 32 << 10;

/// The largest checkpoint delta without a trailer, in bytes, that is read whole
/// to find its records. Finding the records of a larger one takes about one
/// request per record; the smaller the file, the more that costs compared with
/// reading it whole.
pub const DELTA_WHOLE_BYTES: u64 = 4 << 20;

/// The largest gap, in bytes, between two small tensors containing shapes that
/// are fetched in one request. Writers of safetensors sort by dtype, and the
/// shape tensors are usually the only ones of theirs, so all of them are
/// adjacent.
pub(crate) const SHAPE_GAP_BYTES: u64 = 16 << 10;

/// The longest tensor name that a ZSTN index can store, in bytes.
pub const NAME_LEN_BYTES: usize = u16::MAX as usize;

/// The default cap for the decoded size of a single frame, in bytes, where
/// nothing outside the frame states the expected size.
pub const FRAME_DECODED_BYTES: u64 = 1 << 36;

/// The largest decoded size of a plane, in bytes, that is accepted whatever the
/// length of its payload: a rANS table with a single symbol repeats it without
/// consuming payload bytes. z4ai codes constant planes (of float32 converted
/// from bfloat16, for example) with its order-1 method, whose symbol count has
/// 32 bits.
pub(crate) const UNEARNED_PLANE_BYTES: u64 = 1 << 32;

/// The most bytes that a sparse tensor of a zTensor file may expand to per
/// stored byte, or a tensor of a PyTorch file that repeats its elements. Weights
/// pruned to one nonzero element in a thousand stay far below this factor.
pub const SPARSE_BYTES_PER_BYTE: u64 = 4096;

/// The size in bytes up to which such a tensor is made dense, however few bytes
/// are stored for it.
pub const SPARSE_FREE_BYTES: u64 = 16 << 20;

/// The largest number of weights that one word of a Gauss residual stream can
/// encode: the likeliest residual takes 0.556 bits (docs/formats/gauss.md 11
/// check 7).
pub const GAUSS_ELEMENTS_PER_WORD: u64 = 58;

/// The largest number of weights in a Gauss file, over all tensors, beyond
/// those that the number of words accounts for. Only shards that end in a run
/// of clipped residuals have such weights; files of the reference encoder have
/// none unless a matrix contains values around 1e30, which clipping loses
/// anyway. The allowance costs at most 8 MiB and a tenth of a second per file,
/// whatever its length.
pub const GAUSS_UNEARNED_ELEMENTS: u64 = 1 << 20;

/// The largest GGUF header, in bytes, that is read to list a file. The largest
/// one seen in practice has about 14 MB: a tokenizer with 262,000 entries.
pub const GGUF_HEADER_LEN_BYTES: u64 = 256 << 20;

/// The largest number of metadata entries of a GGUF file. Real files have
/// fewer than a hundred.
pub const GGUF_METADATA_ENTRIES: u64 = 1 << 16;

/// The largest number of tensors of a GGUF file. Real files have a few thousand.
pub const GGUF_TENSORS: u64 = 1 << 20;

/// The largest number of other files in which a zTensor file stores tensors.
pub const ZTENSOR_SHARDS: usize = 1 << 16;

/// The longest header of a NumPy array, in bytes.
pub const NPY_HEADER_LEN_BYTES: u64 = 64 << 10;

/// The largest number of tensors of an ONNX model. Real models have a few
/// thousand, most of them small.
pub const ONNX_TENSORS: usize = 1 << 18;

/// The largest number of other files with values of an ONNX model. Some writers
/// make one for each large tensor.
pub const ONNX_FILES: usize = 2048;

/// The largest number of graphs of an ONNX model that are nested in each other.
pub const ONNX_GRAPHS: usize = 32;

/// The largest total length in bytes of all names of an ONNX, a msgpack or an HDF5
/// file, and of the metadata of an HDF5 file. Names of tensors in nested parts contain
/// the names of the parts around them.
pub const JOINED_NAMES_LEN_BYTES: usize = 64 << 20;

/// The largest number of arrays of a msgpack file.
pub const MSGPACK_ARRAYS: usize = 1 << 18;

/// The largest number of maps and lists of a msgpack file that are nested in
/// each other.
pub const MSGPACK_DEPTH: usize = 64;

/// The largest number of plain values of a msgpack file that are shown as
/// metadata.
pub const MSGPACK_VALUES: usize = 4096;

/// The length in bytes at which a text in the metadata of an ONNX or a msgpack file is
/// cut, and from which texts of a Keras model or a tar archive are left out.
pub const TEXT_LEN_BYTES: u64 = 64 << 10;

/// The largest number of tensors of a TensorFlow Lite model.
pub const TFLITE_TENSORS: usize = 1 << 18;

/// The largest number of messages in the header of an HDF5 object.
pub const HDF5_MESSAGES: usize = 1 << 14;

/// The largest number of objects of an HDF5 file, of members of a group, and of
/// chunks of a dataset.
pub const HDF5_OBJECTS: usize = 1 << 18;

/// The largest number of groups of an HDF5 file that are nested in each other.
pub const HDF5_DEPTH: usize = 64;

/// The largest number of levels of an HDF5 tree of version 2, and of blocks of a
/// fractal heap that contain each other.
pub const HDF5_LEVELS: usize = 16;

/// The largest number of symbolic links of an HDF5 file that lead through each other
/// to an object.
pub const HDF5_LINKS: usize = 16;

/// The largest total length in bytes of the targets of symbolic links of an HDF5 file
/// that are followed. A target counts each time that it is followed.
pub const HDF5_TARGETS_LEN_BYTES: usize = 16 << 20;

/// The number of bytes up to which the values of an HDF5 dataset are read, however
/// few of them are stored: the others have the fill value.
pub const HDF5_FREE_BYTES: u64 = 16 << 20;

/// The largest number of bytes of a TensorFlow Lite or HDF5 file that are fetched
/// to find its tensors.
pub const BLOCKS_LEN_BYTES: u64 = 256 << 20;

/// The length in bytes up to which a file is fetched whole where listing its
/// tensors means to follow offsets or lengths in the file: ONNX, msgpack,
/// TensorFlow Lite, HDF5 and tar.
pub const WALKED_WHOLE_BYTES: u64 = 8 << 20;

/// The longest directory of a zip archive, in bytes. A member takes about 60.
pub const ZIP_DIRECTORY_LEN_BYTES: u64 = 64 << 20;

/// The largest number of zip archives and PyTorch files in a tar archive. NeMo stores one.
pub const TAR_ARCHIVES: usize = 16;

/// The largest number of bytes of the records about one member of a tar archive.
pub const TAR_RECORDS_LEN_BYTES: u64 = 1 << 20;

/// The longest pickle of a PyTorch file, in bytes. A tensor takes about 120.
pub const PICKLE_LEN_BYTES: u64 = 256 << 20;

/// The largest number of opcodes and of copied entries of a pickle, counting each
/// tensor that is listed as 24 more. A tensor takes about 75.
pub const PICKLE_OBJECTS: u64 = 1 << 23;

/// The largest depth of containers in the containers of a pickle, in which tensors are
/// searched for.
pub const PICKLE_DEPTH: usize = 64;

/// The largest number of tensors of a PyTorch file.
pub const PYTORCH_TENSORS: usize = 1 << 20;

/// The largest number of values of a PyTorch file other than tensors that are listed.
pub const PYTORCH_METADATA_ENTRIES: usize = 1 << 14;

/// The largest number of patterns in one module list of a compressed-tensors
/// configuration. Each pattern is matched against each module; real models have
/// tens of patterns.
pub const MODULE_PATTERNS: usize = 1024;
